//! SCSI sense data: key, additional code and qualifier (SPC-6, 4.4; names as T10 lists them).

/// A device's own account of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sense {
    /// The sense key.
    pub key: u8,
    /// The additional sense code and its qualifier, where there are any.
    pub additional: Option<(u8, u8)>,
}

/// The code of a reset, which is no fault of the device that reports it.
const RESET: u8 = 0x29;

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

/// The codes that disks and the ways to them report when something is wrong.
const ADDITIONAL: &[(u8, u8, &str)] = &[
    (0x03, 0x00, "peripheral device write fault"),
    (0x04, 0x00, "not ready, cause not reportable"),
    (0x04, 0x01, "becoming ready"),
    (0x04, 0x02, "not ready, start command required"),
    (0x04, 0x03, "not ready, manual intervention required"),
    (0x04, 0x12, "not ready, offline"),
    (0x05, 0x00, "does not respond to selection"),
    (0x08, 0x00, "communication failure"),
    (0x08, 0x01, "communication time-out"),
    (0x08, 0x02, "communication parity error"),
    (0x08, 0x03, "communication CRC error"),
    (0x09, 0x00, "track following error"),
    (0x0b, 0x01, "warning: temperature exceeded"),
    (0x0c, 0x00, "write error"),
    (0x0c, 0x01, "write error, recovered with auto reallocation"),
    (0x0c, 0x02, "write error, auto reallocation failed"),
    (0x0c, 0x03, "write error, recommend reassignment"),
    (0x10, 0x00, "ID CRC or ECC error"),
    (0x10, 0x01, "logical block guard check failed"),
    (0x11, 0x00, "unrecovered read error"),
    (0x11, 0x01, "read retries exhausted"),
    (0x11, 0x02, "error too long to correct"),
    (0x11, 0x04, "unrecovered read error, auto reallocation failed"),
    (0x11, 0x0b, "unrecovered read error, recommend reassignment"),
    (0x11, 0x0c, "unrecovered read error, recommend rewriting the data"),
    (0x14, 0x01, "record not found"),
    (0x15, 0x01, "mechanical positioning error"),
    (0x16, 0x00, "data synchronization mark error"),
    (0x17, 0x01, "recovered data with retries"),
    (0x18, 0x00, "recovered data with error correction"),
    (0x18, 0x02, "recovered data, auto-reallocated"),
    (0x19, 0x00, "defect list error"),
    (0x1b, 0x00, "synchronous data transfer error"),
    (0x27, 0x00, "write protected"),
    (0x29, 0x00, "power on, reset, or bus device reset occurred"),
    (0x29, 0x01, "power on occurred"),
    (0x29, 0x02, "SCSI bus reset occurred"),
    (0x29, 0x03, "bus device reset function occurred"),
    (0x29, 0x04, "device internal reset"),
    (0x29, 0x07, "I_T nexus loss occurred"),
    (0x32, 0x00, "no defect spare location available"),
    (0x3e, 0x01, "logical unit failure"),
    (0x40, 0x00, "RAM failure"),
    (0x44, 0x00, "internal target failure"),
    (0x47, 0x00, "SCSI parity error"),
    (0x47, 0x01, "data phase CRC error detected"),
    (0x47, 0x03, "information unit CRC error detected"),
    (0x4b, 0x00, "data phase error"),
    (0x4b, 0x03, "ACK/NAK timeout"),
    (0x4e, 0x00, "overlapped commands attempted"),
    (0x5d, 0x00, "failure prediction threshold exceeded"),
    (0x5d, 0x10, "hardware impending failure"),
];

impl Sense {
    /// Reads the bytes of fixed (70h, 71h) or descriptor (72h, 73h) format.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (key, code) = match bytes.first()? & 0x7f {
            0x70 | 0x71 => (bytes.get(2)?, 12),
            0x72 | 0x73 => (bytes.get(1)?, 2),
            _ => return None,
        };
        let additional = bytes.get(code).copied().zip(bytes.get(code + 1).copied());
        Some(Self { key: key & 0x0f, additional })
    }

    /// The key of this name, as the kernel and drivers spell it.
    pub fn key_named(text: &str) -> Option<u8> {
        let named = |name: &&str| {
            text.len() >= name.len() && text.as_bytes()[..name.len()].eq_ignore_ascii_case(name.as_bytes())
        };
        KEYS.iter().position(named).and_then(|key| u8::try_from(key).ok())
    }

    /// Whether it only says that the device was reset.
    pub fn is_reset(self) -> bool {
        self.key == 0x6 && self.additional.is_some_and(|(code, _)| code == RESET)
    }

    /// In words, with the numbers a technician looks up.
    pub fn describe(self) -> String {
        let key = KEYS[usize::from(self.key & 0x0f)];
        let Some((code, qualifier)) = self.additional else { return key.to_owned() };
        let name = ADDITIONAL.iter().find(|(a, b, _)| (*a, *b) == (code, qualifier)).map(|(.., name)| *name);
        let name = name.map_or_else(String::new, |name| format!(" {name}"));
        format!("{key}, ASC/ASCQ {code:02X}h/{qualifier:02X}h{name}")
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
        assert!(sense.is_reset());
        let descriptor = Sense::decode(&[0x72, 3, 0x0c, 2]).unwrap();
        assert_eq!(descriptor.describe(), "Medium Error, ASC/ASCQ 0Ch/02h write error, auto reallocation failed");
        assert_eq!(Sense::decode(&[]), None);
        assert_eq!(Sense::decode(&[0x70, 0, 3]).unwrap().describe(), "Medium Error");
        assert_eq!(Sense::decode(&[0x00; 18]), None);
    }

    #[test]
    fn keys_are_known_by_name_in_any_case() {
        assert_eq!(Sense::key_named("Medium Error [current]"), Some(3));
        assert_eq!(Sense::key_named("MEDIUM ERROR); FRU=0Ch"), Some(3));
        assert_eq!(Sense::key_named("Mediüm Error"), None);
        assert!(ADDITIONAL.is_sorted());
    }
}
