//! How fast a file is read, and in how much memory: `cargo run --release -p whyslow-import --example throughput FILE`.

use std::fs::File;
use std::io::BufReader;
use std::time::Instant;
use whyslow_import::{Input, read};

fn main() {
    let name = std::env::args().nth(1).expect("a file");
    let file = File::open(&name).expect("the file can be opened");
    let bytes = file.metadata().expect("the file has a size").len();
    let start = Instant::now();
    let captures = read(vec![Input { name, reader: Box::new(BufReader::with_capacity(256 * 1024, file)) }], false);
    let seconds = start.elapsed().as_secs_f64();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find(|l| l.starts_with("VmHWM")).unwrap_or("VmHWM unknown");
    println!("{:.0} MB/s, {peak}, {} captures", bytes as f64 / 1e6 / seconds, captures.map_or(0, |c| c.len()));
}
