//! Experiments: the verdict, the effect with its interval, and the pairs it is based on.

use crate::canvas::{Canvas, Ink, Piece, bold, dim, plain};
use crate::clock::ZonedClock;
use crate::text::{TextStyle, heading};
use whyslow_documents::tune::{
    Promise, Rehearsal, Trial, TrialEffect, TrialEvidence, TrialPair, TrialVerdict, Walk, Watched, unit_of,
};
use whyslow_model::human;

/// Width of the plot of a pair.
const PLOT: usize = 41;

/// Formats one experiment.
pub fn trial(trial: &Trial, style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    draw(&mut canvas, trial, style.all);
    canvas.finish()
}

/// Formats all experiments, the latest last.
pub fn trials(trials: &[Trial], style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    if trials.is_empty() {
        canvas.paragraph(0, 2, &[plain("There are no trials yet; 'whyslow try' makes one.")]);
    }
    for (number, trial) in trials.iter().enumerate() {
        if number > 0 {
            canvas.blank();
        }
        canvas.paragraph(0, 2, &[dim(ZonedClock::new(style.utc).moment(&trial.at))]);
        draw(&mut canvas, trial, style.all);
    }
    canvas.finish()
}

/// Formats a planned experiment, below the changes it would make.
pub fn rehearsal(rehearsal: &Rehearsal, style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    let Rehearsal { pairs, noise_pairs, settle, .. } = rehearsal;
    let time = match (rehearsal.seconds, rehearsal.runs) {
        (Some(seconds), _) => format!("; {} in all", human::quantity(seconds, "s")),
        (None, Some(runs)) => {
            let waiting = human::quantity(rehearsal.waiting, "s");
            format!("; in all {runs} runs of the command and {waiting} of waiting")
        }
        (None, None) => String::new(),
    };
    let told = format!(
        "{pairs} pairs with and without it would be measured, after {noise_pairs} without any change, {} to wait after each switch{time}",
        human::quantity(*settle, "s")
    );
    canvas.paragraph(2, 4, &[plain(told), dim(format!(" ({})", measured(&rehearsal.metric)))]);
    caveat(&mut canvas, rehearsal.caveat.as_deref());
    super::plan(&rehearsal.plan, style) + &canvas.finish()
}

fn verdict(verdict: TrialVerdict) -> (Ink, &'static str) {
    match verdict {
        TrialVerdict::Helped => (Ink::Green, "Helped"),
        TrialVerdict::Harmed => (Ink::Red, "Harmed"),
        TrialVerdict::Equivalent => (Ink::Plain, "Equivalent"),
        TrialVerdict::Inconclusive => (Ink::Yellow, "Inconclusive"),
    }
}

/// Returns the verdict, with reservations.
fn answer(trial: &Trial) -> (Ink, &'static str) {
    if trial.interrupted {
        return (Ink::Yellow, "Interrupted");
    }
    if trial.verdict == TrialVerdict::Helped && trial.is_mechanism_unconfirmed() {
        return (Ink::Yellow, "Helped, mechanism unconfirmed");
    }
    verdict(trial.verdict)
}

pub(super) fn headline(trial: &Trial) -> Piece {
    let (ink, words) = answer(trial);
    Piece::new(ink, words)
}

/// Returns the verdict, with reservations, in words.
pub fn verdict_in_words(trial: &Trial) -> &'static str {
    answer(trial).1
}

fn caveat(canvas: &mut Canvas, caveat: Option<&str>) {
    if let Some(caveat) = caveat {
        canvas.paragraph(2, 4, &[Piece::new(Ink::Yellow, caveat)]);
    }
}

