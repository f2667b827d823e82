//! Memory that is running out: how much is left, how fast it shrinks, and how long it will last.

use crate::cgroup::in_group;
use std::collections::BTreeMap;
use whyslow_model::catalogue::{Group, Meminfo, Process};
use whyslow_model::window::{Change, Window};

/// Minimum number of readings, and minimum seconds between them, for a trend: a program that starts allocates its memory in
/// less.
const READINGS: usize = 5;
const SECONDS: f64 = 4.0;
/// Minimum share of the steps that must go one way for a level to keep going that way.
const KEEPS_ON: f64 = 0.75;
/// Minimum share of its rise that a level must keep: a level that goes up and down as regularly as samples are taken can be
/// found rising three times out of four.
const KEEPS: f64 = 0.5;
/// Minimum share of the memory consumption that one process must cause to count as the consumer.
const MOST: f64 = 0.5;

/// Memory still available to the machine, or to a control group with a limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Room {
    /// `the machine`, or the path of the group.
    pub of: String,
    /// Bytes available.
    pub left: f64,
    /// How fast that decreases, bytes per second; 0 unless it keeps decreasing. `None` without enough readings.
    pub shrinks: Option<f64>,
}

impl Room {
    fn new(of: &str, left: Vec<(f64, f64)>) -> Option<Self> {
        let last = left.last()?.1.max(0.0);
        Some(Self { of: of.to_owned(), left: last, shrinks: fall(left.into_iter()) })
    }

    /// Returns true if growth at this rate is most of the decrease.
    pub fn is_taken_by(&self, growth: f64) -> bool {
        self.shrinks.is_some_and(|rate| rate > 0.0 && growth > MOST * rate)
    }

    /// Returns the seconds until nothing is left, if it decreases.
    pub fn exhausted_in(&self) -> Option<f64> {
        self.shrinks.filter(|rate| *rate > 0.0).map(|rate| self.left / rate)
    }
}

/// Memory available to the machine and to each control group with a limit.
#[derive(Debug)]
pub struct Rooms {
    machine: Option<Room>,
    groups: BTreeMap<String, Room>,
}

impl Rooms {
    /// Computes the available memory from a window.
    pub fn from_window(window: &Window) -> Self {
        let swap_free = swap_free(window);
        let groups = window.changes::<Group>();
        let groups = groups.iter().filter(|g| &**g.key() != "/").filter_map(|g| of_group(g, swap_free));
        Self { machine: of_machine(window), groups: groups.map(|room| (room.of.clone(), room)).collect() }
    }

    /// Returns the memory available to the machine.
    pub fn of_the_machine(&self) -> Option<&Room> {
        self.machine.as_ref()
    }

    /// Returns the memory available to the group of this path, if it has a limit.
    pub fn of_the_group(&self, path: &str) -> Option<&Room> {
        self.groups.get(path)
    }

    /// Returns the memory that a process in these control groups exhausts first by growing at this rate, if the process is most
    /// of the decrease.
    pub fn taken_by(&self, growth: f64, cgroups: Option<&str>) -> Option<&Room> {
        let within = self.groups.values().filter(|room| in_group(cgroups, &room.of));
        let taken = self.machine.iter().chain(within).filter(|room| room.is_taken_by(growth));
        taken.min_by(|a, b| a.exhausted_in().unwrap_or(f64::MAX).total_cmp(&b.exhausted_in().unwrap_or(f64::MAX)))
    }
}

/// Returns the free swap, bytes; 0 if there is no swap, or none is reported.
fn swap_free(window: &Window) -> f64 {
    window.the::<Meminfo>().and_then(|m| m.swap_free.get()).unwrap_or(0.0)
}

fn of_machine(window: &Window) -> Option<Room> {
    let left = |m: &Meminfo| {
        // Kernels before 3.14, and tools that do not read MemAvailable.
        let cache = || Some(m.mem_free.get()? + m.buffers.get().unwrap_or(0.0) + m.cached.get()?);
        Some(m.mem_available.get().or_else(cache)? + m.swap_free.get().unwrap_or(0.0))
    };
    let room = Room::new("the machine", window.change::<Meminfo>()?.course(left).collect())?;
    // Without times it is only known whether it shrinks.
    let shrinks = room.shrinks.filter(|rate| *rate == 0.0 || !window.has_assumed_times());
    Some(Room { shrinks, ..room })
}

/// Returns the memory that a control group with a limit may still allocate. Its page cache can be reclaimed, shared memory
/// cannot.
fn of_group(group: &Change<'_, Group>, swap_free: f64) -> Option<Room> {
    let left = |g: &Group| {
        let cache = (g.file.get().unwrap_or(0.0) - g.shmem.get().unwrap_or(0.0)).max(0.0);
        let swapped = g.swap.get().unwrap_or(0.0);
        let swap = g.swap_max.get().map_or(swap_free, |most| (most - swapped).clamp(0.0, swap_free));
        Some(g.memory_max.get()? - (g.memory.get()? - cache) + swap)
    };
    Room::new(group.key(), group.course(left).collect())
}

