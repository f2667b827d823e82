//! Recordings and the events in them.

use super::finding::culprits;
use super::screen::{self, Answer};
use super::{TextStyle, words};
use crate::canvas::{Canvas, Ink, Piece, bold, dim, plain};
use crate::clock::ZonedClock;
use crate::human;
use whyslow_documents::diagnosis::{Basis, Finding};
use whyslow_documents::explanation::{ChangeEvent, Episode, Explanation, Recorded, Shipped};

/// Number of episodes listed in the summary.
const LINES: usize = 3;
/// Maximum number of changes of the machine that are listed: an upgrade causes thousands.
const MOST_CHANGES: usize = 50;

/// Reports in one sentence what was recorded.
pub fn recorded(recorded: &Recorded, style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    let missed = match recorded.missed {
        0 => "none missed".to_owned(),
        missed => format!("{missed} missed"),
    };
    let lost = match recorded.lost {
        0 => String::new(),
        lost => format!("; {lost} recorded before were damaged on disk and are lost"),
    };
    let samples = format!("recorded {} samples ({missed}{lost}) into ", recorded.samples);
    canvas.paragraph(0, 2, &[plain(samples), bold(&recorded.folder)]);
    let text = canvas.finish();
    recorded.shipped.as_ref().map_or_else(|| text.clone(), |more| text.clone() + &shipped(more, style))
}

/// Reports in one sentence what was shipped.
pub fn shipped(shipped: &Shipped, style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    let hours = if shipped.hours == 1 { "1 hour".to_owned() } else { format!("{} hours", shipped.hours) };
    let size = human::bytes(shipped.bytes);
    let left = match shipped.left {
        0 => String::new(),
        left => format!("; {left} hours are left"),
    };
    let lost = match shipped.lost.len() {
        0 => String::new(),
        lost => format!("; {lost} hours expired before they were delivered"),
    };
    let delivered = format!("delivered {hours} ({} files, {size}{left}{lost}) as ", shipped.files);
    canvas.paragraph(0, 2, &[plain(delivered), bold(&shipped.host), plain(" to "), bold(&shipped.store)]);
    canvas.finish()
}

/// Formats the events of a recording: a line per episode, and an explanation of the worst one, or of each with `all`.
pub fn explanation(explanation: &Explanation, style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    let clock = ZonedClock::new(style.utc);
    let missed = match explanation.missed {
        0 => String::new(),
        missed => format!(", {missed} missed"),
    };
    let span = clock.span(&explanation.start, &explanation.end, true);
    let samples = format!(" · {span} ({} samples{missed})", explanation.samples);
    let folders: Vec<&str> =
        [&explanation.recording].into_iter().chain(&explanation.beside).map(String::as_str).collect();
    canvas.paragraph(0, 2, &[bold(folders.join(", ")), plain(samples)]);
    canvas.blank();
    if style.all {
        for episode in &explanation.episodes {
            draw_episode(&mut canvas, episode, &clock);
            canvas.blank();
        }
        if !explanation.events.is_empty() {
            canvas.paragraph(0, 2, &[bold("Events of the recording itself")]);
            explanation.events.iter().for_each(|event| draw_event(&mut canvas, &event.at, &event.what, &clock));
            canvas.blank();
        }
        draw_changes(&mut canvas, &explanation.changes, &clock);
    }
    let Some((worst, finding)) = explanation.worst() else {
        canvas.paragraph(0, 2, &[Piece::new(Ink::Green, "Healthy"), plain(": nothing kept tasks waiting for long.")]);
        return canvas.finish();
    };
    if explanation.episodes.len() > 1 {
        if !style.all {
            timeline(&mut canvas, &explanation.episodes, &clock);
        }
        canvas.paragraph(0, 2, &[dim(format!("The worst, from {} on:", clock.time(&worst.start)))]);
    }
    if let Some(effect) = worst.finding().filter(|own| own.key() != finding.key()) {
        canvas.paragraph(0, 2, &[plain(format!("{} This is why:", on_machine(effect)))]);
    }
    Answer { diagnosis: &worst.diagnosis, style, cut: 1, is_whole: false }.draw(&mut canvas, finding);
    canvas.finish()
}

