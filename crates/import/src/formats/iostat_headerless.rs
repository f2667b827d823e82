//! Rows of `iostat -x` without their header, as grep leaves them. The columns are known if the numbers are consistent in one
//! layout only: sizes with bytes and requests, utilization with requests and service time.

use crate::prelude::*;

/// Layouts of sysstat 4 to 12.
const LAYOUTS: [&[&str]; 8] = [
    &["rrqm/s", "wrqm/s", "r/s", "w/s", "rsec/s", "wsec/s", "avgrq-sz", "avgqu-sz", "await", "svctm", "%util"],
    &["rrqm/s", "wrqm/s", "r/s", "w/s", "rkB/s", "wkB/s", "avgrq-sz", "avgqu-sz", "await", "svctm", "%util"],
    &[
        "rrqm/s", "wrqm/s", "r/s", "w/s", "rsec/s", "wsec/s", "rkB/s", "wkB/s", "avgrq-sz", "avgqu-sz", "await",
        "svctm", "%util",
    ],
    &[
        "rrqm/s", "wrqm/s", "r/s", "w/s", "rsec/s", "wsec/s", "avgrq-sz", "avgqu-sz", "await", "r_await", "w_await",
        "svctm", "%util",
    ],
    &[
        "rrqm/s", "wrqm/s", "r/s", "w/s", "rkB/s", "wkB/s", "avgrq-sz", "avgqu-sz", "await", "r_await", "w_await",
        "svctm", "%util",
    ],
    &[
        "r/s", "w/s", "rkB/s", "wkB/s", "rrqm/s", "wrqm/s", "%rrqm", "%wrqm", "r_await", "w_await", "aqu-sz",
        "rareq-sz", "wareq-sz", "svctm", "%util",
    ],
    &[
        "r/s", "rkB/s", "rrqm/s", "%rrqm", "r_await", "rareq-sz", "w/s", "wkB/s", "wrqm/s", "%wrqm", "w_await",
        "wareq-sz", "d/s", "dkB/s", "drqm/s", "%drqm", "d_await", "dareq-sz", "aqu-sz", "%util",
    ],
    &[
        "r/s", "rkB/s", "rrqm/s", "%rrqm", "r_await", "rareq-sz", "w/s", "wkB/s", "wrqm/s", "%wrqm", "w_await",
        "wareq-sz", "d/s", "dkB/s", "drqm/s", "%drqm", "d_await", "dareq-sz", "f/s", "f_await", "aqu-sz", "%util",
    ],
];
const MOST_ROWS: usize = 40;
/// Minimum number of requests per second: rows with fewer are rounded too much to decide anything.
const ENOUGH: f64 = 10.0;
/// Half of the last printed digit.
const ROUNDING: f64 = 0.005;
const SLACK: f64 = 0.01;

/// Returns the columns of the next rows, if they are certain.
pub fn columns(lines: &mut Lines<'_>) -> Option<&'static [&'static str]> {
    let first = numbers(lines.peek(0)?)?;
    let mut fitting: Vec<&[&str]> = LAYOUTS.into_iter().filter(|names| names.len() == first.len()).collect();
    let mut decided = false;
    for at in 0..MOST_ROWS {
        let Some(row) = lines.peek(at).and_then(numbers).filter(|row| row.len() == first.len()) else { break };
        fitting.retain(|names| {
            let agrees = agrees(names, &row);
            decided |= agrees.is_some();
            agrees != Some(false)
        });
    }
    match fitting[..] {
        [names] if decided => Some(names),
        _ => None,
    }
}

/// Returns the numbers after a device's name.
fn numbers(line: &str) -> Option<Vec<f64>> {
    let mut fields = line.split_whitespace();
    let device = fields.next()?.starts_with(|c: char| c.is_ascii_lowercase() || c == '/');
    let numbers: Option<Vec<f64>> = fields.map(number).collect();
    numbers.filter(|all| device && LAYOUTS.iter().any(|names| names.len() == all.len()))
}

/// Returns true if the numbers of a row are consistent in a layout, or `None` if they are too small to decide.
fn agrees(names: &[&str], numbers: &[f64]) -> Option<bool> {
    let get = |name: &str| Some(numbers[names.iter().position(|n| *n == name)?]);
    let (reads, writes) = (get("r/s")?, get("w/s")?);
    let direction = |count: f64, bytes: &str, size: &str| {
        let mean = get(size)?;
        (count >= ENOUGH).then(|| is_product(get(bytes).unwrap_or(0.0), count, mean))
    };
    let sectors = || Some(get("rsec/s")? + get("wsec/s")?);
    let bytes = sectors().or_else(|| Some(2.0 * (get("rkB/s")? + get("wkB/s")?)));
    let requests = Some(reads + writes).filter(|n| *n >= ENOUGH);
    let both = || Some(is_product(bytes?, requests?, get("avgrq-sz")?));
    let utilization = || Some(is_product(get("%util")?, requests?, get("svctm")? / 10.0));
    let checks = [direction(reads, "rkB/s", "rareq-sz"), direction(writes, "wkB/s", "wareq-sz"), both(), utilization()];
    checks.into_iter().flatten().reduce(|a, b| a && b)
}

/// Returns true if a number is the product of two others, all rounded as printed.
fn is_product(product: f64, a: f64, b: f64) -> bool {
    (product - a * b).abs() <= SLACK * product + ROUNDING * (1.0 + a + b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(rows: &str) -> Option<&'static [&'static str]> {
        columns(&mut Lines::new("x", rows.as_bytes()))
    }

    #[test]
    fn layouts_are_told_apart_by_what_agrees() {
        let sectors = "sda 0.00 12.00 120.00 380.00 7680.00 24320.00 64.00 120.50 241.00 2.00 100.00\n";
        let kibibytes = "sda 0.00 12.00 120.00 380.00 3840.00 12160.00 64.00 120.50 241.00 2.00 100.00\n";
        assert_eq!(layout(sectors).map(|names| names[4]), Some("rsec/s"));
        assert_eq!(layout(kibibytes).map(|names| names[4]), Some("rkB/s"));
        let new = "nvme0n1 512.00 2048.00 0.00 0.00 0.10 4.00 100.00 1600.00 5.00 4.76 0.20 16.00 0.00 0.00 0.00 0.00 0.00 0.00 0.07 8.00\n";
        assert_eq!(layout(new).map(<[&str]>::len), Some(20));
        let idle = "sda 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00\n";
        assert_eq!(layout(idle), None, "nothing tells");
        assert_eq!(layout(&format!("{idle}{sectors}")).map(<[&str]>::len), Some(11));
        assert_eq!(layout(&sectors.replace("64.00", "70.00")), None, "nothing agrees");
        assert_eq!(layout("sda 1 2 3\n"), None);
    }
}
