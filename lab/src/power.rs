//! Reboots a machine, and cuts its power, while whyslow records and changes settings.
//!
//! What must hold: persisted settings are in effect after a boot, and no others; no change is half made, in a file or
//! in the journal; the recorder continues by itself, and lost at most what it had not flushed at the power cut.

use crate::error::{Error, Result};
use crate::interrupt;
use crate::vm::{Durable, Images};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::Serialize;
use std::fmt;
use std::time::{Duration, Instant};

/// Maximum gap at the end of a recording after a power cut, in seconds: a sample per second, and one that is being
/// written while the next is taken. The CPUs are emulated.
const UNFLUSHED_S: f64 = 4.0;
/// Time for the recorder to record something once it runs: emulated CPUs take long to start it.
const RECORDS_AFTER: Duration = Duration::from_secs(60);
/// Range of the time, in seconds, between the start of the loads and the power cut.
const RUNS_FOR: std::ops::Range<f64> = 2.0..20.0;

/// Script that changes settings over and over: `$n` is in their values, and every change is persisted.
const CHANGES: &str = "systemd-run --quiet --unit lab-changes sh -c '\
     n=20; while :; do n=$((n % 60 + 21)); \
     whyslow tune set vm.swappiness=$n vm.dirty_ratio=$n --why lab && whyslow tune persist; \
     [ $((n % 2)) = 0 ] || whyslow tune undo; done'";

/// A check after a boot.
#[derive(Serialize)]
pub struct Check {
    /// Event before the check: `reboot`, or the number of the power cut.
    after: String,
    what: &'static str,
    /// Reason why it does not hold.
    wrong: Option<String>,
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { after, what, wrong } = self;
        match wrong {
            None => write!(f, "right  {after}: {what}"),
            Some(wrong) => write!(f, "WRONG  {after}: {what}: {wrong}"),
        }
    }
}

impl Check {
    /// Returns whether the check holds.
    pub fn is_right(&self) -> bool {
        self.wrong.is_none()
    }
}

/// A machine, with the callback for reporting the checks after a boot.
struct Looked<'r> {
    machine: Durable<'r>,
    after: String,
    report: &'r mut dyn FnMut(Check),
}

