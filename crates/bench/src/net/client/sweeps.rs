//! Sweeps: which socket buffer, and which segment size, is enough.

use super::plan::{Plan, size};
use super::sizes::{Ladder, point};
use crate::error::Result;
use whyslow_model::bench::{NetLoad, Size, Sizes};

/// The smallest buffer looked at, and the largest.
const BUFFERS: (u32, u32) = (16 << 10, 256 << 20);
/// The smallest segment looked at: what every host takes, less headers (RFC 9293, 3.7.1).
const SMALLEST_SEGMENT: u32 = 536;
/// TCP_MAXSEG takes no more (MAX_TCP_WINDOW of include/net/tcp.h).
const LARGEST_SEGMENT: u32 = 32_767;

impl Plan<'_, '_> {
    /// The way up through socket buffers. Both ends' are of one size: which of them it is that holds a stream up is told by
    /// where its time goes.
    pub(super) fn buffers(&mut self) -> Result<()> {
        let Some(rtt) = self.alone()?.map(|latency| latency.min) else { return Ok(()) };
        let group = "socket buffers";
        let automatic = self.automatic(group, NetLoad { buffer: None, ..self.stream(self.direction(), 1) })?;
        let mut ladder = Ladder::new(BUFFERS.0, BUFFERS.1);
        while let Some(bytes) = ladder.next() {
            let load = NetLoad { buffer: Some(bytes), ..self.stream(self.direction(), 1) };
            let Some(run) = self.play_one(group, &format!("buffers of {}", size(bytes)), load)? else { break };
            let granted = [run.sender(), run.receiver()].map(|end| end.and_then(|end| end.streams.first()?.buffer));
            let Some(point) = point(bytes, run) else { break };
            // What it is called is what it is, not what was asked for.
            let least = granted.into_iter().flatten().min().map_or(bytes, |least| least.min(bytes.into()) as u32);
            ladder.add(Size { bytes: least, ..point });
            if least < bytes {
                ladder.cap();
                let words = "no larger socket buffers than these are granted (net.core.rmem_max, net.core.wmem_max)";
                self.session.caveats.push(format!("{words}: {}", size(least)));
            }
        }
        let mut sizes = ladder.sizes(automatic);
        sizes.product = most(&sizes).map(|bandwidth| bandwidth * rtt);
        self.found.buffers = Some(sizes).filter(|sizes| !sizes.points.is_empty());
        Ok(())
    }

    /// The way up through segment sizes.
    pub(super) fn segments(&mut self) -> Result<()> {
        let group = "segment sizes";
        let load = NetLoad { segment: None, ..self.stream(self.direction(), 1) };
        let automatic = self.automatic(group, load)?;
        let run = self.found.rounds.last().filter(|round| round.group == group).and_then(|round| round.runs.first());
        let mss = run.and_then(|run| run.sender()?.streams.first()?.mss);
        let Some(mss) = mss.filter(|&mss| mss > SMALLEST_SEGMENT) else { return Ok(()) };
        let mut ladder = Ladder::new(SMALLEST_SEGMENT, mss.min(LARGEST_SEGMENT));
        while let Some(bytes) = ladder.next() {
            let load = NetLoad { segment: Some(bytes), ..self.stream(self.direction(), 1) };
            let Some(run) = self.play_one(group, &format!("segments of {bytes} bytes"), load)? else { break };
            let Some(point) = point(bytes, run) else { break };
            ladder.add(point);
        }
        self.found.segments = Some(ladder.sizes(automatic)).filter(|sizes| !sizes.points.is_empty());
        Ok(())
    }

    /// What the kernel's own choice brings.
    fn automatic(&mut self, group: &str, load: NetLoad) -> Result<Option<f64>> {
        Ok(self.play_one(group, "as the kernel chooses", load)?.and_then(|run| run.bandwidth))
    }
}

/// The most bytes a second there were.
fn most(sizes: &Sizes) -> Option<f64> {
    sizes.points.iter().map(|point| point.bandwidth).chain(sizes.automatic).reduce(f64::max)
}
