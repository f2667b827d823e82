//! Location of a file in the store.
//!
//! ```text
//! v1/incoming/TABLE/day=2026-11-26/hour=16/HOST.parquet    written by the host
//! v1/compacted/TABLE/day=2026-11-26/hour=16/N.parquet      written by the compactor
//! ```
//!
//! A store's access policy applies to paths. So a place has exactly one path, and any other spelling of that path is
//! not a valid one.

use crate::tables::table;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use std::fmt;

/// First part of every path: the version of the tables.
pub const VERSION: &str = "v1";
/// Folder below it that hosts write to.
pub const INCOMING: &str = "incoming";
/// Folder below it that the compactor writes to.
pub const COMPACTED: &str = "compacted";

const EXTENSION: &str = ".parquet";
const HOUR_MS: i64 = 3_600_000;
/// Maximum length of a host's encoded name: with the extension and the suffix of temporary files, it is a valid file
/// name.
const LONGEST_HOST: usize = 200;

/// An hour in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hour {
    /// Its day.
    pub day: Date,
    /// 0..=23.
    pub hour: i8,
}

impl Hour {
    /// Returns the hour of a time in milliseconds since 1970; `None` beyond the calendar.
    pub fn from_ms(ms: i64) -> Option<Self> {
        let time = Timestamp::from_millisecond(ms).ok()?.to_zoned(TimeZone::UTC);
        Some(Self { day: time.date(), hour: time.hour() })
    }

    /// Returns its start, milliseconds since 1970.
    pub fn start(self) -> i64 {
        let start = self.day.at(self.hour, 0, 0, 0).to_zoned(TimeZone::UTC);
        start.map_or(0, |start| start.timestamp().as_millisecond())
    }

    /// Returns its end, milliseconds since 1970.
    pub fn end(self) -> i64 {
        self.start() + HOUR_MS
    }

    /// Returns the next hour; `None` at the end of the calendar.
    pub fn next(self) -> Option<Self> {
        Self::from_ms(self.end())
    }

    /// Parses the `day=` and `hour=` of a path.
    pub fn parse(day: &str, hour: &str) -> Option<Self> {
        let is_two_digits = hour.len() == 2 && hour.bytes().all(|byte| byte.is_ascii_digit());
        let hour = hour.parse().ok().filter(|hour| is_two_digits && (0..24).contains(hour))?;
        Some(Self { day: day.parse().ok()?, hour })
    }
}

impl fmt::Display for Hour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:02}:00 UTC", self.day, self.hour)
    }
}

/// A file of the store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// One of [`tables`](crate::tables()).
    pub table: String,
    /// The hour of its rows.
    pub hour: Hour,
    /// The file of that table and hour.
    pub file: File,
}

/// Origin of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum File {
    /// Rows of one host.
    Host(String),
    /// Rows of all hosts, in this generation.
    Generation(u64),
}

/// A host name that cannot be part of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceError(String);

impl fmt::Display for PlaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PlaceError {}

impl Place {
    /// Returns the place of a host's rows of an hour.
    ///
    /// # Errors
    /// Fails if the name is empty or too long.
    pub fn incoming(table: &str, hour: Hour, host: &str) -> Result<Self, PlaceError> {
        host_in_path(host)?;
        Ok(Self { table: table.into(), hour, file: File::Host(host.into()) })
    }

    /// Returns the place of a compacted generation of an hour.
    pub fn compacted(table: &str, hour: Hour, generation: u64) -> Self {
        Self { table: table.into(), hour, file: File::Generation(generation) }
    }

    /// Returns the folder of an hour's files, without a trailing slash. `area` is [`INCOMING`] or [`COMPACTED`].
    pub fn folder(area: &str, table: &str, hour: Hour) -> String {
        format!("{VERSION}/{area}/{table}/day={}/hour={:02}", hour.day, hour.hour)
    }

    /// Returns the path within the store.
    pub fn path(&self) -> String {
        let (area, name) = match &self.file {
            File::Host(host) => (INCOMING, encoded(host)),
            File::Generation(generation) => (COMPACTED, generation.to_string()),
        };
        format!("{}/{name}{EXTENSION}", Self::folder(area, &self.table, self.hour))
    }

    /// Returns the place of a path; `None` if the path is not that of a place, or its table is unknown.
    pub fn parse(path: &str) -> Option<Self> {
        let mut parts = path.split('/');
        let mut next = || parts.next();
        let (version, area, name) = (next()?, next()?, next()?);
        let (day, hour, file) = (next()?.strip_prefix("day=")?, next()?.strip_prefix("hour=")?, next()?);
        if version != VERSION || next().is_some() {
            return None;
        }
        let (table, hour) = (table(name)?.name.clone(), Hour::parse(day, hour)?);
        let stem = file.strip_suffix(EXTENSION)?;
        let file = match area {
            INCOMING => File::Host(decoded(stem)?),
            COMPACTED => File::Generation(stem.parse().ok()?),
            _ => return None,
        };
        let place = match file {
            File::Host(host) => Self::incoming(&table, hour, &host).ok()?,
            File::Generation(generation) => Self::compacted(&table, hour, generation),
        };
        // A name that is encoded differently, or a number with leading zeros, would be a second path.
        (place.path() == path).then_some(place)
    }

