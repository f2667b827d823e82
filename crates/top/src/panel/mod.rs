//! Tables of the screen. Each file declares the columns of one table and computes its rows.

mod connections;
mod cpus;
mod disks;
mod groups;
mod interfaces;
mod memory;
mod processes;

use crate::history::{CourseOf, History};
use crate::table::{Column, Row, Value};
use std::collections::BTreeMap;
use whyslow_model::catalogue::{Process, Thread};
use whyslow_model::cgroup;
use whyslow_model::kernel_stack::waited_for;
use whyslow_model::topology::Topology;
use whyslow_model::window::Window;

pub(crate) use connections::{held_back, retransmitted};
pub(crate) use disks::times as disk_times;
pub(crate) use groups::throttled;
pub(crate) use memory::uses as memory_uses;
pub(crate) use processes::{AllWaits, TaskWaits, wait_words};

/// Inputs of the tables.
pub(crate) struct Context<'w> {
    /// For values that are read rarely.
    pub(crate) window: &'w Window,
    /// For rates: the same window, or its last step.
    pub(crate) rates: &'w Window,
    pub(crate) topology: &'w Topology,
    pub(crate) history: &'w History,
    pub(crate) shows_threads: bool,
    pub(crate) is_tree: bool,
}

impl Context<'_> {
    fn course(&self, of: &CourseOf, least: f64) -> Value {
        let values = self.history.course(of);
        // A scale that ends near zero would draw noise as mountains.
        let most = values.iter().copied().filter(|value| !value.is_nan()).fold(least, f64::max);
        Value::Course(values, most)
    }
}

/// A table of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Panel {
    Processes,
    Groups,
    Disks,
    Interfaces,
    Connections,
    Cpus,
    Memory,
}

impl Panel {
    /// All tables, in the order of their keys, from 1.
    pub(crate) const ALL: [Self; 7] =
        [Self::Processes, Self::Groups, Self::Disks, Self::Interfaces, Self::Connections, Self::Cpus, Self::Memory];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Processes => "Processes",
            Self::Groups => "Groups",
            Self::Disks => "Disks",
            Self::Interfaces => "Interfaces",
            Self::Connections => "Connections",
            Self::Cpus => "CPUs",
            Self::Memory => "Memory",
        }
    }

    /// Returns the text shown instead of rows if there are none.
    pub(crate) fn none(self) -> &'static str {
        match self {
            Self::Processes => "No processes are visible.",
            Self::Groups => "No control groups are visible.",
            Self::Disks => "No block devices are visible.",
            Self::Interfaces => "No network interfaces are visible.",
            Self::Connections => "No TCP connections carry data.",
            Self::Cpus => "CPU time is not visible.",
            Self::Memory => "Memory is not visible.",
        }
    }

    pub(crate) fn columns(self) -> &'static [Column] {
        match self {
            Self::Processes => &processes::COLUMNS,
            Self::Groups => &groups::COLUMNS,
            Self::Disks => &disks::COLUMNS,
            Self::Interfaces => &interfaces::COLUMNS,
            Self::Connections => &connections::COLUMNS,
            Self::Cpus => &cpus::COLUMNS,
            Self::Memory => &memory::COLUMNS,
        }
    }

    /// Returns the column that the table is sorted by at first.
    pub(crate) fn sorted_by(self) -> usize {
        match self {
            Self::Processes => processes::SORTED_BY,
            Self::Groups => groups::SORTED_BY,
            Self::Disks => disks::SORTED_BY,
            Self::Interfaces => interfaces::SORTED_BY,
            Self::Connections => connections::SORTED_BY,
            Self::Cpus => 0,
            // Not sorted: rows keep the order of the file.
            Self::Memory => usize::MAX,
        }
    }

    pub(crate) fn rows(self, context: &Context<'_>) -> Vec<Row> {
        match self {
            Self::Processes => processes::rows(context),
            Self::Groups => groups::rows(context),
            Self::Disks => disks::rows(context),
            Self::Interfaces => interfaces::rows(context),
            Self::Connections => connections::rows(context),
            Self::Cpus => cpus::rows(context),
            Self::Memory => memory::rows(context),
        }
    }
}

/// A metric of a family, and its label on the screen.
pub(crate) type NamedMetric<F, V> = (&'static str, fn(&F) -> V);

/// Converts nanoseconds per second to a share of time.
pub(crate) fn ratio(ns_per_second: Option<f64>) -> Option<f64> {
    ns_per_second.map(|ns| ns / 1e9)
}

/// Returns the sum of the known parts; `None` if none is known.
pub(crate) fn sum<const N: usize>(parts: [Option<f64>; N]) -> Option<f64> {
    parts.into_iter().flatten().reduce(|a, b| a + b)
}

/// Divides; `None` if either number is unknown or the divisor is not positive.
pub(crate) fn over(part: Option<f64>, whole: Option<f64>) -> Option<f64> {
    Some(part? / whole.filter(|whole| *whole > 0.0)?)
}

/// Returns the usual name of a control group: its container or unit, or else its path.
pub(crate) fn group_name(path: &str) -> String {
    if let Some(container) = cgroup::container(path) {
        return format!("container {container}");
    }
    cgroup::unit(path).unwrap_or_else(|| path.to_owned())
}

/// Returns the command names of processes by PID, for records that only have the PID.
pub(crate) fn commands(window: &Window) -> BTreeMap<u32, String> {
    let processes = window.last().map_or(&[][..], |last| &last.task.process);
    processes.iter().map(|p| (p.task.pid, p.command.get().unwrap_or_default().to_owned())).collect()
}

/// Describes what a task waits for in a kernel function. Returns the function's name if it has no description.
pub(crate) fn waited_in(function: &str) -> String {
    waited_for(&[function]).map_or_else(|| function.to_owned(), |pattern| pattern.what.to_owned())
}

/// Returns the processes of the newest snapshot that has any.
pub(crate) fn newest_processes(window: &Window) -> &[Process] {
    let read = window.snapshots().iter().rev().find(|snapshot| !snapshot.task.process.is_empty());
    read.map_or(&[], |snapshot| &snapshot.task.process)
}

/// Returns the threads of the newest snapshot that has processes.
pub(crate) fn newest_threads(window: &Window) -> &[Thread] {
    let read = window.snapshots().iter().rev().find(|snapshot| !snapshot.task.process.is_empty());
    read.map_or(&[], |snapshot| &snapshot.task.thread)
}
