//! What is seen of lines from outside while they work.

use super::line::{Handle, Role};
use super::socket::{path_mtu, tcp_info};
use whyslow_model::bench::{NetStream, Spread, StreamTime};
use whyslow_model::catalogue::Connection;
use whyslow_model::value::Counter;

/// Readings of all lines, interval by interval.
pub(super) struct Watch {
    lines: Vec<Handle>,
    pub(super) readings: Vec<Reading>,
}

/// Readings of one line.
#[derive(Default)]
pub(super) struct Reading {
    /// What its meter stood at: at the beginning, and at the end of each interval.
    bytes: Vec<u64>,
    before: Connection,
    after: Connection,
    rtt: Mean,
    window: Mean,
}

/// The least, the sum and the most of some numbers.
#[derive(Default)]
struct Mean {
    count: u32,
    spread: Spread,
}

impl Watch {
    pub(super) fn begin(lines: Vec<Handle>) -> Self {
        let reading = |line: &Handle| Reading {
            bytes: vec![line.meter.bytes()],
            before: tcp_info(&line.socket),
            ..Reading::default()
        };
        Self { readings: lines.iter().map(reading).collect(), lines }
    }

    /// The end of an interval.
    pub(super) fn look(&mut self) {
        // The meters first: they are to be of one instant.
        for (reading, line) in self.readings.iter_mut().zip(&self.lines) {
            reading.bytes.push(line.meter.bytes());
        }
        for (reading, line) in self.readings.iter_mut().zip(&self.lines).filter(|(_, line)| line.role != Role::Receive)
        {
            let now = tcp_info(&line.socket);
            reading.rtt.add(now.rtt.get().map(|ns| ns / 1e9));
            reading.window.add(now.congestion_window.get().zip(now.mss.get()).map(|(segments, mss)| segments * mss));
        }
    }

    /// The last instant.
    pub(super) fn finish(&mut self) {
        for (reading, line) in self.readings.iter_mut().zip(&self.lines) {
            reading.after = tcp_info(&line.socket);
        }
    }

    /// Bytes of some lines together in each interval.
    pub(super) fn course(&self, readings: &[&Reading]) -> Vec<u64> {
        let intervals = readings.iter().map(|reading| reading.bytes.len()).max().unwrap_or(0).saturating_sub(1);
        (0..intervals)
            .map(|at| readings.iter().filter_map(|r| Some(r.bytes.get(at + 1)? - r.bytes.get(at)?)).sum())
            .collect()
    }
}

impl Reading {
    /// Bytes in the time measured.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.last().zip(self.bytes.first()).map_or(0, |(last, first)| last - first)
    }

    /// What there is to tell of it.
    pub(super) fn stream(&self, line: &Handle, seconds: f64) -> NetStream {
        let sends = line.role != Role::Receive;
        let buffer = if sends { line.socket.send_buffer_size() } else { line.socket.recv_buffer_size() };
        NetStream {
            bytes: self.bytes(),
            // The kernel grants twice what was asked for, to have room for its own bookkeeping (socket(7)).
            buffer: buffer.ok().map(|bytes| bytes as u64 / 2),
            mss: self.after.mss.get().map(|mss| mss as u32),
            mtu: path_mtu(&line.socket),
            time: (line.role == Role::Send).then(|| self.time(seconds)).flatten(),
            segments: self.grown(|c| c.data_segments_out).filter(|_| sends),
            retransmits: self.grown(|c| c.retransmits).filter(|_| sends),
            rtt: self.rtt.told(),
            window: self.window.told(),
        }
    }

    /// Where the time went: what the kernel counts as busy holds the two times it was limited.
    fn time(&self, seconds: f64) -> Option<StreamTime> {
        let spent = |counter: fn(&Connection) -> Counter| Some(self.grown(counter)? as f64 / 1e9);
        // Counted in jiffies: several of them can be a little more than the time there was.
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

impl Mean {
    fn add(&mut self, value: Option<f64>) {
        let Some(value) = value else { return };
        let Spread { min, mean, max } = self.spread;
        let least = if self.count == 0 { value } else { min.min(value) };
        self.count += 1;
        self.spread = Spread { min: least, mean: mean + (value - mean) / f64::from(self.count), max: max.max(value) };
    }

    fn told(&self) -> Option<Spread> {
        (self.count > 0).then_some(self.spread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn reading(busy: u64, receive_window: u64, send_buffer: u64) -> Reading {
        let connection = |busy: u64, window: u64, buffer: u64| Connection {
            busy_time: (busy * MS).into(),
            rwnd_limited: (window * MS).into(),
            sndbuf_limited: (buffer * MS).into(),
            ..Connection::default()
        };
        let after = connection(500 + busy, 100 + receive_window, send_buffer);
        Reading { before: connection(500, 100, 0), after, ..Reading::default() }
    }

    #[test]
    fn a_senders_times_add_up() {
        let time = reading(1600, 900, 300).time(2.0).unwrap();
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(close(time.receive_window, 0.9) && close(time.send_buffer, 0.3), "{time:?}");
        assert!(close(time.congestion, 0.4) && close(time.application, 0.4), "{time:?}");
        // Jiffies that do not fit.
        let time = reading(2010, 2004, 8).time(2.0).unwrap();
        assert_eq!(time, StreamTime { receive_window: 2.0, ..StreamTime::default() });
        assert_eq!(Reading::default().time(2.0), None);
    }

    #[test]
    fn the_mean_of_nothing_is_nothing() {
        let mut mean = Mean::default();
        assert_eq!(mean.told(), None);
        [Some(4.0), None, Some(2.0), Some(6.0)].into_iter().for_each(|value| mean.add(value));
        assert_eq!(mean.told(), Some(Spread { min: 2.0, mean: 4.0, max: 6.0 }));
    }

    #[test]
    fn intervals_of_several_lines_add_up() {
        let of = |bytes: &[u64]| Reading { bytes: bytes.to_vec(), ..Reading::default() };
        let watch = Watch { lines: Vec::new(), readings: vec![of(&[5, 7, 7]), of(&[0, 1, 1])] };
        assert_eq!(watch.course(&watch.readings.iter().collect::<Vec<_>>()), [3, 0]);
        assert_eq!(watch.readings[0].bytes(), 2);
    }
}
