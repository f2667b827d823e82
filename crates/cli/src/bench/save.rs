//! `--save`: keeps the result as a baseline.

use crate::output::{Failure, complain};
use crate::recordings;
use clap::Args;
use std::path::PathBuf;
use whyslow_compare::of_bench;
use whyslow_model::baseline::Baseline;
use whyslow_model::bench::BenchReport;
use whyslow_store::{Baselines, StoreError};

#[derive(Debug, Args)]
pub struct Saving {
    /// Save the result as a baseline of this name, for whyslow compare
    #[arg(long, value_name = "NAME", global = true, display_order = 900)]
    save: Option<String>,
    /// Overwrite an existing baseline of the same name
    #[arg(long, global = true, requires = "save", display_order = 901)]
    replace: bool,
    /// Folder with the subfolder 'baselines' to save it in [default: /var/lib/whyslow for root, else ~/.local/state/whyslow]
    #[arg(long, global = true, requires = "save", display_order = 902)]
    dir: Option<PathBuf>,
}

impl Saving {
    /// Checks the name before anything is measured.
    pub fn check(&self) -> Result<(), Failure> {
        let Some(name) = &self.save else { return Ok(()) };
        let known = self.baselines()?.load(name);
        // An unreadable baseline is replaced like any other.
        if !self.replace && known.map_err(unusable)?.is_some() {
            return Err(Failure::usage(format!("baseline '{name}' already exists; --replace overwrites it")));
        }
        Ok(())
    }

    pub fn keep(&self, report: &BenchReport) -> Result<(), Failure> {
        let Some(name) = &self.save else { return Ok(()) };
        if report.interrupted {
            complain(&format!("'{name}' was not saved: the benchmark was interrupted"));
            return Ok(());
        }
        let baseline = Baseline { name: name.clone(), ..of_bench(std::slice::from_ref(report)) };
        self.baselines()?.save(&baseline, self.replace).map(drop).map_err(unusable)
    }

    fn baselines(&self) -> Result<Baselines, Failure> {
        Ok(Baselines::of(&recordings::folder(self.dir.as_deref())?))
    }
}

fn unusable(error: StoreError) -> Failure {
    Failure::usage(error.to_string())
}
