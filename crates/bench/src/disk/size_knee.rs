//! Knee of throughput over the request size or the number of readers: where throughput stops rising.

use crate::plateau::is_gain;
use whyslow_documents::bench::{Measurement, SizeKnee};
use whyslow_model::human;

/// Maximum gain of a larger size for a size to be certainly on the plateau.
const MOST_UNCERTAIN: f64 = 0.2;

/// Result at one size.
#[derive(Clone, Copy, Debug)]
pub(super) struct SizedFigure<'f> {
    pub(super) size: u64,
    pub(super) figure: &'f Measurement,
    /// Whether the CPU that generates the load was the limit.
    pub(super) cpu_bound: bool,
}

/// Finds where throughput stops rising. The earliest candidate is the smallest size that no larger one exceeds by 5 %
/// and by more than noise; the latest is the one where a larger size gains at most [`MOST_UNCERTAIN`].
///
/// # Errors
/// Returns the reason if the knee is unknown.
pub(super) fn knee(points: &[SizedFigure]) -> Result<SizeKnee, String> {
    if points.len() < 2 || points.iter().any(|point| point.figure.interval.is_none()) {
        return Err("too few repetitions to say where throughput plateaus".into());
    }
    let last = points.len() - 1;
    let exceeds = |larger: &SizedFigure, point: &SizedFigure| {
        is_gain(point.figure.value, larger.figure.value) && larger.figure.is_apart_from(point.figure)
    };
    let is_not_exceeded = |at: &usize| !points[at + 1..].iter().any(|larger| exceeds(larger, &points[*at]));
    // No point is larger than the last one, so both searches succeed.
    let earliest = (0..=last).find(is_not_exceeded).unwrap_or(last);
    let is_certain = |at: &usize| is_not_exceeded(at) && most_gain(&points[*at..]) <= MOST_UNCERTAIN;
    let at = (earliest..=last).find(is_certain).unwrap_or(last);
    if at == last && earliest != last {
        return Err("measurements vary too much to say where throughput plateaus; run longer (--for)".into());
    }
    let SizedFigure { size, figure, cpu_bound } = points[at];
    Ok(SizeKnee {
        name: figure.name.clone(),
        under: figure.under.clone(),
        size,
        earliest: points[earliest].size,
        value: figure.value,
        reached: at < last,
        most_gain: most_gain(&points[at..]),
        generator: cpu_bound,
    })
}

/// Returns the maximum gain of a later size over the first, from its confidence interval, as a share.
fn most_gain(points: &[SizedFigure]) -> f64 {
    let value = points[0].figure.value;
    let highs = points[1..].iter().filter_map(|larger| larger.figure.interval).map(|[_, high]| high);
    highs.fold(value, f64::max) / value - 1.0
}

/// Describes the knee, and the decline beyond it, if there is one.
pub(super) fn sentence(what: &str, points: &[SizedFigure]) -> String {
    let knee = match knee(points) {
        Ok(knee) => knee,
        Err(why) => return format!("{what}: {why}."),
    };
    let (under, value) = (&knee.under, human::quantity(knee.value, "bytes/s"));
    let mut text = match points.iter().find(|point| point.size == knee.earliest) {
        _ if !knee.reached => format!("{what}: throughput still rises at {under} ({value})"),
        Some(earliest) if knee.earliest < knee.size => {
            format!("{what}: throughput plateaus between {} and {under} ({value})", earliest.figure.under)
        }
        _ => format!("{what}: throughput plateaus at {under} ({value})"),
    };
    if knee.reached {
        text += &match knee.most_gain {
            gain if gain > 0.0 => format!("; anything larger gains at most {}", human::share(gain)),
            _ => "; anything larger gains nothing".to_owned(),
        };
        text += &fall(&knee, points).unwrap_or_default();
    }
    if knee.generator {
        text += ". The CPU generating the load was the limit";
    }
    text + "."
}

