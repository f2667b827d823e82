//! `whyslow profile`: shows where the time of a process, or of the machine, goes.

use crate::atomic_file::{AtomicFile, unwritable};
use crate::interrupt::Interrupt;
use crate::observe::diagnosed;
use crate::options::{Observe, OutputOptions, duration};
use crate::output::{self, Failure, ProgressLine, print};
use clap::{Args, ValueEnum};
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use whyslow_command::ColorChoice;
use whyslow_documents::diagnosis::{Diagnosis, Finding};
use whyslow_documents::profile::{ProfileKind, StackProfile};
use whyslow_sense::profile::{ProfileOptions, Profiler};
use whyslow_sense::{Root, SourceError};
use whyslow_show::text::TextStyle;
use whyslow_show::{flame, json, text};

/// What to profile, for how long, and what to make of it.
#[derive(Debug, Args)]
pub struct ProfileArgs {
    /// How long to profile; --culprit first takes as long again for the diagnosis
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = duration)]
    time: Duration,
    /// Profile this process only
    #[arg(long, conflicts_with = "culprit", value_parser = process_id)]
    pid: Option<u32>,
    /// Diagnose first, then profile the main culprit
    #[arg(long)]
    culprit: bool,
    /// Profile waiting (off-CPU time) instead of running
    #[arg(long)]
    off_cpu: bool,
    /// Sampling frequency per CPU
    #[arg(long, default_value = "99", conflicts_with = "off_cpu", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    hz: u32,
    /// Only kernel stacks
    #[arg(long, conflicts_with = "user_only")]
    kernel_only: bool,
    /// Only user stacks
    #[arg(long)]
    user_only: bool,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Output format [default: by the extension of FILE, otherwise text]
    #[arg(long, conflicts_with = "json")]
    format: Option<ProfileFormat>,
}

fn process_id(text: &str) -> Result<u32, String> {
    text.parse().ok().filter(|pid| *pid > 0).ok_or_else(|| "not a process ID".into())
}

/// What to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ProfileFormat {
    // No doc comments here: clap would show each as a paragraph of the help.
    Text,
    Folded,
    Svg,
    Json,
}

/// Profiles and writes the result.
///
/// # Errors
/// Fails on wrong usage, if there is no culprit, if this user or kernel does not allow profiling, or if the file cannot
/// be written.
pub fn run(args: &ProfileArgs, look: &OutputOptions) -> Result<ExitCode, Failure> {
    args.check()?;
    let format = args.format(look)?;
    let file = args.output.as_deref().map(create).transpose()?;
    let blamed = if args.culprit { Some(blame(args.time)?) } else { None };
    let mut profile = record(args, blamed.as_ref().map(|blamed| blamed.pid))?;
    profile.finding = blamed.map(|blamed| blamed.finding);
    let style = output::style(look);
    match (file, &args.output) {
        (Some(file), Some(path)) => {
            let style = TextStyle { colour: look.display.color == ColorChoice::Always, ..style };
            write(file, &draw(&profile, format, &style)).map_err(|e| unwritable(path, &e))?;
        }
        _ => print(draw(&profile, format, &style))?,
    }
    Ok(ExitCode::SUCCESS)
}

impl ProfileArgs {
    fn check(&self) -> Result<(), Failure> {
        // A diagnosis needs two samples, at most ten per second.
        let least = Duration::from_millis(if self.culprit { 200 } else { 100 });
        if self.time < least {
            return Err(Failure::usage(format!("--for must be at least {}ms", least.as_millis())));
        }
        Ok(())
    }

    fn format(&self, look: &OutputOptions) -> Result<ProfileFormat, Failure> {
        const ENDINGS: &[(&str, ProfileFormat)] = &[
            ("svg", ProfileFormat::Svg),
            ("json", ProfileFormat::Json),
            ("folded", ProfileFormat::Folded),
            ("txt", ProfileFormat::Text),
        ];
        let format = match (self.format, &self.output) {
            _ if look.display.json => ProfileFormat::Json,
            (Some(format), _) => format,
            (None, None) => ProfileFormat::Text,
            (None, Some(path)) => output::by_ending(path, ENDINGS, ProfileFormat::Text)?,
        };
        if format == ProfileFormat::Svg && self.output.is_none() && io::stdout().is_terminal() {
            return Err(Failure::usage(
                "a flame graph cannot be shown on a terminal: specify a file, such as -o flame.svg",
            ));
        }
        Ok(format)
    }

    fn options(&self, pid: Option<u32>) -> ProfileOptions {
        ProfileOptions {
            kind: if self.off_cpu { ProfileKind::OffCpu } else { ProfileKind::OnCpu },
            hz: self.hz,
            pid,
            kernel: !self.user_only,
            user: !self.kernel_only,
        }
    }
}

