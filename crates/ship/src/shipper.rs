//! Delivers the hours that are due.

use crate::destination::{Destination, ShipError};
use crate::due::{Due, RecordedHours, SETTLED_NS, Span, due, recorded_hours, take_expired};
use crate::state::{Delivered, State, StateFile};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use whyslow_model::inventory::{MachineChange, MachineInventory};
use whyslow_rollup::{Cell, Hour, HourRollup, MARGIN_NS, Place, PublicKey, Row, TableRows, parquet, table};
use whyslow_store::{Recording, StoreError};

const MS: i64 = 1_000_000;
const HOUR_NS: i64 = 3600 * 1_000 * MS;
/// Number of samples read before an hour, if they belong to the previous hour: for the step across the boundary, and to detect a
/// gap.
const SAMPLES_BEFORE: usize = 4;
/// Number of attempts to open a recording whose files are replaced while an hour is read.
const ATTEMPTS: usize = 5;
/// Keys of a file's metadata: whether the hour is complete, and the host.
const COMPLETE: &str = "whyslow.complete";
const HOST: &str = "whyslow.host";

/// Opens the recording.
pub type OpenFn<'f> = dyn Fn() -> Result<Recording, ShipError> + 'f;

/// Delivers a recording to a store.
pub struct Shipper {
    pub(crate) destination: Destination,
    pub(crate) host: String,
    version: String,
    labels: Vec<(String, String)>,
    pub(crate) file: StateFile,
    pub(crate) state: State,
    /// Keys whose requests are answered.
    pub(crate) raw_keys: Vec<PublicKey>,
}

/// Result of one pass over the recording.
#[derive(Debug, Default)]
pub struct Pass {
    /// Delivered hours, including incomplete ones.
    pub hours: usize,
    /// Number of delivered files.
    pub files: usize,
    /// Their total size, bytes.
    pub bytes: u64,
    /// Hours that are still due.
    pub left: usize,
    /// Hours that expired in the recording before they were delivered completely.
    pub lost: Vec<Hour>,
    /// The reason why it ended before everything was delivered.
    pub failure: Option<ShipError>,
}

impl Shipper {
    /// Creates a shipper for the recording in a folder. `host` is this host's name in the store, `version` that of the program,
    /// and `labels` go into the inventory.
    ///
    /// # Errors
    /// Fails if a name cannot be part of a path, or the state of deliveries cannot be read or written there.
    pub fn new(
        destination: Destination,
        host: &str,
        version: &str,
        labels: Vec<(String, String)>,
        recording: &Path,
    ) -> Result<Self, ShipError> {
        let epoch = Hour::from_ms(0).ok_or_else(|| ShipError::new("no calendar"))?;
        Place::incoming("minute", epoch, host).map_err(|error| ShipError::new(error.to_string()))?;
        let (file, state) = StateFile::open(recording, destination.address(), host)?;
        Ok(Self {
            destination,
            host: host.to_owned(),
            version: version.to_owned(),
            labels,
            file,
            state,
            raw_keys: Vec::new(),
        })
    }

    /// Delivers everything that is due at `now`, nanoseconds since 1970. Raising `stop` ends it.
    pub fn pass(&mut self, open: &OpenFn<'_>, now: i64, stop: &AtomicBool) -> Pass {
        let mut pass = Pass::default();
        let result = self.deliver_all(open, now, stop, &mut pass);
        // An interrupted pass is not a failure.
        pass.failure = result.err().filter(|_| !stop.load(Ordering::Relaxed));
        pass
    }

    fn deliver_all(
        &mut self,
        open: &OpenFn<'_>,
        now: i64,
        stop: &AtomicBool,
        pass: &mut Pass,
    ) -> Result<(), ShipError> {
        let mut recording = open()?;
        let recorded = hours_of(&recording);
        let known = self.state.clone();
        pass.lost = take_expired(&recorded, &mut self.state);
        for hour in recorded.keys() {
            self.state.hours.entry(*hour).or_default();
        }
        if self.state != known {
            self.file.write(&self.state)?;
        }
        let all = due(&recorded, &self.state, now);
        pass.left = all.len();
        for due in all {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            self.deliver(&mut recording, open, due, stop, pass)?;
            pass.left -= 1;
        }
        Ok(())
    }

    /// Delivers an hour.
    fn deliver(
        &mut self,
        recording: &mut Recording,
        open: &OpenFn<'_>,
        due: Due,
        stop: &AtomicBool,
        pass: &mut Pass,
    ) -> Result<(), ShipError> {
        let hour = due.hour;
        let (segments, tables) = self.rows(recording, open, hour)?;
        let metadata = [(COMPLETE, due.complete.to_string()), (HOST, self.host.clone())];
        for TableRows { table, rows } in &tables {
            let bytes = parquet(table, rows, &metadata).map_err(|error| ShipError::new(error.to_string()))?;
            let place = Place::incoming(&table.name, hour, &self.host);
            let place = place.map_err(|error| ShipError::new(error.to_string()))?;
            let size = bytes.len();
            self.destination.put(&place.path(), bytes, stop)?;
            pass.files += 1;
            pass.bytes += size as u64;
        }
        pass.hours += 1;
        self.state.hours.insert(hour, Delivered { segments, complete: due.complete });
        self.file.write(&self.state)
    }

