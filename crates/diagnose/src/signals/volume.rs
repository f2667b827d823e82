//! Layers between disks and file systems: software RAID arrays, multipath devices, and partitions.

use crate::kernel_log::{self, array::ArrayLog};
use crate::signal::{Entity, mean, signals};
use std::collections::{BTreeMap, BTreeSet};
use whyslow_documents::diagnosis::Subject;
use whyslow_model::catalogue::{Array, Disk, MappedDevice, Partition, Path, Volume};
use whyslow_model::topology::Topology;
use whyslow_model::value::Name;
use whyslow_model::window::{Change, Window};
use whyslow_quantities::{Quantity, disk};

/// Inputs of an array's signals.
pub struct ArrayUse<'w> {
    name: String,
    array: Option<&'w Array>,
    log: Option<&'w ArrayLog>,
    /// Whether the device mapper created it, as for LVM.
    is_mapped: bool,
    members: MemberMeans,
    /// Its own requests, as a device.
    own: Option<&'w Change<'w, Disk>>,
}

/// Averages over the members' own counters.
#[derive(Default)]
struct MemberMeans {
    busy: Option<f64>,
    request_size: Option<f64>,
    requests: Option<f64>,
    wait: Option<f64>,
}

impl MemberMeans {
    fn from_disks(disks: &[&Change<'_, Disk>]) -> Self {
        let over_all = |of: &Quantity<Disk>| mean(disks.iter().filter_map(|disk| of.over(*disk)));
        Self {
            busy: over_all(&disk::BUSY),
            request_size: over_all(&disk::REQUEST_SIZE),
            requests: over_all(&disk::TRANSFERS),
            wait: over_all(&disk::WAIT),
        }
    }
}

impl ArrayUse<'_> {
    /// Returns the number of missing members; at least one if only the log shows that some are missing.
    fn degraded(&self) -> Option<f64> {
        let logged = self.log.map(|l| match l.members {
            Some((work, all)) if l.degraded => f64::from(all.saturating_sub(work)).max(1.0),
            _ => f64::from(u8::from(l.degraded)),
        });
        self.array.and_then(|a| a.degraded.get()).or(logged)
    }

    /// Returns the implementation of the array. The device mapper uses md's levels too, as it uses its code.
    fn kind(&self) -> &'static str {
        match self.array.and_then(|a| a.level.get()) {
            Some("ceph") => "ceph",
            Some(level) if level.starts_with("RAID") => "controller",
            Some(level) if ["raidz", "draid", "mirror", "stripe"].iter().any(|own| level.starts_with(own)) => "zfs",
            _ if self.is_mapped => "dm",
            _ => "md",
        }
    }

    /// Returns the path of the device. Arrays that the kernel named are numbered; others have their name below /dev/md
    /// (mdadm(8), DEVICE NAMES).
    fn path(&self) -> String {
        let is_numbered = |rest: &str| {
            let number = rest.trim_start_matches("_d");
            !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit() || b == b'p')
        };
        match self.name.strip_prefix("md").is_some_and(is_numbered) {
            true => format!("/dev/{}", self.name),
            false => format!("/dev/md/{}", self.name),
        }
    }

    fn member_count(&self) -> Option<f64> {
        let logged = self.log.and_then(|l| l.members).map(|(_, all)| f64::from(all));
        self.array.and_then(|a| a.members.get()).or(logged)
    }

    fn failed(&self) -> Option<String> {
        let listed = self.array.and_then(|a| a.failed_members.get()).map(str::to_owned);
        listed.or_else(|| self.log.map(|l| l.failed.join(", "))).filter(|f| !f.is_empty())
    }
}

