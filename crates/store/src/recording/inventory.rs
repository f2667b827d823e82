//! Reads the inventory of the machine, and its changes.

use super::{Recording, TimeRange};
use crate::error::StoreError;
use whyslow_model::catalogue::{Family, InventoryChange, InventoryItem};
use whyslow_model::inventory::{MachineChange, MachineInventory};
use whyslow_model::snapshot::Snapshot;

/// Interval between complete inventories, with a margin, nanoseconds: they are recorded once an hour.
pub(super) const COMPLETE_NS: i64 = 2 * 3600 * 1_000_000_000;
/// Maximum delay in detecting a change, nanoseconds: packages of some systems are listed once in ten minutes.
const SEEN_NS: i64 = 11 * 60 * 1_000_000_000;

pub(super) fn of_inventory(family: &str) -> bool {
    family == InventoryItem::INFO.name || family == InventoryChange::INFO.name
}

impl Recording {
    /// Returns the inventory at a time, nanoseconds since 1970; `None` if none was recorded before.
    ///
    /// # Errors
    /// Fails if a file cannot be read.
    pub fn inventory(&self, at: i64) -> Result<Option<MachineInventory>, StoreError> {
        let samples = self.since_complete(at)?;
        let mut inventory = MachineInventory::default();
        for sample in &samples {
            inventory.take(sample);
        }
        Ok(inventory.at().map(|_| inventory))
    }

    /// Returns the changes in a span, oldest first. A change made while nothing was recorded has the time of the first
    /// inventory after that.
    ///
    /// # Errors
    /// Fails if a file cannot be read.
    pub fn changes(&self, span: &TimeRange) -> Result<Vec<MachineChange>, StoreError> {
        let (start, end) = (*span.start(), *span.end());
        let mut inventory = self.inventory(start.saturating_sub(1))?.unwrap_or_default();
        let mut changes = Vec::new();
        self.each_sample(&(start..=end.saturating_add(SEEN_NS)), &of_inventory, |sample| {
            changes.extend(inventory.take(&sample));
            true
        })?;
        changes.retain(|change| span.contains(&change.at));
        changes.sort();
        Ok(changes)
    }

    /// Returns the samples with rows of the inventory up to a time, from the last complete inventory on.
    fn since_complete(&self, at: i64) -> Result<Vec<Snapshot>, StoreError> {
        let mut found: Vec<Snapshot> = Vec::new();
        let mut recorded: i64 = 0;
        for segment in self.segments.iter().rev().filter(|segment| *segment.span.start() <= at) {
            let (start, end) = (*segment.span.start(), at.min(*segment.span.end()));
            let mut samples = self.read(segment, &(start..=end), &of_inventory)?;
            let complete = samples.iter().rposition(|sample| !sample.kernel.inventory.is_empty());
            samples.drain(..complete.unwrap_or(0));
            samples.retain(|sample| !sample.kernel.inventory.is_empty() || !sample.kernel.change.is_empty());
            samples.append(&mut found);
            found = samples;
            recorded = recorded.saturating_add(end.saturating_sub(start));
            if complete.is_some() || recorded > COMPLETE_NS {
                break;
            }
        }
        Ok(found)
    }
}
