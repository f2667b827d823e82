//! `bench fs --log-device`: compares a file system with an internal log and with the same log on a separate device.
//!
//! File systems are created on both devices, so both are guarded like a device that is overwritten. They are mounted in
//! a mount namespace of this program, so that no mount remains, however the program ends.

use super::mount_point::{MountPoint, run, run_patiently};
use super::{buffered, small_files};
use crate::bench_session::BenchSession;
use crate::target::{BenchTarget, StorageMap, TargetSpec};
use crate::{Error, Progress, Result, Stop};
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use whyslow_documents::bench::{BenchKind, BenchReport, Measurement, Median, Study, SyncPolicy, TargetInfo, Workload};
use whyslow_model::human;
use whyslow_sense::Root;

/// Options of the journal layout comparison.
#[derive(Clone, Debug)]
pub struct JournalOptions {
    /// Block device for the file systems.
    pub data: PathBuf,
    /// Block device for their log.
    pub log: PathBuf,
    /// Serial numbers of devices that may be overwritten.
    pub destroy: Vec<String>,
    /// File systems to measure; empty for all whose programs are installed.
    pub kinds: Vec<JournaledFs>,
    /// Size of the streamed file, bytes.
    pub size: u64,
    /// Number of small files.
    pub files: u32,
    /// Seed of random orders.
    pub seed: u64,
}

/// A file system whose log may be on another device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournaledFs {
    /// XFS.
    Xfs,
    /// ext4.
    Ext4,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogPlace {
    Internal,
    External,
}

const KINDS: [JournaledFs; 2] = [JournaledFs::Xfs, JournaledFs::Ext4];
const PLACES: [LogPlace; 2] = [LogPlace::Internal, LogPlace::External];
/// Minimum number of pairs for which the full range is a confidence interval of the median of at least 95 %.
const PAIRS: usize = 6;
/// Log size, the same in both places; both file systems choose it for a few gigabytes.
const LOG: u64 = 64 << 20;
const BLOCK: u64 = 4096;
/// Space for each small file: its block, and its inode at the default ratio of mkfs.ext4 (one in 16 KiB).
const EACH_FILE: u64 = 20 << 10;
/// Minimum file system size: mkfs.xfs refuses less than 300 MiB.
const SMALLEST: u64 = 512 << 20;
/// Maximum file system size: a larger one only takes longer to create.
const LARGEST: u64 = 16 << 30;
/// Minimum speedup for a log device to be worth it.
const WORTH: f64 = 1.05;
const STREAM: u32 = super::STREAM;

/// Rates measured for each layout.
const WORK: [(&str, &str); 3] =
    [("large streams", "bytes/s"), ("creating small files", "1/s"), ("small files that are each synced", "1/s")];
const METHOD: &str = "Pairs of file systems made afresh, with a log of 64 MiB in either place, in alternating order. A file is \
    written in blocks of 128 KiB and synced; files of 1 KiB are created and the file system is synced; others are created, each \
    synced with its folder.";

/// Compares both layouts. If stopped early, reports the results so far. Must run in the program's main thread, so that
/// /proc/self shows the mounts.
///
/// # Errors
/// Fails if a device must not be overwritten or is too small, or if no file system can be created.
pub fn compare(options: &JournalOptions, stop: &Stop, progress: &mut dyn FnMut(Progress)) -> Result<BenchReport> {
    let size = options.size / u64::from(STREAM) * u64::from(STREAM);
    if size == 0 {
        return Err(Error::new("--size is too small to stream through: choose at least 128K"));
    }
    let mut session = BenchSession::begin(stop, progress);
    let [data, log] = devices(&mut session, options)?;
    let bytes = file_system_size(&data, &log, size, options.files)?;
    let kinds = kinds(&mut session, options)?;
    add_shared_disk_caveat(&mut session, &data, &log);
    let mut layouts = Layouts {
        mount: MountPoint::new()?,
        session: &mut session,
        options,
        bytes,
        size,
        names: [&data, &log].map(|target| format!("/dev/{}", target.device.as_deref().unwrap_or_default())),
    };
    let mut studies = Vec::new();
    for kind in kinds {
        let samples = layouts.pairs(kind)?;
        studies.extend(study(kind, &samples, &layouts.names[1]));
    }
    drop(layouts);
    session.closed = vec![data, log];
    Ok(BenchReport { studies, ..session.finish(BenchKind::Fs) })
}

