//! The interrupt line with the most work, and the devices behind it.

use std::collections::BTreeMap;
use whyslow_model::catalogue::Irq;
use whyslow_model::value::Name;
use whyslow_model::window::Window;

/// The line with most interrupts, the timers' left out.
#[derive(Clone, Debug, PartialEq)]
pub struct Busiest {
    /// The line as /proc/interrupts names it.
    pub line: Name,
    /// Interrupts a second, over all processors; `None` where the counts were read once, so that they are since boot.
    pub rate: Option<f64>,
    /// The devices behind it.
    pub devices: Option<String>,
}

/// Finds it: by its rate, or, where no rate of any line is known, by its count since boot.
pub fn busiest(window: &Window) -> Option<Busiest> {
    let mut rates: BTreeMap<&Name, f64> = BTreeMap::new();
    let mut counts: BTreeMap<&Name, f64> = BTreeMap::new();
    let mut devices: BTreeMap<&Name, &str> = BTreeMap::new();
    let changes = window.changes::<Irq>();
    for change in &changes {
        let name = &change.key().name;
        if let Some(rate) = change.rate(|i| i.count) {
            *rates.entry(name).or_default() += rate;
        }
        if let Some(count) = change.last().count.get() {
            *counts.entry(name).or_default() += count as f64;
        }
        if let Some(device) = change.last().device.get() {
            devices.insert(name, device);
        }
    }
    let timer =
        |name: &Name| &**name == "0" || &**name == "LOC" || devices.get(name).is_some_and(|d| d.contains("timer"));
    let most = |lines: &BTreeMap<&Name, f64>| {
        let lines = lines.iter().filter(|(name, n)| !timer(name) && **n > 0.0).map(|(name, n)| ((*name).clone(), *n));
        lines.max_by(|a, b| a.1.total_cmp(&b.1))
    };
    let by_rate = most(&rates).map(|(line, rate)| (line, Some(rate)));
    let (line, rate) = by_rate.or_else(|| most(&counts).filter(|_| rates.is_empty()).map(|(line, _)| (line, None)))?;
    let devices = devices.get(&line).map(|d| (*d).to_owned());
    Some(Busiest { line, rate, devices })
}
