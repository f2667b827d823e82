//! State of a device-mapper target: the text after its name in `dmsetup status`, and the answer to the ioctl
//! DM_TABLE_STATUS (Documentation/admin-guide/device-mapper; drivers/md/dm-*.c: the `status` functions).

use whyslow_model::catalogue::{Array, Volume};

/// Names of targets, and the kinds of devices that they create.
const KINDS: [(&str, &str); 19] = [
    ("linear", "linear"),
    ("striped", "striped"),
    ("crypt", "crypt"),
    ("verity", "verity"),
    ("integrity", "integrity"),
    ("delay", "delay"),
    ("error", "error"),
    ("zero", "zero"),
    ("mirror", "mirror"),
    ("raid", "raid"),
    ("multipath", "multipath"),
    ("snapshot", "snapshot"),
    ("snapshot-merge", "snapshot"),
    ("snapshot-origin", "origin of a snapshot"),
    ("thin", "thin volume"),
    ("thin-pool", "thin pool"),
    ("cache", "cache"),
    ("writecache", "write cache"),
    ("vdo", "VDO pool"),
];
/// Modes in which a cache treats writes (Documentation/admin-guide/device-mapper/cache.rst).
const CACHE_MODES: [&str; 3] = ["writeback", "writethrough", "passthrough"];
const FAILED: &str = "it failed: every read and write returns an error";

/// Returns the kind of device that a target creates; `None` if unknown.
pub fn kind(target: &str) -> Option<&'static str> {
    KINDS.iter().find(|(name, _)| *name == target).map(|(_, kind)| *kind)
}

/// The state of a target.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TargetStatus<'w> {
    /// Reason why it does not work properly.
    pub failure: Option<&'static str>,
    /// Used share of a thin pool, of a snapshot's space for changes, or of a cache.
    pub data_used: Option<f64>,
    /// Used share of the space for metadata.
    pub metadata_used: Option<f64>,
    /// Share of a cache that is not yet written to the slow device.
    pub dirty: Option<f64>,
    /// State of a RAID.
    pub raid: Option<RaidStatus<'w>>,
    /// Paths of a multipath device.
    pub paths: Vec<PathStatus<'w>>,
}

impl TargetStatus<'_> {
    /// Sets the state of the device. If a device has several targets, targets without a value leave it unchanged.
    pub fn apply_to(&self, volume: &mut Volume) {
        let shares = [
            (&mut volume.data_used, self.data_used),
            (&mut volume.metadata_used, self.metadata_used),
            (&mut volume.dirty, self.dirty),
        ];
        for (gauge, share) in shares.into_iter().filter(|(_, share)| share.is_some()) {
            *gauge = share.into();
        }
        if self.failure.is_some() {
            volume.failure = self.failure.into();
        }
    }
}

/// The state of a RAID.
#[derive(Clone, Debug, PartialEq)]
pub struct RaidStatus<'w> {
    /// `raid1`, `raid5_ls`.
    pub level: &'w str,
    /// Number of members in the array.
    pub members: u32,
    /// Number of failed members.
    pub degraded: u32,
    /// `idle`, `resync`, `recover`, `check`, `repair`.
    pub action: &'w str,
    /// Share of the array that is in sync.
    pub sync_done: Option<f64>,
}

impl RaidStatus<'_> {
    /// Sets all fields of the array.
    pub fn apply_to(&self, array: &mut Array) {
        array.level = self.level.into();
        array.members = f64::from(self.members).into();
        array.degraded = f64::from(self.degraded).into();
        array.action = self.action.into();
        array.sync_done = self.sync_done.into();
    }
}

/// The state of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathStatus<'w> {
    /// `major:minor`.
    pub device: &'w str,
    /// `active`, `standby` or `failed`.
    pub state: &'static str,
}

