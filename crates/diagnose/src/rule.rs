//! Rules: judgement over signals, as data.

use crate::expr::{Expr, SpannedNames};
use crate::facts::Facts;
use crate::rule_context::{NAMES, RuleContext, usual_signal};
use crate::scope::Scope;
use crate::signal::Signal;
use crate::since::Resource;
use crate::template::{Template, quoted};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use toml::Spanned;
use toml::de::DeTable;
use whyslow_model::diagnosis::{ActionKind, Gain};
use whyslow_model::listing::{ActionInfo, EvidenceInfo, RuleInfo, split_set_value};

/// A rule that cannot be used, with the place that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// The file.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong there.
    pub what: String,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.what)
    }
}

impl std::error::Error for RuleError {}

/// A rule: a cause, judged in one way. Its keys are those of the cause's file and of the variant (see `cause`).
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The finding's id, `resource.cause`.
    #[serde(deserialize_with = "id")]
    pub(crate) id: String,
    /// The file it is from; `built in` for those in the program.
    #[serde(skip)]
    pub(crate) file: String,
    /// The name of the variant among those of its cause; empty for the usual one.
    #[serde(default, rename = "name")]
    pub(crate) variant: String,
    /// The kind of thing that it is judged on.
    pub(crate) scope: Scope,
    /// Whether it is judged on counts since boot only, where the rules over an interval lack the time that they need.
    #[serde(default)]
    pub(crate) since_boot: bool,
    /// What is physically true when it holds, in one sentence.
    pub(crate) means: String,
    /// The condition.
    pub(crate) when: Expr,
    /// The share of the time lost. Rules over logs, which measure none, have `severity` instead.
    pub(crate) impact: Option<Expr>,
    /// Whether that is the least that was lost.
    #[serde(default)]
    pub(crate) at_least: bool,
    /// When it is the least, if not always.
    pub(crate) at_least_when: Option<Expr>,
    /// What the impact is, where that is not the share of the time in which a task waited.
    pub(crate) how_bad: Option<Template>,
    /// How grave it is where no time was measured, 0..1.
    pub(crate) severity: Option<Expr>,
    /// The pressure that shows how long it has lasted.
    pub(crate) pressure: Option<Resource>,
    /// How long it has lasted, in seconds, where no pressure shows that.
    pub(crate) lasted: Option<Expr>,
    /// When confidence is high; otherwise it is low.
    pub(crate) high: Option<Expr>,
    /// When confidence is at least medium.
    pub(crate) medium: Option<Expr>,
    /// Whether the subject of the finding is the machine.
    #[serde(default)]
    pub(crate) host_is_subject: bool,
    /// The finding in one sentence or two.
    pub(crate) summary: Template,
    /// The same where no culprit is named, if it reads differently then.
    pub(crate) summary_unattributed: Option<Template>,
    /// The numbers to show.
    pub(crate) evidence: Vec<EvidenceSpec>,
    /// Who may have caused it: each measure in turn.
    #[serde(default)]
    pub(crate) culprits: Vec<CulpritSpec>,
    /// What looks the same and is not.
    #[serde(default)]
    pub(crate) look_alikes: Vec<LookAlike>,
    /// The ids of its effects.
    #[serde(default)]
    pub(crate) explains: Vec<String>,
    /// Effects of this variant beside those of its cause, such as the cause itself on another subject.
    #[serde(default)]
    pub(crate) also_explains: Vec<String>,
    /// Whether it explains them on any subject: a program that takes the machine's memory takes everyone's.
    #[serde(default)]
    pub(crate) explains_all: bool,
    /// Its share of each effect, by id, where comparing impacts would mislead: the CPUs that a process used of the machine's.
    #[serde(default)]
    pub(crate) accounts_for: BTreeMap<String, Expr>,
    /// On-demand sources that are worth their cost once the rule is suspected to hold.
    #[serde(default)]
    pub(crate) asks: Vec<String>,
    /// When it is suspected, if that is not `when`.
    pub(crate) suspect: Option<Expr>,
    /// What to do.
    #[serde(default)]
    pub(crate) actions: Vec<ActionSpec>,
    /// Kernel files, man pages and documents that it rests on.
    #[serde(default)]
    pub(crate) sources: Vec<String>,
}

