//! Conditions and formulas of rules, in CEL, over signals that may be unknown.
//!
//! CEL's own error semantics are three-valued logic: reading a name that has no value is an error, `false && error` is false,
//! `true || error` is true, and any other operation on the error yields the error. So 'unknown' needs no code here: it is the
//! error. (<https://github.com/cel-expr/cel-spec/blob/master/doc/langdef.md#logical-operators>)

use cel::common::ast::{EntryExpr, Expr as Node};
use cel::common::types::{CelDouble, CelString};
use cel::common::value::CowVal;
use cel::context::VariableResolver;
use cel::{Context, Env, IdedExpr, Program, Value};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, LazyLock, OnceLock};
use toml::Spanned;
use whyslow_documents::diagnosis::Reading;

/// Result of a condition; unknown if a signal that it needs is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Truth {
    True,
    False,
    Unknown,
}

/// Source of the signals of an expression.
pub trait SignalLookup: Send + Sync {
    /// Returns the value of a signal, `None` if it is unknown.
    fn signal(&self, name: &str) -> Option<&Reading>;
}

/// An expression, compiled on first use: most of the expressions of all rules are never evaluated.
pub struct Expr {
    source: String,
    /// Byte offset of its start in its file.
    pub at: usize,
    program: OnceLock<Result<Program, String>>,
}

/// The names that a text reads, and the offset of its start in its file; or what is wrong with it there.
pub(crate) type SpannedNames = Result<(usize, BTreeSet<String>), (usize, String)>;

impl<'de> Deserialize<'de> for Expr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let source = Spanned::<String>::deserialize(deserializer)?;
        Ok(Self { at: source.span().start, ..Self::new(source.get_ref()) })
    }
}

static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

static FUNCTIONS: LazyLock<Context<'static, 'static>> = LazyLock::new(|| {
    let mut context = Context::with_env(Arc::clone(&ENV));
    context.add_function("min", |a: f64, b: f64| a.min(b)).expect("`min` is not allowed");
    context.add_function("max", |a: f64, b: f64| a.max(b)).expect("`max` is not allowed");
    context
});

impl Expr {
    /// Creates an expression that may not compile: see [`spanned_names`](Self::spanned_names).
    pub fn new(source: &str) -> Self {
        Self { source: source.to_owned(), at: 0, program: OnceLock::new() }
    }

    /// Returns the program, or the message of CEL's parser on one line.
    fn program(&self) -> Result<&Program, &str> {
        let compile =
            || ENV.compile(&self.source).map_err(|e| e.to_string().split_whitespace().collect::<Vec<_>>().join(" "));
        self.program.get_or_init(compile).as_ref().map_err(String::as_str)
    }

    /// Returns the text that it was compiled from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the signals that it reads; none if it does not compile.
    pub fn names(&self) -> BTreeSet<String> {
        self.checked_names().unwrap_or_default()
    }

    /// Returns the signals that it reads, or why it does not compile.
    pub(crate) fn checked_names(&self) -> Result<BTreeSet<String>, String> {
        let mut names = BTreeSet::new();
        collect_names(self.program()?.expression(), &[], &mut names);
        Ok(names)
    }

    /// Returns the signals that it reads, and the offset of its start.
    pub(crate) fn spanned_names(&self) -> SpannedNames {
        self.checked_names().map(|names| (self.at, names)).map_err(|what| (self.at, what))
    }

    /// Returns true if it certainly holds.
    pub fn holds(&self, signals: &dyn SignalLookup) -> bool {
        self.truth(signals) == Truth::True
    }

    /// Returns true if it certainly holds or certainly does not.
    pub fn is_known(&self, signals: &dyn SignalLookup) -> bool {
        self.truth(signals) != Truth::Unknown
    }

    /// Evaluates it as a condition.
    fn truth(&self, signals: &dyn SignalLookup) -> Truth {
        match self.evaluate(signals) {
            Some(Value::Bool(true)) => Truth::True,
            Some(Value::Bool(false)) => Truth::False,
            _ => Truth::Unknown,
        }
    }

    /// Returns its value as a number, `None` if that is unknown or not finite.
    pub fn number(&self, signals: &dyn SignalLookup) -> Option<f64> {
        let number = match self.evaluate(signals)? {
            Value::Float(f) => f,
            Value::Int(i) => i as f64,
            Value::UInt(u) => u as f64,
            _ => return None,
        };
        number.is_finite().then_some(number)
    }

    fn evaluate(&self, signals: &dyn SignalLookup) -> Option<Value> {
        let resolver = Resolver(signals);
        let mut context = FUNCTIONS.new_inner_scope();
        context.set_variable_resolver(&resolver);
        Value::resolve(self.program().ok()?.expression(), &context).ok()
    }
}

impl fmt::Debug for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Expr({:?})", self.source)
    }
}

struct Resolver<'a>(&'a dyn SignalLookup);

impl VariableResolver for Resolver<'_> {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        Some(match self.0.signal(variable)? {
            Reading::Number(n) => CowVal::owned(CelDouble::from(*n)),
            Reading::Text(t) => CowVal::owned(CelString::from(t.clone())),
        })
    }
}

