//! No text makes the reader panic or run on, or take more memory than it may, and what it refuses it refuses with a line
//! that is there. WHYSLOW_FUZZ_CASES says how many cases to try.

mod intact;

use intact::captures;
use proptest::prelude::*;
use whyslow_import::{Input, read};

fn reads(bytes: &[u8], strict: bool) {
    let input = Input { name: "x".into(), reader: Box::new(bytes) };
    match read(vec![input], strict) {
        Ok(captures) => assert!(captures.iter().all(|c| c.window.seconds().is_finite())),
        Err(refusal) => assert!(refusal.line as usize <= bytes.iter().filter(|b| b"\n\r".contains(b)).count() + 2),
    }
    let peak = peak_memory();
    assert!(peak < MOST_MEMORY, "{peak} bytes of memory were in use");
}

/// However many cases were read, and whatever was in them.
const MOST_MEMORY: u64 = 200_000_000;

/// The most memory this process had in use (VmHWM of proc_pid_status(5)).
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

fn texts() -> Vec<String> {
    captures().into_iter().map(|(_, text)| text).collect()
}

/// A capture in which lines were cut, doubled or swapped, and fields replaced by what no tool prints.
fn damaged() -> impl Strategy<Value = String> {
    let field = prop_oneof![
        Just(String::new()),
        Just("-".into()),
        Just("99999999999999999999999999".into()),
        Just("1.2.3".into()),
        Just("ñ\u{1b}[31m".into()),
        "[0-9.,:/()\\[\\]-]{1,12}",
        "\\PC{0,8}",
    ];
    let damage = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), field, 0..5_u8);
    (prop::sample::select(texts()), prop::collection::vec(damage, 1..8)).prop_map(|(capture, damages)| {
        let mut lines: Vec<String> = capture.lines().map(str::to_owned).collect();
        for (line, column, field, kind) in damages {
            if lines.is_empty() {
                break;
            }
            let at = line.index(lines.len());
            match kind {
                0 => drop(lines.remove(at)),
                1 => lines.insert(at, lines[at].clone()),
                2 => {
                    let other = column.index(lines.len());
                    lines.swap(at, other);
                }
                3 => lines[at] = lines[at].chars().take(column.index(lines[at].len() + 1)).collect(),
                _ => {
                    let mut fields: Vec<&str> = lines[at].split(' ').collect();
                    let place = column.index(fields.len());
                    fields[place] = &field;
                    lines[at] = fields.join(" ");
                }
            }
        }
        lines.join("\n")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        std::env::var("WHYSLOW_FUZZ_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(256)
    ))]

    #[test]
    fn damaged_captures_do_not_panic(text in damaged(), strict: bool) {
        reads(text.as_bytes(), strict);
    }

    #[test]
    fn damaged_captures_again_and_again(text in damaged(), count in 2..40_usize, strict: bool) {
        reads((text + "\n").repeat(count).as_bytes(), strict);
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), strict: bool) {
        reads(&bytes, strict);
    }

    #[test]
    fn arbitrary_lines_do_not_panic(text in "([a-zA-Z%/:()\\[\\]=_.-]{1,9}( |\n)|[0-9.,]{1,6} ){0,60}", strict: bool) {
        reads(text.as_bytes(), strict);
    }
}

#[test]
fn intact_captures_do_not_panic() {
    for capture in texts() {
        reads(capture.as_bytes(), true);
    }
}

/// CPU time of this thread, in nanoseconds: what other threads and programs do does not count.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

/// Work that is linear in the text takes four times as long for four times the text; what is quadratic sixteen times.
const MOST_GROWTH: f64 = 9.0;
/// Shorter times tell nothing.
const LEAST_NS: f64 = 20e6;

fn time_of(text: &str, count: usize) -> f64 {
    let text = text.repeat(count);
    let start = cpu_ns();
    reads(text.as_bytes(), true);
    (cpu_ns() - start) as f64
}

#[test]
fn reading_takes_time_in_proportion_to_the_text_whatever_is_repeated() {
    let blank = ["\n", " \n\n", "x\n", "-\n", "# free\n", "Sat Nov 21 16:54:34 UTC 2026\n"].map(str::to_owned);
    let enough = |text: &str| (60_000 / text.len()).max(4);
    for text in texts().into_iter().chain(blank) {
        let text = if text.ends_with('\n') { text } else { text + "\n" };
        let count = enough(&text);
        let growth = || time_of(&text, count * 4) / time_of(&text, count).max(LEAST_NS);
        // What disturbs one measurement does not disturb three.
        let least = (0..3).map(|_| growth()).find(|growth| *growth <= MOST_GROWTH);
        assert!(least.is_some(), "{:?}… repeated", &text[..text.len().min(80)]);
    }
}

/// Text packed by the programs themselves.
fn packed(program: &str, text: &[u8]) -> Vec<u8> {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let mut child = Command::new(program).arg("-c").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text).unwrap();
    child.wait_with_output().unwrap().stdout
}

/// An archive of one file, as tar(1) writes it.
fn archived(text: &[u8]) -> Vec<u8> {
    let folder = whyslow_testing::folder();
    std::fs::write(folder.path().join("messages"), text).unwrap();
    let tar = std::process::Command::new("tar").args(["-cf", "-", "messages"]).current_dir(&folder).output();
    tar.unwrap().stdout
}

fn gathers(bytes: &[u8], strict: bool) {
    let mut incident = whyslow_import::Incident::new(strict, std::sync::Arc::default());
    if incident.add("x", bytes).is_ok() {
        let _ = incident.done();
    }
    assert!(peak_memory() < MOST_MEMORY, "{} bytes of memory were in use", peak_memory());
}

#[test]
fn archives_that_are_cut_off_or_damaged() {
    let log = b"[    2.000000] I/O error, dev sda, sector 1\n".repeat(200);
    let tar = archived(&log);
    let mut all = vec![packed("gzip", &log), packed("xz", &log), packed("gzip", &tar), packed("xz", &tar), tar];
    all.push(packed("gzip", &packed("gzip", &log)));
    for whole in all {
        let step = (whole.len() / 64).max(1);
        for at in (0..whole.len()).step_by(step) {
            gathers(&whole[..at], at % 2 == 0);
            let mut damaged = whole.clone();
            damaged[at] ^= 0x55;
            gathers(&damaged, at % 2 == 1);
        }
    }
}
