//! The first screen: ten lines that can be read in twenty seconds, the answer last, where the eye lands.

use super::{TextStyle, finding, interference, virtual_disks, words};
use crate::canvas::{Canvas, Ink, Piece, bold, dim, plain};
use crate::clock::ZonedClock;
use crate::human;
use std::collections::BTreeSet;
use whyslow_documents::diagnosis::{
    Action, ActionKind, Basis, BlindSpot, CaptureComparison, Confidence, Deviation, Diagnosis, Evidence, Finding, Host,
    KernelAverage, NOT_CAPTURED, Origin, Since, SubjectFigures, TimeSpan, Verdict,
};

/// Lines of the first screen. It exceeds them only for content that would be useless if truncated: the recommended action, the
/// result of a comparison, and the next capture.
const LINES: usize = 10;
/// Maximum number of lines of a comparison of captures: more than its conclusions need, unless a text has many runs.
const COMPARISON_LINES: usize = 8;
/// Minimum number of lines for what stands out, blind spots and resources without problems, however long the answer is.
const FEWEST_RESOURCES: usize = 4;
/// Minimum number of lines of the answer, whatever is above it.
const FEWEST_LINES: usize = 5;
/// The highest level of shortening an answer.
const SHORTEST: usize = 3;
/// Labels of another cause: a likely one, and a suspicion.
const ALSO: &str = "Also: ";
const WEAK: &str = "Less certain: ";
/// Lines for a blind spot with its reason, and the columns in them for the label and the names.
const REASON_LINES: usize = 2;
const LABEL_AND_NAMES: usize = 30;
/// Minimum length that names are cut to, plus 4.
const SHORTEST_NAME: usize = 8;
const FIND_OUT: &str = "To find out more: ";
/// Start of the remedy for a missing capture.
const CAPTURE: &str = "add the output of: ";
/// First words of ids, and the blind spot if a capture of that resource is missing.
const MISSING: [(&str, &str); 5] =
    [("cpu", "the CPUs"), ("mem", "memory"), ("net", "the network"), ("disk", DEVICES), ("fs", DEVICES)];
const DEVICES: &str = "the block devices";
/// Start of the remedy if privilege is missing, and the command that it stands for.
const AS_ROOT: &str = "run as root";
const RUN_AS_ROOT: &str = "sudo whyslow";
/// Maximum number of disks that a sentence names.
const MOST_NAMED: usize = 3;
/// Maximum number of numbers that stand out on the first screen.
const MOST_STANDING_OUT: usize = 3;

pub(super) fn draw(canvas: &mut Canvas, d: &Diagnosis, style: &TextStyle) {
    header(canvas, &d.host, &d.window, style);
    let before = canvas.lines();
    comparisons(canvas, &d.comparisons, d.window.source);
    interference::worst(canvas, &d.interference);
    virtual_disks::worst(canvas, &d.virtual_disks);
    // A comparison is an answer, too, and is not cut off.
    let room = (LINES - 1).saturating_sub(canvas.lines() - before).max(FEWEST_LINES);
    match d.verdict {
        Verdict::Bottleneck => bottleneck(canvas, d, style, room),
        Verdict::Healthy => healthy(canvas, d, room),
        Verdict::Undetermined => undetermined(canvas, d, room),
    }
}

/// Draws the result of the first experiment, and the number of others.
fn comparisons(canvas: &mut Canvas, all: &[CaptureComparison], source: Origin) {
    let Some(first) = all.first() else { return };
    let more = match all.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more; {})", hint(source)),
    };
    let names = if all.len() > 1 { words::compared(first) } else { String::new() };
    let conclusions = first.conclusions.join(" ");
    canvas.at_most(COMPARISON_LINES, 0, 2, &[bold("Compared: "), dim(names), plain(conclusions), dim(more)]);
}

/// Draws only the answer, below the details.
pub(super) fn answer(canvas: &mut Canvas, d: &Diagnosis, style: &TextStyle) {
    match (d.verdict, d.findings.first()) {
        (Verdict::Bottleneck, Some(first)) => {
            let (certain, weak) = others(d);
            also(canvas, ALSO, &certain, certain.len(), d.window.source);
            if !certain.is_empty() {
                canvas.blank();
            }
            Answer { diagnosis: d, style, cut: 0, is_whole: true }.draw(canvas, first);
            next_capture(canvas, d);
            also(canvas, WEAK, &weak, weak.len(), d.window.source);
        }
        (Verdict::Bottleneck, None) => {}
        (Verdict::Healthy, _) => is_healthy(canvas, d),
        (Verdict::Undetermined, _) => is_undetermined(canvas, d),
    }
}