/// A number to show, and what a healthy machine would show.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EvidenceSpec {
    pub(crate) signal: Spanned<String>,
    /// If not given, what is normal for the signal.
    #[serde(default)]
    pub(crate) expected: String,
}

/// Who may have used up the resource, and how each one's part is measured.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CulpritSpec {
    /// The kind of thing a candidate is.
    pub(crate) scope: Scope,
    /// A candidate's part.
    pub(crate) by: Expr,
    /// Which candidates count.
    pub(crate) among: Option<Expr>,
    /// What all of them did together, including those that are not seen. Shares are of this total.
    #[serde(alias = "whole")]
    pub(crate) total: Option<Expr>,
    /// What the shares are of, in words.
    pub(crate) of: String,
    /// How many of its threads or requests wait; the sum over all but the first culprit is `culprit.others_wait`.
    pub(crate) waits: Option<Expr>,
    /// 1 for a candidate whose priority is as low as an action would make it; the first culprit's share is
    /// `culprit.low_priority`.
    pub(crate) low_priority: Option<Expr>,
    /// The part of `by` that is buffered writes, which the kernel makes in its own name; the first culprit's share is
    /// `culprit.buffered`.
    pub(crate) buffered: Option<Expr>,
    /// Whether it is used only where the measures before it name nobody.
    #[serde(default)]
    pub(crate) otherwise: bool,
    /// Why no one is named although everyone was seen.
    #[serde(alias = "nobody")]
    pub(crate) unattributed: Option<Template>,
}

/// Something that looks the same and is not.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LookAlike {
    pub(crate) text: Template,
    pub(crate) unless: Option<Expr>,
}

/// A change or a command to propose.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ActionSpec {
    pub(crate) kind: ActionKind,
    pub(crate) text: Template,
    /// Tunables of the catalogue, as `whyslow tune` names them, and the values to set. A value that begins with `>` only
    /// raises, number by number.
    #[serde(default, deserialize_with = "settings")]
    pub(crate) set: Vec<(Template, Template)>,
    /// How to prove that it helps.
    pub(crate) trial: Option<TrialSpec>,
    #[serde(rename = "try")]
    pub(crate) command: Option<Template>,
    /// The improvement in numbers.
    pub(crate) expect: Option<Template>,
    /// How many times as good a quantity becomes, computed from what was measured. Precedes `expect`.
    pub(crate) gain: Option<GainSpec>,
    /// When to propose it.
    pub(crate) when: Option<Expr>,
}

/// By how much a quantity improves.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GainSpec {
    /// What improves, in the plural: `reads`.
    pub(crate) what: Template,
    pub(crate) factor: Expr,
    /// How far the bounds are from the factor, as shares of it: what the formula leaves out.
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// The factor where what it is computed from is known only within bounds: the least and the most of it.
    pub(crate) least: Option<Expr>,
    pub(crate) most: Option<Expr>,
    /// When only the least is known.
    pub(crate) at_least_when: Option<Expr>,
}

impl GainSpec {
    /// The gain; `None` where something it is computed from is not known, or nothing is gained.
    pub(crate) fn of(&self, context: &RuleContext<'_>) -> Option<Gain> {
        let factor = self.factor.number(context)?;
        let bound = |expr: &Option<Expr>| expr.as_ref().map_or(Some(factor), |expr| expr.number(context));
        let (least, most) = (bound(&self.least)?.min(factor), bound(&self.most)?.max(factor));
        let is_at_least = self.at_least_when.as_ref().is_some_and(|when| when.holds(context));
        let (factor, high) = if is_at_least { (least, None) } else { (factor, Some(self.high * most)) };
        let low = (self.low * least).max(1.0);
        let is_worth_it = factor >= LEAST_GAIN && high.is_none_or(|high| high <= WIDEST * low);
        Some(Gain { what: self.what.known(context)?, factor, low, high }).filter(|_| is_worth_it)
    }

