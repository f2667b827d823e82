//! Arguments of QEMU's options: `key=value,key=value` (qemu-option.c), or a JSON object, as passed by libvirt.

use serde_json::Value;
use std::collections::BTreeMap;

/// Keys with their values; nested values are named by their path: `cache.direct`, `host-nodes.0`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct QemuOptions(BTreeMap<String, String>);

impl QemuOptions {
    /// Parses an argument. `first` is the key of a leading value that has none: `driver` for `-device e1000,netdev=n0`.
    pub(super) fn parse(text: &str, first: &str) -> Self {
        let mut options = BTreeMap::new();
        if text.trim_start().starts_with('{') {
            if let Ok(value) = serde_json::from_str(text) {
                flatten(String::new(), value, &mut options);
            }
            return Self(options);
        }
        for (at, part) in split(text).into_iter().enumerate() {
            match part.split_once('=') {
                Some((key, value)) => options.insert(key.to_owned(), value.to_owned()),
                None if at == 0 => options.insert(first.to_owned(), part),
                None => match part.strip_prefix("no") {
                    Some(key) => options.insert(key.to_owned(), "off".to_owned()),
                    None => options.insert(part, "on".to_owned()),
                },
            };
        }
        Self(options)
    }

    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns the value of an option that can be spelt with a dash or an underscore (`num-queues`, `num_queues`).
    pub(super) fn dashed(&self, key: &str) -> Option<&str> {
        self.get(key).or_else(|| self.get(&key.replace('-', "_")))
    }

    pub(super) fn number(&self, key: &str) -> Option<u64> {
        self.dashed(key)?.parse().ok()
    }

    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        match self.get(key)? {
            "on" | "yes" | "true" | "y" => Some(true),
            "off" | "no" | "false" | "n" => Some(false),
            _ => None,
        }
    }

    /// Returns the values of a list: `host-nodes=0-1`, `host-nodes.0=0`, or a list of JSON.
    pub(super) fn list(&self, key: &str) -> Vec<&str> {
        let prefix = format!("{key}.");
        let items = self.0.range(prefix.clone()..).take_while(|(name, _)| name.starts_with(&prefix));
        self.get(key).into_iter().chain(items.map(|(_, value)| value.as_str())).collect()
    }

    /// Returns the options nested below a key.
    pub(super) fn below(&self, key: &str) -> Self {
        let prefix = format!("{key}.");
        let nested =
            self.0.iter().filter_map(|(name, value)| Some((name.strip_prefix(&prefix)?.to_owned(), value.clone())));
        Self(nested.collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Splits at commas; two commas are one comma within a value.
fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match parts.last_mut() {
            Some(part) if c != ',' || rest.next_if_eq(&',').is_some() => part.push(c),
            _ => parts.push(String::new()),
        }
    }
    parts
}

fn flatten(key: String, value: Value, options: &mut BTreeMap<String, String>) {
    let nested = |name: &str| if key.is_empty() { name.to_owned() } else { format!("{key}.{name}") };
    let text = match value {
        Value::Object(members) => {
            return members.into_iter().for_each(|(name, value)| flatten(nested(&name), value, options));
        }
        Value::Array(items) => {
            return items
                .into_iter()
                .enumerate()
                .for_each(|(at, value)| flatten(nested(&at.to_string()), value, options));
        }
        Value::Bool(flag) => if flag { "on" } else { "off" }.to_owned(),
        Value::String(text) => text,
        Value::Number(number) => number.to_string(),
        Value::Null => return,
    };
    options.insert(key, text);
}

/// Parses the bytes of `4G`, `512M`, `4194304k`; `unit` is the default unit.
pub(super) fn size(text: &str, unit: u64) -> Option<u64> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, suffix) = text.split_at(digits);
    let unit = match suffix.to_ascii_uppercase().as_str() {
        "" => unit,
        "B" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        "T" => 1 << 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_are_separated_by_commas_that_two_stand_for() {
        let options =
            QemuOptions::parse("virtio-blk-pci,drive=a,,b,iothread=io1,noscsi,share-rw,num_queues=4", "driver");
        assert_eq!(options.get("driver"), Some("virtio-blk-pci"));
        assert_eq!((options.get("drive"), options.get("iothread")), (Some("a,b"), Some("io1")));
        assert_eq!(
            (options.flag("scsi"), options.flag("share-rw"), options.flag("drive")),
            (Some(false), Some(true), None)
        );
        assert_eq!((options.number("num-queues"), options.get("missing")), (Some(4), None));
    }

    #[test]
    fn json_is_the_same_as_keys_with_dots() {
        let json = r#"{"driver":"file","filename":"/a,b","cache":{"direct":true,"no-flush":false},"host-nodes":[0,2]}"#;
        let options = QemuOptions::parse(json, "driver");
        assert_eq!((options.get("driver"), options.get("filename")), (Some("file"), Some("/a,b")));
        assert_eq!((options.flag("cache.direct"), options.flag("cache.no-flush")), (Some(true), Some(false)));
        assert_eq!(options.list("host-nodes"), ["0", "2"]);
        assert_eq!(options.below("cache").flag("direct"), Some(true));
        assert_eq!(QemuOptions::parse("{\"driver\":", "driver"), QemuOptions::default());
    }

    #[test]
    fn sizes_have_units() {
        let sizes = ["512", "2G", "4194304k", "1x", "99999999999T", ""].map(|text| size(text, 1 << 20));
        assert_eq!(sizes, [Some(512 << 20), Some(2 << 30), Some(4 << 30), None, None, None]);
    }
}
