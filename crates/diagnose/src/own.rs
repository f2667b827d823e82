//! Quantities that users declare: `[[quantity]]` in a file of rules. Each is a signal of the entities of its family.

use crate::rule::{RuleError, SourceText};
use crate::scope::Scope;
use crate::signal::{Entity, Signal, of_quantity};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};
use toml::Spanned;
use toml::de::DeValue;
use whyslow_documents::baseline::Better;
use whyslow_model::window::Window;
use whyslow_quantities::Range;
use whyslow_quantities::own::{self, Own, OwnQuantity};

/// A quantity in a file of rules.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QuantitySpec {
    /// Public name, `SUBJECT.NAME`.
    name: String,
    /// Family of the catalogue: disk, interface, cpu, group, nfs, process, or one with a row for the machine.
    family: String,
    /// Unit of the value.
    unit: String,
    /// One phrase on what it is.
    meaning: String,
    /// Counters that make the amount: `read_time + write_time | transfer_time`.
    of: String,
    /// Counters that make the units; without them, the amount is per second.
    per: Option<String>,
    /// Values at which nobody would look twice.
    #[serde(default)]
    normal: NormalSpec,
    /// Direction that is better.
    better: Option<Better>,
    /// Whether baselines keep it.
    #[serde(default)]
    baseline: bool,
    /// Title of its chart, if it is to have one.
    chart: Option<String>,
}

/// What is normal: `normal = "words"`, or `normal = { below = 0.005, because = "words" }`.
#[derive(Deserialize)]
#[serde(untagged, expecting = "normal is words, or a table with below, above or near, and because")]
enum NormalSpec {
    Words(String),
    Below {
        below: f64,
        #[serde(default)]
        because: String,
    },
    Above {
        above: f64,
        #[serde(default)]
        because: String,
    },
    Near {
        near: f64,
        #[serde(default)]
        because: String,
    },
}

impl NormalSpec {
    fn range(&self) -> Option<Range> {
        match self {
            Self::Words(_) => None,
            Self::Below { below, .. } => Some(Range::Below(*below)),
            Self::Above { above, .. } => Some(Range::Above(*above)),
            Self::Near { near, .. } => Some(Range::NearZero(*near)),
        }
    }

    fn words(&self) -> &str {
        match self {
            Self::Words(words)
            | Self::Below { because: words, .. }
            | Self::Above { because: words, .. }
            | Self::Near { because: words, .. } => words,
        }
    }
}

impl Default for NormalSpec {
    fn default() -> Self {
        Self::Words(String::new())
    }
}

/// The signals of each scope with those that users declared.
static SIGNALS: RwLock<BTreeMap<Scope, &'static [Signal]>> = RwLock::new(BTreeMap::new());

/// Returns the signals of a scope, if users declared some of them.
pub(crate) fn signals(scope: Scope) -> Option<&'static [Signal]> {
    SIGNALS.read().unwrap_or_else(PoisonError::into_inner).get(&scope).copied()
}

/// Parses the quantities of a file.
///
/// # Errors
/// Returns what is wrong, and where.
pub(crate) fn parse(source: &SourceText<'_>, quantities: Spanned<DeValue<'_>>) -> Result<Vec<Own>, RuleError> {
    let at = quantities.span().start;
    let DeValue::Array(quantities) = quantities.into_inner() else {
        return Err(source.error(at, "quantity is not a list of tables: [[quantity]]"));
    };
    let parse = |quantity: Spanned<DeValue<'_>>| {
        let at = quantity.span().start;
        let spec = QuantitySpec::deserialize(toml::de::ValueDeserializer::from(quantity));
        let spec = spec.map_err(|e| source.toml_error(&e))?;
        parse_one(&spec).map_err(|what| source.error(at, what))
    };
    quantities.into_iter().map(parse).collect()
}

/// Declares quantities. Returns earlier ones of the same names, which they replace.
pub(crate) fn declare(new: &[Own]) -> Vec<Own> {
    let earlier = own::declare(new);
    collect();
    earlier
}