    fn expressions(&self) -> impl Iterator<Item = &Expr> {
        [&self.least, &self.most, &self.at_least_when].into_iter().flatten().chain([&self.factor])
    }
}

/// The least factor that is worth a promise, and the most that its bounds may be apart.
const LEAST_GAIN: f64 = 1.05;
const WIDEST: f64 = 4.0;

/// What `whyslow try` measures a setting by: the options `--metric`, `--guard` and `--moves`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TrialSpec {
    pub(crate) metric: Template,
    pub(crate) guard: Option<Template>,
    pub(crate) moves: Option<Template>,
    /// The setting affects only processes and connections started afterwards.
    #[serde(default)]
    pub(crate) before: bool,
    /// `whyslow` asks for a yes before it sets this.
    #[serde(default)]
    pub(crate) risky: bool,
}

fn id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let id = String::deserialize(deserializer)?;
    match id.split_once('.') {
        Some((resource, cause)) if !resource.is_empty() && !cause.is_empty() => Ok(id),
        _ => Err(D::Error::custom("an id has the form resource.cause")),
    }
}

fn settings<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(Template, Template)>, D::Error> {
    let set = BTreeMap::<Spanned<String>, Template>::deserialize(deserializer)?;
    set.into_iter().map(|(name, value)| Ok((Template::spanned(&name).map_err(D::Error::custom)?, value))).collect()
}

impl TrialSpec {
    /// The command line that tries these changes.
    fn line(&self, changes: &str, gain: Option<&Gain>, context: &RuleContext<'_>) -> Option<String> {
        let yes = if self.risky { "--yes " } else { "" };
        let before = if self.before { " --before" } else { "" };
        let mut line = format!("whyslow try {yes}{changes}{before}");
        let metrics = [("metric", Some(&self.metric)), ("guard", self.guard.as_ref()), ("moves", self.moves.as_ref())];
        for (option, metric) in metrics {
            if let Some(metric) = metric {
                line += &format!(" --{option} {}", quoted(&metric.setting(context)?));
            }
        }
        if let Some(Gain { factor, low, high, .. }) = gain {
            let high = high.map_or_else(String::new, |high| format!("{high:.2}"));
            line += &format!(" --promised {factor:.2}:{low:.2}:{high}");
        }
        Some(line)
    }
}

impl EvidenceSpec {
    fn info(&self) -> EvidenceInfo {
        EvidenceInfo { signal: self.signal.get_ref().clone(), expected: self.expected.clone() }
    }
}

impl ActionSpec {
    /// As people see it.
    fn info(&self) -> ActionInfo {
        ActionInfo {
            kind: self.kind,
            text: self.text.described(),
            set: self.set.iter().map(|(name, value)| (name.described(), value.described())).collect(),
            expect: self.expect.as_ref().map_or_else(String::new, Template::described),
            when: self.when.as_ref().map_or_else(String::new, |when| when.source().to_owned()),
        }
    }

    fn templates(&self) -> impl Iterator<Item = &Template> {
        let gain = self.gain.as_ref().map(|gain| &gain.what);
        let own = [Some(&self.text), self.command.as_ref(), self.expect.as_ref(), gain].into_iter().flatten();
        let trial =
            self.trial.iter().flat_map(|trial| [Some(&trial.metric), trial.guard.as_ref(), trial.moves.as_ref()]);
        own.chain(self.set.iter().flat_map(|(name, value)| [name, value])).chain(trial.flatten())
    }

    /// The settings to change and their new values, without those that have the value already. `None` if a name or value is
    /// unknown.
    pub(crate) fn settings(&self, context: &RuleContext<'_>, facts: &Facts) -> Option<BTreeMap<String, String>> {
        let set = self.set.iter().map(|(name, value)| Some((name.setting(context)?, value.setting(context)?)));
        let set: BTreeMap<String, String> = set.collect::<Option<_>>()?;
        let change = |(name, value): (String, String)| {
            // What is read are the settings of the observer's network namespace.
            let is_read = context.is_in_own_namespace() || !is_of_network(&name);
            let now = facts.setting(&name).filter(|_| is_read).unwrap_or_default();
            let value = match split_set_value(&value) {
                (least, true) => raised(now, least),
                (value, false) => value.to_owned(),
            };
            (value != now).then_some((name, value))
        };
        Some(set.into_iter().filter_map(change).collect())
    }

