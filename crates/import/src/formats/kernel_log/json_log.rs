//! Kernel logs as JSON: `journalctl -o json`, one entry per line; `journalctl -o json-pretty` and `dmesg -J`, one field per
//! line.

use super::host_logs::HostLogs;
use super::log_time::LogTime;
use super::thinned_log::{LogRecord, may_matter};
use crate::lines::Lines;
use jiff::Timestamp;
use serde_json::Value;

/// Maximum number of lines before the first field.
const AHEAD: usize = 4;
/// Fields that only a log has.
const FIELDS: [&str; 4] = ["\"dmesg\"", "\"MESSAGE\"", "\"__CURSOR\"", "\"__REALTIME_TIMESTAMP\""];

pub fn starts(lines: &mut Lines<'_>) -> bool {
    lines.peek(0).is_some_and(|line| line.trim_start().starts_with('{'))
        && (0..AHEAD).any(|at| lines.peek(at).is_some_and(|line| FIELDS.iter().any(|field| line.contains(field))))
}

pub fn read(lines: &mut Lines<'_>, logs: &mut HostLogs) {
    let mut open = JsonEntry::default();
    loop {
        let number = lines.number();
        let Some(text) = lines.peek(0).map(str::trim) else { break };
        let whole = text.starts_with('{') && text.ends_with('}') && text.len() > 2;
        if whole {
            // An entry is parsed only if it may matter.
            if may_matter(text) || text.contains("\"MESSAGE\":[") {
                JsonEntry::parse(text).record(lines, logs);
            } else {
                let (kernel, when) = (is_from_kernel(text), LogTime { printed: micros(text), since_boot_ns: None });
                logs.choose(host(text), number);
                if kernel {
                    logs.current().count(number, when);
                }
                logs.current().drop_line();
            }
        } else if text.starts_with('}') {
            std::mem::take(&mut open).record(lines, logs);
        } else if text.starts_with('"') {
            open.field(text);
        } else if !text.is_empty() && !text.starts_with(['{', '[', ']']) && text.parse::<f64>().is_err() {
            return;
        }
        lines.skip(1);
    }
    open.record(lines, logs);
}

/// Fields of an entry that are used.
#[derive(Debug, Default, PartialEq)]
struct JsonEntry {
    text: Option<String>,
    since_boot_ns: Option<u64>,
    printed: Option<String>,
    sender: Option<String>,
    host: Option<String>,
    begun: bool,
}

impl JsonEntry {
    /// Parses an entry on one line.
    fn parse(text: &str) -> Self {
        let mut fields = Self::default();
        if let Ok(Value::Object(object)) = serde_json::from_str(text) {
            object.iter().for_each(|(name, value)| fields.set(name, value));
        }
        fields
    }

    /// Parses a field on a line: `"MESSAGE" : "text",`
    fn field(&mut self, line: &str) {
        let Some((name, value)) = line.trim_start_matches('"').split_once('"') else { return };
        let value = value.trim_start().trim_start_matches(':').trim().trim_end_matches(',');
        if let Ok(value) = serde_json::from_str(value) {
            self.set(name, &value);
        }
    }

    fn set(&mut self, name: &str, value: &Value) {
        self.begun = true;
        let micros = || value.as_str().and_then(|v| v.parse::<u64>().ok());
        match name {
            "msg" | "MESSAGE" => self.text = words(value),
            "time" => self.since_boot_ns = seconds(value).map(|s| (s * 1e9) as u64),
            "_SOURCE_MONOTONIC_TIMESTAMP" => self.since_boot_ns = micros().and_then(|us| us.checked_mul(1000)),
            "__REALTIME_TIMESTAMP" => {
                let time = micros().and_then(|us| Timestamp::from_microsecond(i64::try_from(us).ok()?).ok());
                self.printed = time.map(|t| format!("{t:.3}"));
            }
            "_HOSTNAME" => self.host = words(value),
            "SYSLOG_IDENTIFIER" => self.sender = words(value).filter(|name| name != "kernel"),
            _ => {}
        }
    }

    fn record(self, lines: &Lines<'_>, logs: &mut HostLogs) {
        if !self.begun {
            return;
        }
        logs.choose(self.host.as_deref(), lines.number());
        let log = logs.current();
        let when = LogTime { printed: self.printed.as_deref(), since_boot_ns: self.since_boot_ns };
        if self.sender.is_none() {
            log.count(lines.number(), when);
        }
        match self.text.filter(|text| log.wants(text) && super::is_relevant_sender(self.sender.as_deref())) {
            Some(text) => log.take(LogRecord { number: lines.number(), sequence: lines.sequence(), text: &text, when }),
            None => log.drop_line(),
        }
    }
}

fn is_from_kernel(text: &str) -> bool {
    text.contains("\"_TRANSPORT\":\"kernel\"") || !text.contains("\"SYSLOG_IDENTIFIER\"")
}

/// Returns the machine that logged an entry.
fn host(text: &str) -> Option<&str> {
    text.split_once("\"_HOSTNAME\":\"")?.1.split('"').next()
}

/// Returns an entry's microseconds since 1970.
fn micros(text: &str) -> Option<&str> {
    let rest = text.split_once("\"__REALTIME_TIMESTAMP\":\"")?.1;
    rest.split('"').next().filter(|us| !us.is_empty() && us.bytes().all(|b| b.is_ascii_digit()))
}

fn seconds(value: &Value) -> Option<f64> {
    value.as_f64().filter(|s| (0.0..1e10).contains(s))
}

/// Returns a text; the journal writes text that is not UTF-8 as bytes.
fn words(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(bytes) => {
            let bytes: Option<Vec<u8>> = bytes.iter().map(|b| u8::try_from(b.as_u64()?).ok()).collect();
            Some(String::from_utf8_lossy(&bytes?).into_owned())
        }
        _ => None,
    }
}
