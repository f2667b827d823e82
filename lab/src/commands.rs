//! Runs the commands other than `explain` on the subject of a trial: `stack` must draw what the kernel has below it,
//! `expect` must compute its rates, and one of its settings is changed, verified, persisted, rolled back and tried.

use crate::error::{Context, Result};
use crate::expect::{EntityPattern, Expect};
use crate::observer::Observer;
use crate::testbed::{Testbed, entries};
use crate::vm::shell;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time limit of a command.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Arguments of `try`: six pairs of a second and a half each.
const TRY: [&str; 9] = ["try", "--json", "--pairs", "6", "--noise-pairs", "0", "--settle", "1s", "--for"];
const TRY_TIME: &str = "32s";
/// Directory of persisted settings.
const PERSISTED: &str = "/etc";

/// Subject of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Thing {
    Device(String),
    Interface(String),
    /// Path from the root of the hierarchy.
    Group(String),
}

/// A setting that can be changed without harm.
struct Knob {
    /// Name in whyslow.
    name: String,
    file: PathBuf,
    /// A value other than the current one.
    other: String,
    /// A signal that `try` can measure during the change.
    metric: String,
}

/// Returns the mistakes of the commands; `None` if the subject of the trial has no settings.
///
/// # Errors
/// Fails if a command fails.
pub fn mismatches(observer: &Observer, bed: &Testbed, expect: &Expect) -> Result<Option<Vec<String>>> {
    let Some(thing) = thing(expect) else { return Ok(None) };
    let mut wrong = drawn(observer, bed, &thing)?;
    if let Thing::Device(name) | Thing::Interface(name) = &thing {
        wrong.extend(expected(observer, bed, name)?);
    }
    if let Some(knob) = thing.knob() {
        wrong.extend(changed(observer, bed, &thing, &knob).context(&knob.name)?);
        wrong.extend(tried(observer, bed, &knob).context(&knob.name)?);
    }
    Ok(Some(wrong))
}

fn thing(expect: &Expect) -> Option<Thing> {
    expect
        .subjects
        .iter()
        .chain(&expect.culprits)
        .find_map(|pattern| match pattern {
            EntityPattern::Named("device" | "array", name) => Some(Thing::Device(name.clone())),
            EntityPattern::Named("interface", name) => Some(Thing::Interface(name.clone())),
            EntityPattern::Named("cgroup", path) => Some(Thing::Group(path.clone())),
            _ => None,
        })
        .filter(|thing| thing.folder().is_dir())
}

impl Thing {
    /// Returns the kernel's directory for it.
    fn folder(&self) -> PathBuf {
        match self {
            Self::Device(name) => Path::new("/sys/block").join(name),
            Self::Interface(name) => Path::new("/sys/class/net").join(name),
            Self::Group(path) => Path::new("/sys/fs/cgroup").join(path.trim_start_matches('/')),
        }
    }

    /// Returns whether udev or systemd re-creates it: not a null_blk disk, and not a control group that a program
    /// created.
    fn outlives_a_boot(&self) -> bool {
        match self {
            Self::Device(name) => !name.starts_with("nullb"),
            Self::Interface(_) => true,
            Self::Group(path) => [".service", ".slice"].iter().any(|kind| path.ends_with(kind)),
        }
    }

    fn knob(&self) -> Option<Knob> {
        let (setting, file, name) = match self {
            Self::Device(name) => ("disk.read_ahead_kb", "queue/read_ahead_kb", name),
            Self::Interface(name) => ("interface.tx_queue_len", "tx_queue_len", name),
            Self::Group(path) => ("cgroup.cpu.weight", "cpu.weight", path),
        };
        let file = self.folder().join(file);
        let now: u64 = content(&file)?.parse().ok()?;
        let metric = match self {
            Self::Device(name) => format!("disk.requests@{name}"),
            _ => "cpu.busy".to_owned(),
        };
        Some(Knob { name: format!("{setting}@{name}"), file, other: (now + 64).to_string(), metric })
    }
}

impl Knob {
    fn change(&self) -> String {
        format!("{}={}", self.name, self.other)
    }
}

fn content(file: &Path) -> Option<String> {
    Some(fs::read_to_string(file).ok()?.trim().to_owned())
}

