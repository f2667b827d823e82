//! vmstat -s: memory and counts since boot, in words.

use crate::format::{Asked, Format};
use crate::lines::Lines;
use crate::refusal::Refusal;
use crate::run::Run;
use whyslow_model::catalogue::{Family, Meminfo, System, Vmstat};
use whyslow_model::key::Machine;

/// The format.
pub const FORMAT: Format = Format {
    name: "vmstat -s",
    versions: "procps 2 to 4, in K",
    tells: "memory; of two with their times, paging, swapping and switches as rates",
    starts: |lines| lines.peek(0).is_some_and(|l| entry(l).is_some_and(|(_, name)| is_first(name))),
    read,
};

const KIB: u64 = 1024;

/// `24684096 K total memory`
fn entry(line: &str) -> Option<(u64, &str)> {
    let (count, name) = line.trim().split_once(' ')?;
    Some((count.parse().ok()?, name.trim()))
}

fn is_first(name: &str) -> bool {
    name.ends_with("total memory")
}

fn read(lines: &mut Lines<'_>, _: &Asked, run: &mut Run) -> Result<(), Refusal> {
    let mut begun = false;
    while let Some(text) = lines.peek(0).map(str::to_owned) {
        let Some((count, name)) = entry(&text) else { break };
        // The first line again is the next reading.
        if begun && is_first(name) {
            break;
        }
        begun = true;
        let line = lines.number();
        // -S prints other units.
        let memory = name.ends_with(" memory") || name.ends_with(" swap") || name.ends_with(" cache");
        let name = name.strip_prefix("K ").or((!memory).then_some(name));
        let Some(name) = name else { return Err(lines.refuse("an amount in K, as vmstat -s prints it without -S")) };
        tell(run, line, name, count);
        lines.skip(1);
    }
    Ok(())
}

fn tell(run: &mut Run, line: u32, name: &str, count: u64) {
    let bytes = count.saturating_mul(KIB);
    let memory = |run: &mut Run, metric: &str| {
        run.row::<Meminfo>(0.0, line, Machine).set(metric, bytes);
    };
    match name {
        "total memory" => memory(run, "mem_total"),
        "active memory" => memory(run, "active"),
        "inactive memory" => memory(run, "inactive"),
        "free memory" => memory(run, "mem_free"),
        "buffer memory" => memory(run, "buffers"),
        // The page cache, whatever it is called.
        "swap cache" => memory(run, "cached"),
        "total swap" => memory(run, "swap_total"),
        "free swap" => memory(run, "swap_free"),
        "paged in" => run.row::<Vmstat>(0.0, line, Machine).pgpgin = bytes.into(),
        "paged out" => run.row::<Vmstat>(0.0, line, Machine).pgpgout = bytes.into(),
        "pages paged in" => run.row::<Vmstat>(0.0, line, Machine).pgpgin = bytes.into(),
        "pages paged out" => run.row::<Vmstat>(0.0, line, Machine).pgpgout = bytes.into(),
        "pages swapped in" => run.row::<Vmstat>(0.0, line, Machine).pswpin = count.into(),
        "pages swapped out" => run.row::<Vmstat>(0.0, line, Machine).pswpout = count.into(),
        "interrupts" => run.row::<System>(0.0, line, Machine).interrupts = count.into(),
        "CPU context switches" => run.row::<System>(0.0, line, Machine).context_switches = count.into(),
        "forks" => run.row::<System>(0.0, line, Machine).forks = count.into(),
        // Ticks are summed over processors whose number is not told.
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, window_of};

    #[test]
    fn memory_and_counts() {
        let text = fixture("vmstat-s.txt");
        let window = window_of(&text);
        let memory = window.the::<Meminfo>().unwrap();
        assert_eq!((memory.mem_total.get(), memory.swap_total.get()), (Some(24_684_096.0 * 1024.0), Some(0.0)));
        assert_eq!(window.the::<Vmstat>().unwrap().pswpin.get(), Some(3_777_103));
        assert_eq!(refusal_of(&text.replace(" K free memory", " M free memory")).line, 5);
        let later = text.replace("3777103 pages", "3777303 pages");
        let both = format!("Sat Nov 21 16:54:34 UTC 2026\n{text}Sat Nov 21 16:54:44 UTC 2026\n{later}");
        assert_eq!(window_of(&both).change::<Vmstat>().unwrap().rate(|v| v.pswpin), Some(20.0));
    }
}