/// Draws the answer in at most this many lines: the problem and the recommended action stay longest.
pub(super) fn brief(canvas: &mut Canvas, d: &Diagnosis, style: &TextStyle, lines: usize) {
    let (Verdict::Bottleneck, Some(first)) = (d.verdict, d.findings.first()) else {
        return answer(canvas, d, style);
    };
    let answer = Answer { diagnosis: d, style, cut: SHORTEST, is_whole: false };
    let part = |headline: usize, action: usize, others: bool| {
        let mut part = canvas.another();
        part.at_most(headline, 0, 2, &answer.headline(first, true));
        if others {
            answer.who(&mut part, first);
        }
        if let Some(recommended) = recommended(first).filter(|_| action > 0) {
            part.at_most(action, 0, 2, &[bold("Recommended action: "), plain(&recommended.text)]);
            if others {
                commands(&mut part, recommended);
            }
        }
        part
    };
    let levels = [(2, 2, true), (1, 1, true), (1, 2, false), (1, 1, false), (1, 0, false)];
    let parts = levels.into_iter().map(|(headline, action, others)| part(headline, action, others));
    if let Some(shown) = parts.reduce(|shown, next| if shown.lines() <= lines { shown } else { next }) {
        canvas.append(shown);
    }
}

fn is_healthy(canvas: &mut Canvas, d: &Diagnosis) {
    let not_captured = not_captured(d);
    let pieces = match d.window.source {
        Origin::Live | Origin::Recording => {
            [Piece::new(Ink::Green, "Healthy"), plain(": no resource is saturated or failing.")]
        }
        // 'Healthy' alone would be read as a verdict on the machine.
        Origin::Import if !not_captured.is_empty() => {
            [Piece::new(Ink::Green, format!("No problem in {}", covered(d))), plain(format!(".{not_captured}"))]
        }
        Origin::Import => [Piece::new(Ink::Green, "Healthy"), plain(format!(": no problem in {}.", covered(d)))],
    };
    canvas.at_most(2, 0, 2, &pieces);
    if !not_captured.is_empty() {
        what_to_capture(canvas, d, 1);
    }
}

/// Lists the resources without problems.
fn covered(d: &Diagnosis) -> String {
    listed(&ruled_out(d))
}

/// Joins names: 'a, b and c'.
fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [some @ .., last] => format!("{} and {last}", some.join(", ")),
    }
}

/// Returns the resources without problems; disks by name if they are few.
fn ruled_out(d: &Diagnosis) -> Vec<String> {
    let disks = d.figures.iter().filter(|f| f.subject.kind == "device").map(|f| &*f.subject.name);
    let disks: Vec<&str> = disks.collect::<BTreeSet<_>>().into_iter().collect();
    let lacks_devices = d.blind_spots.iter().any(|spot| spot.why == NOT_CAPTURED && spot.what == DEVICES);
    let healthy = |resource: &str| match resource {
        "cpu" => "the CPUs".to_owned(),
        "disk" if disks.len() == 1 => format!("disk {}", disks.join(", ")),
        "disk" if (1..=MOST_NAMED).contains(&disks.len()) => format!("disks {}", disks.join(", ")),
        // A count of blocked tasks clears disks that it does not list.
        "disk" if lacks_devices => "I/O waiting".to_owned(),
        "disk" => "the disks".to_owned(),
        "memory" => "memory".to_owned(),
        other => format!("the {other}"),
    };
    let resources = d.ruled_out.iter().map(|entry| &*entry.id).filter(|id| !id.contains('.'));
    // One capture can clear what another one shows as conspicuous.
    let is_cleared = |id: &&str| d.not_cleared.iter().all(|entry| entry.id != *id);
    resources.filter(is_cleared).map(healthy).collect::<BTreeSet<_>>().into_iter().collect()
}

fn not_captured(d: &Diagnosis) -> String {
    let missing = d.blind_spots.iter().filter(|spot| spot.why == NOT_CAPTURED).map(|spot| &*spot.what);
    let missing = missing.collect::<Vec<_>>().join(", ");
    if missing.is_empty() { String::new() } else { format!(" Unknown, because not captured: {missing}.") }
}

/// Whether captures show resources in which nothing was found, and no suspicion.
fn has_ruled_out_only(d: &Diagnosis) -> bool {
    d.window.source == Origin::Import && d.findings.is_empty() && !ruled_out(d).is_empty()
}

fn is_undetermined(canvas: &mut Canvas, d: &Diagnosis) {
    let text = match d.not_cleared.first() {
        Some(entry) if has_ruled_out_only(d) => {
            format!(": {}. No known problem in {}.{}", entry.because, covered(d), not_captured(d))
        }
        None if has_ruled_out_only(d) => format!(": no known problem in {}.{}", covered(d), not_captured(d)),
        Some(entry) if d.findings.is_empty() => format!(": no cause was found, but {}.", entry.because),
        Some(entry) => format!(": no cause is certain, but {}.", entry.because),
        None if d.findings.is_empty() && !d.stands_out.is_empty() => {
            ": no cause is known of what stands out.".to_owned()
        }
        None if d.findings.is_empty() && !d.main_figures.is_empty() => {
            ": nothing stands out in what was captured.".to_owned()
        }
        None if d.findings.is_empty() => ": too little was visible to say what is slow.".to_owned(),
        None => ": no cause is certain.".to_owned(),
    };
    canvas.at_most(3, 0, 2, &[Piece::new(Ink::Yellow, "Undetermined"), plain(text)]);
    if let Some(finding) = d.findings.first() {
        let more = match alike(d, finding) {
            0 | 1 => format!(" ({})", hint(d.window.source)),
            count => format!(" (and {} more like it; {})", count - 1, hint(d.window.source)),
        };
        canvas.at_most(2, 0, 2, &[dim("Possibly: "), plain(sentence(finding).trim_end_matches('.')), dim(more)]);
    }
    let privilege = d.blind_spots.iter().any(|spot| spot.remedy.starts_with(AS_ROOT));
    if privilege {
        canvas.at_most(1, 0, 2, &[bold(FIND_OUT), plain(RUN_AS_ROOT)]);
    } else if d.next_capture.is_some() {
        next_capture(canvas, d);
    } else {
        what_to_capture(canvas, d, REASON_LINES);
    }
}

