//! SCSI sense data: key, additional code and qualifier (SPC-6, 4.4; names as T10 lists them).

use super::additional;
use super::event::Kind;

/// A device's own description of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sense {
    /// Sense key.
    pub key: u8,
    /// Additional sense code and its qualifier, if any.
    pub additional: Option<(u8, u8)>,
}

/// Code of a reset, which is not a fault of the device that reports it.
const RESET: u8 = 0x29;
/// Code of a drive without a medium.
const NO_MEDIUM: u8 = 0x3a;
/// Qualifiers of a temporary not-ready state: becoming ready, a format or self-test, another state of the path.
const PASSING: [u8; 10] = [0x01, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x11, 0x1b];
/// Code of a failure that the device predicts.
const PREDICTED: u8 = 0x5d;

const KEYS: [&str; 16] = [
    "No Sense",
    "Recovered Error",
    "Not Ready",
    "Medium Error",
    "Hardware Error",
    "Illegal Request",
    "Unit Attention",
    "Data Protect",
    "Blank Check",
    "Vendor Specific",
    "Copy Aborted",
    "Aborted Command",
    "Reserved",
    "Volume Overflow",
    "Miscompare",
    "Completed",
];

impl Sense {
    /// Decodes the bytes of fixed (70h, 71h) or descriptor (72h, 73h) format.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (key, code) = match bytes.first()? & 0x7f {
            0x70 | 0x71 => (bytes.get(2)?, 12),
            0x72 | 0x73 => (bytes.get(1)?, 2),
            _ => return None,
        };
        let additional = bytes.get(code).copied().zip(bytes.get(code + 1).copied());
        Some(Self { key: key & 0x0f, additional })
    }

    /// Returns the key of this name, as the kernel and drivers spell it; kernels built without names print `0x3`.
    pub fn key_named(text: &str) -> Option<u8> {
        if let Some(hex) = text.strip_prefix("0x") {
            let digits = &hex[..hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len())];
            return u8::from_str_radix(digits, 16).ok().filter(|key| *key < 16);
        }
        let named = |name: &&str| {
            text.len() >= name.len() && text.as_bytes()[..name.len()].eq_ignore_ascii_case(name.as_bytes())
        };
        KEYS.iter().position(named).and_then(|key| u8::try_from(key).ok())
    }

    /// Returns the kind of error; `None` if it reports none.
    pub fn kind(self) -> Option<Kind> {
        match self.additional {
            _ if self.is_reset() => Some(Kind::Reset),
            Some((NO_MEDIUM, _)) => None,
            Some((0x04, qualifier)) if self.key == 0x2 && PASSING.contains(&qualifier) => None,
            // A prediction comes with any key, a unit attention most often.
            Some((PREDICTED, qualifier)) if qualifier != 0xff => Some(Kind::Recovered),
            _ => Kind::of_sense_key(self.key),
        }
    }

    /// Returns true if it only reports that the device was reset.
    pub fn is_reset(self) -> bool {
        self.key == 0x6 && self.additional.is_some_and(|(code, _)| code == RESET)
    }

    /// Describes it in words, with the numbers that a technician looks up.
    pub fn describe(self) -> String {
        let key = KEYS[usize::from(self.key & 0x0f)];
        let Some((code, qualifier)) = self.additional else { return key.to_owned() };
        let words = additional::words(code, qualifier).map_or_else(String::new, |words| format!(" {words}"));
        format!("{key}, ASC/ASCQ {code:02X}h/{qualifier:02X}h{words}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_are_decoded() {
        let fixed = [0x70, 0, 6, 0, 0, 0, 0, 0x0a, 0, 0, 0, 0, 0x29, 2, 2, 0, 0, 0];
        let sense = Sense::decode(&fixed).unwrap();
        assert_eq!(sense.describe(), "Unit Attention, ASC/ASCQ 29h/02h SCSI bus reset occurred");
        assert_eq!(sense.kind(), Some(Kind::Reset));
        let descriptor = Sense::decode(&[0x72, 3, 0x0c, 2]).unwrap();
        assert_eq!(descriptor.describe(), "Medium Error, ASC/ASCQ 0Ch/02h write error, auto reallocation failed");
        assert_eq!(Sense::decode(&[]), None);
        assert_eq!(Sense::decode(&[0x70, 0, 3]).unwrap().describe(), "Medium Error");
        assert_eq!(Sense::decode(&[0x00; 18]), None);
    }

    #[test]
    fn keys_are_known_by_name_in_any_case_and_by_number() {
        assert_eq!(Sense::key_named("Medium Error [current]"), Some(3));
        assert_eq!(Sense::key_named("MEDIUM ERROR); FRU=0Ch"), Some(3));
        assert_eq!(Sense::key_named("0xb [current]"), Some(0xb));
        assert_eq!(Sense::key_named("Mediüm Error"), None);
        assert_eq!(Sense::key_named("0x"), None);
    }

    #[test]
    fn what_passes_is_no_error_and_what_is_predicted_is() {
        let kind = |key, additional| Sense { key, additional: Some(additional) }.kind();
        assert_eq!(kind(2, (0x04, 0x01)), None);
        assert_eq!(kind(2, (0x3a, 0x00)), None);
        assert_eq!(kind(2, (0x04, 0x03)), Some(Kind::NotReady));
        assert_eq!(kind(6, (0x5d, 0x14)), Some(Kind::Recovered));
        assert_eq!(kind(5, (0x24, 0x00)), None);
    }
}
