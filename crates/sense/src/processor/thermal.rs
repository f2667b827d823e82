//! /sys/class/thermal: temperature by thermal zone. Documentation/driver-api/thermal/sysfs-api.rst.

use crate::ttl_cache::TtlCache;
use crate::{Root, Source, SourceError, SourceInfo};
use whyslow_model::catalogue::Thermal;
use whyslow_model::snapshot::Snapshot;

const PATH: &str = "sys/class/thermal";

#[derive(Default)]
pub(super) struct ThermalZones {
    zones: TtlCache<Vec<String>>,
}

impl Source for ThermalZones {
    fn info(&self) -> SourceInfo {
        SourceInfo::new(PATH, "temperatures")
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
        let list = || root.list(PATH).into_iter().filter(|name| name.starts_with("thermal_zone")).collect();
        out.processor.thermal.extend(self.zones.get(list).iter().map(|zone| row(root, zone)));
        if out.processor.thermal.is_empty() { Err(SourceError::Absent("no thermal zones".into())) } else { Ok(()) }
    }
}

/// The temperature is in thousandths of a degree, and absent while the sensor sleeps.
fn row(root: &Root, zone: &str) -> Thermal {
    let millidegrees = root.polled_word(&format!("{PATH}/{zone}/temp")).and_then(|t| t.parse::<i32>().ok());
    Thermal {
        temperature: millidegrees.map(|t| f64::from(t) / 1000.0).into(),
        kind: root.polled_word(&format!("{PATH}/{zone}/type")).into(),
        zone: zone.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::CapturedTree;

    #[test]
    fn a_sleeping_sensor_has_no_temperature() {
        let tree = CapturedTree::of(&[
            ("sys/class/thermal/thermal_zone0/temp", "-5500\n"),
            ("sys/class/thermal/thermal_zone0/type", "acpitz\n"),
            ("sys/class/thermal/thermal_zone1/type", "x86_pkg_temp\n"),
            ("sys/class/thermal/cooling_device0/type", "Fan\n"),
        ]);
        let (outcome, out) = tree.read(&mut ThermalZones::default());
        let seen: Vec<_> = out.processor.thermal.iter().map(|t| (t.temperature.get(), t.kind.get())).collect();
        assert_eq!((outcome, seen), (Ok(()), vec![(Some(-5.5), Some("acpitz")), (None, Some("x86_pkg_temp"))]));
    }
}