/// Collects the dotted names that an expression reads. A name is a chain of selections that ends in an identifier; it is not a
/// signal where an enclosing comprehension binds that identifier.
fn collect_names(node: &IdedExpr, bound: &[&str], names: &mut BTreeSet<String>) {
    if let Some(name) = dotted(&node.expr) {
        if !bound.contains(&name.split('.').next().unwrap_or_default()) {
            names.insert(name);
        }
        return;
    }
    match &node.expr {
        Node::Call(call) => {
            call.target.iter().for_each(|n| collect_names(n, bound, names));
            call.args.iter().for_each(|n| collect_names(n, bound, names));
        }
        Node::Select(select) => collect_names(&select.operand, bound, names),
        Node::List(list) => list.elements.iter().for_each(|n| collect_names(n, bound, names)),
        Node::Map(map) => map.entries.iter().for_each(|e| collect_entry(&e.expr, bound, names)),
        Node::Struct(fields) => fields.entries.iter().for_each(|e| collect_entry(&e.expr, bound, names)),
        Node::Comprehension(over) => {
            [&over.iter_range, &over.accu_init].into_iter().for_each(|n| collect_names(n, bound, names));
            let own = [&*over.iter_var, &*over.accu_var].into_iter().chain(over.iter_var2.as_deref());
            let bound: Vec<&str> = bound.iter().copied().chain(own).collect();
            let inside = [&over.loop_cond, &over.loop_step, &over.result];
            inside.into_iter().for_each(|n| collect_names(n, &bound, names));
        }
        Node::Unspecified | Node::Ident(_) | Node::Literal(_) => {}
    }
}

fn collect_entry(entry: &EntryExpr, bound: &[&str], names: &mut BTreeSet<String>) {
    match entry {
        EntryExpr::MapEntry(entry) => {
            [&entry.key, &entry.value].into_iter().for_each(|n| collect_names(n, bound, names));
        }
        EntryExpr::StructField(field) => collect_names(&field.value, bound, names),
    }
}

fn dotted(node: &Node) -> Option<String> {
    match node {
        Node::Ident(name) => Some(name.clone()),
        Node::Select(select) => Some(format!("{}.{}", dotted(&select.operand.expr)?, select.field)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    impl SignalLookup for HashMap<&str, Reading> {
        fn signal(&self, name: &str) -> Option<&Reading> {
            self.get(name)
        }
    }

    fn signals() -> HashMap<&'static str, Reading> {
        HashMap::from([
            ("disk.queue", Reading::Number(4.5)),
            ("psi.io.some", Reading::Number(0.5)),
            ("disk.scheduler", Reading::Text("bfq".into())),
        ])
    }

    fn truth(source: &str) -> Truth {
        Expr::new(source).truth(&signals())
    }

    #[test]
    fn what_could_not_be_seen_is_unknown_not_false() {
        assert_eq!(truth("disk.queue > 4.0"), Truth::True);
        assert_eq!(truth("disk.queue > 4"), Truth::True);
        assert_eq!(truth("disk.queue > 5.0"), Truth::False);
        assert_eq!(truth("disk.unseen > 5.0"), Truth::Unknown);
        assert_eq!(truth("disk.unseen > 5.0 && disk.queue > 5.0"), Truth::False);
        assert_eq!(truth("disk.queue > 5.0 && disk.unseen > 5.0"), Truth::False);
        assert_eq!(truth("disk.unseen > 5.0 || disk.queue > 4.0"), Truth::True);
        assert_eq!(truth("disk.unseen > 5.0 && disk.queue > 4.0"), Truth::Unknown);
        assert_eq!(truth("!(disk.unseen > 5.0)"), Truth::Unknown);
        assert_eq!(truth("disk.scheduler == 'bfq'"), Truth::True);
    }

    #[test]
    fn formulas_come_to_numbers() {
        let number = |s: &str| Expr::new(s).number(&signals());
        assert_eq!(number("min(psi.io.some, disk.queue) * 2.0"), Some(1.0));
        assert_eq!(number("disk.unseen"), None);
        assert_eq!(number("disk.queue / 0.0"), None);
        assert_eq!(number("1"), Some(1.0));
    }

    #[test]
    fn the_names_it_reads_are_known_before_it_runs() {
        let names = Expr::new("max(a.b, 1.0) > 2.0 && c.d.e in ['x', f]").names();
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["a.b", "c.d.e", "f"]);
    }

    #[test]
    fn names_inside_maps_and_comprehensions_are_known_and_what_those_bind_is_none() {
        let names = |source: &str| Expr::new(source).names().into_iter().collect::<Vec<_>>().join(" ");
        assert_eq!(names("{'a': foo.bar, key: 1.0}['a'] > 2.0"), "foo.bar key");
        assert_eq!(names("xs.all(x, foo > x && x.y > z)"), "foo xs z");
        assert_eq!(names("[1.0, a].exists(x, [b].all(y, x > y && c > 0.0))"), "a b c");
        assert_eq!(names("xs.map(x, x * x.scale).size() > 0 && x > 1.0"), "x xs");
        assert_eq!(names("xs.filter(x, x > d).size() > 0"), "d xs");
    }

    #[test]
    fn nonsense_is_refused_on_one_line() {
        let nonsense = Expr::new("disk.queue >");
        let (_, error) = nonsense.spanned_names().unwrap_err();
        assert!(!error.is_empty() && !error.contains('\n'), "{error:?}");
        assert!(!nonsense.is_known(&signals()));
    }
}
