//! Options for the store and the engine, and functions that print answers.

use crate::left_out::LeftOut;
use crate::trino::{Address, Trino};
use crate::{Failure, Fleet, Period, Span, Store};
use clap::Args;
use serde::Serialize;
use whyslow_command::DisplayOptions;
use whyslow_show::text::Sheet;

/// Environment variable that names the store.
const STORE: &str = "WHYSLOW_FLEET_STORE";
/// Environment variable that names the engine.
const ENGINE: &str = "WHYSLOW_FLEET_ENGINE";

/// Which store.
#[derive(Clone, Debug, Default, Args)]
pub struct StoreOptions {
    /// The store that hosts ship to: a folder or s3://BUCKET/PREFIX [default: WHYSLOW_FLEET_STORE]
    #[arg(long, value_name = "STORE", display_order = 900)]
    pub store: Option<String>,
}

/// Which store, and what a query to it may take.
#[derive(Clone, Debug, Default, Args)]
pub struct QueryOptions {
    #[allow(missing_docs)]
    #[command(flatten)]
    pub store: StoreOptions,
    /// What runs the SQL: trino://[USER@]HOST:PORT/CATALOG/SCHEMA, with ?SSL=true for TLS; with it, --store only serves to
    /// name what is not compacted yet [default: WHYSLOW_FLEET_ENGINE, or the engine in this program]
    #[arg(long, value_name = "URL", display_order = 901)]
    pub engine: Option<String>,
    /// Memory that a query may take in this program, such as 512M or 4G
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size, display_order = 902)]
    pub memory: u64,
}

impl StoreOptions {
    /// Opens the store.
    ///
    /// # Errors
    /// Fails if no store was named or it cannot be opened.
    pub fn open(&self) -> Result<Store, Failure> {
        self.open_named()?.ok_or_else(|| {
            Failure::usage(format!("which store? give --store with a folder or s3://BUCKET/PREFIX, or set {STORE}"))
        })
    }

    /// Opens the store if one was named.
    fn open_named(&self) -> Result<Option<Store>, Failure> {
        named(self.store.as_ref(), STORE).map(|store| Store::open(&store)).transpose()
    }
}

impl QueryOptions {
    /// Opens the store over a period.
    ///
    /// # Errors
    /// Fails if no store was named, the store cannot be opened, or the period is not valid.
    pub fn open(&self, period: &Period) -> Result<Fleet, Failure> {
        self.open_span(period.span()?)
    }

    /// Opens the store over a span.
    ///
    /// # Errors
    /// Fails if no store was named, the store cannot be opened, or Trino does not answer.
    pub fn open_span(&self, span: Span) -> Result<Fleet, Failure> {
        match named(self.engine.as_ref(), ENGINE) {
            None => Fleet::embedded(self.store.open()?, span, self.memory),
            Some(address) => Fleet::of_trino(Trino::new(&Address::parse(&address)?, self.store.open_named()?)?, span),
        }
    }
}

/// Returns the value of an option, or else of the environment variable.
fn named(option: Option<&String>, variable: &str) -> Option<String> {
    option.cloned().or_else(|| std::env::var(variable).ok().filter(|value| !value.is_empty()))
}

/// Writes a document to stdout: as JSON, or as the text that `draw` produces.
///
/// # Errors
/// Fails if stdout cannot be written.
pub fn show<T: Serialize>(
    options: &DisplayOptions,
    document: &T,
    draw: impl FnOnce(&mut Sheet),
) -> Result<(), Failure> {
    options.show(document, |style| {
        let mut sheet = Sheet::new(*style);
        draw(&mut sheet);
        sheet.finish()
    })
}

/// Adds a note about left-out data at the end of an answer.
pub fn note_left_out(sheet: &mut Sheet, left_out: &[LeftOut]) {
    const MOST: usize = 3;
    if left_out.is_empty() {
        return;
    }
    let entry = |out: &LeftOut| {
        let rows = match out.rows {
            0 if out.files == 1 => "1 file".to_owned(),
            0 => format!("{} files", out.files),
            1 => "1 row".to_owned(),
            rows => format!("{rows} rows"),
        };
        format!("{rows} of {} ({})", out.host, out.reason)
    };
    let named: Vec<String> = left_out.iter().take(MOST).map(entry).collect();
    let others = left_out.len().saturating_sub(MOST);
    let others = if others == 0 { String::new() } else { format!("; {others} more with --json") };
    sheet.remark(&format!("Left out: {}{others}.", named.join(", ")));
}

/// Parses a size such as `512M` or `4G`, in binary multiples.
fn size(text: &str) -> Result<u64, String> {
    let wrong = || "not a size such as 512M or 4G".to_owned();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.to_ascii_lowercase().trim_end_matches("ib") {
        "m" => 20,
        "g" => 30,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).filter(|&bytes| bytes > 0).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_show::text::TextStyle;

    #[test]
    fn sizes_are_read() {
        assert_eq!(size("512M"), Ok(512 << 20));
        assert_eq!(size("4GiB"), Ok(4 << 30));
        for wrong in ["", "0G", "4", "4K", "1.5G", "99999999999G"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_was_left_out_is_named() {
        let out = |host: &str, rows: u64| LeftOut { host: host.into(), reason: "x".into(), files: 1, rows };
        let mut sheet = Sheet::new(TextStyle { width: 80, colour: false, all: false, utc: true });
        note_left_out(&mut sheet, &[out("a", 0), out("b", 1), out("c", 7), out("d", 1), out("e", 1)]);
        assert_eq!(sheet.finish(), "Left out: 1 file of a (x), 1 row of b (x), 7 rows of c (x); 2 more with --json.\n");
    }
}
