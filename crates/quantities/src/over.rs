//! Values of a quantity over a window.

use crate::declare::Quantity;
use crate::expression::StepAmount;
use std::collections::{BTreeMap, BTreeSet};
use whyslow_model::catalogue::Family;
use whyslow_model::value::{Counter, Value};
use whyslow_model::window::Change;

impl<F: Family> Quantity<F> {
    /// Returns the value over all steps of an entity.
    pub fn over<'c, 'w: 'c>(&self, change: impl Into<Option<&'c Change<'w, F>>>) -> Option<f64>
    where
        F: 'w,
    {
        self.over_all(change.into())
    }

    /// Returns the value over all steps of several entities together: the share of all CPUs' time, not the mean of their shares.
    pub fn over_all<'c, 'w: 'c>(&self, changes: impl IntoIterator<Item = &'c Change<'w, F>>) -> Option<f64>
    where
        F: 'w,
    {
        let amounts = changes.into_iter().flat_map(|change| self.amounts(change));
        self.declaration.value(amounts.filter_map(|(_, amount)| amount).reduce(StepAmount::plus)?)
    }

    /// Returns the sum of the values of several entities: the segments sent in all network namespaces.
    pub fn total<'c, 'w: 'c>(&self, changes: impl IntoIterator<Item = &'c Change<'w, F>>) -> Option<f64>
    where
        F: 'w,
    {
        changes.into_iter().filter_map(|change| self.over(change)).reduce(|a, b| a + b)
    }

    /// Returns each step of an entity: its length in seconds, and the value, `None` if it is unknown. The time since boot has no
    /// steps, because the distribution of the growth over it is unknown.
    pub fn steps(&self, change: &Change<'_, F>) -> Vec<(f64, Option<f64>)> {
        if change.is_since_boot() {
            return Vec::new();
        }
        let value = |(seconds, amount): (f64, Option<StepAmount>)| {
            (seconds, amount.and_then(|amount| self.declaration.value(amount)))
        };
        self.amounts(change).map(value).collect()
    }

    /// Returns the value in each step of several entities together, in order of time. Entities that were found later have fewer
    /// steps.
    pub fn steps_of_all(&self, changes: &[Change<'_, F>]) -> Vec<Option<f64>> {
        let mut newest_first: Vec<Option<StepAmount>> = Vec::new();
        for change in changes.iter().filter(|change| !change.is_since_boot()) {
            let steps: Vec<Option<StepAmount>> = self.amounts(change).map(|(_, amount)| amount).collect();
            newest_first.resize(newest_first.len().max(steps.len()), None);
            for (all, step) in newest_first.iter_mut().zip(steps.into_iter().rev()) {
                *all = all.map_or(step, |all| Some(step.map_or(all, |step| all.plus(step))));
            }
        }
        newest_first.into_iter().rev().map(|all| self.declaration.value(all?)).collect()
    }

    /// Returns each step: its length in seconds, and the amount in the units of the catalogue, `None` if it is unknown.
    fn amounts(&self, change: &Change<'_, F>) -> impl Iterator<Item = (f64, Option<StepAmount>)> {
        let columns: BTreeSet<usize> = self.declaration.expression.columns().collect();
        let grown: BTreeMap<usize, Vec<(f64, Option<f64>)>> =
            columns.into_iter().map(|column| (column, growths(change, column))).collect();
        let lengths: Vec<f64> =
            grown.values().next().map_or_else(Vec::new, |steps| steps.iter().map(|(seconds, _)| *seconds).collect());
        lengths.into_iter().enumerate().map(move |(at, seconds)| {
            let grown = |column: usize| grown.get(&column)?.get(at)?.1;
            (seconds, self.declaration.expression.step(seconds, grown))
        })
    }
}

/// Returns each step of an entity: its length in seconds, and the growth of the counter in a column.
pub fn growths<F: Family>(change: &Change<'_, F>, column: usize) -> Vec<(f64, Option<f64>)> {
    let counter = |row: &F| match row.value(column) {
        Some(Value::Counter(counter)) => counter,
        _ => Counter::default(),
    };
    change.growths(counter).collect()
}

#[cfg(test)]
mod tests {
    use crate::disk;
    use whyslow_model::catalogue::Disk;
    use whyslow_model::snapshot::Snapshot;
    use whyslow_model::window::Window;

