//! What other tools print while a fault stands, and whyslow's answer to that: it must name the same first cause, or say
//! what the captures do not show.

use crate::error::{During, Error, Result};
use crate::expect::Expect;
use crate::judge;
use crate::leash::{Leash, die_with_us};
use crate::observer::Observer;
use crate::stage::{PREFIX, Stage};
use crate::stop;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use whyslow_model::diagnosis::{Confidence, Diagnosis, Verdict};

/// How long the tools may take beyond the time they were asked for, and whyslow to read what they printed.
const GRACE: Duration = Duration::from_secs(20);

/// The tools, and how they are called for a number of seconds.
const TOOLS: [(&str, &str); 5] = [
    ("vmstat", "vmstat 1 {n}"),
    ("iostat", "iostat -x 1 {n}"),
    ("mpstat", "mpstat -P ALL 1 {n}"),
    ("pidstat", "pidstat 1 {n}"),
    ("sar", "sar -u -q ALL -B -n DEV -n TCP,ETCP 1 {n}"),
];
/// Tools that print counts since boot: called twice, with the time before each.
const COUNTS: [(&str, &str); 2] = [("ss", "ss -tinmp"), ("netstat", "netstat -s")];

/// What is wrong with whyslow's answer to the captures, and what it was, in words.
///
/// # Errors
/// Where a tool is not installed, or whyslow does not answer.
pub fn judged(observer: &Observer, stage: &Stage, expect: &Expect) -> Result<(Diagnosis, Vec<String>)> {
    let files = take(observer.seconds, stage)?;
    let answer = read(observer, stage, &files)?;
    let wrong = faults_of(&answer, expect);
    Ok((answer, wrong))
}

/// The same first cause; or nothing that is wrong, and what could not be seen.
fn faults_of(answer: &Diagnosis, expect: &Expect) -> Vec<String> {
    let wrong = judge::first_cause(answer, expect);
    let sure = answer.findings.iter().find(|f| f.confidence == Confidence::High && f.explained_by.is_none());
    match (wrong.is_empty(), sure) {
        (true, _) => Vec::new(),
        (false, None) if answer.verdict == Verdict::Undetermined && !answer.blind_spots.is_empty() => Vec::new(),
        (false, None) => vec!["the captures: neither the cause nor what they lack is named".into()],
        (false, Some(other)) => vec![format!("the captures: {} is found instead", other.key())],
    }
}

/// Runs the tools side by side: those of the network in the namespaces of the lab as well as in its own.
fn take(seconds: u64, stage: &Stage) -> Result<Vec<PathBuf>> {
    let mut running = Vec::new();
    let mut start = |name: String, script: &str, namespace: Option<&str>| -> Result<()> {
        let file = stage.path(&format!("{name}.txt"));
        running.push((file.clone(), tool(&file, script, namespace)?));
        Ok(())
    };
    for (name, call) in TOOLS {
        start(name.into(), &call.replace("{n}", &seconds.to_string()), None)?;
    }
    let namespaces = namespaces();
    for (name, call) in COUNTS {
        let script = format!("date; {call}; sleep {seconds}; date; {call}");
        start(name.into(), &script, None)?;
        for namespace in &namespaces {
            start(format!("{name}-{namespace}"), &script, Some(namespace))?;
        }
    }
    for (file, child) in &mut running {
        let status = stop::until(Duration::from_secs(seconds) + GRACE, || Ok(child.0.try_wait()?))?;
        match status.map(|status| status.code()) {
            Some(Some(0)) => {}
            Some(Some(127)) => {
                return Err(Error::Missing(format!(
                    "the tool behind {} (packages: see lab/README.md)",
                    file.display()
                )));
            }
            _ => return Err(Error::failed(format!("{}: the tool did not end as it should", file.display()))),
        }
    }
    Ok(running.into_iter().map(|(file, _)| file).collect())
}

/// The network namespaces of the lab.
fn namespaces() -> Vec<String> {
    let entries = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| name.starts_with(PREFIX));
    names.sort();
    names
}

fn tool(file: &Path, script: &str, namespace: Option<&str>) -> Result<Leash> {
    let mut command = Command::new(if namespace.is_some() { "ip" } else { "sh" });
    if let Some(namespace) = namespace {
        command.args(["netns", "exec", namespace, "sh"]);
    }
    command.args(["-c", script]).env("LC_ALL", "C");
    command.stdin(Stdio::null()).stdout(File::create(file)?).stderr(Stdio::null());
    die_with_us(&mut command);
    Ok(Leash(command.spawn().during(script)?))
}

fn read(observer: &Observer, stage: &Stage, files: &[PathBuf]) -> Result<Diagnosis> {
    let (out, err) = (stage.path("read.json"), stage.path("read.err"));
    let mut command = Command::new(&observer.whyslow);
    command.args(["read", "--json"]).args(files);
    command.stdin(Stdio::null()).stdout(File::create(&out)?).stderr(File::create(&err)?);
    die_with_us(&mut command);
    let mut child = Leash(command.spawn().during(observer.whyslow.display())?);
    let status = stop::until(GRACE, || Ok(child.0.try_wait()?))?
        .ok_or_else(|| Error::failed("whyslow read did not end in time"))?;
    if !status.success() {
        let said = fs::read_to_string(&err).unwrap_or_default();
        return Err(Error::failed(format!("whyslow read: {status}: {}", said.lines().next().unwrap_or_default())));
    }
    serde_json::from_slice(&fs::read(&out)?).during("whyslow's answer to the captures")
}
