//! Findings: causes, each with its effects indented under it.

use super::{action_line, screen, words};
use crate::canvas::{Canvas, Ink, Piece, bold, dim, plain};
use crate::human;
use std::collections::HashMap;
use whyslow_documents::diagnosis::{
    ActionKind, Confidence, Culprit, Deviation, Diagnosis, Evidence, Finding, SubjectFigures, Verdict,
};

/// Indentation of effects under their cause.
const INDENT: usize = 3;
/// Effects nested more deeply than this are not indented further.
const DEEPEST: usize = 4;
/// Columns of the evidence table; longer text shifts the rest of its line to the right.
const WIDEST_METRIC: usize = 28;
const WIDEST_VALUE: usize = 14;
/// Maximum number of a culprit's control groups that are listed.
const MOST_GROUPS: usize = 3;

/// The findings of a diagnosis and how they are related.
pub(super) struct Findings<'d> {
    findings: &'d [Finding],
    /// Indices of effects, by the key of their cause.
    effects: HashMap<&'d str, Vec<usize>>,
    /// Indices of causes, by id.
    causes: HashMap<&'d str, Vec<usize>>,
    drawn: Vec<bool>,
    /// The finding whose recommended action is part of the answer below.
    answered: Option<usize>,
}

impl<'d> Findings<'d> {
    pub(super) fn from_diagnosis(diagnosis: &'d Diagnosis) -> Self {
        let findings = &diagnosis.findings;
        let mut effects: HashMap<&str, Vec<usize>> = HashMap::new();
        let mut causes: HashMap<&str, Vec<usize>> = HashMap::new();
        for (i, finding) in findings.iter().enumerate() {
            match &finding.explained_by {
                Some(cause) => effects.entry(cause).or_default().push(i),
                None => causes.entry(&finding.id).or_default().push(i),
            }
        }
        let answered = (diagnosis.verdict == Verdict::Bottleneck).then_some(0);
        Self { findings, effects, causes, drawn: vec![false; findings.len()], answered }
    }

    /// Draws causes in order, each followed by its effects; then findings whose cause is missing or that form a cycle, which is
    /// possible in documents from other programs.
    pub(super) fn draw(mut self, canvas: &mut Canvas) {
        let causes = (0..self.findings.len()).filter(|&i| self.findings[i].explained_by.is_none());
        for i in causes.chain(0..self.findings.len()) {
            self.tree(canvas, i);
        }
    }

    /// Draws a finding and its effects, depth first. Avoids recursion, because a chain may be as long as the document.
    fn tree(&mut self, canvas: &mut Canvas, root: usize) {
        let mut left = vec![(root, 0)];
        while let Some((i, depth)) = left.pop() {
            if std::mem::replace(&mut self.drawn[i], true) {
                continue;
            }
            let finding = &self.findings[i];
            canvas.blank();
            one(canvas, finding, depth, self.answered == Some(i));
            self.alike(canvas, i, depth);
            let effects = self.effects.get(&*finding.key()).into_iter().flatten();
            left.extend(effects.rev().map(|&effect| (effect, depth + 1)));
        }
    }

    /// Mentions other findings of the same kind that this one represents: effects of the same cause, or other causes.
    fn alike(&mut self, canvas: &mut Canvas, i: usize, depth: usize) {
        let finding = &self.findings[i];
        let siblings = match &finding.explained_by {
            Some(cause) => self.effects.get(&**cause).cloned().unwrap_or_default(),
            None => self.causes.get(&*finding.id).cloned().unwrap_or_default(),
        };
        let is_alike = |other: &usize| {
            let effect = &self.findings[*other];
            !self.drawn[*other] && effect.id == finding.id && !self.effects.contains_key(&*effect.key())
        };
        let alike: Vec<usize> = siblings.into_iter().filter(is_alike).collect();
        let more = finding.more + alike.iter().map(|&other| self.findings[other].more).sum::<usize>();
        if alike.is_empty() && more == 0 {
            return;
        }
        let mut names: Vec<String> = alike.iter().map(|&other| words::subject(&self.findings[other].subject)).collect();
        if more > 0 {
            names.push(format!("{more} more"));
        }
        let column = INDENT * depth.min(DEEPEST) + 2;
        let count = format!("×{}: ", alike.len() + more + 1);
        canvas.paragraph(column, column + 2, &[bold(count), plain("also "), plain(names.join("; "))]);
        for other in alike {
            self.drawn[other] = true;
        }
    }
}

