//! One error a line of the log tells of.

/// What kind of error it is: what it says of where the fault lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The medium is bad: sense key 3, ATA UNC.
    Medium,
    /// The device itself failed: sense key 4.
    Hardware,
    /// Read or written in the end, after retries; or the device predicts its failure: sense key 1.
    Recovered,
    /// A command was cut off or garbled on its way: sense key Bh, interface CRC errors.
    Transport,
    /// The target did not answer at all: DID_NO_CONNECT.
    NoAnswer,
    /// A command was not completed in time.
    Timeout,
    /// The link, the target or the bus was reset, or the device reports that it was: no fault of its own by itself.
    Reset,
    /// The kernel gave the device up.
    Offline,
    /// A request failed, the reason stands on other lines.
    Request,
}

impl Kind {
    /// Whether it makes a device suspect; a reset hits bystanders too, and a failed request has its reason elsewhere.
    pub fn accuses(self) -> bool {
        !matches!(self, Self::Reset | Self::Request)
    }

    /// As it is counted in a sentence.
    pub fn word(self) -> &'static str {
        match self {
            Self::Medium => "medium errors",
            Self::Hardware => "hardware errors",
            Self::Recovered => "recovered errors",
            Self::Transport => "transport errors",
            Self::NoAnswer => "no answer",
            Self::Timeout => "timeouts",
            Self::Reset => "resets",
            Self::Offline => "offline",
            Self::Request => "failed requests",
        }
    }

    /// What a sense key says (SPC-6, table of sense keys). Keys of ordinary life are no errors.
    pub fn of_sense_key(key: u8) -> Option<Self> {
        match key {
            0x1 => Some(Self::Recovered),
            0x3 => Some(Self::Medium),
            0x4 => Some(Self::Hardware),
            0xb => Some(Self::Transport),
            _ => None,
        }
    }
}

/// One error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The line it stands on.
    pub sequence: u64,
    /// host:channel:target:lun, the port of an ATA device, or the device's name where only that is told.
    pub target: String,
    /// The disk or partition a failed request was for.
    pub device: Option<String>,
    /// What kind of error.
    pub kind: Kind,
    /// What the device said of it.
    pub detail: Option<String>,
    /// The sector, where one is named.
    pub sector: Option<u64>,
}
