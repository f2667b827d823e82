//! zpool-status(8) and zpool-list(8) of OpenZFS: state of each pool, errors of its devices, and its space
//! (cmd/zpool/zpool_main.c).

use super::mdstat::record_failed;
use crate::prelude::*;
use whyslow_model::catalogue::{Array, Drive, Volume};

pub const STATUS: Format = Format {
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

pub const LIST: Format = Format {
    name: "zpool list",
    versions: "OpenZFS 0.6 to 2.3, with -v",
    shows: "pools that are nearly full",
    lacks: "rates; how the space is used",
    programs: &[partly_read("zpool")],
    files: &["zpool_list"],
    starts: |lines| lines.next_is(is_list_header),
    read: read_list,
    ..Format::NEW
};

/// Maximum number of lines above the list of devices, and below it.
const MOST_LINES: usize = 60;
/// Columns of the list of devices.
const HEADER: [&str; 5] = ["NAME", "STATE", "READ", "WRITE", "CKSUM"];
/// Names of groups of devices, which have no errors of their own.
pub(super) const GROUPS: [&str; 11] =
    ["raidz", "mirror", "draid", "spare", "replacing", "logs", "cache", "special", "dedup", "indirect", "hole"];
/// All states of a device (zpoolconcepts(7)).
const STATES: [&str; 8] = ["ONLINE", "DEGRADED", "FAULTED", "OFFLINE", "UNAVAIL", "REMOVED", "AVAIL", "INUSE"];
/// States of a device that is in use, and of a spare one.
const WHOLE: [&str; 3] = ["ONLINE", "AVAIL", "INUSE"];

/// Returns the value of `  pool: tank`.
fn field<'t>(line: &'t str, name: &str) -> Option<&'t str> {
    line.trim_start().strip_prefix(name)?.strip_prefix(": ").map(str::trim).filter(|value| !value.is_empty())
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let number = lines.number();
    let Some(pool) = lines.take().and_then(|line| field(&line.text, "pool").map(str::to_owned)) else { return Ok(()) };
    run.row::<Array>(0.0, number, pool.as_str().into());
    let mut devices = None;
    let mut is_listed = false;
    for _ in 0..MOST_LINES {
        let Some((blanks, text)) = lines.peek_past_blanks(0) else { break };
        if field(text, "pool").is_some() || is_command(text) {
            break;
        }
        let text = text.to_owned();
        let row = run.row::<Array>(0.0, number, pool.as_str().into());
        if let Some(state) = field(&text, "state") {
            row.state = state.to_ascii_lowercase().as_str().into();
        } else if let Some(scan) = field(&text, "scan") {
            row.action = action(scan).into();
        } else if text.contains("% done") {
            let mut words = text.split([' ', ',', '\t']);
            let share = words.find_map(number_of_percent);
            row.sync_done = share.into();
        } else if text.split_whitespace().eq(HEADER) {
            lines.skip(blanks + 1);
            let refused = lines.refused();
            devices = Some(list(lines, run, &pool)?).filter(|_| lines.refused() == refused);
            is_listed = true;
            continue;
        } else if is_listed {
            // `errors: No known data errors` ends a pool.
            lines.skip(if field(&text, "errors").is_some() { blanks + 1 } else { 0 });
            break;
        }
        lines.skip(blanks + 1);
    }
    if let Some(devices) = devices {
        let row = run.row::<Array>(0.0, number, pool.as_str().into());
        row.members = f64::from(devices.count).into();
        row.degraded = (devices.missing.len() as f64).into();
        record_failed(row, &devices.missing);
        row.level = devices.level.as_deref().unwrap_or("stripe").into();
    }
    Ok(())
}

/// Returns the running action, from `scrub in progress since ...`, `scrub repaired 150M in 02:10:20 ...` or `none requested`.
fn action(scan: &str) -> Option<&'static str> {
    const ENDED: [&str; 7] = [
        "none requested",
        "scrub repaired",
        "scrub canceled",
        "scrub paused",
        "resilvered ",
        "resilver canceled",
        "error scrubbed",
    ];
    let runs = [("resilver in progress", "resilver"), ("scrub in progress", "scrub")];
    let running = runs.into_iter().find(|(words, _)| scan.starts_with(words)).map(|(_, action)| action);
    running.or_else(|| ENDED.iter().any(|words| scan.starts_with(words)).then_some("idle"))
}

/// Parses `26.05%`.
fn number_of_percent(word: &str) -> Option<f64> {
    word.strip_suffix('%').and_then(number).map(|percent| percent / 100.0)
}

#[derive(Default)]
struct Devices {
    count: u32,
    missing: Vec<String>,
    /// Level of the first group: `raidz2` of `raidz2-0`.
    level: Option<String>,
}

