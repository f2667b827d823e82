//! Interprets sections as units of tuned, and merges several profiles into one (tuned/profiles/merger.py).

use super::conf::{ConfigOption, ConfigSection};
use std::collections::HashMap;

/// A section whose options about the section itself have been extracted.
#[derive(Clone, Debug)]
pub(super) struct ProfileUnit {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) enabled: bool,
    replace: bool,
    drop: Vec<String>,
    pub(super) devices: String,
    pub(super) devices_udev_regex: Option<String>,
    pub(super) cpuinfo_regex: Option<String>,
    pub(super) uname_regex: Option<String>,
    pub(super) scripts: [Option<String>; 2],
    pub(super) options: ConfigSection,
}

impl From<ConfigSection> for ProfileUnit {
    fn from(mut section: ConfigSection) -> Self {
        let is_true = |text: Option<String>, default: bool| {
            text.map_or(default, |text| matches!(text.as_str(), "True" | "true" | "1"))
        };
        let drop = section.take("drop").unwrap_or_default();
        // priority orders tuned's plugins; dependencies take that role here.
        section.take("priority");
        Self {
            kind: section.take("type").unwrap_or_else(|| section.name.clone()),
            enabled: is_true(section.take("enabled"), true),
            replace: is_true(section.take("replace"), false),
            drop: drop.split([',', ';']).map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect(),
            devices: section.take("devices").unwrap_or_else(|| "*".to_owned()),
            devices_udev_regex: section.take("devices_udev_regex"),
            cpuinfo_regex: section.take("cpuinfo_regex"),
            uname_regex: section.take("uname_regex"),
            scripts: [section.take("script_pre"), section.take("script_post")],
            name: section.name.clone(),
            options: section,
        }
    }
}

/// Merges the units of a later profile into those of an earlier one.
pub(super) fn merge(units: &mut Vec<ProfileUnit>, later: Vec<ProfileUnit>) {
    let mut places: HashMap<String, usize> =
        units.iter().enumerate().map(|(at, unit)| (unit.name.clone(), at)).collect();
    for unit in later {
        match places.get(&unit.name) {
            Some(&at) if unit.replace => units[at] = unit,
            Some(&at) => units[at].take_in(unit),
            None => {
                places.insert(unit.name.clone(), units.len());
                units.push(unit);
            }
        }
    }
}

impl ProfileUnit {
    /// Merges a later unit. Kind, state and devices are always those of the later one, even if it does not specify them.
    fn take_in(&mut self, later: Self) {
        self.kind = later.kind;
        self.enabled = later.enabled;
        self.devices = later.devices;
        self.devices_udev_regex = later.devices_udev_regex.or(self.devices_udev_regex.take());
        self.cpuinfo_regex = later.cpuinfo_regex.or(self.cpuinfo_regex.take());
        self.uname_regex = later.uname_regex.or(self.uname_regex.take());
        for (own, script) in self.scripts.iter_mut().zip(later.scripts) {
            *own = script.or(own.take());
        }
        self.options.drop(&later.drop);
        for option in later.options.options {
            let option = if option.name == "script" { self.with_script(option) } else { option };
            self.options.set(option);
        }
    }

    fn with_script(&self, later: ConfigOption) -> ConfigOption {
        match self.options.get("script") {
            Some(earlier) => ConfigOption { value: format!("{}\n{}", earlier.value, later.value), ..later },
            None => later,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::conf::parse;

    fn merged(texts: &[&str]) -> Vec<ProfileUnit> {
        let mut units = Vec::new();
        for text in texts {
            merge(&mut units, parse(text).unwrap().into_iter().map(ProfileUnit::from).collect());
        }
        units
    }

    fn options(unit: &ProfileUnit) -> Vec<(&str, &str)> {
        unit.options.options.iter().map(|o| (o.name.as_str(), o.value.as_str())).collect()
    }

    #[test]
    fn the_later_profile_overrides() {
        let units = merged(&[
            "[sysctl]\na=1\nb=2\nc=3\n[x]\ntype=disk\ndevices=sda\n",
            "[sysctl]\nb=20\ndrop=c, d\n[x]\nreadahead=8\n",
        ]);
        assert_eq!(options(&units[0]), [("a", "1"), ("b", "20")]);
        assert_eq!((units[1].kind.as_str(), units[1].devices.as_str()), ("x", "*"));
        let replaced = merged(&["[sysctl]\na=1\n", "[sysctl]\nreplace=1\nb=2\n"]);
        assert_eq!(options(&replaced[0]), [("b", "2")]);
        let scripts = merged(&["[script]\nscript=a\n", "[script]\nscript=b\n"]);
        assert_eq!(options(&scripts[0]), [("script", "a\nb")]);
    }
}