    /// Whether all settings that it would change have the value already.
    pub(crate) fn is_in_force(&self, set: Option<&BTreeMap<String, String>>) -> bool {
        !self.set.is_empty() && set.is_some_and(BTreeMap::is_empty)
    }

    /// The command that proves, makes or prepares it: what the settings imply, else the one the rule gives.
    pub(crate) fn command_line(
        &self,
        set: &BTreeMap<String, String>,
        gain: Option<&Gain>,
        context: &RuleContext<'_>,
    ) -> Option<String> {
        let changes: Vec<String> =
            set.iter().map(|(name, value)| format!("{}={}", quoted(name), quoted(value))).collect();
        let line = match (&self.trial, &self.command) {
            (_, Some(command)) => return command.command(context),
            _ if changes.is_empty() => return None,
            (Some(trial), None) => trial.line(&changes.join(" "), gain, context)?,
            (None, None) => format!("whyslow tune set {}", changes.join(" ")),
        };
        let is_anywhere = !set.keys().any(|name| is_of_network(name));
        Some(if is_anywhere { line } else { context.in_its_namespace()? + &line })
    }

    /// Whether it names the culprit.
    pub(crate) fn names_culprit(&self) -> bool {
        let gain = self.gain.as_ref().map(|gain| &gain.what);
        let texts = [Some(&self.text), self.command.as_ref(), self.expect.as_ref(), gain];
        let texts = texts.into_iter().flatten().chain(self.set.iter().flat_map(|(name, value)| [name, value]));
        texts.flat_map(Template::names).any(|name| name.starts_with("culprit"))
    }

    /// Whether its command or its settings are of processes, by their numbers.
    pub(crate) fn names_process(&self) -> bool {
        let is_number = |name: &String| name.ends_with(".pid") || name.ends_with(".pids");
        let mut templates = self.command.iter().chain(self.set.iter().map(|(name, _)| name));
        templates.any(|template| template.names().iter().any(is_number))
    }
}

/// Whether each network namespace has a setting of this name of its own.
fn is_of_network(name: &str) -> bool {
    name.starts_with("net.") || name.starts_with("nic.")
}

/// Each of the numbers in `now`, raised to at least its counterpart in `least`; `least` if `now` has other numbers or none.
fn raised(now: &str, least: &str) -> String {
    let numbers = |text: &str| text.split_whitespace().map(|word| word.parse().ok()).collect::<Option<Vec<u64>>>();
    match (numbers(now), numbers(least)) {
        (Some(now), Some(least)) if now.len() == least.len() => {
            let larger: Vec<String> = now.iter().zip(&least).map(|(now, least)| now.max(least).to_string()).collect();
            larger.join(" ")
        }
        _ => least.to_owned(),
    }
}

/// The text of a file, for errors with a line.
#[derive(Clone, Copy)]
pub(crate) struct SourceText<'a> {
    pub(crate) file: &'a str,
    pub(crate) text: &'a str,
    /// Whether every expression in it is compiled and every name looked up at once. Tests do that with those that come with the program.
    pub(crate) is_checked: bool,
}

impl<'a> SourceText<'a> {
    /// A user's file.
    pub(crate) fn checked(file: &'a str, text: &'a str) -> Self {
        Self { file, text, is_checked: true }
    }

    /// A file that comes with the program.
    pub(crate) fn built_in(file: &'a str, text: &'a str) -> Self {
        Self { file, text, is_checked: false }
    }

