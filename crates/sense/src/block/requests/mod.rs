//! Requests to block devices: crates/sense/bpf/block.bpf.c.

mod idle_requesters;
mod layout;
#[cfg(test)]
mod live_tests;
mod own_count;
mod sampler;

use super::device;
use crate::bpf::{Object, c_string, entries, include_object};
use crate::cgroup::block_groups;
use crate::os::ns_to_ticks;
use crate::{Root, SourceError, SourceInfo};
use aya::maps::{HashMap, MapData, MapError};
use idle_requesters::IdleRequesters;
use layout::{ACCESSES, Counted, DepthCounters, LEVELS, RequesterId, RequesterTotals, SIZE_CLASSES};
use layout::{Slot, SlotCounters, SlotTable};
use own_count::OwnCount;
use sampler::RequestSampler;
use std::collections::BTreeMap;
use std::time::Instant;
use whyslow_model::catalogue::{Request, Requester, Response, Throughput};
use whyslow_model::histogram::Histogram;
use whyslow_model::key::{DepthKey, OperationKey, RequesterKey, ResponseKey, TaskKey};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::{Counter, Name};

const NAME: &str = "block";

pub(super) const INFO: SourceInfo = SourceInfo::new(
    "bpf/block",
    "which processes issue block requests, and how long the requests wait in the queue and in the device",
);

/// The attached programs and their last results.
pub(super) struct BlockTracer {
    object: Object,
    sampler: RequestSampler,
    requesters: HashMap<MapData, RequesterId, RequesterTotals>,
    /// Rows by slot, with the change count at which they were read: most devices are idle, and a slot is large.
    rows: BTreeMap<u32, SlotRows>,
    idle_requesters: IdleRequesters,
    /// Requests at the last sample, and the time of that sample.
    counted: Option<(u64, Instant)>,
    /// Cgroups by number, including removed ones.
    groups: BTreeMap<u64, Name>,
    own_count: OwnCount,
}

/// The rows of a slot.
#[derive(Clone)]
struct SlotRows {
    device: Name,
    changes: u64,
    request: Option<Request>,
    responses: Vec<Response>,
    throughputs: Vec<Throughput>,
}

impl BlockTracer {
    pub(super) fn load(root: &Root) -> Result<Self, SourceError> {
        let mut object = Object::load(NAME, include_object!("block"), root)?;
        let sampler = RequestSampler::attach(&mut object)?;
        let requesters = HashMap::try_from(object.take_map("requesters")?).map_err(failed)?;
        Ok(Self {
            object,
            sampler,
            requesters,
            rows: BTreeMap::new(),
            idle_requesters: IdleRequesters::default(),
            counted: None,
            groups: BTreeMap::new(),
            own_count: OwnCount::new(root),
        })
    }

    pub(super) fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
        let taken: Vec<Slot> = self.object.element::<SlotTable>("slots", 0)?.taken().collect();
        let mut names = BTreeMap::new();
        for slot in &taken {
            // A removed device has no name.
            let Some(device) = device::by_number(root, &slot.number) else { continue };
            let device = Name::from(device.as_str());
            let rows = self.rows(slot, &device)?;
            out.block.request.extend(rows.request.iter().cloned());
            out.block.response.extend(rows.responses.iter().cloned());
            out.block.throughput.extend(rows.throughputs.iter().cloned());
            if let Counted::Operation(operation) = slot.counts {
                names.insert(u64::from(slot.index), OperationKey { device, operation: operation.into() });
            }
        }
        self.requesters(root, &names, out)?;
        let counted = out.block.request.iter().filter_map(|row| row.requests.get()).sum();
        self.adapt(counted)?;
        self.complete()?;
        self.own_count.compare(root, counted)
    }

    /// Returns a slot's rows. Reads them again if its counters changed or its number now belongs to another device.
    fn rows(&mut self, slot: &Slot, device: &Name) -> Result<&SlotRows, SourceError> {
        let known =
            self.rows.get(&slot.index).is_some_and(|rows| (rows.changes, &rows.device) == (slot.changes, device));
        if !known {
            let rows = match slot.counts {
                Counted::Operation(operation) => {
                    let key = OperationKey { device: device.clone(), operation: operation.into() };
                    operation_rows(&self.object.element("slot_counters", slot.index)?, key, slot.changes)
                }
                Counted::Whole => device_rows(&self.object.element("depths", slot.index)?, device, slot.changes),
            };
            self.rows.insert(slot.index, rows);
        }
        Ok(&self.rows[&slot.index])
    }

    fn requesters(
        &mut self,
        root: &Root,
        names: &BTreeMap<u64, OperationKey>,
        out: &mut Snapshot,
    ) -> Result<(), SourceError> {
        let requesters = entries(&self.requesters).map_err(failed)?;
        let counts = requesters.iter().map(|(id, totals)| (*id, totals.requests));
        for id in self.idle_requesters.update(counts, Instant::now()) {
            // On failure the next sample tries again; the kernel may also have evicted the entry.
            let _ = self.requesters.remove(&id);
        }
        if requesters.iter().any(|(id, _)| !self.groups.contains_key(&id.cgroup)) {
            self.groups.extend(block_groups(root)?);
        }
        for (id, totals) in requesters {
            // A cgroup that existed only between two samples has no name.
            let cgroup = self.groups.entry(id.cgroup).or_default().clone();
            if let Some(on) = names.get(&id.slot) {
                out.block.requester.push(requester(on.clone(), &id, &totals, cgroup));
            }
        }
        Ok(())
    }

    /// Adapts the sampling to the request rate since the last sample, assuming that the next interval is as long.
    fn adapt(&mut self, requests: u64) -> Result<(), SourceError> {
        let now = Instant::now();
        let Some((before, then)) = self.counted.replace((requests, now)) else { return Ok(()) };
        let between = now.duration_since(then);
        self.sampler.adapt(requests.saturating_sub(before) as f64 / between.as_secs_f64(), between)
    }

    /// Fails if there were more devices than slots.
    fn complete(&self) -> Result<(), SourceError> {
        match self.object.element::<u64>("uncounted", 0)? {
            0 => Ok(()),
            missed => {
                Err(SourceError::Failed(format!("BPF {NAME}: {missed} requests were not counted: too many devices")))
            }
        }
    }
}

