//! What it costs to use the memory of another node.

use super::Sets;
use super::latency::{Links, map, time};
use super::room::free_of_node;
use crate::error::Result;
use crate::pinned::{Clock, Repeated, repeat, times};
use crate::places::nodes;
use crate::studies::Bench;
use std::hint::black_box;
use whyslow_model::bench::{Figure, Study};

const METHOD: &str = "A thread on a processor of one node uses memory that is bound to a node (mbind(2)): follows links through it \
as for latency, and sums it up as for bandwidth.";

/// All pairs together are measured for no longer than so many figures are.
const AS_MANY: u32 = 64;

/// A figure, and whether it is of a processor and memory of one node.
type Measured = (Figure, bool);

pub(super) fn study(bench: &mut Bench, sets: &Sets) -> Result<Study> {
    let (processors, memories) = (bench.processors.by_node(), nodes(&bench.root));
    let pairs = (processors.len() * memories.len()) as u32;
    let usual = bench.time;
    bench.time = usual * AS_MANY / (2 * pairs).max(AS_MANY);
    let mut measured = Vec::new();
    for memory in memories {
        measured.extend(of_node(bench, sets, &processors, memory)?);
    }
    bench.time = usual;
    let findings = findings(&measured, pairs);
    let figures = measured.into_iter().map(|(figure, _)| figure).collect();
    Ok(Study { name: "memory of nodes".into(), method: METHOD.into(), figures, findings })
}

/// The memory of one node, from each.
fn of_node(bench: &mut Bench, sets: &Sets, processors: &[(u32, u32)], memory: u32) -> Result<Vec<Measured>> {
    // What is bound to a node that is short of memory is taken from others there.
    if free_of_node(&bench.root, memory) < 2 * sets.most {
        bench.session.caveats.push(format!("node {memory} has too little free memory to be measured"));
        return Ok(Vec::new());
    }
    let mut region = map(bench, sets.most, sets.usual_pages(), Some(memory))?;
    let mut measured = Vec::new();
    for &(node, cpu) in processors {
        let under = format!("from node {node}");
        let name = |what: &str| format!("{what}, memory of node {memory}");
        if bench.session.goes_on_to(&format!("memory of node {memory} {under}")) {
            let links = Links::lay(&mut region, sets.most);
            let latency = time(bench, links, cpu, &name("latency"), &under)?;
            let read = sum_up(region.words(), cpu, bench)?.rate(&name("read"), &under, "bytes/s");
            measured.extend(latency.into_iter().chain(read).map(|figure| (figure, node == memory)));
        }
    }
    Ok(measured)
}

/// Reads all of it in order.
fn sum_up(words: &[u64], cpu: u32, bench: &Bench) -> Result<Repeated> {
    const PORTION: usize = 1 << 17;
    repeat(&[cpu], bench.pace(Clock::Running), |_| {
        let mut portions = words.chunks(PORTION).cycle();
        Ok(move || {
            let portion = portions.next().unwrap_or_default();
            black_box(portion.iter().fold(0_u64, |sum, word| sum.wrapping_add(*word)));
            size_of_val(portion) as u64
        })
    })
}

/// How much slower the memory of others is than one's own.
fn findings(measured: &[Measured], pairs: u32) -> Vec<String> {
    if pairs < 2 {
        return vec!["There is one node: all memory is as near to all processors.".into()];
    }
    let latencies = |near: bool| {
        let of = move |(figure, own): &&Measured| figure.unit == "s" && *own == near;
        measured.iter().filter(of).map(|(figure, _)| figure)
    };
    let by_value = |a: &&Figure, b: &&Figure| a.value.total_cmp(&b.value);
    let (nearest, farthest) = (latencies(true).min_by(by_value), latencies(false).max_by(by_value));
    let said = |(near, far)| format!("The farthest memory takes {} as long as the nearest.", times(far, near));
    nearest.zip(farthest).map(said).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_others_is_held_against_ones_own() {
        let figure = |value, unit, own| (Figure::of("x", "", unit, vec![value]).unwrap(), own);
        let measured = [
            figure(80e-9, "s", true),
            figure(90e-9, "s", true),
            figure(160e-9, "s", false),
            figure(9.0, "bytes/s", false),
        ];
        assert_eq!(findings(&measured, 4), ["The farthest memory takes 2.00 times as long as the nearest."]);
        assert!(findings(&measured[..1], 1)[0].contains("one node"));
        assert_eq!(findings(&[], 4), [""; 0]);
    }
}
