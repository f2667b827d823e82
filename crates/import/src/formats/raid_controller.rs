//! What RAID controllers' own tools print: MegaCli, StorCLI and PercCLI (Broadcom, Dell PERC), ssacli and hpacucli (HPE Smart Array).
//!
//! A controller caches writes only while its battery, or capacitor, can keep them over a power cut; without it each write waits for the disks.

use crate::prelude::*;
use whyslow_model::catalogue::{Array, Drive};

pub const MEGACLI: Format = Format {
    name: "MegaCli",
    versions: "MegaCli, MegaCli64, perccli's same reports: -LDInfo, -AdpBbuCmd, -PDList",
    shows: "arrays that are degraded or do not cache writes; the battery; drives with errors",
    lacks: "rates; which device of the kernel an array is",
    programs: &[partly_read("MegaCli"), partly_read("MegaCli64"), partly_read("megacli")],
    files: &["megacli"],
    starts: |lines| lines.next_is(|line| MegaCliPart::of(line).is_some()),
    read: read_megacli,
    ..Format::NEW
};

pub const STORCLI: Format = Format {
    name: "storcli",
    versions: "storcli64, perccli64: show, show all: VD LIST, PD LIST, BBU_Info, Cachevault_Info",
    shows: "arrays that are degraded or do not cache writes; the battery; drives that are about to fail",
    lacks: "rates; which device of the kernel an array is",
    programs: &[partly_read("storcli"), partly_read("storcli64"), partly_read("perccli"), partly_read("perccli64")],
    files: &["storcli", "perccli"],
    starts: |lines| {
        lines.next_is(|line| StorcliTable::of(line).is_some() || is_virtual_drives(line))
            && (1..=2).any(|at| lines.peek(at).is_some_and(is_rule))
    },
    read: read_storcli,
    ..Format::NEW
};

pub const SSACLI: Format = Format {
    name: "ssacli",
    versions: "ssacli, hpssacli, hpacucli: ctrl all show status, show config, with detail",
    shows: "arrays that are degraded or do not cache writes; the battery; drives that are about to fail",
    lacks: "rates; which device of the kernel an array is",
    programs: &[partly_read("ssacli"), partly_read("hpssacli"), partly_read("hpacucli")],
    files: &["ssacli", "hpssacli"],
    starts: |lines| lines.next_is(|line| smart_array(line).is_some()),
    read: read_ssacli,
    ..Format::NEW
};

/// The most lines of a report: a controller can have some hundred drives.
const MOST_LINES: usize = 5000;

/// `Battery State : Failed`, in columns or not.
fn field(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(':')?;
    Some((name.trim(), value.trim()))
}

/// What a battery's state means: whether the controller relies on it.
fn battery(state: &str) -> Option<&'static str> {
    const STATES: [(&str, &[&str]); 4] = [
        ("absent", &["not present", "absent", "not installed"]),
        ("charging", &["charging", "learn", "initializ"]),
        (
            "failed",
            &["fail", "degraded", "dgd", "missing", "attention", "replace", "non operational", "not operational"],
        ),
        ("ok", &["optimal", "operational", "ok", "optl"]),
    ];
    let state = state.to_ascii_lowercase();
    STATES.iter().find(|(_, words)| words.iter().any(|word| state.contains(word))).map(|(known, _)| *known)
}

/// The members that an array lacks: at least one, if it is degraded.
fn missing(state: &str) -> Option<f64> {
    let state = state.to_ascii_lowercase();
    match state.as_str() {
        "optimal" | "optl" | "ok" => Some(0.0),
        _ if state.contains("degraded") || ["dgrd", "pdgd", "ofln", "offline", "failed"].contains(&state.as_str()) => {
            Some(1.0)
        }
        _ if state.starts_with("interim recovery")
            || state.starts_with("recovering")
            || state.starts_with("ready for rebuild") =>
        {
            Some(1.0)
        }
        _ => None,
    }
}

