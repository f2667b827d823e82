//! Software RAID arrays, from md's own state and from the kernel's log.

use super::disk;
use crate::kernel_log::{self, array::ArrayLog};
use crate::signal::{Entity, over, ratio, signals, sum};
use std::collections::{BTreeMap, BTreeSet};
use whyslow_model::catalogue::{Array, Disk};
use whyslow_model::diagnosis::Subject;
use whyslow_model::topology::Topology;
use whyslow_model::window::{Change, Window};

/// What the signals of an array are computed from.
pub struct ArrayUse<'w> {
    name: String,
    array: Option<&'w Array>,
    log: Option<&'w ArrayLog>,
    members: MemberMeans,
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
    fn of(disks: &[&Change<'_, Disk>]) -> Self {
        let mean = |of: &dyn Fn(&Change<'_, Disk>) -> Option<f64>| {
            let known: Vec<f64> = disks.iter().filter_map(|disk| of(disk)).collect();
            over(Some(known.iter().sum()), Some(known.len() as f64))
        };
        let bytes = |c: &Change<'_, Disk>| sum([c.rate(|d| d.read_bytes), c.rate(|d| d.write_bytes)]);
        Self {
            busy: mean(&|c| ratio(c.rate(|d| d.busy_time))),
            request_size: mean(&|c| over(bytes(c), disk::transfers(c))),
            requests: mean(&|c| disk::transfers(c)),
            wait: mean(&|c| over(disk::time(c), disk::transfers(c))),
        }
    }
}

impl ArrayUse<'_> {
    /// Members missing; one at least where only the log tells that some are.
    fn degraded(&self) -> Option<f64> {
        let logged = self.log.map(|l| match l.members {
            Some((work, all)) if l.degraded => f64::from(all.saturating_sub(work)).max(1.0),
            _ => f64::from(u8::from(l.degraded)),
        });
        self.array.and_then(|a| a.degraded.get()).or(logged)
    }

    fn member_count(&self) -> Option<f64> {
        let logged = self.log.and_then(|l| l.members).map(|(_, all)| f64::from(all));
        self.array.and_then(|a| a.members.get()).or(logged)
    }

    fn failed(&self) -> Option<String> {
        self.log.map(|l| l.failed.join(", ")).filter(|f| !f.is_empty())
    }
}

signals! { a: &ArrayUse<'_>;
    "array.name" "text" "the array", "as md names it", "/sys/block/md*/md" => a.name.as_str();
    "array.level" "text" "RAID level", "level", "/sys/block/md*/md" => a.array.and_then(|a| a.level.get());
    "array.degraded" "count" "members missing", "degraded; from the log where that is all there is", "/sys/block/md*/md, /dev/kmsg" => a.degraded();
    "array.members" "count" "members there should be", "raid_disks", "/sys/block/md*/md, /dev/kmsg" => a.member_count();
    "array.failed" "text" "the members that failed", "'Disk failure on'", "/dev/kmsg (drivers/md)" => a.failed().as_deref();
    "array.no_spare" "flag" "1 where there was no spare to rebuild on", "'no spare disk'", "/dev/kmsg (drivers/md)" => a.log.map(|l| l.no_spare);
    "array.rebuilt" "flag" "1 where it was rebuilt after a member had failed", "'recovery done'", "/dev/kmsg (drivers/md)" => a.log.map(|l| l.rebuilt);
    "array.action" "text" "idle, resync, recover, check, repair", "sync_action", "/sys/block/md*/md" => a.array.and_then(|a| a.action.get());
    "array.sync_done" "ratio" "part of a rebuild or check that is done", "sync_completed", "/sys/block/md*/md" => a.array.and_then(|a| a.sync_done.get());
    "array.sync_speed" "bytes/s" "rate of a rebuild or check, per member", "sync_speed", "/sys/block/md*/md" => a.array.and_then(|a| a.sync_speed.get());
    "array.member_busy" "ratio" "how busy its members are, mean", "mean of Δbusy time / Δt", "/proc/diskstats" => a.members.busy;
    "array.member_request_size" "bytes" "size of the requests its members get, mean", "mean of Δbytes / Δ(reads + writes)", "/proc/diskstats" => a.members.request_size;
    "array.member_requests" "1/s" "requests each of its members gets, mean", "mean of Δ(reads + writes) / Δt", "/proc/diskstats" => a.members.requests;
    "array.member_wait" "s" "time its members take for a request, mean", "mean of Δtime / Δ(reads + writes)", "/proc/diskstats" => a.members.wait;
}

/// Every array md or the log tells of.
pub fn entities(window: &Window, topology: &Topology) -> Vec<Entity> {
    let arrays = window.newest::<Array>();
    let logged = kernel_log::array::parse(kernel_log::lines(window).into_iter());
    let disks = window.changes::<Disk>();
    let by_name: BTreeMap<&str, &Change<'_, Disk>> = disks.iter().map(|c| (&**c.key(), c)).collect();
    let names: BTreeSet<String> = arrays.keys().map(ToString::to_string).chain(logged.keys().cloned()).collect();
    names
        .into_iter()
        .map(|name| {
            let members: Vec<_> =
                topology.under(&name).iter().filter_map(|member| by_name.get(&**member).copied()).collect();
            let log = logged.get(&name);
            let rows: Vec<u64> =
                log.iter().flat_map(|l| [l.lines.first(), l.lines.last()]).flatten().copied().collect();
            let array = ArrayUse {
                array: arrays.get(name.as_str()).copied(),
                log,
                members: MemberMeans::of(&members),
                name: name.clone(),
            };
            let failed =
                log.iter().flat_map(|l| &l.failed).map(|member| kernel_log::disk_of(member).to_owned()).collect();
            Entity::new(Subject::new("array", name), read(&array)).of_rows(rows).also_named(failed)
        })
        .collect()
}
