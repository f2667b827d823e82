//! Tails of the normal distribution and of Student's t-distribution.

/// Returns the probability that a standard normal variable exceeds `z`.
pub fn normal_tail(z: f64) -> f64 {
    libm::erfc(z / std::f64::consts::SQRT_2) / 2.0
}

/// Returns the value that a standard normal variable stays below with this probability.
pub fn normal_quantile(below: f64) -> f64 {
    quantile(below, normal_tail)
}

/// Returns the probability that a variable of Student's distribution exceeds `t`, with `freedom` degrees of freedom,
/// which need not be whole (Abramowitz, Stegun, Handbook of Mathematical Functions, 26.7.1).
pub fn student_tail(t: f64, freedom: f64) -> f64 {
    let half = incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5) / 2.0;
    if t < 0.0 { 1.0 - half } else { half }
}

/// Returns the value that a variable of Student's distribution stays below with this probability.
pub fn student_quantile(below: f64, freedom: f64) -> f64 {
    quantile(below, |t| student_tail(t, freedom))
}

/// Returns the value whose upper tail is 1 - `below`. Symmetric about zero; the search expands by powers of two.
fn quantile(below: f64, tail: impl Fn(f64) -> f64) -> f64 {
    if below < 0.5 {
        return -quantile(1.0 - below, tail);
    }
    let above = 1.0 - below;
    let mut high = 1.0;
    while tail(high) > above && high < 1e9 {
        high *= 2.0;
    }
    let mut low = 0.0;
    for _ in 0..80 {
        let middle = f64::midpoint(low, high);
        if tail(middle) > above { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

/// Returns the regularized incomplete beta function, by its continued fraction in Lentz's form (DLMF 8.17.22).
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    // The fraction converges quickly only below the mean.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    if x <= 0.0 {
        return 0.0;
    }
    let log_beta = libm::lgamma(a) + libm::lgamma(b) - libm::lgamma(a + b);
    let front = (a * x.ln() + b * (-x).ln_1p() - log_beta).exp() / a;
    let away_from_zero = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let (mut fraction, mut up, mut down) = (1.0, 1.0, 0.0);
    for n in 0..200 {
        let m = f64::from(n / 2);
        let term = match n {
            0 => 1.0,
            n if n % 2 == 0 => m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m)),
            _ => -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0)),
        };
        down = 1.0 / away_from_zero(1.0 + term * down);
        up = away_from_zero(1.0 + term / up);
        let step = up * down;
        fraction *= step;
        if n > 0 && (step - 1.0).abs() < 1e-14 {
            break;
        }
    }
    front * (fraction - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_are_those_of_the_tables() {
        // Abramowitz, Stegun, tables 26.1, 26.2 and 26.10.
        assert!((normal_tail(1.0) - 0.158_655_253_93).abs() < 1e-11);
        assert!((normal_tail(5.0) / 2.866_515_719e-7 - 1.0).abs() < 1e-8);
        assert!((normal_quantile(0.975) - 1.959_963_985).abs() < 1e-8);
        assert!((normal_quantile(0.025) + 1.959_963_985).abs() < 1e-8);
        for (freedom, quantile) in [(1.0, 12.706), (2.0, 4.303), (5.0, 2.571), (10.0, 2.228), (30.0, 2.042)] {
            assert!((student_quantile(0.975, freedom) - quantile).abs() < 6e-4, "{freedom}");
        }
        // One degree is Cauchy's distribution: a quarter lies above 1; two degrees have 1/2 - t / (2 root(2 + t²)).
        assert!((student_tail(1.0, 1.0) - 0.25).abs() < 1e-12 && (student_tail(-1.0, 1.0) - 0.75).abs() < 1e-12);
        assert!((student_tail(3.0, 2.0) - (0.5 - 3.0 / (2.0 * 11.0_f64.sqrt()))).abs() < 1e-12);
        assert!((student_tail(0.0, 7.0) - 0.5).abs() < 1e-12);
    }
}
