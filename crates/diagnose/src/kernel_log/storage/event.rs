//! Error events in the log.

/// Kind of error: what it shows about the location of the fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The medium is bad: sense key 3, ATA UNC, NVMe media errors.
    Medium,
    /// The device itself failed: sense key 4, ATA device fault.
    Hardware,
    /// A read or write succeeded after retries, or the device predicts its failure: sense key 1.
    Recovered,
    /// A command was cut off or garbled on its path: sense key Bh, parity, interface CRC errors, a lost link.
    Transport,
    /// The target did not answer at all: DID_NO_CONNECT, a failed reset.
    NoAnswer,
    /// The target answers that it is not ready: sense key 2.
    NotReady,
    /// A command was not completed in time.
    Timeout,
    /// The kernel aborted a command, most often because it took too long.
    Abort,
    /// The link, the target or the bus was reset, or the device reports that it was: not a fault of the device in itself.
    Reset,
    /// The kernel took the device offline.
    Offline,
    /// The host adapter itself, or its firmware, reports a fault.
    Adapter,
    /// A request failed; other lines have the reason.
    Request,
}

impl Kind {
    /// Returns true if it is an error, and not a reaction of the kernel to errors.
    pub fn is_error(self) -> bool {
        !matches!(self, Self::Reset | Self::Offline)
    }

    /// Formats this number of them for a sentence.
    pub fn counted(self, count: f64) -> String {
        let (one, many) = match self {
            Self::Medium => ("medium error", "medium errors"),
            Self::Hardware => ("hardware error", "hardware errors"),
            Self::Recovered => ("recovered error", "recovered errors"),
            Self::Transport => ("transport error", "transport errors"),
            Self::NoAnswer => ("unanswered command", "unanswered commands"),
            Self::NotReady => ("not-ready response", "not-ready responses"),
            Self::Timeout => ("timeout", "timeouts"),
            Self::Abort => ("aborted command", "aborted commands"),
            Self::Reset => ("reset", "resets"),
            Self::Offline => ("offline report", "offline reports"),
            Self::Adapter => ("adapter fault", "adapter faults"),
            Self::Request => ("failed request", "failed requests"),
        };
        format!("{count} {}", if count == 1.0 { one } else { many })
    }

    /// Returns the kind for a sense key (SPC-6, table of sense keys). Keys of normal operation are not errors.
    pub fn of_sense_key(key: u8) -> Option<Self> {
        match key {
            0x1 => Some(Self::Recovered),
            0x2 => Some(Self::NotReady),
            0x3 => Some(Self::Medium),
            0x4 => Some(Self::Hardware),
            0xb => Some(Self::Transport),
            _ => None,
        }
    }

    /// Returns the kind for the host byte of a result (include/scsi/scsi_status.h), by its number or its name.
    pub fn of_host_byte(byte: &str) -> Option<Self> {
        let number = byte.strip_prefix("0x").and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (number, byte) {
            (Some(0x01 | 0x04), _) | (_, "DID_NO_CONNECT" | "DID_BAD_TARGET") => Some(Self::NoAnswer),
            (Some(0x03), _) | (_, "DID_TIME_OUT") => Some(Self::Timeout),
            (Some(0x05), _) | (_, "DID_ABORT") => Some(Self::Abort),
            (Some(0x02 | 0x06 | 0x07 | 0x0e | 0x0f | 0x14), _) => Some(Self::Transport),
            (_, "DID_BUS_BUSY" | "DID_PARITY" | "DID_ERROR") => Some(Self::Transport),
            (_, "DID_TRANSPORT_DISRUPTED" | "DID_TRANSPORT_FAILFAST" | "DID_TRANSPORT_MARGINAL") => {
                Some(Self::Transport)
            }
            (Some(0x08), _) | (_, "DID_RESET") => Some(Self::Reset),
            (Some(0x13), _) | (_, "DID_MEDIUM_ERROR") => Some(Self::Medium),
            _ => None,
        }
    }
}

/// One error, or several similar ones that the log represents by one line.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Line number in the log.
    pub sequence: u64,
    /// Number of occurrences: more than one if the line represents several.
    pub times: f64,
    /// host:channel:target:lun, the port of an ATA device, or the device's name if only that is logged.
    pub target: String,
    /// Disk or partition that a failed request was for.
    pub device: Option<String>,
    /// Kind of error.
    pub kind: Kind,
    /// The device's own description of the error.
    pub detail: Option<String>,
    /// The sector, if the line names one.
    pub sector: Option<u64>,
    /// Age of the command in seconds, if known.
    pub held: Option<f64>,
}
