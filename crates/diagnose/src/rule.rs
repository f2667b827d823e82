//! Rules: judgement over signals, as data.

use crate::expr::Expr;
use crate::facts::Facts;
use crate::rule_context::{NAMES, RuleContext};
use crate::scope::Scope;
use crate::signal::Signal;
use crate::since::Resource;
use crate::template::Template;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use toml::Spanned;
use whyslow_model::diagnosis::ActionKind;
use whyslow_model::rule::{RuleInfo, split_set_value};
use whyslow_model::shell::quoted;

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

/// A rule, ready to judge.
#[derive(Debug)]
pub struct Rule {
    pub(crate) id: String,
    pub(crate) file: String,
    /// Which of the built-in rules for its id: `queue` for ID.queue.toml, empty for ID.toml.
    pub(crate) variant: String,
    pub(crate) scope: Scope,
    pub(crate) means: String,
    pub(crate) when: Expr,
    /// The share of the time lost; of a rule over logs, which measure none, there may be none.
    pub(crate) impact: Option<Expr>,
    /// Whether that is the least that was lost.
    pub(crate) at_least: bool,
    /// What the impact is, where that is not the share of the time in which a task waited.
    pub(crate) how_bad: Option<Template>,
    /// How grave it is where no time was measured.
    pub(crate) severity: Option<Expr>,
    /// The pressure that shows how long it has lasted.
    pub(crate) pressure: Option<Resource>,
    /// How long it has lasted, in seconds, where no pressure shows that.
    pub(crate) lasted: Option<Expr>,
    pub(crate) high: Option<Expr>,
    pub(crate) medium: Option<Expr>,
    pub(crate) host_is_subject: bool,
    pub(crate) summary: Template,
    /// The same where nobody is named, if it reads differently then.
    pub(crate) summary_unattributed: Option<Template>,
    pub(crate) evidence: Vec<EvidenceSpec>,
    pub(crate) culprits: Vec<CulpritSpec>,
    pub(crate) look_alikes: Vec<LookAlike>,
    pub(crate) explains: Vec<String>,
    /// Whether it explains them on whatever they were found: what takes the machine's memory takes everybody's.
    pub(crate) explains_all: bool,
    /// Its share of what it explains, by id, where comparing impacts would not tell: a process' CPUs of the machine's.
    pub(crate) accounts_for: BTreeMap<String, Expr>,
    pub(crate) asks: Option<Asks>,
    pub(crate) actions: Vec<ActionSpec>,
    pub(crate) sources: Vec<String>,
}

/// Sources that look closer, and are worth their cost once the rule is suspected to hold.
#[derive(Debug)]
pub(crate) struct Asks {
    pub(crate) sources: Vec<String>,
    /// When it is suspected, where that is not when it holds.
    pub(crate) suspect: Option<Expr>,
}

/// One number to show, and what a machine that is well would show.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EvidenceSpec {
    pub(crate) signal: String,
    pub(crate) expected: String,
}

/// Who may have used the thing up, and how their part is weighed.
#[derive(Debug)]
pub(crate) struct CulpritSpec {
    pub(crate) scope: Scope,
    pub(crate) by: Expr,
    pub(crate) among: Option<Expr>,
    /// What all of them did together, those included that are not seen: of what each has a share.
    pub(crate) whole: Option<Expr>,
    pub(crate) of: String,
    /// How many of its threads or requests wait; of those that are not named first, the sum is `culprit.others_wait`.
    pub(crate) waits: Option<Expr>,
    /// What of `by` is buffered writes, which the kernel makes in its own name: the first one's share is `culprit.buffered`.
    pub(crate) buffered: Option<Expr>,
    /// Why nobody is named where everybody was seen and has no part.
    pub(crate) nobody: Option<Template>,
}

/// Something that looks the same and is not.
#[derive(Debug)]
pub(crate) struct LookAlike {
    pub(crate) text: Template,
    pub(crate) unless: Option<Expr>,
}

/// One change to propose.
#[derive(Debug)]
pub(crate) struct ActionSpec {
    pub(crate) kind: ActionKind,
    pub(crate) text: Template,
    /// Tunables of the catalogue, as `whyslow tune` names them, and the values to set. A value that begins with `>` only
    /// raises, number by number.
    pub(crate) set: Vec<(Template, Template)>,
    /// How to prove that it helps.
    pub(crate) trial: Option<TrialSpec>,
    pub(crate) command: Option<Template>,
    pub(crate) expect: Option<Template>,
    pub(crate) when: Option<Expr>,
}

