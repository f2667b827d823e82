//! dmsetup(8): status, table and info of device mapper devices (Documentation/admin-guide/device-mapper).

use crate::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use whyslow_model::catalogue::{Array, Path, Volume};
use whyslow_model::key::LinkKey;
use whyslow_proc::device_mapper;

pub const FORMAT: Format = Format {
    name: "dmsetup",
    versions: "status and table of all devices, info, info -c; targets thin-pool, thin, snapshot, cache, writecache, raid, multipath, error",
    shows: "devices whose I/O is suspended, thin pools and snapshots that are nearly full or failed, paths that failed, raids that are degraded",
    lacks: "rates; with the name of one device, the lines do not repeat it",
    programs: &[partly_read("dmsetup")],
    files: &["dmsetup"],
    starts: |lines| {
        lines.next_is(|line| target(line).is_some() || is_columns(line))
            || (lines.next_is(|line| info_field(line).is_some_and(|(name, _)| name == "Name"))
                && lines.peek(1).and_then(info_field).is_some_and(|(name, _)| name == "State"))
    },
    read,
    ..Format::NEW
};

struct Target<'l> {
    device: &'l str,
    /// A device with several targets has a line for each.
    start: f64,
    sectors: f64,
    name: &'l str,
    kind: &'static str,
    /// Output of the target itself.
    rest: Vec<&'l str>,
}

/// Parses `vg0-pool0-tpool: 0 209715200 thin-pool 1 4161/250112 1600000/1638400 - rw ...`.
fn target(line: &str) -> Option<Target<'_>> {
    let (device, rest) = line.split_once(": ")?;
    let mut words = rest.split_whitespace();
    let (start, length, name) = (words.next()?, words.next()?, words.next()?);
    let kind = device_mapper::kind(name)?;
    let (start, sectors) = (start.parse::<u64>().ok()? as f64, length.parse::<u64>().ok()? as f64);
    let is_name = !device.is_empty() && !device.contains(char::is_whitespace);
    is_name.then(|| Target { device, start, sectors, name, kind, rest: words.collect() })
}

/// Returns true for `Name             Maj Min Stat Open Targ Event  UUID`.
fn is_columns(line: &str) -> bool {
    line.split_whitespace().take(4).eq(["Name", "Maj", "Min", "Stat"])
}

/// Parses `State:             SUSPENDED`.
fn info_field(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(':')?;
    const FIELDS: [&str; 9] = [
        "Name",
        "State",
        "Read Ahead",
        "Tables present",
        "Open count",
        "Event number",
        "Major, minor",
        "Number of targets",
        "UUID",
    ];
    FIELDS.contains(&name).then_some((name, value.trim()))
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    if lines.next_is(is_columns) {
        lines.skip(1);
        while let Some(line) = lines.take_if(|text| column_row(text).is_some()) {
            if let Some((device, suspended)) = column_row(&line.text) {
                run.row::<Volume>(0.0, line.number, device.into()).suspended = f64::from(u8::from(suspended)).into();
            }
        }
        return Ok(());
    }
    if lines.next_is(|text| target(text).is_some()) {
        return read_targets(lines, run);
    }
    let mut device = String::new();
    while let Some(line) = lines.take_past_blanks_if(|text| info_field(text).is_some()) {
        match info_field(&line.text) {
            Some(("Name", name)) => name.clone_into(&mut device),
            // A second state belongs to a device whose name was lost.
            Some(("State", state)) if !device.is_empty() => {
                let suspended = [("ACTIVE", 0.0), ("SUSPENDED", 1.0)].iter().find(|(name, _)| state.starts_with(name));
                let row = run.row::<Volume>(0.0, line.number, device.as_str().into());
                row.suspended = suspended.map(|(_, is_one)| *is_one).into();
                device.clear();
            }
            _ => {}
        }
    }
    Ok(())
}

fn read_targets(lines: &mut Lines<'_>, run: &mut ToolRun) -> ReadResult {
    // End of the last target of each device; unknown if one of its lines is missing.
    let mut ends: BTreeMap<String, Option<f64>> = BTreeMap::new();
    let lost = RefCell::new(Vec::new());
    loop {
        let is_damaged = |text: &str| {
            let known = named(text).filter(|device| ends.contains_key(*device));
            lost.borrow_mut().extend(known.map(str::to_owned));
            known.is_some()
        };
        let line = lines.take_own(|text| target(text).is_some(), is_damaged, "a target: vg0-data: 0 20480 linear")?;
        ends.extend(lost.take().into_iter().map(|device| (device, None)));
        let Some(line) = line else { break };
        let Some(target) = target(&line.text) else { continue };
        let end = ends.entry(target.device.to_owned()).or_insert(Some(0.0));
        *end = end.filter(|end| *end == target.start).map(|end| end + target.sectors);
        record(&target, line.number, run);
    }
    for (device, end) in ends {
        run.row::<Volume>(0.0, 0, device.as_str().into()).size = end.map(|sectors| sectors * SECTOR).into();
    }
    Ok(())
}

