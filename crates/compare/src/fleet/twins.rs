//! Hosts that differ from their twins: hosts of the same model, role and kernel, whose numbers should be the same.
//!
//! At each time a host's value is compared with the median of its twins at that time, so that the hour of day does not
//! matter. The median of these deviations over all times is the host's persistent deviation. It is compared with the
//! spread of its twins' persistent deviations (median absolute deviation). Few twins give a poor estimate of that
//! spread, so the limit is a quantile of Student's distribution with 0.37 degrees of freedom for each twin but one, the
//! efficiency of the median absolute deviation (Rousseeuw, Croux, Alternatives to the median absolute deviation,
//! Journal of the American Statistical Association 88, 1993), divided among all comparisons (Bonferroni).

use crate::stats::distributions::student_quantile;
use crate::stats::median;
use schemars::JsonSchema;
use serde::Serialize;

/// Minimum number of twins that show what is usual among them.
pub const FEWEST: usize = 8;
/// Minimum number of times at which a host and its twins were both observed.
const LEAST_TIMES: usize = 6;
/// Share of times at which a persistent host lies on the same side of its twins' median.
const PERSISTENT: f64 = 0.9;
/// Minimum difference worth reporting, as a fraction of the usual value.
const LEAST: f64 = 0.25;
/// Probability of naming any host when all twins are alike.
const IN_ERROR: f64 = 0.05;
/// Ratio of a normal distribution's standard deviation to its median absolute deviation.
const NORMAL: f64 = 1.4826;
const EFFICIENCY: f64 = 0.37;

/// One metric of hosts that are twins.
#[derive(Clone, Debug)]
pub struct Twins {
    /// Their common properties.
    pub group: String,
    /// The metric.
    pub metric: String,
    /// The hosts.
    pub hosts: Vec<TwinSeries>,
}

/// A host's values at the same times as those of its twins.
#[derive(Clone, Debug)]
pub struct TwinSeries {
    /// The host.
    pub host: String,
    /// Its values; NaN if missing.
    pub values: Vec<f64>,
}

/// A host that differs from its twins.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Outlier {
    /// The host.
    pub host: String,
    /// What it has in common with its twins.
    pub group: String,
    /// How many twins it has.
    pub twins: usize,
    /// The metric.
    pub metric: String,
    /// Its usual value.
    pub value: f64,
    /// The usual value of its twins.
    pub usual: f64,
    /// By how many standard deviations of its twins it differs; `None` if they are all the same.
    pub deviations: Option<f64>,
}

/// Finds the hosts that persistently differ from their twins, with the largest difference first.
pub fn outliers(all: &[Twins]) -> Vec<Outlier> {
    let deviations: Vec<(&Twins, Vec<Deviation>)> =
        all.iter().map(|twins| (twins, persistent(twins))).filter(|(_, hosts)| hosts.len() >= FEWEST).collect();
    let compared: usize = deviations.iter().map(|(_, hosts)| hosts.len()).sum();
    let mut found: Vec<Outlier> =
        deviations.iter().flat_map(|(twins, hosts)| of_twins(twins, hosts, IN_ERROR / compared as f64)).collect();
    let by = |outlier: &Outlier| outlier.deviations.map_or(f64::INFINITY, f64::abs);
    found.sort_by(|a, b| by(b).total_cmp(&by(a)).then_with(|| (&a.host, &a.metric).cmp(&(&b.host, &b.metric))));
    found
}

/// A host's deviation from its twins, as the median over time.
struct Deviation {
    host: usize,
    deviation: f64,
    value: f64,
    /// True if it is nearly always on the same side.
    is_persistent: bool,
}

fn persistent(twins: &Twins) -> Vec<Deviation> {
    let times = twins.hosts.iter().map(|host| host.values.len()).max().unwrap_or(0);
    let at = |time: usize| {
        twins.hosts.iter().filter_map(move |host| host.values.get(time).filter(|value| value.is_finite()))
    };
    let usual: Vec<f64> = (0..times).map(|time| middle(at(time).copied().collect())).collect();
    let of = |(host, series): (usize, &TwinSeries)| {
        let known = series.values.iter().zip(&usual).filter(|(value, usual)| value.is_finite() && usual.is_finite());
        let deviations: Vec<f64> = known.clone().map(|(value, usual)| value - usual).collect();
        if deviations.len() < LEAST_TIMES {
            return None;
        }
        let share = |is: fn(&&f64) -> bool| deviations.iter().filter(is).count() as f64 / deviations.len() as f64;
        let is_persistent =
            share(|deviation| **deviation > 0.0).max(share(|deviation| **deviation < 0.0)) >= PERSISTENT;
        let value = middle(known.map(|(value, _)| *value).collect());
        Some(Deviation { host, deviation: middle(deviations), value, is_persistent })
    };
    twins.hosts.iter().enumerate().filter_map(of).collect()
}