/// Reboots a machine with the kernel of a Debian suite once, and cuts its power `cuts` times.
///
/// # Errors
/// Fails if the machine does not boot or does not answer.
pub fn run(images: &Images, suite: &str, cuts: u32, seed: u64, report: &mut dyn FnMut(Check)) -> Result<()> {
    let guest = images.guest(suite, Vec::new())?;
    let mut machine = Durable::start(&guest)?;
    expect_success(&mut machine, "ln -s /lab/whyslow /usr/local/bin/whyslow
        cp /lab/whyslow-record.service /lab/whyslow-recover.service /etc/systemd/system/
        systemctl daemon-reload && systemctl --quiet enable --now whyslow-record && systemctl --quiet enable whyslow-recover")?;
    let mut looked = Looked { machine, after: "reboot".into(), report };
    looked.reboot()?;
    let mut random = StdRng::seed_from_u64(seed);
    for cut in 1..=cuts {
        looked = looked.lose_power(cut, random.random_range(RUNS_FOR))?;
    }
    Ok(())
}

impl Looked<'_> {
    fn check(&mut self, what: &'static str, wrong: Option<String>) {
        (self.report)(Check { after: self.after.clone(), what, wrong });
    }

    /// Checks that a script prints the expected text.
    fn expect(&mut self, what: &'static str, script: &str, expected: &str) -> Result<()> {
        let ran = self.machine.script(script)?;
        let is_right = ran.status == 0 && ran.output.trim() == expected;
        let wrong = (!is_right).then(|| format!("{:?} (status {}), not {expected:?}", ran.output.trim(), ran.status));
        self.check(what, wrong);
        Ok(())
    }

    fn reboot(&mut self) -> Result<()> {
        let machine = &mut self.machine;
        let before = output(machine, "cat /proc/sys/vm/dirty_ratio /proc/sys/net/core/somaxconn")?;
        expect_success(
            machine,
            "whyslow tune set vm.swappiness=11 --why lab && whyslow tune persist
            whyslow tune set disk.read_ahead_kb@vdc=512 --why lab && whyslow tune persist
            whyslow tune set vm.dirty_ratio=31 --why lab
            whyslow tune set net.core.somaxconn=5000 --confirm-within 30m --why lab",
        )?;
        // Long enough for a segment to be behind the tail's last block of parity.
        interrupt::sleep(Duration::from_secs(40))?;
        let last = now(machine)?;
        machine.reboot()?;
        self.services()?;
        self.expect("a persisted sysctl is in effect", "cat /proc/sys/vm/swappiness", "11")?;
        self.expect("a persisted setting of a disk is in effect", "cat /sys/block/vdc/queue/read_ahead_kb", "512")?;
        self.expect(
            "what was not persisted, or not confirmed, is not",
            "cat /proc/sys/vm/dirty_ratio /proc/sys/net/core/somaxconn",
            before.trim(),
        )?;
        self.recording(last, 1.5)?;
        self.journal()?;
        self.undone()
    }

    fn lose_power(self, cut: u32, after_s: f64) -> Result<Self> {
        let Self { mut machine, report, .. } = self;
        expect_success(&mut machine, CHANGES)?;
        interrupt::sleep(Duration::from_secs_f64(after_s))?;
        let last = now(&mut machine)?;
        let mut looked = Looked { machine: machine.lose_power()?, after: format!("power cut {cut}"), report };
        looked.services()?;
        looked.recording(last, UNFLUSHED_S)?;
        // The file is complete, and its settings are in effect.
        let persisted = "sed -n 's/^vm[.]\\([a-z_]*\\) *= */\\1 /p' /etc/sysctl.d/99-whyslow.conf 2>/dev/null | \
             while read -r name value; do [ $(cat /proc/sys/vm/$name) = $value ] || echo $name is not $value; done";
        looked.expect("what is persisted is in effect", persisted, "")?;
        let names = "grep -c '^vm[.]' /etc/sysctl.d/99-whyslow.conf 2>/dev/null | grep -vx '[02]' || true";
        looked.expect("both settings of a change are persisted, or neither", names, "")?;
        looked.journal()?;
        looked.undone()?;
        Ok(looked)
    }

    /// Checks that the services ran as they should.
    fn services(&mut self) -> Result<()> {
        let script = "udevadm settle
            systemctl show --property Result --value whyslow-recover
            systemctl is-active whyslow-record";
        self.expect("recovery ended well, and the recorder runs", script, "success\nactive")
    }

    /// Checks that the recording has everything recorded until then, and continues.
    fn recording(&mut self, last: f64, missing_s: f64) -> Result<()> {
        // Prints the time of each sample in seconds since 1970.
        let script = "whyslow export meminfo --raw --json --since 10m --dir /var/lib/whyslow | \
             sed -n 's/.*\"at\":\"\\([^\"]*\\)\".*/\\1/p' | while read -r at; do date -d \"$at\" +%s.%N; done";
        let end = Instant::now() + RECORDS_AFTER;
        let wrong = loop {
            let text = output(&mut self.machine, script)?;
            let times: Vec<f64> = text.lines().filter_map(|line| line.trim().parse().ok()).collect();
            let complaint = text.lines().find(|line| line.trim().parse::<f64>().is_err());
            let before = times.iter().copied().filter(|time| *time <= last).fold(f64::NEG_INFINITY, f64::max);
            let wrong = if let Some(complaint) = complaint {
                Some(complaint.to_owned())
            } else if last - before > missing_s {
                let ago = last - before;
                Some(format!("the last of {} samples before is {ago:.1} s older than that moment", times.len()))
            } else {
                let goes_on = times.iter().any(|time| *time > last + missing_s);
                (!goes_on).then(|| "nothing was recorded afterwards".to_owned())
            };
            if wrong.is_none() || Instant::now() > end {
                break wrong;
            }
            interrupt::sleep(Duration::from_secs(1))?;
        };
        self.check("the recording has what was flushed, and goes on", wrong);
        Ok(())
    }

    /// Checks that the journal can be read and that its settings are true: they are in effect, or were reset by the
    /// reboot.
    fn journal(&mut self) -> Result<()> {
        let script =
            "whyslow tune verify 2>&1 | grep -v 'reset by a reboot' | grep -E ', changed|, now|whyslow:'; true";
        self.expect("settings are as the journal says", script, "")
    }

    /// Checks that everything can be undone.
    fn undone(&mut self) -> Result<()> {
        let script = "whyslow tune undo --all >/run/undo 2>&1 || cat /run/undo
            cat /proc/sys/vm/swappiness; ls /etc/sysctl.d/99-whyslow.conf /etc/udev/rules.d/99-whyslow.rules 2>/dev/null; true";
        self.expect("all is undone, in the kernel and in files", script, "60")
    }
}

/// Returns the machine's time in seconds since 1970.
fn now(machine: &mut Durable<'_>) -> Result<f64> {
    let text = output(machine, "date +%s.%N")?;
    text.trim().parse().map_err(|_| Error::failed(format!("date printed {text:?}")))
}

fn output(machine: &mut Durable<'_>, script: &str) -> Result<String> {
    Ok(machine.script(script)?.output)
}

fn expect_success(machine: &mut Durable<'_>, script: &str) -> Result<()> {
    let ran = machine.script(&format!("set -e\n{script}"))?;
    match ran.status {
        0 => Ok(()),
        status => Err(Error::failed(format!("status {status} in the machine: {}", ran.output.trim()))),
    }
}
