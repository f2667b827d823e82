//! Messages of smartd(8) in the system log or in mails (smartd.cpp).

use crate::prelude::*;
use whyslow_model::catalogue::Drive;

pub const FORMAT: Format = Format {
    name: "smartd",
    versions: "smartmontools 5 to 7: in a system log, a mail, or alone",
    shows: "drives that hold sectors they cannot read, that assess themselves as failing, or whose logs of errors and self-tests grow",
    lacks: "other warnings of smartd, such as temperatures and attributes that changed",
    starts: |lines| lines.next_is(|line| Warning::parse(line).is_some()),
    read,
    ..Format::NEW
};

/// `Device: /dev/sdf [SAT], 8 Currently unreadable (pending) sectors`
struct Warning<'l> {
    device: &'l str,
    unreadable: Option<f64>,
    failing: bool,
    failed_tests: Option<f64>,
    logged_errors: Option<f64>,
}

impl<'l> Warning<'l> {
    fn parse(line: &'l str) -> Option<Self> {
        let (_, rest) = line.split_once("Device: /dev/")?;
        let (device, what) = rest.split_once(", ")?;
        let device = device.split([' ', '[']).next()?;
        let sectors = |words: &str| what.split_once(words).and_then(|(count, _)| number(count.trim()));
        let pending = sectors(" Currently unreadable (pending) sectors");
        let unreadable = pending.or_else(|| sectors(" Offline uncorrectable sectors"));
        let failing = what.starts_with("FAILED SMART self-check");
        // `Self-Test Log error count increased from 0 to 1`
        let increased = |words: &str| number(what.strip_prefix(words)?.split_once(" to ")?.1.trim_end_matches('.'));
        let failed_tests = increased("Self-Test Log error count increased from ");
        let logged_errors = increased("ATA error count increased from ");
        let is_warning = unreadable.is_some() || failing || failed_tests.is_some() || logged_errors.is_some();
        is_warning.then_some(Self { device, unreadable, failing, failed_tests, logged_errors })
    }
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    while let Some(line) = lines.take_past_blanks_if(|text| Warning::parse(text).is_some()) {
        let Some(warning) = Warning::parse(&line.text) else { break };
        let row = run.row::<Drive>(0.0, line.number, warning.device.into());
        if let Some(unreadable) = warning.unreadable {
            row.unreadable = unreadable.into();
        }
        if warning.failing {
            row.failing = 1.0.into();
        }
        if warning.failed_tests.is_some() {
            row.failed_tests = warning.failed_tests.into();
        }
        if warning.logged_errors.is_some() {
            row.logged_errors = warning.logged_errors.into();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, row_of, window_of};

    #[test]
    fn warnings_in_a_log_and_in_a_mail() {
        let window = window_of(&fixture("layouts/smartd.txt"));
        let drives = window.newest::<Drive>();
        let of = |name: &str| drives.values().find(|drive| *drive.device == *name).unwrap();
        assert_eq!((of("sdf").unreadable.get(), of("sdf").failing.get()), (Some(16.0), None));
        assert_eq!(of("sdg").failing.get(), Some(1.0));
        let mail = "The following warning/error was logged by the smartd daemon:\n\n\
            Device: /dev/sg2 [areca_disk#06_enc#01], 2 Offline uncorrectable sectors\n\nDevice info:\n";
        let drive = row_of::<Drive>(mail);
        assert_eq!((&*drive.device, drive.unreadable.get()), ("sg2", Some(2.0)));
        let counts = "Device: /dev/sdb [SAT], Self-Test Log error count increased from 3 to 4\n\
            Device: /dev/sdb [SAT], ATA error count increased from 9 to 12\n";
        let drive = row_of::<Drive>(counts);
        assert_eq!(
            (drive.failed_tests.get(), drive.logged_errors.get(), drive.unreadable.get()),
            (Some(4.0), Some(12.0), None)
        );
    }
}
