//! What was changed: the words of the journal.

use serde::{Deserialize, Serialize};

/// Several changes that are made together or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transaction {
    /// Its number, counted from 1.
    pub id: u64,
    /// When it began, RFC 3339.
    pub at: String,
    /// Who made it.
    pub who: Who,
    /// What for, in words.
    pub why: String,
    /// The boot it was made in, as /proc/sys/kernel/random/boot_id names it.
    pub boot: String,
    /// By when it must be confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm: Option<Confirm>,
    /// The transaction that this one keeps over a reboot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persists: Option<u64>,
    /// What is changed, in this order.
    pub changes: Vec<Change>,
}

/// Who made a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Who {
    /// User number.
    pub uid: u32,
    /// User name, where it is known; behind sudo that of who called it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Process.
    pub pid: u32,
    /// Its command line.
    pub command: String,
}

/// By when a transaction must be confirmed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confirm {
    /// RFC 3339, for people.
    pub by: String,
    /// The same in nanoseconds of CLOCK_BOOTTIME, which no one sets.
    pub boottime_ns: u64,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The tunable, with its thing: `disk.read_ahead_kb@vda`.
    pub target: String,
    /// What tells the thing from another of the same name: start time, sequence number, inode. Empty for the machine.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub identity: String,
    /// What it was.
    pub original: String,
    /// What it shall be.
    pub intended: String,
    /// What the kernel changes along with it, and what that was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub collateral: Vec<Collateral>,
}

/// A tunable that changes along with another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collateral {
    /// The tunable, with its thing.
    pub target: String,
    /// What it was.
    pub original: String,
}

/// Why changes were taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// Somebody asked for it.
    Asked,
    /// A change of the same transaction could not be made.
    Failed,
    /// It was interrupted by a signal.
    Interrupted,
    /// The program ended in the middle.
    Crashed,
    /// Nobody confirmed it in time.
    Unconfirmed,
    /// It was made for as long as something was measured.
    Tried,
}

impl Reason {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Asked => "asked for",
            Self::Failed => "a change failed",
            Self::Interrupted => "interrupted",
            Self::Crashed => "the program ended in the middle",
            Self::Unconfirmed => "not confirmed in time",
            Self::Tried => "only tried",
        }
    }
}

/// What became of one change that was to be taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The original is back.
    Restored,
    /// The original was there already.
    Already,
    /// Somebody else has set it since: left alone.
    ChangedSince {
        /// What it is now.
        now: String,
    },
    /// A later change of ours holds: that one is to be undone first.
    Superseded {
        /// The later transaction.
        by: u64,
    },
    /// The thing is gone, with its settings.
    Gone {
        /// What is known about it.
        why: String,
    },
    /// It could not be put back.
    Failed {
        /// Why.
        why: String,
    },
}

impl Outcome {
    /// Whether there is nothing left to take back.
    pub fn is_final(&self) -> bool {
        !matches!(self, Self::Superseded { .. } | Self::Failed { .. })
    }

    /// Whether the original is in force, or went with the thing it belonged to.
    pub fn is_clean(&self) -> bool {
        matches!(self, Self::Restored | Self::Already | Self::Gone { .. })
    }
}

/// How one change was taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undoing {
    /// The transaction.
    pub id: u64,
    /// Which of its changes, from 0.
    pub change: usize,
    /// The tunable, with its thing.
    pub target: String,
    /// What it was before us.
    pub original: String,
    /// What became of it.
    pub outcome: Outcome,
}

/// A transaction and what became of it: an entry of `tune history`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// What was to be done.
    #[serde(flatten)]
    pub transaction: Transaction,
    /// How far it came.
    pub status: Status,
    /// For each change what the kernel had afterwards; `None` where it was not made, or that was not noted.
    pub held: Vec<Option<Held>>,
    /// What was taken back, change by change; the last attempt of each.
    pub undone: Vec<Undoing>,
    /// Why it was taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undone_because: Option<Reason>,
}

/// What the kernel had after a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Of the tunable.
    pub value: String,
    /// Of what changed along with it, in the order of [`Change::collateral`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub collateral: Vec<String>,
}

/// How far a transaction came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Begun and not ended: it is being made, or the program that made it died.
    Open,
    /// Made; to be confirmed, or it is taken back.
    Unconfirmed,
    /// Made.
    Applied,
    /// Taken back, all of it.
    Undone,
    /// Taken back but for what somebody else has changed, or what could not be.
    PartlyUndone,
}

impl Status {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Open => "not ended",
            Self::Unconfirmed => "to be confirmed",
            Self::Applied => "applied",
            Self::Undone => "undone",
            Self::PartlyUndone => "partly undone",
        }
    }
}

impl HistoryEntry {
    /// A transaction that has just begun.
    pub fn begun(transaction: Transaction) -> Self {
        let held = vec![None; transaction.changes.len()];
        Self { transaction, status: Status::Open, held, undone: Vec::new(), undone_because: None }
    }

    /// Whether a change is still to be taken back by whoever wants the machine as it was.
    pub fn is_outstanding(&self, change: usize) -> bool {
        !self.undone.iter().any(|undoing| undoing.change == change && undoing.outcome.is_final())
    }

    /// The changes that are.
    pub fn outstanding(&self) -> Vec<usize> {
        (0..self.transaction.changes.len()).filter(|&change| self.is_outstanding(change)).collect()
    }

    /// What a change is taken to have left: what was read back, else what was intended.
    pub fn held_value(&self, change: usize) -> Option<&str> {
        let held = self.held.get(change)?.as_ref().map(|held| held.value.as_str());
        Some(held.unwrap_or(&self.transaction.changes.get(change)?.intended))
    }
}