/// Begins the output file before profiling, so that an unusable name is reported at once.
fn create(path: &Path) -> Result<(AtomicFile, File), Failure> {
    AtomicFile::begin(path).map_err(|e| unwritable(path, &e))
}

fn write((draft, mut file): (AtomicFile, File), text: &str) -> io::Result<()> {
    file.write_all(text.as_bytes())?;
    draft.finish()
}

/// A process, with the key of the finding that blames it.
struct Blamed {
    pid: u32,
    finding: String,
}

/// Diagnoses, and returns the process that the first finding blames.
fn blame(time: Duration) -> Result<Blamed, Failure> {
    let interval = (time / 2).min(Duration::from_secs(1));
    let asked = Observe { time, interval, no_bpf: false, check: false, nagios: false };
    asked.check().map_err(Failure::usage)?;
    blamed(&diagnosed(&asked)?).map_err(Failure::nothing)
}

fn blamed(diagnosis: &Diagnosis) -> Result<Blamed, String> {
    let finding = diagnosis
        .findings
        .first()
        .ok_or("no bottleneck was found, so there is no culprit; choose a process with --pid")?;
    let pid = process(finding).ok_or_else(|| {
        format!(
            "{} has no culprit that can be profiled; choose a process with --pid, or profile the whole machine",
            finding.key()
        )
    })?;
    Ok(Blamed { pid, finding: finding.key() })
}

/// Returns the largest culprit that is a process, or else the process that the finding is about.
fn process(finding: &Finding) -> Option<u32> {
    finding.culprits.iter().find_map(|culprit| culprit.pid).or(finding.subject.pid)
}

/// Records for the requested time, until Ctrl-C, or until the process has ended.
fn record(args: &ProfileArgs, blamed: Option<u32>) -> Result<StackProfile, Failure> {
    let mut interrupt = Interrupt::listen()?;
    let progress = ProgressLine::new("profiling", "show what there is");
    let mut profiler = Profiler::start(args.options(blamed.or(args.pid)), Root::live()).map_err(cannot)?;
    let end = Instant::now() + args.time;
    while profiler.poll().map_err(cannot)? && Instant::now() < end {
        let now = Instant::now();
        progress.show(end.saturating_duration_since(now));
        if interrupt.ends_sleep_until(end.min(now + Profiler::PACE)) {
            break;
        }
    }
    progress.say("reading symbols");
    profiler.finish().map_err(cannot)
}

fn cannot(error: SourceError) -> Failure {
    output::unreadable("profile", error)
}

fn draw(profile: &StackProfile, format: ProfileFormat, style: &TextStyle) -> String {
    match format {
        ProfileFormat::Text => text::profile(profile, style),
        ProfileFormat::Folded => flame::folded(profile),
        ProfileFormat::Svg => flame::svg(profile),
        ProfileFormat::Json => json::pretty(profile),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_documents::diagnosis::{Confidence, Culprit, Origin, Subject, TimeSpan, Verdict};

    fn finding(id: &str, subject: Subject, culprits: &[Option<u32>]) -> Finding {
        let culprit = |pid: &Option<u32>| Culprit {
            kind: "process".into(),
            name: "toy".into(),
            pid: *pid,
            share: 0.5,
            of: "it".into(),
            ..Culprit::default()
        };
        Finding {
            id: id.into(),
            subject,
            culprits: culprits.iter().map(culprit).collect(),
            impact: 0.5,
            confidence: Confidence::High,
            ..Finding::default()
        }
    }

    fn diagnosis(findings: Vec<Finding>) -> Diagnosis {
        Diagnosis { findings, ..Diagnosis::new(Verdict::Bottleneck, TimeSpan::new(Origin::Live, 1.0, 2)) }
    }

    #[test]
    fn the_first_finding_says_whom_to_profile() {
        let disk = finding("disk.saturated", Subject::new("device", "sda"), &[None, Some(7), Some(8)]);
        let thread = finding("cpu.single_thread", Subject { pid: Some(9), ..Subject::new("thread", "toy") }, &[]);
        let whom = |findings: &[&Finding]| {
            let blamed = blamed(&diagnosis(findings.iter().map(|&f| f.clone()).collect()));
            blamed.map(|blamed| (blamed.pid, blamed.finding))
        };
        assert_eq!(whom(&[&disk, &thread]), Ok((7, "disk.saturated@sda".into())));
        assert_eq!(whom(&[&thread, &disk]), Ok((9, thread.key())));
    }

    #[test]
    fn nobody_to_blame_is_said() {
        let full = finding("fs.full", Subject::new("mount", "/"), &[]);
        let said = |findings| blamed(&diagnosis(findings)).err().unwrap_or_default();
        assert!(said(vec![full]).starts_with("fs.full@/ has no culprit"));
        assert!(said(Vec::new()).starts_with("no bottleneck was found"));
    }
}
