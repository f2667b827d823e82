//! How much of a flow each layer carries, from the calls of programs to the devices. A layer that carries more than the one above
//! multiplies it (read-ahead, journals, parity); one that carries less answers from memory.

use whyslow_documents::diagnosis::{Flow, FlowLayer};
use whyslow_model::catalogue::{Disk, Family, Process};
use whyslow_model::topology::Topology;
use whyslow_model::window::Window;
use whyslow_quantities::{Declaration, Quantity, process};

/// Amount in bytes per second below which no layer is worth a look.
const NOTICEABLE: f64 = 1_048_576.0;

/// Returns the flows of the window in which some layer carries a noticeable amount. The layers below follow from the
/// declarations of the quantities.
pub(crate) fn flows(window: &Window, topology: &Topology) -> Vec<Flow> {
    let tops = [("reads", &process::READ_CALLS_RATE.declaration), ("writes", &process::WRITE_CALLS_RATE.declaration)];
    let flow = |(flow, top): (&str, &'static Declaration)| {
        let mut layers: Vec<FlowLayer> = Vec::new();
        for quantity in std::iter::successors(Some(top), |quantity| quantity.passes_to) {
            for (of, amount) in amounts(quantity, window, topology) {
                let of_above = layers.last().filter(|above| above.amount > 0.0).map(|above| amount / above.amount);
                let layer = format!("{}, {of}", quantity.meaning);
                let how = format!("sum of {} ({})", quantity.formula, quantity.source);
                layers.push(FlowLayer { layer, amount, of_above, how });
            }
        }
        let is_noticeable = layers.len() > 1 && layers.iter().any(|layer| layer.amount >= NOTICEABLE);
        is_noticeable.then(|| Flow { flow: flow.to_owned(), unit: top.unit.to_owned(), layers })
    };
    tops.into_iter().filter_map(flow).collect()
}

/// Returns the known sums of a quantity over the entities that are a layer: all processes, or the devices that requests enter
/// through, and those below which there is none.
fn amounts(quantity: &Declaration, window: &Window, topology: &Topology) -> Vec<(&'static str, f64)> {
    let all_processes = || [("all processes", total::<Process>(quantity, window, |_| true))];
    let devices = || {
        let topmost = |device: &str| topology.above(device).next().is_none();
        let lowest = |device: &str| topology.below(device).next().is_none();
        let total = |is_one: &dyn Fn(&str) -> bool| total::<Disk>(quantity, window, |device| is_one(device));
        [("topmost devices", total(&topmost)), ("lowest devices", total(&lowest))]
    };
    let sums: &[(&str, Option<f64>)] = match quantity.family.name {
        name if name == Process::INFO.name => &all_processes(),
        name if name == Disk::INFO.name => &devices(),
        _ => &[],
    };
    sums.iter().filter_map(|(of, amount)| Some((*of, (*amount)?))).collect()
}

fn total<F: Family>(quantity: &Declaration, window: &Window, is_one: impl Fn(&F::Key) -> bool) -> Option<f64> {
    let changes = window.changes::<F>();
    Quantity::<F>::from_declaration(*quantity).total(changes.iter().filter(|change| is_one(change.key())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::window;
    use whyslow_model::catalogue::{Layer, ProcessRow};
    use whyslow_model::key::{LinkKey, TaskKey};

    const MIB: u64 = 1 << 20;

    #[test]
    fn each_layer_is_compared_with_the_one_above() {
        let window = window([0, 10], |second, s| {
            for (pid, share) in [(1, 1), (2, 3)] {
                let bytes = second * share * MIB;
                let row = ProcessRow::new(TaskKey { pid, tid: pid, start: 1 });
                let row = ProcessRow { write_chars: bytes.into(), write_bytes: bytes.into(), ..row };
                s.task.process.push(row.into());
            }
            // A mirror of two disks.
            for (device, rate) in [("md0", 6), ("sda", 6), ("sdb", 6)] {
                s.block.disk.push(Disk { write_bytes: (second * rate * MIB).into(), ..Disk::new(device.into()) });
            }
            let link = |lower: &str| LinkKey { upper: "md0".into(), lower: lower.into() };
            s.block.layer.extend(["sda", "sdb"].map(|lower| Layer { kind: "md".into(), ..Layer::new(link(lower)) }));
        });
        let flows = flows(&window, &Topology::from_window(&window));
        let [writes] = &flows[..] else { panic!("{flows:?}") };
        let amounts: Vec<(f64, Option<f64>)> =
            writes.layers.iter().map(|layer| (layer.amount / MIB as f64, layer.of_above)).collect();
        assert_eq!(amounts, [(4.0, None), (4.0, Some(1.0)), (6.0, Some(1.5)), (12.0, Some(2.0))]);
        assert_eq!(writes.layers[3].layer, "bytes written, lowest devices");
    }
}