signals! { a: ArrayUse<'_>;
    "array.name" "text" "the array", "as md names it", "/sys/block/md*/md" => a.name.as_str();
    "array.path" "text" "its device file", "/dev/NAME where md named it, else /dev/md/NAME", "/sys/block/md*/md" => a.path().as_str();
    "array.level" "text" "RAID level", "level", "/sys/block/md*/md" => a.array.and_then(|a| a.level.get());
    "array.kind" "text" "what manages it: md, dm (the device mapper, which LVM uses), zfs, ceph, or a RAID controller", "by its level", "/sys/block/md*/md, /dev/mapper/control, zpool status, ceph status" => a.kind();
    "array.degraded" "count" "members missing", "degraded; from the log where that is all there is", "/sys/block/md*/md, /dev/kmsg", normal (near 0.0), better lower, baseline true => a.degraded();
    "array.members" "count" "members there should be", "raid_disks", "/sys/block/md*/md, /dev/kmsg" => a.member_count();
    "array.failed" "text" "the members that failed", "those that are faulty; 'Disk failure on'", "/sys/block/md*/md/dev-*/state, /dev/kmsg (drivers/md)", normal "none" => a.failed().as_deref();
    "array.no_spare" "flag" "1 where there was no spare to rebuild on", "'no spare disk'", "/dev/kmsg (drivers/md)", normal "no: there was a spare to rebuild on" => a.log.map(|l| l.no_spare);
    "array.rebuilt" "flag" "1 where it was rebuilt after a member had failed", "'recovery done'", "/dev/kmsg (drivers/md)", normal "yes if it has been complete again since" => a.log.map(|l| l.rebuilt);
    "array.action" "text" "idle, resync, recover, check, repair", "sync_action", "/sys/block/md*/md", normal "recover while a spare is rebuilt" => a.array.and_then(|a| a.action.get());
    "array.sync_done" "ratio" "part of a rebuild or check that is done", "sync_completed", "/sys/block/md*/md" => a.array.and_then(|a| a.sync_done.get());
    "array.sync_speed" "bytes/s" "rate of a rebuild or check, per member", "sync_speed", "/sys/block/md*/md", normal "near what one member streams" => a.array.and_then(|a| a.sync_speed.get());
    "array.cache" "text" "whether the RAID controller caches writes: write-back or write-through", "Current Cache Policy, Cache, Cache Status", "MegaCli, storcli, ssacli", normal "write-back" => a.array.and_then(|a| a.cache.get());
    "array.cache_wanted" "text" "whether it is set to do so", "Default Cache Policy; 'Temporarily Disabled'", "MegaCli, ssacli", normal "write-back" => a.array.and_then(|a| a.cache_wanted.get());
    "array.battery" "text" "whether its battery or capacitor keeps the cache over a power cut: ok, charging, absent or failed", "Battery State, BBU_Info, Battery/Capacitor Status", "MegaCli, storcli, ssacli", normal "ok" => a.array.and_then(|a| a.battery.get());
    "array.member_busy" "ratio" "how busy its members are, mean", "mean of Δbusy time / Δt", "/proc/diskstats", normal (below 0.5) => a.members.busy;
    "array.member_request_size" "bytes" "size of the requests its members get, mean", "mean of Δbytes / Δ(reads + writes)", "/proc/diskstats", normal "hundreds of KiB: a check reads one stripe after the other" => a.members.request_size;
    "array.member_requests" "1/s" "requests each of its members gets, mean", "mean of Δ(reads + writes) / Δt", "/proc/diskstats", normal "a few hundred" => a.members.requests;
    "array.requests" "1/s" "requests to the array itself; those of a check or rebuild are not among them", "Δ(reads + writes) / Δt", "/proc/diskstats" => a.own.and_then(|own| disk::TRANSFERS.over(own));
    "array.wait" "s" "time that these take", "Δtime / Δ(reads + writes)", "/proc/diskstats", normal "as without a check or rebuild" => a.own.and_then(|own| disk::WAIT.over(own));
    "array.member_wait" "s" "time its members take for a request, mean", "mean of Δtime / Δ(reads + writes)", "/proc/diskstats", normal "short: the disks are healthy" => a.members.wait;
}

/// Actions of an array besides serving requests: it reads, and perhaps rewrites, all of its members.
const SYNC_ACTIONS: [&str; 6] = ["check", "resync", "recover", "recovery", "repair", "reshape"];

/// Returns the arrays that are being checked or rebuilt.
fn syncing(window: &Window) -> Vec<&Array> {
    let arrays = window.newest::<Array>().into_values();
    arrays.filter(|array| array.action.get().is_some_and(|action| SYNC_ACTIONS.contains(&action))).collect()
}

/// Returns the devices below arrays that are being checked or rebuilt.
pub(super) fn synced(window: &Window, topology: &Topology) -> BTreeSet<Name> {
    syncing(window).into_iter().flat_map(|array| topology.under(&array.array)).collect()
}

/// Returns the devices below arrays that are only being checked and whose own requests were counted too: those show what
/// programs wait for.
pub(super) fn checked(window: &Window) -> BTreeSet<Name> {
    let mut checks = syncing(window);
    checks.retain(|array| array.action.get() == Some("check"));
    if checks.is_empty() {
        return BTreeSet::new();
    }
    let topology = Topology::from_window(window);
    let counted: BTreeSet<Name> = window.changes::<Disk>().iter().map(|c| c.key().clone()).collect();
    checks.retain(|array| counted.contains(&array.array));
    checks.into_iter().flat_map(|array| topology.under(&array.array)).collect()
}

