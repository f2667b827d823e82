//! `whyslow bench` without arguments: lists possible benchmarks on this machine as commands to paste.

use crate::options::OutputOptions;
use crate::output::{Failure, print};
use serde::Serialize;
use std::fs;
use std::path::Path;
use whyslow_show::json;

#[derive(Debug, Serialize)]
struct Suggestion {
    command: String,
    measures: &'static str,
    writes: bool,
}

/// Prefixes of devices without storage of their own.
const NOT_DISKS: [&str; 8] = ["loop", "ram", "zram", "dm-", "md", "sr", "fd", "nbd"];

/// Prints the overview; measures nothing.
pub(super) fn show(look: &OutputOptions) -> Result<(), Failure> {
    let all = suggestions();
    if look.display.json {
        return print(json::pretty(&all));
    }
    let width = all.iter().map(|one| one.command.len()).max().unwrap_or(0);
    let line = |one: &Suggestion| format!("  {:width$}  {}\n", one.command, one.measures);
    let lines: String = all.iter().map(line).collect();
    print(format!(
        "Measures what this machine can do, under known load. Nothing has been measured yet.\n\n{lines}\n\
         In a folder, 'disk' and 'fs' write temporary files of 1 GiB and more (--size).\n\
         None of these changes existing data. Options: whyslow bench disk --help\n"
    ))
}

fn suggestions() -> Vec<Suggestion> {
    let one = |command: String, measures, writes| Suggestion {
        command: format!("whyslow bench {command}"),
        measures,
        writes,
    };
    let mut all: Vec<Suggestion> =
        disks().iter().map(|disk| one(format!("disk /dev/{disk} --in-use"), "a disk, reads only", false)).collect();
    all.extend([
        one("disk /var/tmp".into(), "the disk under a folder, with writes", true),
        one("fs /var/tmp".into(), "streams, small files, fsync", true),
        one("layers /".into(), "what each layer under a file costs", false),
        one("memory".into(), "memory bandwidth and latency", false),
        one("cpu".into(), "CPU scaling, wake-ups, system calls", false),
        one("net serve".into(), "serves 'bench net', prints its command", false),
    ]);
    all
}

/// Returns the disks of this machine that have a size.
fn disks() -> Vec<String> {
    let names = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok()).map(|name| name.replace('!', "/"));
    let has_size = |name: &String| {
        let size = Path::new("/sys/block").join(name.replace('/', "!")).join("size");
        fs::read_to_string(size).is_ok_and(|sectors| sectors.trim() != "0")
    };
    let mut disks: Vec<String> =
        names.filter(|name| !NOT_DISKS.iter().any(|prefix| name.starts_with(prefix))).filter(has_size).collect();
    disks.sort();
    // On a machine with many disks, some are enough as examples.
    disks.truncate(4);
    disks
}
