//! Samples running streams from another thread.

use super::socket::{path_mtu, tcp_info};
use super::test_stream::{StreamHandle, StreamRole};
use whyslow_documents::bench::{NetStream, SampleStats, StreamTime};
use whyslow_model::catalogue::Connection;
use whyslow_model::value::Counter;

pub(super) struct StreamMonitor {
    streams: Vec<StreamHandle>,
    /// Samples of each stream, in the same order.
    pub(super) samples: Vec<StreamSamples>,
}

#[derive(Default)]
pub(super) struct StreamSamples {
    /// Byte counter at the start and at the end of each interval.
    bytes: Vec<u64>,
    before: Connection,
    after: Connection,
    rtt: RunningMean,
    window: RunningMean,
}

#[derive(Default)]
struct RunningMean {
    count: u32,
    spread: SampleStats,
}

impl StreamMonitor {
    pub(super) fn begin(streams: Vec<StreamHandle>) -> Self {
        let first = |stream: &StreamHandle| StreamSamples {
            bytes: vec![stream.counter.bytes()],
            before: tcp_info(&stream.socket),
            ..StreamSamples::default()
        };
        Self { samples: streams.iter().map(first).collect(), streams }
    }

    /// Ends an interval.
    pub(super) fn sample(&mut self) {
        // Read all counters first, as close together as possible.
        for (samples, stream) in self.samples.iter_mut().zip(&self.streams) {
            samples.bytes.push(stream.counter.bytes());
        }
        let senders = |(_, stream): &(_, &StreamHandle)| stream.role != StreamRole::Receive;
        for (samples, stream) in self.samples.iter_mut().zip(&self.streams).filter(senders) {
            let now = tcp_info(&stream.socket);
            samples.rtt.add(now.rtt.get().map(|ns| ns / 1e9));
            samples.window.add(now.congestion_window.get().zip(now.mss.get()).map(|(segments, mss)| segments * mss));
        }
    }

    pub(super) fn finish(&mut self) {
        for (samples, stream) in self.samples.iter_mut().zip(&self.streams) {
            samples.after = tcp_info(&stream.socket);
        }
    }

    /// Returns the total bytes of some streams in each interval.
    pub(super) fn series(samples: &[&StreamSamples]) -> Vec<u64> {
        let intervals = samples.iter().map(|samples| samples.bytes.len()).max().unwrap_or(0).saturating_sub(1);
        (0..intervals)
            .map(|at| samples.iter().filter_map(|s| Some(s.bytes.get(at + 1)? - s.bytes.get(at)?)).sum())
            .collect()
    }
}

impl StreamSamples {
    /// Returns the bytes moved in the measured time.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.last().zip(self.bytes.first()).map_or(0, |(last, first)| last - first)
    }

    pub(super) fn stream(&self, stream: &StreamHandle, seconds: f64) -> NetStream {
        let sends = stream.role != StreamRole::Receive;
        let buffer = if sends { stream.socket.send_buffer_size() } else { stream.socket.recv_buffer_size() };
        NetStream {
            bytes: self.bytes(),
            // The kernel doubles the requested size to make room for its own bookkeeping (socket(7)).
            buffer: buffer.ok().map(|bytes| bytes as u64 / 2),
            mss: self.after.mss.get().map(|mss| mss as u32),
            mtu: path_mtu(&stream.socket),
            time: (stream.role == StreamRole::Send).then(|| self.time(seconds)).flatten(),
            segments: self.grown(|c| c.data_segments_out).filter(|_| sends),
            retransmits: self.grown(|c| c.retransmits).filter(|_| sends),
            rtt: self.rtt.spread(),
            window: self.window.spread(),
        }
    }

    /// Breaks down the time of a stream. The kernel's busy time includes both limited times.
    fn time(&self, seconds: f64) -> Option<StreamTime> {
        let spent = |counter: fn(&Connection) -> Counter| Some(self.grown(counter)? as f64 / 1e9);
        // These times are counted in jiffies, so they may slightly exceed the measured time.
        let busy = spent(|c| c.busy_time)?.min(seconds);
        let receive_window = spent(|c| c.rwnd_limited)?.min(busy);
        let send_buffer = spent(|c| c.sndbuf_limited)?.min(busy - receive_window);
        let congestion = busy - receive_window - send_buffer;
        Some(StreamTime { receive_window, send_buffer, congestion, application: seconds - busy })
    }

    fn grown(&self, counter: fn(&Connection) -> Counter) -> Option<u64> {
        Some(counter(&self.after).get()?.saturating_sub(counter(&self.before).get()?))
    }
}

impl RunningMean {
    fn add(&mut self, value: Option<f64>) {
        let Some(value) = value else { return };
        let SampleStats { min, mean, max } = self.spread;
        let least = if self.count == 0 { value } else { min.min(value) };
        self.count += 1;
        self.spread =
            SampleStats { min: least, mean: mean + (value - mean) / f64::from(self.count), max: max.max(value) };
    }

    fn spread(&self) -> Option<SampleStats> {
        (self.count > 0).then_some(self.spread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn samples(busy: u64, receive_window: u64, send_buffer: u64) -> StreamSamples {
        let connection = |busy: u64, window: u64, buffer: u64| Connection {
            busy_time: (busy * MS).into(),
            rwnd_limited: (window * MS).into(),
            sndbuf_limited: (buffer * MS).into(),
            ..Connection::default()
        };
        let after = connection(500 + busy, 100 + receive_window, send_buffer);
        StreamSamples { before: connection(500, 100, 0), after, ..StreamSamples::default() }
    }

    #[test]
    fn the_times_of_a_sender_add_up_to_the_measured_time() {
        let time = samples(1600, 900, 300).time(2.0).unwrap();
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(close(time.receive_window, 0.9) && close(time.send_buffer, 0.3), "{time:?}");
        assert!(close(time.congestion, 0.4) && close(time.application, 0.4), "{time:?}");
        // Jiffies exceed the time.
        let time = samples(2010, 2004, 8).time(2.0).unwrap();
        assert_eq!(time, StreamTime { receive_window: 2.0, ..StreamTime::default() });
        assert_eq!(StreamSamples::default().time(2.0), None);
    }

    #[test]
    fn a_mean_without_values_is_none() {
        let mut mean = RunningMean::default();
        assert_eq!(mean.spread(), None);
        [Some(4.0), None, Some(2.0), Some(6.0)].into_iter().for_each(|value| mean.add(value));
        assert_eq!(mean.spread(), Some(SampleStats { min: 2.0, mean: 4.0, max: 6.0 }));
    }

    #[test]
    fn intervals_are_summed_over_streams() {
        let of = |bytes: &[u64]| StreamSamples { bytes: bytes.to_vec(), ..StreamSamples::default() };
        let samples = [of(&[5, 7, 7]), of(&[0, 1, 1])];
        assert_eq!(StreamMonitor::series(&samples.each_ref()), [3, 0]);
        assert_eq!(samples[0].bytes(), 2);
    }
}