/// Checks both devices as if they were to be written now, then releases them for mkfs. Other paths to their data stay
/// claimed.
fn devices(session: &mut BenchSession, options: &JournalOptions) -> Result<[TargetInfo; 2]> {
    let paths = [&options.data, &options.log];
    let mut names = Vec::new();
    for path in paths {
        let meta = fs::metadata(path).map_err(|e| Error::at(path, "cannot be opened", &e))?;
        if !meta.file_type().is_block_device() {
            let path = path.display();
            return Err(Error::new(format!(
                "{path} is not a block device: with --log-device, file systems are made on two devices; name both"
            )));
        }
        names.extend(session.map.device_of(path));
    }
    if let [data, log] = &names[..]
        && session.map.have_common_data(data, log)
    {
        let [data, log] = paths.map(|path| path.display());
        return Err(Error::new(format!(
            "{log} has the same data as {data}, or a part of it: name another device for the log"
        )));
    }
    // The first stays open, so that two names cannot lead to the same device.
    let opened: Vec<BenchTarget> = paths.into_iter().map(|path| open(session, path, options)).collect::<Result<_>>()?;
    let mut abouts = Vec::new();
    for target in opened {
        session.guards.extend(target.guards);
        abouts.push(target.about);
    }
    abouts.try_into().map_err(|_| Error::new("a device has vanished"))
}

fn open(session: &mut BenchSession, path: &Path, options: &JournalOptions) -> Result<BenchTarget> {
    let identity = session.map.device_of(path).map(|device| session.map.identity(&device));
    let typed = options.destroy.iter().find(|typed| Some(*typed) == identity.as_ref());
    session.claim(&TargetSpec {
        path: path.to_owned(),
        write: true,
        direct: false,
        destroy: typed.cloned(),
        in_use: false,
        size: 0,
    })
}

/// Returns the space that the load needs, or more if the device has it: on a disk, the internal log lies in the middle.
fn file_system_size(data: &TargetInfo, log: &TargetInfo, size: u64, files: u32) -> Result<u64> {
    let too_small = |target: &TargetInfo, need: u64, what: &str, advice: &str| {
        let (path, has, need) = (&target.path, human::bytes(target.bytes), human::bytes(need));
        Err(Error::new(format!("{path} has {has}, but {what} needs {need}: {advice}")))
    };
    if log.bytes < LOG {
        return too_small(log, LOG, "the log", "name a larger device");
    }
    let content = size.saturating_add(u64::from(files) * EACH_FILE).saturating_add(2 * LOG);
    let need = content.saturating_add(content / 4).max(SMALLEST);
    if data.bytes < need {
        return too_small(data, need, "the file system", "choose a smaller --size, fewer --files or a larger device");
    }
    Ok(data.bytes.min(need.max(LARGEST)) / (1 << 20) * (1 << 20))
}

/// Returns the file systems whose programs are installed; fails if a requested one is not.
fn kinds(session: &mut BenchSession, options: &JournalOptions) -> Result<Vec<JournaledFs>> {
    let mut kinds = if options.kinds.is_empty() { KINDS.to_vec() } else { options.kinds.clone() };
    let is_installed = |kind: &JournaledFs| {
        let mut version = Command::new(kind.program());
        version.arg("-V").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    };
    let missing: Vec<JournaledFs> = kinds.iter().copied().filter(|kind| !is_installed(kind)).collect();
    kinds.retain(|kind| !missing.contains(kind));
    let what = |kind: JournaledFs| format!("{} is not measured: {} is not installed", kind.name(), kind.program());
    if let Some(&first) = missing.first().filter(|_| kinds.is_empty() || !options.kinds.is_empty()) {
        return Err(Error::new(what(first)));
    }
    missing.into_iter().for_each(|kind| session.add_caveat(&what(kind)));
    Ok(kinds)
}

/// Adds a caveat if the log shares a disk with its file system and so competes with it.
fn add_shared_disk_caveat(session: &mut BenchSession, data: &TargetInfo, log: &TargetInfo) {
    let stack = |target: &TargetInfo| -> Vec<String> { target.device.iter().chain(&target.below).cloned().collect() };
    let data_on = stack(data);
    if let Some(shared) = stack(log).iter().find(|device| data_on.contains(device)) {
        let (data, log) = (&data.path, &log.path);
        session.add_caveat(&format!("{data} and {log} both lie on {shared}: the log competes with the data there"));
    }
}

struct Layouts<'s, 'w> {
    mount: MountPoint,
    session: &'s mut BenchSession<'w>,
    options: &'s JournalOptions,
    /// Size of a file system in bytes.
    bytes: u64,
    /// Size of the streamed file in bytes.
    size: u64,
    /// Device nodes of the data and the log device.
    names: [String; 2],
}

/// Rate of each item in [`WORK`].
type Rates = [f64; WORK.len()];

