//! Requests to block devices, one by one: crates/sense/bpf/block.bpf.c.

mod flood;
mod layout;
#[cfg(test)]
mod live_tests;
mod silence;

use super::device;
use crate::bpf::{Object, entries, include_object};
use crate::cgroup::block_groups;
use crate::os::ns_to_ticks;
use crate::{Root, Source, SourceError, SourceInfo};
use aya::maps::{Array, HashMap, MapData, MapError};
use flood::Watch;
use layout::{Known, Slot, Slots, Use, User};
use silence::Silence;
use std::collections::BTreeMap;
use std::time::Instant;
use whyslow_model::catalogue::{Family, Request, Requester};
use whyslow_model::histogram::Histogram;
use whyslow_model::key::{OperationKey, RequesterKey, TaskKey};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::{Counter, Name, State};

const NAME: &str = "block";

/// The source of families `request` and `requester`.
#[derive(Default)]
pub(super) struct Requests {
    probe: Option<Result<Probe, SourceError>>,
}

impl Source for Requests {
    fn info(&self) -> SourceInfo {
        SourceInfo::new(
            "bpf/block",
            "who asks block devices for what, and how long requests wait in the queue and in the device",
        )
    }

    fn prepare(&mut self, root: &Root) {
        self.probe.get_or_insert_with(|| Probe::load(root));
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
        match self.probe.get_or_insert_with(|| Probe::load(root)) {
            Ok(probe) => probe.read(root, out),
            Err(miss) => Err(miss.clone()),
        }
    }
}

/// The programs, attached.
struct Probe {
    object: Object,
    watch: Watch,
    users: HashMap<MapData, User, Use>,
    /// Rows by slot, and the changes there had been: most devices stand idle, and a slot is large.
    rows: BTreeMap<u32, (u64, Request)>,
    silence: Silence,
    /// Requests counted so far, and when.
    counted: Option<(u64, Instant)>,
    /// Control groups by number, those that are gone included.
    groups: BTreeMap<u64, Name>,
}

impl Probe {
    fn load(root: &Root) -> Result<Self, SourceError> {
        let mut object = Object::load(NAME, include_object!("block"), root)?;
        let watch = Watch::over(&mut object)?;
        let users = HashMap::try_from(object.take_map("users")?).map_err(failed)?;
        Ok(Self {
            object,
            watch,
            users,
            rows: BTreeMap::new(),
            silence: Silence::default(),
            counted: None,
            groups: BTreeMap::new(),
        })
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
        let slots: Array<_, Slots> = Array::try_from(self.object.map("slots")?).map_err(failed)?;
        let taken: Vec<Slot> = slots.get(&0, 0).map_err(failed)?.taken().collect();
        let mut names = BTreeMap::new();
        for slot in &taken {
            // A device that was taken away has no name any more.
            if let Some(device) = device::by_number(root, &slot.number) {
                let key = OperationKey { device: device.as_str().into(), operation: slot.operation.into() };
                out.block.request.push(self.row(slot, &key)?);
                names.insert(u64::from(slot.index), key);
            }
        }
        self.requesters(root, &names, out)?;
        self.adapt(&out.block.request)?;
        self.complete()
    }

    /// A slot's row, as it was where nothing has changed. The device behind the number may have another name by now.
    fn row(&mut self, slot: &Slot, key: &OperationKey) -> Result<Request, SourceError> {
        if let Some((changes, row)) = self.rows.get(&slot.index)
            && (*changes, row.key()) == (slot.changes, key)
        {
            return Ok(row.clone());
        }
        let row = self.request(slot.index, key.clone())?;
        self.rows.insert(slot.index, (slot.changes, row.clone()));
        Ok(row)
    }

    fn request(&self, slot: u32, key: OperationKey) -> Result<Request, SourceError> {
        let known: Array<_, Known> = Array::try_from(self.object.map("known")?).map_err(failed)?;
        let known = known.get(&slot, 0).map_err(failed)?;
        let histogram = |buckets: &[u64]| Histogram::from_counts((0..).zip(buckets.iter().copied()));
        Ok(Request {
            requests: known.requests.into(),
            bytes: known.bytes.into(),
            queue_time: histogram(&known.queue),
            device_time: histogram(&known.device),
            size: histogram(&known.size),
            sequential: known.sequential.into(),
            read_ahead: known.ahead.into(),
            forced: known.forced.into(),
            splits: known.splits.into(),
            ..Request::new(key)
        })
    }

    fn requesters(
        &mut self,
        root: &Root,
        names: &BTreeMap<u64, OperationKey>,
        out: &mut Snapshot,
    ) -> Result<(), SourceError> {
        let users = entries(&self.users).map_err(failed)?;
        for user in self.silence.judge(users.iter().map(|(user, used)| (*user, used.requests)), Instant::now()) {
            // Where it cannot go now it is tried again; it may have been evicted, too.
            let _ = self.users.remove(&user);
        }
        if users.iter().any(|(user, _)| !self.groups.contains_key(&user.cgroup)) {
            self.groups.extend(block_groups(root)?);
        }
        for (user, used) in users {
            // A group that came and went between two samples stays without a name.
            let cgroup = self.groups.entry(user.cgroup).or_default().clone();
            if let Some(on) = names.get(&user.slot) {
                out.block.requester.push(requester(on.clone(), &user, &used, cgroup));
            }
        }
        Ok(())
    }

    /// What is looked at goes by the rate of the last step; the next is thought to be as long.
    fn adapt(&mut self, rows: &[Request]) -> Result<(), SourceError> {
        let now = Instant::now();
        let requests = rows.iter().filter_map(|r| r.requests.get()).sum();
        let Some((before, then)) = self.counted.replace((requests, now)) else { return Ok(()) };
        let between = now.duration_since(then);
        self.watch.adapt(requests.saturating_sub(before) as f64 / between.as_secs_f64(), between)
    }

    /// Says so where there were more devices than slots.
    fn complete(&self) -> Result<(), SourceError> {
        let uncounted: Array<_, u64> = Array::try_from(self.object.map("uncounted")?).map_err(failed)?;
        match uncounted.get(&0, 0).map_err(failed)? {
            0 => Ok(()),
            missed => {
                Err(SourceError::Failed(format!("BPF {NAME}: {missed} requests went uncounted: too many devices")))
            }
        }
    }
}

fn requester(on: OperationKey, user: &User, used: &Use, cgroup: Name) -> Requester {
    let pid = user.pid as u32;
    let task = TaskKey { pid, tid: pid, start: ns_to_ticks(user.start) };
    Requester {
        command: command(&used.command),
        requests: Counter::from(used.requests),
        bytes: used.bytes.into(),
        queue_time: used.queue_ns.into(),
        device_time: used.device_ns.into(),
        ..Requester::new(RequesterKey { on, task, cgroup })
    }
}

/// The name of a process as the kernel keeps it: up to the first zero.
fn command(bytes: &[u8]) -> State {
    let name = bytes.split(|b| *b == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).as_ref().into()
}

fn failed(error: MapError) -> SourceError {
    SourceError::Failed(format!("BPF {NAME}: {error}"))
}
