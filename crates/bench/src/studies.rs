//! What benchmarks have in common that consist of studies: figures, each measured over and over.

use crate::error::Result;
use crate::pinned::{Clock, Pace};
use crate::places::Processors;
use crate::round::Progress;
use crate::session::Session;
use crate::stop::Stop;
use std::time::Duration;
use whyslow_model::bench::{Kind, Report, Study};
use whyslow_sense::Root;

/// How a study is made.
pub(crate) type Make<'m> = &'m dyn Fn(&mut Bench<'_>) -> Result<Study>;

/// What all studies need.
pub(crate) struct Bench<'w> {
    pub(crate) root: Root,
    pub(crate) processors: Processors,
    /// The time each figure is measured for.
    pub(crate) time: Duration,
    pub(crate) session: Session<'w>,
}

impl<'w> Bench<'w> {
    /// On this machine, each figure for so many seconds.
    pub(crate) fn begin(seconds: f64, stop: &Stop, watch: &'w mut dyn FnMut(Progress)) -> Self {
        let root = Root::live();
        Self {
            processors: Processors::of(&root),
            time: Duration::from_secs_f64(seconds),
            session: Session::begin(stop, watch),
            root,
        }
    }

    /// How figures are measured.
    pub(crate) fn pace(&self, clock: Clock) -> Pace<'_> {
        Pace { time: self.time, clock, stop: &self.session.stop }
    }

    /// Makes studies one after the other; those that have figures are reported.
    ///
    /// # Errors
    /// Where one of them fails.
    pub(crate) fn report(mut self, kind: Kind, studies: &[Make<'_>]) -> Result<Report> {
        let studies: Vec<Study> = studies.iter().map(|study| study(&mut self)).collect::<Result<_>>()?;
        let studies = studies.into_iter().filter(|study| !study.figures.is_empty()).collect();
        Ok(Report { studies, ..self.session.finish(kind, Vec::new()) })
    }
}
