//! Measures how fast a kernel log of a gigabyte is read, and how much memory that takes.

mod logs;
mod measure;

use clap::{Parser, ValueEnum};
use logs::Kind;
use std::io;
use std::process::ExitCode;

/// What to measure.
#[derive(Parser)]
struct Arguments {
    /// Size of each log, in millions of bytes
    #[arg(long, default_value_t = 1000)]
    megabytes: u64,
    /// Only this log
    #[arg(long)]
    only: Option<Kind>,
    /// The program to measure
    #[arg(long, default_value = "target/release/whyslow")]
    whyslow: String,
    /// Run the command that follows as the only child, and print what it took
    #[arg(long, hide = true, num_args = 1.., allow_hyphen_values = true)]
    only_child: Vec<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done =
        if arguments.only_child.is_empty() { bench(&arguments) } else { measure::only_child(&arguments.only_child) };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("bench-import: {e}");
            ExitCode::FAILURE
        }
    }
}

fn bench(arguments: &Arguments) -> io::Result<()> {
    let folder = tempfile::Builder::new().prefix("wsl-bench-").tempdir_in("/var/tmp")?;
    println!("{:<8} {:<14} {:>8} {:>10} {:>10}", "log", "program", "MB/s", "MB/s cpu", "peak MB");
    for kind in Kind::value_variants().iter().filter(|kind| arguments.only.is_none_or(|only| only == **kind)) {
        let path = folder.path().join("kern.log");
        logs::write(*kind, &path, arguments.megabytes * 1_000_000)?;
        let bytes = measure::warm(&path)? as f64;
        let file = path.to_str().ok_or_else(|| io::Error::other("the temporary folder's name is no UTF-8"))?;
        let commands: [(&str, &[&str]); 3] = [
            ("whyslow read", &[&arguments.whyslow, "read", "--json", file]),
            ("wc -l", &["wc", "-l", file]),
            ("grep -c error", &["grep", "-c", "error", file]),
        ];
        for (name, command) in commands {
            let taken = measure::measure(command)?;
            let (rate, cpu) = (bytes / 1e6 / taken.wall, bytes / 1e6 / taken.cpu);
            let log = format!("{kind:?}").to_lowercase();
            println!("{log:<8} {name:<14} {rate:>8.0} {cpu:>10.0} {:>10.1}", taken.peak / 1e6);
        }
    }
    Ok(())
}
