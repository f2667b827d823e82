//! Differences between two readings of an entity, with the rules of [`Window`](whyslow_model::window::Window).

use whyslow_model::catalogue::Metric;
use whyslow_model::value::Value;
use whyslow_model::window;

/// Returns true if both readings are of the same entity, and not of another one with the same name, judged by the kernel's number
/// for it. `metrics` describes the values.
pub fn is_same_entity<'m>(metrics: impl Iterator<Item = &'m Metric>, before: &[Value], now: &[Value]) -> bool {
    let mut pairs = metrics.zip(before.iter().zip(now)).filter(|(metric, _)| metric.identifies);
    pairs.all(|(_, pair)| match pair {
        (Value::State(before), Value::State(now)) => {
            before.get().zip(now.get()).is_none_or(|(before, now)| before == now)
        }
        _ => true,
    })
}

/// Returns the growth of a counter; `None` if it is unknown or the counter was reset.
pub fn growth(metric: &Metric, before: &Value, now: &Value) -> Option<f64> {
    let (Value::Counter(before), Value::Counter(now)) = (before, now) else { return None };
    window::growth(before.get()?, now.get()?, metric.wraps_at)
}
