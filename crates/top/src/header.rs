//! Top of the screen: machine and time, the diagnosis in brief, and the resources.

use crate::history::CourseOf;
use crate::panel::{Context, memory_uses};
use crate::text::{Line, bold, dim, plain, sparkline};
use whyslow_documents::diagnosis::Diagnosis;
use whyslow_model::catalogue::{Cpu, Disk, Interface, Pressure, Protocol, System};
use whyslow_model::human;
use whyslow_model::window::Change;
use whyslow_quantities::{Quantity, cpu, disk, interface, pressure, protocol};
use whyslow_show::text::{self, TextStyle};

/// Width of the resource labels, in columns.
const LABEL: usize = 8;

/// Summarises the diagnosis in at most `lines` lines.
pub(crate) fn brief(diagnosis: &Diagnosis, width: u16, lines: usize, utc: bool) -> Vec<Line> {
    let style = TextStyle { width: usize::from(width), colour: false, all: false, utc };
    let mut brief = text::brief_lines(diagnosis, &style, lines);
    brief.truncate(lines);
    brief
}

/// Returns one line for each resource: for how long tasks stalled on it, and its activity.
pub(crate) fn resources(context: &Context<'_>, width: u16) -> Vec<Line> {
    let bars = usize::from(width / 8).clamp(4, 40);
    let stalls = [CourseOf::CpuStall, CourseOf::MemoryStall, CourseOf::IoStall];
    let line = |label: &str, of: &CourseOf, most: f64, parts: Vec<String>| {
        let values = context.history.course(of);
        let most = values.iter().copied().filter(|value| !value.is_nan()).fold(most, f64::max);
        let text = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
        vec![bold(format!("{label:LABEL$}")), plain(sparkline(values.iter(), most, bars)), plain(format!(" {text}"))]
    };
    let pressure = context.rates.change::<Pressure>();
    let stalled = |quantity: &Quantity<Pressure>| {
        let share = pressure.as_ref().and_then(|pressure| quantity.over(pressure));
        share.map_or_else(String::new, |share| format!("stalled {} of the time", human::share(share)))
    };
    // Without pressure stall information, show the busy time instead.
    let cpu = if pressure.is_some() { &stalls[0] } else { &CourseOf::CpuBusy };
    vec![
        line("CPU", cpu, 1.0, [vec![stalled(&pressure::CPU)], cpu_parts(context)].concat()),
        line("Memory", &stalls[1], 1.0, vec![stalled(&pressure::MEMORY), memory_part(context)]),
        line("I/O", &stalls[2], 1.0, vec![stalled(&pressure::IO), io_part(context)]),
        line("Network", &CourseOf::Network, 1e6, network_parts(context)),
    ]
}

fn cpu_parts(context: &Context<'_>) -> Vec<String> {
    let cpus = context.rates.changes::<Cpu>();
    let stolen = cpu::STEAL.over_all(&cpus).filter(|share| *share >= 0.005);
    let runnable = context.rates.change::<System>().and_then(|s| s.mean(|s| s.running));
    vec![
        cpu::BUSY.over_all(&cpus).map_or_else(String::new, |busy| format!("{} busy", human::share(busy))),
        stolen.map_or_else(String::new, |share| format!("{} stolen", human::share(share))),
        runnable.map_or_else(String::new, |running| format!("{} runnable", human::quantity(running, "count"))),
    ]
}

fn memory_part(context: &Context<'_>) -> String {
    memory_uses(context.rates).map_or_else(String::new, |(total, available)| {
        let bytes = |bytes| human::quantity(bytes, "bytes");
        format!("{} of {} available", bytes(available), bytes(total))
    })
}

/// Returns the I/O of the lowest devices, those that are not stacked on another.
fn io_part(context: &Context<'_>) -> String {
    let disks = context.rates.changes::<Disk>();
    let is_lowest = |disk: &&Change<'_, Disk>| context.topology.below(disk.key()).next().is_none();
    let total = |of: &Quantity<Disk>| of.total(disks.iter().filter(is_lowest));
    match (total(&disk::READ_RATE), total(&disk::WRITE_RATE)) {
        (Some(read), Some(written)) => {
            format!("{} read, {} written", human::quantity(read, "bytes/s"), human::quantity(written, "bytes/s"))
        }
        _ => String::new(),
    }
}

fn network_parts(context: &Context<'_>) -> Vec<String> {
    let interfaces = context.rates.changes::<Interface>();
    let total =
        |of: &Quantity<Interface>| of.total(interfaces.iter().filter(|interface| &*interface.key().name != "lo"));
    let bits = |rate: f64| human::quantity(rate, "bit/s");
    let protocols = context.rates.changes::<Protocol>();
    let retransmitted = protocol::RETRANSMIT_SHARE.over_all(&protocols);
    vec![
        match (total(&interface::RECEIVING), total(&interface::SENDING)) {
            (Some(received), Some(sent)) => format!("{} in, {} out", bits(received), bits(sent)),
            _ => String::new(),
        },
        retransmitted.map_or_else(String::new, |share| format!("{} retransmitted", human::share(share))),
    ]
}

/// Returns the placeholder shown until the first diagnosis is available.
pub(crate) fn no_diagnosis(is_recording: bool) -> Vec<Line> {
    let text = if is_recording { "Diagnosing ..." } else { "Watching: the first diagnosis takes a few seconds." };
    vec![vec![dim(text)]]
}