fn operation_rows(counters: &SlotCounters, key: OperationKey, changes: u64) -> SlotRows {
    let histogram = |buckets: &[u64]| Histogram::from_counts((0..).zip(buckets.iter().copied()));
    let request = Request {
        requests: counters.requests.into(),
        bytes: counters.bytes.into(),
        queue_time: histogram(&counters.queue),
        device_time: histogram(&counters.device),
        size: histogram(&counters.size),
        sequential: counters.sequential.into(),
        read_ahead: counters.ahead.into(),
        forced: counters.forced.into(),
        splits: counters.splits.into(),
        depth_requests: counters.depth_requests.into(),
        depth: counters.depth.into(),
        depth_squared: counters.depth_squared.into(),
        depth_device_time: counters.depth_ns.into(),
        depth_x_device_time: counters.depth_us.into(),
        ..Request::new(key.clone())
    };
    let classes = SIZE_CLASSES.iter().flat_map(|size| ACCESSES.map(|access| (size, access)));
    let classes = classes.flat_map(|(size, access)| LEVELS.map(|depth| (size, access, depth)));
    let responses = classes.zip(counters.cells.chunks_exact(3)).filter_map(|((size, access, depth), cell)| {
        let [requests, bytes, device_time] = *cell else { return None };
        let class = ResponseKey { on: key.clone(), size: *size, access: access.into(), depth };
        let row = Response {
            requests: requests.into(),
            bytes: bytes.into(),
            device_time: device_time.into(),
            ..Response::new(class)
        };
        (requests > 0).then_some(row)
    });
    let responses = responses.collect();
    SlotRows { device: key.device, changes, request: Some(request), responses, throughputs: Vec::new() }
}

/// Builds the rows of all levels, including zeros, so that the first requests at a level are counted too.
fn device_rows(depth: &DepthCounters, device: &Name, changes: u64) -> SlotRows {
    let throughputs = LEVELS.iter().zip(depth.levels.chunks_exact(4)).filter_map(|(level, counters)| {
        let [busy, in_flight, requests, bytes] = *counters else { return None };
        Some(Throughput {
            busy_time: busy.into(),
            in_flight_time: in_flight.into(),
            requests: requests.into(),
            bytes: bytes.into(),
            ..Throughput::new(DepthKey { device: device.clone(), depth: *level })
        })
    });
    let throughputs = throughputs.collect();
    SlotRows { device: device.clone(), changes, request: None, responses: Vec::new(), throughputs }
}

fn requester(on: OperationKey, id: &RequesterId, totals: &RequesterTotals, cgroup: Name) -> Requester {
    let pid = id.pid as u32;
    let task = TaskKey { pid, tid: pid, start: ns_to_ticks(id.start) };
    Requester {
        command: c_string(&totals.command).into(),
        requests: Counter::from(totals.requests),
        bytes: totals.bytes.into(),
        queue_time: totals.queue_ns.into(),
        device_time: totals.device_ns.into(),
        ..Requester::new(RequesterKey { on, task, cgroup })
    }
}

fn failed(error: MapError) -> SourceError {
    SourceError::Failed(format!("BPF {NAME}: {error}"))
}
