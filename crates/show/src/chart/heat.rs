//! A heat map: the darker a cell, the more values of that size at that time.

use super::svg::{Frame, Svg, value_axis};
use super::tick;
use super::x_axis::XAxis;
use whyslow_documents::chart::Chart;

/// Colours from few to many: light to dark.
const SHADES: [&str; 8] = ["#e3eef9", "#c6dbef", "#9ecae1", "#6baed6", "#4292c6", "#2171b5", "#08519c", "#08306b"];
/// Maximum number of labels on the value axis.
const LABELS: usize = 8;

pub(super) fn draw(out: &mut Svg, chart: &Chart, times: &XAxis<'_>, frame: Frame) {
    let buckets = chart.buckets.len().saturating_sub(1);
    if buckets == 0 {
        return value_axis(out, frame, std::iter::empty());
    }
    // Buckets widen with their values, so all are drawn with the same height.
    let share = |edge: usize| edge as f64 / buckets as f64;
    let every = chart.buckets.len().div_ceil(LABELS).max(1);
    let labels = chart.buckets.iter().enumerate().step_by(every);
    value_axis(out, frame, labels.map(|(at, edge)| (share(at), tick(*edge, &chart.unit))));
    let most = chart.counts.iter().flatten().copied().max().unwrap_or(0);
    let mut start: Option<f64> = None;
    for (time, counts) in chart.times.iter().zip(&chart.counts) {
        let right = frame.x(times.share(*time));
        let left = start.replace(right).unwrap_or(right);
        for (bucket, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let (top, bottom) = (frame.y(share(bucket + 1)), frame.y(share(bucket)));
            out.add(format_args!(
                "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\"/>\n",
                (right - left).max(1.0),
                (bottom - top).max(0.5),
                shade(*count, most)
            ));
        }
    }
}

/// Selects a shade by the logarithm, because a single slow request matters beside a thousand fast ones.
fn shade(count: u64, most: u64) -> &'static str {
    let share = (count as f64).ln_1p() / (most.max(1) as f64).ln_1p();
    SHADES[((share * SHADES.len() as f64) as usize).min(SHADES.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_can_be_seen_beside_many() {
        assert_eq!(shade(1, 1), SHADES[7]);
        // ln 2 of ln 1001: a tenth.
        assert_eq!((shade(1, 1000), shade(1000, 1000)), (SHADES[0], SHADES[7]));
    }
}