fn one(canvas: &mut Canvas, finding: &Finding, depth: usize, is_answered: bool) {
    let column = INDENT * depth.min(DEEPEST);
    let body = column + 2;
    headline(canvas, finding, column, depth > 0);
    canvas.paragraph(body, body, &[plain(&finding.summary)]);
    culprits(canvas, &finding.culprits, body);
    unattributed(canvas, finding, body);
    evidence(canvas, &finding.evidence, body);
    actions(canvas, finding, is_answered, body);
}

/// Draws the actions; for the finding that the answer is about, only those that the answer does not recommend already.
fn actions(canvas: &mut Canvas, finding: &Finding, is_answered: bool, column: usize) {
    let recommended = screen::recommended(finding);
    for action in &finding.actions {
        let is_recommended = recommended.is_some_and(|first| std::ptr::eq(first, action));
        let label = match action.kind {
            _ if is_recommended && is_answered => continue,
            ActionKind::Diagnostic => "to find out more: ",
            _ if is_recommended => "recommended: ",
            _ => "or: ",
        };
        action_line(canvas, column, label, action);
    }
}

fn headline(canvas: &mut Canvas, finding: &Finding, column: usize, is_effect: bool) {
    let ink = match finding.confidence {
        Confidence::High => Ink::Red,
        Confidence::Medium => Ink::Yellow,
        Confidence::Low => Ink::Bold,
    };
    let mut line = Vec::new();
    if is_effect {
        line.push(dim("└ leads to: "));
    }
    line.push(Piece::new(ink, words::headline(finding)));
    canvas.paragraph(column, column + 2, &line);
    let confirmed = if finding.confirmed_by.is_empty() { "" } else { ", confirmed by " };
    let figures = [
        bold(words::time_lost(finding)),
        plain(" · confidence "),
        plain(finding.confidence.word()),
        plain(confirmed),
        plain(finding.confirmed_by.join(" and ")),
        dim(" · "),
        dim(&finding.id),
    ];
    canvas.paragraph(column + 2, column + 2, &figures);
}

pub(super) fn culprits(canvas: &mut Canvas, culprits: &[Culprit], column: usize) {
    for (i, culprit) in culprits.iter().enumerate() {
        let label = if i == 0 { "by " } else { "and " };
        let mut line = vec![
            dim(label),
            bold(words::culprit(culprit)),
            plain(": "),
            plain(human::share(culprit.share)),
            plain(" of "),
            plain(&culprit.of),
        ];
        line.extend(in_control_groups(culprit).map(dim));
        canvas.paragraph(column, column + 4, &line);
        if let Some(command_line) = &culprit.command_line {
            canvas.at_most(2, column + 4, column + 6, &[dim(command_line)]);
        }
    }
}

/// Returns the control groups of a culprit, with the share in each if there are several.
fn in_control_groups(culprit: &Culprit) -> Option<String> {
    if culprit.cgroups.is_empty() {
        return culprit.cgroup.as_ref().map(|cgroup| format!(" in {cgroup}"));
    }
    let shown = culprit.cgroups.iter().take(MOST_GROUPS);
    let shown: Vec<String> = shown.map(|part| format!("{} ({})", part.cgroup, human::share(part.share))).collect();
    let more = culprit.cgroups.len() - shown.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Some(format!(" in {}{more}", shown.join(", ")))
}

