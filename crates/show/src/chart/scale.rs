//! The value axis: round ticks.

/// Range of values on the vertical axis, and the distance between its ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    pub(super) bottom: f64,
    pub(super) top: f64,
    step: f64,
}

/// Approximate number of ticks.
const TICKS: f64 = 5.0;
const MINUTE: f64 = 60.0;
/// Larger values are not drawn.
const LARGEST: f64 = 1e30;

impl Scale {
    /// Spans from zero, or the smallest value if that is negative, to above the largest one.
    pub(super) fn new(lowest: f64, highest: f64, unit: &str) -> Self {
        let within = |value: f64| if value.abs() < LARGEST { value } else { 0.0 };
        let (lowest, highest) = (within(lowest).min(0.0), within(highest).max(0.0));
        let range = if highest > lowest { highest - lowest } else { 1.0 };
        let step = round_step(range / TICKS, unit);
        let bottom = (lowest / step).floor() * step;
        // Shares may add up to a little more than 1.
        let top = ((highest / step - 0.01).ceil() * step).max(bottom + step);
        Self { bottom, top, step }
    }

    pub(super) fn ticks(self) -> impl Iterator<Item = f64> {
        let number = move |value: f64| (value / self.step).round() as i32;
        (number(self.bottom)..=number(self.top)).map(move |at| {
            // 3 × 0.1 is more than 0.3.
            if self.step < 1.0 { f64::from(at) / (1.0 / self.step).round() } else { f64::from(at) * self.step }
        })
    }

    /// Returns the position of a value: 0 at the bottom, 1 at the top.
    pub(super) fn share(self, value: f64) -> f64 {
        (value - self.bottom) / (self.top - self.bottom)
    }
}

/// Returns the smallest round number that is not below `least`. The unit decides whether it is drawn with binary prefixes or with
/// minutes.
fn round_step(least: f64, unit: &str) -> f64 {
    let base = match unit {
        "By" | "By/s" => 1024_f64.powf(least.log(1024.0).floor().max(0.0)),
        "s" if least >= MINUTE => MINUTE,
        _ => 1.0,
    };
    base * decimal_step(least / base)
}

fn decimal_step(least: f64) -> f64 {
    let magnitude = 10_f64.powi(least.log10().floor() as i32);
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * magnitude).find(|step| *step >= least * 0.999).unwrap_or(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(lowest: f64, highest: f64, unit: &str) -> Vec<f64> {
        Scale::new(lowest, highest, unit).ticks().collect()
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(0.0, 93.0, "1/s"), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(ticks(0.0, 4.0, "count"), [0.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(ticks(0.0, 7.0 * 1024.0, "By"), [0.0, 2048.0, 4096.0, 6144.0, 8192.0]);
        assert_eq!(ticks(0.0, 500.0, "s"), [0.0, 120.0, 240.0, 360.0, 480.0, 600.0]);
        assert_eq!(ticks(-3.0, 10.0, "Cel"), [-5.0, 0.0, 5.0, 10.0]);
        assert_eq!(ticks(0.0, 1.0001, "1"), [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]);
        assert_eq!(ticks(0.0, 0.5, "1"), [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]);
    }

    #[test]
    fn no_values_make_a_scale_all_the_same() {
        assert_eq!(ticks(0.0, 0.0, "1").len(), 2);
        assert!(Scale::new(f64::INFINITY, f64::NEG_INFINITY, "1").top > 0.0);
        assert_eq!(Scale::new(0.0, 100.0, "1/s").share(25.0), 0.25);
    }
}
