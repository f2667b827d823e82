//! One drive: random requests by its mechanics, or by its observed latency.

use super::{BYTES_PER_SECOND, Machine, PER_SECOND, bytes, link, load, per_second, rate, requests, thing};
use whyslow_documents::expectation::{ExpectedRate, ThingExpected};
use whyslow_documents::io_stack::StackNode;
use whyslow_model::catalogue::Queue;
use whyslow_model::human::quantity;

const MECHANICS: &str =
    "Ruemmler, Wilkes: An introduction to disk drive modeling (IEEE Computer 27:3, 1994): seek + half a revolution";
pub(super) const LITTLE: &str = "Little: A proof for the queuing formula L = λW (Operations Research 9:3, 1961)";
/// Minimum revolutions per minute, and the mean read seek time typical in data sheets from there on, seconds.
const SEEKS: [(f64, f64); 4] = [(14_000.0, 0.0034), (9_500.0, 0.0045), (7_000.0, 0.0085), (0.0, 0.012)];
/// Up to this mean queue the latency is that of one request at a time.
const ALONE: f64 = 1.3;
/// Requests per second below which a latency is not significant.
const ENOUGH: f64 = 5.0;

/// Rate of random requests of a drive, and how it was derived.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Random {
    /// Requests per second.
    pub(super) rate: f64,
    pub(super) formula: String,
    pub(super) source: &'static str,
    /// Assumptions made.
    pub(super) note: Option<String>,
}

impl Random {
    /// Converts it to an expectation of this device.
    pub(super) fn expected(self, node: &StackNode) -> ExpectedRate {
        rate("random requests", self.rate, PER_SECOND, self.formula, self.source, requests(node))
    }
}

pub(super) fn of_disk(machine: &Machine<'_>, node: &StackNode) -> ThingExpected {
    let Some(queue) = machine.queue(node) else { return ThingExpected::default() };
    let mut disk = thing(what(queue, machine));
    if let Some(mut random) = random(machine, node) {
        disk.notes.extend(random.note.take());
        disk.rates.push(random.expected(node));
    } else {
        disk.notes.extend(why_unknown(node));
    }
    disk.rates.extend(most_by_depth(queue, node));
    if let Some(load) = load(node)
        && let Some(ceiling) = load.ceiling
    {
        let formula = "more requests in flight do not raise it".to_owned();
        disk.rates.push(rate("throughput", ceiling, BYTES_PER_SECOND, formula, "measured", bytes(node)));
    }
    if let Some(link) = queue.link_speed.get().and_then(|speed| link::of_transport(queue.transport.get()?, speed)) {
        disk.rates.push(rate(
            "throughput of its link",
            link.rate,
            BYTES_PER_SECOND,
            link.formula,
            link.source,
            bytes(node),
        ));
    }
    disk
}

