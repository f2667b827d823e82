//! lscpu(1): number of online CPUs, their model and frequencies, and the hypervisor.

use crate::prelude::*;
use whyslow_model::catalogue::{Frequency, MachineInfo};

pub const FORMAT: Format = Format {
    name: "lscpu",
    versions: "util-linux 2.14 to 2.40, in English",
    shows: "how many CPUs there are, which vmstat and top do not show; of two of one machine, whether its highest frequency fell",
    lacks: "what the CPUs do; the frequency it prints is that of one moment, and low at rest",
    programs: &[program("lscpu")],
    files: &["lscpu"],
    starts: |lines| lines.next_is(|line| line.starts_with("Architecture:")),
    read,
    ..Format::NEW
};

const MHZ: f64 = 1e6;

/// Splits a line into name and value; lines below the vulnerabilities have long names.
fn entry(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(':')?;
    let is_name = name.len() < 50 && !name.trim().is_empty() && value.starts_with([' ', '\t']);
    is_name.then(|| (name.trim(), value.trim()))
}

/// Entries that follow the ones with long values.
const AFTER_LONG: [&str; 6] =
    ["BIOS CPU family", "CPU family", "Virtualization", "Hypervisor vendor", "L1d", "L1d cache"];
/// Maximum number of lines into which a mail program broke a value: the flags of a CPU have two hundred words.
const MOST_PARTS: usize = 40;

/// Returns the number of lines that are the rest of a value that a mail program broke.
fn wrapped(lines: &mut Lines<'_>) -> Option<usize> {
    for at in 0..MOST_PARTS {
        let text = lines.peek(at).filter(|text| !text.trim().is_empty() && !is_command(text))?;
        if entry(text).is_some_and(|(name, _)| AFTER_LONG.contains(&name)) {
            return Some(at);
        }
    }
    None
}

/// Returns the number of CPUs in a list: `0-3,8`.
fn listed(list: &str) -> Option<f64> {
    let count = |part: &str| match part.split_once('-') {
        Some((first, last)) => {
            let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
            Some(f64::from(last.checked_sub(first)?) + 1.0)
        }
        None => part.parse::<u32>().ok().map(|_| 1.0),
    };
    list.split(',').map(|part| count(part.trim())).sum()
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let begin = lines.number();
    let (mut cpus, mut online, mut model, mut hypervisor) = (None, None, None, None);
    let (mut highest, mut lowest) = (None, None);
    while lines.number() == begin || !another_output_starts(lines, FORMAT.name) {
        let is_first = lines.number() == begin;
        let Some((name, value)) = lines.peek(0).and_then(entry) else {
            let Some(wrapped) = wrapped(lines) else { break };
            lines.skip(wrapped);
            continue;
        };
        match name {
            "CPU(s)" => cpus = number(value),
            "On-line CPU(s) list" => online = listed(value),
            "Model name" if model.is_none() => model = Some(value.to_owned()),
            "CPU max MHz" => highest = number(value),
            "CPU min MHz" => lowest = number(value),
            "Hypervisor vendor" => hypervisor = Some(value.to_owned()),
            // A second machine begins.
            "Architecture" if !is_first => break,
            _ => {}
        }
        lines.skip(1);
    }
    let row = run.row::<MachineInfo>(0.0, begin, MachineKey);
    row.processors = online.or(cpus).into();
    for (state, text) in [(&mut row.processor, model), (&mut row.virtualization, hypervisor)] {
        if let Some(text) = text {
            *state = text.as_str().into();
        }
    }
    if let Some(highest) = highest {
        let row = run.row::<Frequency>(0.0, begin, 0);
        row.hardware_max = (highest * MHZ).into();
        row.hardware_min = lowest.map(|lowest| lowest * MHZ).into();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, row_of};

    #[test]
    fn how_many_cpus_are_online() {
        let machine = row_of::<MachineInfo>(&fixture("layouts/lscpu.txt"));
        assert_eq!((machine.processors.get(), machine.processor.get()), (Some(2.0), Some("AMD EPYC")));
        assert_eq!(machine.virtualization.get(), Some("KVM"));
        let old = "Architecture:          x86_64\nCPU(s):                8\nOn-line CPU(s) list:   0-3,6\n";
        assert_eq!(row_of::<MachineInfo>(old).processors.get(), Some(5.0));
        let clocked = format!("{old}CPU max MHz:           3600.0000\nCPU min MHz:           800,0000\n");
        let row = row_of::<Frequency>(&clocked);
        assert_eq!((row.cpu, row.hardware_max.get(), row.hardware_min.get()), (0, Some(3.6e9), Some(8e8)));
        let wrapped =
            clocked.replace("On-line", "Model name:            Example\nCPU @ 3.6GHz\nCPU family: 6\nOn-line");
        assert_eq!(row_of::<Frequency>(&wrapped).hardware_max.get(), Some(3.6e9));
        assert_eq!((listed("3-0"), listed("x"), listed("0")), (None, None, Some(1.0)));
    }
}
