//! What a sample costs, source by source: `cargo run --release --example cost -- [samples] [extra processes]`.
//!
//! The extra processes sleep, as most processes of a machine do.

use std::collections::BTreeMap;
use std::process::{Child, Command};
use std::time::Duration;
use whyslow_sense::{Root, Sampler};

/// What one source took, over all samples, nanoseconds.
#[derive(Default)]
struct Cost {
    cpu: u64,
    wall: u64,
    reads: u64,
}

fn main() -> std::io::Result<()> {
    let mut numbers = std::env::args().skip(1).map(|a| a.parse::<u64>().expect("a number"));
    let samples = numbers.next().unwrap_or(10).max(1);
    let mut sleepers = Vec::new();
    let result = sleep(numbers.next().unwrap_or(0), &mut sleepers).map(|()| measure(samples));
    for mut child in sleepers {
        child.kill()?;
        child.wait()?;
    }
    print(&result?);
    Ok(())
}

fn sleep(count: u64, sleepers: &mut Vec<Child>) -> std::io::Result<()> {
    for _ in 0..count {
        sleepers.push(Command::new("sleep").arg("1000").spawn()?);
    }
    Ok(())
}

/// The first sample, which makes itself known to everything, is left out.
fn measure(samples: u64) -> BTreeMap<String, Cost> {
    let mut sampler = Sampler::new(Root::live());
    let first = sampler.sample();
    println!("{} processes, {} threads of those with several", first.task.process.len(), first.task.thread.len());
    let mut costs = BTreeMap::<String, Cost>::new();
    for _ in 0..samples {
        std::thread::sleep(Duration::from_millis(std::env::var("MS").map_or(1000, |v| v.parse().unwrap())));
        for report in sampler.sample().sources {
            let cost = costs.entry(report.source.to_string()).or_default();
            cost.cpu += report.cpu_ns;
            cost.wall += report.wall_ns;
            cost.reads += 1;
        }
    }
    costs
}

fn print(costs: &BTreeMap<String, Cost>) {
    println!("{:<32} {:>8} {:>8}", "source", "cpu ms", "wall ms");
    let milliseconds = |ns: u64, reads: u64| ns as f64 / reads as f64 / 1e6;
    for (source, cost) in costs {
        let (cpu, wall) = (milliseconds(cost.cpu, cost.reads), milliseconds(cost.wall, cost.reads));
        println!("{source:<32} {cpu:>8.2} {wall:>8.2}");
    }
    let total = costs.values().map(|c| milliseconds(c.cpu, c.reads)).sum::<f64>();
    println!("{:<32} {total:>8.2}", "all");
}
