//! RAID and stripes: what their members deliver together, and which other layout would deliver more.

use super::drive::{Random, random};
use super::{Machine, PER_SECOND, per_second, rate, requests, thing};
use whyslow_documents::expectation::{LayoutGain, ThingExpected};
use whyslow_documents::io_stack::StackNode;
use whyslow_model::catalogue::Disk;
use whyslow_model::human::quantity;
use whyslow_model::window::Change;

const RAID: &str = "Patterson, Gibson, Katz: A case for redundant arrays of inexpensive disks (SIGMOD 1988); md(4)";
const STRIPES: &str = "Chen, Patterson: Maximizing performance in a striped disk array (ISCA 1990); md(4)";
/// Alignment unit of requests, bytes.
const BLOCK: f64 = 4096.0;
/// Minimum gain of a layout for moving the data to be worthwhile.
const WORTH: f64 = 1.1;

/// Request pattern of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Pattern {
    /// Share of reads among its requests, if it had any.
    pub(super) reads: Option<f64>,
    /// Mean size of a request, bytes.
    pub(super) size: Option<f64>,
}

impl Pattern {
    pub(super) fn from_change(change: Option<&Change<'_, Disk>>) -> Self {
        let Some(change) = change else { return Self::default() };
        let sum = |a: Option<f64>, b: Option<f64>| Some(a? + b?);
        let reads = change.rate(|disk| disk.reads);
        let all = sum(reads, change.rate(|disk| disk.writes)).filter(|all| *all > 0.0);
        let bytes = sum(change.rate(|disk| disk.read_bytes), change.rate(|disk| disk.write_bytes));
        let out_of = |part: Option<f64>| Some(part? / all?);
        Self { reads: out_of(reads), size: out_of(bytes) }
    }
}

/// Arrangement of members.
#[derive(Clone, Debug, PartialEq)]
struct Layout {
    name: String,
    members: f64,
    /// Requests to members per small write.
    penalty: f64,
    /// Bytes on a member before the next member follows.
    chunk: Option<f64>,
}

impl Layout {
    fn from_node(machine: &Machine<'_>, node: &StackNode) -> Option<Self> {
        if let Some(array) = machine.arrays.get(node.name.as_str()) {
            let members = array.members.get().filter(|members| *members >= 1.0)?;
            let level = array.level.get()?;
            let penalty = match level {
                "raid0" => 1.0,
                "raid1" => members,
                "raid10" => 2.0,
                // Read the old data and parity, write the new ones.
                "raid4" | "raid5" => 4.0,
                "raid6" => 6.0,
                _ => return None,
            };
            let chunk = array.chunk.get().filter(|chunk| *chunk > 0.0 && level != "raid1");
            return Some(Self { name: level.replace("raid", "RAID "), members, penalty, chunk });
        }
        let mapped = machine.mapped.get(node.name.as_str())?;
        let members = mapped.stripes.get().filter(|stripes| *stripes >= 2.0)?;
        Some(Self {
            name: "stripes".into(),
            members,
            penalty: 1.0,
            chunk: mapped.chunk.get().filter(|chunk| *chunk > 0.0),
        })
    }

    fn words(&self) -> String {
        let chunk = self.chunk.map_or_else(String::new, |chunk| format!(", chunk {}", quantity(chunk, "bytes")));
        format!("{} over {} members{chunk}", self.name, quantity(self.members, "count"))
    }

    /// Returns the requests to members per request.
    fn cost(&self, reads: f64) -> f64 {
        reads + (1.0 - reads) * self.penalty
    }
}

pub(super) fn of_device(machine: &Machine<'_>, node: &StackNode, pattern: &Pattern) -> ThingExpected {
    let Some(layout) = Layout::from_node(machine, node) else { return ThingExpected::default() };
    let mut array = thing(layout.words());
    if let Some(member) = slowest_member(machine, node) {
        let (members, each) = (quantity(layout.members, "count"), per_second(member.rate));
        let all = layout.members * member.rate;
        let reads = format!("{members} members × {each}/s");
        array.rates.push(rate("random reads", all, PER_SECOND, reads.clone(), RAID, None));
        let writes = format!("{reads} / {} requests of members a write", quantity(layout.penalty, "count"));
        array.rates.push(rate("random writes", all / layout.penalty, PER_SECOND, writes, RAID, None));
        if let Some(share) = pattern.reads {
            let cost = layout.cost(share);
            let formula =
                format!("{reads} / ({} reads + {} writes × {})", percent(share), percent(1.0 - share), layout.penalty);
            array.rates.push(rate(
                "random requests as they come",
                all / cost,
                PER_SECOND,
                formula,
                RAID,
                requests(node),
            ));
        }
        array.notes.push("With enough requests in flight to keep all members busy.".to_owned());
        array.notes.extend(member.note);
    }
    let missing = machine.arrays.get(node.name.as_str()).and_then(|array| array.degraded.get());
    if missing.is_some_and(|missing| missing > 0.0) && layout.penalty > 1.0 {
        array.notes.push("It is degraded: what was on the missing member is read from others, and the figures are those of a whole array.".to_owned());
    }
    array.layouts = gains(&layout, pattern);
    array
}

