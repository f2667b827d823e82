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
    /// Interrupts a second, over all processors.
    pub rate: f64,
    /// The devices behind it.
    pub devices: Option<String>,
}

/// Finds it; `None` where no rate of any line is known.
pub fn busiest(window: &Window) -> Option<Busiest> {
    let mut rates: BTreeMap<&Name, f64> = BTreeMap::new();
    let mut devices: BTreeMap<&Name, &str> = BTreeMap::new();
    let changes = window.changes::<Irq>();
    for change in &changes {
        let name = &change.key().name;
        if let Some(rate) = change.rate(|i| i.count) {
            *rates.entry(name).or_default() += rate;
        }
        if let Some(device) = change.last().device.get() {
            devices.insert(name, device);
        }
    }
    let timer =
        |name: &Name| &**name == "0" || &**name == "LOC" || devices.get(name).is_some_and(|d| d.contains("timer"));
    let (line, rate) = rates.into_iter().filter(|(name, _)| !timer(name)).max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(Busiest { line: line.clone(), rate, devices: devices.get(line).map(|d| (*d).to_owned()) })
}
