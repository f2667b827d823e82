//! What a change is of: a tunable, and the thing it is a setting of.

use std::fmt;
use std::str::FromStr;

/// `vm.swappiness`, `disk.read_ahead_kb@sda`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// The tunable, a sysctl, or a path under /sys or /proc/sys.
    pub name: String,
    /// The thing; `None` where there is one of it.
    pub instance: Option<String>,
}

impl Target {
    /// A tunable of a thing.
    pub fn of(name: &str, instance: Option<&str>) -> Self {
        Self { name: name.to_owned(), instance: instance.map(str::to_owned) }
    }

    /// Another tunable of the same thing.
    pub(crate) fn sibling(&self, name: &str) -> Self {
        Self::of(name, self.instance.as_deref())
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.instance {
            Some(instance) => write!(f, "{}@{instance}", self.name),
            None => write!(f, "{}", self.name),
        }
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, instance) = match text.split_once('@') {
            Some((name, instance)) => (name, Some(instance)),
            None => (text, None),
        };
        if name.is_empty() || instance.is_some_and(str::is_empty) {
            return Err(format!(
                "'{text}': a tunable is named as NAME or NAME@THING, such as vm.swappiness or disk.scheduler@sda"
            ));
        }
        Ok(Self::of(name, instance))
    }
}

#[cfg(test)]
mod tests {
    use super::Target;

    #[test]
    fn a_thing_may_have_any_name() {
        for text in ["vm.swappiness", "disk.scheduler@sda", "interface.mtu@eth0.100", "cgroup.cpu.max@/a@b"] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
        assert_eq!("a@b@c".parse::<Target>().unwrap().instance.as_deref(), Some("b@c"));
        assert!("@sda".parse::<Target>().is_err());
        assert!("disk.scheduler@".parse::<Target>().is_err());
    }
}
