//! Signals of the running machine as measurements: a window over each.

use std::time::{Duration, Instant};
use whyslow_diagnose::{Figure, values};
use whyslow_model::window::Window;
use whyslow_sense::{Root, Sampler};
use whyslow_tune::experiment::{Measurement, Meter};

/// How often a sample is taken within a measurement: some signals are of the steps between.
const INTERVAL: Duration = Duration::from_secs(1);

/// Reads figures over a window from the start of a measurement to its end.
pub struct SignalMeter {
    figures: Vec<Figure>,
    /// None where nothing is asked for: to sample costs time.
    sampler: Option<Sampler>,
    window: Window,
    due: Instant,
}

impl SignalMeter {
    /// For these figures; loads the BPF programs now, where there are any.
    pub fn of(figures: Vec<Figure>) -> Self {
        // What is seldom read has to be in each window.
        let mut sampler = (!figures.is_empty()).then(|| Sampler::new(Root::live()).slow(Duration::ZERO));
        if let Some(sampler) = &mut sampler {
            for source in figures.iter().flat_map(Figure::asks) {
                sampler.ask(source);
            }
        }
        Self { figures, sampler, window: Window::default(), due: Instant::now() }
    }

    fn sample(&mut self) {
        if let Some(sampler) = &mut self.sampler {
            self.window.push(sampler.sample());
            self.due = Instant::now() + INTERVAL;
        }
    }
}

impl Meter for SignalMeter {
    fn start(&mut self) {
        self.window = Window::default();
        self.sample();
    }

    fn tick(&mut self) {
        if Instant::now() >= self.due {
            self.sample();
        }
    }

    fn stop(&mut self) -> Measurement {
        self.sample();
        values(&self.window, &self.figures)
    }
}
