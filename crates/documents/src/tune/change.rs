//! The records of the change journal.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Changes that are made together or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Transaction {
    /// Its number, from 1.
    pub id: u64,
    /// When it began, RFC 3339.
    pub at: String,
    /// Who made it.
    pub who: ChangedBy,
    /// The purpose, in words.
    pub why: String,
    /// The boot id (/proc/sys/kernel/random/boot_id).
    pub boot: String,
    /// The deadline for confirmation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm: Option<Confirm>,
    /// The transaction whose settings this one makes persistent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persists: Option<u64>,
    /// The changes, in order.
    pub changes: Vec<SettingChange>,
}

/// The user and process that made a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangedBy {
    /// User number.
    pub uid: u32,
    /// User name, if known; with sudo, that of the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// PID.
    pub pid: u32,
    /// Its command line.
    pub command: String,
}

/// The deadline for confirming a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Confirm {
    /// RFC 3339, for people.
    pub by: String,
    /// The same in nanoseconds of CLOCK_BOOTTIME, which cannot be set.
    pub boottime_ns: u64,
}

/// A change of one setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SettingChange {
    /// The tunable, with its object: `disk.read_ahead_kb@vda`.
    pub target: String,
    /// What distinguishes the object from another of the same name: start time, sequence number, inode. Empty for the machine.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub identity: String,
    /// The old value.
    pub original: String,
    /// The new value.
    pub intended: String,
    /// Tunables that the kernel changes along with it, and their old values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub collateral: Vec<Collateral>,
}

/// A tunable that changes along with another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Collateral {
    /// The tunable, with its object.
    pub target: String,
    /// The old value.
    pub original: String,
}

/// Why changes were rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The user asked for it.
    Asked,
    /// A change of the same transaction could not be made.
    Failed,
    /// It was interrupted by a signal.
    Interrupted,
    /// The program died before it was done.
    Crashed,
    /// It was not confirmed in time.
    Unconfirmed,
    /// It was a temporary change for a measurement.
    Tried,
}

impl Reason {
    /// Returns the reason in words.
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

/// The outcome of rolling back one change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeOutcome {
    /// The original value is restored.
    Restored,
    /// The original value was already in force.
    Already,
    /// Not rolled back: changed by someone else since.
    ChangedSince {
        /// The current value.
        now: String,
    },
    /// A later change of ours is in force, which has to be undone first.
    Superseded {
        /// The later transaction.
        by: u64,
    },
    /// The object no longer exists, and its settings with it.
    Gone {
        /// What is known about it.
        why: String,
    },
    /// It could not be restored.
    Failed {
        /// The reason.
        why: String,
    },
}

impl ChangeOutcome {
    /// Returns whether nothing is left to roll back.
    pub fn is_final(&self) -> bool {
        !matches!(self, Self::Superseded { .. } | Self::Failed { .. })
    }

    /// Returns whether the original value is in force, or its object no longer exists.
    pub fn is_clean(&self) -> bool {
        matches!(self, Self::Restored | Self::Already | Self::Gone { .. })
    }
}

/// The rollback of one change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Undoing {
    /// The transaction.
    pub id: u64,
    /// The index of the change.
    pub change: usize,
    /// The tunable, with its object.
    pub target: String,
    /// The value before our change.
    pub original: String,
    /// The outcome.
    pub outcome: ChangeOutcome,
}

/// A transaction and its state: an entry of `tune history`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryEntry {
    /// What was to be changed.
    #[serde(flatten)]
    pub transaction: Transaction,
    /// Its state.
    pub status: Status,
    /// The values after each change; `None` if it was not made, or its values were not recorded.
    pub held: Vec<Option<Held>>,
    /// The last attempt to roll back each change.
    pub undone: Vec<Undoing>,
    /// Why it was rolled back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undone_because: Option<Reason>,
}

/// The values after a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Held {
    /// The tunable's value.
    pub value: String,
    /// The values of what changed along with it, in the order of [`SettingChange::collateral`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub collateral: Vec<String>,
}

/// The state of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Begun but not finished: it is being made, or the program that made it died.
    Open,
    /// Made, but rolled back unless it is confirmed in time.
    Unconfirmed,
    /// Made.
    Applied,
    /// Taken back, all of it.
    Undone,
    /// Rolled back, except for what was changed by someone else or could not be restored.
    PartlyUndone,
}

impl Status {
    /// Returns the status in words.
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
    /// Creates the entry of a transaction that has just begun.
    pub fn begun(transaction: Transaction) -> Self {
        let held = vec![None; transaction.changes.len()];
        Self { transaction, status: Status::Open, held, undone: Vec::new(), undone_because: None }
    }

    /// Returns whether a change still has to be rolled back to restore the machine.
    pub fn is_outstanding(&self, change: usize) -> bool {
        !self.undone.iter().any(|undoing| undoing.change == change && undoing.outcome.is_final())
    }

    /// Returns the changes that still have to be rolled back.
    pub fn outstanding(&self) -> Vec<usize> {
        (0..self.transaction.changes.len()).filter(|&change| self.is_outstanding(change)).collect()
    }

    /// Returns the value that a change left: the value read back, otherwise the intended one.
    pub fn held_value(&self, change: usize) -> Option<&str> {
        let held = self.held.get(change)?.as_ref().map(|held| held.value.as_str());
        Some(held.unwrap_or(&self.transaction.changes.get(change)?.intended))
    }
}