/// Returns the outliers of one group, each with this probability of being one by chance.
fn of_twins(twins: &Twins, hosts: &[Deviation], in_error: f64) -> Vec<Outlier> {
    let center = middle(hosts.iter().map(|host| host.deviation).collect());
    let spread = NORMAL * middle(hosts.iter().map(|host| (host.deviation - center).abs()).collect());
    let usual = middle(hosts.iter().map(|host| host.value).collect());
    let limit = student_quantile(1.0 - in_error / 2.0, EFFICIENCY * (hosts.len() - 1) as f64);
    let differs = |host: &&Deviation| {
        let by = (host.deviation - center).abs();
        host.is_persistent && by > LEAST * usual.abs() && by > limit * spread
    };
    let outlier = |host: &Deviation| Outlier {
        host: twins.hosts[host.host].host.clone(),
        group: twins.group.clone(),
        twins: hosts.len() - 1,
        metric: twins.metric.clone(),
        value: host.value,
        usual,
        deviations: (spread > 0.0).then(|| (host.deviation - center) / spread),
    };
    hosts.iter().filter(differs).map(outlier).collect()
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    median(&values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::noise::Noise;

    /// Creates twins whose values follow the hour of day, each at its own level, with noise.
    fn twins(seed: u64, hosts: usize, level: impl Fn(usize) -> f64) -> Twins {
        let mut noise = Noise::new(seed, 0.5);
        let mut levels = Noise::new(seed + 1000, 0.0);
        let series = (0..hosts).map(|host| {
            let own = level(host) + 3.0 * levels.next();
            let values = (0..24).map(|hour| own + 50.0 * f64::from(hour % 12) + 5.0 * noise.next());
            TwinSeries { host: format!("host{host}"), values: values.collect() }
        });
        Twins { group: "web, 6.8".into(), metric: "request time".into(), hosts: series.collect() }
    }

    #[test]
    fn a_host_that_always_differs_is_named() {
        let found = outliers(&[twins(1, 40, |host| if host == 7 { 700.0 } else { 100.0 })]);
        let [one] = &found[..] else { panic!("{found:?}") };
        assert_eq!((&*one.host, one.twins), ("host7", 39));
        // Their usual value is the level plus the mean of the hours: 100 + 275.
        assert!((one.usual - 375.0).abs() < 20.0 && (one.value - 975.0).abs() < 20.0, "{one:?}");
        assert!(one.deviations.unwrap() > 50.0, "{one:?}");
    }

    #[test]
    fn twins_that_are_alike_have_no_outliers() {
        let fleets = if cfg!(debug_assertions) { 20 } else { 500 };
        let any = (0..fleets).filter(|seed| {
            // Without a minimum difference, so that only the noise stands in the way.
            let all: Vec<Twins> = (0..4).map(|n| twins(4 * seed + n, 20, |_| -275.0)).collect();
            !outliers(&all).is_empty()
        });
        assert!(any.count() as f64 <= 0.1 * fleets as f64);
    }

    #[test]
    fn few_twins_and_short_episodes_name_no_one() {
        let level = |host: usize| if host == 3 { 700.0 } else { 100.0 };
        assert_eq!(outliers(&[twins(1, FEWEST - 1, level)]), []);
        let mut short = twins(1, 40, |_| 100.0);
        short.hosts[7].values[..12].iter_mut().for_each(|value| *value += 5000.0);
        assert_eq!(outliers(&[short.clone()]), []);
        short.hosts.iter_mut().for_each(|host| host.values.truncate(5));
        assert_eq!(outliers(&[short]), []);
    }

    #[test]
    fn what_no_twin_does_needs_no_deviation() {
        // Retransmissions of one host only.
        let zero = |host: usize| TwinSeries {
            host: format!("host{host}"),
            values: vec![if host == 2 { 4.0 } else { 0.0 }; 12],
        };
        let twins = Twins { group: "db".into(), metric: "retransmits".into(), hosts: (0..10).map(zero).collect() };
        let found = outliers(&[twins]);
        assert_eq!(found.len(), 1);
        assert_eq!((&*found[0].host, found[0].value, found[0].usual, found[0].deviations), ("host2", 4.0, 0.0, None));
    }
}
