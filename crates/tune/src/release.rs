//! Releases of the kernel, compared by number.

use std::fmt;
use std::str::FromStr;

/// A release such as `6.18.44-fc`, of which the first two numbers count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Release {
    major: u32,
    minor: u32,
}

impl FromStr for Release {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut numbers = text.trim().split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => Ok(Self { major, minor }),
            _ => Err(format!("'{text}' is not a kernel release")),
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::Release;

    #[test]
    fn releases_are_compared_by_number() {
        let of = |text: &str| text.parse::<Release>().unwrap();
        assert!(of("6.18.44-fc-v595") > of("6.9"));
        assert!(of("5.10.0-8-amd64") < of("5.13"));
        assert_eq!(of("4.19").to_string(), "4.19");
        assert!("linux".parse::<Release>().is_err());
    }
}