/// Wording of an effect on a metric.
#[derive(Clone, Copy)]
struct EffectWords {
    lower_is_better: bool,
    /// Words for an improvement and its opposite: in percent of the value before, and as a factor.
    percent: [&'static str; 2],
    factor: [&'static str; 2],
}

impl EffectWords {
    fn new(metric: &str, lower_is_better: bool) -> Self {
        let (percent, factor) = match unit_of(metric) {
            // A time that is 38 % longer is not work that is 38 % slower.
            "s" if lower_is_better => (["shorter", "longer"], ["faster", "slower"]),
            "s" => (["longer", "shorter"], ["longer", "shorter"]),
            "1/s" | "bytes/s" | "bit/s" if !lower_is_better => (["faster", "slower"], ["faster", "slower"]),
            _ => (["better", "worse"], ["better", "worse"]),
        };
        Self { lower_is_better, percent, factor }
    }

    fn of_trial(trial: &Trial) -> Self {
        Self::new(&trial.metric, trial.lower_is_better)
    }

    /// Returns the change of the value, as a share of the one before.
    fn change(self, ratio: f64) -> f64 {
        if self.lower_is_better { 1.0 / (1.0 + ratio).max(1e-6) - 1.0 } else { ratio }
    }
}

/// From this ratio on, an effect is stated as a factor; below, in percent.
const FACTOR: f64 = 10.0;

/// Returns the ratio of an effect; an infinite one counts as a thousand.
fn factor(ratio: f64) -> f64 {
    let times = ratio + 1.0;
    if times >= 1.0 { times } else { 1.0 / times.max(1e-6) }
}

/// Formats the size of an effect without direction: `4.7 %`, or `17×`.
fn size(ratio: f64, as_factor: bool, words: EffectWords) -> String {
    match factor(ratio) {
        _ if !as_factor => format!("{:.1} %", words.change(ratio).abs() * 100.0),
        times if times > 999.0 => "at least 1000×".to_owned(),
        times if times >= FACTOR => format!("{times:.0}×"),
        times => format!("{times:.1}×"),
    }
}

/// Formats an effect with its direction: `4.7 % slower`.
fn directed(ratio: f64, as_factor: bool, words: EffectWords) -> String {
    let [more, less] = if as_factor { words.factor } else { words.percent };
    format!("{} {}", size(ratio, as_factor, words), if ratio >= 0.0 { more } else { less })
}

/// Formats an effect without its interval, in a suitable unit.
fn effect_in_words(ratio: f64, words: EffectWords) -> String {
    directed(ratio, factor(ratio) >= FACTOR, words)
}

/// Formats an effect with its interval, all in one unit, the lower bound first.
fn with_interval(effect: &TrialEffect, words: EffectWords) -> String {
    let TrialEffect { better, low, high, .. } = *effect;
    let as_factor = [better, low, high].into_iter().any(|ratio| factor(ratio) >= FACTOR);
    let is_one_way =
        [better, low, high].iter().all(|ratio| *ratio >= 0.0) || [better, low, high].iter().all(|ratio| *ratio < 0.0);
    let bounds = if is_one_way {
        let (small, large) = if factor(low) <= factor(high) { (low, high) } else { (high, low) };
        format!("{} to {}", size(small, as_factor, words), size(large, as_factor, words))
    } else {
        format!("{} to {}", directed(low, as_factor, words), directed(high, as_factor, words))
    };
    let confidence = format!("{:.1}", (1.0 - effect.alpha) * 100.0);
    let confidence = confidence.trim_end_matches(".0");
    format!("{} ({confidence} % interval {bounds})", directed(better, as_factor, words))
}

/// Describes the metric in words.
fn measured(metric: &str) -> String {
    metric.strip_prefix("s, of: ").map_or_else(|| metric.to_owned(), |command| format!("run time of `{command}`"))
}

/// Formats the effect with its interval and p value.
fn better(effect: Option<&TrialEffect>, words: EffectWords) -> String {
    effect.map_or(String::new(), |effect| format!(" {}, p = {:.3}", with_interval(effect, words), effect.p))
}

/// Formats the result of an interrupted experiment: an estimate without interval, which would not have the planned number of
/// pairs.
pub(super) fn so_far(trial: &Trial) -> String {
    let (pairs, planned) = (trial.pairs.len(), trial.looks.last().copied().unwrap_or_default());
    let words = EffectWords::of_trial(trial);
    let better =
        trial.effect.as_ref().map_or(String::new(), |effect| format!("{} ", effect_in_words(effect.better, words)));
    format!("{better}over {pairs} of {planned} pairs, too few to prove anything")
}

/// Draws the values without the change and with it.
fn before_and_after(canvas: &mut Canvas, trial: &Trial) {
    let Some((before, after)) = trial.before_and_after() else { return };
    let quantity = |value| human::quantity(value, trial.unit());
    canvas.paragraph(
        2,
        4,
        &[plain("before → after: "), bold(format!("{} → {}", quantity(before), quantity(after))), dim(", medians")],
    );
}

fn draw(canvas: &mut Canvas, trial: &Trial, all: bool) {
    canvas.paragraph(0, 2, &[headline(trial), plain(": "), bold(trial.changes.join(" "))]);
    before_and_after(canvas, trial);
    if trial.interrupted {
        canvas.paragraph(2, 4, &[plain(so_far(trial)), dim(format!(" ({})", measured(&trial.metric)))]);
    } else if let Some(effect) = &trial.effect {
        let result = format!(
            "{}; {}, p = {:.3}; differences below {:.1} % count as noise.",
            with_interval(effect, EffectWords::of_trial(trial)),
            counted(trial),
            effect.p,
            effect.threshold * 100.0
        );
        canvas.paragraph(2, 4, &[plain(result), dim(format!(" Measured: {}.", measured(&trial.metric)))]);
    }
    if let Some((promise, measured)) = trial.promised.zip(trial.factor()).filter(|_| !trial.interrupted) {
        canvas.paragraph(2, 4, &promised(&promise, measured));
    }
    for guard in &trial.guards {
        watched(canvas, "guard", guard);
    }
    if let Some(mechanism) = &trial.mechanism {
        let word = if trial.is_mechanism_unconfirmed() { "mechanism unconfirmed" } else { "mechanism confirmed" };
        watched(canvas, word, mechanism);
    }
    if trial.evidence == TrialEvidence::BeforeAfter {
        let weaker = "weaker evidence: measured before and after, not alternating. Anything else that changed in between, such \
                      as load or caches, looks like an effect of the change";
        canvas.paragraph(2, 4, &[Piece::new(Ink::Yellow, weaker)]);
    }
    if trial.verdict != TrialVerdict::Helped {
        caveat(canvas, trial.caveat.as_deref());
    }
    if let Some(needed) = trial.pairs_needed {
        canvas.paragraph(2, 4, &[plain(format!("effect too small to detect (would need about {needed} pairs)"))]);
    }
    if let Some(detectable) = trial.detectable.filter(|_| all) {
        canvas.paragraph(
            2,
            4,
            &[dim(format!("an effect of {:.1} % would probably have been detected", detectable * 100.0))],
        );
    }
    let kept = match trial.kept {
        Some(id) => format!("kept, as change {id}"),
        None => "everything was rolled back".to_owned(),
    };
    canvas.paragraph(2, 4, &[plain(kept)]);
    if all {
        pairs(canvas, "Pairs without any change", &trial.noise, trial.lower_is_better);
        pairs(canvas, "Pairs without and with the change", &trial.pairs, trial.lower_is_better);
    }
}

/// Formats the gain that the finding promised next to the measured one.
fn promised(promise: &Promise, measured: f64) -> [Piece; 2] {
    let [factor, low, measured_factor] = [promise.factor, promise.low, measured].map(human::factor);
    let (least, bounds) = match promise.high.map(human::factor) {
        None => ("at least ", String::new()),
        Some(high) if high == low => ("", String::new()),
        Some(high) => ("", format!(" ({low} to {high})")),
    };
    let says = format!("promised: {least}{factor} times as fast{bounds}, measured: {measured_factor} times");
    let (ink, word) = if promise.is_kept_by(measured) { (Ink::Green, ", as promised") } else { (Ink::Yellow, "") };
    [plain(says), Piece::new(ink, word)]
}

/// Formats the number of pairs, and the interim looks.
fn counted(trial: &Trial) -> String {
    let pairs = trial.pairs.len();
    match (trial.evidence, trial.looks.as_slice()) {
        (TrialEvidence::BeforeAfter, _) => format!("{pairs} measurements before and after"),
        (TrialEvidence::Paired, [] | [_]) => format!("{pairs} pairs"),
        (TrialEvidence::Paired, looks) => {
            let looks: Vec<String> = looks.iter().map(ToString::to_string).collect();
            format!("{pairs} pairs (looked at after {})", looks.join(", "))
        }
    }
}

/// Draws an additional metric.
fn watched(canvas: &mut Canvas, role: &str, watched: &Watched) {
    let (ink, words) = verdict(watched.verdict);
    let line = [
        dim(format!("{role}: ")),
        plain(format!("{} ", watched.metric)),
        Piece::new(ink, words),
        plain(better(watched.effect.as_ref(), EffectWords::new(&watched.metric, watched.lower_is_better))),
    ];
    canvas.paragraph(2, 4, &line);
}

/// Draws a line for each pair: the values, and the improvement as a mark to the right of the middle.
fn pairs(canvas: &mut Canvas, title: &str, pairs: &[TrialPair], lower_is_better: bool) {
    if pairs.is_empty() {
        return;
    }
    heading(canvas, title);
    let gain =
        |pair: &TrialPair| if lower_is_better { pair.without / pair.with } else { pair.with / pair.without }.ln();
    let widest = pairs.iter().map(|pair| gain(pair).abs()).fold(f64::MIN_POSITIVE, f64::max);
    for pair in pairs {
        let order = if pair.with_first { "with first" } else { "without first" };
        let figures = format!("{} → {}", human::quantity(pair.without, ""), human::quantity(pair.with, ""));
        let line = [
            Piece::cell(Ink::Plain, figures, 20),
            plain("  "),
            Piece::cell(Ink::Bold, mark(gain(pair) / widest), PLOT),
            dim(format!("  {order}")),
        ];
        canvas.paragraph(2, 4, &line);
    }
}

/// Returns a plot of a mark between -1 and 1, with the middle drawn.
fn mark(at: f64) -> String {
    let half = PLOT / 2;
    let place = (half as f64 * (1.0 + at.clamp(-1.0, 1.0))).round() as usize;
    let column = |column: usize| match column {
        column if column == place => '●',
        column if column == half => '│',
        _ => '·',
    };
    (0..PLOT).map(column).collect()
}

/// Formats the result of trying all actions.
pub fn walk(walk: &Walk, style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    canvas.paragraph(0, 2, &[plain(&walk.summary), dim(format!(" ({})", walk.id))]);
    for (number, step) in walk.steps.iter().enumerate() {
        let mut line = vec![plain(format!("{}. ", number + 1)), bold(step.changes.join(" ")), plain(": ")];
        match (&step.trial, &step.skipped) {
            (Some(trial), _) if trial.interrupted => line.extend([headline(trial), plain(", "), plain(so_far(trial))]),
            (Some(trial), _) => {
                line.extend([headline(trial), plain(better(trial.effect.as_ref(), EffectWords::of_trial(trial)))])
            }
            (None, why) => line.push(dim(format!("not tried: {}", why.as_deref().unwrap_or("no reason is known")))),
        }
        canvas.paragraph(0, 3, &line);
    }
    if let (Some(together), Some((before, after))) = (&walk.together, walk.before_and_after()) {
        let figures =
            format!("{} → {}", human::quantity(before, together.unit()), human::quantity(after, together.unit()));
        let line = [
            plain("before → after: "),
            bold(figures),
            plain(", all that helped together, on new pairs: "),
            headline(together),
            plain(better(together.effect.as_ref(), EffectWords::of_trial(together))),
            dim(format!(" ({})", measured(&together.metric))),
        ];
        canvas.paragraph(0, 2, &line);
    }
    let is_helped = walk.steps.iter().any(|step| step.trial.as_ref().is_some_and(Trial::is_proven));
    let end = match walk.kept {
        Some(id) => plain(format!("kept, as change {id}: 'whyslow tune undo {id}' rolls it back")),
        None if walk.interrupted => Piece::new(Ink::Yellow, "interrupted: everything was rolled back"),
        None if is_helped => Piece::new(Ink::Yellow, "it was not confirmed on new pairs: everything was rolled back"),
        None => plain("nothing helped: everything was rolled back"),
    };
    canvas.paragraph(0, 2, &[end]);
    canvas.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_effect_is_said_as_people_say_it() {
        let rate = |ratio, metric: &str| effect_in_words(ratio, EffectWords::new(metric, false));
        let of = |ratio, metric: &str| effect_in_words(ratio, EffectWords::new(metric, true));
        assert_eq!(rate(0.25, "disk.read_rate@vda in bytes/s"), "25.0 % faster");
        assert_eq!(rate(-0.2, "disk.read_rate@vda in bytes/s"), "20.0 % slower");
        assert_eq!(rate(0.2, "as the command says, of: x in s"), "20.0 % better");
        assert_eq!(of(11.0, "s, of: x"), "12× faster");
        assert_eq!(of(-0.95, "s, of: x"), "20× slower");
        assert_eq!(of(5000.0, "s, of: x"), "at least 1000× faster");
    }

    #[test]
    fn a_change_is_in_percent_of_the_value_before() {
        let effect = |before: f64, after: f64, lower_is_better: bool| {
            let better = if lower_is_better { before / after } else { after / before } - 1.0;
            effect_in_words(better, EffectWords::new("s, of: x", lower_is_better))
        };
        assert_eq!(effect(327.0, 452.0, true), "38.2 % longer");
        assert_eq!(effect(452.0, 327.0, true), "27.7 % shorter");
        assert_eq!(effect(100.0, 150.0, false), "50.0 % longer");
        let worse = effect_in_words(100.0 / 150.0 - 1.0, EffectWords::new("cpu.iowait in ratio", true));
        assert_eq!(worse, "50.0 % worse");
    }

    #[test]
    fn an_interval_has_one_unit_and_its_smaller_bound_first() {
        let said = |better, low, high| {
            let effect = TrialEffect { better, low, high, alpha: 0.05, p: 0.031, threshold: 0.2 };
            with_interval(&effect, EffectWords::new("s, of: x", true))
        };
        assert_eq!(said(-0.941, -0.952, -0.875), "17× slower (95 % interval 8.0× to 21×)");
        assert_eq!(said(-0.2, -0.5, -0.1), "25.0 % longer (95 % interval 11.1 % to 100.0 %)");
        assert_eq!(said(0.25, 0.0, 1.0), "20.0 % shorter (95 % interval 0.0 % to 50.0 %)");
        assert_eq!(said(0.25, -0.2, 1.0), "20.0 % shorter (95 % interval 25.0 % longer to 50.0 % shorter)");
    }
}
