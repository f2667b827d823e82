//! Optional kernel features that observation needs: one source for each, absent if the kernel was built or booted without it.

use crate::source::stateless;
use crate::{Root, Source, SourceError, SourceInfo};
use whyslow_model::snapshot::Snapshot;

const WAIT_CHANNELS: SourceInfo =
    SourceInfo::new("feature/wchan", "what in the kernel a blocked thread waits for").slow();
const RUN_DELAY: SourceInfo = SourceInfo::new("feature/schedstat", "how long each thread waited for a CPU").slow();
const GROUP_CPU: SourceInfo = SourceInfo::new("feature/cgroup.cpu", "CPU quotas and use of control groups").slow();
const GROUP_MEMORY: SourceInfo =
    SourceInfo::new("feature/cgroup.memory", "memory limits and use of control groups").slow();
const GROUP_IO: SourceInfo = SourceInfo::new("feature/cgroup.blkio", "disk limits and use of control groups").slow();
const SCSI_TIMEOUTS: SourceInfo =
    SourceInfo::new("feature/iotmo_cnt", "commands of SCSI disks that timed out and were repeated").slow();

pub(super) fn sources() -> Vec<Box<dyn Source>> {
    vec![
        stateless(WAIT_CHANNELS, |root, _| wait_channels(root)),
        stateless(RUN_DELAY, |root, _| run_delay(root)),
        stateless(GROUP_CPU, |root, _| controller(root, "cpu")),
        stateless(GROUP_MEMORY, |root, _| controller(root, "memory")),
        stateless(GROUP_IO, |root, _| controller(root, "blkio")),
        stateless(SCSI_TIMEOUTS, |root, _: &mut Snapshot| scsi_timeouts(root)),
    ]
}

/// Checks /proc/PID/wchan. kthreadd (2) always sleeps, so it must have a wait channel (fs/proc/base.c: proc_pid_wchan). Users
/// other than root always read `0`.
fn wait_channels(root: &Root) -> Result<(), SourceError> {
    let shows_none = root.word("proc/2/wchan").is_none_or(|channel| channel == "0");
    let is_kthreadd = root.word("proc/2/comm").is_some_and(|name| name == "kthreadd");
    if is_kthreadd && shows_none && root.text("proc/2/stack").is_ok() {
        return Err(SourceError::Absent("this kernel shows no wait channels (/proc/PID/wchan)".into()));
    }
    Ok(())
}

/// Checks /proc/PID/schedstat (Documentation/scheduler/sched-stats.rst).
fn run_delay(root: &Root) -> Result<(), SourceError> {
    if root.at("proc/1/stat").exists() && !root.at("proc/1/schedstat").exists() {
        return Err(SourceError::Absent(
            "this kernel was built without CONFIG_SCHED_INFO (/proc/PID/schedstat)".into(),
        ));
    }
    Ok(())
}

/// Checks a controller (cgroups(7)). In /proc/cgroups, newer kernels list only the controllers that still support version 1.
fn controller(root: &Root, name: &str) -> Result<(), SourceError> {
    let own = if name == "blkio" { "io" } else { name };
    let lists = |path: &str| root.maybe(path).is_some_and(|text| text.split_whitespace().any(|word| word == own));
    if ["", "unified/"].iter().any(|mount| lists(&format!("sys/fs/cgroup/{mount}cgroup.controllers"))) {
        return Ok(());
    }
    let Some(table) = root.maybe("proc/cgroups") else { return Ok(()) };
    let enabled = table.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some(name)).then(|| words.nth(2) == Some("1"))
    });
    match enabled {
        Some(true) => Ok(()),
        Some(false) => Err(SourceError::Absent(format!("the controller {name} is disabled (cgroup_disable={name})"))),
        None => Err(SourceError::Absent(format!("this kernel was built without the controller {name}"))),
    }
}

/// Checks the counts of SCSI timeouts (drivers/scsi/scsi_sysfs.c): kernels before 5.18 count errors, but no timeouts.
fn scsi_timeouts(root: &Root) -> Result<(), SourceError> {
    let counts = |name: &str| {
        root.list("sys/class/scsi_device")
            .iter()
            .any(|device| root.at(format!("sys/class/scsi_device/{device}/device/{name}")).exists())
    };
    if counts("ioerr_cnt") && !counts("iotmo_cnt") {
        return Err(SourceError::Absent("this kernel does not count them (iotmo_cnt)".into()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::CapturedTree;

    fn absent(files: &[(&str, &str)]) -> Vec<(&'static str, String)> {
        let tree = CapturedTree::with_files(files);
        let reports = sources().into_iter().filter_map(|mut source| {
            let (outcome, _) = tree.read(&mut *source);
            outcome.err().map(|error| (source.info().name, error.why().to_owned()))
        });
        reports.collect()
    }

    #[test]
    fn what_a_kernel_lacks_is_named() {
        assert_eq!(absent(&[]), [], "a copy of a few files says nothing of the kernel");
        let all = [
            ("proc/cgroups", "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t0\t9\t1\nmemory\t0\t9\t0\n"),
            ("proc/2/comm", "kthreadd\n"),
            ("proc/2/wchan", "0"),
            ("proc/2/stack", "[<0>] kthreadd+0x1/0x2\n"),
            ("proc/1/stat", "1 (init) S\n"),
            ("sys/class/scsi_device/0:0:0:0/device/ioerr_cnt", "0x1\n"),
        ];
        let found = absent(&all);
        let names: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
        let expected = [
            "feature/wchan",
            "feature/schedstat",
            "feature/cgroup.memory",
            "feature/cgroup.blkio",
            "feature/iotmo_cnt",
        ];
        assert_eq!(names, expected);
        assert_eq!(found[2].1, "the controller memory is disabled (cgroup_disable=memory)");
    }

    #[test]
    fn a_controller_of_version_2_need_not_be_one_of_version_1() {
        let tables = [("proc/cgroups", "cpu\t0\t9\t1\n"), ("sys/fs/cgroup/cgroup.controllers", "cpu io memory\n")];
        assert_eq!(absent(&tables), []);
    }

    #[test]
    fn a_kernel_that_has_everything_lacks_nothing() {
        let all = [
            ("proc/cgroups", "cpu\t0\t9\t1\nmemory\t0\t9\t1\nblkio\t0\t9\t1\n"),
            ("proc/2/comm", "kthreadd\n"),
            ("proc/2/wchan", "kthreadd"),
            ("proc/2/stack", "[<0>] kthreadd+0x1/0x2\n"),
            ("proc/1/stat", "1 (init) S\n"),
            ("proc/1/schedstat", "1 2 3\n"),
            ("sys/class/scsi_device/0:0:0:0/device/ioerr_cnt", "0x1\n"),
            ("sys/class/scsi_device/0:0:0:0/device/iotmo_cnt", "0x1\n"),
        ];
        assert_eq!(absent(&all), []);
    }
}
