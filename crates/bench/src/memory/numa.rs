//! The cost of remote NUMA memory.

use super::WorkingSets;
use super::latency::{PointerChain, map, time};
use crate::Result;
use crate::available_memory::free_of_node;
use crate::cpu_topology::nodes;
use crate::study::StudyContext;
use crate::study::{Repetitions, TimeBasis, repeat, times};
use std::hint::black_box;
use whyslow_documents::bench::{Measurement, Study};

const METHOD: &str = "Pointer chase and sequential read of memory bound to a node (mbind), from a CPU of each node.";

/// Time limit of all pairs of nodes together, as a multiple of the time of one figure.
const MAX_FIGURES_TIME: u32 = 64;

/// A figure, and whether CPU and memory belong to the same node.
type NodeFigure = (Measurement, bool);

pub(super) fn study(context: &mut StudyContext, sets: &WorkingSets) -> Result<Study> {
    let (topology, memories) = (context.topology.by_node(), nodes(&context.root));
    let pairs = (topology.len() * memories.len()) as u32;
    let usual = context.time;
    context.time = usual * MAX_FIGURES_TIME / (2 * pairs).max(MAX_FIGURES_TIME);
    let mut measured = Vec::new();
    for memory in memories {
        measured.extend(of_node(context, sets, &topology, memory)?);
    }
    context.time = usual;
    let findings = findings(&measured, pairs);
    let figures = measured.into_iter().map(|(figure, _)| figure).collect();
    Ok(Study { name: "memory of nodes".into(), method: METHOD.into(), figures, findings, ..Study::default() })
}

fn of_node(
    context: &mut StudyContext,
    sets: &WorkingSets,
    topology: &[(u32, u32)],
    memory: u32,
) -> Result<Vec<NodeFigure>> {
    // Binding to a node that is short of memory would reclaim memory of others.
    if free_of_node(&context.root, memory) < 2 * sets.most {
        context.session.caveats.push(format!("node {memory} is not measured: it has too little free memory"));
        return Ok(Vec::new());
    }
    let mut region = map(context, sets.most, sets.usual_pages(), Some(memory))?;
    let mut measured = Vec::new();
    for &(node, cpu) in topology {
        let under = format!("from node {node}");
        let name = |what: &str| format!("{what}, memory of node {memory}");
        if context.session.proceed_to(&format!("memory of node {memory} {under}")) {
            let links = PointerChain::lay(&mut region, sets.most);
            let latency = time(context, links, cpu, &name("latency"), &under)?;
            let read = sum_up(region.as_u64(), cpu, context)?.rate(&name("read"), &under, "bytes/s");
            measured.extend(latency.into_iter().chain(read).map(|figure| (figure, node == memory)));
        }
    }
    Ok(measured)
}

/// Measures sequential reads.
fn sum_up(words: &[u64], cpu: u32, context: &StudyContext) -> Result<Repetitions> {
    const PORTION: usize = 1 << 17;
    repeat(&[cpu], context.options(TimeBasis::OnCpu), |_| {
        let mut portions = words.chunks(PORTION).cycle();
        Ok(move || {
            let portion = portions.next().unwrap_or_default();
            black_box(portion.iter().fold(0_u64, |sum, word| sum.wrapping_add(*word)));
            size_of_val(portion) as u64
        })
    })
}

fn findings(measured: &[NodeFigure], pairs: u32) -> Vec<String> {
    if pairs < 2 {
        return vec!["One NUMA node: memory latency is the same from all CPUs.".into()];
    }
    let latencies = |near: bool| {
        let of = move |(figure, own): &&NodeFigure| figure.unit == "s" && *own == near;
        measured.iter().filter(of).map(|(figure, _)| figure)
    };
    let by_value = |a: &&Measurement, b: &&Measurement| a.value.total_cmp(&b.value);
    let (nearest, farthest) = (latencies(true).min_by(by_value), latencies(false).max_by(by_value));
    let said = |(near, far)| format!("Latency of the most distant node: {} that of local memory.", times(far, near));
    nearest.zip(farthest).map(said).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_memory_is_compared_with_local_memory() {
        let figure = |value, unit, own| (Measurement::from_samples("x", "", unit, vec![value]).unwrap(), own);
        let measured = [
            figure(80e-9, "s", true),
            figure(90e-9, "s", true),
            figure(160e-9, "s", false),
            figure(9.0, "bytes/s", false),
        ];
        assert_eq!(findings(&measured, 4), ["Latency of the most distant node: 2.00 times that of local memory."]);
        assert!(findings(&measured[..1], 1)[0].starts_with("One NUMA node"));
        assert_eq!(findings(&[], 4), [""; 0]);
    }
}