/// Draws the capture that would decide between the remaining causes, and the meaning of each outcome.
fn next_capture(canvas: &mut Canvas, d: &Diagnosis) {
    let Some(next) = &d.next_capture else { return };
    canvas.paragraph(0, 2, &[bold(format!("To decide, {}:", on_host(next.host.as_deref())))]);
    canvas.command(4, &bold(&next.command));
    let mut pieces = Vec::new();
    for outcome in &next.outcomes {
        let start = if pieces.is_empty() { "If " } else { "; if " };
        pieces.extend([dim(start), plain(&outcome.condition), plain(": "), plain(&outcome.then)]);
    }
    pieces.extend([dim("; otherwise "), plain(&next.otherwise), plain(".")]);
    canvas.paragraph(2, 2, &pieces);
}

/// Draws the captures that would show the missing data, those of the suspected resource first, as many as fit.
fn what_to_capture(canvas: &mut Canvas, d: &Diagnosis, lines: usize) {
    let suspected = d.findings.first().and_then(|finding| finding.id.split('.').next()).unwrap_or_default();
    let missing = MISSING.iter().find(|(resource, _)| *resource == suspected).map(|(_, missing)| *missing);
    let mut spots: Vec<&BlindSpot> = d.blind_spots.iter().filter(|spot| !spot.remedy.is_empty()).collect();
    spots.sort_by_key(|spot| missing != Some(&*spot.what));
    let line = |commands: &[&str]| [bold(FIND_OUT), plain(format!("{CAPTURE}{}", commands.join("; ")))];
    let mut shown: Vec<&str> = Vec::new();
    for command in spots.iter().filter_map(|spot| spot.remedy.strip_prefix(CAPTURE)) {
        let mut part = canvas.another();
        part.paragraph(0, 2, &line(&[&shown[..], &[command]].concat()));
        if part.lines() <= lines && !shown.contains(&command) {
            shown.push(command);
        }
    }
    match spots.first() {
        _ if !shown.is_empty() => canvas.paragraph(0, 2, &line(&shown)),
        Some(spot) => canvas.at_most(1, 0, 2, &[bold(FIND_OUT), plain(&spot.remedy)]),
        None => {}
    }
}

/// Draws machine and time; leaves out what does not fit on the line, the least important first.
pub(super) fn header(canvas: &mut Canvas, host: &Host, window: &TimeSpan, style: &TextStyle) {
    let clock = ZonedClock::new(style.utc);
    let mut facts = vec![
        host.kernel.as_ref().map(|k| format!("Linux {k}")),
        host.virtualization.as_ref().filter(|v| *v != "none").cloned(),
        host.memory_bytes.map(human::bytes),
        host.cpus.map(|n| if n == 1 { "1 CPU".into() } else { format!("{n} CPUs") }),
    ];
    let time = watched(window, &clock);
    let nameless = if window.source == Origin::Import { "captured host" } else { "this machine" };
    let name = host.name.as_deref().unwrap_or(nameless);
    let line = |facts: &[Option<String>]| {
        let mut line = vec![bold(name)];
        for fact in facts.iter().rev().flatten().chain([&time]) {
            line.extend([dim(" · "), plain(fact)]);
        }
        line
    };
    while !facts.is_empty() && width(&line(&facts)) > canvas.width() {
        facts.remove(0);
    }
    canvas.at_most(1, 0, 2, &line(&facts));
}

fn watched(window: &TimeSpan, clock: &ZonedClock) -> String {
    let seconds = human::seconds(window.seconds.round().max(if window.seconds < 1.0 { window.seconds } else { 1.0 }));
    let how = match window.source {
        Origin::Live => format!("watched {seconds}"),
        Origin::Recording => format!("recorded {seconds}"),
        Origin::Import if window.seconds == 0.0 => "one capture".into(),
        // The assumed time between readings without timestamps is not meaningful.
        Origin::Import if window.is_assumed => "captures without times".into(),
        Origin::Import => format!("captures, {seconds}"),
    };
    match (&window.start, &window.end) {
        (Some(start), Some(end)) => {
            format!("{} ({how})", clock.span(start, end, window.source != Origin::Live))
        }
        _ => how,
    }
}

