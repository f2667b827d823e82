//! `whyslow explain`: explains what happened during a recording, or during those of related machines.

mod before;
mod edge;
mod machines;
mod tuned;
mod windows;

pub use machines::{RecordedMachine, explain_together};
pub use windows::{episodes, in_parallel, window};

use crate::options::OutputOptions;
use crate::output::{Failure, ProgressLine, tell};
use crate::pseudonymise::PseudonymOptions;
use crate::recordings::{self, RecordingPeriod, to_the_millisecond};
use clap::Args;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitCode;
use whyslow_diagnose::{FeltCause, FoundEpisode, RuleBook};
use whyslow_documents::diagnosis::{Diagnosis, Subject};
use whyslow_documents::explanation::{ChangeEvent, Episode, Explanation, LISTED, TimelineEvent, WITH_EVIDENCE};
use whyslow_model::catalogue::{Family, Sample};
use whyslow_model::inventory::MachineChange;
use whyslow_show::text;
use whyslow_store::{Recording, StoreError, TimeRange};

/// Which part of which recording to explain.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Folder of the recording, the same as --dir; of several machines, such as a guest and its host, the folder of each
    #[arg(value_name = "RECORDING", conflicts_with = "dir")]
    recordings: Vec<PathBuf>,
    #[command(flatten)]
    part: RecordingPeriod,
    /// Five minutes on either side of this time: 03:12, '2026-11-21 03:12'
    #[arg(long, value_name = "WHEN", conflicts_with_all = ["since", "from", "to"])]
    at: Option<String>,
    #[command(flatten)]
    pseudonyms: PseudonymOptions,
}

/// Reads the recordings and explains what happened.
pub fn run(args: &ExplainArgs, look: &OutputOptions) -> Result<ExitCode, Failure> {
    crate::keep_freed_memory();
    let names = args.pseudonyms.begin()?;
    let machines = RecordedMachine::open_all(&args.recordings, &args.part, args.at.as_deref(), &names)?;
    let explanation = explain_together(&machines, Extent::Everything).map_err(|e| Failure::usage(e.to_string()))?;
    if explanation.samples == 0 {
        return Err(recordings::recorded_then("nothing", &machines[0].recording));
    }
    names.finish()?;
    tell(&explanation, look, text::explanation)?;
    Ok(ExitCode::SUCCESS)
}

/// Level of detail about episodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All details of all episodes.
    Everything,
    /// Details for a page: only the cause for most episodes, nothing for the least important.
    Page,
}

/// Explains what happened to a machine according to these rules, as far as its recording and those of the others show.
///
/// # Errors
/// Fails if a file cannot be read.
pub fn explain_by(
    machine: &RecordedMachine,
    others: &[&RecordedMachine],
    extent: Extent,
    book: &RuleBook,
    progress: &ProgressLine,
) -> Result<Explanation, StoreError> {
    let RecordedMachine { recording, span, .. } = machine;
    let all = windows::episodes(recording, span, book, progress)?;
    let is_whole = extent == Extent::Everything;
    let listed: Vec<(usize, &FoundEpisode)> =
        ranks(&all).into_iter().zip(&all).filter(|(rank, _)| is_whole || *rank < LISTED).collect();
    let left_out = all.len() - listed.len();
    let mut explanation = Explanation { left_out, ..Explanation::for_recording(machine.folder.clone()) };
    befell(recording, span, &mut explanation)?;
    let with_before = span.start().saturating_sub(before::HOUR_NS)..=*span.end();
    let mut changes = recording.changes(&with_before)?;
    changes.extend(tuned::changes(recording, &with_before));
    changes.sort();
    let diagnoses = diagnoses(machine, others, &listed, book)?;
    let explainer = Explainer { machine, book, all: &all, changes: &changes };
    let episodes = in_parallel(&listed, |(rank, episode)| {
        let diagnosis = diagnoses[&episode.worst_span].clone();
        explainer.episode(episode, diagnosis, is_whole || *rank < WITH_EVIDENCE)
    });
    explanation.episodes = episodes.into_iter().collect::<Result<_, _>>()?;
    explanation.changes = changes.iter().filter(|change| span.contains(&change.at)).map(change_event).collect();
    Ok(if is_whole { explanation } else { explanation.excerpt() })
}

