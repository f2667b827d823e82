//! Results as text and JSON.

use crate::cost::Cost;
use crate::observers::Observer;
use crate::probes::Probes;
use crate::slowdown::Slowdown;
use crate::taken::Taken;
use serde::Serialize;
use std::fmt;

/// Sources below this many milliseconds per sample are combined in the text.
const SMALL: f64 = 0.02;

#[derive(Default, Serialize)]
pub struct Report {
    pub costs: Vec<Cost>,
    pub slowdowns: Vec<Slowdown>,
    pub probes: Vec<Probes>,
    pub observers: Vec<Observer>,
}

impl Report {
    pub fn json(&self) -> String {
        // A structure of numbers and strings can always be serialised.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.costs.iter().try_for_each(|cost| write_cost(f, cost))?;
        if !self.slowdowns.is_empty() {
            writeln!(
                f,
                "\n{:<34} {:<12} {:>12}  {:>7} {:>18}  {:<10}  of a processor: BPF programs (calls/s), whyslow",
                "load", "whyslow", "alone", "lost", "95 %", "under 1 %"
            )?;
        }
        self.slowdowns.iter().try_for_each(|slowdown| write_slowdown(f, slowdown))?;
        if !self.probes.is_empty() {
            writeln!(
                f,
                "\n{:<34} {:<18} {:>10} {:>10} {:>12}",
                "load", "BPF programs", "calls/s", "ns/call", "of one CPU"
            )?;
        }
        self.probes.iter().try_for_each(|probes| write_probes(f, probes))?;
        if !self.observers.is_empty() {
            writeln!(f, "\n{:<44} {:>10} {:>10}", "observer, a sample a second", "ms/sample", "ms to start")?;
        }
        self.observers.iter().try_for_each(|o| writeln!(f, "{:<44} {:>10.2} {:>10.1}", o.command, o.sample, o.start))
    }
}

fn write_cost(f: &mut fmt::Formatter<'_>, cost: &Cost) -> fmt::Result {
    let heading = format!("{} processes, {}", cost.processes, cost.way);
    writeln!(f, "\n{heading:<34} ms of processor time a sample (mean of {})", cost.samples)?;
    for (source, time) in cost.sources.iter().filter(|(_, time)| *time >= SMALL) {
        writeln!(f, "  {source:<32} {time:>8.2}")?;
    }
    let small = cost.sources.iter().filter(|(_, time)| *time < SMALL).map(|(_, time)| time);
    writeln!(f, "  {:<32} {:>8.2}", format!("{} others", small.clone().count()), small.sum::<f64>())?;
    let sources = cost.sources.iter().map(|(_, time)| time).sum::<f64>();
    writeln!(f, "  {:<32} {:>8.2}", "the sampler itself", cost.sample - sources)?;
    writeln!(f, "  {:<32} {:>8.2}  (median {:.2})", "in all", cost.sample, cost.median_sample)
}

fn write_slowdown(f: &mut fmt::Formatter<'_>, s: &Slowdown) -> fmt::Result {
    let (interval, verdict) = match s.lost.interval {
        Some([low, high]) => (format!("{:+.2} .. {:+.2} %", low * 100.0, high * 100.0), verdict(low, high)),
        None => ("too few pairs".to_owned(), "not shown"),
    };
    let rate = format!("{:.3e} {}", s.rate, s.unit);
    write!(
        f,
        "{:<34} {:<12} {rate:>12}  {:>+6.2} % {interval:>18}  {verdict:<10}",
        s.load,
        s.way,
        s.lost.value * 100.0
    )?;
    let Taken { programs, calls, observer } = s.taken;
    writeln!(f, "  {:.2} % ({calls:.0}/s), {:.2} %", programs * 100.0, observer * 100.0)
}

fn write_probes(f: &mut fmt::Formatter<'_>, p: &Probes) -> fmt::Result {
    let each = p.ns_per_call.map_or_else(|| "-".to_owned(), |ns| format!("{ns:.0}"));
    let share = p.share * 100.0;
    writeln!(f, "{:<34} {:<18} {:>10.0} {each:>10} {share:>10.2} %", p.load, p.source, p.calls_per_second)
}

/// Says whether the load lost less than 1 %, according to the interval.
fn verdict(low: f64, high: f64) -> &'static str {
    match (low < 0.01, high < 0.01) {
        (_, true) => "yes",
        (false, false) => "no",
        (true, false) => "not shown",
    }
}