/// Where a line of MegaCli begins a report.
enum MegaCliPart<'t> {
    VirtualDrive(&'t str),
    Battery(&'t str),
    /// The enclosure of a physical drive.
    Drive(&'t str),
}

impl<'t> MegaCliPart<'t> {
    fn of(line: &'t str) -> Option<Self> {
        let (name, value) = field(line)?;
        match name {
            "Virtual Drive" | "Virtual Disk" => Some(Self::VirtualDrive(value.split(' ').next()?)),
            "BBU status for Adapter" => Some(Self::Battery(value)),
            "Enclosure Device ID" => Some(Self::Drive(value)),
            _ => None,
        }
    }
}

/// `WriteBack, ReadAdaptive, Direct, No Write Cache if Bad BBU`
fn write_policy(policy: &str) -> Option<&'static str> {
    match policy.split(',').next()?.trim() {
        "WriteBack" => Some("write-back"),
        "WriteThrough" => Some("write-through"),
        _ => None,
    }
}

/// `Primary-5, Secondary-0, RAID Level Qualifier-3`: a mirror that is spanned has more drives than one of its mirrors.
fn raid_level(level: &str) -> Option<String> {
    Some(format!("RAID{}", level.strip_prefix("Primary-")?.split(',').next()?))
}

fn read_megacli(lines: &mut Lines<'_>, _: &CaptureContext, run: &mut ToolRun) -> ReadResult {
    enum About {
        Nothing,
        Array(String),
        /// Its enclosure, until the slot is known.
        Enclosure(String),
        Drive(String),
    }
    let number_of = |value: &str| value.parse::<u32>().ok().map(f64::from);
    let mut about = About::Nothing;
    // Drives and arrays of the first controller have their plain names.
    let mut prefix = String::new();
    for _ in 0..MOST_LINES {
        let Some((blanks, text)) = lines.peek_past_blanks(0) else { break };
        let text = text.to_owned();
        let is_title = text.starts_with("Adapter ") || text.starts_with("BBU ") || text.starts_with("Exit Code");
        if is_command(&text) || field(&text).is_none() && !is_title {
            break;
        }
        lines.skip(blanks);
        let at = lines.number();
        lines.skip(1);
        if text.starts_with("Exit Code") {
            break;
        }
        if let Some(number) =
            text.strip_prefix("Adapter ").and_then(|rest| rest.trim_start_matches('#').split(' ').next())
        {
            prefix = if number == "0" { String::new() } else { format!("{number}/") };
        }
        match MegaCliPart::of(&text) {
            Some(MegaCliPart::VirtualDrive(number)) => {
                let array = format!("virtual drive {prefix}{number}");
                run.row::<Array>(0.0, at, array.as_str().into()).level = SOME_LEVEL.into();
                about = About::Array(array);
            }
            Some(MegaCliPart::Battery(number)) => about = About::Array(format!("controller {number}")),
            Some(MegaCliPart::Drive(enclosure)) => about = About::Enclosure(enclosure.to_owned()),
            None => {}
        }
        let Some((name, value)) = field(&text) else { continue };
        match (&about, name) {
            (About::Enclosure(enclosure), "Slot Number") => {
                about = About::Drive(format!("{prefix}{enclosure}:{value}"))
            }
            (About::Drive(drive), "Media Error Count") => {
                run.row::<Drive>(0.0, at, drive.as_str().into()).media_errors = number_of(value).into();
            }
            (About::Drive(drive), "Predictive Failure Count") => {
                let row = run.row::<Drive>(0.0, at, drive.as_str().into());
                row.failing = number_of(value).map(|count| f64::from(count > 0.0)).into();
            }
            (About::Drive(drive), "Firmware state") if value.starts_with("Failed") => {
                run.row::<Drive>(0.0, at, drive.as_str().into()).failing = 1.0.into();
            }
            (About::Drive(drive), "Drive has flagged a S.M.A.R.T alert") if value == "Yes" => {
                run.row::<Drive>(0.0, at, drive.as_str().into()).failing = 1.0.into();
            }
            (About::Array(array), "RAID Level") => {
                if let Some(level) = raid_level(value) {
                    run.row::<Array>(0.0, at, array.as_str().into()).level = level.as_str().into();
                }
            }
            (About::Array(array), "Number Of Drives") => {
                run.row::<Array>(0.0, at, array.as_str().into()).members = number_of(value).into();
            }
            (About::Array(array), "State") => {
                let row = run.row::<Array>(0.0, at, array.as_str().into());
                row.state = value.to_ascii_lowercase().as_str().into();
                row.degraded = missing(value).into();
            }
            (About::Array(array), "Default Cache Policy") => {
                run.row::<Array>(0.0, at, array.as_str().into()).cache_wanted = write_policy(value).into();
            }
            (About::Array(array), "Current Cache Policy") => {
                run.row::<Array>(0.0, at, array.as_str().into()).cache = write_policy(value).into();
            }
            (About::Array(array), "Battery State") => take_battery(run, at, array, value),
            (About::Array(array), "Battery Replacement required" | "Battery Pack Missing") if value == "Yes" => {
                take_battery(run, at, array, "failed");
            }
            _ => {}
        }
    }
    Ok(())
}

/// The state of a controller's battery. What was said of it before is not made better by another line.
fn take_battery(run: &mut ToolRun, at: u32, controller: &str, state: &str) {
    let row = run.row::<Array>(0.0, at, controller.into());
    row.level = CONTROLLER.into();
    if let Some(known) = battery(state).filter(|_| row.battery.get() != Some("failed")) {
        row.battery = known.into();
    }
}

/// The level of an array, until it is known.
const SOME_LEVEL: &str = "RAID";

/// The level of a row that stands for a controller, not for one of its arrays.
const CONTROLLER: &str = "RAID controller";

/// The tables of storcli.
#[derive(Clone, Copy)]
enum StorcliTable {
    Physical,
    Battery,
}

impl StorcliTable {
    fn of(line: &str) -> Option<Self> {
        match line.trim_end().trim_end_matches(':').trim_end() {
            "PD LIST" => Some(Self::Physical),
            "BBU_Info" | "Cachevault_Info" | "BBU Info" => Some(Self::Battery),
            _ => None,
        }
    }
}

fn is_virtual_drives(line: &str) -> bool {
    ["VD LIST", "Virtual Drives"].iter().any(|title| line.trim_start().starts_with(title))
}

/// A line of `=` or `-`.
fn is_rule(line: &str) -> bool {
    let line = line.trim();
    line.len() >= 4 && line.bytes().all(|b| b == b'=' || b == b'-')
}

/// The states of a drive that is in use, or could be.
const WHOLE: [&str; 9] = ["Onln", "UGood", "GHS", "DHS", "JBOD", "Rbld", "Cpybck", "UGUnsp", "Conf"];

/// `252:3`, `1/1`
fn is_place(text: &str, separator: char) -> bool {
    let is_number = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    text.split_once(separator).is_some_and(|(group, own)| is_number(group) && !own.is_empty() && is_number(own))
}

/// Of the rules of a table: one below its title, and three around the header and the rows.
const LAST_RULE: u32 = 4;

fn read_storcli(lines: &mut Lines<'_>, _: &CaptureContext, run: &mut ToolRun) -> ReadResult {
    let Some(title) = lines.take() else { return Ok(()) };
    let table = StorcliTable::of(&title.text);
    let mut rules = 0;
    let mut columns: Vec<String> = Vec::new();
    for _ in 0..MOST_LINES {
        let Some((blanks, text)) = lines.peek_past_blanks(0) else { break };
        let text = text.to_owned();
        if is_command(&text) || rules == 0 && !is_rule(&text) {
            break;
        }
        lines.skip(blanks);
        let at = lines.number();
        lines.skip(1);
        if is_rule(&text) {
            rules += 1;
            if rules == LAST_RULE {
                break;
            }
            continue;
        }
        let cells: Vec<&str> = text.split_whitespace().collect();
        if columns.is_empty() {
            columns = cells.iter().map(|&cell| cell.to_owned()).collect();
            continue;
        }
        let cell = |name: &str| cells.get(columns.iter().position(|column| column == name)?).copied();
        match table {
            None => virtual_drive(&cell, at, run),
            Some(StorcliTable::Physical) => {
                let (Some(place), Some(state)) = (cells.first(), cell("State")) else { continue };
                // Of one that has failed already the list of arrays says what follows.
                let is_bad = ["UBad", "Msng"].contains(&state);
                if is_place(place, ':') && (is_bad || WHOLE.contains(&state)) {
                    run.row::<Drive>(0.0, at, (*place).into()).failing = f64::from(is_bad).into();
                }
            }
            Some(StorcliTable::Battery) => take_battery(run, at, "controller", &text),
        }
    }
    Ok(())
}

/// `0/0   RAID1 Optl  RW     Yes     NRWTD -   ON  446.625 GB os`: the column of the cache has the policy of reads, that of writes (`WB`,
/// `AWB`, `WT`) and that of the cache itself.
fn virtual_drive<'c>(cell: &impl Fn(&str) -> Option<&'c str>, at: u32, run: &mut ToolRun) {
    let Some(place) = cell("DG/VD").filter(|place| is_place(place, '/')) else { return };
    let number = place.split('/').nth(1).unwrap_or_default();
    let row = run.row::<Array>(0.0, at, format!("virtual drive {number}").as_str().into());
    row.level = cell("TYPE").into();
    row.state = cell("State").map(str::to_ascii_lowercase).as_deref().into();
    row.degraded = cell("State").and_then(missing).into();
    let policy = cell("Cache").unwrap_or_default();
    row.cache = match () {
        () if policy.contains("WB") => Some("write-back"),
        () if policy.contains("WT") => Some("write-through"),
        () => None,
    }
    .into();
}