fn list(lines: &mut Lines<'_>, run: &mut ToolRun, pool: &str) -> Result<Devices, Refusal> {
    let mut devices = Devices::default();
    let is_own = |text: &str| text.starts_with([' ', '\t']) && is_row(text);
    let is_damaged = |text: &str| field(text, "errors").is_none() && !is_command(text) && field(text, "pool").is_none();
    while let Some(line) = lines.take_own(is_own, is_damaged, "a device, its state and three counts")? {
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
        let disk = name.rsplit('/').next().unwrap_or(name);
        if !WHOLE.contains(state) {
            devices.missing.push(disk.to_owned());
        }
        let counts: Vec<f64> = counts.iter().take(3).map_while(|count| scaled(count, 1e3, 1.0)).collect();
        let [read, write, checksum] = counts[..] else { continue };
        let row = run.row::<Drive>(0.0, line.number, disk.into());
        row.io_errors = (read + write).into();
        row.checksum_errors = checksum.into();
    }
    Ok(devices)
}

/// Returns true if a row has a name, a state and counts, and no other row after them. Groups of spares, logs and caches have
/// only a name, and spares have no counts.
fn is_row(text: &str) -> bool {
    let fields: Vec<&str> = text.split_whitespace().collect();
    match fields[..] {
        [name] => GROUPS.iter().any(|group| name.starts_with(group)) && !name.contains('-'),
        [_, state, ref rest @ ..] if STATES.contains(&state) => {
            let counts = rest.iter().take_while(|count| scaled(count, 1e3, 1.0).is_some()).count();
            let is_spare = counts == 0 && state.len() == 5;
            (counts == 3 || is_spare) && !rest.iter().any(|word| STATES.contains(word))
        }
        _ => false,
    }
}

/// Returns true for `NAME SIZE ALLOC FREE CKPOINT EXPANDSZ FRAG CAP DEDUP HEALTH ALTROOT`; the fifth to the seventh column were
/// added later.
fn is_list_header(line: &str) -> bool {
    line.starts_with("NAME") && line.contains("ALLOC") && line.split_whitespace().any(|word| word == "CAP")
}

/// Returns the cell of a column, or `None` if the row has more or fewer cells than columns, like that of a device.
fn cell<'t>(columns: &[&str], text: &'t str, name: &str) -> Option<&'t str> {
    let at = columns.iter().position(|column| *column == name)?;
    text.split_whitespace().nth(at).filter(|_| text.split_whitespace().count() == columns.len())
}

/// Reads pools. With -v, other rows are indented groups and devices, or groups of logs, caches and spares.
fn read_list(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let Some(header) = lines.take() else { return Ok(()) };
    let columns: Vec<&str> = header.text.split_whitespace().collect();
    let share = |text: &str, name: &str| cell(&columns, text, name).and_then(number_of_percent);
    // Groups of logs, caches and spares have no size, nor does a faulted pool.
    let is_below = |text: &str| {
        !text.trim().is_empty() && (text.starts_with([' ', '\t']) || text.split_whitespace().nth(1) == Some("-"))
    };
    let is_pool = |text: &str| !is_below(text) && share(text, "CAP").is_some_and(|share| share <= 1.0);
    let is_damaged = |text: &str| text.split_whitespace().nth(1).is_some_and(|size| scaled(size, KIB, 1.0).is_some());
    loop {
        while lines.next_is(is_below) {
            lines.skip(1);
        }
        let Some(line) = lines.take_own(is_pool, is_damaged, "a pool, its size and its other columns")? else {
            return Ok(());
        };
        let Some(name) = cell(&columns, &line.text, "NAME") else { continue };
        let row = run.row::<Volume>(0.0, line.number, name.into());
        row.kind = "ZFS pool".into();
        row.size = cell(&columns, &line.text, "SIZE").and_then(|size| scaled(size, KIB, 1.0)).into();
        row.data_used = share(&line.text, "CAP").into();
        row.fragmentation = share(&line.text, "FRAG").into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::GIB;
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

    #[test]
    fn space_of_pools_with_and_without_their_devices() {
        let window = window_of(&fixture("layouts/zpool-list.txt"));
        let volumes = window.newest::<Volume>();
        let of = |name: &str| {
            let pool = volumes.values().find(|v| *v.name == *name).unwrap();
            (pool.kind.get(), pool.size.get(), pool.data_used.get(), pool.fragmentation.get())
        };
        assert_eq!(volumes.len(), 2);
        assert_eq!(of("rpool"), (Some("ZFS pool"), Some(464.0 * GIB), Some(0.11), Some(0.09)));
        assert_eq!(of("tank"), (Some("ZFS pool"), Some(43.6 * 1024.0 * GIB), Some(0.96), Some(0.71)));
    }
}