/// Describes the throughput at the largest size, if it is lower than at the knee.
fn fall(knee: &SizeKnee, points: &[SizedFigure]) -> Option<String> {
    let (at, last) = (points.iter().find(|point| point.size == knee.size)?.figure, points.last()?.figure);
    let falls = is_gain(last.value, at.value) && at.is_apart_from(last);
    falls.then(|| format!("; {} reach {}", last.under, human::quantity(last.value, "bytes/s")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns ten samples around a value: the interval is from the second to the ninth.
    fn figure(size: u64, value: f64, spread: f64) -> Measurement {
        let samples = (0..10).map(|at| value * (1.0 + spread * (f64::from(at) - 4.5) / 3.5)).collect();
        Measurement::from_samples("direct", format!("{size} KiB"), "bytes/s", samples).unwrap()
    }

    fn points(figures: &[Measurement]) -> Vec<SizedFigure<'_>> {
        let point = |(at, figure)| SizedFigure { size: 4_u64 << at, figure, cpu_bound: false };
        figures.iter().enumerate().map(point).collect()
    }

    fn figures(values: &[f64], spread: f64) -> Vec<Measurement> {
        values.iter().enumerate().map(|(at, &value)| figure(4 << at, value, spread)).collect()
    }

    #[test]
    fn the_knee_is_the_smallest_size_that_no_larger_one_exceeds() {
        let figures = figures(&[100.0, 200.0, 390.0, 400.0, 398.0], 0.02);
        let found = knee(&points(&figures)).unwrap();
        assert_eq!((found.size, &*found.under, found.value, found.reached), (16, "16 KiB", 390.0, true));
        // The interval of 400 ends at 408.
        assert!((found.most_gain - (408.0 / 390.0 - 1.0)).abs() < 1e-9, "{}", found.most_gain);
        assert_eq!(
            sentence("Direct reads", &points(&figures)),
            "Direct reads: throughput plateaus at 16 KiB (390 B/s); anything larger gains at most 5 %."
        );
    }

    #[test]
    fn throughput_that_still_rises_has_no_plateau() {
        let figures = figures(&[100.0, 200.0, 400.0], 0.02);
        let found = knee(&points(&figures)).unwrap();
        assert_eq!((found.size, found.reached, found.most_gain), (16, false, 0.0));
        assert!(sentence("Reads", &points(&figures)).ends_with("still rises at 16 KiB (400 B/s)."));
    }

    #[test]
    fn a_gain_within_noise_is_none_and_too_much_noise_names_no_knee() {
        // 110 is within 100 ± 12 %; its maximum gain is 110 × 1.04 - 100.
        let mixed = [figure(4, 50.0, 0.02), figure(8, 100.0, 0.12), figure(16, 110.0, 0.04)];
        let found = knee(&points(&mixed)).unwrap();
        assert_eq!((found.earliest, found.size), (8, 8));
        assert!((found.most_gain - 0.144).abs() < 1e-9);
        // 115 × 1.07 is 23 % more than 100, but less than 115 and 20 %.
        let wide = [figure(4, 100.0, 0.16), figure(8, 115.0, 0.07), figure(16, 113.0, 0.07)];
        let found = knee(&points(&wide)).unwrap();
        assert_eq!((found.earliest, found.size, found.reached), (4, 8, true));
        assert_eq!(
            sentence("Reads", &points(&wide)),
            "Reads: throughput plateaus between 4 KiB and 8 KiB (115 B/s); anything larger gains at most 5 %."
        );
        let noisy = figures(&[100.0, 105.0, 104.0], 0.5);
        assert!(knee(&points(&noisy)).unwrap_err().contains("vary too much"));
        let few = [Measurement::from_samples("direct", "4 KiB", "bytes/s", vec![1.0, 2.0]).unwrap()];
        assert!(knee(&points(&few)).unwrap_err().contains("too few repetitions"));
    }

    #[test]
    fn a_fall_beyond_the_knee_is_said() {
        let figures = figures(&[100.0, 60.0, 50.0], 0.01);
        let said = sentence("Reads", &points(&figures));
        assert_eq!(
            said,
            "Reads: throughput plateaus at 4 KiB (100 B/s); anything larger gains nothing; 16 KiB reach 50 B/s."
        );
    }
}