/// What `whyslow try` measures a setting by.
#[derive(Debug)]
pub(crate) struct TrialSpec {
    pub(crate) metric: Template,
    pub(crate) guard: Option<Template>,
    pub(crate) moves: Option<Template>,
    /// The setting affects only processes started afterwards.
    pub(crate) before: bool,
    /// `whyslow` asks for a yes before it sets this.
    pub(crate) risky: bool,
}

impl TrialSpec {
    /// The command line that tries these changes.
    fn line(&self, changes: &str, context: &RuleContext<'_>) -> Option<String> {
        let yes = if self.risky { "--yes " } else { "" };
        let before = if self.before { " --before" } else { "" };
        let mut line = format!("whyslow try {yes}{changes}{before}");
        let metrics = [("metric", Some(&self.metric)), ("guard", self.guard.as_ref()), ("moves", self.moves.as_ref())];
        for (option, metric) in metrics {
            if let Some(metric) = metric {
                line += &format!(" --{option} {}", quoted(&metric.setting(context)?));
            }
        }
        Some(line)
    }
}
impl ActionSpec {
    /// The settings to change, with everything filled in; none where something is not known.
    pub(crate) fn settings(&self, context: &RuleContext<'_>, facts: &Facts) -> BTreeMap<String, String> {
        let set = self.set.iter().map(|(name, value)| Some((name.setting(context)?, value.setting(context)?)));
        let set: BTreeMap<String, String> = set.collect::<Option<_>>().unwrap_or_default();
        let change = |(name, value): (String, String)| match split_set_value(&value) {
            (least, true) => {
                let now = facts.setting(&name).unwrap_or_default();
                let value = raised(now, least);
                (value != now).then_some((name, value))
            }
            (_, false) => Some((name, value)),
        };
        set.into_iter().filter_map(change).collect()
    }

    /// The command that proves, makes or prepares it: what the settings imply, else the one the rule gives.
    pub(crate) fn command_line(&self, set: &BTreeMap<String, String>, context: &RuleContext<'_>) -> Option<String> {
        let changes: Vec<String> =
            set.iter().map(|(name, value)| format!("{}={}", quoted(name), quoted(value))).collect();
        match (&self.trial, &self.command) {
            (_, Some(command)) => command.command(context),
            _ if changes.is_empty() => None,
            (Some(trial), None) => trial.line(&changes.join(" "), context),
            (None, None) => Some(format!("whyslow tune set {}", changes.join(" "))),
        }
    }