/// Returns the slowest member, for which all others wait. A member without requests is assumed to equal the others.
fn slowest_member(machine: &Machine<'_>, node: &StackNode) -> Option<Random> {
    let known = |member: &StackNode| random(machine, machine.disk_of(member));
    let unknown: Vec<&str> =
        machine.below(node).filter(|member| known(member).is_none()).map(|member| member.name.as_str()).collect();
    let mut slowest = machine.below(node).filter_map(known).min_by(|a, b| a.rate.total_cmp(&b.rate))?;
    if !unknown.is_empty() {
        let alike =
            format!("{} had no requests to judge by: assumed to be like the other members.", unknown.join(", "));
        slowest.note = Some(slowest.note.map_or_else(|| alike.clone(), |note| format!("{note} {alike}")));
    }
    Some(slowest)
}

/// Returns other layouts of the same or one more member, for this request pattern.
fn gains(layout: &Layout, pattern: &Pattern) -> Vec<LayoutGain> {
    let Some(reads) = pattern.reads else { return Vec::new() };
    let mirrored =
        (layout.penalty > 2.0 && layout.name != "RAID 1" && layout.members >= 4.0).then(|| to_mirrors(layout, reads));
    let wider = LayoutGain {
        change: "one more member".into(),
        times: (layout.members + 1.0) / layout.members,
        what: "random requests".into(),
        formula: format!("{} / {}", layout.members + 1.0, layout.members),
        source: STRIPES.into(),
        cost: "one more drive, and moving the data (mdadm --grow, or a new volume)".into(),
    };
    let wider = (layout.name != "RAID 1").then_some(wider);
    let larger = layout.chunk.zip(pattern.size).and_then(|(chunk, size)| to_larger_chunk(layout, chunk, size));
    let mut gains: Vec<LayoutGain> =
        [mirrored, larger, wider].into_iter().flatten().filter(|gain| gain.times >= WORTH).collect();
    gains.sort_by(|a, b| b.times.total_cmp(&a.times));
    gains
}

fn to_mirrors(layout: &Layout, reads: f64) -> LayoutGain {
    let mirrors = Layout { penalty: 2.0, ..layout.clone() };
    let side = |penalty: f64| format!("({} reads + {} writes × {penalty})", percent(reads), percent(1.0 - reads));
    let parity = if layout.penalty > 4.0 { 2.0 } else { 1.0 };
    LayoutGain {
        change: "RAID 10 of the same members".into(),
        times: layout.cost(reads) / mirrors.cost(reads),
        what: "random requests as they come".into(),
        formula: format!("{} / {}", side(layout.penalty), side(2.0)),
        source: RAID.into(),
        cost: format!("room for {} members' data instead of {}", layout.members / 2.0, layout.members - parity),
    }
}

/// Returns the gain from a larger chunk. A request of one size begins anywhere in a chunk, so that it touches 1 + (size − block)
/// / chunk members on average.
fn to_larger_chunk(layout: &Layout, chunk: f64, size: f64) -> Option<LayoutGain> {
    let members = |chunk: f64| (1.0 + (size - BLOCK).max(0.0) / chunk).min(layout.members);
    let larger = (size * 4.0).max(BLOCK).log2().ceil().exp2();
    if larger <= chunk {
        return None;
    }
    let words = |chunk: f64| format!("{:.2} members with {}", members(chunk), quantity(chunk, "bytes"));
    Some(LayoutGain {
        change: format!("a chunk of {}", quantity(larger, "bytes")),
        times: members(chunk) / members(larger),
        what: "random requests".into(),
        formula: format!("a request of {} takes {} / {}", quantity(size, "bytes"), words(chunk), words(larger)),
        source: STRIPES.into(),
        cost: "moving the data; a single stream of requests one at a time becomes slower".into(),
    })
}

fn percent(share: f64) -> String {
    quantity(share, "ratio")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(name: &str, members: f64, penalty: f64, chunk: f64) -> Layout {
        Layout { name: name.into(), members, penalty, chunk: Some(chunk) }
    }

    #[test]
    fn mirrors_gain_where_requests_write() {
        let found =
            |reads| gains(&layout("RAID 5", 4.0, 4.0, 524_288.0), &Pattern { reads: Some(reads), size: Some(8192.0) });
        let changes = |reads| {
            found(reads).iter().map(|gain| (gain.change.clone(), (gain.times * 100.0).round())).collect::<Vec<_>>()
        };
        assert_eq!(
            changes(0.0),
            [("RAID 10 of the same members".to_owned(), 200.0), ("one more member".to_owned(), 125.0)]
        );
        assert_eq!(changes(1.0), [("one more member".to_owned(), 125.0)]);
        assert_eq!(found(0.5)[0].cost, "room for 2 members' data instead of 3");
    }

    #[test]
    fn a_small_chunk_takes_many_members_for_a_request() {
        let pattern = Pattern { reads: Some(1.0), size: Some(262_144.0) };
        let found = gains(&layout("RAID 0", 8.0, 1.0, 65_536.0), &pattern);
        assert_eq!((found[0].change.as_str(), (found[0].times * 100.0).round()), ("a chunk of 1 MiB", 396.0));
        assert_eq!(gains(&layout("RAID 0", 8.0, 1.0, 2_097_152.0), &pattern).len(), 1);
    }

    #[test]
    fn without_requests_nothing_is_recommended() {
        assert_eq!(gains(&layout("RAID 6", 6.0, 6.0, 65_536.0), &Pattern::default()), []);
    }
}