/// `Smart Array P410i in Slot 0 (Embedded)`
fn smart_array(line: &str) -> Option<&str> {
    let (model, slot) = line.trim().split_once(" in Slot ")?;
    let is_model = model.starts_with("Smart Array") || model.starts_with("HPE ") || model.starts_with("HP ");
    is_model.then(|| slot.split([' ', '(']).next().unwrap_or_default())
}

fn read_ssacli(lines: &mut Lines<'_>, _: &CaptureContext, run: &mut ToolRun) -> ReadResult {
    let Some(controller) =
        lines.take().and_then(|line| smart_array(&line.text).map(|slot| format!("controller {slot}")))
    else {
        return Ok(());
    };
    let number_of = |number: &str| match controller.strip_prefix("controller ") {
        Some("0") | None => format!("logical drive {number}"),
        Some(slot) => format!("logical drive {slot}/{number}"),
    };
    // Of `show config detail`, the array that the fields below are of.
    let mut array: Option<String> = None;
    for _ in 0..MOST_LINES {
        let Some((blanks, text)) = lines.peek_past_blanks(0) else { break };
        let text = text.to_owned();
        if is_command(&text) || smart_array(&text).is_some() || !text.starts_with([' ', '\t']) {
            break;
        }
        lines.skip(blanks);
        let at = lines.number();
        lines.skip(1);
        if let Some((number, details)) = listed(&text, "logicaldrive ") {
            // `2.2 TB, RAID 5, Recovering, 45% complete`
            let mut details = details.split(", ").skip(1);
            let row = run.row::<Array>(0.0, at, number_of(number).as_str().into());
            row.level = details.next().map(|level| level.replace(' ', "")).as_deref().into();
            let state = details.next().unwrap_or_default();
            row.state = state.to_ascii_lowercase().as_str().into();
            row.degraded = missing(state).into();
        } else if let Some((place, details)) = listed(&text, "physicaldrive ") {
            let state = details.rsplit(", ").next().filter(|_| !details.contains("drive "));
            let failing = match state {
                Some("Predictive Failure") => Some(1.0),
                Some("OK" | "Rebuilding") => Some(0.0),
                _ => None,
            };
            if failing.is_some() {
                run.row::<Drive>(0.0, at, place.into()).failing = failing.into();
            }
        }
        // Their fields are not those of the array.
        if ["physicaldrive", "unassigned", "array "].iter().any(|title| text.trim_start().starts_with(title)) {
            array = None;
        }
        match field(&text) {
            Some(("Battery/Capacitor Status" | "Capacitor Status" | "Battery Status", state)) => {
                take_battery(run, at, &controller, state);
            }
            Some(("Cache Status", state)) => {
                let row = run.row::<Array>(0.0, at, controller.as_str().into());
                row.level = CONTROLLER.into();
                let (cache, wanted) = match state {
                    "OK" => (Some("write-back"), None),
                    _ if state.starts_with("Temporarily Disabled") => (Some("write-through"), Some("write-back")),
                    _ if state.starts_with("Permanently Disabled") => (Some("write-through"), None),
                    _ => (None, None),
                };
                row.cache = cache.into();
                row.cache_wanted = wanted.into();
            }
            Some(("Logical Drive", number)) => {
                let name = number_of(number);
                run.row::<Array>(0.0, at, name.as_str().into()).level = SOME_LEVEL.into();
                array = Some(name);
            }
            Some(("Array", _)) => array = None,
            Some(("Fault Tolerance", level)) => {
                let Some(array) = &array else { continue };
                run.row::<Array>(0.0, at, array.as_str().into()).level = format!("RAID{level}").as_str().into();
            }
            Some(("Status", state)) => {
                let Some(array) = &array else { continue };
                let row = run.row::<Array>(0.0, at, array.as_str().into());
                row.state = state.to_ascii_lowercase().as_str().into();
                row.degraded = missing(state).into();
            }
            _ => {}
        }
    }
    Ok(())
}