/// Draws a line for each of the costliest episodes, in order of time; counts the others.
fn timeline(canvas: &mut Canvas, episodes: &[Episode], clock: &ZonedClock) {
    let mut shown: Vec<usize> = (0..episodes.len()).collect();
    shown.sort_by(|&a, &b| episodes[b].lost_seconds().total_cmp(&episodes[a].lost_seconds()));
    shown.truncate(LINES);
    shown.sort_unstable();
    let shown: Vec<(&Episode, &Finding)> =
        shown.into_iter().filter_map(|at| Some((&episodes[at], episodes[at].finding()?))).collect();
    let widest = shown.iter().map(|(episode, _)| duration(episode).chars().count()).max().unwrap_or(0);
    for (episode, finding) in shown {
        let when = dim(format!("{}  {:>widest$}  ", clock.time(&episode.start), duration(episode)));
        let columns = canvas.width() - when.width();
        let text = on_machine(finding);
        canvas.at_most(1, 0, 2, &[when, plain(screen::clause(&text, columns))]);
    }
    if episodes.len() > LINES {
        canvas.paragraph(0, 2, &[dim(format!("and {} more (add -v)", episodes.len() - LINES))]);
    }
    canvas.blank();
}

/// Returns a finding in one sentence, with the machine's name if there are several.
fn on_machine(finding: &Finding) -> String {
    let sentence = screen::first_sentence(&finding.summary);
    match &finding.subject.capture {
        Some(machine) => format!("{machine}: {sentence}"),
        None => sentence.to_owned(),
    }
}

/// Returns a finding's headline, with the machine's name if there are several.
fn titled(finding: &Finding) -> String {
    match &finding.subject.capture {
        Some(machine) if finding.subject.kind == "host" => format!("{machine}: {}", words::headline(finding)),
        _ => words::headline(finding),
    }
}

fn duration(episode: &Episode) -> String {
    human::seconds(episode.seconds.round().max(1.0))
}

fn draw_episode(canvas: &mut Canvas, episode: &Episode, clock: &ZonedClock) {
    let findings = &episode.diagnosis.findings;
    let Some(finding) = episode.finding() else { return };
    let when = format!("{}  ", clock.date_and_time(&episode.start));
    let how_long = format!(" for {}", duration(episode));
    let lost = match finding.impact_is {
        _ if finding.how_bad.is_some() => format!(", at worst: {}", words::time_lost(finding)),
        Basis::NotMeasured => format!(", {}", words::time_lost(finding)),
        _ => format!(
            ", {} {} of the time, {} at worst",
            words::waited(finding),
            human::share(episode.mean_impact),
            human::share(episode.impact)
        ),
    };
    canvas.paragraph(0, 2, &[dim(when), bold(titled(finding)), plain(how_long), plain(lost)]);
    canvas.paragraph(2, 4, &[plain(&finding.summary)]);
    culprits(canvas, &finding.culprits, 2);
    if let Some(cause) = episode.cause().filter(|cause| cause.key() != episode.key) {
        canvas.paragraph(2, 4, &[plain("caused by "), plain(titled(cause)), plain(": "), plain(&cause.summary)]);
    }
    for effect in findings.iter().filter(|effect| effect.explained_by.as_ref() == Some(&episode.key)) {
        canvas.paragraph(2, 4, &[plain("causes "), plain(titled(effect)), plain(": "), plain(&effect.summary)]);
    }
    if !episode.overlaps.is_empty() {
        canvas.paragraph(2, 4, &[dim(format!("at the same time: {}", episode.overlaps.join(", ")))]);
    }
    if !episode.before.is_empty() {
        canvas.paragraph(2, 4, &[plain("just before:")]);
        episode.before.iter().for_each(|event| draw_event(canvas, &event.at, &event.what, clock));
    }
}

fn draw_event(canvas: &mut Canvas, at: &str, what: &str, clock: &ZonedClock) {
    canvas.paragraph(4, 6, &[dim(format!("{}  ", clock.date_and_time(at))), plain(what)]);
}

fn draw_changes(canvas: &mut Canvas, changes: &[ChangeEvent], clock: &ZonedClock) {
    if changes.is_empty() {
        return;
    }
    canvas.paragraph(0, 2, &[bold("Changes of the machine")]);
    changes.iter().take(MOST_CHANGES).for_each(|change| draw_event(canvas, &change.at, &change.what, clock));
    if changes.len() > MOST_CHANGES {
        canvas.paragraph(4, 6, &[dim(format!("and {} more (--json lists them)", changes.len() - MOST_CHANGES))]);
    }
    canvas.blank();
}