    /// Reads the rows of an hour, and the segments of the recording that they come from. If the recorder replaces files
    /// meanwhile, opens the recording again.
    fn rows(
        &self,
        recording: &mut Recording,
        open: &OpenFn<'_>,
        hour: Hour,
    ) -> Result<(Vec<Span>, Vec<TableRows>), ShipError> {
        for _ in 0..ATTEMPTS {
            let recorded = hours_of(recording);
            let rolled = roll_up(recording, hour, &self.host, &self.version);
            let more = rolled.and_then(|mut tables| {
                self.add_inventory(recording, &recorded, hour, &mut tables)?;
                Ok(tables)
            });
            let tables = more.map_err(unreadable)?;
            if recording.is_current(&span_of(hour)) {
                return Ok((recorded.get(&hour).cloned().unwrap_or_default(), tables));
            }
            *recording = open()?;
        }
        Err(ShipError::new(format!("{hour}: the recording changes faster than it can be read")))
    }

    /// Adds the changes of the hour and, to the first hour of each day, the inventory at the last sample of the hour.
    fn add_inventory(
        &self,
        recording: &Recording,
        recorded: &RecordedHours,
        hour: Hour,
        tables: &mut Vec<TableRows>,
    ) -> Result<(), StoreError> {
        let whole = |at: i64, cells: &[Cell]| -> Row {
            let start = [Cell::text(&self.host), Cell::Timestamp(at.div_euclid(MS))];
            start.into_iter().chain(cells.iter().cloned().map(Cell::bounded)).collect()
        };
        let mut add = |name: &str, rows: Vec<Row>| {
            if let (Some(table), false) = (table(name), rows.is_empty()) {
                tables.push(TableRows { table, rows });
            }
        };
        let newest = recorded.get(&hour).into_iter().flatten().map(|(_, end)| *end).max();
        let is_first = recorded.keys().find(|other| other.day == hour.day) == Some(&hour);
        if let (Some(at), true) = (newest, is_first) {
            let row = |kind: &str, name: &str, value: &str| whole(at, &[kind, name, value].map(Cell::text));
            let inventory = recording.inventory(at)?;
            let entries = inventory.iter().flat_map(MachineInventory::entries);
            let rows = entries.map(|entry| row(&entry.kind, &entry.name, &entry.value));
            let labels = self.labels.iter().map(|(name, value)| row("label", name, value));
            add("inventory", rows.chain(labels).collect());
        }
        let (start, end) = (hour.start().saturating_mul(MS), hour.end().saturating_mul(MS));
        let changes = recording.changes(&(start..=end.saturating_sub(1)))?;
        let row = |change: &MachineChange| {
            let (old, new) = (Cell::words(change.old.as_deref()), Cell::words(change.new.as_deref()));
            let [kind, name] = [&change.kind, &change.name].map(|word| Cell::text(word));
            whole(change.at, &[kind, name, old, new])
        };
        add("change", changes.iter().map(row).collect());
        Ok(())
    }
}

pub(crate) fn unreadable(error: StoreError) -> ShipError {
    ShipError::new(error.to_string())
}

fn hours_of(recording: &Recording) -> RecordedHours {
    recorded_hours(recording.segments().iter().map(|segment| (*segment.span.start(), *segment.span.end())))
}

/// Returns the span of a recording that an hour's rows can depend on.
fn span_of(hour: Hour) -> whyslow_store::TimeRange {
    let (start, end) = (hour.start().saturating_mul(MS), hour.end().saturating_mul(MS));
    start.saturating_sub(MARGIN_NS)..=end.saturating_add(SETTLED_NS)
}

/// Computes the rows of an hour of a recording, for all tables except those of the inventory.
///
/// # Errors
/// Fails if a file cannot be read.
pub fn roll_up(recording: &Recording, hour: Hour, host: &str, version: &str) -> Result<Vec<TableRows>, StoreError> {
    let (start, end) = (hour.start().saturating_mul(MS), hour.end().saturating_mul(MS));
    let earlier = recording.sample_times(&(start.saturating_sub(HOUR_NS)..=start.saturating_sub(1)))?;
    let mut earlier: Vec<i64> = earlier.times.iter().map(|time| time.at).collect();
    earlier.sort_unstable();
    let before = earlier.get(earlier.len().saturating_sub(SAMPLES_BEFORE));
    let first = start.saturating_sub(MARGIN_NS).min(before.copied().unwrap_or(start));
    let times = recording.sample_times(&(first..=end.saturating_add(MARGIN_NS)))?;
    let mut rollup = HourRollup::new(hour, times.times.clone(), times.segments());
    let selections = rollup.selections();
    recording.each_reading(&times, &selections, |selection, reading| rollup.add(selection, reading))?;
    Ok(rollup.finish(host, version))
}