/// Draws the answer between the other likely causes, above, and a line about suspicions, below, so that the first line is never a
/// suspicion.
fn bottleneck(canvas: &mut Canvas, d: &Diagnosis, style: &TextStyle, room: usize) {
    let Some(first) = d.findings.first() else { return };
    let (certain, weak) = others(d);
    let mut next = canvas.another();
    next_capture(&mut next, d);
    let room = room.saturating_sub(next.lines()).max(FEWEST_LINES);
    let answer = |cut: usize| {
        let mut part = canvas.another();
        Answer { diagnosis: d, style, cut, is_whole: false }.draw(&mut part, first);
        part
    };
    // The answer is shortened so that other findings are at least counted.
    let wanted = usize::from(!certain.is_empty()) + usize::from(!weak.is_empty());
    let part =
        (0..=SHORTEST).map(answer).find(|part| part.lines() + wanted <= room).unwrap_or_else(|| answer(SHORTEST));
    let room = room.saturating_sub(part.lines() + usize::from(!weak.is_empty()));
    // The blank line before the answer is more valuable than a third cause.
    let shown = if certain.len() < room { certain.len() } else { room.clamp(1, 2) };
    also(canvas, ALSO, &certain, shown, d.window.source);
    if room > certain.len().min(shown) {
        canvas.blank();
    }
    canvas.append(part);
    canvas.append(next);
    also(canvas, WEAK, &weak, 1, d.window.source);
}

/// Another cause, and the number of findings of its kind.
type Other<'d> = (&'d Finding, usize);

/// Returns the causes except the first, one of each kind: the likely ones, and the suspicions.
fn others(d: &Diagnosis) -> (Vec<Other<'_>>, Vec<Other<'_>>) {
    let mut others: Vec<Other<'_>> = Vec::new();
    let first = d.findings.first();
    let causes = d.findings.iter().skip(1).filter(|finding| finding.explained_by.is_none());
    for finding in causes.filter(|finding| !first.is_some_and(|first| is_same_of_program(first, finding))) {
        match others.iter_mut().find(|(other, _)| other.id == finding.id) {
            Some((_, count)) => *count += 1,
            None => others.push((finding, 1)),
        }
    }
    for (other, count) in &mut others {
        *count += d.findings.iter().filter(|finding| finding.id == other.id).map(|finding| finding.more).sum::<usize>();
    }
    others.into_iter().partition(|(other, _)| other.confidence != Confidence::Low)
}

/// Whether both findings are the same cause in tasks of one program.
fn is_same_of_program(first: &Finding, other: &Finding) -> bool {
    first.subject.pid.is_some()
        && other.explained_by.is_none()
        && (&first.id, &first.subject.kind, &first.subject.name)
            == (&other.id, &other.subject.kind, &other.subject.name)
}

/// Returns the number of the program's tasks with the same cause.
fn alike(d: &Diagnosis, finding: &Finding) -> usize {
    let alike = d.findings.iter().filter(|other| is_same_of_program(finding, other));
    alike.map(|other| 1 + other.more).sum()
}

fn more_like_it(count: usize) -> String {
    if count > 1 { format!(" (and {} more like it)", count - 1) } else { String::new() }
}

/// Whether the headline contains all numbers of `how_bad`.
fn is_said_in_headline(finding: &Finding) -> bool {
    let said: Vec<&str> = numbers(first_sentence(&finding.summary)).collect();
    finding.how_bad.as_ref().is_some_and(|text| numbers(text).all(|number| said.contains(&number)))
}

/// Returns the numbers in a text, each up to the next space, without punctuation.
fn numbers(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split_whitespace().map(|word| word.trim_matches(|c: char| "()[],;:.".contains(c)));
    words.filter(|word| word.starts_with(char::is_numeric))
}

/// Draws other causes, one line each, and counts those that are not shown.
fn also(canvas: &mut Canvas, label: &str, others: &[Other<'_>], shown: usize, source: Origin) {
    let left = others.len().saturating_sub(shown);
    for (i, (other, count)) in others.iter().take(shown).enumerate() {
        let mut more = more_like_it(*count);
        if left > 0 && i + 1 == shown {
            more.push_str(&format!(" and {left} more ({})", hint(source)));
        }
        item(canvas, label, &of_host(other, first_sentence(&other.summary)), &more);
    }
}

/// Draws one line: a label, a sentence shortened to fit, and an ending.
fn item(canvas: &mut Canvas, label: &str, sentence: &str, more: &str) {
    let more = [dim(more)];
    let columns = canvas.width().saturating_sub(width(&more));
    let text = [dim(label), plain(clause(sentence, columns.saturating_sub(label.len())))];
    let mut line = canvas.cut(1, columns, &text);
    line.extend(more);
    canvas.paragraph(0, 2, &line);
}

/// The minimum number of words in a clause.
const SHORTEST_CLAUSE: usize = 3;

/// Returns the sentence if it fits; otherwise its longest prefix that ends with a clause and fits, if there is one.
pub(super) fn clause(sentence: &str, columns: usize) -> &str {
    if plain(sentence).width() <= columns {
        return sentence;
    }
    let is_open = |part: &str| part.matches('(').count() > part.matches(')').count();
    let ends = sentence.match_indices([',', ':', ';']).filter(|(at, _)| sentence[at + 1..].starts_with(' '));
    ends.map(|(at, _)| &sentence[..at])
        .filter(|part| plain(part).width() <= columns && !is_open(part))
        .rfind(|part| part.split_whitespace().count() >= SHORTEST_CLAUSE)
        .unwrap_or(sentence)
}

/// Tells the reader how to see the rest.
pub(super) fn hint(source: Origin) -> &'static str {
    if source == Origin::Live { "whyslow\u{a0}-v" } else { "add\u{a0}-v" }
}

