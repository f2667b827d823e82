//! Control groups, version 1, 2 and mixed, in one form (Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/).
//!
//! Every hierarchy is walked, and each directory adds its values to the row of its path: on a machine with v1, five hierarchies
//! make one row. If v1 and v2 both have a value, v1's wins: on a mixed machine v1 has the controllers. A value includes the
//! descendants, and that of the root cgroup (`/`) the whole machine, so rows must not be summed.
//!
//! A machine can have thousands of cgroups, most of them idle, each with thirty files. Limits are therefore read only
//! occasionally. A cgroup in which no task ran or stalled since the last sample keeps its row, unless its pages are still being
//! written back. The row of an active cgroup must not be kept: the growth of its counters meanwhile would be attributed to a
//! single sample.

mod files;
mod hierarchy;
mod interference;
#[cfg(test)]
pub(crate) mod live_tests;
mod rows;
#[cfg(test)]
mod tree_tests;
mod v1;
mod v2;

pub(crate) use hierarchy::block_groups;

use crate::{Root, Source, SourceError, SourceInfo};
use files::CgroupDir;
use hierarchy::{CgroupHierarchy, Hierarchies, Version, require_mounted};
use rows::{DeviceNames, GroupRows};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};
use whyslow_model::catalogue::HiddenGroups;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::State;

const LIMITS_TTL: Duration = Duration::from_secs(30);
/// Time for which rows of idle cgroups are kept: others can reclaim their memory and start to write back their pages.
const IDLE_TTL: Duration = Duration::from_secs(10);

pub(crate) fn sources() -> Vec<Box<dyn Source>> {
    vec![Box::<Cgroups>::default(), interference::cpu(), interference::network()]
}

#[derive(Default)]
struct Cgroups {
    hierarchies: Hierarchies,
    groups: BTreeMap<String, TrackedGroup>,
}

impl Source for Cgroups {
    fn info(&self) -> SourceInfo {
        SourceInfo::new("sys/fs/cgroup", "usage and limits of cgroups")
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
        let refreshed = self.hierarchies.refresh(root);
        let hidden = self.hierarchies.hidden(root);
        if root.is_live() {
            out.cgroup.hidden_groups.push(hidden_groups(&hidden));
        }
        if refreshed? {
            self.update_groups();
        }
        let mut devices = DeviceNames::new(root);
        let mut denied = None;
        let mut gone = false;
        for group in self.groups.values_mut() {
            group.refresh(root, &mut devices, &mut denied);
            group.rows.copy_to(out);
            gone |= !group.rows.exist();
        }
        if gone {
            self.hierarchies.invalidate();
        }
        denied.map_or(Ok(()), Err)?;
        require_mounted(&hidden)
    }
}

impl Cgroups {
    /// Collects the directories by cgroup path; cgroups that still exist keep their state.
    fn update_groups(&mut self) {
        let mut before = std::mem::take(&mut self.groups);
        for listed in &self.hierarchies.all {
            for below in &listed.groups {
                let directory = Directory::new(&listed.hierarchy, below);
                self.groups.entry(listed.hierarchy.group(below)).or_default().directories.push(directory);
            }
        }
        let paths = |group: &TrackedGroup| group.directories.iter().map(|d| d.path.clone()).collect::<Vec<_>>();
        for (path, group) in &mut self.groups {
            match before.remove(path) {
                Some(old) if paths(&old) == paths(group) => *group = old,
                _ => group.path.clone_from(path),
            }
        }
    }
}

/// Counts hidden groups of the controllers that count CPU time and enforce quotas. Hidden groups of memory and disks show up in
/// the waits of the whole machine.
fn hidden_groups(hidden: &[(&str, u64)]) -> HiddenGroups {
    let of_cpu = hidden.iter().filter(|(controller, _)| ["cpu", "cpuacct"].contains(controller));
    let cpu = of_cpu.map(|(_, count)| *count).max().unwrap_or(0).into();
    HiddenGroups { cpu, ..HiddenGroups::default() }
}

/// The directory of a cgroup in one hierarchy.
struct Directory {
    path: String,
    version: Version,
    /// Enabled controllers (version 2).
    enabled: v2::Controllers,
}

impl Directory {
    fn new(hierarchy: &CgroupHierarchy, below: &str) -> Self {
        let (path, version) = (hierarchy.directory(below), hierarchy.version.clone());
        Self { path, version, enabled: v2::Controllers::default() }
    }
}

#[derive(Default)]
struct TrackedGroup {
    path: String,
    directories: Vec<Directory>,
    limits: GroupRows,
    limits_read: Option<Instant>,
    rows: GroupRows,
    rows_read: Option<Instant>,
    /// No I/O was done for it between its last two readings.
    is_settled: bool,
    /// CPU time and stall time at the last sample; empty if no hierarchy has them.
    activity: Vec<u64>,
    is_root: bool,
}

