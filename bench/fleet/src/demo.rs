//! Demonstrates a whole fleet on one machine: a store, simulated hosts that keep shipping, the compactor, and the page.

use crate::bound_program::BoundProgram;
use crate::fleet_program::FleetProgram;
use crate::gateway::{BUCKET, Gateway};
use crate::recorded::RecordedMinutes;
use crate::simulate::{Cause, Fleet, simulate};
use crate::store::{HostFile, HostHour, Rows};
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use whyslow_compare::fleet::Feature;
use whyslow_pairs::failure::{Failure, Result};
use whyslow_pairs::stop;
use whyslow_rollup::Hour;
use whyslow_ship::Destination;

const HOUR_MS: i64 = 3_600_000;
/// Seed of the fleet, and the kernel that is rolled out in it.
const SEED: u64 = 1;
const NEW_KERNEL: &str = "6.12.57-cloud";
/// Time range in which the change reaches hosts, as shares of the simulated past.
const ROLLOUT: (f64, f64) = (0.55, 0.75);
/// Length of a recording that contains a whole minute, regardless of its start.
const RECORDED: &str = "125s";

/// Options of the demonstration.
pub struct Demo<'d> {
    /// The whyslow program, which records the hosts' activity.
    pub whyslow: &'d Path,
    /// The whyslow-fleet program.
    pub whyslow_fleet: &'d Path,
    /// S3 gateway; without one, the store is a folder.
    pub versitygw: Option<&'d Path>,
    /// Recording of some minutes; by default, one of this machine is made.
    pub recording: Option<&'d Path>,
    /// Working folder.
    pub folder: &'d Path,
    /// Simulated hosts.
    pub hosts: usize,
    /// Hours of the past that exist at the beginning.
    pub hours: u32,
    /// Interval at which each host delivers.
    pub every: Duration,
    /// Duration; `None` means until a signal.
    pub length: Option<Duration>,
    /// Address of the page.
    pub listen: &'d str,
}

impl Demo<'_> {
    /// Shows the fleet until its time is over or a signal arrives.
    ///
    /// # Errors
    /// Fails if a program cannot be started or a file cannot be delivered.
    pub fn run(&self) -> Result<()> {
        let gateway = self.versitygw.map(|program| Gateway::start(program, &self.folder.join("s3"))).transpose()?;
        let environment = gateway.as_ref().map(Gateway::environment).unwrap_or_default();
        let store = match &gateway {
            Some(_) => format!("s3://{BUCKET}/demo"),
            None => {
                let folder = self.folder.join("store");
                std::fs::create_dir_all(&folder)?;
                eprintln!("fleet-demo: the store is a folder, as no S3 gateway is given (--versitygw)");
                folder.display().to_string()
            }
        };
        for (name, value) in &environment {
            // SAFETY: this process has one thread so far, so nothing else reads the environment.
            unsafe { std::env::set_var(name, value) };
        }
        let shown = self.show(&store, &environment);
        // A requested end is not a failure.
        if stop::check().is_err() { Ok(()) } else { shown }
    }

    fn show(&self, store: &str, environment: &[(&str, String)]) -> Result<()> {
        let begun = Instant::now();
        let fleet = demonstrative(self.hosts);
        let hosts = ShippingHosts::new(&fleet, store, self.hours)?;
        let mut recorded = self.recording.map(RecordedMinutes::read).transpose()?;
        eprintln!("fleet-demo: {} hosts ship {} hours", self.hosts, self.hours);
        hosts.ship(0..=hosts.newest(), recorded.as_ref())?;
        let own = self.folder.join("recording");
        let mut recorder = match recorded {
            Some(_) => None,
            None => Some(BoundProgram::start(
                Command::new(self.whyslow).args(["record", "--for", RECORDED, "--dir"]).arg(&own).stderr(Stdio::null()),
            )?),
        };
        let program = FleetProgram { path: self.whyslow_fleet, store: store.as_ref(), engine: None, environment };
        let _compactor =
            BoundProgram::start(program.command(&["compact", "--every", "1m", "--grace", "1m"]).stdout(Stdio::null()))?;
        let mut page =
            BoundProgram::start(program.command(&["serve", "--listen", self.listen]).stdout(Stdio::piped()))?;
        match page.first_line()? {
            line if line.is_empty() => {
                return Err(Failure::new("the page is not served: its address may be in use (--listen)"));
            }
            line => println!("{line}"),
        }
        println!(
            "Those with kernel {NEW_KERNEL} are sick since it was rolled out. Ctrl-C ends it and removes everything."
        );
        let end = self.length.map(|length| begun + length);
        loop {
            let next = Instant::now() + self.every;
            stop::pause(end.map_or(next, |end| next.min(end)).saturating_duration_since(Instant::now()))?;
            if end.is_some_and(|end| Instant::now() >= end) {
                return Ok(());
            }
            if let Some(status) = page.ended()? {
                return Err(Failure::new(format!("whyslow-fleet serve has ended: {status}")));
            }
            let newest = hosts.newest();
            // An hour that has ended since is delivered once more, completely.
            let mut hours = newest.saturating_sub(1)..=newest;
            if recorder.as_mut().is_some_and(|recorder| recorder.ended().is_ok_and(|status| status.is_some())) {
                recorder = None;
                recorded = Some(RecordedMinutes::read(&own)?);
                hours = 0..=newest;
            }
            hosts.ship(hours, recorded.as_ref())?;
        }
    }
}