/// The answer: the problem, the culprit, the severity, and the recommended action.
pub(super) struct Answer<'d> {
    pub(super) diagnosis: &'d Diagnosis,
    pub(super) style: &'d TextStyle,
    /// Degree of shortening, from 0 (nothing is left out) to [`SHORTEST`].
    pub(super) cut: usize,
    /// Whether all recommended actions are shown.
    pub(super) is_whole: bool,
}

impl Answer<'_> {
    pub(super) fn draw(&self, canvas: &mut Canvas, finding: &Finding) {
        let how_bad = self.how_bad(finding);
        let lines = if self.cut == 0 || self.is_captured() { 3 } else { 2 };
        canvas.at_most(lines, 0, 2, &self.headline(finding, how_bad.is_none()));
        self.who(canvas, finding);
        if let Some(text) = how_bad {
            canvas.at_most(if self.cut == 0 { 2 } else { 1 }, 2, 12, &[dim("How bad:  "), plain(text)]);
        }
        self.what_to_do(canvas, finding);
    }

    /// Returns the finding in a sentence, with the confidence if no line below states it.
    fn headline(&self, finding: &Finding, with_confidence: bool) -> Vec<Piece> {
        let ink = if finding.confidence == Confidence::Low { Ink::Bold } else { Ink::Red };
        let mut headline = vec![Piece::new(ink, sentence(finding)), dim(more_like_it(alike(self.diagnosis, finding)))];
        if with_confidence && finding.confidence != Confidence::High {
            headline.push(dim(format!(" (confidence {})", finding.confidence.word())));
        }
        headline
    }

    fn who(&self, canvas: &mut Canvas, finding: &Finding) {
        let Some(first) = finding.culprits.first() else {
            // A process is its own culprit, and captures rarely name one.
            let is_task = finding.subject.pid.is_some() || self.diagnosis.window.source == Origin::Import;
            let text = match &finding.unattributed {
                Some(gap) => Some(format!("not identified: {}", words::reason(gap))),
                None if finding.impact_is == Basis::Measured => Some(unattributed(&self.diagnosis.blind_spots)),
                None => None,
            };
            if let Some(text) = text.filter(|_| !is_task) {
                canvas.at_most(2, 2, 12, &[dim("Who:      "), plain(text)]);
            }
            return;
        };
        let mut text = format!("{} with {} of {}", words::culprit(first), human::share(first.share), first.of);
        let second = finding.culprits.iter().find(|other| other.of == first.of && other.name != first.name);
        if let Some(second) = second {
            text.push_str(&format!("; then {}", second.name));
        }
        canvas.at_most(1, 2, 12, &[dim("Who:      "), plain(text)]);
    }

    /// Returns the time lost, its start, and the confidence; `None` if it would only repeat the headline.
    fn how_bad(&self, finding: &Finding) -> Option<String> {
        let since = self.since(finding);
        // The time lost by a problem in a log is unknown.
        let says_nothing = finding.impact_is == Basis::NotMeasured || is_said_in_headline(finding);
        if says_nothing && since.is_empty() {
            return None;
        }
        let sure = match finding.confidence {
            Confidence::High => String::new(),
            other => format!("; confidence {}", other.word()),
        };
        Some(format!("{}{since}{sure}", words::time_lost(finding)))
    }

    /// Returns for how long it has lasted, if it still does.
    fn since(&self, finding: &Finding) -> String {
        let window = &self.diagnosis.window;
        let Some(since) = finding.since.as_ref().filter(|_| window.source == Origin::Live) else {
            return String::new();
        };
        let seconds = human::seconds(since.seconds.round().max(1.0));
        match (&since.start, average(since)) {
            (Some(start), _) => format!(", since {}", ZonedClock::new(self.style.utc).time(start)),
            (None, Some(average)) if self.cut == 0 => format!(", also over {seconds} ({average})"),
            (None, Some(_)) => format!(", also over {seconds}"),
            (None, None) => format!(", for at least the {seconds} watched"),
        }
    }

    fn what_to_do(&self, canvas: &mut Canvas, finding: &Finding) {
        // A truncated instruction cannot be followed.
        let text_lines = if self.is_captured() { 6 } else { [5, 3, 2, 1][self.cut] };
        let remedy = remedy(finding);
        let diagnostic = finding.actions.iter().find(|action| action.kind == ActionKind::Diagnostic);
        // The next capture is more informative.
        let wants_diagnostic = self.is_whole || self.diagnosis.next_capture.is_none();
        let diagnostic = diagnostic.filter(|_| wants_diagnostic);
        if let Some(action) = remedy {
            let duration = action.try_command.as_deref().and_then(duration);
            // For a capture, the duration is next to the command, which has a label.
            let text = with_duration(&action.text, duration.filter(|_| !self.is_captured()));
            canvas.at_most(text_lines, 0, 2, &[bold("Recommended action: "), plain(text)]);
            let has_diagnostic = action.try_command.as_deref().is_some_and(is_diagnostic);
            if has_diagnostic && !wants_diagnostic {
                return;
            }
            if has_diagnostic {
                canvas.paragraph(0, 2, &[bold(self.to_find_out(true)), bold(":")]);
            } else if self.is_captured() && action.try_command.is_some() {
                let duration = duration.map_or_else(String::new, |duration| format!(" ({duration})"));
                canvas.paragraph(0, 2, &[bold(words::capital(&self.on_host())), plain(duration), bold(":")]);
            }
            commands(canvas, action);
            if self.cut < SHORTEST {
                expected(canvas, action);
            }
        }
        let has_command = remedy.is_some_and(|action| action.try_command.is_some());
        if let Some(action) = diagnostic.filter(|_| !has_command) {
            let label = self.to_find_out(action.try_command.is_some());
            // Next to a remedy, the command has to be self-explanatory if there is no room for its purpose.
            let lines = if self.cut == 0 { 2 } else { 1 };
            let mut purpose = canvas.another();
            purpose.paragraph(0, 2, &[bold(&label), plain(": "), plain(&action.text)]);
            let fits = purpose.lines() <= lines;
            let text = if remedy.is_some() && !fits { "" } else { &action.text };
            canvas.at_most(
                text_lines,
                0,
                2,
                &[bold(&label), bold(if text.is_empty() { ":" } else { ": " }), plain(text)],
            );
            commands(canvas, action);
        }
    }
}

