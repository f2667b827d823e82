//! Time zones as tools print them next to a time.

/// The zone of a printed time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Zone {
    /// No zone was printed: the machine's own zone.
    #[default]
    Local,
    /// A name that is unknown or stands for several zones: the time stays as printed.
    Ambiguous(ZoneName),
    /// Seconds ahead of UTC.
    Offset(i32),
}

/// First letters of an abbreviation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ZoneName([u8; ZoneName::LONGEST]);

impl ZoneName {
    const LONGEST: usize = 5;

    fn new(name: &str) -> Self {
        let mut bytes = [b' '; Self::LONGEST];
        bytes.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
        Self(bytes)
    }
}

impl std::fmt::Display for ZoneName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(String::from_utf8_lossy(&self.0).trim_end())
    }
}

const MINUTE: i32 = 60;
const HOUR: i32 = 60 * MINUTE;

/// Abbreviations of the tz database that mean one zone wherever a server is likely to print them, in minutes ahead of UTC.
/// `IST`, `CST`, `BST` and similar ones are missing: India, Ireland and Israel share the first of them.
const NAMES: [(&str, i32); 47] = [
    ("UTC", 0),
    ("GMT", 0),
    ("UCT", 0),
    ("Z", 0),
    ("WET", 0),
    ("WEST", 60),
    ("CET", 60),
    ("CEST", 120),
    ("MET", 60),
    ("MEST", 120),
    ("EET", 120),
    ("EEST", 180),
    ("MSK", 180),
    ("IDT", 180),
    ("WAT", 60),
    ("CAT", 120),
    ("SAST", 120),
    ("EAT", 180),
    ("PKT", 300),
    ("WIB", 420),
    ("WITA", 480),
    ("WIT", 540),
    ("HKT", 480),
    ("SGT", 480),
    ("JST", 540),
    ("KST", 540),
    ("AWST", 480),
    ("ACST", 570),
    ("ACDT", 630),
    ("AEST", 600),
    ("AEDT", 660),
    ("NZST", 720),
    ("NZDT", 780),
    ("NST", -210),
    ("NDT", -150),
    ("AST", -240),
    ("ADT", -180),
    ("EST", -300),
    ("EDT", -240),
    ("CDT", -300),
    ("MST", -420),
    ("MDT", -360),
    ("PST", -480),
    ("PDT", -420),
    ("AKST", -540),
    ("AKDT", -480),
    ("HST", -600),
];

impl Zone {
    pub const UTC: Self = Self::Offset(0);

    /// Reads a zone: `CET`, `+01`, `+0100`, `+01:00`. Returns `None` for any other word.
    pub fn read(text: &str) -> Option<Self> {
        if let Some((_, minutes)) = NAMES.iter().find(|(name, _)| *name == text) {
            return Some(Self::Offset(minutes * MINUTE));
        }
        if let Some(digits) = text.strip_prefix(['+', '-']) {
            let digits = digits.replace(':', "");
            let number: i32 = Some(&digits).filter(|d| d.bytes().all(|b| b.is_ascii_digit()))?.parse().ok()?;
            let (hours, minutes) = match digits.len() {
                2 => (number, 0),
                4 => (number / 100, number % 100),
                _ => return None,
            };
            let offset = hours * HOUR + minutes * MINUTE;
            return (hours <= 14 && minutes < 60).then_some(Self::Offset(if text.starts_with('-') {
                -offset
            } else {
                offset
            }));
        }
        let is_name = (2..=ZoneName::LONGEST).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_uppercase());
        is_name.then(|| Self::Ambiguous(ZoneName::new(text)))
    }

    /// Returns true if times of both can be compared. A zone that was not printed is assumed to be that of the other.
    pub fn is_comparable(self, other: Self) -> bool {
        match (self, other) {
            (Self::Ambiguous(own), Self::Ambiguous(other)) => own == other,
            (Self::Ambiguous(_), Self::Offset(_)) | (Self::Offset(_), Self::Ambiguous(_)) => false,
            _ => true,
        }
    }

    /// Returns the seconds ahead of UTC, if known.
    pub fn offset(self) -> Option<f64> {
        match self {
            Self::Offset(seconds) => Some(seconds.into()),
            Self::Local | Self::Ambiguous(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_names_or_numbers() {
        let hours = |text: &str| Zone::read(text).and_then(Zone::offset).map(|seconds| seconds / 3600.0);
        let known = ["UTC", "CET", "PST", "+03", "-0330", "+05:30"].map(hours);
        assert_eq!(known, [0.0, 1.0, -8.0, 3.0, -3.5, 5.5].map(Some));
        for name in ["IST", "CST", "BST"] {
            let zone = Zone::read(name).unwrap();
            assert_eq!((zone.offset(), zone), (None, Zone::Ambiguous(ZoneName::new(name))), "several zones are {name}");
        }
        for wrong in ["", "2026", "+1", "+0170", "Nov", "PM1", "cet", "EUROPE"] {
            assert_eq!(Zone::read(wrong), None, "{wrong}");
        }
    }
}