/// Returns every array that md or the log knows.
pub fn arrays(window: &Window, topology: &Topology) -> Vec<Entity> {
    let arrays = window.newest::<Array>();
    let logged = kernel_log::array::parse(kernel_log::lines(window).into_iter());
    let disks = window.changes::<Disk>();
    let by_name: BTreeMap<&str, &Change<'_, Disk>> = disks.iter().map(|c| (&**c.key(), c)).collect();
    let volumes = window.newest::<Volume>();
    let mapped = window.newest::<MappedDevice>();
    let device_of = |name: &str| mapped.values().find(|row| row.name.get() == Some(name)).map(|row| &*row.device);
    let mapped_name = |device: &str| mapped.get(device).and_then(|row| row.name.get());
    let names: BTreeSet<String> = arrays.keys().map(ToString::to_string).chain(logged.keys().cloned()).collect();
    names
        .into_iter()
        .map(|name| {
            let below = topology.under(device_of(&name).unwrap_or(&name));
            let members: Vec<_> = below.iter().filter_map(|member| by_name.get(&**member).copied()).collect();
            let log = logged.get(&name);
            let rows: Vec<u64> =
                log.iter().flat_map(|l| [l.lines.first(), l.lines.last()]).flatten().copied().collect();
            let array = ArrayUse {
                array: arrays.get(name.as_str()).copied(),
                log,
                is_mapped: volumes.contains_key(name.as_str()),
                members: MemberMeans::from_disks(&members),
                own: by_name.get(device_of(&name).unwrap_or(&name)).copied(),
                name: name.clone(),
            };
            let failed = log.iter().flat_map(|l| &l.failed).map(|member| kernel_log::disk_of(member));
            let legs = below.iter().filter_map(|member| mapped_name(member));
            let names = failed.chain(legs).map(str::to_owned).collect();
            Entity::from_subject(Subject::new("array", name), &array).of_rows(rows).also_named(names)
        })
        .collect()
}

/// Paths of a device.
pub struct Paths<'w>(Vec<&'w Path>);

impl Paths<'_> {
    fn in_state(&self, state: &str) -> f64 {
        self.0.iter().filter(|path| path.state.get() == Some(state)).count() as f64
    }

    fn balanced(&self) -> Option<f64> {
        self.0.iter().find_map(|path| path.balanced.get())
    }
}

signals! { p: Paths<'_>;
    "paths.count" "count" "paths to the device", "paths listed", "/dev/mapper/control, /sys/block/nvme*, spmgr display" => p.0.len() as f64;
    "paths.active" "count" "paths that carry requests", "paths in that state", "/dev/mapper/control, /sys/block/nvme*, spmgr display", normal "more than one where the load is spread" => p.in_state("active");
    "paths.available" "count" "paths that could carry requests now", "paths in that state", "/dev/mapper/control, /sys/block/nvme*, spmgr display" => p.in_state("available");
    "paths.standby" "count" "paths that carry requests once the others fail", "paths in that state", "/dev/mapper/control, /sys/block/nvme*, spmgr display" => p.in_state("standby");
    "paths.failed" "count" "paths that failed", "paths in that state", "/dev/mapper/control, /sys/block/nvme*, spmgr display", normal (near 0.0) => p.in_state("failed");
    "paths.balanced" "flag" "1 where the load is spread over the paths", "as the driver says", "/dev/mapper/control, spmgr display", normal "yes, where one path is not enough" => p.balanced();
}

/// Returns every device whose paths are known.
pub fn multipath_devices(window: &Window) -> Vec<Entity> {
    let rows = window.newest::<Path>();
    let mapped = window.newest::<MappedDevice>();
    let mut devices: BTreeMap<&str, Paths<'_>> = BTreeMap::new();
    for path in rows.values() {
        devices.entry(&path.path.upper).or_insert_with(|| Paths(Vec::new())).0.push(path);
    }
    let entity = |(device, paths): (&str, Paths<'_>)| {
        let own = mapped.values().filter(|row| row.name.get() == Some(device)).map(|row| row.device.to_string());
        // For an NVMe path, the kernel log names the controller.
        let adapters = paths.0.iter().filter_map(|path| path.adapter.get()).filter(|name| name.starts_with("nvme"));
        let members = paths.0.iter().map(|path| path.path.lower.to_string());
        let names = members.chain(adapters.map(str::to_owned)).chain(own).collect();
        Entity::from_subject(Subject::new("device", device), &paths).also_named(names)
    };
    devices.into_iter().map(entity).collect()
}

/// Block size that current disks, and arrays, write without reading first.
const BLOCK: f64 = 4096.0;