    /// Returns the host, for a file that a host wrote.
    pub fn host(&self) -> Option<&str> {
        match &self.file {
            File::Host(host) => Some(host),
            File::Generation(_) => None,
        }
    }
}

/// Encodes a host's name as one component of a path: it cannot leave its folder, or hide.
///
/// # Errors
/// Fails if it is empty or too long.
pub fn host_in_path(host: &str) -> Result<String, PlaceError> {
    if host.is_empty() {
        return Err(PlaceError("the name of the host is empty".into()));
    }
    let name = encoded(host);
    if name.len() > LONGEST_HOST {
        return Err(PlaceError(format!("the name of the host is longer than {LONGEST_HOST} characters")));
    }
    Ok(name)
}

/// Percent-encodes everything but `[A-Za-z0-9._-]`, and a leading dot or underscore, which hides a file from engines.
fn encoded(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for (at, byte) in name.bytes().enumerate() {
        let is_plain = byte.is_ascii_alphanumeric() || byte == b'-' || (at > 0 && matches!(byte, b'.' | b'_'));
        if is_plain {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Decodes a name; `None` if it is not valid.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => digit(rest.next()?)? << 4 | digit(rest.next()?)?,
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOUR: Hour = Hour { day: jiff::civil::date(2026, 11, 26), hour: 16 };

    #[test]
    fn a_place_is_its_path_and_back() {
        let place = Place::incoming("disk", HOUR, "db-1.example").unwrap();
        assert_eq!(place.path(), "v1/incoming/disk/day=2026-11-26/hour=16/db-1.example.parquet");
        assert_eq!(Place::parse(&place.path()), Some(place));
        let place = Place::compacted("minute", HOUR, 12);
        assert_eq!(place.path(), "v1/compacted/minute/day=2026-11-26/hour=16/12.parquet");
        assert_eq!(Place::parse(&place.path()), Some(place));
    }

    #[test]
    fn a_name_cannot_leave_its_folder_or_hide() {
        let name = |host: &str| {
            let path = Place::incoming("disk", HOUR, host).unwrap().path();
            path.rsplit_once('/').unwrap().1.to_owned()
        };
        assert_eq!(name("../../x"), "%2E.%2F..%2Fx.parquet");
        assert_eq!(name(".."), "%2E..parquet");
        assert_eq!(name("_tmp"), "%5Ftmp.parquet");
        assert_eq!(name("a/b\\c\0d é*"), "a%2Fb%5Cc%00d%20%C3%A9%2A.parquet");
        assert!(Place::incoming("disk", HOUR, "").is_err());
        assert!(Place::incoming("disk", HOUR, &"x".repeat(201)).is_err());
        assert!(Place::incoming("disk", HOUR, &"é".repeat(40)).is_err(), "240 characters");
    }

    #[test]
    fn what_is_not_the_path_of_a_place_is_none() {
        for path in [
            "v1/incoming/disk/day=2026-11-26/hour=16/a%2fb.parquet",
            "v1/incoming/disk/day=2026-11-26/hour=16/%61.parquet",
            "v1/incoming/disk/day=2026-11-26/hour=16/.parquet",
            "v1/incoming/disk/day=2026-11-26/hour=16/%ff.parquet",
            "v1/incoming/disk/day=2026-11-26/hour=16/%.parquet",
            "v1/incoming/disk/day=2026-11-26/hour=16/a/b.parquet",
            "v1/incoming/disk/day=2026-11-26/hour=16/a.parquet.tmp",
            "v1/incoming/disk/day=2026-11-26/hour=24/a.parquet",
            "v1/incoming/disk/day=2026-11-26/hour=+1/a.parquet",
            "v1/incoming/disk/day=2026-02-30/hour=01/a.parquet",
            "v1/incoming/nothing/day=2026-11-26/hour=16/a.parquet",
            "v2/incoming/disk/day=2026-11-26/hour=16/a.parquet",
            "v1/compacted/disk/day=2026-11-26/hour=16/01.parquet",
            "v1/compacted/disk/day=2026-11-26/hour=16/-1.parquet",
            "v1/other/disk/day=2026-11-26/hour=16/1.parquet",
            "",
        ] {
            assert_eq!(Place::parse(path), None, "{path}");
        }
    }

    #[test]
    fn hours_follow_one_another() {
        assert_eq!(Hour::from_ms(HOUR.start()), Some(HOUR));
        assert_eq!(Hour::from_ms(HOUR.end() - 1), Some(HOUR));
        assert_eq!(HOUR.next(), Some(Hour { hour: 17, ..HOUR }));
        let last = Hour { hour: 23, ..HOUR };
        assert_eq!(last.next(), Some(Hour { day: jiff::civil::date(2026, 11, 27), hour: 0 }));
        assert_eq!(Hour::from_ms(-1).map(|hour| hour.to_string()).as_deref(), Some("1969-12-31 23:00 UTC"));
        assert_eq!(Hour::from_ms(i64::MAX), None);
    }

    proptest! {
        #[test]
        fn any_name_comes_back(host in "\\PC{1,30}") {
            if let Ok(place) = Place::incoming("disk", HOUR, &host) {
                let path = place.path();
                prop_assert_eq!(path.matches('/').count(), 5);
                prop_assert_eq!(Place::parse(&path), Some(place));
            }
        }
    }
}