/// Parses the state of a target from the words of its status. The words of a table, which look similar, yield nothing.
pub fn status<'w>(target: &str, words: &[&'w str]) -> TargetStatus<'w> {
    match target {
        "thin-pool" => thin_pool(words),
        "thin" if words.first() == Some(&"Fail") => failed(FAILED),
        "snapshot" | "snapshot-merge" => snapshot(words),
        "cache" => cache(words),
        "writecache" if words.len() >= 4 && words[0].parse::<u32>().is_ok_and(|error| error > 0) => {
            failed("it failed with an error")
        }
        "error" => failed("it failed: it is mapped to the error target, so every read and write returns an error"),
        "vdo" if words.get(1) == Some(&"read-only") => failed("it failed: it is read-only"),
        "raid" => TargetStatus { raid: raid(words), ..TargetStatus::default() },
        "multipath" => TargetStatus { paths: paths(words), ..TargetStatus::default() },
        _ => TargetStatus::default(),
    }
}

fn failed<'w>(failure: &'static str) -> TargetStatus<'w> {
    TargetStatus { failure: Some(failure), ..TargetStatus::default() }
}

fn number(word: &str) -> Option<f64> {
    word.parse::<u64>().ok().map(|number| number as f64)
}

/// Parses `1600000/1638400`.
fn used(word: Option<&&str>) -> Option<f64> {
    let (used, all) = word?.split_once('/')?;
    let (used, all) = (number(used)?, number(all)?);
    (all > 0.0 && used <= all).then_some(used / all)
}

/// Parses `1 4161/250112 1600000/1638400 - rw ...`.
fn thin_pool<'w>(words: &[&str]) -> TargetStatus<'w> {
    // A table begins with device numbers instead.
    let has_id = words.first().is_some_and(|id| number(id).is_some());
    let failure = if words.first() == Some(&"Fail") {
        Some(FAILED)
    } else if words.contains(&"out_of_data_space") {
        Some("it is out of data space")
    } else if words.contains(&"needs_check") {
        Some("its metadata needs a check")
    } else if words.get(4) == Some(&"ro") {
        Some("its metadata is read-only")
    } else {
        None
    };
    let (metadata_used, data_used) = (used(words.get(1)).filter(|_| has_id), used(words.get(2)).filter(|_| has_id));
    TargetStatus { failure, metadata_used, data_used, ..TargetStatus::default() }
}

/// Parses `4096/8192 24`.
fn snapshot<'w>(words: &[&str]) -> TargetStatus<'w> {
    // The number of metadata sectors follows.
    let is_whole = words.get(1).is_some_and(|sectors| number(sectors).is_some());
    let failure = match words.first() {
        Some(&("Invalid" | "Overflow")) => Some("the snapshot is invalid: it ran out of space"),
        Some(&"Merge") => Some("it failed to merge into its origin"),
        _ => None,
    };
    TargetStatus { failure, data_used: used(words.first()).filter(|_| is_whole), ..TargetStatus::default() }
}

fn cache<'w>(words: &[&str]) -> TargetStatus<'w> {
    let has_sizes = [0, 2].iter().all(|at| words.get(*at).is_some_and(|size| number(size).is_some()));
    let blocks = words.get(3).and_then(|word| number(word.split_once('/')?.0)).filter(|blocks| *blocks > 0.0);
    // A count of features follows, and among these the mode of writes.
    let has_mode = || words.get(12..).is_some_and(|rest| rest.iter().any(|word| CACHE_MODES.contains(word)));
    let has_count = words.get(11).is_some_and(|count| number(count).is_some());
    let dirty = words.get(10).filter(|_| has_count && has_mode()).and_then(|dirty| number(dirty)).zip(blocks);
    let failure = if words.first() == Some(&"Fail") {
        Some(FAILED)
    } else if words.contains(&"needs_check") {
        Some("its metadata needs a check")
    } else {
        None
    };
    TargetStatus {
        failure,
        metadata_used: used(words.get(1)).filter(|_| has_sizes),
        data_used: used(words.get(3)).filter(|_| has_sizes),
        dirty: dirty.map(|(dirty, used)| (dirty / used).min(1.0)),
        ..TargetStatus::default()
    }
}