impl Answer<'_> {
    fn is_captured(&self) -> bool {
        self.diagnosis.window.source == Origin::Import
    }

    /// Returns the label of a diagnostic; for a capture, the command runs on the captured host, not on this machine.
    fn to_find_out(&self, has_command: bool) -> String {
        let more = "To find out more";
        if self.is_captured() && has_command { format!("{more}, {}", self.on_host()) } else { more.to_owned() }
    }

    fn on_host(&self) -> String {
        on_host(self.diagnosis.findings.first().and_then(|finding| finding.host.as_deref()))
    }
}

/// Names the kernel's average that shows how long the problem has lasted, if it is longer than the observed time.
fn average(since: &Since) -> Option<String> {
    Some(match since.average? {
        KernelAverage::Pressure => format!("PSI avg{:.0}", since.seconds),
        KernelAverage::Load => "load average".to_owned(),
    })
}

/// Returns the action that comes first in the answer.
fn remedy(finding: &Finding) -> Option<&Action> {
    finding.actions.iter().find(|action| action.kind != ActionKind::Diagnostic)
}

/// Returns the action that the answer to a finding shows in full.
pub(super) fn recommended(finding: &Finding) -> Option<&Action> {
    remedy(finding).or_else(|| finding.actions.first())
}

/// Returns the text of an action; if a command of whyslow performs it, with its duration after the first clause.
fn with_duration(text: &str, duration: Option<&str>) -> String {
    let Some(duration) = duration else { return text.to_owned() };
    let end = ["; ", ": ", ". "].iter().filter_map(|end| text.find(end)).min().unwrap_or(text.len());
    format!("{} ({duration}){}", &text[..end], &text[end..])
}

/// Returns how long the change of a whyslow command lasts, and how to undo it.
fn duration(command: &str) -> Option<&'static str> {
    if command.starts_with("whyslow try ") {
        let is_in_two_parts = command.contains(" --before ");
        return Some(if is_in_two_parts {
            "a trial, to be ended with whyslow try --after"
        } else {
            "a trial: rolled back unless you add --keep"
        });
    }
    let settings = command.strip_prefix("whyslow tune set ")?;
    let is_of_process = settings.split_whitespace().all(|setting| setting.starts_with("process."));
    Some(if is_of_process {
        "until the process ends; undo: whyslow tune undo"
    } else {
        "until reboot; undo: whyslow tune undo"
    })
}

/// Draws the expected improvement, if the rule states one; that the lost time is recovered is obvious.
fn expected(canvas: &mut Canvas, action: &Action) {
    if let Some(text) = &action.expect {
        canvas.at_most(2, 2, 12, &[dim("Expected: "), plain(text)]);
    }
}

pub(super) fn commands(canvas: &mut Canvas, action: &Action) {
    if let Some(command) = &action.try_command {
        canvas.command(4, &bold(command));
    }
}

/// Whether a command only shows something: a command not known to change anything is labelled as a diagnostic.
fn is_diagnostic(command: &str) -> bool {
    const CHANGES: [&str; 10] = [
        "whyslow try",
        "whyslow tune",
        "ionice",
        "renice",
        "nice",
        "kill",
        "systemctl set-property",
        "taskset",
        "sysctl -w",
        "chrt",
    ];
    !CHANGES.iter().any(|start| command.starts_with(start))
}

/// Returns the reason why no culprit is named.
fn unattributed(spots: &[BlindSpot]) -> String {
    let why = spots.iter().find(|spot| spot.remedy.contains("root"));
    why.map_or_else(|| "not identified".into(), |spot| format!("not identified ({})", spot.remedy))
}

