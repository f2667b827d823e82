//! What was measured, and how it compares.

use crate::recorder::Usage;
use serde::Serialize;
use std::fmt;

/// All that was measured.
#[derive(Default, Serialize)]
pub struct Report {
    /// By number of processes, whyslow before the others.
    pub measured: Vec<Measured>,
}

/// What one recorder took.
#[derive(Serialize)]
pub struct Measured {
    /// Which recorder.
    pub name: &'static str,
    /// How many processes there were.
    pub processes: usize,
    /// Milliseconds of processor time a sample, closing of segments included.
    pub cpu_ms: f64,
    /// Bytes a sample that were on disk at the end and had not been before it was measured.
    pub bytes: f64,
    /// Times a second that one of its threads woke up.
    pub wake_ups: f64,
    /// Largest resident memory, bytes.
    pub memory: u64,
}

impl Measured {
    /// The difference of two usages, `seconds` apart. All that is on disk after the end counts for bytes, since a running
    /// tail becomes smaller when it is closed.
    pub fn of(
        name: &'static str,
        processes: usize,
        seconds: u64,
        before: &Usage,
        after: &Usage,
        at_the_end: u64,
    ) -> Self {
        let samples = seconds as f64;
        Self {
            name,
            processes,
            cpu_ms: (after.cpu_ms - before.cpu_ms) / samples,
            bytes: at_the_end.saturating_sub(before.bytes) as f64 / samples,
            wake_ups: after.sleeps.saturating_sub(before.sleeps) as f64 / samples,
            memory: after.memory,
        }
    }
}

impl Report {
    /// The same for programs.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data becomes JSON")
    }

    /// What whyslow took at this number of processes.
    fn whyslow(&self, processes: usize) -> Option<&Measured> {
        self.measured.iter().find(|m| m.processes == processes && m.name == "whyslow")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "processes  recorder      ms a sample  bytes a sample  MiB resident  wake-ups/s  whyslow takes")?;
        for m in &self.measured {
            write!(f, "{:9}  {:12}  {:11.2}  {:14.0}  ", m.processes, m.name, m.cpu_ms, m.bytes)?;
            write!(f, "{:12.1}  {:10.1}", m.memory as f64 / f64::from(1 << 20), m.wake_ups)?;
            if let Some(own) = self.whyslow(m.processes).filter(|own| own.name != m.name) {
                write!(f, "  {:.2} x its time, {:.2} x its bytes", own.cpu_ms / m.cpu_ms, own.bytes / m.bytes)?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