/// Returns how fast a level keeps falling, per second; 0 if it does not keep falling, `None` without enough readings.
pub(super) fn fall(levels: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    climb(&levels.map(|(at, level)| (at, -level)).collect::<Vec<_>>())
}

/// Returns how fast a process' own memory grows, bytes per second; 0 if it does not keep growing.
pub fn growth(process: &Change<'_, Process>) -> Option<f64> {
    climb(&process.course(own_memory).collect::<Vec<_>>())
}

/// Returns the private memory of a process, in bytes: mapped pages of files are page cache.
pub fn own_memory(p: &Process) -> Option<f64> {
    Some(p.rss.get()? - p.rss_file.get().unwrap_or(0.0) + p.swap.get().unwrap_or(0.0))
}

/// Returns how fast a level rises over the latter half of its readings; 0 if it does not keep rising, `None` without enough
/// readings.
pub fn climb(levels: &[(f64, f64)]) -> Option<f64> {
    let (first, last) = (levels.first()?, levels.last()?);
    if levels.len() < READINGS || last.0 - first.0 < SECONDS {
        return None;
    }
    let latter = &levels[(levels.len() - 1) / 2..];
    let keeps_on = |levels: &[(f64, f64)]| {
        let rises: Vec<f64> = levels.windows(2).map(|pair| pair[1].1 - pair[0].1).filter(|rise| *rise > 0.0).collect();
        let kept = last.1 - levels.first().map_or(last.1, |(_, level)| *level);
        rises.len() as f64 >= KEEPS_ON * (levels.len() - 1) as f64 && kept >= KEEPS * rises.iter().sum::<f64>()
    };
    let long_enough = &levels[levels.iter().rposition(|(at, _)| last.0 - at >= SECONDS)?..];
    if !keeps_on(latter) || !keeps_on(long_enough) {
        return Some(0.0);
    }
    let (from, to) = (latter[0], latter[latter.len() - 1]);
    Some(((to.1 - from.1) / (to.0 - from.0)).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(of: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        (0..11).map(|t| (f64::from(t), of(f64::from(t)))).collect()
    }

    #[test]
    fn a_level_climbs_where_it_keeps_rising_to_the_end() {
        assert_eq!(climb(&levels(|t| 300.0 * t)), Some(300.0));
        assert_eq!(climb(&levels(|t| 300.0 * (t - 5.0).max(0.0))), Some(300.0), "it began in the middle");
        assert_eq!(climb(&levels(|t| 300.0 * t.min(4.0))), Some(0.0), "a program that has started");
        assert_eq!(climb(&levels(|t| 300.0 * (t % 3.0))), Some(0.0), "up and down");
        assert_eq!(climb(&levels(|t| 300.0 * (t % 4.0))), Some(0.0), "three times up, once down");
        // Rises by 300 per second, but 500 are released every fourth second: 4 x 300 - 200 over the latter five steps.
        assert_eq!(
            climb(&levels(|t| 300.0 * t - 500.0 * (t / 4.0).floor())),
            Some(200.0),
            "it does not give all of it back"
        );
        assert_eq!(climb(&levels(|_| 7.0)), Some(0.0));
        assert_eq!(climb(&levels(|t| -t)), Some(0.0));
    }

    #[test]
    fn a_few_readings_are_no_trend() {
        assert_eq!(climb(&[]), None);
        assert_eq!(climb(&levels(|t| t)[..4]), None);
        let quick: Vec<_> = levels(|t| t).into_iter().map(|(at, level)| (at / 5.0, level)).collect();
        assert_eq!(climb(&quick), None, "two seconds");
    }

    #[test]
    fn the_room_that_is_used_up_first() {
        let room = |of: &str, left: f64, shrinks: f64| Room { of: of.into(), left, shrinks: Some(shrinks) };
        let rooms = Rooms {
            machine: Some(room("the machine", 20e9, 300e6)),
            groups: [room("/a", 1e9, 300e6), room("/b", 1e6, 300e6)].map(|room| (room.of.clone(), room)).into(),
        };
        let of = |growth: f64, group: Option<&str>| rooms.taken_by(growth, group).map(|room| room.of.clone());
        assert_eq!(of(290e6, Some("/a/inner\n/")).as_deref(), Some("/a"));
        assert_eq!(of(290e6, None).as_deref(), Some("the machine"));
        assert_eq!(of(10e6, Some("/a")), None, "others use it up");
    }
}