/// Returns a fleet in which every third host gets a new kernel, and is sick from then on.
fn demonstrative(hosts: usize) -> Fleet {
    let mut fleet = simulate(SEED, hosts, None);
    let planted = Feature::new("kernel", "release", NEW_KERNEL);
    let count = fleet.hosts.len() as f64;
    for (number, host) in fleet.hosts.iter_mut().enumerate() {
        host.onset = ROLLOUT.0 + (ROLLOUT.1 - ROLLOUT.0) * (number as f64 / count);
        host.is_planted = number % 3 == 0;
        host.is_sick = host.is_planted;
        let is_kernel = |feature: &&mut Feature| feature.kind == planted.kind && feature.name == planted.name;
        let Some(kernel) = host.features.iter_mut().find(is_kernel).filter(|_| number % 3 == 0) else { continue };
        let old = std::mem::replace(kernel, planted.clone());
        host.changes.push(Feature::change(&old.kind, &old.name, old.value.as_deref(), Some(NEW_KERNEL)));
    }
    Fleet { cause: Some(Cause::Kernel), planted: Some(planted), penetrance: 1.0, ..fleet }
}

/// Simulated hosts, and the destination that they ship to.
struct ShippingHosts<'f> {
    fleet: &'f Fleet,
    destination: Destination,
    from_ms: i64,
    hours: u32,
}

impl<'f> ShippingHosts<'f> {
    /// Creates hosts whose past began `hours` ago.
    fn new(fleet: &'f Fleet, store: &str, hours: u32) -> Result<Self> {
        let destination = Destination::open(store).map_err(|error| Failure::new(error.to_string()))?;
        let from_ms = (now_ms().div_euclid(HOUR_MS) - i64::from(hours)) * HOUR_MS;
        Ok(Self { fleet, destination, from_ms, hours })
    }

    /// Returns the number of the current hour.
    fn newest(&self) -> u32 {
        u32::try_from((now_ms() - self.from_ms).div_euclid(HOUR_MS)).unwrap_or(0)
    }

    /// Delivers hours, as far as they have elapsed.
    fn ship(&self, numbers: RangeInclusive<u32>, recorded: Option<&RecordedMinutes>) -> Result<()> {
        let now = now_ms();
        let tables = Rows::of_tables(recorded)?;
        for number in numbers {
            let hour = Hour::from_ms(self.from_ms + i64::from(number) * HOUR_MS)
                .ok_or_else(|| Failure::new("no such hour"))?;
            for host in &self.fleet.hosts {
                let of = HostHour::new(host, self.fleet.cause, hour, number, self.hours).until(now);
                for rows in &tables {
                    stop::check()?;
                    if let Some(HostFile { path, bytes, .. }) = rows.file(&of)? {
                        let put = self.destination.put(&path, bytes, &AtomicBool::new(false));
                        put.map_err(|error| Failure::new(error.to_string()))?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis());
    i64::try_from(now).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_were_changed_are_sick_from_then_on() {
        let fleet = demonstrative(20);
        let planted = fleet.planted.as_ref().unwrap();
        assert_eq!(fleet.hosts.iter().filter(|host| host.is_sick).count(), 7);
        for host in &fleet.hosts {
            assert_eq!(host.features.contains(planted), host.is_sick);
            assert_eq!(host.changes.iter().any(|change| *change.name == *planted.name), host.is_sick, "{}", host.name);
        }
    }
}
