//! Results and their comparison.

use crate::recorder::Usage;
use serde::Serialize;
use std::fmt;

#[derive(Default, Serialize)]
pub struct Report {
    /// Results by number of processes, whyslow first.
    pub measured: Vec<Measured>,
}

#[derive(Serialize)]
pub struct Measured {
    pub name: &'static str,
    pub processes: usize,
    /// CPU milliseconds per sample, including closing segments.
    pub cpu_ms: f64,
    /// Bytes on disk per sample.
    pub bytes: f64,
    /// Wake-ups of its threads per second.
    pub wake_ups: f64,
    /// Peak resident memory, bytes.
    pub memory: u64,
}

impl Measured {
    /// Computes the difference of two usages, `seconds` apart. Bytes are those left at the end, since closing a segment
    /// shrinks it.
    pub fn between(
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
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data becomes JSON")
    }

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