/// Formats as `rotating, 7200 rpm, ata`.
fn what(queue: &Queue, machine: &Machine<'_>) -> String {
    let rotation = rotation(queue, machine).map(|rpm| format!("{rpm} rpm"));
    let medium = queue.rotational.get().map(|spins| if spins > 0.0 { "rotating" } else { "not rotating" });
    let words = [
        queue.model.get().map(str::to_owned),
        medium.map(str::to_owned),
        rotation,
        queue.transport.get().map(str::to_owned),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Returns the revolutions per minute; `None` for a virtual disk that claims to rotate, and where they are unknown.
pub(super) fn rotation(queue: &Queue, machine: &Machine<'_>) -> Option<f64> {
    let spins = queue.rotational.get()? > 0.0;
    let reported = queue.rotation_rate.get();
    reported.or(machine.facts.rotation_rate).filter(|rpm| spins && *rpm > 1.0)
}

/// Returns the rate of random requests, one at a time.
pub(super) fn random(machine: &Machine<'_>, node: &StackNode) -> Option<Random> {
    let queue = machine.queue(node)?;
    match rotation(queue, machine) {
        Some(rpm) => Some(by_mechanics(rpm, machine.facts.seek)),
        None => by_latency(node),
    }
}

/// Computes the rate from the mechanics: a request takes a seek and, on average, half a revolution until its sector arrives; the
/// transfer time of a small one is negligible.
fn by_mechanics(rpm: f64, seek: Option<f64>) -> Random {
    let usual = SEEKS.iter().find(|(least, _)| rpm >= *least).map_or(0.0, |(_, seek)| *seek);
    let half = 30.0 / rpm;
    let time = seek.unwrap_or(usual) + half;
    let ms = |seconds: f64| quantity(seconds, "s");
    let note = format!("A seek of {} is usual at {rpm} rpm; --seek sets that of these drives.", ms(usual));
    Random {
        rate: 1.0 / time,
        formula: format!("1 / ({} seek + {} for half a revolution)", ms(seek.unwrap_or(usual)), ms(half)),
        source: MECHANICS,
        note: seek.is_none().then_some(note),
    }
}

/// Computes the rate from the latency of one request at a time. Several at a time share a queue, so that their latency says
/// less.
pub(super) fn by_latency(node: &StackNode) -> Option<Random> {
    let load = load(node)?;
    let (latency, queue) = (load.latency.filter(|latency| *latency > 0.0)?, load.queue?);
    if load.requests? < ENOUGH || queue > ALONE {
        return None;
    }
    Some(Random {
        rate: 1.0 / latency,
        formula: format!(
            "1 / {}, the latency measured with {} in flight",
            quantity(latency, "s"),
            quantity(queue, "count")
        ),
        source: LITTLE,
        note: Some(
            "One request at a time: drives that work on several at once do more with a deeper queue.".to_owned(),
        ),
    })
}

/// Returns why the latencies do not yield a rate; `None` for a device without requests.
fn why_unknown(node: &StackNode) -> Option<String> {
    let load = load(node)?;
    let few = load.requests.filter(|requests| *requests > 0.0 && *requests < ENOUGH);
    if let Some(requests) = few {
        return Some(format!(
            "It completed {} requests a second: too few to tell how long one takes. Watch it while it is in use, or measure it with 'whyslow bench disk'.",
            quantity(requests, "count")
        ));
    }
    let (latency, queue) = (load.latency?, load.queue.filter(|queue| *queue > ALONE)?);
    Some(format!(
        "A request took {} with {} in flight: how long one takes alone is not known. Watch it under less load, or measure it with 'whyslow bench disk'.",
        quantity(latency, "s"),
        quantity(queue, "count")
    ))
}

/// Returns the rate at the maximum queue depth, each request with the latency of one alone: more than that needs a faster
/// device.
pub(super) fn most_by_depth(queue: &Queue, node: &StackNode) -> Option<ExpectedRate> {
    let alone = by_latency(node)?;
    if let Some(ceiling) = load(node)?.request_ceiling {
        let formula = "more requests in flight do not raise it".to_owned();
        return Some(rate("requests at most", ceiling, PER_SECOND, formula, "measured", requests(node)));
    }
    let depth = [queue.device_depth.get(), queue.adapter_depth.get()].into_iter().flatten().reduce(f64::min)?;
    let formula = format!("{} that the device takes at once × {}/s", quantity(depth, "count"), per_second(alone.rate));
    Some(rate("requests at most", depth * alone.rate, PER_SECOND, formula, LITTLE, requests(node)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_is_as_fast_as_its_mechanics() {
        let random = by_mechanics(7200.0, None);
        assert_eq!(
            (random.rate.round(), random.formula.as_str()),
            (79.0, "1 / (8.50 ms seek + 4.17 ms for half a revolution)")
        );
        assert!(random.note.unwrap().contains("--seek"));
        let known = by_mechanics(15_000.0, Some(0.003));
        assert_eq!((known.rate, known.note), (200.0, None));
    }
}