    /// Whether it needs to know who is to blame.
    pub(crate) fn names_culprit(&self) -> bool {
        let texts = [Some(&self.text), self.command.as_ref(), self.expect.as_ref()];
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

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    id: Spanned<String>,
    scope: Scope,
    means: String,
    when: Spanned<String>,
    impact: Option<Spanned<String>>,
    #[serde(default)]
    at_least: bool,
    how_bad: Option<Spanned<String>>,
    severity: Option<Spanned<String>>,
    pressure: Option<Resource>,
    lasted: Option<Spanned<String>>,
    high: Option<Spanned<String>>,
    medium: Option<Spanned<String>>,
    #[serde(default)]
    host_is_subject: bool,
    summary: Spanned<String>,
    summary_unattributed: Option<Spanned<String>>,
    evidence: Vec<Spanned<EvidenceSpec>>,
    #[serde(default)]
    culprits: Vec<WrittenCulprit>,
    #[serde(default)]
    look_alikes: Vec<WrittenLookAlike>,
    #[serde(default)]
    explains: Vec<String>,
    #[serde(default)]
    explains_all: bool,
    #[serde(default)]
    accounts_for: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    asks: Vec<String>,
    suspect: Option<Spanned<String>>,
    #[serde(default)]
    actions: Vec<WrittenAction>,
    #[serde(default)]
    sources: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenCulprit {
    scope: Scope,
    by: Spanned<String>,
    among: Option<Spanned<String>>,
    whole: Option<Spanned<String>>,
    of: String,
    waits: Option<Spanned<String>>,
    buffered: Option<Spanned<String>>,
    nobody: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenLookAlike {
    text: Spanned<String>,
    unless: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenAction {
    kind: ActionKind,
    text: Spanned<String>,
    #[serde(default)]
    set: BTreeMap<Spanned<String>, Spanned<String>>,
    trial: Option<WrittenTrial>,
    #[serde(rename = "try")]
    command: Option<Spanned<String>>,
    expect: Option<Spanned<String>>,
    when: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenTrial {
    metric: Spanned<String>,
    guard: Option<Spanned<String>>,
    moves: Option<Spanned<String>>,
    #[serde(default)]
    before: bool,
    #[serde(default)]
    risky: bool,
}

/// Turns offsets into lines, and texts into expressions that only use signals in sight.
pub(crate) struct Reader<'a> {
    pub(crate) file: &'a str,
    pub(crate) text: &'a str,
}

impl Reader<'_> {
    fn error(&self, offset: usize, what: impl Into<String>) -> RuleError {
        let line = self.text.bytes().take(offset).filter(|b| *b == b'\n').count() + 1;
        RuleError { file: self.file.to_owned(), line, what: what.into() }
    }

    /// What the TOML parser says, with the line it says it of.
    pub(crate) fn toml(&self, error: &toml::de::Error) -> RuleError {
        self.error(error.span().map_or(0, |s| s.start), error.message().replace('\n', " "))
    }

    fn check(&self, at: usize, names: &BTreeSet<String>, scopes: &[Scope]) -> Result<(), RuleError> {
        match names.iter().find(|n| !NAMES.contains(&n.as_str()) && find(n, scopes).is_none()) {
            Some(unknown) => {
                let scopes: Vec<String> = scopes.iter().map(|s| s.name()).collect();
                Err(self.error(at, format!("there is no signal {unknown:?} in scope {}", scopes.join(" or "))))
            }
            None => Ok(()),
        }
    }

    pub(crate) fn expr(&self, source: &Spanned<String>, scopes: &[Scope]) -> Result<Expr, RuleError> {
        let at = source.span().start;
        let expr = Expr::compile(source.get_ref()).map_err(|e| self.error(at, e))?;
        self.check(at, &expr.names(), scopes)?;
        Ok(expr)
    }

    pub(crate) fn maybe(&self, source: Option<&Spanned<String>>, scopes: &[Scope]) -> Result<Option<Expr>, RuleError> {
        source.map(|s| self.expr(s, scopes)).transpose()
    }

    pub(crate) fn template(&self, source: &Spanned<String>, scopes: &[Scope]) -> Result<Template, RuleError> {
        let at = source.span().start;
        let template = Template::parse(source.get_ref()).map_err(|e| self.error(at, e))?;
        self.check(at, &template.names(), scopes)?;
        Ok(template)
    }
}

/// The signal of this name in one of these scopes.
pub(crate) fn find(name: &str, scopes: &[Scope]) -> Option<&'static Signal> {
    scopes.iter().flat_map(|s| s.signals()).find(|s| s.name == name)
}

impl Rule {
    /// Whether its summary or an action needs a name.
    pub(crate) fn names_culprit(&self) -> bool {
        self.summary.names().contains("culprit") || self.actions.iter().any(ActionSpec::names_culprit)
    }

    /// Reads a rule's file.
    ///
    /// # Errors
    /// Where the text is no TOML, lacks a field or has one too many, an expression does not compile, or a signal does
    /// not exist.
    pub fn parse(file: &str, text: &str) -> Result<Self, RuleError> {
        let reader = Reader { file, text };
        let written: RuleFile = toml::from_str(text).map_err(|e| reader.toml(&e))?;
        let sight = [written.scope, Scope::Host];
        if !written.id.get_ref().split_once('.').is_some_and(|(a, b)| !a.is_empty() && !b.is_empty()) {
            return Err(reader.error(written.id.span().start, "an id has the form resource.cause"));
        }
        let mut evidence = Vec::new();
        for spec in written.evidence {
            reader.check(spec.span().start, &BTreeSet::from([spec.get_ref().signal.clone()]), &sight)?;
            evidence.push(spec.into_inner());
        }
        let culprits = written.culprits.iter().map(|c| {
            let scopes = [c.scope, Scope::Host];
            Ok(CulpritSpec {
                scope: c.scope,
                by: reader.expr(&c.by, &scopes)?,
                among: reader.maybe(c.among.as_ref(), &scopes)?,
                whole: reader.maybe(c.whole.as_ref(), &sight)?,
                of: c.of.clone(),
                waits: reader.maybe(c.waits.as_ref(), &scopes)?,
                buffered: reader.maybe(c.buffered.as_ref(), &scopes)?,
                nobody: c.nobody.as_ref().map(|text| reader.template(text, &sight)).transpose()?,
            })
        });
        let look_alikes = written.look_alikes.iter().map(|l| {
            Ok(LookAlike { text: reader.template(&l.text, &sight)?, unless: reader.maybe(l.unless.as_ref(), &sight)? })
        });
        let actions = written.actions.iter().map(|a| {
            let set =
                a.set.iter().map(|(name, value)| Ok((reader.template(name, &sight)?, reader.template(value, &sight)?)));
            let maybe = |text: Option<&Spanned<String>>| text.map(|text| reader.template(text, &sight)).transpose();
            let trial = a.trial.as_ref().map(|trial| {
                Ok(TrialSpec {
                    metric: reader.template(&trial.metric, &sight)?,
                    guard: maybe(trial.guard.as_ref())?,
                    moves: maybe(trial.moves.as_ref())?,
                    before: trial.before,
                    risky: trial.risky,
                })
            });
            Ok(ActionSpec {
                kind: a.kind,
                text: reader.template(&a.text, &sight)?,
                set: set.collect::<Result<_, RuleError>>()?,
                trial: trial.transpose()?,
                command: maybe(a.command.as_ref())?,
                expect: maybe(a.expect.as_ref())?,
                when: reader.maybe(a.when.as_ref(), &sight)?,
            })
        });
        if let Some(suspect) = written.suspect.as_ref().filter(|_| written.asks.is_empty()) {
            return Err(reader.error(suspect.span().start, "suspect needs asks: it says when to turn those sources on"));
        }
        if written.impact.is_none() && written.severity.is_none() {
            return Err(
                reader.error(0, "neither impact (the time lost) nor severity (where no time is measured) is given")
            );
        }
        let shares = written.accounts_for.iter().map(|(id, share)| {
            if !written.explains.contains(id) {
                return Err(reader.error(share.span().start, format!("accounts_for has {id:?}, but explains does not")));
            }
            Ok((id.clone(), reader.expr(share, &sight)?))
        });
        let accounts_for = shares.collect::<Result<_, RuleError>>()?;
        let suspect = reader.maybe(written.suspect.as_ref(), &sight)?;
        Ok(Self {
            asks: (!written.asks.is_empty()).then_some(Asks { sources: written.asks, suspect }),
            when: reader.expr(&written.when, &sight)?,
            impact: reader.maybe(written.impact.as_ref(), &sight)?,
            at_least: written.at_least,
            how_bad: written.how_bad.as_ref().map(|text| reader.template(text, &sight)).transpose()?,
            severity: reader.maybe(written.severity.as_ref(), &sight)?,
            pressure: written.pressure,
            lasted: reader.maybe(written.lasted.as_ref(), &sight)?,
            high: reader.maybe(written.high.as_ref(), &sight)?,
            medium: reader.maybe(written.medium.as_ref(), &sight)?,
            summary: reader.template(&written.summary, &sight)?,
            summary_unattributed: written
                .summary_unattributed
                .as_ref()
                .map(|text| reader.template(text, &sight))
                .transpose()?,
            culprits: culprits.collect::<Result<_, RuleError>>()?,
            look_alikes: look_alikes.collect::<Result<_, RuleError>>()?,
            actions: actions.collect::<Result<_, RuleError>>()?,
            evidence,
            id: written.id.into_inner(),
            file: file.to_owned(),
            variant: String::new(),
            scope: written.scope,
            means: written.means,
            host_is_subject: written.host_is_subject,
            explains: written.explains,
            explains_all: written.explains_all,
            accounts_for,
            sources: written.sources,
        })
    }

    /// As people see it.
    pub fn info(&self) -> RuleInfo {
        let sight = [self.scope, Scope::Host];
        let source = |expr: &Option<Expr>| expr.as_ref().map_or_else(String::new, |e| e.source().to_owned());
        let mut names = self.when.names();
        names.extend([&self.impact, &self.severity].into_iter().flatten().flat_map(Expr::names));
        names.extend(self.evidence.iter().map(|e| e.signal.clone()));
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
            asks: self.asks.as_ref().map_or_else(Vec::new, |asks| asks.sources.clone()),
            signals: names.iter().filter_map(|n| find(n, &sight)).map(Signal::info).collect(),
            sources: self.sources.clone(),
        }
    }
}