signals! { v: Volume;
    "volume.kind" "text" "thin pool, snapshot, cache, volume group, ...", "target or segment type", "/dev/mapper/control, lvs, vgs, dmsetup", normal "what it is" => v.kind.get();
    "volume.size" "bytes" "size", "as printed; Σ of its devices", "/dev/mapper/control, lvs, vgs, dmsetup" => v.size.get();
    "volume.free" "bytes" "space of a volume group that no volume has", "VFree", "vgs", normal "a few GB, from which chunks for data or metadata can be allocated" => v.free.get();
    "volume.data_used" "ratio" "used share of a thin pool, of a snapshot's room for changes, or of a cache", "Data%; used / total blocks", "/dev/mapper/control, lvs, dmsetup status", normal (below 0.8) => v.data_used.get();
    "volume.metadata_used" "ratio" "used share of the room for metadata", "Meta%; used / total blocks", "/dev/mapper/control, lvs, dmsetup status", normal (below 0.8) => v.metadata_used.get();
    "volume.fill" "ratio" "the larger of the two", "max(data, metadata)", "/dev/mapper/control, lvs, dmsetup status", normal (below 0.9) => [v.data_used.get(), v.metadata_used.get()].into_iter().flatten().reduce(f64::max);
    "volume.fragmentation" "ratio" "how far the free space of a ZFS pool is in small pieces", "FRAG", "zpool list", normal (below 0.5) => v.fragmentation.get();
    "volume.dirty" "ratio" "share of a cache that is not yet written to the slow device", "dirty / used blocks", "/dev/mapper/control, dmsetup status" => v.dirty.get();
    "volume.suspended" "flag" "1 where the kernel holds back all I/O to it", "State: SUSPENDED; 5th attribute s", "/dev/mapper/control, dmsetup info, lvs", normal (near 0.0 as "0") => v.suspended.get();
    "volume.failure" "text" "what is wrong with it", "as the kernel or LVM reports it", "/dev/mapper/control, lvs, dmsetup status", normal "none" => v.failure.get();
}

/// Returns true if a snapshot has run out of space, so that it can no longer be read.
fn is_lost(volume: &Volume) -> bool {
    volume.kind.get() == Some("snapshot")
        && volume.failure.get().is_some_and(|why| why.starts_with("the snapshot is invalid"))
}

/// Returns the device mapper's name for a volume of LVM: hyphens of its parts are doubled (lvm(8)).
fn mapper_name(volume: &str) -> String {
    volume.split('/').map(|part| part.replace('-', "--")).collect::<Vec<_>>().join("-")
}

/// Returns every logical volume, volume group and other device of the device mapper.
pub fn volumes(window: &Window) -> Vec<Entity> {
    let volumes = window.newest::<Volume>();
    let mapped = window.newest::<MappedDevice>();
    // The kernel's message about a full snapshot does not name it: it is this one if there is no other.
    let is_only_one = volumes.values().filter(|volume| is_lost(volume)).count() == 1;
    let logged = || {
        let notices = kernel_log::notice::gather(kernel_log::lines(window).into_iter());
        let of_snapshot = notices.into_iter().filter(|notice| notice.topic == "snapshot_full");
        of_snapshot.flat_map(|notice| notice.aliases.into_iter().chain([kernel_log::notice::SNAPSHOT.to_owned()]))
    };
    let entity = |volume: &Volume| {
        let named = |name: &str| *name == *volume.name || name == mapper_name(&volume.name);
        let devices = mapped.values().filter(|row| row.name.get().is_some_and(named)).map(|row| row.device.to_string());
        let mut names: Vec<String> = devices.collect();
        if is_only_one && is_lost(volume) {
            names.extend(logged());
        }
        Entity::from_subject(Subject::new("volume", volume.name.to_string()), volume).also_named(names)
    };
    volumes.into_values().map(entity).collect()
}

signals! { p: Partition;
    "part_start.bytes" "bytes" "from the disk's first byte to the partition's", "start x 512", "/sys/block/*/*/start, fdisk", normal "a multiple of 1 MiB" => p.start.get();
    "part_start.off" "bytes" "how far that is beyond a multiple of 4 KiB", "start mod 4096", "/sys/block/*/*/start, fdisk", normal (near 0.0) => p.start.get().map(|s| s % BLOCK);
}

/// Returns every partition whose start is known.
pub fn partitions(window: &Window) -> Vec<Entity> {
    let partitions = window.newest::<Partition>();
    partitions.into_values().map(|p| Entity::from_subject(Subject::new("partition", p.device.to_string()), p)).collect()
}