impl Layouts<'_, '_> {
    /// Measures both layouts in turn; leaves out a pair that was not completed.
    fn pairs(&mut self, kind: JournaledFs) -> Result<Vec<[Rates; 2]>> {
        let mut pairs = Vec::new();
        for pair in 0..PAIRS {
            let mut rates = [Rates::default(); 2];
            for step in 0..PLACES.len() {
                // Alternate the order, so that drift affects both layouts alike.
                let at = if pair % 2 == 0 { step } else { PLACES.len() - 1 - step };
                let doing = format!("{}, {}, {} of {PAIRS}", kind.name(), PLACES[at].name(), pair + 1);
                if !self.session.proceed_to(&doing) {
                    return Ok(pairs);
                }
                match self.measure(kind, PLACES[at]) {
                    Ok(Some(found)) => rates[at] = found,
                    // Ctrl-C also ends the mkfs program.
                    Ok(None) | Err(_) if self.session.stop.is_asked() => return Ok(pairs),
                    Ok(None) => return Ok(pairs),
                    Err(e) => return Err(e),
                }
            }
            pairs.push(rates);
        }
        Ok(pairs)
    }

    /// Creates a file system and measures it. Returns `None` if stopped before the end.
    fn measure(&mut self, kind: JournaledFs, place: LogPlace) -> Result<Option<Rates>> {
        let [data, log] = &self.names;
        kind.make(place, data, log, self.bytes)?;
        let mut mount = vec!["-t", kind.name()];
        let with_log = format!("logdev={log}");
        if kind == JournaledFs::Xfs && place == LogPlace::External {
            mount.extend(["-o", &with_log]);
        }
        let point = self.mount.path().to_owned();
        let name = point.to_string_lossy();
        mount.extend([data.as_str(), &name]);
        run("mount", &mount)?;
        let rates = self.work(&point);
        self.mount.unmount()?;
        rates
    }

    fn work(&mut self, point: &Path) -> Result<Option<Rates>> {
        let stream = self.stream(point)?;
        let files = small_files::synced_rates(point, self.options.files, self.options.seed, self.session)?;
        Ok(files.filter(|_| !self.session.stop.is_asked()).map(|[created, synced]| [stream, created, synced]))
    }

    fn stream(&mut self, point: &Path) -> Result<f64> {
        let spec = TargetSpec {
            path: point.to_owned(),
            write: true,
            direct: false,
            destroy: None,
            in_use: false,
            size: self.size,
        };
        let target = BenchTarget::open(&StorageMap::new(Root::live()), &spec)?;
        let load = Workload {
            reads: 0.0,
            sync: Some(SyncPolicy { every: None, data_only: false }),
            bytes: Some(self.size),
            ..buffered(STREAM, self.size)
        };
        let run = self.session.run_apart("writing a stream", target.file, load)?;
        match (run.failed, run.write) {
            (Some(why), _) => Err(Error::new(format!("{}: {why}", point.display()))),
            (None, write) => Ok(write.map_or(0.0, |write| write.bandwidth)),
        }
    }
}

impl LogPlace {
    fn name(self) -> &'static str {
        match self {
            Self::Internal => "internal log",
            Self::External => "external log",
        }
    }
}

impl JournaledFs {
    fn name(self) -> &'static str {
        match self {
            Self::Xfs => "xfs",
            Self::Ext4 => "ext4",
        }
    }

    fn program(self) -> &'static str {
        match self {
            Self::Xfs => "mkfs.xfs",
            Self::Ext4 => "mkfs.ext4",
        }
    }

    /// Creates a file system, without discarding first and without deferring initialization, which would distort the
    /// measurement. The mkfs programs refuse a device that came into use in the meantime.
    fn make(self, place: LogPlace, data: &str, log: &str, bytes: u64) -> Result<()> {
        let program = self.program();
        match self {
            Self::Xfs => {
                let at = match place {
                    LogPlace::Internal => "internal".to_owned(),
                    LogPlace::External => format!("logdev={log}"),
                };
                let (log, size) = (format!("{at},size={LOG}"), format!("size={bytes}"));
                run_patiently(program, &["-q", "-f", "-K", "-d", &size, "-l", &log, data])
            }
            Self::Ext4 => {
                let at = match place {
                    LogPlace::Internal => format!("size={}", LOG >> 20),
                    LogPlace::External => {
                        let (block, blocks) = (BLOCK.to_string(), (LOG / BLOCK).to_string());
                        let journal = ["-q", "-F", "-b", &block, "-E", "nodiscard", "-O", "journal_dev", log, &blocks];
                        run_patiently(program, &journal)?;
                        format!("device={log}")
                    }
                };
                let (block, blocks) = (BLOCK.to_string(), (bytes / BLOCK).to_string());
                let whole = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
                run_patiently(program, &["-q", "-F", "-b", &block, "-E", whole, "-J", &at, data, &blocks])
            }
        }
    }
}

