//! The first screen: ten lines that are read in twenty seconds, the answer last, where the eye lands.

use super::{TextStyle, words};
use crate::canvas::{Canvas, Ink, Piece, bold, dim, plain};
use crate::clock::ZonedClock;
use crate::human;
use std::collections::BTreeSet;
use whyslow_model::diagnosis::{
    Action, ActionKind, Basis, BlindSpot, Confidence, Diagnosis, Finding, Host, KernelAverage, NOT_CAPTURED, Origin,
    Since, TimeSpan, Verdict,
};

/// Lines of the first screen.
const LINES: usize = 10;
/// The highest level of shortening an answer.
const SHORTEST: usize = 3;
/// How the remedy begins if privilege is what is missing, and the command that it stands for.
const AS_ROOT: &str = "run as root";
const RUN_AS_ROOT: &str = "sudo whyslow";
/// The most disks that a sentence names.
const MOST_NAMED: usize = 3;

pub(super) fn draw(canvas: &mut Canvas, d: &Diagnosis, style: &TextStyle) {
    header(canvas, &d.host, &d.window, style);
    let room = LINES - 1;
    match d.verdict {
        Verdict::Bottleneck => bottleneck(canvas, d, style, room),
        Verdict::Healthy => healthy(canvas, d, room),
        Verdict::Undetermined => undetermined(canvas, d, room),
    }
}

/// The answer alone, below the details.
pub(super) fn answer(canvas: &mut Canvas, d: &Diagnosis, style: &TextStyle) {
    match (d.verdict, d.findings.first()) {
        (Verdict::Bottleneck, Some(first)) => {
            let others = others(d);
            also(canvas, &others, others.len() + 1, d.window.source);
            if !others.is_empty() {
                canvas.blank();
            }
            Answer { diagnosis: d, style, cut: 0 }.draw(canvas, first);
        }
        (Verdict::Bottleneck, None) => {}
        (Verdict::Healthy, _) => is_healthy(canvas, d),
        (Verdict::Undetermined, _) => is_undetermined(canvas, d),
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
}

/// The resources in which nothing was found, as a list.
fn covered(d: &Diagnosis) -> String {
    listed(&ruled_out(d))
}

/// 'a, b and c'.
fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [some @ .., last] => format!("{} and {last}", some.join(", ")),
    }
}

/// The resources in which nothing was found; disks by name if they are few.
fn ruled_out(d: &Diagnosis) -> Vec<String> {
    let disks = d.figures.iter().filter(|f| f.subject.kind == "device").map(|f| &*f.subject.name);
    let disks: Vec<&str> = disks.collect::<BTreeSet<_>>().into_iter().collect();
    let healthy = |resource: &str| match resource {
        "cpu" => "the CPUs".to_owned(),
        "disk" if disks.len() == 1 => format!("disk {}", disks.join(", ")),
        "disk" if (1..=MOST_NAMED).contains(&disks.len()) => format!("disks {}", disks.join(", ")),
        "disk" => "the disks".to_owned(),
        "memory" => "memory".to_owned(),
        other => format!("the {other}"),
    };
    let resources = d.ruled_out.iter().map(|entry| &*entry.id).filter(|id| !id.contains('.'));
    resources.map(healthy).collect::<BTreeSet<_>>().into_iter().collect()
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
        _ if has_ruled_out_only(d) => format!(": no known problem in {}.{}", covered(d), not_captured(d)),
        Some(entry) if d.findings.is_empty() => format!(": no cause was found, but {}.", entry.because),
        Some(entry) => format!(": no cause is certain, but {}.", entry.because),
        None => ": too little was visible to say what is slow.".to_owned(),
    };
    canvas.at_most(2, 0, 2, &[Piece::new(Ink::Yellow, "Undetermined"), plain(text)]);
    if let Some(finding) = d.findings.first() {
        item(canvas, "Possibly: ", &sentence(finding), &format!(" ({})", hint(d.window.source)));
    }
    if let Some(spot) = d.blind_spots.iter().find(|spot| !spot.remedy.is_empty()) {
        let remedy = if spot.remedy.starts_with(AS_ROOT) { RUN_AS_ROOT } else { &*spot.remedy };
        canvas.at_most(1, 0, 2, &[bold("To find out more: "), plain(remedy)]);
    }
}