/// Undoes a declaration of quantities that replaced earlier ones.
pub(crate) fn undo(new: &[Own], earlier: &[Own]) {
    own::withdraw(new);
    declare(earlier);
}

/// Forgets a quantity that a test declared: others run in the same process.
#[cfg(test)]
pub(crate) fn forget(name: &str) {
    own::declared().into_iter().filter(|own| own.declaration.name == name).for_each(|own| undo(&[own], &[]));
}

fn parse_one(spec: &QuantitySpec) -> Result<Own, String> {
    if let Some(scope) = Scope::ALL.iter().find(|scope| scope.built_in_signals().iter().any(|s| s.name == spec.name)) {
        return Err(format!("whyslow itself has a signal {:?} in scope {}", spec.name, scope.name()));
    }
    let own = own::parse(&OwnQuantity {
        name: &spec.name,
        family: &spec.family,
        unit: &spec.unit,
        meaning: &spec.meaning,
        of: &spec.of,
        per: spec.per.as_deref(),
        range: spec.normal.range(),
        words: spec.normal.words(),
        better: spec.better,
        baseline: spec.baseline,
        chart: spec.chart.as_deref(),
    })?;
    if scope(&own).is_none() {
        return Err(format!(
            "rules cannot judge a quantity of {}: use disk, interface, cpu, group, nfs, process, or a family with one row for the \
             machine",
            spec.family
        ));
    }
    Ok(own)
}

/// Collects the signals of each scope. They are never freed: they change only when a file of rules is read.
fn collect() {
    let mut of_scope: BTreeMap<Scope, Vec<Signal>> = BTreeMap::new();
    for own in own::declared() {
        if let Some(scope) = scope(&own) {
            let signals = of_scope.entry(scope).or_insert_with(|| scope.built_in_signals().to_vec());
            signals.push(of_quantity(own.declaration));
        }
    }
    let leaked = of_scope.into_iter().map(|(scope, signals)| -> (Scope, &'static [Signal]) { (scope, signals.leak()) });
    *SIGNALS.write().unwrap_or_else(PoisonError::into_inner) = leaked.collect();
}

/// Returns the kind of entity that a quantity is a signal of.
fn scope(own: &Own) -> Option<Scope> {
    let family = own.declaration.family;
    match family.name {
        "disk" => Some(Scope::Disk),
        "interface" => Some(Scope::Interface),
        "cpu" => Some(Scope::Core),
        "group" => Some(Scope::Group),
        "nfs" => Some(Scope::Nfs),
        "process" => Some(Scope::Process),
        _ if family.key_columns.is_empty() => Some(Scope::Host),
        _ => None,
    }
}

/// Adds the values of the users' quantities to the entities of a window.
pub(crate) fn add(window: &Window, host: &mut Entity, entities: &mut BTreeMap<Scope, Vec<Entity>>) {
    for own in own::declared() {
        let Some(scope) = scope(&own) else { continue };
        let values = own::values(own.declaration, window);
        let of_machine = [&mut *host].into_iter().filter(|_| scope == Scope::Host);
        for entity in entities.get_mut(&scope).into_iter().flatten().chain(of_machine) {
            entity.signals = scope.signals();
            entity.values.resize(entity.signals.len(), None);
            let value = values.iter().find(|(key, _)| is_of(scope, key, entity));
            if let Some((_, value)) = value {
                entity.set(own.declaration.name, Some(*value));
            }
        }
    }
}

/// Returns true if a row with this key is the entity's.
fn is_of(scope: Scope, key: &str, entity: &Entity) -> bool {
    let subject = &entity.subject;
    match scope {
        Scope::Host => true,
        Scope::Core => subject.name.strip_prefix("cpu") == Some(key),
        Scope::Process => subject.pid.is_some_and(|pid| pid.to_string() == key),
        Scope::Interface => match &subject.netns {
            Some(ns) => key.strip_suffix(ns.as_str()).and_then(|key| key.strip_suffix('@')) == Some(&*subject.name),
            None => key == subject.name,
        },
        _ => key == subject.name,
    }
}
