//! The `whyslow-fleet` program. All code is in the library, which the benchmark of simulated fleets uses too.

use std::process::ExitCode;

fn main() -> ExitCode {
    whyslow_fleet::run()
}