    /// Creates a window of three samples of a disk, one second apart, modified by `changes`.
    fn window(changes: &[fn(&mut Disk, u64)]) -> Window {
        let sample = |t: u64| {
            let mut disk = Disk::new("sda".into());
            changes.iter().for_each(|change| change(&mut disk, t));
            let mut sample = Snapshot { boot_ns: (t + 1) * 1_000_000_000, ..Snapshot::default() };
            sample.block.disk.push(disk);
            sample
        };
        Window::new((0..3).map(sample).collect())
    }

    fn size_and_wait(changes: &[fn(&mut Disk, u64)]) -> (Option<f64>, Option<f64>) {
        let window = window(changes);
        let change = window.change::<Disk>().unwrap();
        (disk::REQUEST_SIZE.over(&change), disk::WAIT.over(&change))
    }

    #[test]
    fn amounts_and_units_are_of_the_same_steps() {
        let (size, _) = size_and_wait(&[|d, t| (d.read_bytes, d.reads) = ((t * 4096).into(), t.into())]);
        assert_eq!(size, Some(4096.0));
        let (apart, _) = size_and_wait(&[|d, t| {
            if t < 2 {
                d.read_bytes = (t * 4096).into();
            }
            if t > 0 {
                d.reads = (t * 100).into();
            }
        }]);
        assert_eq!(apart, None, "the bytes of one run and the requests of another one");
    }

    #[test]
    fn a_direction_without_a_number_needs_the_totals() {
        let (size, _) = size_and_wait(&[|d, t| {
            (d.read_bytes, d.write_bytes, d.reads) = ((t * 4096).into(), (t * 8192).into(), t.into());
        }]);
        assert_eq!(size, None, "the writes were not counted");
        let (size, _) = size_and_wait(&[|d, t| {
            (d.read_bytes, d.write_bytes, d.transfers) = ((t * 4096).into(), (t * 8192).into(), (t * 2).into());
        }]);
        assert_eq!(size, Some(6144.0));
        let (_, wait) = size_and_wait(&[|d, t| {
            (d.transfer_time, d.reads, d.writes) = ((t * 3_000_000).into(), t.into(), (t * 2).into());
        }]);
        assert_eq!(wait, Some(0.001));
    }

    #[test]
    fn a_reset_is_no_growth_and_a_late_sample_no_more_than_all_of_the_time() {
        let window = window(&[|d, t| {
            d.reads = if t == 2 { 1 } else { 100 + 50 * t }.into();
            d.busy_time = (t * 1_010_000_000).into();
        }]);
        let change = window.change::<Disk>().unwrap();
        assert_eq!(disk::READS.over(&change), Some(50.0), "of the one step in which it is known");
        assert_eq!(disk::READS.steps(&change), [(1.0, Some(50.0)), (1.0, None)]);
        assert_eq!(disk::BUSY.over(&change), Some(1.0));
    }

    #[test]
    fn formulas_are_those_of_the_expressions() {
        let formulas = [
            &disk::READS.declaration,
            &disk::REQUESTS.declaration,
            &disk::WAIT.declaration,
            &disk::QUEUE_BUSY.declaration,
        ];
        assert_eq!(
            formulas.map(|quantity| quantity.formula),
            [
                "Δreads / Δt",
                "(Δ(reads + writes + discards) or Δ(transfers + discards)) / Δt",
                "Δ(read_time + write_time) / Δ(reads + writes); else (Δ(read_time + write_time) or Δtransfer_time) / (Δ(reads + writes) or Δtransfers)",
                "Δweighted_time / Δbusy_time",
            ]
        );
    }
}
