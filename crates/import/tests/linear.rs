//! Reading takes time in proportion to the length of a text: what the fixtures show is repeated, and four times as much of it must not take
//! much more than four times the CPU time.

use std::collections::HashMap;
use std::path::Path;
use whyslow_import::{Input, read};

/// The length of the shorter text in bytes, and how many times as long the other one is.
const LENGTH: usize = 8 << 10;
const TIMES: usize = 4;
/// Four times as much would take sixteen times as long if each line were compared with each other. Between the two is room for caches.
const MOST: f64 = 9.0;
/// Times below this are noise, in seconds.
const NOISE: f64 = 0.01;
/// How often it is measured until a text passes: the least time counts.
const TRIES: usize = 4;
/// How many fixtures of one tool are read.
const OF_ONE_TOOL: usize = 1;

/// CPU time of this thread in seconds: what else runs on the machine does not count.
fn cpu_time() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure outlives the call.
    let done = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(done, 0);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn seconds(text: &str) -> f64 {
    let begin = cpu_time();
    drop(read(vec![Input { name: "x".into(), reader: Box::new(text.as_bytes()) }], false));
    cpu_time() - begin
}

/// Whether four times the text takes much more than four times as long, and how many times as long it takes.
fn growth(text: &str) -> Option<f64> {
    let count = LENGTH.div_ceil(text.len());
    let (short, long) = (text.repeat(count), text.repeat(count * TIMES));
    let (mut least_short, mut least_long) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..TRIES {
        least_short = seconds(&short).min(least_short);
        least_long = seconds(&long).min(least_long);
        if least_long < NOISE || least_long < MOST * least_short {
            return None;
        }
    }
    Some(least_long / least_short)
}

/// The texts below a folder, of each tool the first few.
fn fixtures(folder: &Path, seen: &mut HashMap<String, usize>, texts: &mut Vec<(String, String)>) {
    let mut entries: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            fixtures(&path, seen, texts);
            continue;
        }
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let tool = name.split(['-', '.', '_']).next().unwrap_or_default().to_owned();
        let count = seen.entry(tool).or_default();
        if let Ok(mut text) = std::fs::read_to_string(&path)
            && text.len() > 100
            && text.len() < LENGTH
            && *count < OF_ONE_TOOL
        {
            *count += 1;
            text.push('\n');
            texts.push((path.display().to_string(), text));
        }
    }
}

#[test]
fn four_times_the_text_does_not_take_much_more_than_four_times_as_long() {
    let mut texts = Vec::new();
    fixtures(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures"), &mut HashMap::new(), &mut texts);
    assert!(texts.len() > 60, "{}", texts.len());
    let slow: Vec<_> =
        texts.iter().filter_map(|(path, text)| Some(format!("{path}: {:.1} times", growth(text)?))).collect();
    println!("{} texts", texts.len());
    assert!(slow.is_empty(), "{}", slow.join("\n"));
}
