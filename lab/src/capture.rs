//! Runs other tools during a fault and lets whyslow diagnose their output: it must name the same first cause, or report
//! what the captures do not show.

use crate::command::{ChildGuard, kill_with_parent};
use crate::error::{Context, Error, Result};
use crate::expect::Expect;
use crate::interrupt;
use crate::judge;
use crate::observer::Observer;
use crate::testbed::{Testbed, entries};
use crate::trial::Trial;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use whyslow_documents::diagnosis::Diagnosis;

/// Time allowed for the tools beyond their observation time, and for whyslow to read their output.
const GRACE: Duration = Duration::from_secs(20);

/// File names and commands of tools that observe for `n` seconds.
const TOOLS: [(&str, &str); 5] = [
    ("vmstat", "vmstat 1 {n}"),
    ("iostat", "iostat -x 1 {n}"),
    ("mpstat", "mpstat -P ALL 1 {n}"),
    ("pidstat", "pidstat 1 {n}"),
    ("sar", "sar -u -q ALL -B -n DEV -n TCP,ETCP 1 {n}"),
];
/// Tools that print counts since boot: run twice, each time after `date`.
const COUNTS: [(&str, &str); 2] = [("ss", "ss -tinmp"), ("netstat", "netstat -s")];

/// Returns whyslow's answer to the captures, and the mistakes in it.
pub fn judged(observer: &Observer, bed: &Testbed, trial: &Trial, expect: &Expect) -> Result<(Diagnosis, Vec<String>)> {
    let files = take(observer.seconds, bed)?;
    let answer = read(observer, bed, &files)?;
    let wrong = judge::mismatches_of_less(&answer, trial, expect);
    let wrong = wrong.into_iter().map(|why| format!("the captures: {why}")).collect();
    Ok((answer, wrong))
}

/// Runs the tools side by side, the network tools also in each of the lab's namespaces.
fn take(seconds: u64, bed: &Testbed) -> Result<Vec<PathBuf>> {
    let mut running = Vec::new();
    let mut start_tool = |name: String, script: &str, namespace: Option<&str>| -> Result<()> {
        let file = bed.path(&format!("{name}.txt"));
        running.push((file.clone(), tool(&file, script, namespace)?));
        Ok(())
    };
    for (name, call) in TOOLS {
        start_tool(name.into(), &call.replace("{n}", &seconds.to_string()), None)?;
    }
    let mut namespaces = entries("/run/netns");
    namespaces.sort();
    for (name, call) in COUNTS {
        let script = format!("date; {call}; sleep {seconds}; date; {call}");
        start_tool(name.into(), &script, None)?;
        for namespace in &namespaces {
            start_tool(format!("{name}-{namespace}"), &script, Some(namespace))?;
        }
    }
    for (file, child) in &mut running {
        let status = interrupt::wait_for(Duration::from_secs(seconds) + GRACE, || Ok(child.0.try_wait()?))?;
        match status.map(|status| status.code()) {
            Some(Some(0)) => {}
            Some(Some(127)) => {
                return Err(Error::Missing(format!(
                    "the tool behind {} (packages: see lab/README.md)",
                    file.display()
                )));
            }
            _ => return Err(Error::failed(format!("{}: the tool failed or hung", file.display()))),
        }
    }
    Ok(running.into_iter().map(|(file, _)| file).collect())
}

fn tool(file: &Path, script: &str, namespace: Option<&str>) -> Result<ChildGuard> {
    let mut command = Command::new(if namespace.is_some() { "ip" } else { "sh" });
    if let Some(namespace) = namespace {
        command.args(["netns", "exec", namespace, "sh"]);
    }
    command.args(["-c", script]).env("LC_ALL", "C");
    command.stdin(Stdio::null()).stdout(File::create(file)?).stderr(Stdio::null());
    kill_with_parent(&mut command);
    Ok(ChildGuard(command.spawn().context(script)?))
}

fn read(observer: &Observer, bed: &Testbed, files: &[PathBuf]) -> Result<Diagnosis> {
    let files = files.iter().map(|file| file.to_string_lossy());
    let args: Vec<_> = ["read".into(), "--json".into()].into_iter().chain(files).collect();
    let args: Vec<&str> = args.iter().map(|arg| &**arg).collect();
    serde_json::from_slice(&observer.run(bed, &args, None, GRACE)?).context("the output of whyslow read")
}
