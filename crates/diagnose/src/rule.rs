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
use whyslow_documents::diagnosis::{ActionKind, Gain};
use whyslow_documents::listing::{ActionInfo, EvidenceInfo, RuleInfo, split_set_value};

/// Invalid rule, with the location of the error.
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

/// A cause, judged in one way. The keys are those of the cause's file and of the variant (see `cause`).
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Finding id, `resource.cause`.
    #[serde(deserialize_with = "id")]
    pub(crate) id: String,
    /// Source file; `built in` for the rules in the program.
    #[serde(skip)]
    pub(crate) file: String,
    /// Name of the variant of its cause; empty for the default one.
    #[serde(default, rename = "name")]
    pub(crate) variant: String,
    /// Kind of entity that the rule judges.
    pub(crate) scope: Scope,
    /// Whether the rule is judged only on counts since boot, where the rules over an interval lack the time that they need.
    #[serde(default)]
    pub(crate) since_boot: bool,
    /// What is physically true when the rule holds, in one sentence.
    pub(crate) means: String,
    pub(crate) when: Expr,
    /// Share of the time lost. Rules over logs, which measure none, have `severity` instead.
    pub(crate) impact: Option<Expr>,
    /// Whether the impact is a lower bound.
    #[serde(default)]
    pub(crate) at_least: bool,
    /// Condition under which the impact is a lower bound, if not always.
    pub(crate) at_least_when: Option<Expr>,
    /// Meaning of the impact, where it is not the share of the time in which a task waited.
    pub(crate) how_bad: Option<Template>,
    /// Severity where no time was measured, 0..1.
    pub(crate) severity: Option<Expr>,
    /// The pressure that shows how long it has lasted.
    pub(crate) pressure: Option<Resource>,
    /// Duration in seconds, where no pressure shows it.
    pub(crate) lasted: Option<Expr>,
    /// Condition for high confidence; otherwise confidence is low.
    pub(crate) high: Option<Expr>,
    /// Condition for at least medium confidence.
    pub(crate) medium: Option<Expr>,
    /// Whether the subject of the finding is the machine.
    #[serde(default)]
    pub(crate) host_is_subject: bool,
    /// The finding in one or two sentences.
    pub(crate) summary: Template,
    /// Summary where no culprit is named, if it differs.
    pub(crate) summary_unattributed: Option<Template>,
    /// Numbers to show.
    pub(crate) evidence: Vec<EvidenceSpec>,
    /// Possible culprits: each measure in turn.
    #[serde(default)]
    pub(crate) culprits: Vec<CulpritSpec>,
    /// Other conditions that look the same.
    #[serde(default)]
    pub(crate) look_alikes: Vec<LookAlike>,
    /// Ids of its effects.
    #[serde(default)]
    pub(crate) explains: Vec<String>,
    /// Effects of this variant beside those of its cause, such as the cause itself on another subject.
    #[serde(default)]
    pub(crate) also_explains: Vec<String>,
    /// Effects of its cause that this variant does not show.
    #[serde(default)]
    pub(crate) does_not_explain: Vec<String>,
    /// Whether it explains them on any subject: a program that uses up the machine's memory affects every process.
    #[serde(default)]
    pub(crate) explains_all: bool,
    /// Share of each effect, by id, where comparing impacts would mislead: the part of the machine's CPUs that a process used.
    #[serde(default)]
    pub(crate) accounts_for: BTreeMap<String, Expr>,
    /// On-demand sources that are worth their cost once the rule is suspected to hold.
    #[serde(default)]
    pub(crate) asks: Vec<String>,
    /// Condition for suspicion, if that is not `when`.
    pub(crate) suspect: Option<Expr>,
    /// Recommended actions.
    #[serde(default)]
    pub(crate) actions: Vec<ActionSpec>,
    /// Kernel files, man pages and documents that the rule relies on.
    #[serde(default)]
    pub(crate) sources: Vec<String>,
}

/// A number to show, and what a healthy machine would show.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EvidenceSpec {
    pub(crate) signal: Spanned<String>,
    /// Defaults to the normal value of the signal.
    #[serde(default)]
    pub(crate) expected: String,
}

/// Candidates that may have used up the resource, and how each one's part is measured.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CulpritSpec {
    /// Kind of entity that a candidate is.
    pub(crate) scope: Scope,
    /// A candidate's part.
    pub(crate) by: Expr,
    /// Condition for a candidate to count.
    pub(crate) among: Option<Expr>,
    /// Total of all candidates, including those that are not visible. Shares refer to this total.
    #[serde(alias = "whole")]
    pub(crate) total: Option<Expr>,
    /// What the shares refer to, in words.
    pub(crate) of: String,
    /// Number of its threads or requests that wait; the sum over all but the first culprit is `culprit.others_wait`.
    pub(crate) waits: Option<Expr>,
    /// 1 for a candidate whose priority is already as low as an action would make it; the first culprit's share is
    /// `culprit.low_priority`.
    pub(crate) low_priority: Option<Expr>,
    /// The part of `by` that is buffered writes, which the kernel issues in its own name; the first culprit's share is
    /// `culprit.buffered`.
    pub(crate) buffered: Option<Expr>,
    /// Whether it is used only where the measures before it name no culprit.
    #[serde(default)]
    pub(crate) otherwise: bool,
    /// Reason why no culprit is named although every process was visible.
    #[serde(alias = "nobody")]
    pub(crate) unattributed: Option<Template>,
}

