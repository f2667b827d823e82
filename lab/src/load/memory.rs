//! Loads of memory.

use super::{Endless, Pace, ready, rest};
use crate::dice::Dice;
use clap::Args;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

const PAGE: u64 = 4096;

/// Takes memory, fills it with what does not compress, and touches its pages at random.
#[derive(Args)]
pub struct Touch {
    /// How much.
    #[arg(long)]
    bytes: u64,
    /// Pages touched a second; 0 for as many as possible.
    #[arg(long, default_value_t = 0)]
    rate: u64,
    /// Touch nothing once it is filled.
    #[arg(long)]
    still: bool,
    /// The seed of what is written and where.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Touch {
    /// Never ends.
    pub fn run(self) -> Endless {
        let mut dice = Dice::new(self.seed, "touch");
        let mut words = vec![0_u64; (self.bytes / 8) as usize];
        words.fill_with(|| dice.roll());
        ready("")?;
        if self.still {
            // Else the compiler may see that nobody looks at it.
            std::hint::black_box(&words);
            rest();
        }
        // The pace is kept by tens: a sleep for each page would cost more than the page.
        let mut pace = Pace::rate(self.rate, 10);
        loop {
            pace.wait();
            for _ in 0..10 {
                let page = skewed(dice.roll(), self.bytes / PAGE);
                words[(page * PAGE / 8) as usize] ^= 1;
            }
        }
    }
}

/// A number below `count` that is small more often than large, as programs use some of their pages more than others: a
/// quarter of the pages gets half of the touches.
fn skewed(roll: u64, count: u64) -> u64 {
    let part = (roll >> 11) as f64 / (1_u64 << 53) as f64;
    (part * part * count as f64) as u64
}

/// Takes memory until it is killed.
#[derive(Args)]
pub struct Hog {
    /// How much a second.
    #[arg(long)]
    rate: u64,
    /// How much at most, so that a machine without a limit survives.
    #[arg(long, default_value_t = u64::MAX)]
    most: u64,
}

impl Hog {
    /// Ends by the kernel's hand.
    pub fn run(self) -> Endless {
        const STEP: u64 = 1 << 20;
        let (mut held, mut pace) = (Vec::new(), Pace::rate(self.rate, STEP));
        ready("")?;
        while (held.len() as u64) < self.most / STEP {
            pace.wait();
            held.push(vec![1_u8; STEP as usize]);
        }
        rest()
    }
}

/// Starts a hog again whenever the last one was killed.
#[derive(Args)]
pub struct Oom {
    /// How much memory the hog takes a second.
    #[arg(long)]
    rate: u64,
    /// The pause between two hogs.
    #[arg(long)]
    pause_ms: u64,
}

impl Oom {
    /// Ends where a hog cannot be started.
    pub fn run(self) -> Endless {
        let mut hog = Command::new("/proc/self/exe");
        std::os::unix::process::CommandExt::arg0(&mut hog, "lab-hog");
        hog.args(["load", "hog", "--rate", &self.rate.to_string()]).stdout(std::process::Stdio::null());
        crate::leash::die_with_us(&mut hog);
        ready("")?;
        loop {
            hog.spawn()?.wait()?;
            sleep(Duration::from_millis(self.pause_ms));
        }
    }
}
