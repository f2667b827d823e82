//! Options shared by several commands, and parsers for durations and sizes.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use std::time::Duration;
use whyslow_command::DisplayOptions;

/// What to observe, and what to make of it.
#[derive(Debug, Args)]
pub struct Observe {
    /// How long to watch: 500ms, 10s, 2m, 1h; a plain number is seconds
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub time: Duration,
    /// Sampling interval, at least 100ms
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    pub interval: Duration,
    /// Load no BPF programs: sees less, and reads only /proc and /sys
    #[arg(long)]
    pub no_bpf: bool,
    /// Exit with status 1 if there is a bottleneck, 3 if too little was visible to tell
    #[arg(long)]
    pub check: bool,
    /// Print one line with performance data and exit as a Nagios or Icinga plugin does: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN
    #[arg(long, conflicts_with_all = ["check", "json"])]
    pub nagios: bool,
}

impl Observe {
    const SHORTEST: Duration = Duration::from_millis(100);
    /// Maximum number of samples: they are held in memory, a few hundred kilobytes each on a busy machine.
    const MOST_SAMPLES: u128 = 1000;

    /// Checks that the options make sense.
    pub fn check(&self) -> Result<(), String> {
        if self.interval < Self::SHORTEST {
            return Err("--interval must be at least 100ms".into());
        }
        if self.time < self.interval {
            return Err("--for must be at least one --interval: a rate needs two samples".into());
        }
        if self.time.as_nanos() / self.interval.as_nanos() >= Self::MOST_SAMPLES {
            return Err(format!("more than {} samples: use a longer --interval", Self::MOST_SAMPLES));
        }
        Ok(())
    }
}

/// How to draw.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output options")]
pub struct OutputOptions {
    #[command(flatten)]
    pub display: DisplayOptions,
    /// Show everything, not only the summary
    #[arg(short = 'v', long, visible_alias = "verbose", global = true, display_order = 1001)]
    pub all: bool,
}

/// Parses `500ms`, `10s`, `2m`, `1h`, `7d`; a bare number is in seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let size = match unit {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err("not a time such as 500ms, 10s or 2m".into()),
    };
    let number: f64 = number.parse().map_err(|_| "not a time such as 500ms, 10s or 2m")?;
    Duration::try_from_secs_f64(number * size).map_err(|_| "too long".into())
}

/// Parses `4096`, `4K`, `100MiB`, `1G`, in binary multiples.
pub fn size(text: &str) -> Result<u64, String> {
    let wrong = || "not a size such as 4096, 4K, 256MiB or 1G".to_owned();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.to_ascii_lowercase().trim_end_matches("ib") {
        "" | "b" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).filter(|&bytes| bytes > 0).ok_or_else(wrong)
}

/// Returns a parser for one of these names.
pub fn one_of<T: Copy + Send + Sync + 'static>(
    names: &'static [(&'static str, T)],
) -> impl TypedValueParser<Value = T> {
    let value = |name: String| names.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    PossibleValuesParser::new(names.iter().map(|(name, _)| *name)).map(move |name| value(name).expect("clap checks it"))
}

/// Returns the first multiple of `interval` after `passed`. It is computed from the start, so that delays do not add
/// up; multiples that passed while a sample was taken are skipped.
pub fn next_multiple(interval: Duration, passed: Duration) -> Duration {
    let done = passed.as_nanos() / interval.as_nanos().max(1);
    interval.saturating_mul(u32::try_from(done + 1).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("10"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("7d"), Ok(Duration::from_secs(604_800)));
        for wrong in ["", "s", "-1s", "1w", "1e9", "nan", "1.2.3", "10 s", "٣s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert!(duration(&"9".repeat(400)).is_err());
    }

    #[test]
    fn sizes_are_read() {
        assert_eq!(size("4096"), Ok(4096));
        assert_eq!(size("4k"), Ok(4096));
        assert_eq!(size("256MiB"), Ok(256 << 20));
        assert_eq!(size("1T"), Ok(1 << 40));
        for wrong in ["", "0", "K", "GiB", "-1", "4X", "1MB", "1.5G", "1 G", "99999999999TiB"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_window_has_two_samples_and_not_too_many() {
        let check = |time, interval| {
            let ms = Duration::from_millis;
            Observe { time: ms(time), interval: ms(interval), no_bpf: false, check: false, nagios: false }.check()
        };
        assert_eq!(check(1000, 1000), Ok(()));
        for (time, interval, why) in [
            (999, 1000, "a rate needs two samples"),
            (1000, 99, "at least 100ms"),
            (3_600_000, 1000, "use a longer --interval"),
            (0, 0, "at least 100ms"),
        ] {
            let refused = check(time, interval).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
