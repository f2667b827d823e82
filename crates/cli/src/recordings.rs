//! Location of recordings, and selection of a period.

use crate::options::duration;
use crate::output::{Failure, complain};
use clap::Args;
use jiff::{Timestamp, Zoned};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use whyslow_model::catalogue::{Family, MachineInfo};
use whyslow_model::value::Value;
use whyslow_sense::{Root, storage};
use whyslow_show::clock::{self, ZonedClock};
use whyslow_store::{Recording, StoreError, TimeRange};

/// Folder that systemd creates for `StateDirectory=whyslow`.
const OF_THE_MACHINE: &str = "/var/lib/whyslow";

/// Time on either side of a moment.
const AROUND: Duration = Duration::from_secs(300);

/// Which recording, and which part of it.
#[derive(Clone, Debug, Args)]
pub struct RecordingPeriod {
    /// Folder of the recording [default: /var/lib/whyslow for root, else ~/.local/state/whyslow]
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Only the last part: 2h, 7d
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with_all = ["from", "to"])]
    pub since: Option<Duration>,
    /// Start time: 03:12, '2026-11-21 03:12', 2026-11-21T03:12:00Z
    #[arg(long, value_name = "WHEN")]
    pub from: Option<String>,
    /// End time
    #[arg(long, value_name = "WHEN")]
    pub to: Option<String>,
}

impl RecordingPeriod {
    pub fn open(&self) -> Result<Recording, Failure> {
        Recording::open_with_log(&folder(self.dir.as_deref())?, Arc::new(complain))
            .map_err(|e| Failure::usage(e.to_string()))
    }

    /// Returns the selected span; by default the whole recording.
    ///
    /// # Errors
    /// Fails if a time is not valid or the period is outside of the recording.
    pub fn span(&self, recording: &Recording) -> Result<TimeRange, Failure> {
        let now = Zoned::now();
        let all = recording.span();
        let when = |text: &Option<String>| text.as_deref().map(|text| nanoseconds(text, &now)).transpose();
        let from = self.since.map(|since| before(&now, since)).or(when(&self.from)?);
        let to = when(&self.to)?;
        if from.zip(to).is_some_and(|(from, to)| from > to) {
            return Err(Failure::usage("--from must come before --to"));
        }
        recorded(from.unwrap_or(*all.start())..=to.unwrap_or(*all.end()), recording)
    }
}

/// Returns the span if the recording covers a part of it.
///
/// # Errors
/// Fails if the recording ended before it or began after it.
pub fn recorded(span: TimeRange, recording: &Recording) -> Result<TimeRange, Failure> {
    let all = recording.span();
    if span.start() > all.end() || span.end() < all.start() {
        return Err(recorded_then("nothing", recording));
    }
    Ok(span)
}

/// Returns the error that nothing, or too little, was recorded at the requested time.
pub fn recorded_then(how_much: &str, recording: &Recording) -> Failure {
    let (start, end) = (for_people(*recording.span().start()), for_people(*recording.span().end()));
    Failure::nothing(format!("{how_much} was recorded then; the recording is from {start} to {end}"))
}

/// Returns the recorded name of the machine; empty if it was not recorded.
///
/// # Errors
/// Fails if a file cannot be read.
pub fn host(recording: &Recording, span: &TimeRange) -> Result<String, StoreError> {
    let column = MachineInfo::INFO.metrics.iter().position(|metric| metric.name == "name");
    let mut host = String::new();
    recording.each_row(span, MachineInfo::INFO.name, |row| {
        if let Some(Value::State(name)) = column.and_then(|column| row.values.get(column)) {
            host = name.get().unwrap_or_default().to_owned();
        }
        host.is_empty()
    })?;
    Ok(host)
}

/// Returns the minutes around a moment.
pub fn around(moment: &str) -> Result<TimeRange, Failure> {
    let at = self::moment(moment)?;
    let around = i64::try_from(AROUND.as_nanos()).unwrap_or(i64::MAX);
    Ok(at.saturating_sub(around)..=at.saturating_add(around))
}