/// Draws the part that could not be attributed, with the reason.
fn unattributed(canvas: &mut Canvas, finding: &Finding, column: usize) {
    let Some(gap) = &finding.unattributed else { return };
    let share = gap.share.map_or_else(String::new, |share| format!("{} of ", human::share(share)));
    let text = format!("not attributed: {share}{} ({})", gap.of, words::reason(gap));
    canvas.paragraph(column, column + 4, &[dim(text)]);
}

/// Draws the figures in captures by subject, with the location of each number.
/// Draws the numbers that stand out, each with its formula and source.
pub(super) fn deviations(canvas: &mut Canvas, deviations: &[Deviation]) {
    if deviations.is_empty() {
        return;
    }
    canvas.blank();
    canvas.paragraph(0, 2, &[bold("Stands out")]);
    for Deviation { subject, meaning, number, .. } in deviations {
        let value = format!(": {meaning}: {}", human::evidence(number));
        let line =
            vec![bold(words::the_subject(subject)), plain(value), plain(format!("; {}", normal(&number.expected)))];
        row(canvas, line, &formula_and_source(number, true), 2, 4);
    }
}

pub(super) fn figures(canvas: &mut Canvas, figures: &[SubjectFigures]) {
    for of in figures {
        canvas.blank();
        canvas.paragraph(0, 2, &[plain("Measurements: "), bold(words::subject(&of.subject))]);
        evidence(canvas, &of.values, 2);
    }
}

fn evidence(canvas: &mut Canvas, evidence: &[Evidence], column: usize) {
    let widest = |cap: usize, text: &dyn Fn(&Evidence) -> String| {
        evidence.iter().map(|e| plain(text(e)).width()).max().unwrap_or(0).min(cap)
    };
    let metric = widest(WIDEST_METRIC, &|e| e.metric.clone());
    let value = widest(WIDEST_VALUE, &human::evidence);
    let mut above = "";
    for e in evidence {
        let mut line = vec![
            Piece::cell(Ink::Plain, &e.metric, metric),
            plain("  "),
            Piece::cell(Ink::Bold, human::evidence(e), value),
        ];
        if !e.expected.is_empty() {
            line.extend([plain("  "), plain(normal(&e.expected))]);
        }
        // Rows that share a source name it once.
        row(canvas, line, &formula_and_source(e, e.source != above), column, column + metric + 2);
        above = &e.source;
    }
}

/// Formats the expectation for a number: a bound is called normal; other text explains the number.
pub(super) fn normal(text: &str) -> String {
    const BOUNDS: [&str; 12] = [
        "below ",
        "above ",
        "under ",
        "over ",
        "near ",
        "at least ",
        "at most ",
        "about ",
        "well ",
        "far ",
        "no more ",
        "none",
    ];
    let is_bound = text.starts_with(|c: char| c.is_ascii_digit()) || BOUNDS.iter().any(|start| text.starts_with(start));
    if is_bound { format!("normal: {text}") } else { text.to_owned() }
}

/// Draws one line if the origin fits beside the figures; otherwise draws the origin below the value.
fn row(canvas: &mut Canvas, mut line: Vec<Piece>, origin: &str, column: usize, below: usize) {
    if origin.is_empty() {
        return canvas.paragraph(column, below, &line);
    }
    let origin = dim(origin);
    let width: usize = line.iter().map(Piece::width).sum();
    if column + width + 2 + origin.width() <= canvas.width() {
        line.extend([plain("  "), origin]);
        canvas.paragraph(column, below, &line);
    } else {
        canvas.paragraph(column, below, &line);
        canvas.paragraph(below, below, &[origin]);
    }
}

/// Returns the formula or, without one, the file that the number was read from.
fn formula(e: &Evidence) -> String {
    if e.how.is_empty() { e.source.clone() } else { e.how.clone() }
}

fn formula_and_source(e: &Evidence, names_source: bool) -> String {
    if e.how.is_empty() || e.source.is_empty() || !names_source {
        formula(e)
    } else {
        format!("{} ({})", e.how, e.source)
    }
}
