//! Formats base units for people: binary multiples for memory and storage, decimal for network.

use std::borrow::Cow;

const BINARY: &[(f64, &str)] = &[
    (1.0, ""),
    (1024.0, "Ki"),
    (1_048_576.0, "Mi"),
    (1_073_741_824.0, "Gi"),
    (1_099_511_627_776.0, "Ti"),
    (1_125_899_906_842_624.0, "Pi"),
];
const DECIMAL: &[(f64, &str)] = &[(1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T")];
/// Units of time: smallest number of seconds to use the unit for, its size, its name. Minutes, hours and days start at
/// two, where they read better.
const TIME: &[(f64, f64, &str)] = &[
    (0.0, 1e-9, "ns"),
    (1e-6, 1e-6, "µs"),
    (1e-3, 1e-3, "ms"),
    (1.0, 1.0, "s"),
    (120.0, 60.0, "min"),
    (7200.0, 3600.0, "h"),
    (172_800.0, 86_400.0, "d"),
];

/// Formats a number in a base unit; a flag becomes yes or no. An unknown unit is appended as it is.
pub fn quantity(number: f64, unit: &str) -> String {
    match unit {
        "s" => seconds(number),
        "bytes" => scaled(number, BINARY, "B"),
        "bytes/s" => scaled(number, BINARY, "B/s"),
        "bit/s" => scaled(number, DECIMAL, "bit/s"),
        "Hz" => scaled(number, DECIMAL, "Hz"),
        "ratio" => percent(number),
        // Nobody counts the digits of millions.
        "1/s" if number.abs() >= 1e6 => scaled(number, DECIMAL, "/s"),
        "1/s" => format!("{}/s", digits(number)),
        "count" | "" => digits(number),
        "flag" => if number == 0.0 { "no" } else { "yes" }.to_owned(),
        other => format!("{} {other}", digits(number)),
    }
}

/// Formats a number of bytes in binary units.
pub fn bytes(bytes: u64) -> String {
    quantity(bytes as f64, "bytes")
}

/// Formats a factor: `2.1`, `12`.
pub fn factor(factor: f64) -> String {
    if factor < 9.95 { format!("{factor:.1}") } else { format!("{factor:.0}") }
}

/// Formats a change, given the ratio to the value before: `+11 %`, `-93 %`, `5.3 times`. Percentages are of the value
/// before.
pub fn change(ratio: f64) -> String {
    match ratio {
        3.0.. => format!("{ratio:.1} times"),
        1.0.. => format!("+{}", percent(ratio - 1.0)),
        _ => format!("-{}", percent(1.0 - ratio)),
    }
}

/// Formats a ratio as a percentage.
pub fn percent(ratio: f64) -> String {
    format!("{} %", digits(ratio * 100.0))
}

/// Formats a share of a whole as a whole percentage; small shares are `< 1 %`, not zero.
pub fn share(ratio: f64) -> String {
    let percent = ratio * 100.0;
    if percent > 0.0 && percent < 1.0 { "< 1 %".to_owned() } else { format!("{percent:.0} %") }
}

/// Formats seconds in the most readable unit of time.
fn seconds(seconds: f64) -> String {
    if seconds == 0.0 {
        return "0 s".to_owned();
    }
    let (_, size, name) = TIME.iter().rev().find(|(from, ..)| seconds.abs() >= *from).unwrap_or(&TIME[0]);
    format!("{} {name}", digits(seconds / size))
}

/// Formats a number in the largest unit that is not above it, or in the smallest unit if all are.
fn scaled(number: f64, steps: &[(f64, &str)], unit: &str) -> String {
    let (size, prefix) = steps.iter().rev().find(|(size, _)| number.abs() >= *size).unwrap_or(&steps[0]);
    format!("{} {prefix}{unit}", digits(number / size))
}

/// Formats three significant digits; whole numbers and those of 100 and more have no fraction. A number too small for
/// two decimals becomes a bound, not an exponent: nobody reads '1.14e-3 %' in passing.
fn digits(number: f64) -> String {
    let magnitude = number.abs();
    // Avoids minus zero.
    let number = if magnitude == 0.0 { 0.0 } else { number };
    if magnitude >= 1e15 {
        format!("{number:.2e}")
    } else if number.fract() == 0.0 || magnitude >= 100.0 {
        format!("{number:.0}")
    } else if magnitude >= 10.0 {
        format!("{number:.1}")
    } else if magnitude >= 0.01 {
        format!("{number:.2}")
    } else if number.is_sign_negative() {
        "> -0.01".to_owned()
    } else {
        "< 0.01".to_owned()
    }
}

/// Start of `(os error 2)`, with the space before it.
const OPENING: &str = " (os error ";

/// Removes the error numbers from a message.
pub fn without_error_numbers(message: &str) -> Cow<'_, str> {
    let mut parts = message.split(OPENING);
    let first = parts.next().unwrap_or_default();
    if first.len() == message.len() {
        return Cow::Borrowed(message);
    }
    let rest = parts.map(|part| match part.trim_start_matches('-').trim_start_matches(|c: char| c.is_ascii_digit()) {
        rest if rest.starts_with(')') => rest[1..].to_owned(),
        _ => format!("{OPENING}{part}"),
    });
    Cow::Owned(std::iter::once(first.to_owned()).chain(rest).collect())
}

/// Formats an I/O error without its error number.
pub fn io_error(error: &std::io::Error) -> String {
    without_error_numbers(&error.to_string()).into_owned()
}

/// Formats why no thread could be started, and what to do: nearly always a limit on the number of tasks was reached
/// (pthread_create(3)).
pub fn no_thread(error: &std::io::Error) -> String {
    let remedy =
        "raise the limit on tasks (pids.max of the control group, TasksMax= of the unit, ulimit -u), or end some";
    format!("cannot start a thread: {}; {remedy}", io_error(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    fn drawn(number: f64, unit: &str) -> String {
        quantity(number, unit)
    }

    #[test]
    fn storage_and_memory_are_binary() {
        assert_eq!(drawn(0.0, "bytes"), "0 B");
        assert_eq!(drawn(1023.0, "bytes"), "1023 B");
        assert_eq!(drawn(4096.0, "bytes"), "4 KiB");
        assert_eq!(drawn(12.5 * 1_048_576.0, "bytes/s"), "12.5 MiB/s");
        assert_eq!(drawn(8e9, "bytes"), "7.45 GiB");
    }

    #[test]
    fn network_is_decimal() {
        assert_eq!(drawn(943e6, "bit/s"), "943 Mbit/s");
        assert_eq!(drawn(1e9, "bit/s"), "1 Gbit/s");
        assert_eq!(drawn(56_000.0, "bit/s"), "56 kbit/s");
        assert_eq!(drawn(1.2e9, "Hz"), "1.20 GHz");
    }

    #[test]
    fn time_goes_from_nanoseconds_to_days() {
        assert_eq!(drawn(0.0, "s"), "0 s");
        assert_eq!(drawn(2.5e-7, "s"), "250 ns");
        assert_eq!(drawn(0.000_12, "s"), "120 µs");
        assert_eq!(drawn(0.184, "s"), "184 ms");
        assert_eq!(drawn(10.0, "s"), "10 s");
        assert_eq!(drawn(119.0, "s"), "119 s");
        assert_eq!(drawn(300.0, "s"), "5 min");
        assert_eq!(drawn(9000.0, "s"), "2.50 h");
        assert_eq!(drawn(259_200.0, "s"), "3 d");
    }

    #[test]
    fn ratios_are_percentages_and_counts_stay() {
        assert_eq!(drawn(0.625, "ratio"), "62.5 %");
        assert_eq!(drawn(200.0, "1/s"), "200/s");
        assert_eq!((drawn(999_999.0, "1/s"), drawn(1.25e9, "1/s")), ("999999/s".into(), "1.25 G/s".into()));
        assert_eq!(drawn(31.24, "count"), "31.2");
        assert_eq!(drawn(7.0, "furlong"), "7 furlong");
        assert_eq!((drawn(0.0, "flag"), drawn(1.0, "flag")), ("no".into(), "yes".into()));
        assert_eq!(share(0.004), "< 1 %");
        assert_eq!(share(0.0), "0 %");
    }

    #[test]
    fn a_change_is_in_percent_of_the_value_before() {
        assert_eq!((change(452.0 / 327.0), change(327.0 / 452.0)), ("+38.2 %".into(), "-27.7 %".into()));
        assert_eq!((change(1.0), change(5.31), change(0.0)), ("+0 %".into(), "5.3 times".into(), "-100 %".into()));
    }

    #[test]
    fn small_numbers_have_no_exponent() {
        assert_eq!(drawn(1.14e-5, "ratio"), "< 0.01 %");
        assert_eq!(drawn(0.004, "1/s"), "< 0.01/s");
        assert_eq!(drawn(-0.004, "count"), "> -0.01");
        assert_eq!(
            (drawn(-0.0, "bytes"), drawn(-0.0, "count"), drawn(-0.0, "s")),
            ("0 B".into(), "0".into(), "0 s".into())
        );
        assert_eq!(drawn(40.362_240_871, "s"), "40.4 s");
        assert_eq!(drawn(3e-10, "s"), "0.30 ns");
    }

    #[test]
    fn numbers_that_are_none_do_not_panic() {
        for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, f64::MIN_POSITIVE, f64::MAX] {
            for unit in ["s", "bytes", "bit/s", "ratio", "1/s", "count"] {
                assert!(!quantity(number, unit).is_empty());
            }
        }
    }

    #[test]
    fn an_error_has_words_and_no_number() {
        assert_eq!(io_error(&io::Error::from_raw_os_error(2)), "No such file or directory");
        assert_eq!(io_error(&io::Error::other("it is a disk")), "it is a disk");
    }

    #[test]
    fn every_number_of_a_message_goes_and_nothing_else() {
        let error = io::Error::from_raw_os_error(13);
        assert_eq!(
            without_error_numbers(&format!("a: {error}; b: {error}.")),
            "a: Permission denied; b: Permission denied."
        );
        for text in ["", "x (os error", "x (os error y)", "(os error 1)"] {
            assert_eq!(without_error_numbers(text), text);
        }
    }
}