/// Parses `raid1 2 AD 1024/20971520 idle 0 0 -`: level, members, health of each, sectors in sync, current action.
fn raid<'w>(words: &[&'w str]) -> Option<RaidStatus<'w>> {
    let [level, members, health, sync, action, ..] = *words else { return None };
    let is_health = !health.is_empty() && health.bytes().all(|b| b"AaD-".contains(&b));
    let members = members.parse::<u32>().ok().filter(|members| is_health && health.len() == *members as usize)?;
    let degraded = u32::try_from(health.matches('D').count()).ok()?;
    Some(RaidStatus { level, members, degraded, action, sync_done: used(Some(&sync)) })
}

/// Parses `2 0 0 0 2 1 A 0 1 2 8:16 A 0 0 1 E 0 1 2 8:32 F 1 0 1` (drivers/md/dm-mpath.c: multipath_status). Returns
/// the paths up to the end of the line, or up to the first unexpected word.
fn paths<'w>(words: &[&'w str]) -> Vec<PathStatus<'w>> {
    let mut paths = Vec::new();
    take_paths(words, &mut paths);
    paths
}

fn take_paths<'w>(words: &[&'w str], paths: &mut Vec<PathStatus<'w>>) -> Option<()> {
    let mut words = words.iter();
    let count = |words: &mut std::slice::Iter<'_, &str>| words.next()?.parse::<usize>().ok().filter(|n| *n < 1000);
    // Features and handler: each has a count, followed by that many arguments.
    for _ in 0..2 {
        let arguments = count(&mut words)?;
        words.by_ref().take(arguments).for_each(drop);
    }
    let (groups, _next) = (count(&mut words)?, count(&mut words)?);
    for _ in 0..groups {
        // A table has the name of the selector here.
        let group = *words.next().filter(|state| ["A", "E", "D"].contains(*state))?;
        let arguments = count(&mut words)?;
        words.by_ref().take(arguments).for_each(drop);
        let (members, arguments) = (count(&mut words)?, count(&mut words)?);
        for _ in 0..members {
            let (device, state, _failures) = (*words.next()?, *words.next()?, words.next()?);
            (device.contains(':') && ["A", "F"].contains(&state)).then_some(())?;
            words.by_ref().take(arguments).for_each(drop);
            let state = match (state, group) {
                ("F", _) => "failed",
                (_, "A") => "active",
                _ => "standby",
            };
            paths.push(PathStatus { device, state });
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> TargetStatus<'_> {
        let words: Vec<&str> = line.split_whitespace().collect();
        status(words[0], &words[1..])
    }

    #[test]
    fn a_target_says_what_is_full_failed_or_degraded() {
        assert_eq!(
            parsed("thin-pool 1 10/100 50/200 - rw discard_passdown queue_if_no_space - 1024").data_used,
            Some(0.25)
        );
        assert_eq!(parsed("thin-pool 1 10/100 200/200 - out_of_data_space").failure, Some("it is out of data space"));
        assert_eq!(parsed("thin-pool 254:1 254:2 128 0").data_used, None, "a table");
        assert_eq!(parsed("snapshot 4096/8192 24").data_used, Some(0.5));
        assert_eq!(parsed("snapshot Invalid").failure, Some("the snapshot is invalid: it ran out of space"));
        let raid = parsed("raid raid1 2 AD 1024/4096 recover 0 0 -").raid.unwrap();
        assert_eq!((raid.level, raid.members, raid.degraded, raid.sync_done), ("raid1", 2, 1, Some(0.25)));
        let paths = parsed("multipath 2 0 0 0 2 1 A 0 1 2 8:16 A 0 0 1 E 0 1 2 8:32 F 1 0 1").paths;
        let told: Vec<(&str, &str)> = paths.iter().map(|path| (path.device, path.state)).collect();
        assert_eq!(told, [("8:16", "active"), ("8:32", "failed")]);
        assert_eq!(parsed("linear 8:16 2048"), TargetStatus::default());
    }
}
