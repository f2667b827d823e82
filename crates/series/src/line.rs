//! Values of one series over the intervals of an axis.

use whyslow_documents::chart::ChartSeries;

/// Data of one interval. A value is an amount per unit: growth per second, a level times seconds per second, or the growth of one
/// counter per growth of another. Amounts and units add up, so that the mean is that of the whole interval.
#[derive(Clone, Copy, Debug)]
struct Interval {
    amount: f64,
    units: f64,
    min: f64,
    max: f64,
}

const NOTHING: Interval = Interval { amount: 0.0, units: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY };

/// Intervals from the first to the last with values.
#[derive(Default)]
pub(crate) struct Line {
    first: usize,
    intervals: Vec<Interval>,
}

impl Line {
    /// Adds an amount and its units to an interval. Without units there is no value.
    pub(crate) fn add(&mut self, interval: usize, amount: f64, units: f64) {
        if units > 0.0 {
            let value = amount / units;
            let of = self.interval(interval);
            of.amount += amount;
            of.units += units;
            of.min = of.min.min(value);
            of.max = of.max.max(value);
        }
    }

    fn interval(&mut self, interval: usize) -> &mut Interval {
        if self.intervals.is_empty() {
            self.first = interval;
        }
        if let Some(missing) = self.first.checked_sub(interval).filter(|missing| *missing > 0) {
            self.intervals.splice(0..0, std::iter::repeat_n(NOTHING, missing));
            self.first = interval;
        }
        let at = interval - self.first;
        if at >= self.intervals.len() {
            self.intervals.resize(at + 1, NOTHING);
        }
        &mut self.intervals[at]
    }

    /// Returns the amount and the units of each interval.
    pub(crate) fn amounts(&self) -> impl Iterator<Item = (usize, f64, f64)> {
        self.intervals.iter().enumerate().map(|(at, of)| (self.first + at, of.amount, of.units))
    }

    /// Returns the sum of all amounts.
    pub(crate) fn amount(&self) -> f64 {
        self.intervals.iter().map(|of| of.amount).sum()
    }

    /// Returns true if any interval has a value.
    pub(crate) fn is_known(&self) -> bool {
        self.intervals.iter().any(|of| of.units > 0.0)
    }

    /// Returns true if this line has a value wherever the other has one.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let has = |at: usize| {
            let own = at.checked_sub(self.first).and_then(|at| self.intervals.get(at));
            own.is_some_and(|own| own.units > 0.0)
        };
        other.amounts().filter(|(_, _, units)| *units > 0.0).all(|(at, ..)| has(at))
    }

    /// Returns true if all values are zero.
    pub(crate) fn is_zero(&self) -> bool {
        self.intervals.iter().all(|of| of.units <= 0.0 || (of.min == 0.0 && of.max == 0.0))
    }

    /// Returns the series over `intervals` intervals. Adds minimum and maximum if `has_range` is true and they differ in any
    /// interval.
    pub(crate) fn series(&self, name: String, entity: String, intervals: usize, has_range: bool) -> ChartSeries {
        let has_range = has_range && self.intervals.iter().any(|of| of.min < of.max);
        let of = |value: fn(&Interval) -> f64| {
            let mut values = vec![None; intervals];
            for (at, interval) in self.intervals.iter().enumerate().filter(|(_, interval)| interval.units > 0.0) {
                if let Some(slot) = values.get_mut(self.first + at) {
                    *slot = Some(rounded(value(interval))).filter(|value| value.is_finite());
                }
            }
            values
        };
        ChartSeries {
            name,
            entity,
            points: false,
            mean: of(|interval| interval.amount / interval.units),
            min: has_range.then(|| of(|interval| interval.min)),
            max: has_range.then(|| of(|interval| interval.max)),
        }
    }
}

/// Rounds to five significant digits: more cannot be seen, and would take up half of a report's size.
pub(crate) fn rounded(value: f64) -> f64 {
    // Avoids -0.0, which is the sum of nothing.
    format!("{value:.4e}").parse().unwrap_or(value) + 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_weighs_by_units_and_the_range_is_that_of_the_values() {
        let mut line = Line::default();
        // 10 requests of 1 ms, then one of 12 ms, in one interval: 2 ms each.
        line.add(3, 0.010, 10.0);
        line.add(3, 0.012, 1.0);
        line.add(5, 0.0, 0.0);
        line.add(1, 0.5, 1.0);
        let series = line.series("sda".into(), "sda".into(), 5, true);
        assert_eq!(series.mean, [None, Some(0.5), None, Some(0.002), None]);
        assert_eq!(series.min, Some(vec![None, Some(0.5), None, Some(0.001), None]));
        assert_eq!(series.max, Some(vec![None, Some(0.5), None, Some(0.012), None]));
        assert_eq!(line.series(String::new(), String::new(), 5, false).min, None);
    }

    #[test]
    fn five_digits_are_kept() {
        assert_eq!(rounded(123_456_789.0), 123_460_000.0);
        assert_eq!(rounded(0.001_234_567), 0.001_234_6);
        assert_eq!(rounded(99.999_9), 100.0);
        assert_eq!(rounded(-7.5), -7.5);
        assert_eq!(rounded(0.0).to_bits(), 0.0_f64.to_bits());
        assert_eq!(rounded(1e-300), 1e-300);
        assert!(rounded(f64::NAN).is_nan());
    }
}
