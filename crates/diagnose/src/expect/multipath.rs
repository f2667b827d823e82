//! Multipath devices: the combined capacity of the active paths.

use super::drive::{by_latency, most_by_depth};
use super::{BYTES_PER_SECOND, Machine, PER_SECOND, bytes, link, rate, requests, thing};
use std::collections::BTreeMap;
use whyslow_documents::expectation::{ExpectedRate, ThingExpected};
use whyslow_documents::io_stack::StackNode;
use whyslow_model::human::quantity;

const SOURCE: &str =
    "Documentation/admin-guide/device-mapper/dm-service-time.rst: paths of the active group share the requests";

/// Returns `None` if it is not a multipath device, or its paths are unknown.
pub(super) fn of_device(machine: &Machine<'_>, node: &StackNode) -> Option<ThingExpected> {
    let paths: Vec<(&StackNode, &str)> =
        machine.below(node).filter_map(|path| Some((path, machine.state(node, path)?))).collect();
    let used: Vec<&StackNode> = paths.iter().filter(|(_, state)| *state == "active").map(|(path, _)| *path).collect();
    if paths.len() < 2 || used.is_empty() {
        return None;
    }
    let count = |count: usize| quantity(count as f64, "count");
    let mut device = thing(format!("multipath, {} paths, {} in use", count(paths.len()), count(used.len())));
    device.rates.extend(by_latency(node).map(|random| random.expected(node)));
    device.rates.extend(most_requests(machine, node, &used));
    device.rates.extend(throughput(machine, node, &used));
    let failed = paths.iter().filter(|(_, state)| *state == "failed").count();
    if failed > 0 {
        device.notes.push(format!(
            "{} of its {} paths have failed, and carry nothing.",
            count(failed),
            count(paths.len())
        ));
    }
    Some(device)
}

/// Returns the maximum requests per second: each path takes as many requests at once as its device allows.
fn most_requests(machine: &Machine<'_>, node: &StackNode, used: &[&StackNode]) -> Option<ExpectedRate> {
    let each: Option<Vec<f64>> =
        used.iter().map(|path| Some(most_by_depth(machine.queue(path)?, node)?.expected)).collect();
    let each = each?;
    let words: Vec<String> = each.iter().map(|most| quantity(most.round(), "count")).collect();
    let formula = format!("{}/s, each path's depth × the rate of one at a time", words.join(" + "));
    Some(rate("requests at most", each.iter().sum(), PER_SECOND, formula, SOURCE, requests(node)))
}

/// Returns the combined throughput of the paths' links; for those of one adapter, no more than its bus.
fn throughput(machine: &Machine<'_>, node: &StackNode, used: &[&StackNode]) -> Option<ExpectedRate> {
    let mut adapters: BTreeMap<Option<&str>, f64> = BTreeMap::new();
    for path in used {
        let queue = machine.queue(path)?;
        let link = link::of_transport(queue.transport.get()?, queue.link_speed.get()?)?;
        let adapter = machine.below(path).next().map(|adapter| adapter.id.as_str());
        *adapters.entry(adapter).or_default() += link.rate;
    }
    let words = |rate: f64| quantity(rate, BYTES_PER_SECOND);
    let mut parts = Vec::new();
    let mut all = 0.0;
    for (adapter, links) in adapters {
        let bus = adapter.and_then(|id| machine.bus_rate(id)).filter(|bus| *bus < links);
        all += bus.unwrap_or(links);
        parts.push(bus.map_or_else(|| words(links), |bus| format!("{} of an adapter's bus", words(bus))));
    }
    let formula = format!("{}, the links of the paths in use", parts.join(" + "));
    Some(rate("throughput of its paths", all, BYTES_PER_SECOND, formula, SOURCE, bytes(node)))
}