/// Ranks each episode by its lost time.
fn ranks(all: &[FoundEpisode]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by(|&a, &b| all[b].lost_seconds().total_cmp(&all[a].lost_seconds()));
    let mut ranks = vec![0; all.len()];
    order.into_iter().enumerate().for_each(|(rank, at)| ranks[at] = rank);
    ranks
}

/// Diagnoses the windows in which episodes were worst; several episodes may share one.
fn diagnoses(
    machine: &RecordedMachine,
    others: &[&RecordedMachine],
    episodes: &[(usize, &FoundEpisode)],
    book: &RuleBook,
) -> Result<BTreeMap<(i64, i64), Diagnosis>, StoreError> {
    let spans: BTreeSet<(i64, i64)> = episodes.iter().map(|(_, episode)| episode.worst_span).collect();
    let spans: Vec<(i64, i64)> = spans.into_iter().collect();
    let diagnoses = in_parallel(&spans, |span| Ok((*span, machine.diagnosis(others, *span, book)?)));
    diagnoses.into_iter().collect()
}

fn change_event(change: &MachineChange) -> ChangeEvent {
    ChangeEvent {
        at: to_the_millisecond(change.at),
        kind: change.kind.to_string(),
        name: change.name.to_string(),
        old: change.old.as_ref().map(ToString::to_string),
        new: change.new.as_ref().map(ToString::to_string),
        what: change.in_words(),
    }
}

/// Adds what the recording reports about itself.
fn befell(recording: &Recording, span: &TimeRange, explanation: &mut Explanation) -> Result<(), StoreError> {
    let losses = recording.losses().iter().filter(|loss| span.contains(&loss.at));
    let lost: Vec<TimelineEvent> =
        losses.map(|loss| TimelineEvent { at: to_the_millisecond(loss.at), what: loss.what.clone() }).collect();
    recording.each_sample(span, &|family: &str| family == Sample::INFO.name, |sample| {
        let Some(row) = sample.the::<Sample>() else { return true };
        let at = to_the_millisecond(sample.wall_ns);
        if explanation.samples == 0 {
            explanation.start.clone_from(&at);
        }
        explanation.end.clone_from(&at);
        explanation.samples += 1;
        explanation.missed += row.missed.get().unwrap_or(0.0) as u64;
        explanation.events.extend(row.event.get().map(|what| TimelineEvent { at, what: what.to_owned() }));
        true
    })?;
    explanation.events.extend(lost);
    Ok(())
}

/// Collects the details of episodes.
struct Explainer<'e> {
    machine: &'e RecordedMachine,
    book: &'e RuleBook,
    all: &'e [FoundEpisode],
    changes: &'e [MachineChange],
}

impl Explainer<'_> {
    /// Returns an episode with its diagnosis at its worst. With `detail`, adds its exact start and end and the
    /// preceding changes.
    fn episode(&self, found: &FoundEpisode, diagnosis: Diagnosis, detail: bool) -> Result<Episode, StoreError> {
        let Self { machine: RecordedMachine { recording, name, .. }, book, all, changes } = self;
        let (start, end) = if detail { edge::refined(recording, found, all, book)? } else { found.span };
        // With several machines, a subject includes its machine.
        let is_labelled = diagnosis.findings.iter().any(|finding| finding.subject.capture.as_ref() == Some(name));
        let key_of = |cause: &FeltCause| {
            let capture = is_labelled.then(|| name.clone());
            Subject { capture, ..cause.subject.clone() }.key_of(&cause.id)
        };
        let key = key_of(&found.worst);
        let others = all.iter().filter(|other| other.span.0 < found.span.1 && found.span.0 < other.span.1);
        let overlaps = others.map(|other| key_of(&other.worst)).filter(|other| *other != key);
        let before = if detail { before::changes(recording, start, &diagnosis, &key, changes)? } else { Vec::new() };
        Ok(Episode {
            start: to_the_millisecond(start),
            end: to_the_millisecond(end),
            seconds: (end - start) as f64 / 1e9,
            impact: found.worst.impact,
            mean_impact: found.mean_impact,
            overlaps: overlaps.collect(),
            before,
            key,
            diagnosis,
            is_excerpt: false,
        })
    }
}