    /// Reads it as a table.
    pub(crate) fn table(self) -> Result<Spanned<DeTable<'a>>, RuleError> {
        DeTable::parse(self.text).map_err(|e| self.toml_error(&e))
    }

    /// Reads a document.
    pub(crate) fn parse<T: DeserializeOwned>(&self) -> Result<T, RuleError> {
        toml::from_str(self.text).map_err(|e| self.toml_error(&e))
    }

    fn toml_error(&self, e: &toml::de::Error) -> RuleError {
        self.error(e.span().map_or(0, |span| span.start), e.message().replace('\n', " "))
    }

    pub(crate) fn error(&self, offset: usize, what: impl Into<String>) -> RuleError {
        let line = self.text.bytes().take(offset).filter(|b| *b == b'\n').count() + 1;
        RuleError { file: self.file.to_owned(), line, what: what.into() }
    }

    /// Checks that a text compiles, and that each name that it reads is a signal of one of these scopes, the usual value of one, or one
    /// of [`NAMES`].
    pub(crate) fn check(&self, names: SpannedNames, scopes: &[Scope]) -> Result<(), RuleError> {
        let (at, names) = names.map_err(|(at, what)| self.error(at, what))?;
        let is_known = |name: &str| find(usual_signal(name).unwrap_or(name), scopes).is_some();
        match names.iter().find(|n| !NAMES.contains(&n.as_str()) && !is_known(n)) {
            Some(unknown) => {
                let scopes: Vec<String> = scopes.iter().map(|s| s.name()).collect();
                Err(self.error(at, format!("there is no signal {unknown:?} in scope {}", scopes.join(" or "))))
            }
            None => Ok(()),
        }
    }

    /// The same of a signal that is named alone.
    pub(crate) fn check_signal(&self, signal: &Spanned<String>, scopes: &[Scope]) -> Result<(), RuleError> {
        self.check(Ok((signal.span().start, BTreeSet::from([signal.get_ref().clone()]))), scopes)
    }
}

/// The signal of this name in one of these scopes.
pub(crate) fn find(name: &str, scopes: &[Scope]) -> Option<&'static Signal> {
    scopes.iter().flat_map(|s| s.signals()).find(|s| s.name == name)
}

impl Rule {
    /// Whether it judges or blames things of this kind.
    pub(crate) fn reads(&self, scope: Scope) -> bool {
        self.scope == scope || self.culprits.iter().any(|culprits| culprits.scope == scope)
    }

    /// Whether its impact is the least that was lost.
    pub(crate) fn is_at_least(&self, context: &RuleContext<'_>) -> bool {
        self.at_least || self.at_least_when.as_ref().is_some_and(|when| when.holds(context))
    }

    /// Whether its summary or an action needs a name.
    pub(crate) fn names_culprit(&self) -> bool {
        self.summary.names().contains("culprit") || self.actions.iter().any(ActionSpec::names_culprit)
    }

    /// Reads one from a table of a file.
    ///
    /// # Errors
    /// Where it lacks a field or has one too many, an expression does not compile, or a signal does not exist.
    pub(crate) fn read(source: &SourceText<'_>, table: Spanned<DeTable<'_>>) -> Result<Self, RuleError> {
        let at = table.span().start;
        let mut rule = Self::deserialize(toml::Deserializer::from(table)).map_err(|e| source.toml_error(&e))?;
        let also = std::mem::take(&mut rule.also_explains);
        rule.explains.extend(also);
        let scopes = [rule.scope, Scope::Host];
        for EvidenceSpec { signal, expected } in &mut rule.evidence {
            if let Some(known) = find(signal.get_ref(), &scopes).filter(|_| expected.is_empty()) {
                known.normal.clone_into(expected);
            }
        }
        if source.is_checked {
            rule.check(source, at)?;
        }
        Ok(Self { file: source.file.to_owned(), ..rule })
    }

