//! zpool-status(8) of OpenZFS: the state of each pool and the errors of its devices (cmd/zpool/zpool_main.c).

use crate::prelude::*;
use whyslow_model::catalogue::{Array, Drive};

pub const FORMAT: Format = Format {
    name: "zpool status",
    versions: "OpenZFS 0.6 to 2.3: status, with -v, -x, -L, -P",
    shows: "degraded pools; devices on which ZFS counted errors; whether a scrub or resilver runs",
    lacks: "rates; why a device has errors",
    programs: &[partly_read("zpool")],
    files: &["zpool_status"],
    starts: |lines| {
        lines.next_is(|line| field(line, "pool").is_some())
            && lines.peek(1).is_some_and(|l| field(l, "state").is_some())
    },
    read,
    ..Format::NEW
};

/// The most lines above the list of devices, and below it.
const MOST_LINES: usize = 60;
/// The columns of the list of devices.
const HEADER: [&str; 5] = ["NAME", "STATE", "READ", "WRITE", "CKSUM"];
/// What groups of devices are called: they have no errors of their own.
const GROUPS: [&str; 9] = ["raidz", "mirror", "draid", "spare", "replacing", "logs", "cache", "special", "dedup"];
/// The states of a device that is in use, and of a spare one.
const WHOLE: [&str; 3] = ["ONLINE", "AVAIL", "INUSE"];

/// The value of `  pool: tank`
fn field<'t>(line: &'t str, name: &str) -> Option<&'t str> {
    line.trim_start().strip_prefix(name)?.strip_prefix(": ").map(str::trim).filter(|value| !value.is_empty())
}

fn read(lines: &mut Lines<'_>, _: &CaptureContext, run: &mut ToolRun) -> ReadResult {
    let number = lines.number();
    let Some(pool) = lines.take().and_then(|line| field(&line.text, "pool").map(str::to_owned)) else { return Ok(()) };
    let row = run.row::<Array>(0.0, number, pool.as_str().into());
    row.action = "idle".into();
    let mut devices = None;
    for _ in 0..MOST_LINES {
        let Some((blanks, text)) = lines.peek_past_blanks(0) else { break };
        if field(text, "pool").is_some() || is_command(text) {
            break;
        }
        let text = text.to_owned();
        let row = run.row::<Array>(0.0, number, pool.as_str().into());
        if let Some(state) = field(&text, "state") {
            row.state = state.to_ascii_lowercase().as_str().into();
        } else if let Some(scan) = field(&text, "scan").filter(|scan| scan.contains("in progress")) {
            row.action = if scan.starts_with("resilver") { "resilver" } else { "scrub" }.into();
        } else if text.contains("% done") {
            let mut words = text.split([' ', ',', '\t']);
            let share = words.find_map(number_of_percent);
            row.sync_done = share.into();
        } else if text.split_whitespace().eq(HEADER) {
            lines.skip(blanks + 1);
            devices = Some(list(lines, run, &pool));
            continue;
        } else if devices.is_some() {
            // `errors: No known data errors` ends a pool.
            lines.skip(if field(&text, "errors").is_some() { blanks + 1 } else { 0 });
            break;
        }
        lines.skip(blanks + 1);
    }
    if let Some(devices) = devices {
        let row = run.row::<Array>(0.0, number, pool.as_str().into());
        row.members = f64::from(devices.count).into();
        row.degraded = f64::from(devices.missing).into();
        row.level = devices.level.as_deref().unwrap_or("stripe").into();
    }
    Ok(())
}

/// `26.05%`
fn number_of_percent(word: &str) -> Option<f64> {
    word.strip_suffix('%').and_then(number).map(|percent| percent / 100.0)
}

/// The devices of a pool.
#[derive(Default)]
struct Devices {
    count: u32,
    missing: u32,
    /// What the first group is: `raidz2` of `raidz2-0`.
    level: Option<String>,
}

fn list(lines: &mut Lines<'_>, run: &mut ToolRun, pool: &str) -> Devices {
    let mut devices = Devices::default();
    while let Some(line) = lines.take_if(|text| text.starts_with([' ', '\t']) && !text.trim().is_empty()) {
        let fields: Vec<&str> = line.text.split_whitespace().collect();
        let Some(&name) = fields.first().filter(|name| **name != pool) else { continue };
        if let Some(group) = GROUPS.iter().find(|group| name.starts_with(**group)) {
            if devices.level.is_none() && ["raidz", "mirror", "draid"].contains(group) {
                devices.level = name.split('-').next().map(str::to_owned);
            }
            continue;
        }
        let [_, state, counts @ ..] = &fields[..] else { continue };
        let is_spare = state == &"AVAIL" || state == &"INUSE";
        devices.count += u32::from(!is_spare);
        devices.missing += u32::from(!WHOLE.contains(state));
        let counts: Vec<f64> = counts.iter().take(3).map_while(|count| scaled(count, 1e3, 1.0)).collect();
        let [read, write, checksum] = counts[..] else { continue };
        let disk = name.rsplit('/').next().unwrap_or(name);
        let row = run.row::<Drive>(0.0, line.number, disk.into());
        row.io_errors = (read + write).into();
        row.checksum_errors = checksum.into();
    }
    devices
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    #[test]
    fn pools_and_their_devices() {
        let window = window_of(&fixture("layouts/zpool-status.txt"));
        let arrays = window.newest::<Array>();
        let pool = |name: &str| arrays.values().find(|a| *a.array == *name).unwrap();
        let tank = pool("tank");
        assert_eq!(
            (tank.level.get(), tank.state.get(), tank.action.get()),
            (Some("raidz1"), Some("degraded"), Some("resilver"))
        );
        assert_eq!((tank.members.get(), tank.degraded.get(), tank.sync_done.get()), (Some(3.0), Some(1.0), Some(0.26)));
        let backup = pool("backup");
        assert_eq!(
            (backup.level.get(), backup.action.get(), backup.degraded.get()),
            (Some("mirror"), Some("idle"), Some(0.0))
        );
        let drives = window.newest::<Drive>();
        let errors = |name: &str| {
            let drive = drives.values().find(|d| *d.device == *name).unwrap();
            (drive.io_errors.get(), drive.checksum_errors.get())
        };
        assert_eq!((errors("sdb"), errors("sdd")), ((Some(503.0), Some(0.0)), (Some(0.0), Some(1200.0))));
        assert_eq!(errors("sda"), (Some(0.0), Some(0.0)));
    }
}
