//! Means over the requests of a disk: what belongs to them over their number, from the steps in which both were counted. One run's rate
//! says nothing of another run's requests.

use crate::signal::{over, ratio};
use whyslow_model::catalogue::Disk;
use whyslow_model::value::Counter;
use whyslow_model::window::Change;

/// A counter of a disk.
type Count = fn(&Disk) -> Counter;

/// What a counter grew by over what another one did, from the steps in which both are known.
pub fn quotient(change: &Change<'_, Disk>, part: Count, number: Count) -> Option<f64> {
    if change.is_since_boot() {
        return over(change.rate(part), change.rate(number));
    }
    let steps = change.steps(part).zip(change.steps(number));
    let known = steps.filter_map(|((_, part), (_, number))| part.zip(number));
    let sums = known.reduce(|(part, number), (own, of)| (part + own, number + of));
    sums.and_then(|(part, number)| over(Some(part), Some(number)))
}

/// Mean size of a read or write.
pub fn size(change: &Change<'_, Disk>) -> Option<f64> {
    mean(change, [|d| d.read_bytes, |d| d.write_bytes], None)
}

/// Mean time of a read or write, in seconds.
pub fn wait(change: &Change<'_, Disk>) -> Option<f64> {
    ratio(mean(change, [|d| d.read_time, |d| d.write_time], Some(|d| d.transfer_time)))
}

/// The mean over reads and writes. Where a direction lacks the one or the other, only totals of both belong together.
fn mean(change: &Change<'_, Disk>, parts: [Count; 2], total: Option<Count>) -> Option<f64> {
    let grown = |count: Count| -> Vec<Option<f64>> {
        if change.is_since_boot() {
            return vec![change.grown(count)];
        }
        change.steps(count).map(|(_, grown)| grown).collect()
    };
    let (parts, numbers) = (parts.map(grown), [(|d| d.reads) as Count, |d| d.writes].map(grown));
    let (total, transfers) = (total.map(grown), grown(|d| d.transfers));
    let mut sums = (0.0, 0.0);
    for at in 0..transfers.len() {
        let of = |all: &[Vec<Option<f64>>; 2]| [all[0][at], all[1][at]];
        let (part, number) = (of(&parts), of(&numbers));
        let directions = part.iter().zip(&number);
        let is_paired = directions.clone().all(|(part, number)| match (part, number) {
            (Some(_), Some(_)) | (None, None) => true,
            (Some(known), None) | (None, Some(known)) => *known == 0.0,
        });
        let paired: Vec<(f64, f64)> = directions.filter_map(|(part, number)| part.zip(*number)).collect();
        if is_paired && !paired.is_empty() {
            paired.iter().for_each(|(part, number)| sums = (sums.0 + part, sums.1 + number));
            continue;
        }
        let both = |[read, write]: [Option<f64>; 2]| Some(read? + write?);
        let part = both(part).or_else(|| total.as_ref()?[at]);
        if let Some((part, number)) = part.zip(both(number).or(transfers[at])) {
            sums = (sums.0 + part, sums.1 + number);
        }
    }
    over(Some(sums.0), Some(sums.1)).filter(|mean| mean.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::window;

    fn of(changes: &[fn(&mut Disk, u64)]) -> (Option<f64>, Option<f64>) {
        let window = window([0, 1, 2], |t, s| {
            let mut disk = Disk::new("sda".into());
            changes.iter().for_each(|change| change(&mut disk, t));
            s.block.disk.push(disk);
        });
        let change = window.change::<Disk>().unwrap();
        (size(&change), wait(&change))
    }

    #[test]
    fn both_are_of_the_same_steps() {
        let (mean, _) = of(&[|d, t| (d.read_bytes, d.reads) = ((t * 4096).into(), t.into())]);
        assert_eq!(mean, Some(4096.0));
        let (apart, _) = of(&[|d, t| {
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
        let (mean, _) =
            of(&[|d, t| (d.read_bytes, d.write_bytes, d.reads) = ((t * 4096).into(), (t * 8192).into(), t.into())]);
        assert_eq!(mean, None, "the writes were not counted");
        let (mean, _) = of(&[|d, t| {
            (d.read_bytes, d.write_bytes, d.transfers) = ((t * 4096).into(), (t * 8192).into(), (t * 2).into())
        }]);
        assert_eq!(mean, Some(6144.0));
        let (_, mean) =
            of(&[|d, t| (d.transfer_time, d.reads, d.writes) = ((t * 3_000_000).into(), t.into(), (t * 2).into())]);
        assert_eq!(mean, Some(0.001));
    }
}