/// Returns the rates of both layouts, with a sentence on whether the log device is worth it. `log` is its device node.
fn study(kind: JournaledFs, pairs: &[[Rates; 2]], log: &str) -> Option<Study> {
    let mut study = Study {
        name: format!("journal layout of {}", kind.name()),
        target: Some(0),
        method: METHOD.into(),
        ..Study::default()
    };
    let mut gains = Vec::new();
    for (at, (what, unit)) in WORK.into_iter().enumerate() {
        for (place, which) in PLACES.into_iter().enumerate() {
            let samples = pairs.iter().map(|pair| pair[place][at]).collect();
            study.figures.extend(Measurement::from_samples(what, which.name(), unit, samples));
        }
        let ratios = pairs.iter().map(|[internal, external]| external[at] / internal[at]);
        gains.extend(Median::from_samples(ratios.filter(|ratio| ratio.is_finite()).collect()).map(|gain| (what, gain)));
    }
    study.findings.push(verdict(&format!("{} with its log on {log}", kind.name()), &gains));
    (!study.figures.is_empty()).then_some(study)
}

/// Says for which work a log device is worth it, judged by the ratio of the rates with and without it.
fn verdict(what: &str, gains: &[(&str, Median)]) -> String {
    let (mut worth, mut not, mut unclear) = (Vec::new(), Vec::new(), Vec::new());
    for (work, gain) in gains {
        let Some([low, high]) = gain.interval else {
            return format!("{what}: too few repetitions to say whether the log device is worth it.");
        };
        let group = match () {
            () if low >= WORTH => &mut worth,
            () if high < WORTH => &mut not,
            () => &mut unclear,
        };
        group.push(format!("{work} ({:.2} times as fast, {low:.2} to {high:.2})", gain.value));
    }
    let groups = [("worth it for", worth), ("not worth it for", not), ("too much spread to tell for", unclear)];
    let part =
        |(words, works): (&str, Vec<String>)| (!works.is_empty()).then(|| format!("{words} {}", works.join(", ")));
    format!("{what}: {}.", groups.into_iter().filter_map(part).collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn device(path: &str, bytes: u64) -> TargetInfo {
        TargetInfo { path: path.into(), bytes, ..TargetInfo::default() }
    }

    #[test]
    fn the_verdict_follows_from_the_spread_of_the_gain() {
        // Streams gain 0 to 4 %, created files lose or gain, synced ones are at least 1.7 times as fast.
        let external = [[100.0, 80.0, 170.0], [101.0, 90.0, 180.0], [102.0, 100.0, 190.0], [103.0, 110.0, 190.0]];
        let external = external.into_iter().chain([[104.0, 120.0, 200.0], [104.0, 130.0, 210.0]]);
        let pairs: Vec<[Rates; 2]> = external.map(|external| [[100.0; 3], external]).collect();
        let study = study(JournaledFs::Xfs, &pairs, "/dev/sdc").unwrap();
        assert_eq!(
            study.findings,
            [
                "xfs with its log on /dev/sdc: worth it for small files that are each synced (1.90 times as fast, 1.70 to 2.10); \
              not worth it for large streams (1.02 times as fast, 1.00 to 1.04); too much spread to tell for creating small \
              files (1.05 times as fast, 0.80 to 1.30)."
            ]
        );
        assert_eq!(
            (study.figures.len(), study.figures[1].under.as_str(), study.figures[1].value),
            (6, "external log", 102.5)
        );
        let few = super::study(JournaledFs::Xfs, &pairs[..5], "/dev/sdc").unwrap();
        assert!(few.findings[0].contains("too few repetitions"), "{:?}", few.findings);
        assert_eq!(super::study(JournaledFs::Xfs, &[], "/dev/sdc"), None);
    }

    #[test]
    fn devices_that_are_too_small_are_refused() {
        let size = |data: u64, log: u64| {
            file_system_size(&device("/dev/sdb", data), &device("/dev/sdc", log), 256 * MIB, 1000)
        };
        let small = size(1024 * MIB, 63 * MIB).unwrap_err().to_string();
        assert!(small.starts_with("/dev/sdc has 63 MiB, but the log needs 64 MiB"), "{small}");
        let small = size(511 * MIB, 64 * MIB).unwrap_err().to_string();
        assert!(small.starts_with("/dev/sdb has 511 MiB, but the file system needs 512 MiB"), "{small}");
        assert_eq!(size(1024 * MIB + 5, 64 * MIB), Ok(1024 * MIB));
        assert_eq!(size(1 << 40, 64 * MIB), Ok(LARGEST));
    }
}
