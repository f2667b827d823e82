//! The `whyslow` program: parses the command line and connects the crates.

mod args;
mod atomic_file;
mod baseline;
mod bench;
mod commands;
mod compare;
mod complete;
mod expect;
mod experiments;
mod explain;
mod export;
mod exporter;
mod http;
mod interrupt;
mod live;
mod mcp;
mod observe;
mod options;
mod output;
mod privileges;
mod profile;
mod pseudonymise;
mod read;
mod record;
mod recordings;
mod report;
mod results;
mod sampling;
mod serve;
mod ship;
mod stack;
mod top;
mod tune;
mod user_rules;
mod why;

use std::process::ExitCode;
use whyslow_sense::storage;

/// Sole argument with which this program starts itself as a helper that queries mounts.
const MOUNT_HELPER: &str = "mount-helper";

fn main() -> ExitCode {
    if std::env::args_os().skip(1).eq([MOUNT_HELPER]) {
        return storage::serve_helper().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    storage::set_helper("/proc/self/exe".into(), vec![MOUNT_HELPER.into()]);
    // If COMPLETE is set, answers the shell and exits.
    clap_complete::CompleteEnv::with_factory(args::description).complete();
    give_freed_memory_back();
    match args::parse() {
        Ok(args) => {
            let status = commands::run(args).unwrap_or_else(|failure| output::report(&failure));
            interrupt::exit_status().map_or(status, ExitCode::from)
        }
        Err(exit) => exit,
    }
}

/// Makes the allocator return large blocks to the kernel as soon as they are freed.
///
/// glibc raises the threshold for this to the size of the last freed block, up to 32 MiB (mallopt(3),
/// M_MMAP_THRESHOLD). The kernel's type information, parsed once and dropped, then leaves 14 MB behind; this call fixes
/// the threshold at its initial value.
fn give_freed_memory_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt(3) takes two numbers, and no other thread runs yet.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 128 * 1024);
    }
}

/// Makes the allocator keep large blocks for reuse from now on: reading a day allocates columns of some hundred
/// kilobytes again and again, and a sample of a thousand processes the same rows as the one before. Mapping them again
/// would take a fifth of the time of the former, and an eighth of the latter.
pub(crate) fn keep_freed_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt(3) takes two numbers; the allocator's own lock excludes other threads.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 16 << 20);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 64 << 20);
    }
}
