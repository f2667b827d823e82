//! /sys/class/thermal: temperature by thermal zone. Documentation/driver-api/thermal/sysfs-api.rst.

use crate::ttl_cache::Seldom;
use crate::{Miss, Root, Source};
use whyslow_model::catalogue::Thermal;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::{Gauge, State};

const PATH: &str = "sys/class/thermal";

/// Reads every thermal zone.
#[derive(Default)]
pub(super) struct ThermalZones {
    zones: Seldom<Vec<String>>,
}

impl Source for ThermalZones {
    fn name(&self) -> &'static str {
        PATH
    }

    fn tells(&self) -> &'static str {
        "temperatures"
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), Miss> {
        let list = || root.list(PATH).into_iter().filter(|name| name.starts_with("thermal_zone")).collect();
        out.processor.thermal.extend(self.zones.get(list).iter().map(|zone| row(root, zone)));
        if out.processor.thermal.is_empty() { Err(Miss::Absent("no thermal zones".into())) } else { Ok(()) }
    }
}

/// One zone. Its temperature is in thousandths of a degree, and absent while the sensor sleeps.
fn row(root: &Root, zone: &str) -> Thermal {
    let millidegrees = root.kept_word(&format!("{PATH}/{zone}/temp")).and_then(|t| t.parse::<i32>().ok());
    Thermal {
        temperature: millidegrees.map(|t| Gauge::from(f64::from(t) / 1000.0)).unwrap_or_default(),
        kind: root.kept_word(&format!("{PATH}/{zone}/type")).map(State::from).unwrap_or_default(),
        zone: zone.into(),
    }
}