/// The name and the details of `logicaldrive 1 (279.4 GB, RAID 1, OK)`.
fn listed<'t>(line: &'t str, what: &str) -> Option<(&'t str, &'t str)> {
    let (name, rest) = line.trim().strip_prefix(what)?.split_once(" (")?;
    Some((name, rest.strip_suffix(')')?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};
    use std::collections::BTreeMap;
    use whyslow_model::window::Window;

    type Seen = (Option<String>, Option<f64>, Option<String>, Option<String>, Option<String>);

    /// Level, missing members, cache, the wanted cache, and battery, by name.
    fn arrays(window: &Window) -> BTreeMap<String, Seen> {
        let text = |word: Option<&str>| word.map(str::to_owned);
        let of = |a: &Array| {
            (
                text(a.level.get()),
                a.degraded.get(),
                text(a.cache.get()),
                text(a.cache_wanted.get()),
                text(a.battery.get()),
            )
        };
        window.newest::<Array>().values().map(|a| (a.array.to_string(), of(a))).collect()
    }

    fn seen(level: &str, degraded: Option<f64>, cache: [&str; 2], battery: &str) -> Seen {
        let text = |word: &str| (!word.is_empty()).then(|| word.to_owned());
        (text(level), degraded, text(cache[0]), text(cache[1]), text(battery))
    }

    fn failing(window: &Window) -> BTreeMap<String, bool> {
        window.newest::<Drive>().values().map(|d| (d.device.to_string(), d.failing.get() == Some(1.0))).collect()
    }

    #[test]
    fn megacli_shows_arrays_the_battery_and_drives() {
        let window = window_of(&fixture("layouts/megacli.txt"));
        let cache = ["write-through", "write-back"];
        let expected = [
            ("controller 0", seen(CONTROLLER, None, ["", ""], "failed")),
            ("virtual drive 0", seen("RAID1", Some(0.0), cache, "")),
            ("virtual drive 1", seen("RAID5", Some(1.0), cache, "")),
        ];
        assert_eq!(arrays(&window), expected.map(|(name, seen)| (name.to_owned(), seen)).into());
        assert_eq!(failing(&window), [("32:0".to_owned(), false), ("32:4".to_owned(), true)].into());
    }

    #[test]
    fn storcli_shows_arrays_the_battery_and_drives() {
        let window = window_of(&fixture("layouts/storcli.txt"));
        let expected = [
            ("controller", seen(CONTROLLER, None, ["", ""], "failed")),
            ("virtual drive 0", seen("RAID1", Some(0.0), ["write-through", ""], "")),
            ("virtual drive 1", seen("RAID5", Some(1.0), ["write-through", ""], "")),
        ];
        assert_eq!(arrays(&window), expected.map(|(name, seen)| (name.to_owned(), seen)).into());
        let drives = [("252:0", false), ("252:2", false)];
        assert_eq!(failing(&window), drives.map(|(name, failing)| (name.to_owned(), failing)).into());
    }

    #[test]
    fn ssacli_shows_arrays_the_battery_and_drives() {
        let window = window_of(&fixture("layouts/ssacli.txt"));
        let expected = [
            ("controller 0", seen(CONTROLLER, None, ["write-through", "write-back"], "failed")),
            ("logical drive 1", seen("RAID5", Some(1.0), ["", ""], "")),
        ];
        assert_eq!(arrays(&window), expected.map(|(name, seen)| (name.to_owned(), seen)).into());
        let drives = [("1I:1:1", false), ("1I:1:2", false), ("1I:1:3", true)];
        assert_eq!(failing(&window), drives.map(|(name, failing)| (name.to_owned(), failing)).into());
    }

    #[test]
    fn a_battery_that_works_is_no_cause() {
        let text = "BBU status for Adapter: 0\n\nBatteryType: iBBU\nBattery State: Optimal\n  Battery Replacement required : No\n";
        assert_eq!(arrays(&window_of(text))["controller 0"].4.as_deref(), Some("ok"));
        for (state, known) in [
            ("Optimal", Some("ok")),
            ("Operational", Some("ok")),
            ("OK", Some("ok")),
            ("Degraded(Charging)", Some("charging")),
            ("Recharging", Some("charging")),
            ("Not Present", Some("absent")),
            ("Dgd (Needs Attention)", Some("failed")),
            ("Degraded(Need Attention)", Some("failed")),
            ("Failed (Replace Batteries)", Some("failed")),
            ("Non Operational", Some("failed")),
            ("Unknown", None),
        ] {
            assert_eq!(battery(state), known, "{state}");
        }
    }
}
