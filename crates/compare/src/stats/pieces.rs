//! Cuts series into nearly independent pieces.

/// Minimum number of pieces of each of two series that can show a difference: 2 / (12 over 6) = 0.002.
pub const FEWEST: usize = 6;
/// Maximum number of pieces; more are merged, which loses no information, because every arrangement of them is
/// enumerated.
const MOST: usize = 12;
/// Length of a piece as a multiple of the autocorrelation time; means of neighbours then correlate by a tenth.
const LENGTH: f64 = 3.0;

/// Returns means of consecutive samples of two series, each over a length that makes it independent of the next, and as
/// many as that leaves. A short autocorrelation time can be an accident of one series, so the longer one applies to
/// both.
pub fn pieces(a: &[f64], b: &[f64]) -> [Vec<f64>; 2] {
    let memory = memory(a).max(memory(b));
    let cut = |samples: &[f64]| means(samples, ((samples.len() as f64 / (LENGTH * memory)) as usize).min(MOST));
    [cut(a), cut(b)]
}

/// Averages independent samples in groups if there are more than needed.
pub fn repeats(samples: &[f64]) -> Vec<f64> {
    means(samples, samples.len().min(MOST))
}

/// Returns the means of `count` consecutive parts.
fn means(samples: &[f64], count: usize) -> Vec<f64> {
    let part = |at: usize| &samples[at * samples.len() / count..(at + 1) * samples.len() / count];
    (0..count).map(|at| part(at).iter().sum::<f64>() / part(at).len() as f64).collect()
}

/// Returns the autocorrelation time of a series in samples: the sum of its autocorrelations, without the noise of large
/// lags, from where two neighbours together are only noise (Geyer, Practical Markov Chain Monte Carlo, 3.3). Returns
/// at least 1.
fn memory(samples: &[f64]) -> f64 {
    let mean = samples.iter().sum::<f64>() / samples.len() as f64;
    let product = |lag: usize| -> f64 {
        samples.iter().zip(samples.iter().skip(lag)).map(|(a, b)| (a - mean) * (b - mean)).sum()
    };
    let variance = product(0);
    if variance <= 0.0 {
        return 1.0;
    }
    let pairs = (0..samples.len() / 4).map(|pair| (product(2 * pair) + product(2 * pair + 1)) / variance);
    let sum: f64 = pairs.take_while(|pair| *pair > 0.0).sum();
    (2.0 * sum - 1.0).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::noise::Noise;

    #[test]
    fn noise_that_remembers_itself_is_cut_into_fewer_pieces() {
        let count = |memory: f64| {
            let mut noise = Noise::new(7, memory);
            let samples: Vec<f64> = (0..120).map(|_| noise.next()).collect();
            pieces(&samples, &[1.0; 120]).map(|pieces| pieces.len())
        };
        assert_eq!(count(0.0), [MOST, MOST]);
        assert!((2..MOST).contains(&count(0.9)[0]), "{:?}", count(0.9));
        assert!(count(0.99)[1] < FEWEST, "{:?}", count(0.99));
    }

    #[test]
    fn what_is_constant_is_known_at_once() {
        assert_eq!(pieces(&[5.0; 24], &[1.0]), [vec![5.0; 8], vec![]]);
        assert_eq!(pieces(&[], &[]).map(|of| of.len()), [0, 0]);
        assert_eq!(repeats(&[1.0, 2.0, 3.0]), [1.0, 2.0, 3.0]);
    }
}
