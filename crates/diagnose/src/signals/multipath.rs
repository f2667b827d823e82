//! Devices with several paths, as the multipath driver lists them.

use crate::signal::{Entity, signals};
use std::collections::BTreeMap;
use whyslow_model::catalogue::Path;
use whyslow_model::diagnosis::Subject;
use whyslow_model::window::Window;

/// The paths of a device.
pub struct Paths<'w>(Vec<&'w Path>);

impl Paths<'_> {
    fn in_state(&self, state: &str) -> f64 {
        self.0.iter().filter(|path| path.state.get() == Some(state)).count() as f64
    }

    fn balanced(&self) -> Option<f64> {
        self.0.iter().find_map(|path| path.balanced.get())
    }
}

signals! { p: &Paths<'_>;
    "paths.count" "count" "paths to the device", "paths listed", "spmgr display" => p.0.len() as f64;
    "paths.active" "count" "paths that carry requests", "paths in that state", "spmgr display" => p.in_state("active");
    "paths.available" "count" "paths that could carry requests now", "paths in that state", "spmgr display" => p.in_state("available");
    "paths.standby" "count" "paths that carry requests once the others fail", "paths in that state", "spmgr display" => p.in_state("standby");
    "paths.failed" "count" "paths that failed", "paths in that state", "spmgr display" => p.in_state("failed");
    "paths.balanced" "flag" "1 where the load is spread over the paths", "as the driver says", "spmgr display" => p.balanced();
}

/// Every device whose paths are known.
pub fn entities(window: &Window) -> Vec<Entity> {
    let rows = window.newest::<Path>();
    let mut devices: BTreeMap<&str, Paths<'_>> = BTreeMap::new();
    for path in rows.values() {
        devices.entry(&path.path.upper).or_insert_with(|| Paths(Vec::new())).0.push(path);
    }
    devices.into_iter().map(|(device, paths)| Entity::new(Subject::new("device", device), read(&paths))).collect()
}