/// Another condition that looks the same.
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
    /// Tunables of the catalogue, as `whyslow tune` names them, and the values to set. A value that begins with `>` only raises
    /// the setting, number by number.
    #[serde(default, deserialize_with = "settings")]
    pub(crate) set: Vec<(Template, Template)>,
    /// How to prove that the change helps.
    pub(crate) trial: Option<TrialSpec>,
    #[serde(rename = "try")]
    pub(crate) command: Option<Template>,
    /// Expected improvement in numbers.
    pub(crate) expect: Option<Template>,
    /// Factor by which a quantity improves, computed from measurements. Precedes `expect`.
    pub(crate) gain: Option<GainSpec>,
    /// Condition for proposing the action.
    pub(crate) when: Option<Expr>,
}

/// The factor by which a quantity improves.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GainSpec {
    /// The quantity that improves, in the plural: `reads`.
    pub(crate) what: Template,
    pub(crate) factor: Expr,
    /// Bounds as multiples of the factor; they cover what the formula leaves out.
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Least and largest factor, where its inputs are known only within bounds.
    pub(crate) least: Option<Expr>,
    pub(crate) most: Option<Expr>,
    /// Condition under which only the least factor is known.
    pub(crate) at_least_when: Option<Expr>,
}

impl GainSpec {
    /// Returns the gain; `None` if an input is unknown or nothing is gained.
    pub(crate) fn gain(&self, context: &RuleContext<'_>) -> Option<Gain> {
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

/// Least factor that is worth promising, and largest ratio between its bounds.
const LEAST_GAIN: f64 = 1.05;
const WIDEST: f64 = 4.0;

/// How `whyslow try` measures a setting: the options `--metric`, `--guard` and `--moves`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TrialSpec {
    pub(crate) metric: Template,
    pub(crate) guard: Option<Template>,
    pub(crate) moves: Option<Template>,
    /// Whether the setting affects only processes and connections started afterwards.
    #[serde(default)]
    pub(crate) before: bool,
    /// Whether `whyslow` asks for confirmation before it changes the setting.
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
    /// Returns the command line that tries these changes.
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
    /// Describes the action for people.
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

    /// Returns the settings to change and their new values, without those that already have the value. Returns `None` if a name
    /// or value is unknown.
    pub(crate) fn settings(&self, context: &RuleContext<'_>, facts: &Facts) -> Option<BTreeMap<String, String>> {
        let set = self.set.iter().map(|(name, value)| Some((name.setting(context)?, value.setting(context)?)));
        let set: BTreeMap<String, String> = set.collect::<Option<_>>()?;
        let change = |(name, value): (String, String)| {
            // The settings were read in the observer's network namespace.
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

    /// Returns true if all settings that the action would change already have the value.
    pub(crate) fn is_in_force(&self, set: Option<&BTreeMap<String, String>>) -> bool {
        !self.set.is_empty() && set.is_some_and(BTreeMap::is_empty)
    }

    /// Returns the command that proves, makes or prepares the change: the one that the settings imply, else the one of the rule.
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

    /// Returns true if the action names the culprit.
    pub(crate) fn names_culprit(&self) -> bool {
        let gain = self.gain.as_ref().map(|gain| &gain.what);
        let texts = [Some(&self.text), self.command.as_ref(), self.expect.as_ref(), gain];
        let texts = texts.into_iter().flatten().chain(self.set.iter().flat_map(|(name, value)| [name, value]));
        texts.flat_map(Template::names).any(|name| name.starts_with("culprit"))
    }

    /// Returns true if its command or its settings name processes by PID.
    pub(crate) fn names_process(&self) -> bool {
        let is_number = |name: &String| name.ends_with(".pid") || name.ends_with(".pids");
        let mut templates = self.command.iter().chain(self.set.iter().map(|(name, _)| name));
        templates.any(|template| template.names().iter().any(is_number))
    }
}

/// Returns true if each network namespace has its own setting of this name.
fn is_of_network(name: &str) -> bool {
    name.starts_with("net.") || name.starts_with("nic.")
}

/// Raises each number in `now` to at least its counterpart in `least`; returns `least` if `now` has a different count of numbers
/// or other words.
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
    /// Whether to compile every expression and look up every name at once. Tests do that for the built-in files.
    pub(crate) is_checked: bool,
}

impl<'a> SourceText<'a> {
    /// Creates the source text of a user's file.
    pub(crate) fn checked(file: &'a str, text: &'a str) -> Self {
        Self { file, text, is_checked: true }
    }

    /// Creates the source text of a file that comes with the program.
    pub(crate) fn built_in(file: &'a str, text: &'a str) -> Self {
        Self { file, text, is_checked: false }
    }

    /// Parses the text as a table.
    pub(crate) fn table(self) -> Result<Spanned<DeTable<'a>>, RuleError> {
        DeTable::parse(self.text).map_err(|e| self.toml_error(&e))
    }

    /// Deserializes the text as a document.
    pub(crate) fn parse<T: DeserializeOwned>(&self) -> Result<T, RuleError> {
        toml::from_str(self.text).map_err(|e| self.toml_error(&e))
    }

    pub(crate) fn toml_error(&self, e: &toml::de::Error) -> RuleError {
        self.error(e.span().map_or(0, |span| span.start), e.message().replace('\n', " "))
    }

    pub(crate) fn error(&self, offset: usize, what: impl Into<String>) -> RuleError {
        let line = self.text.bytes().take(offset).filter(|b| *b == b'\n').count() + 1;
        RuleError { file: self.file.to_owned(), line, what: what.into() }
    }

    /// Checks that a text compiles, and that each name in it is a signal of one of these scopes, the usual value of one, or one
    /// of [`NAMES`].
    pub(crate) fn check(&self, names: SpannedNames, scopes: &[Scope]) -> Result<(), RuleError> {
        let (at, names) = names.map_err(|(at, what)| self.error(at, what))?;
        let is_known = |name: &str| find(usual_signal(name).unwrap_or(name), scopes).is_some();
        match names.iter().find(|n| !NAMES.contains(&n.as_str()) && !is_known(n)) {
            Some(unknown) => {
                let mut scopes: Vec<String> = scopes.iter().map(|s| s.name()).collect();
                scopes.dedup();
                Err(self.error(at, format!("there is no signal {unknown:?} in scope {}", scopes.join(" or "))))
            }
            None => Ok(()),
        }
    }

    /// Checks a single signal name in the same way.
    pub(crate) fn check_signal(&self, signal: &Spanned<String>, scopes: &[Scope]) -> Result<(), RuleError> {
        self.check(Ok((signal.span().start, BTreeSet::from([signal.get_ref().clone()]))), scopes)
    }
}

/// Finds the signal of this name in one of these scopes.
pub(crate) fn find(name: &str, scopes: &[Scope]) -> Option<&'static Signal> {
    scopes.iter().flat_map(|s| s.signals()).find(|s| s.name == name)
}