/// Machine and time; what does not fit on the line is left out, the least important first.
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
        Origin::Import => format!("captures, {seconds}"),
    };
    match (&window.start, &window.end) {
        (Some(start), Some(end)) => {
            format!("{} ({how})", clock.span(start, end, window.source != Origin::Live))
        }
        _ => how,
    }
}

fn bottleneck(canvas: &mut Canvas, d: &Diagnosis, style: &TextStyle, room: usize) {
    let Some(first) = d.findings.first() else { return };
    let others = others(d);
    let answer = |cut: usize| {
        let mut part = Canvas::new(canvas.width(), canvas.colour());
        Answer { diagnosis: d, style, cut }.draw(&mut part, first);
        part
    };
    // The answer is shortened so that other findings are at least counted.
    let wanted = usize::from(!others.is_empty());
    let part =
        (0..=SHORTEST).map(answer).find(|part| part.lines() + wanted <= room).unwrap_or_else(|| answer(SHORTEST));
    also(canvas, &others, room.saturating_sub(part.lines()).max(wanted), d.window.source);
    if room.saturating_sub(part.lines() + others.len().min(room)) > 0 {
        canvas.blank();
    }
    canvas.append(part);
}

/// The causes except the first: the first of each kind, with the number of that kind.
fn others(d: &Diagnosis) -> Vec<(&Finding, usize)> {
    let mut others: Vec<(&Finding, usize)> = Vec::new();
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
    others.sort_by_key(|(other, _)| other.confidence == Confidence::Low);
    others
}

/// Whether both are the same cause in tasks of one program.
fn is_same_of_program(first: &Finding, other: &Finding) -> bool {
    first.subject.pid.is_some()
        && other.explained_by.is_none()
        && (&first.id, &first.subject.kind, &first.subject.name)
            == (&other.id, &other.subject.kind, &other.subject.name)
}

fn more_like_it(count: usize) -> String {
    if count > 1 { format!(" (and {} more like it)", count - 1) } else { String::new() }
}

/// Whether all numbers of `how_bad` stand in the headline as well.
fn is_said_in_headline(finding: &Finding) -> bool {
    let headline = first_sentence(&finding.summary);
    let mut numbers = finding
        .how_bad
        .iter()
        .flat_map(|text| text.split_whitespace())
        .filter(|word| word.starts_with(char::is_numeric));
    finding.how_bad.is_some()
        && numbers.all(|number| headline.split_whitespace().any(|word| word.trim_matches(',') == number))
}

/// The other causes, one line each; those that do not fit are counted.
fn also(canvas: &mut Canvas, others: &[(&Finding, usize)], room: usize, source: Origin) {
    // The blank line before the answer is worth more than a third cause.
    let shown = if others.len() < room { others.len() } else { others.len().min(room.min(2)) };
    let left = others.len() - shown;
    for (i, (other, count)) in others.iter().take(shown).enumerate() {
        let mut more = more_like_it(*count);
        if left > 0 && i + 1 == shown {
            more.push_str(&format!(" and {left} more ({})", hint(source)));
        }
        let label = if other.confidence == Confidence::Low { "Possibly: " } else { "Also: " };
        item(canvas, label, first_sentence(&other.summary), &more);
    }
}

/// One line: a label, a sentence shortened to fit, and an ending.
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

/// The sentence if it fits; otherwise its longest prefix that ends with a clause and fits, if there is one.
fn clause(sentence: &str, columns: usize) -> &str {
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

/// Where to read the rest.
pub(super) fn hint(source: Origin) -> &'static str {
    if source == Origin::Live { "whyslow -v" } else { "add -v" }
}

/// What is wrong, who causes it, how bad it is, what to do.
pub(super) struct Answer<'d> {
    pub(super) diagnosis: &'d Diagnosis,
    pub(super) style: &'d TextStyle,
    /// How much is left out to save lines, from 0 (nothing) to [`SHORTEST`].
    pub(super) cut: usize,
}

