//! Sweeps over socket buffer and segment sizes: which size full bandwidth needs.

use super::benchmark::NetBenchmark;
use crate::Result;
use crate::plateau::{PlateauSample, PlateauSweep, is_gain};
use whyslow_documents::bench::{NetEnd, NetLoad, NetRun, Size, Sizes};
use whyslow_model::human;

/// Share of the best bandwidth that is enough.
const ENOUGH: f64 = 0.95;
/// Minimum gain from the smallest to the best size, as a multiple of the noise.
const TIMES_NOISE: f64 = 2.0;
const BUFFERS: (u32, u32) = (16 << 10, 256 << 20);
/// Segment size that every host accepts, without headers (RFC 9293, 3.7.1).
const MIN_SEGMENT: u32 = 536;
/// Limit of TCP_MAXSEG (MAX_TCP_WINDOW of include/net/tcp.h).
const MAX_SEGMENT: u32 = 32_767;

impl NetBenchmark<'_, '_> {
    /// Sweeps the socket buffers of both ends together; the breakdown of a stream's time shows which of them limits it.
    pub(super) fn buffers(&mut self) -> Result<()> {
        let Some(rtt) = self.idle_latency()?.map(|latency| latency.min) else { return Ok(()) };
        let group = "socket buffers";
        let automatic = self.automatic(group, NetLoad { buffer: None, ..self.stream(self.direction(), 1) })?;
        let mut sweep = PlateauSweep::new(BUFFERS.0, BUFFERS.1, ENOUGH);
        while let Some(bytes) = sweep.next() {
            let load = NetLoad { buffer: Some(bytes), ..self.stream(self.direction(), 1) };
            let name = format!("buffers of {}", human::bytes(bytes.into()));
            let Some(run) = self.run_one(group, &name, load)? else { break };
            let granted = [run.sender(), run.receiver()].map(|end| end.and_then(|end| end.streams.first()?.buffer));
            let Some(point) = point(bytes, run) else { break };
            // Record the granted size, which may be smaller than the requested one.
            let granted = granted.into_iter().flatten().min().map_or(bytes, |least| least.min(bytes.into()) as u32);
            sweep.add(Size { bytes: granted, ..point });
            if granted < bytes {
                sweep.cap();
                let granted = human::bytes(granted.into());
                let limits = "net.core.rmem_max, net.core.wmem_max";
                self.session.add_caveat(&format!("the kernel grants socket buffers of at most {granted} ({limits})"));
            }
        }
        let mut sizes = sizes(sweep, automatic);
        let most = sizes.points.iter().map(|point| point.bandwidth).chain(sizes.automatic).reduce(f64::max);
        sizes.product = most.map(|bandwidth| bandwidth * rtt);
        self.found.buffers = Some(sizes).filter(|sizes| !sizes.points.is_empty());
        Ok(())
    }

    pub(super) fn segments(&mut self) -> Result<()> {
        let group = "segment sizes";
        let load = NetLoad { segment: None, ..self.stream(self.direction(), 1) };
        let automatic = self.automatic(group, load)?;
        let run = self.found.rounds.last().filter(|round| round.group == group).and_then(|round| round.runs.first());
        let mss = run.and_then(|run| run.sender()?.streams.first()?.mss);
        let Some(mss) = mss.filter(|&mss| mss > MIN_SEGMENT) else { return Ok(()) };
        let mut sweep = PlateauSweep::new(MIN_SEGMENT, mss.min(MAX_SEGMENT), ENOUGH);
        while let Some(bytes) = sweep.next() {
            let load = NetLoad { segment: Some(bytes), ..self.stream(self.direction(), 1) };
            let Some(run) = self.run_one(group, &format!("segments of {bytes} bytes"), load)? else { break };
            let Some(point) = point(bytes, run) else { break };
            sweep.add(point);
        }
        self.found.segments = Some(sizes(sweep, automatic)).filter(|sizes| !sizes.points.is_empty());
        Ok(())
    }

    /// Measures the bandwidth with the size that the kernel chooses.
    fn automatic(&mut self, group: &str, load: NetLoad) -> Result<Option<f64>> {
        Ok(self.run_one(group, "kernel default", load)?.and_then(|run| run.bandwidth))
    }
}

impl PlateauSample for Size {
    fn size(&self) -> u32 {
        self.bytes
    }

