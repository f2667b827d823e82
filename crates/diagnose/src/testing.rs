//! Helpers shared by unit tests.

use whyslow_model::snapshot::Snapshot;
use whyslow_model::window::Window;

pub const SECOND: u64 = 1_000_000_000;

/// Returns samples at these seconds; `fill` writes the values that the counters have reached by then.
pub fn window(seconds: impl IntoIterator<Item = u64>, fill: impl Fn(u64, &mut Snapshot)) -> Window {
    let sample = |t: u64| {
        let mut s = Snapshot { boot_ns: (t + 1) * SECOND, ..Snapshot::default() };
        fill(t, &mut s);
        s.sort();
        s
    };
    Window::new(seconds.into_iter().map(sample).collect())
}
