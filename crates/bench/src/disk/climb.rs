//! The way up to a ceiling: more in flight until it brings no more, then back to where that began.

use whyslow_model::bench::{Ceiling, Flow, Knee, Limit, Run};

/// A doubling of what is in flight that brings less than this is none.
const GAIN: f64 = 0.05;
/// Doublings in a row that bring nothing, after which the ceiling is known: one alone may have been bad luck.
const PLATEAU: usize = 2;
/// More in flight than this no disk tells apart.
const MOST: u32 = 256;
/// The share of the ceiling that the knee reaches.
const KNEE: f64 = 0.9;

/// What was measured with so many requests in flight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) in_flight: u32,
    pub(super) rate: f64,
    pub(super) bandwidth: f64,
    pub(super) latency: f64,
    pub(super) generator: bool,
}

impl Point {
    /// Of a run; none where nothing came back.
    pub(super) fn of(in_flight: u32, run: &Run) -> Option<Self> {
        let flow: &Flow = run.read.as_ref().or(run.write.as_ref()).filter(|flow| flow.operations > 0)?;
        let (rate, bandwidth, latency) = (flow.rate, flow.bandwidth, flow.latency.mean);
        Some(Self { in_flight, rate, bandwidth, latency, generator: run.generator.was_limit })
    }
}

/// The points of one sort of requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Climb {
    points: Vec<Point>,
    /// Points at which several jobs shared what is in flight.
    shared: Vec<Point>,
}

impl Climb {
    /// How many to have in flight next; none where all is known that is to be.
    pub(super) fn next(&self) -> Option<u32> {
        let Some(last) = self.points.last() else { return Some(1) };
        let doubled = last.in_flight * 2;
        if self.is_climbing() && doubled <= MOST {
            return Some(doubled);
        }
        self.between()
    }

    pub(super) fn add(&mut self, point: Point) {
        let at = self.points.partition_point(|other| other.in_flight < point.in_flight);
        // Once it is known where the ceiling is, points between come in between.
        self.points.insert(at, point);
    }

    /// Takes in a point at which more jobs shared the requests. Whether it brought more.
    pub(super) fn add_jobs(&mut self, point: Point) -> bool {
        let best = self.best().map_or(0.0, |best| best.rate);
        self.shared.push(point);
        point.rate > best * (1.0 + GAIN)
    }

    /// Whether the last doublings brought anything.
    fn is_climbing(&self) -> bool {
        let doublings: Vec<&Point> = self.points.iter().filter(|point| point.in_flight.is_power_of_two()).collect();
        if doublings.len() <= PLATEAU {
            return true;
        }
        let (before, last) = doublings.split_at(doublings.len() - PLATEAU);
        let most = before.iter().map(|point| point.rate).fold(0.0, f64::max);
        last.iter().any(|point| point.rate > most * (1.0 + GAIN))
    }

    /// A number between the knee and the point before it, where there is room for one.
    fn between(&self) -> Option<u32> {
        let knee =
            self.points.iter().position(|point| Some(point.in_flight) == self.knee().map(|knee| knee.in_flight))?;
        let below = self.points[knee.checked_sub(1)?].in_flight;
        let gap = self.points[knee].in_flight - below;
        (gap > 1.max(below / 4)).then_some(below + gap / 2)
    }

    /// The point with the highest rate.
    pub(super) fn best(&self) -> Option<Point> {
        self.points.iter().chain(&self.shared).copied().max_by(|a, b| a.rate.total_cmp(&b.rate))
    }

    /// The point with the fewest in flight that comes near the ceiling.
    pub(super) fn knee(&self) -> Option<Point> {
        let ceiling = self.best()?.rate;
        self.points.iter().copied().find(|point| point.rate >= KNEE * ceiling)
    }

    /// Whether who made the load was the limit where it was highest.
    pub(super) fn was_generator(&self) -> bool {
        self.best().is_some_and(|best| best.generator)
    }

    /// What was found; none where nothing was.
    pub(super) fn ceiling(&self, requests: &str, of: Limit, block: u32) -> Option<Ceiling> {
        let best = self.best()?;
        let alone = self.points.first().filter(|point| point.in_flight == 1).map(|point| point.latency);
        let knee = self.knee().zip(alone).map(|(knee, alone)| Knee {
            depth: knee.in_flight,
            rate: knee.rate,
            latency: knee.latency,
            latency_alone: alone,
            parallelism: best.rate * alone,
        });
        Some(Ceiling {
            of,
            requests: requests.to_owned(),
            block,
            rate: best.rate,
            bandwidth: best.bandwidth,
            knee,
            reached: !self.is_climbing(),
            generator: self.was_generator(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device that works on `channels` requests at once, a millisecond each.
    fn device(channels: u32, in_flight: u32) -> Point {
        let rate = f64::from(in_flight.min(channels)) * 1000.0;
        let latency = f64::from(in_flight) / rate;
        Point { in_flight, rate, bandwidth: rate * 4096.0, latency, generator: false }
    }

    fn climb(channels: u32) -> (Climb, Vec<u32>) {
        let (mut climb, mut tried) = (Climb::default(), Vec::new());
        while let Some(in_flight) = climb.next() {
            tried.push(in_flight);
            climb.add(device(channels, in_flight));
        }
        (climb, tried)
    }

    #[test]
    fn the_knee_is_where_the_channels_are_all_busy() {
        for (channels, knee) in [(1, 1), (2, 2), (4, 4), (6, 6), (32, 32)] {
            let (climb, tried) = climb(channels);
            let ceiling = climb.ceiling("random read", Limit::Requests, 4096).unwrap();
            let found = ceiling.knee.unwrap();
            assert_eq!(found.depth, knee, "{channels} channels, tried {tried:?}");
            assert_eq!((ceiling.rate, ceiling.reached), (f64::from(channels) * 1000.0, true));
            assert!((found.parallelism - f64::from(channels)).abs() < 1e-9);
        }
    }

    #[test]
    fn no_more_is_tried_than_tells_something() {
        assert_eq!(climb(1).1, [1, 2, 4]);
        assert_eq!(climb(4).1, [1, 2, 4, 8, 16, 3]);
    }

    #[test]
    fn a_ceiling_that_was_not_reached_is_no_ceiling() {
        let (climb, tried) = climb(100_000);
        assert_eq!(tried.iter().max(), Some(&MOST));
        assert!(!climb.ceiling("random read", Limit::Requests, 4096).unwrap().reached);
    }

    #[test]
    fn more_jobs_count_where_they_bring_more() {
        let (mut climb, _) = climb(4);
        assert!(climb.add_jobs(Point { rate: 6000.0, ..device(4, 16) }));
        assert!(!climb.add_jobs(Point { rate: 6100.0, ..device(4, 16) }));
        assert_eq!(climb.best().unwrap().rate, 6100.0);
    }
}