impl Answer<'_> {
    pub(super) fn draw(&self, canvas: &mut Canvas, finding: &Finding) {
        let ink = if finding.confidence == Confidence::Low { Ink::Bold } else { Ink::Red };
        let alike = self.diagnosis.findings.iter().filter(|other| is_same_of_program(finding, other)).count();
        let sentence = Piece::new(ink, sentence(finding));
        canvas.at_most(if self.cut == 0 { 3 } else { 2 }, 0, 2, &[sentence, dim(more_like_it(alike))]);
        self.who(canvas, finding);
        self.how_bad(canvas, finding);
        self.what_to_do(canvas, finding);
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

    fn how_bad(&self, canvas: &mut Canvas, finding: &Finding) {
        let since = self.since(finding);
        let sure = match finding.confidence {
            Confidence::High => String::new(),
            other => format!("; confidence {}", words::confidence(other)),
        };
        // The time lost by a problem in a log is unknown, and some headlines say how bad it is: the line would say nothing.
        let says_nothing = finding.impact_is == Basis::NotMeasured || is_said_in_headline(finding);
        if says_nothing && since.is_empty() && sure.is_empty() {
            return;
        }
        let text = format!("{}{since}{sure}", words::time_lost(finding));
        canvas.at_most(if self.cut == 0 { 2 } else { 1 }, 2, 12, &[dim("How bad:  "), plain(text)]);
    }

    /// How long it has lasted, if it still does.
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
        let text_lines = [5, 3, 2, 1][self.cut];
        let remedy = remedy(finding);
        let diagnostic = finding.actions.iter().find(|action| action.kind == ActionKind::Diagnostic);
        if let Some(action) = remedy {
            canvas.at_most(text_lines, 0, 2, &[bold("Recommended action: "), plain(&action.text)]);
            if action.try_command.as_deref().is_some_and(is_diagnostic) {
                canvas.paragraph(0, 2, &[bold(self.to_find_out(true)), bold(":")]);
            } else if self.is_captured() && action.try_command.is_some() {
                canvas.paragraph(0, 2, &[bold("On the captured host:")]);
            }
            commands(canvas, action);
            if self.cut < SHORTEST {
                expected(canvas, action, finding);
            }
        }
        let has_command = remedy.is_some_and(|action| action.try_command.is_some());
        if let Some(action) = diagnostic.filter(|_| !has_command) {
            let label = self.to_find_out(action.try_command.is_some());
            // Beside a remedy, the command has to speak for itself if its purpose does not fit on the line.
            let fits = label.len() + 2 + plain(&action.text).width() <= canvas.width();
            let text = if remedy.is_some() && !fits { "" } else { &action.text };
            canvas.at_most(
                text_lines,
                0,
                2,
                &[bold(label), bold(if text.is_empty() { ":" } else { ": " }), plain(text)],
            );
            commands(canvas, action);
        }
    }
}

impl Answer<'_> {
    fn is_captured(&self) -> bool {
        self.diagnosis.window.source == Origin::Import
    }

    /// The label of a diagnostic; what a capture needs is not found out on this machine.
    fn to_find_out(&self, has_command: bool) -> &'static str {
        if self.is_captured() && has_command { "To find out more, on the captured host" } else { "To find out more" }
    }
}

/// The average of the kernel that shows how long it has lasted, if it is longer than what was watched.
fn average(since: &Since) -> Option<String> {
    Some(match since.average? {
        KernelAverage::Pressure => format!("PSI avg{:.0}", since.seconds),
        KernelAverage::Load => "load average".to_owned(),
    })
}

/// The action that comes first in the answer.
fn remedy(finding: &Finding) -> Option<&Action> {
    finding.actions.iter().find(|action| action.kind != ActionKind::Diagnostic)
}

/// The action that the answer to a finding shows in full.
pub(super) fn recommended(finding: &Finding) -> Option<&Action> {
    remedy(finding).or_else(|| finding.actions.first())
}

