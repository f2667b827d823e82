//! Harmless background programs, as on any machine. None of them may be found.

use crate::error::Result;
use crate::load_process::LoadCommand;
use crate::testbed::Testbed;

/// Background programs to choose from. Together they use a few percent of one CPU.
const PROGRAMS: &[fn(&mut Testbed) -> Result<()>] = &[timers, worker_pool, logger, stream, open_files, web_page];

/// Starts background programs in a separate testbed, so that the trial has the same parameters with and without noise.
/// The seed chooses the programs.
pub fn start(trial: &str, seed: u64) -> Result<Testbed> {
    let mut bed = Testbed::new(&format!("{trial}-noise"), seed)?;
    let (first, count) = (bed.range(0..PROGRAMS.len()), bed.range(2..=4));
    for program in PROGRAMS.iter().cycle().skip(first).take(count) {
        program(&mut bed)?;
    }
    Ok(bed)
}

/// Starts threads that do very little at regular intervals.
fn timers(bed: &mut Testbed) -> Result<()> {
    let (threads, every) = (bed.range(1..=6), bed.range(100..=500) * 1000);
    LoadCommand::new("bursts").with("threads", threads).with("busy-us", 300).with("every-us", every).start(bed)?;
    Ok(())
}

/// Starts threads that wait for work, but get hardly any.
fn worker_pool(bed: &mut Testbed) -> Result<()> {
    let pool = LoadCommand::new("pool").with("threads", bed.range(4..=64)).with("rate", bed.range(1..=20));
    pool.with("work-us", bed.range(100..=1000)).start(bed)?;
    Ok(())
}

/// Starts a program that occasionally writes a line and leaves it to the kernel when to write it back.
fn logger(bed: &mut Testbed) -> Result<()> {
    let append = LoadCommand::new("append").with("path", bed.path("log").display()).with("size", bed.range(80..=400));
    append.with("every-ms", bed.range(200..=2000)).flag("lazy").start(bed)?;
    Ok(())
}

/// Starts a slow TCP stream over loopback.
fn stream(bed: &mut Testbed) -> Result<()> {
    let at = format!("127.0.0.1:{}", bed.port());
    LoadCommand::new("sink").with("at", &at).start(bed)?;
    LoadCommand::new("source").with("to", &at).with("rate", bed.range(10..=200) << 10).start(bed)?;
    Ok(())
}

/// Starts a process that has some files open, far below its limit.
fn open_files(bed: &mut Testbed) -> Result<()> {
    let limit = bed.range(256..=4096);
    LoadCommand::new("files").with("limit", limit).with("open", limit / 4).start(bed)?;
    Ok(())
}

/// Starts a server that gets occasional requests.
fn web_page(bed: &mut Testbed) -> Result<()> {
    let serve = LoadCommand::new("serve").with("clients", bed.range(1..=3)).with("rate", bed.range(2..=20));
    serve.with("work-us", bed.range(50..=200)).start(bed)?;
    Ok(())
}