    /// Checks what its keys say; it begins at an offset in its file.
    fn check(&self, source: &SourceText<'_>, at: usize) -> Result<(), RuleError> {
        let scopes = [self.scope, Scope::Host];
        self.expressions()
            .map(Expr::spanned_names)
            .chain(self.templates().map(Template::spanned_names))
            .try_for_each(|names| source.check(names, &scopes))?;
        for EvidenceSpec { signal, expected } in &self.evidence {
            source.check_signal(signal, &scopes)?;
            if expected.is_empty() {
                let name = signal.get_ref();
                let what =
                    format!("nothing is declared as normal for {name}: {{ signal = {name:?}, expected = \"...\" }}");
                return Err(source.error(signal.span().start, what));
            }
        }
        for culprit in &self.culprits {
            let optional = [&culprit.among, &culprit.waits, &culprit.low_priority, &culprit.buffered];
            for expr in optional.into_iter().flatten().chain([&culprit.by]) {
                source.check(expr.spanned_names(), &[culprit.scope, Scope::Host])?;
            }
        }
        if let Some(suspect) = self.suspect.as_ref().filter(|_| self.asks.is_empty()) {
            return Err(source.error(suspect.at, "suspect needs asks: it says when to turn those sources on"));
        }
        if self.impact.is_none() && self.severity.is_none() {
            return Err(
                source.error(at, "neither impact (the time lost) nor severity (where no time is measured) is given")
            );
        }
        if let Some((id, share)) = self.accounts_for.iter().find(|(id, _)| !self.explains.contains(id)) {
            return Err(source.error(share.at, format!("accounts_for has {id:?}, but explains does not")));
        }
        Ok(())
    }

    /// Its expressions over the subject.
    fn expressions(&self) -> impl Iterator<Item = &Expr> {
        let own =
            [&self.impact, &self.at_least_when, &self.severity, &self.lasted, &self.high, &self.medium, &self.suspect];
        let totals = self.culprits.iter().map(|culprit| &culprit.total);
        let exceptions = self.look_alikes.iter().map(|alike| &alike.unless);
        let conditions = self.actions.iter().map(|action| &action.when);
        let gains = self.actions.iter().filter_map(|action| action.gain.as_ref()).flat_map(GainSpec::expressions);
        let optional = own.into_iter().chain(totals).chain(exceptions).chain(conditions).flatten();
        [&self.when].into_iter().chain(self.accounts_for.values()).chain(gains).chain(optional)
    }

    /// All of its texts.
    pub(crate) fn templates(&self) -> impl Iterator<Item = &Template> {
        let own = [Some(&self.summary), self.summary_unattributed.as_ref(), self.how_bad.as_ref()];
        let reasons = self.culprits.iter().map(|culprit| culprit.unattributed.as_ref());
        let alike = self.look_alikes.iter().map(|alike| Some(&alike.text));
        let actions = self.actions.iter().flat_map(ActionSpec::templates);
        own.into_iter().chain(reasons).chain(alike).flatten().chain(actions)
    }

    /// As people see it.
    pub fn info(&self) -> RuleInfo {
        let sight = [self.scope, Scope::Host];
        let source = |expr: &Option<Expr>| expr.as_ref().map_or_else(String::new, |e| e.source().to_owned());
        let mut names = self.when.names();
        names.extend([&self.impact, &self.severity].into_iter().flatten().flat_map(Expr::names));
        names.extend(self.evidence.iter().map(|e| e.signal.get_ref().clone()));
        names.extend(self.look_alikes.iter().filter_map(|l| l.unless.as_ref()).flat_map(Expr::names));
        RuleInfo {
            id: self.id.clone(),
            file: self.file.clone(),
            variant: self.variant.clone(),
            means: self.means.clone(),
            scope: self.scope.name(),
            when: self.when.source().to_owned(),
            impact: source(&self.impact),
            severity: source(&self.severity),
            look_alikes: self.look_alikes.iter().map(|l| l.text.described()).collect(),
            explains: self.explains.clone(),
            asks: self.asks.clone(),
            evidence: self.evidence.iter().map(EvidenceSpec::info).collect(),
            actions: self.actions.iter().map(ActionSpec::info).collect(),
            signals: names.iter().filter_map(|n| find(n, &sight)).copied().collect(),
            sources: self.sources.clone(),
        }
    }
}
