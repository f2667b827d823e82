//! Help page: every key, and the meaning of the numbers.

use crate::keys::KEYS;
use crate::text::{Line, bold, dim, plain};

const NUMBERS: [(&str, &str); 7] = [
    ("WAIT", "threads that waited for a CPU or were blocked, on average: 200 % is two of them all the time"),
    ("CPU", "CPUs' worth of time it used: 100 % is one CPU"),
    ("QUEUE", "requests in flight, on average"),
    (
        "LATENCY",
        "mean time a request took, waiting in the queue included; '99 %' is what 99 of 100 took at most in the device",
    ),
    ("STALL", "of a group: the time in which at least one of its tasks waited for a CPU, memory or I/O"),
    ("QUOTA", "of a group: the share of its periods in which its CPU quota ran out"),
    ("-", "was not read: not the same as zero"),
];

pub(crate) fn page() -> Vec<Line> {
    let keys = KEYS.iter().filter(|binding| !binding.help.is_empty());
    let heading = |text: &str| vec![bold(text)];
    let entry = |name: &str, help: &str| vec![bold(format!("  {name:16}")), plain(help)];
    let mut lines = vec![heading("Keys")];
    lines.extend(keys.map(|binding| entry(binding.shown, binding.help)));
    lines.extend([vec![], heading("Numbers")]);
    lines.extend(NUMBERS.iter().map(|(name, help)| entry(name, help)));
    lines.extend([
        vec![],
        vec![dim("Numbers are means over the last seconds, which the first line states, as in the diagnosis.")],
    ]);
    lines
}
