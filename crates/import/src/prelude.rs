//! Imports and helpers for nearly every format.

pub(crate) use crate::clock::{self, PrintedTime, ReportInterval, SECOND};
pub(crate) use crate::format::{Format, ReadResult, partly_read, program, word};
pub(crate) use crate::formats::{another_output_starts, is_command};
pub(crate) use crate::lines::Lines;
pub(crate) use crate::number::{GIB, KIB, MIB, NS_PER_MS, SECTOR, number, scaled};
pub(crate) use crate::refusal::Refusal;
pub(crate) use crate::shell_session::OutputContext;
pub(crate) use crate::table::{MetricColumns, TableRow, columns};
pub(crate) use crate::tool_run::ToolRun;
pub(crate) use whyslow_model::catalogue::Family;
pub(crate) use whyslow_model::key::{MachineKey, NetKey, TaskKey};

/// Returns the key of a network interface. No tool shows namespaces other than its own.
pub(crate) fn interface(name: &str) -> NetKey {
    NetKey { ns: "".into(), name: name.into() }
}

/// Returns the key of a process.
pub(crate) fn process(pid: u32) -> TaskKey {
    TaskKey { pid, tid: pid, start: 0 }
}