/// Returns the finding in one sentence, or its id in words if the rule has none.
fn sentence(finding: &Finding) -> String {
    let headline = words::headline(finding);
    of_host(finding, if finding.summary.is_empty() { &headline } else { first_sentence(&finding.summary) })
}

/// Prefixes the sentence with the finding's host if there are several hosts.
fn of_host(finding: &Finding, sentence: &str) -> String {
    finding.host.as_ref().map_or_else(|| sentence.to_owned(), |host| format!("{host}: {sentence}"))
}

/// Names the host for a command that is recommended for captures.
fn on_host(host: Option<&str>) -> String {
    format!("on {}", host.unwrap_or("the captured host"))
}

/// Returns the text up to the first full stop followed by a new sentence.
pub(super) fn first_sentence(text: &str) -> &str {
    let mut ends = text.match_indices(". ").map(|(at, _)| at);
    let starts_anew = |at: &usize| text[at + 2..].chars().next().is_some_and(char::is_uppercase);
    ends.find(starts_anew).map_or(text, |at| &text[..=at])
}

fn healthy(canvas: &mut Canvas, d: &Diagnosis, room: usize) {
    let mut verdict = canvas.another();
    is_healthy(&mut verdict, d);
    // The verdict, and blank lines around the resources.
    let mut room = room.saturating_sub(2 + verdict.lines());
    canvas.blank();
    resources(canvas, d, &mut room);
    for finding in d.findings.iter().filter(|f| f.explained_by.is_none()).take(room.min(2)) {
        canvas.at_most(1, 2, 4, &[dim("Minor: "), plain(of_host(finding, first_sentence(&finding.summary)))]);
        room -= 1;
    }
    // For captures, the verdict names what they do not cover.
    let others = d.blind_spots.iter().filter(|spot| spot.why != NOT_CAPTURED);
    not_seen(canvas, others, d.window.source, &mut room);
    canvas.blank();
    canvas.append(verdict);
}

/// Draws each resource with the number that clears it.
fn resources(canvas: &mut Canvas, d: &Diagnosis, room: &mut usize) {
    let resources: Vec<_> = d.ruled_out.iter().filter(|r| !r.id.contains('.')).collect();
    let widest = resources.iter().map(|r| words::id(&r.id).chars().count()).max().unwrap_or(0).min(20);
    let lines = if resources.len() * 2 < *room { 2 } else { 1 };
    for entry in resources.into_iter().take(*room) {
        let before = canvas.lines();
        let name = Piece::cell(Ink::Plain, words::id(&entry.id), widest);
        canvas.at_most(lines, 2, widest + 4, &[name, plain("  "), plain(without_folders(&entry.because))]);
        *room -= canvas.lines() - before;
    }
}

/// Removes the folders of the capture's path that the text ends with in parentheses.
fn without_folders(text: &str) -> String {
    match text.strip_suffix(')').and_then(|text| text.rsplit_once(" (")) {
        Some((text, file)) if file.contains('/') && !file.contains(' ') => {
            format!("{text} ({})", file.rsplit('/').next().unwrap_or_default())
        }
        _ => text.to_owned(),
    }
}

/// Blind spots with the same reason.
struct NotSeen<'d> {
    what: Vec<&'d str>,
    /// The captured files that are affected.
    files: Vec<&'d str>,
    why: &'d str,
}

impl<'d> NotSeen<'d> {
    /// Groups blind spots into one entry for each reason; the gaps of each captured file share an entry too.
    fn grouped(spots: impl Iterator<Item = &'d BlindSpot>) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for spot in spots {
            let (file, what) = file_and_part(&spot.what);
            let same = |seen: &&mut Self| seen.why == spot.why && (file.is_none() == seen.files.is_empty());
            match all.iter_mut().find(same) {
                Some(seen) => {
                    seen.files.extend(file);
                    if !seen.what.contains(&what) {
                        seen.what.push(what);
                    }
                }
                None => all.push(Self { what: vec![what], files: file.into_iter().collect(), why: &spot.why }),
            }
        }
        all
    }

    /// Draws it in at most [`REASON_LINES`] lines. If it does not fit, the names are cut: without the reason it would be useless.
    fn draw(&self, canvas: &mut Canvas, more: &str) {
        let what = self.what.join(", ");
        let files = self.files.join(", ");
        let why = clause(self.why, REASON_LINES * (canvas.width() - 4) - LABEL_AND_NAMES);
        let whole = if files.is_empty() { plain(&what) } else { plain(&files) };
        let mut columns = whole.width();
        loop {
            let names = canvas.cut(1, columns, std::slice::from_ref(&whole));
            let mut line = vec![dim("Not seen: ")];
            if files.is_empty() {
                line.extend(names);
            } else {
                line.extend([plain(&what), plain(" (")]);
                line.extend(names);
                line.push(plain(")"));
            }
            line.extend([plain(": "), plain(why), dim(more)]);
            let mut part = canvas.another();
            part.paragraph(2, 4, &line);
            if part.lines() <= REASON_LINES {
                return canvas.append(part);
            }
            if columns < SHORTEST_NAME {
                return canvas.at_most(REASON_LINES, 2, 4, &line);
            }
            columns -= 4;
        }
    }
}

