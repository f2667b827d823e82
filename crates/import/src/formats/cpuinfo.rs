//! /proc/cpuinfo (proc(5)), whole or in part.

use crate::prelude::*;
use whyslow_model::catalogue::MachineInfo;
use whyslow_proc::cpuinfo;

pub const FORMAT: Format = Format {
    name: "/proc/cpuinfo",
    versions: "x86; of other architectures the number of CPUs only",
    shows: "how many CPUs there are, which vmstat and top do not show; nothing by itself",
    lacks: "what the CPUs do; the frequency it prints is that of one moment, and low at rest",
    files: &["cpuinfo"],
    starts: |lines| {
        lines.next_is(|line| cpuinfo::cpu(line).is_some() || model(line).is_some())
            && lines.peek(1).is_none_or(|next| next.trim().is_empty() || is_entry(next))
    },
    read,
    ..Format::NEW
};

/// Maximum length of a line's name: `initial apicid`, `power management`.
const LONGEST_NAME: usize = 20;

/// Returns true for a name, tabs up to the colon, and possibly a value.
fn is_entry(line: &str) -> bool {
    cpuinfo::entry(line).is_some_and(|(name, _)| {
        (1..=LONGEST_NAME).contains(&name.len())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b" _()-".contains(&b))
    })
}

fn model(line: &str) -> Option<&str> {
    cpuinfo::entry(line).filter(|(name, value)| *name == "model name" && !value.is_empty()).map(|(_, value)| value)
}

fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let begin = lines.number();
    let mut blocks: Vec<String> = Vec::new();
    let mut flags = None;
    let mut first_model = None;
    let mut microcode = None;
    while let Some((blanks, text)) = lines.peek_past_blanks(0) {
        let is_first_again = !blocks.is_empty() && cpuinfo::cpu(text) == Some(0);
        let goes_on = if blanks == 0 { is_entry(text) } else { cpuinfo::cpu(text).is_some() || model(text).is_some() };
        // Wrapped flags are words without a colon.
        let is_wrapped = blanks == 0 && flags.is_some() && text.split_whitespace().all(is_flag);
        if is_first_again || is_command(text) || !(goes_on || is_wrapped) {
            break;
        }
        match cpuinfo::entry(text) {
            Some(("model name", value)) if first_model.is_none() => first_model = Some(value.to_owned()),
            Some(("microcode", value)) if microcode.is_none() => microcode = Some(value.to_owned()),
            Some(("flags", value)) if flags.is_none() => flags = Some(value.to_owned()),
            Some(("processor" | "siblings", _)) => blocks.push(text.to_owned()),
            None if blocks.len() <= 2 => flags = flags.map(|flags| flags + " " + text.trim()),
            _ => {}
        }
        lines.skip(blanks + 1);
    }
    let is_whole = context.command_of("cat").is_some_and(|c| c.is_plain() && c.operands().eq(["/proc/cpuinfo"]));
    let cpus = cpuinfo::count(blocks.iter().map(String::as_str), is_whole);
    let row = run.row::<MachineInfo>(0.0, begin, MachineKey);
    row.processors = cpus.map(f64::from).into();
    let is_guest = flags.is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"));
    let hypervisor = is_guest.then(|| "vm".to_owned());
    let states =
        [(&mut row.processor, first_model), (&mut row.microcode, microcode), (&mut row.virtualization, hypervisor)];
    for (state, text) in states {
        if let Some(text) = text {
            *state = text.as_str().into();
        }
    }
    Ok(())
}

fn is_flag(word: &str) -> bool {
    word.len() <= LONGEST_NAME && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, row_of};

    #[test]
    fn how_many_cpus_there_are_and_which() {
        let text = fixture("proc-cpuinfo.txt");
        let machine = row_of::<MachineInfo>(&text);
        assert_eq!((machine.processors.get(), machine.processor.get()), (Some(2.0), Some("AMD EPYC")));
        assert_eq!((machine.virtualization.get(), machine.microcode.get()), (Some("vm"), Some("0x1000065")));
        let (first, _) = text.split_once("\n\n").unwrap();
        assert_eq!(row_of::<MachineInfo>(first).processors.get(), None);
        assert_eq!(row_of::<MachineInfo>(&format!("# cat /proc/cpuinfo\n{first}\n")).processors.get(), Some(1.0));
        let grepped = "model name\t: Intel(R) Xeon(R) CPU E5-2690 0 @ 2.90GHz\n".repeat(3);
        let machine = row_of::<MachineInfo>(&grepped);
        assert_eq!(machine.processor.get(), Some("Intel(R) Xeon(R) CPU E5-2690 0 @ 2.90GHz"));
        assert_eq!(machine.processors.get(), None);
    }
}
