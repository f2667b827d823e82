//! What there is to say of a recording.

use super::{TextStyle, words};
use crate::canvas::{Canvas, Ink, Piece, bold, dim, plain};
use crate::human;
use whyslow_model::diagnosis::Basis;
use whyslow_model::explanation::{Episode, Event, Explanation};
use whyslow_model::recording::Recorded;

/// What was recorded, in one sentence.
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
    canvas.finish()
}

/// What happened over a recording: a timeline.
pub fn explanation(explanation: &Explanation, style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    let missed = match explanation.missed {
        0 => String::new(),
        missed => format!(", {missed} missed"),
    };
    let span = format!(": {} to {}, {} samples{missed}", explanation.start, explanation.end, explanation.samples);
    canvas.paragraph(0, 2, &[bold(&explanation.recording), plain(span)]);
    canvas.blank();
    match explanation.episodes.len() {
        0 => canvas.paragraph(0, 2, &[Piece::new(Ink::Green, "Nothing"), plain(" kept anybody waiting for long.")]),
        1 => canvas.paragraph(0, 2, &[Piece::new(Ink::Red, "One cause"), plain(" of time lost.")]),
        n => canvas.paragraph(0, 2, &[Piece::new(Ink::Red, format!("{n} causes")), plain(" of time lost.")]),
    }
    for episode in &explanation.episodes {
        canvas.blank();
        draw_episode(&mut canvas, episode, style.all);
    }
    if !explanation.events.is_empty() {
        canvas.blank();
        canvas.paragraph(0, 2, &[bold("The recording itself")]);
        explanation.events.iter().for_each(|event| draw_event(&mut canvas, event));
    }
    canvas.finish()
}

fn draw_episode(canvas: &mut Canvas, episode: &Episode, all: bool) {
    let findings = &episode.diagnosis.findings;
    let Some(finding) = findings.iter().find(|finding| finding.key() == episode.key) else { return };
    let when = format!("{}  ", episode.start);
    let how_long = format!(" for {}", human::seconds((episode.seconds * 10.0).round() / 10.0));
    let lost = match finding.impact_is {
        Basis::NotMeasured => format!(", {}", words::time_lost(finding)),
        _ => format!(
            ", {} of the time lost, {} where it was worst",
            human::share(episode.mean_impact),
            human::share(episode.impact)
        ),
    };
    canvas.paragraph(0, 2, &[dim(when), bold(words::headline(finding)), plain(how_long), plain(lost)]);
    canvas.paragraph(2, 4, &[plain(&finding.summary)]);
    for culprit in finding.culprits.iter().take(if all { usize::MAX } else { 2 }) {
        let pid = culprit.pid.map_or_else(String::new, |pid| format!(" [{pid}]"));
        let who =
            format!("by {} {}{pid}: {} of {}", culprit.kind, culprit.name, human::share(culprit.share), culprit.of);
        canvas.paragraph(2, 4, &[plain(who)]);
    }
    for effect in findings.iter().filter(|effect| effect.explained_by.as_ref() == Some(&episode.key)) {
        canvas.paragraph(
            2,
            4,
            &[plain("causes "), plain(words::headline(effect)), plain(": "), plain(&effect.summary)],
        );
    }
    if !episode.overlaps.is_empty() {
        canvas.paragraph(2, 4, &[dim(format!("at the same time: {}", episode.overlaps.join(", ")))]);
    }
    if !episode.before.is_empty() {
        canvas.paragraph(2, 4, &[plain("just before:")]);
        episode.before.iter().for_each(|event| draw_event(canvas, event));
    }
}

fn draw_event(canvas: &mut Canvas, event: &Event) {
    canvas.paragraph(4, 6, &[dim(format!("{}  ", event.at)), plain(&event.what)]);
}
