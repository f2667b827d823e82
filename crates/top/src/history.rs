//! Time series behind the sparklines: the last minutes, step by step.

use std::collections::{BTreeMap, VecDeque};
use whyslow_model::catalogue::{Disk, Family, Group, Interface, Pressure};
use whyslow_model::window::{Change, Window};
use whyslow_quantities::{Quantity, cpu, disk, group, interface, pressure};

/// Maximum number of values in each series.
const KEPT: usize = 240;

/// Subject of a time series.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CourseOf {
    /// Share of CPU time in use.
    CpuBusy,
    /// Share of the time in which at least one task waited for a CPU (PSI, some). The next two are the same for memory and I/O.
    CpuStall,
    MemoryStall,
    IoStall,
    /// Bits per second, received and sent, over all interfaces but loopback.
    Network,
    /// Mean number of requests in flight.
    Disk(String),
    /// Bits per second, received and sent.
    Interface(String),
    /// CPU time per second: 1 is one CPU.
    Group(String),
}

/// Time series of the last minutes.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    courses: BTreeMap<CourseOf, VecDeque<f64>>,
}

impl History {
    /// Adds the newest step of a window.
    pub(crate) fn add_newest(&mut self, window: &Window) {
        self.add(window, 1);
    }

    /// Creates a history from all steps of a window.
    pub(crate) fn from_window(window: &Window) -> Self {
        let mut history = Self::default();
        history.add(window, usize::MAX);
        history
    }

    /// Returns the values of a series, oldest first.
    pub(crate) fn course(&self, of: &CourseOf) -> Vec<f64> {
        self.courses.get(of).into_iter().flatten().copied().collect()
    }

    /// Appends the newest steps of the window to each series. Drops series that the window no longer has.
    fn add(&mut self, window: &Window, newest: usize) {
        let mut steps: BTreeMap<CourseOf, Vec<f64>> = BTreeMap::new();
        let busy = cpu::BUSY.steps_of_all(&window.changes());
        if !busy.is_empty() {
            steps.insert(CourseOf::CpuBusy, busy.into_iter().map(|share| share.unwrap_or(f64::NAN)).collect());
        }
        if let Some(pressure) = window.change::<Pressure>() {
            steps.insert(CourseOf::CpuStall, course_of(&pressure::CPU, &pressure));
            steps.insert(CourseOf::MemoryStall, course_of(&pressure::MEMORY, &pressure));
            steps.insert(CourseOf::IoStall, course_of(&pressure::IO, &pressure));
        }
        for disk in window.changes::<Disk>() {
            steps.insert(CourseOf::Disk(disk.key().to_string()), course_of(&disk::QUEUE, &disk));
        }
        let mut network: Vec<f64> = Vec::new();
        for interface in window.changes::<Interface>() {
            let bits = course_of(&interface::RATE, &interface);
            if &*interface.key().name != "lo" {
                add_up(&mut network, &bits);
            }
            steps.insert(CourseOf::Interface(interface.key().to_string()), bits);
        }
        steps.insert(CourseOf::Network, network);
        for group in window.changes::<Group>() {
            steps.insert(CourseOf::Group(group.key().to_string()), course_of(&group::CPU, &group));
        }
        // An entity that is gone has no series.
        self.courses.retain(|of, _| steps.contains_key(of));
        for (of, values) in steps {
            let course = self.courses.entry(of).or_default();
            course.extend(values.iter().skip(values.len().saturating_sub(newest)));
            course.drain(..course.len().saturating_sub(KEPT));
        }
    }
}

/// Returns a quantity for each step: NaN where it is unknown, and an empty list if it is unknown in all steps.
fn course_of<F: Family>(quantity: &Quantity<F>, change: &Change<'_, F>) -> Vec<f64> {
    let steps = quantity.steps(change);
    let is_known = steps.iter().any(|(_, value)| value.is_some());
    steps.into_iter().filter(|_| is_known).map(|(_, value)| value.unwrap_or(f64::NAN)).collect()
}

/// Adds steps to a sum, aligned at the newest: an entity that was found later has fewer steps.
fn add_up(sum: &mut Vec<f64>, steps: &[f64]) {
    let missing = steps.len().saturating_sub(sum.len());
    sum.splice(0..0, std::iter::repeat_n(0.0, missing));
    for (sum, step) in sum.iter_mut().rev().zip(steps.iter().rev()) {
        *sum += step;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_model::catalogue::Cpu;
    use whyslow_model::snapshot::Snapshot;

    const SECOND: u64 = 1_000_000_000;

    /// Builds a window in which the disk has as many requests in flight in each second as the second's number, and the CPU is
    /// busy in every other second.
    fn window(seconds: std::ops::RangeInclusive<u64>) -> Window {
        let at = |t: u64| {
            let mut s = Snapshot { boot_ns: t * SECOND, ..Snapshot::default() };
            s.block.disk.push(Disk { weighted_time: (t * (t + 1) / 2 * SECOND).into(), ..Disk::new("sda".into()) });
            s.processor.cpu.push(Cpu {
                user: (t / 2 * SECOND).into(),
                idle: (t.div_ceil(2) * SECOND).into(),
                ..Cpu::new(0)
            });
            s
        };
        Window::new(seconds.map(at).collect())
    }

    #[test]
    fn a_course_goes_on_by_the_newest_step() {
        let sda = CourseOf::Disk("sda".into());
        let mut history = History::from_window(&window(1..=4));
        assert_eq!(history.course(&sda), [2.0, 3.0, 4.0]);
        assert_eq!(history.course(&CourseOf::CpuBusy), [1.0, 0.0, 1.0]);
        history.add_newest(&window(2..=5));
        assert_eq!(history.course(&sda), [2.0, 3.0, 4.0, 5.0]);
        history.add_newest(&Window::default());
        assert_eq!(history.course(&sda), <[f64; 0]>::default(), "it is gone");
    }

    #[test]
    fn what_was_found_later_is_added_to_the_newest_steps() {
        let mut sum = vec![1.0, 2.0];
        add_up(&mut sum, &[10.0]);
        assert_eq!(sum, [1.0, 12.0]);
        add_up(&mut sum, &[0.0, 0.0, 5.0]);
        assert_eq!(sum, [0.0, 1.0, 17.0]);
    }
}
