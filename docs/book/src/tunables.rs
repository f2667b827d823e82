//! Page with the catalogue of tunables.

use crate::markdown::escaped;
use whyslow_tune::Catalogue;

pub(crate) const PATH: &str = "docs/tunables.md";

/// Returns true if the catalogue has a tunable of this name.
pub(crate) fn is_listed(name: &str) -> bool {
    Catalogue::built_in().names().any(|known| known == name)
}

pub(crate) fn page() -> String {
    let mut page = "# Tunables\n\nThe settings that [`whyslow tune`](tune.md) knows. `whyslow tune show NAME` adds the current value.\n".to_owned();
    for tunable in Catalogue::built_in().tunables() {
        page += &format!("\n## {}\n\n{}", tunable.name, escaped(&tunable.means));
        if !tunable.used_for.is_empty() {
            page += &format!(" {}", escaped(&tunable.used_for));
        }
        let unit = if tunable.unit.is_empty() { String::new() } else { format!(", {}", tunable.unit) };
        page += &format!("\n\n- For each: {}\n- Values: `{}`{unit}\n", tunable.scope.word(), tunable.values);
        if let Some(default) = &tunable.default {
            page += &format!("- Default: {}\n", escaped(default));
        }
        page += &format!("- Source: {}\n", escaped(&tunable.source));
    }
    page
}
