//! Slope of values over time.

use super::{Estimate, between, median, ranks_within};

/// Returns the median of the slopes between all pairs of points, with the interval from the exact distribution of
/// Kendall's statistic (Theil 1950, Sen 1968; Hollander, Wolfe, Chicken: Nonparametric Statistical Methods, 9.2 and
/// 9.3). `None` with fewer than two times. The interval assumes that deviations from the line are independent of one
/// another.
pub fn theil_sen(points: &[(f64, f64)], confidence: f64) -> Option<Estimate> {
    let pairs = (0..points.len()).flat_map(|i| (i + 1..points.len()).map(move |j| (points[i], points[j])));
    let slopes = pairs.filter(|(a, b)| a.0 != b.0).map(|(a, b)| (b.1 - a.1) / (b.0 - a.0));
    let mut slopes: Vec<f64> = slopes.collect();
    slopes.sort_by(f64::total_cmp);
    let cut = ranks_within(&inversions(points.len()), (1.0 - confidence) / 2.0);
    let (low, high) = between(&slopes, cut)?;
    Some(Estimate { shift: median(&slopes), low, high })
}

/// Returns the share of all permutations of so many values that has each number of inversions. Shares, because 171
/// values have more permutations than an f64 can hold.
fn inversions(values: usize) -> Vec<f64> {
    let mut shares = vec![1.0];
    for value in 2..=values {
        // The next value can stand before 0, 1, … of the existing ones.
        let mut next = vec![0.0; shares.len() + value - 1];
        let mut window = 0.0;
        for (at, share) in next.iter_mut().enumerate() {
            window += shares.get(at).copied().unwrap_or(0.0);
            if at >= value {
                window -= shares.get(at - value).copied().unwrap_or(0.0);
            }
            *share = f64::max(window, 0.0) / value as f64;
        }
        shares = next;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slope_is_that_of_the_book() {
        // Seeding of clouds, 1953 to 1957 (Smith 1967; Hollander, Wolfe, Chicken, table 9.1). The ten slopes, by hand: -.15 -.13 -.08
        // -.07 -.0575 -.055 -.045 -.0333 .01 .04. Of the 120 orders of five values 1 has no inversion and 4 have one: 5/120 = .0417
        // on either side leave those from the second to the last but one.
        let seeding = [(1.0, 1.26), (2.0, 1.27), (3.0, 1.12), (4.0, 1.16), (5.0, 1.03)];
        let slope = theil_sen(&seeding, 0.9166).unwrap();
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(near(slope.shift, -0.05625) && near(slope.low, -0.13) && near(slope.high, 0.01), "{slope:?}");
        assert_eq!(theil_sen(&seeding[..1], 0.95), None);
        assert_eq!(theil_sen(&[(1.0, 2.0), (1.0, 3.0)], 0.95), None);
    }

    #[test]
    fn orders_are_counted_by_their_inversions() {
        // Of the 24 permutations of four values: 1, 3, 5, 6, 5, 3, 1.
        let four: Vec<f64> = inversions(4).iter().map(|share| share * 24.0).collect();
        for (share, expected) in four.iter().zip([1.0, 3.0, 5.0, 6.0, 5.0, 3.0, 1.0]) {
            assert!((share - expected).abs() < 1e-12, "{four:?}");
        }
        assert!((inversions(200).iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }
}