    fn value(&self) -> f64 {
        self.bandwidth
    }
}

fn point(bytes: u32, run: &NetRun) -> Option<Size> {
    let cost = |end: Option<&NetEnd>| end.and_then(NetEnd::cost_per_byte);
    let (send_cost, receive_cost) = (cost(run.sender()), cost(run.receiver()));
    Some(Size { bytes, bandwidth: run.bandwidth?, send_cost, receive_cost })
}

fn sizes(sweep: PlateauSweep<Size>, automatic: Option<f64>) -> Sizes {
    let enough = sweep.samples.iter().find(|point| sweep.is_enough(point)).filter(|_| size_matters(&sweep));
    let needed = enough.map(|point| point.bytes);
    // If only the largest size is enough, an even larger one might be better.
    let open = needed.is_some() && needed == sweep.samples.last().map(|last| last.bytes);
    Sizes { automatic, needed, product: None, open, points: sweep.samples }
}

/// Returns whether bandwidth depends on the size beyond noise. A larger size should never reduce bandwidth; if it does,
/// that is the noise.
fn size_matters(sweep: &PlateauSweep<Size>) -> bool {
    let (points, best) = (&sweep.samples, sweep.best());
    let Some(first) = points.first() else { return false };
    let drop = |(at, point): (usize, &Size)| {
        let least = points[at..].iter().map(|larger| larger.bandwidth).fold(f64::INFINITY, f64::min);
        1.0 - least / point.bandwidth
    };
    let noise = points.iter().enumerate().filter(|(_, point)| point.bandwidth > 0.0).map(drop).fold(0.0, f64::max);
    is_gain(first.bandwidth, best) && 1.0 - first.bandwidth / best > TIMES_NOISE * noise
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates a path on which a buffer moves its size per round trip, up to the capacity of the link.
    fn measured(product: u32, max: u32) -> (Sizes, Vec<u32>) {
        let (mut sweep, mut tried) = (PlateauSweep::new(16 << 10, max, ENOUGH), Vec::new());
        while let Some(bytes) = sweep.next() {
            tried.push(bytes);
            let bandwidth = f64::from(bytes.min(product)) * 50.0;
            sweep.add(Size { bytes, bandwidth, ..Size::default() });
        }
        (sizes(sweep, None), tried)
    }

    #[test]
    fn the_buffer_needed_is_the_bandwidth_delay_product() {
        for product in [20_000, 100_000, 250_000, 1_000_000, 5_000_000] {
            let (sizes, tried) = measured(product, 64 << 20);
            let needed = f64::from(sizes.needed.unwrap());
            let ratio = needed / f64::from(product);
            assert!((0.95..1.25).contains(&ratio), "{product}: {needed}, tried {tried:?}");
            assert!(!sizes.open);
        }
    }

    #[test]
    fn the_sweep_ends_when_further_sizes_tell_nothing() {
        assert_eq!(measured(1, 64 << 20).1, [16384, 32768, 65536]);
        assert_eq!(measured(65536, 64 << 20).1, [16384, 32768, 65536, 131072, 262144, 49152, 57344]);
    }

    #[test]
    fn a_need_at_the_largest_size_is_open() {
        let (sizes, tried) = measured(1 << 30, 100_000);
        assert_eq!(tried[..4], [16384, 32768, 65536, 100_000]);
        assert!(sizes.open);
        assert_eq!(sizes.needed, Some(100_000));
    }

    #[test]
    fn noise_does_not_make_a_size_needed() {
        let found = |bandwidths: &[f64]| {
            let mut sweep = PlateauSweep::new(MIN_SEGMENT, 9000, ENOUGH);
            for (&bandwidth, n) in bandwidths.iter().zip(1..) {
                sweep.add(Size { bytes: 268 << n, bandwidth, ..Size::default() });
            }
            sizes(sweep, None)
        };
        // All equal; noise; more noise than effect.
        for flat in [&[100.0, 100.0, 100.0][..], &[104.0, 96.0, 105.0, 99.0], &[80.0, 110.0, 85.0, 112.0]] {
            assert_eq!((found(flat).needed, found(flat).open), (None, false), "{flat:?}");
        }
        assert_eq!(found(&[50.0, 100.0, 98.0, 101.0]).needed, Some(1072));
    }
}
