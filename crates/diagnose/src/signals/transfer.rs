//! Transfers that somebody timed, compared with one another.

use crate::signal::{Entity, over, signals};
use whyslow_model::catalogue::Transfer;
use whyslow_model::diagnosis::Subject;
use whyslow_model::window::Window;

/// What the signals of a transfer are computed from.
pub struct Timed<'w> {
    transfer: &'w Transfer,
    /// The fastest transfer of the same tool from the same place.
    best: &'w Transfer,
}

impl Timed<'_> {
    /// Time that the fastest transfer's rate would have saved.
    fn lost(&self) -> Option<f64> {
        over(self.transfer.rate.get(), self.best.rate.get()).map(|part| 1.0 - part)
    }

    /// Bytes over time, where no rate was printed.
    fn seconds(&self) -> Option<f64> {
        self.transfer.time.get().map(|ns| ns / 1e9)
    }
}

signals! { t: &Timed<'_>;
    "timed.tool" "text" "what measured it", "the command", "output of dd, iperf" => t.transfer.tool.get();
    "timed.rate" "bytes/s" "bytes a second", "bytes / time", "output of dd, iperf" => t.transfer.rate.get();
    "timed.bits" "bit/s" "the same in bits", "bytes x 8 / time", "output of dd, iperf" => t.transfer.rate.get().map(|r| r * 8.0);
    "timed.bytes" "bytes" "bytes moved", "as printed", "output of dd, iperf" => t.transfer.bytes.get();
    "timed.seconds" "s" "how long it took", "as printed", "output of dd, iperf" => t.seconds();
    "timed.block" "bytes" "bytes asked for at a time", "bs=", "output of dd, iperf" => t.transfer.block.get();
    "timed.window" "bytes" "socket buffer of the smaller end", "TCP window size", "output of dd, iperf" => t.transfer.window.get();
    "timed.segment" "bytes" "largest segment; 8948 says jumbo frames on both ends", "MSS size", "output of dd, iperf" => t.transfer.segment.get();
    "timed.delay" "s" "the round trip at which this buffer allows just this rate", "buffer / rate", "output of dd, iperf" => over(t.transfer.window.get(), t.transfer.rate.get());
    "timed.best_rate" "bytes/s" "the fastest transfer of the same kind", "max(bytes / time)", "output of dd, iperf" => t.best.rate.get();
    "timed.best_block" "bytes" "bytes that one asked for at a time", "bs=", "output of dd, iperf" => t.best.block.get();
    "timed.lost" "ratio" "share of its time that the fastest one's rate would have saved", "1 - rate / fastest rate", "output of dd, iperf" => t.lost();
}

/// Every transfer.
pub fn entities(window: &Window) -> Vec<Entity> {
    let all = window.newest::<Transfer>();
    let same = |a: &Transfer, b: &Transfer| a.tool.get() == b.tool.get() && a.what.get() == b.what.get();
    all.values()
        .map(|transfer| {
            let others = all.values().filter(|other| same(transfer, other) && other.rate.get().is_some());
            let best = others.max_by(|a, b| a.rate.get().unwrap_or(0.0).total_cmp(&b.rate.get().unwrap_or(0.0)));
            // One that has not run yet tells its buffer all the same.
            let best = best.unwrap_or(transfer);
            let kind = if transfer.tool.get().is_some_and(|tool| tool.starts_with("iperf")) {
                "connection"
            } else {
                "process"
            };
            Entity::new(Subject::new(kind, transfer.transfer.to_string()), read(&Timed { transfer, best }))
        })
        .collect()
}