/// Returns the device at the start of a line: `vg0-data: `.
fn named(line: &str) -> Option<&str> {
    let (device, rest) = line.split_once(':')?;
    let is_name = !device.is_empty() && device.bytes().all(|b| b.is_ascii_graphic());
    (is_name && (rest.is_empty() || rest.starts_with([' ', '\t']))).then_some(device)
}

/// Returns the name, and true if the device is suspended: `vg0-data  253   8 L-sw    1    1      0 LVM-...`.
fn column_row(text: &str) -> Option<(&str, bool)> {
    let mut words = text.split_whitespace();
    let (name, major, minor, state) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let known = major.parse::<u32>().is_ok() && minor.parse::<u32>().is_ok() && state.len() >= 4;
    (known && state.bytes().all(|b| b"-LIsrw".contains(&b))).then(|| (name, state.contains('s')))
}

fn record(target: &Target<'_>, line: u32, run: &mut ToolRun) {
    let status = device_mapper::status(target.name, &target.rest);
    let row = run.row::<Volume>(0.0, line, target.device.into());
    row.kind = target.kind.into();
    status.apply_to(row);
    if let Some(raid) = status.raid {
        raid.apply_to(run.row::<Array>(0.0, line, target.device.into()));
    }
    for path in status.paths {
        let key = LinkKey { upper: target.device.into(), lower: path.device.into() };
        run.row::<Path>(0.0, line, key).state = path.state.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    #[test]
    fn status_shows_what_is_full_failed_and_degraded() {
        let window = window_of(&fixture("layouts/dmsetup-status.txt"));
        let rows = window.newest::<Volume>();
        let row = |name: &str| rows.values().find(|row| &*row.name == name).unwrap();
        let pool = row("vg0-pool0-tpool");
        assert_eq!((pool.kind.get(), pool.failure.get()), (Some("thin pool"), Some("it is out of data space")));
        assert_eq!((pool.data_used.get(), pool.size.get()), (Some(1.0), Some(209_715_200.0 * SECTOR)));
        assert!((pool.metadata_used.get().unwrap() - 0.01664).abs() < 1e-4, "{:?}", pool.metadata_used);
        assert_eq!(
            (row("vg0-before").data_used.get().map(|used| (used * 1000.0).round()), row("vg0-old").failure.get()),
            (Some(924.0), Some("the snapshot is invalid: it ran out of space"))
        );
        let cache = row("vg0-fast");
        assert_eq!((cache.data_used.get(), cache.dirty.get()), (Some(0.5), Some(0.25)));
        assert_eq!(row("vg0-data").size.get(), Some(30_720.0 * SECTOR));
        let array = window.the::<Array>().unwrap();
        assert_eq!(
            (array.degraded.get(), array.members.get(), array.action.get()),
            (Some(1.0), Some(2.0), Some("idle"))
        );
        let paths: Vec<String> =
            window.newest::<Path>().values().map(|row| format!("{}: {}", row.path, row.state.get().unwrap())).collect();
        assert_eq!(paths, ["mpatha on 8:16: active", "mpatha on 8:32: failed"]);
    }

    #[test]
    fn a_device_of_which_a_target_is_missing_has_no_size() {
        let size = |text: &str| {
            let reader: Box<dyn std::io::BufRead> = Box::new(text.as_bytes());
            let captures = crate::read(vec![crate::Input { name: "x".into(), reader }], false).unwrap();
            captures[0].window.newest::<Volume>().values().next().unwrap().size.get()
        };
        assert_eq!(size("v: 0 100 linear\nv: 100 50 linear\n"), Some(150.0 * SECTOR));
        for text in ["v: 100 50 linear\n", "v: 0 100 linear\nv: 150 50 linear\n", "v: 0 100 linear\nv: 100\n"] {
            assert_eq!(size(text), None, "{text}");
        }
    }

    #[test]
    fn a_table_shows_only_what_a_device_is() {
        let text = "vg0-pool0-tpool: 0 209715200 thin-pool 253:0 253:1 128 0 0 \nmpatha: 0 2097152 multipath 0 0 2 1 round-robin 0 1 1 8:16 1 round-robin 0 1 1 8:32 1 \nhome: 0 4096 crypt aes-xts-plain64 :64:logon:x 0 8:2 32768\n";
        let window = window_of(text);
        let rows = window.newest::<Volume>();
        assert!(rows.values().all(|row| row.data_used.get().is_none() && row.failure.get().is_none()));
        assert_eq!((rows.len(), window.newest::<Path>().len()), (3, 0));
    }

    #[test]
    fn a_suspended_device_is_seen_in_both_forms() {
        for text in [
            "Name:              vg0-data\nState:             SUSPENDED\nRead Ahead:        256\n\nName:              vg0-root\nState:             ACTIVE\n",
            "Name             Maj Min Stat Open Targ Event  UUID\nvg0-data         253   8 L-sw    1    1      0 LVM-x\nvg0-root         253   0 L--w    1    1      0 LVM-y\n",
        ] {
            let window = window_of(text);
            let states: Vec<_> =
                window.newest::<Volume>().values().map(|row| (row.name.to_string(), row.suspended.get())).collect();
            assert_eq!(states, [("vg0-data".to_owned(), Some(1.0)), ("vg0-root".to_owned(), Some(0.0))]);
        }
    }
}
