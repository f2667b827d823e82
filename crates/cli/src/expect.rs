//! `whyslow expect`: shows the expected performance of storage and network next to the observed one.

use crate::complete;
use crate::observe::observed;
use crate::options::{Observe, OutputOptions};
use crate::output::{self, Failure, print};
use crate::pseudonymise::PseudonymSession;
use crate::stack;
use clap::Args;
use clap_complete::ArgValueCandidates;
use std::process::ExitCode;
use std::time::Duration;
use whyslow_diagnose::{DriveFacts, expectations};
use whyslow_show::{json, text};

/// What to compare.
#[derive(Debug, Args)]
pub struct ExpectArgs {
    /// Only this device, mount point or interface, and what is above and below: md0, /srv, eth0
    #[arg(value_name = "NAME", add = ArgValueCandidates::new(complete::stack_nodes))]
    names: Vec<String>,
    /// How long to watch: 500ms, 30s, 2m; best while the load is on
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = crate::options::duration)]
    time: Duration,
    /// Revolutions per minute of rotating drives that do not report them, such as 7200
    #[arg(long, value_name = "N", value_parser = revolutions)]
    rpm: Option<f64>,
    /// Mean time of a seek of rotating drives, by their data sheet, such as 8.5ms [default: usual for their revolutions]
    #[arg(long, value_name = "TIME", value_parser = seek)]
    seek: Option<f64>,
}

/// Shows the expected performance of storage and network.
///
/// # Errors
/// Fails if a name is unknown on this machine.
pub fn run(args: &ExpectArgs, look: &OutputOptions) -> Result<ExitCode, Failure> {
    let names = PseudonymSession::default();
    let stack = stack::part(stack::live(&names), &args.names)?;
    let interval = (args.time / 2).min(Duration::from_secs(1));
    let asked = Observe { time: args.time, interval, no_bpf: true, check: false, nagios: false };
    asked.check().map_err(Failure::usage)?;
    let (_, window) = observed(&asked)?;
    let facts = DriveFacts { rotation_rate: args.rpm, seek: args.seek };
    let expected = expectations(&stack, &window, &facts);
    let drawn =
        if look.display.json { json::pretty(&expected) } else { text::expectations(&expected, &output::style(look)) };
    print(drawn)?;
    Ok(ExitCode::SUCCESS)
}

fn revolutions(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.parse().ok();
    number.filter(|rpm| (1000.0..=50_000.0).contains(rpm)).ok_or_else(|| "from 1000 to 50000, such as 7200".into())
}

/// Parses a seek time such as `8.5ms`; returns seconds.
fn seek(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.strip_suffix("ms").and_then(|number| number.parse().ok());
    number
        .filter(|ms| *ms > 0.0 && *ms <= 1000.0)
        .map(|ms| ms / 1000.0)
        .ok_or_else(|| "a time in milliseconds, such as 8.5ms".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_drives_are_read() {
        assert_eq!((seek("8.5ms"), seek("0.1ms")), (Ok(0.0085), Ok(0.0001)));
        for wrong in ["8.5", "ms", "-1ms", "NaNms", "infms"] {
            assert!(seek(wrong).is_err(), "{wrong}");
        }
        assert_eq!(revolutions("7200"), Ok(7200.0));
        assert!(revolutions("1").is_err() && revolutions("inf").is_err());
    }
}