/// Checks that the stack contains it, on top of what the kernel reports below it.
fn drawn(observer: &Observer, bed: &Testbed, thing: &Thing) -> Result<Vec<String>> {
    let document: Value =
        serde_json::from_slice(&observer.run(bed, &["stack", "--json"], None, TIMEOUT)?).context("whyslow stack")?;
    let (id, below): (String, Vec<String>) = match thing {
        Thing::Device(name) => {
            let below = entries(thing.folder().join("slaves"));
            (format!("block:{name}"), below.iter().map(|lower| format!("block:{lower}")).collect())
        }
        Thing::Interface(name) => {
            let below = entries(thing.folder());
            let below = below.iter().filter_map(|entry| entry.strip_prefix("lower_"));
            (format!("interface:{name}"), below.map(|lower| format!("interface:{lower}")).collect())
        }
        Thing::Group(_) => return Ok(Vec::new()),
    };
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let Some(node) = list(&document["nodes"]).into_iter().find(|node| node["id"] == *id) else {
        return Ok(vec![format!("stack: {id} is missing")]);
    };
    let shown: Vec<Value> = list(&node["below"]).iter().map(|link| link["id"].clone()).collect();
    let missing = below.iter().filter(|lower| !shown.contains(&Value::from(lower.as_str())));
    Ok(missing.map(|lower| format!("stack: {lower} is not below {id}")).collect())
}

/// Checks that `expect` computes rates for the subject and what is below it, or explains in a note why nothing is
/// known, as for a disk with many requests at once or none.
fn expected(observer: &Observer, bed: &Testbed, name: &str) -> Result<Vec<String>> {
    let answer = observer.run(bed, &["expect", "--json", "--for", "4s", name], None, TIMEOUT)?;
    let document: Value = serde_json::from_slice(&answer).context("whyslow expect")?;
    let Some(things) = document["things"].as_array() else { return Ok(vec!["expect: no list of things".to_owned()]) };
    let says_nothing =
        |thing: &&Value| ["rates", "notes"].iter().all(|of| thing[*of].as_array().is_none_or(Vec::is_empty));
    if things.is_empty() || things.iter().all(|thing| says_nothing(&thing)) {
        return Ok(vec![format!("expect: nothing is said of {name}")]);
    }
    let rates =
        things.iter().flat_map(|thing| thing["rates"].as_array().into_iter().flatten().map(move |rate| (thing, rate)));
    let wrong = rates.filter(|(_, rate)| rate["expected"].as_f64().is_none_or(|expected| expected <= 0.0));
    Ok(wrong.map(|(thing, rate)| format!("expect: {} should deliver {}", thing["name"], rate["expected"])).collect())
}

/// Changes the setting, verifies it, persists it across a reboot, and rolls back.
fn changed(observer: &Observer, bed: &Testbed, thing: &Thing, knob: &Knob) -> Result<Vec<String>> {
    let before = content(&knob.file);
    let mut wrong = Vec::new();
    let run = |args: &[&str]| observer.run(bed, args, None, TIMEOUT).map(drop).context(args.join(" "));
    run(&["tune", "set", &knob.change(), "--why", "lab", "--no-confirm"])?;
    if content(&knob.file).as_ref() != Some(&knob.other) {
        wrong.push(format!("tune set: {} is {:?}", knob.file.display(), content(&knob.file)));
    }
    run(&["tune", "verify"])?;
    if thing.outlives_a_boot() {
        run(&["tune", "persist", "--no-confirm"])?;
        if !persisted()?.contains(&knob.other) {
            wrong.push("tune persist: no file has it".to_owned());
        }
    }
    run(&["tune", "undo", "--all"])?;
    if content(&knob.file) != before {
        wrong.push(format!("tune undo: {} is {:?}, was {before:?}", knob.file.display(), content(&knob.file)));
    }
    let left = persisted()?;
    wrong.extend((!left.is_empty()).then(|| format!("tune undo: of what was persisted this is left: {left}")));
    Ok(wrong)
}

/// Returns the contents of the files in which whyslow persists settings.
fn persisted() -> Result<String> {
    shell(&format!("find {PERSISTED} -name '*whyslow.*' -exec cat {{}} +"))
}

/// Tries the setting: something must be measured, and nothing must be left behind.
fn tried(observer: &Observer, bed: &Testbed, knob: &Knob) -> Result<Vec<String>> {
    let before = content(&knob.file);
    let change = knob.change();
    let args: Vec<&str> = TRY.into_iter().chain([TRY_TIME, &change, "--yes", "--metric", &knob.metric]).collect();
    let answer = observer.run(bed, &args, None, TIMEOUT + TIMEOUT)?;
    let trial: Value = serde_json::from_slice(&answer).context("whyslow try")?;
    let mut wrong = Vec::new();
    if trial["pairs"].as_array().is_none_or(Vec::is_empty) {
        wrong.push(format!("try: nothing was measured: {trial}"));
    }
    if content(&knob.file) != before {
        wrong.push(format!("try: {} is {:?}, was {before:?}", knob.file.display(), content(&knob.file)));
    }
    Ok(wrong)
}
