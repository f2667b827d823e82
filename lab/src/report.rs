//! The table of outcomes.

use crate::trial::{Mark, Outcome};

pub fn heading() -> String {
    line("trial", "expected", "found first", "", 0.0).trim_end_matches(['0', '.', ' ']).to_string()
}

/// One trial's row, and below it what was wrong.
pub fn row(outcome: &Outcome) -> String {
    let mark = match outcome.mark {
        Mark::Right => "right",
        Mark::Wrong => "WRONG",
        Mark::Skipped => "skipped",
    };
    let mut text = line(outcome.name, &outcome.expected, &outcome.found, mark, outcome.seconds);
    for why in &outcome.because {
        text.push_str(&format!("\n    {}", why.escape_debug()));
    }
    text
}

pub fn summary(outcomes: &[Outcome]) -> String {
    let count = |mark| outcomes.iter().filter(|o| o.mark == mark).count();
    format!("{} passed, {} failed, {} skipped", count(Mark::Right), count(Mark::Wrong), count(Mark::Skipped))
}

fn line(name: &str, expected: &str, found: &str, mark: &str, seconds: f64) -> String {
    // Names in a finding are hostile text.
    let found = found.escape_debug();
    format!("{name:<20} {expected:<46} {:<60} {mark:<7} {seconds:>5.1}", found.to_string())
}
