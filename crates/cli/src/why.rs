//! The main command: diagnoses this machine.

use crate::baseline;
use crate::interrupt::Interrupt;
use crate::observe::observe;
use crate::options::{Observe, OutputOptions};
use crate::output::{self, Failure, print};
use crate::user_rules;
use std::collections::BTreeMap;
use std::process::ExitCode;
use whyslow_diagnose::diagnose;
use whyslow_model::catalogue::Process;
use whyslow_model::diagnosis::{Diagnosis, Origin, Verdict};
use whyslow_model::key::TaskKey;
use whyslow_model::window::Window;
use whyslow_sense::{Root, command_line};
use whyslow_show::{json, text};

/// Watches this machine and says what is wrong with it.
pub fn diagnosed(asked: &Observe) -> Result<Diagnosis, Failure> {
    // First of all: the rules take a while to read where the machine is busy.
    let interrupt = Interrupt::listen().map_err(|e| Failure::usage(format!("cannot listen for Ctrl-C: {e}")))?;
    let rules = user_rules::load();
    let window = observe(asked, interrupt, |window| whyslow_diagnose::requested_sources(window, &rules.book))?;
    let mut diagnosis = diagnose(&window, Origin::Live, &rules.book);
    baseline::remember(&mut diagnosis);
    add_command_lines(&mut diagnosis, &window, &Root::live());
    Ok(diagnosis)
}

/// The command lines of those that are named: to read those of all processes would cost too much.
fn add_command_lines(diagnosis: &mut Diagnosis, window: &Window, root: &Root) {
    let processes: BTreeMap<u32, &TaskKey> =
        window.changes::<Process>().iter().map(|c| (c.key().pid, c.key())).collect();
    for culprit in diagnosis.findings.iter_mut().flat_map(|finding| &mut finding.culprits) {
        let process = culprit.pid.and_then(|pid| processes.get(&pid));
        culprit.command_line = process.and_then(|process| command_line(root, process));
    }
}

/// Prints a diagnosis; with `check` the exit status tells its verdict.
pub fn tell(diagnosis: &Diagnosis, look: &OutputOptions, check: bool) -> Result<ExitCode, Failure> {
    print(if look.json { json::diagnosis(diagnosis) } else { text::diagnosis(diagnosis, &output::style(look)) })?;
    Ok(match diagnosis.verdict {
        Verdict::Bottleneck if check => ExitCode::from(1),
        Verdict::Undetermined if check => ExitCode::from(3),
        _ => ExitCode::SUCCESS,
    })
}