/// Splits a blind spot of a capture into the name of the file, without its folders, and the missing part.
fn file_and_part(what: &str) -> (Option<&str>, &str) {
    match what.split_once(": ") {
        Some((file, part)) if !file.contains(' ') => (file.rsplit('/').next(), part),
        _ => (None, what),
    }
}

/// Draws the blind spots with their reasons, as far as there is room, and counts the rest.
fn not_seen<'d>(canvas: &mut Canvas, spots: impl Iterator<Item = &'d BlindSpot>, source: Origin, room: &mut usize) {
    let all = NotSeen::grouped(spots);
    if all.is_empty() || *room == 0 {
        return;
    }
    let drawn = |seen: &NotSeen<'_>, more: &str| {
        let mut part = canvas.another();
        seen.draw(&mut part, more);
        part
    };
    let lines = |parts: &[Canvas]| parts.iter().map(Canvas::lines).sum::<usize>();
    let mut parts: Vec<Canvas> = Vec::new();
    for seen in &all {
        let part = drawn(seen, "");
        if lines(&parts) + part.lines() > *room {
            break;
        }
        parts.push(part);
    }
    // Without room for a reason, only the blind spots are named.
    if parts.is_empty() {
        let what: Vec<&str> = all.iter().flat_map(|seen| seen.what.iter().copied()).collect();
        let mut part = canvas.another();
        let more = dim(format!(" ({})", hint(source)));
        let mut line = part.cut(1, part.width() - 2 - more.width(), &[dim("Not seen: "), plain(what.join("; "))]);
        line.push(more);
        part.paragraph(2, 4, &line);
        *room -= 1;
        return canvas.append(part);
    }
    // The last one shown counts the others.
    let left = all.len() - parts.len();
    if let Some(last) = parts.pop_if(|_| left > 0) {
        let counting = drawn(&all[parts.len()], &format!(" (and {left} more, {})", hint(source)));
        let fits = lines(&parts) + counting.lines() <= *room;
        parts.push(if fits { counting } else { last });
    }
    for part in parts {
        *room -= part.lines();
        canvas.append(part);
    }
}

/// Lists the numbers that stand out and are not evidence of a finding already, else, without a finding, the main numbers of a
/// capture.
fn standing_out(canvas: &mut Canvas, d: &Diagnosis, room: &mut usize) {
    let is_evidence = |deviation: &Deviation| {
        let mut of_subject = d.findings.iter().filter(|finding| finding.subject == deviation.subject);
        of_subject.any(|finding| finding.evidence.iter().any(|e| e.metric == deviation.number.metric))
    };
    let sentence = |Deviation { subject, meaning, number, .. }: &Deviation| {
        let numbers = format!(": {meaning}: {}; {}", human::evidence(number), finding::normal(&number.expected));
        vec![dim("Stands out: "), bold(words::the_subject(subject)), plain(numbers)]
    };
    let mut all: Vec<Vec<Piece>> = d.stands_out.iter().filter(|one| !is_evidence(one)).map(sentence).collect();
    if all.is_empty() && d.findings.is_empty() {
        let line = |of: &SubjectFigures| vec![bold(words::the_subject(&of.subject)), plain(main_numbers(of))];
        all.extend(d.main_figures.iter().map(line));
    }
    for pieces in all.into_iter().take(MOST_STANDING_OUT) {
        let mut part = canvas.another();
        part.at_most(2, 2, 4, &pieces);
        if part.lines() <= *room {
            *room -= part.lines();
            canvas.append(part);
        }
    }
}

/// Returns numbers with the short names of what they are: `wait 8 ms, queue 2`.
fn main_numbers(figures: &SubjectFigures) -> String {
    let one = |evidence: &Evidence| {
        let name = evidence.metric.rsplit('.').next().unwrap_or_default().replace('_', " ");
        format!("{name} {}", human::evidence(evidence))
    };
    format!(": {}", figures.values.iter().map(one).collect::<Vec<_>>().join(", "))
}

fn undetermined(canvas: &mut Canvas, d: &Diagnosis, room: usize) {
    let mut verdict = canvas.another();
    is_undetermined(&mut verdict, d);
    let mut room =
        room.saturating_sub(2 + verdict.lines()).max(if d.next_capture.is_some() { FEWEST_RESOURCES } else { 0 });
    canvas.blank();
    let before = canvas.lines();
    standing_out(canvas, d, &mut room);
    // Parts that the verdict already names as not captured are not repeated.
    let (absent, other): (Vec<_>, Vec<_>) = d.blind_spots.iter().partition(|spot| spot.why == NOT_CAPTURED);
    let absent = absent.into_iter().filter(|_| !has_ruled_out_only(d));
    not_seen(canvas, absent.chain(other), d.window.source, &mut room);
    resources(canvas, d, &mut room);
    // The answer names the first one.
    for entry in d.not_cleared.iter().skip(1).take(room) {
        canvas.at_most(1, 2, 4, &[bold(words::id(&entry.id)), plain(format!(": {}", entry.because))]);
    }
    if canvas.lines() > before {
        canvas.blank();
    }
    canvas.append(verdict);
}

fn width(pieces: &[Piece]) -> usize {
    pieces.iter().map(Piece::width).sum()
}