impl TrackedGroup {
    /// Reads the rows that may have changed.
    fn refresh(&mut self, root: &Root, devices: &mut DeviceNames<'_>, denied: &mut Option<SourceError>) {
        let idle = !self.is_root && self.is_idle(root);
        if idle && self.is_settled && self.rows_read.is_some_and(|at| at.elapsed() < IDLE_TTL) {
            return;
        }
        let mut limits_are_new = false;
        if self.limits_read.is_none_or(|at| at.elapsed() >= LIMITS_TTL) {
            self.read_limits(root, devices, denied);
            limits_are_new = true;
        }
        let polled = !idle && self.rows_read.is_some();
        let before = self.rows.clone();
        if !self.read_usage(root, devices, denied, polled) && !limits_are_new {
            // The cgroup was removed, and its limits with it.
            self.read_limits(root, devices, denied);
            self.rows = self.limits.clone();
        }
        self.is_settled = idle && self.rows.has_io_of(&before);
        self.rows_read = Some(Instant::now());
    }

    /// Whether no task of the cgroup, or of a descendant, ran or stalled since the last call.
    fn is_idle(&mut self, root: &Root) -> bool {
        let activity = self.read_activity(root);
        let idle = !activity.is_empty() && activity == self.activity;
        self.activity = activity;
        idle
    }

    /// Reads counters that grow whenever a task of the cgroup, or of a descendant, runs or stalls.
    fn read_activity(&self, root: &Root) -> Vec<u64> {
        let mut activity = Vec::new();
        let only_one = self.directories.len() == 1;
        for directory in &self.directories {
            let mut files = CgroupDir::polled(root, &directory.path);
            match &directory.version {
                Version::V1 { controllers } if only_one && controllers == &["memory"] => {
                    v1::memory_activity(&mut files, &mut activity);
                }
                Version::V1 { controllers } => activity.extend(v1::cpu_usage(controllers, &mut files)),
                Version::V2 => v2::activity(&mut files, &mut activity),
            }
        }
        activity
    }

    fn read_limits(&mut self, root: &Root, devices: &mut DeviceNames<'_>, denied: &mut Option<SourceError>) {
        self.limits = GroupRows::new(&self.path);
        for directory in &mut self.directories {
            let mut files = CgroupDir::new(root, &directory.path);
            self.is_root = match &directory.version {
                Version::V1 { controllers } => {
                    v1::limits(controllers, &mut files, &mut self.limits, devices);
                    v1::is_root(&mut files)
                }
                Version::V2 => {
                    directory.enabled = v2::limits(&mut files, &mut self.limits, devices);
                    v2::is_root(&mut files)
                }
            };
            note_outcome(files, &directory.version, &mut self.limits, denied);
        }
        self.limits_read = Some(Instant::now());
    }

    /// Reads the usage. Returns whether there was anything to read.
    fn read_usage(
        &mut self,
        root: &Root,
        devices: &mut DeviceNames<'_>,
        denied: &mut Option<SourceError>,
        polled: bool,
    ) -> bool {
        self.rows = self.limits.clone();
        let mut any = false;
        for directory in &self.directories {
            let open = if polled { CgroupDir::polled } else { CgroupDir::new };
            let mut files = open(root, &directory.path);
            match &directory.version {
                Version::V1 { controllers } => v1::usage(controllers, &mut files, &mut self.rows, devices),
                Version::V2 => v2::usage(&directory.enabled, &mut files, &mut self.rows, devices),
            }
            any |= note_outcome(files, &directory.version, &mut self.rows, denied);
        }
        self.rows.group.identity = self.identity(root);
        any
    }

    /// Returns the inodes of its directories, which differ if a cgroup is removed and created again under the same name. In a
    /// captured tree they are not the kernel's.
    fn identity(&self, root: &Root) -> State {
        if !root.is_live() {
            return State::default();
        }
        let inode = |directory: &Directory| Some(fs::metadata(root.at(&directory.path)).ok()?.ino().to_string());
        let inodes: Vec<String> = self.directories.iter().filter_map(inode).collect();
        (!inodes.is_empty()).then(|| inodes.join(" ")).into()
    }
}

/// Records the outcome of reading a directory. Returns whether it had any file.
fn note_outcome(
    files: CgroupDir<'_>,
    version: &Version,
    rows: &mut GroupRows,
    denied: &mut Option<SourceError>,
) -> bool {
    if files.found {
        rows.note_version(version.name());
    }
    if denied.is_none() {
        *denied = files.denied;
    }
    files.found
}