/// The expected improvement: as stated by the rule, otherwise the time lost as an upper bound.
fn expected(canvas: &mut Canvas, action: &Action, finding: &Finding) {
    let text = match (&action.expect, finding.impact_is) {
        (Some(text), _) => text.clone(),
        (None, Basis::Measured) if finding.how_bad.is_none() => "at best, the stalls end".to_owned(),
        (None, _) => return,
    };
    canvas.at_most(1, 2, 12, &[dim("Expected: "), plain(text)]);
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

/// Why no culprit is named.
fn unattributed(spots: &[BlindSpot]) -> String {
    let why = spots.iter().find(|spot| spot.remedy.contains("root"));
    why.map_or_else(|| "not identified".into(), |spot| format!("not identified ({})", spot.remedy))
}

/// The finding in one sentence; its id in words if the rule has none.
fn sentence(finding: &Finding) -> String {
    if finding.summary.is_empty() { words::headline(finding) } else { first_sentence(&finding.summary).to_owned() }
}

/// The text up to the first full stop followed by a new sentence.
pub(super) fn first_sentence(text: &str) -> &str {
    let mut ends = text.match_indices(". ").map(|(at, _)| at);
    let starts_anew = |at: &usize| text[at + 2..].chars().next().is_some_and(char::is_uppercase);
    ends.find(starts_anew).map_or(text, |at| &text[..=at])
}

fn healthy(canvas: &mut Canvas, d: &Diagnosis, room: usize) {
    // The verdict, and blank lines around the resources.
    let mut room = room - 3;
    canvas.blank();
    resources(canvas, d, &mut room);
    for finding in d.findings.iter().filter(|f| f.explained_by.is_none()).take(room.min(2)) {
        canvas.at_most(1, 2, 4, &[dim("Minor: "), plain(first_sentence(&finding.summary))]);
        room -= 1;
    }
    not_seen(canvas, d, &mut room);
    canvas.blank();
    is_healthy(canvas, d);
}

/// Each resource with the number that clears it.
fn resources(canvas: &mut Canvas, d: &Diagnosis, room: &mut usize) {
    let resources: Vec<_> = d.ruled_out.iter().filter(|r| !r.id.contains('.')).collect();
    let widest = resources.iter().map(|r| words::id(&r.id).chars().count()).max().unwrap_or(0).min(20);
    let lines = if resources.len() * 2 < *room { 2 } else { 1 };
    for entry in resources.into_iter().take(*room) {
        let before = canvas.lines();
        let name = Piece::cell(Ink::Plain, words::id(&entry.id), widest);
        canvas.at_most(lines, 2, widest + 4, &[name, plain("  "), plain(&entry.because)]);
        *room -= canvas.lines() - before;
    }
}

fn not_seen(canvas: &mut Canvas, d: &Diagnosis, room: &mut usize) {
    if d.blind_spots.is_empty() || *room == 0 {
        return;
    }
    *room -= 1;
    let what: Vec<&str> = d.blind_spots.iter().map(|spot| &*spot.what).collect();
    let more = [dim(format!(" ({})", hint(d.window.source)))];
    let text = [dim("Not seen: "), plain(what.join("; "))];
    let mut line = canvas.cut(1, canvas.width() - 2 - width(&more), &text);
    line.extend(more);
    canvas.paragraph(2, 4, &line);
}

fn undetermined(canvas: &mut Canvas, d: &Diagnosis, room: usize) {
    let remedy = d.blind_spots.iter().any(|spot| !spot.remedy.is_empty());
    let mut room =
        room - 3 - usize::from(remedy) - usize::from(!d.findings.is_empty()) - usize::from(has_ruled_out_only(d));
    canvas.blank();
    for spot in d.blind_spots.iter().take(room) {
        canvas.at_most(1, 2, 4, &[dim("Not seen: "), plain(&spot.what), plain(": "), plain(&spot.why)]);
        room -= 1;
    }
    resources(canvas, d, &mut room);
    // The answer names the first.
    for entry in d.not_cleared.iter().skip(1).take(room) {
        canvas.at_most(1, 2, 4, &[bold(words::id(&entry.id)), plain(format!(": {}", entry.because))]);
    }
    canvas.blank();
    is_undetermined(canvas, d);
}

fn width(pieces: &[Piece]) -> usize {
    pieces.iter().map(Piece::width).sum()
}