/// Parses a moment; returns nanoseconds since 1970.
pub fn moment(text: &str) -> Result<i64, Failure> {
    nanoseconds(text, &Zoned::now())
}

/// Formats a time to the nanosecond (RFC 3339).
pub fn in_words(ns: i64) -> String {
    Timestamp::from_nanosecond(ns.into()).map_or_else(|_| ns.to_string(), |time| time.to_string())
}

/// Formats a time in the local zone, to the second.
pub fn for_people(ns: i64) -> String {
    ZonedClock::local().moment(&in_words(ns))
}

/// Formats a time to the millisecond, for documents.
pub fn to_the_millisecond(ns: i64) -> String {
    Timestamp::from_nanosecond(ns.into()).map_or_else(|_| ns.to_string(), |time| format!("{time:.3}"))
}

fn before(now: &Zoned, time: Duration) -> i64 {
    let now = i64::try_from(now.timestamp().as_nanosecond()).unwrap_or(i64::MAX);
    now.saturating_sub(i64::try_from(time.as_nanos()).unwrap_or(i64::MAX))
}

/// Parses a time with a zone, a local date and time, or a time of day (the most recent one).
fn nanoseconds(text: &str, now: &Zoned) -> Result<i64, Failure> {
    let time = clock::moment(text, now).ok_or_else(|| {
        Failure::usage(format!("'{text}' is not a time such as 03:12, '2026-11-21 03:12' or 2026-11-21T03:12:00Z"))
    })?;
    i64::try_from(time.as_nanosecond()).map_err(|_| Failure::usage(format!("'{text}' is too far away")))
}

/// Returns the requested folder; by default the machine's for root, and the user's own for others (XDG Base Directory
/// Specification).
pub fn folder(asked: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(asked) = asked {
        return Ok(asked.to_owned());
    }
    // The owner of /proc/self is the effective user of this process (proc(5)).
    if std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0) {
        return Ok(OF_THE_MACHINE.into());
    }
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
    state
        .map(|state| state.join("whyslow"))
        .ok_or_else(|| Failure::usage("HOME is not set, so there is no default folder: use --dir"))
}

/// Returns the path in an environment variable; ignores a relative one (XDG Base Directory Specification).
pub fn absolute(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// A home folder that must not be accessed.
pub struct ClosedHome {
    pub folder: PathBuf,
    pub why: &'static str,
}

/// Returns the home folder if this user may not access it, as after `su` or `setpriv` with root's environment, or if
/// accessing it would wait for a server.
pub fn closed_home() -> Option<ClosedHome> {
    let folder = absolute("HOME")?;
    if !storage::answers(&Root::live(), folder.to_str()?) {
        return Some(ClosedHome { folder, why: "is on a mount that does not answer" });
    }
    let denied = std::fs::metadata(folder.join(".")).is_err_and(|e| e.kind() == ErrorKind::PermissionDenied);
    denied.then_some(ClosedHome { folder, why: "belongs to another user" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        let now: Zoned = "2026-11-21T10:00:00+01:00[Europe/Berlin]".parse().unwrap();
        let at = |text: &str| nanoseconds(text, &now).ok().map(in_words);
        assert_eq!(at("2026-11-21T03:12:00Z").as_deref(), Some("2026-11-21T03:12:00Z"));
        assert_eq!(at("2026-11-21 03:12").as_deref(), Some("2026-11-21T02:12:00Z"));
        assert_eq!(at("2026-11-19 03:12").as_deref(), Some("2026-11-19T02:12:00Z"), "the day counts");
        assert_eq!(at("2026-11-19").as_deref(), Some("2026-11-18T23:00:00Z"), "a day begins at midnight");
        assert_eq!(at("03:12").as_deref(), Some("2026-11-21T02:12:00Z"));
        assert_eq!(at("23:00:30").as_deref(), Some("2026-11-20T22:00:30Z"), "the last one there was");
        for wrong in ["", "soon", "25:00", "2026-13-01", "9999999-01-01T00:00Z"] {
            assert_eq!(at(wrong), None, "{wrong}");
        }
    }
}