impl Rule {
    /// Returns true if the rule judges or blames entities of this kind.
    pub(crate) fn reads(&self, scope: Scope) -> bool {
        self.scope == scope || self.culprits.iter().any(|culprits| culprits.scope == scope)
    }

    /// Returns true if the impact is a lower bound.
    pub(crate) fn is_at_least(&self, context: &RuleContext<'_>) -> bool {
        self.at_least || self.at_least_when.as_ref().is_some_and(|when| when.holds(context))
    }

    /// Returns true if the summary or an action names the culprit.
    pub(crate) fn names_culprit(&self) -> bool {
        self.summary.names().contains("culprit") || self.actions.iter().any(ActionSpec::names_culprit)
    }

    /// Reads a rule from a table of a file.
    ///
    /// # Errors
    /// Fails if the rule lacks a field or has an unknown one, an expression does not compile, or a signal does not exist.
    pub(crate) fn read(source: &SourceText<'_>, table: Spanned<DeTable<'_>>) -> Result<Self, RuleError> {
        let at = table.span().start;
        let mut rule = Self::deserialize(toml::Deserializer::from(table)).map_err(|e| source.toml_error(&e))?;
        let also = std::mem::take(&mut rule.also_explains);
        rule.explains.extend(also);
        for effect in std::mem::take(&mut rule.does_not_explain) {
            let Some(at) = rule.explains.iter().position(|known| *known == effect) else {
                return Err(source.error(at, format!("does_not_explain: its cause does not explain {effect}")));
            };
            rule.explains.remove(at);
        }
        let scopes = [rule.scope, Scope::Host];
        for EvidenceSpec { signal, expected } in &mut rule.evidence {
            if let Some(known) = find(signal.get_ref(), &scopes).filter(|_| expected.is_empty()) {
                *expected = known.normal.text().into_owned();
            }
        }
        if source.is_checked {
            rule.check(source, at)?;
        }
        Ok(Self { file: source.file.to_owned(), ..rule })
    }

    /// Checks the rule's keys; the rule begins at byte offset `at` in its file.
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

    /// Iterates over the expressions that are evaluated for the subject.
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

    /// Iterates over all texts of the rule.
    pub(crate) fn templates(&self) -> impl Iterator<Item = &Template> {
        let own = [Some(&self.summary), self.summary_unattributed.as_ref(), self.how_bad.as_ref()];
        let reasons = self.culprits.iter().map(|culprit| culprit.unattributed.as_ref());
        let alike = self.look_alikes.iter().map(|alike| Some(&alike.text));
        let actions = self.actions.iter().flat_map(ActionSpec::templates);
        own.into_iter().chain(reasons).chain(alike).flatten().chain(actions)
    }

    /// Describes the rule for people.
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
