//! Numbers as people read them: binary multiples for memory and storage, decimal for networks.

/// A value with its unit. The units are those of [`Evidence`](crate::diagnosis::Evidence); one that is not known is
/// written behind the plain number.
pub fn quantity(value: f64, unit: &str) -> String {
    match unit {
        "s" => seconds(value),
        "bytes" => bytes(value),
        "bytes/s" => format!("{}/s", bytes(value)),
        "bit/s" => decimal(value, "bit/s"),
        "ratio" => ratio(value),
        "1/s" => format!("{}/s", plain(value)),
        "count" | "" => plain(value),
        other => format!("{} {other}", plain(value)),
    }
}

/// A share as a percentage, with a decimal where it is small.
fn ratio(value: f64) -> String {
    let percent = value * 100.0;
    if percent.abs() < 10.0 && percent != 0.0 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

fn seconds(value: f64) -> String {
    let magnitude = value.abs();
    if value == 0.0 {
        "0 s".into()
    } else if magnitude < 1e-6 {
        format!("{} ns", significant(value * 1e9))
    } else if magnitude < 1e-3 {
        format!("{} µs", significant(value * 1e6))
    } else if magnitude < 1.0 {
        format!("{} ms", significant(value * 1e3))
    } else if magnitude < 600.0 {
        format!("{} s", significant(value))
    } else if magnitude < 2.0 * 86_400.0 {
        format!("{:.0} min", value / 60.0)
    } else {
        format!("{:.0} days", value / 86_400.0)
    }
}

fn bytes(value: f64) -> String {
    let mut scaled = value;
    for unit in ["B", "KiB", "MiB", "GiB", "TiB"] {
        if scaled.abs() < 1024.0 {
            return format!("{} {unit}", significant(scaled));
        }
        scaled /= 1024.0;
    }
    format!("{} PiB", significant(scaled))
}

fn decimal(value: f64, unit: &str) -> String {
    let mut scaled = value;
    for prefix in ["", "k", "M", "G"] {
        if scaled.abs() < 1000.0 {
            return format!("{} {prefix}{unit}", significant(scaled));
        }
        scaled /= 1000.0;
    }
    format!("{} T{unit}", significant(scaled))
}

/// Three significant figures, or all the whole ones: 0.123, 1.23, 12.3, 123, 1234. Whole numbers stay whole.
fn significant(value: f64) -> String {
    let magnitude = value.abs();
    let decimals = if magnitude >= 100.0 || value == 0.0 {
        0
    } else if magnitude >= 10.0 {
        1
    } else {
        2
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A count: thousands apart, decimals only where it is small.
fn plain(value: f64) -> String {
    if value.abs() < 1000.0 {
        return significant(value);
    }
    let digits = format!("{:.0}", value.abs());
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    if value < 0.0 { format!("-{out}") } else { out }
}

#[cfg(test)]
mod tests {
    use super::quantity;

    #[test]
    fn units_people_read() {
        for (value, unit, text) in [
            (0.00031, "s", "310 µs"),
            (0.0146, "s", "14.6 ms"),
            (2.7, "s", "2.7 s"),
            (158_597_120.0, "bytes/s", "151 MiB/s"),
            (4096.0, "bytes", "4 KiB"),
            (955e6, "bit/s", "955 Mbit/s"),
            (0.034, "ratio", "3.4 %"),
            (1.0, "ratio", "100 %"),
            (0.0, "ratio", "0 %"),
            (5460.0, "1/s", "5,460/s"),
            (2_097_152.0, "count", "2,097,152"),
            (0.97, "count", "0.97"),
            (3.0, "count", "3"),
            (f64::MAX, "bit/s", &format!("{:.0} Tbit/s", f64::MAX / 1e12)),
        ] {
            assert_eq!(quantity(value, unit), text);
        }
    }
}
