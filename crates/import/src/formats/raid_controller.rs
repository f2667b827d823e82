//! Output of RAID controllers' own tools: MegaCli, StorCLI and PercCLI (Broadcom, Dell PERC), ssacli and hpacucli (HPE Smart
//! Array).
//!
//! A controller caches writes only while its battery or capacitor can preserve them during a power cut; otherwise each write
//! waits for the disks.

use crate::lines::TextLine;
use crate::prelude::*;
use std::collections::BTreeMap;
use whyslow_model::catalogue::{Array, Drive};

pub const MEGACLI: Format = Format {
    name: "MegaCli",
    versions: "MegaCli, MegaCli64, perccli's same reports: -LDInfo, -AdpBbuCmd, -PDList",
    shows: "arrays that are degraded or do not cache writes; the battery; drives with errors",
    lacks: "rates; which device of the kernel an array is",
    programs: &[partly_read("MegaCli"), partly_read("MegaCli64"), partly_read("megacli")],
    files: &["megacli"],
    starts: |lines| lines.next_is(|line| MegaCliPart::parse(line).is_some()),
    read: read_megacli,
    ..Format::NEW
};

pub const STORCLI: Format = Format {
    name: "storcli",
    versions: "storcli64, perccli64: show, show all, of controllers and drives: VD LIST, PD LIST, Drive Information, BBU_Info, Cachevault_Info",
    shows: "arrays that are degraded or do not cache writes; the battery; drives that are about to fail",
    lacks: "rates; which device of the kernel an array is",
    programs: &[partly_read("storcli"), partly_read("storcli64"), partly_read("perccli"), partly_read("perccli64")],
    files: &["storcli", "perccli"],
    starts: |lines| {
        lines.next_is(|line| storcli_controller(line).is_some())
            && lines.peek(1).and_then(storcli_field).is_some_and(|(name, _)| name == "Status")
            || lines.next_is(|line| StorcliPart::parse(line).is_some())
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

/// Splits `Battery State : Failed`, aligned in columns or not.
fn field(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(':')?;
    Some((name.trim(), value.trim()))
}

/// Returns the meaning of a battery's state: whether the controller relies on it.
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

/// Returns the number of members that an array lacks: at least one, if it is degraded.
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

/// Line that begins a part of a MegaCli report.
enum MegaCliPart<'t> {
    VirtualDrive(&'t str),
    Battery(&'t str),
    /// Enclosure of a physical drive.
    Drive(&'t str),
}

impl<'t> MegaCliPart<'t> {
    fn parse(line: &'t str) -> Option<Self> {
        let (name, value) = field(line)?;
        match name {
            "Virtual Drive" | "Virtual Disk" => Some(Self::VirtualDrive(value.split(' ').next()?)),
            "BBU status for Adapter" => Some(Self::Battery(value)),
            "Enclosure Device ID" => Some(Self::Drive(value)),
            _ => None,
        }
    }
}

/// Parses `WriteBack, ReadAdaptive, Direct, No Write Cache if Bad BBU`.
fn write_policy(policy: &str) -> Option<&'static str> {
    match policy.split(',').next()?.trim() {
        "WriteBack" => Some("write-back"),
        "WriteThrough" => Some("write-through"),
        _ => None,
    }
}

/// Returns the level in `Primary-5, Secondary-0, RAID Level Qualifier-3`. A spanned mirror has more drives than each of its
/// mirrors.
fn raid_level(level: &str) -> Option<String> {
    Some(format!("RAID{}", level.strip_prefix("Primary-")?.split(',').next()?))
}

fn read_megacli(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    enum About {
        Nothing,
        Array(String),
        /// Enclosure of a drive, until its slot is known.
        Enclosure(String),
        Drive(String),
    }
    let mut about = About::Nothing;
    // Drives and arrays of the first controller have plain names.
    let mut prefix = String::new();
    let is_own = |text: &str| {
        let is_title = ["Adapter ", "BBU ", "Exit Code"].iter().any(|title| text.starts_with(title));
        !is_command(text) && (is_title || field(text).is_some())
    };
    while let Some(TextLine { number: at, text }) = lines.take_past_blanks_if(is_own) {
        if text.starts_with("Exit Code") {
            break;
        }
        if let Some(number) =
            text.strip_prefix("Adapter ").and_then(|rest| rest.trim_start_matches('#').split(' ').next())
        {
            prefix = prefix_of(number);
        }
        match MegaCliPart::parse(&text) {
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
            (About::Drive(drive), name) => drive_field(drive, at, name, value, run),
            (About::Array(array), "RAID Level") => {
                if let Some(level) = raid_level(value) {
                    run.row::<Array>(0.0, at, array.as_str().into()).level = level.as_str().into();
                }
            }
            (About::Array(array), "Number Of Drives") => {
                run.row::<Array>(0.0, at, array.as_str().into()).members = count(value).into();
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

fn count(value: &str) -> Option<f64> {
    value.parse::<u32>().ok().map(f64::from)
}

/// Records a field that MegaCli or storcli prints for a drive.
fn drive_field(drive: &str, at: u32, name: &str, value: &str, run: &mut ToolRun) {
    let failing = match name {
        "Media Error Count" => {
            run.row::<Drive>(0.0, at, drive.into()).media_errors = count(value).into();
            return;
        }
        "Predictive Failure Count" => count(value).map(|count| f64::from(count > 0.0)),
        "Firmware state" if value.starts_with("Failed") => Some(1.0),
        "Drive has flagged a S.M.A.R.T alert" | "S.M.A.R.T alert flagged by drive" if value == "Yes" => Some(1.0),
        _ => return,
    };
    let row = run.row::<Drive>(0.0, at, drive.into());
    row.failing = failing.into_iter().chain(row.failing.get()).reduce(f64::max).into();
}

/// Records the state of a controller's battery. A later line does not improve a state that was reported before.
fn take_battery(run: &mut ToolRun, at: u32, controller: &str, state: &str) {
    let row = run.row::<Array>(0.0, at, controller.into());
    row.level = CONTROLLER.into();
    if let Some(known) = battery(state).filter(|_| row.battery.get() != Some("failed")) {
        row.battery = known.into();
    }
}

/// Level of an array until it is known.
const SOME_LEVEL: &str = "RAID";

/// Level of a row that stands for a controller rather than for one of its arrays.
const CONTROLLER: &str = "RAID controller";

/// Contents that storcli prints below a title.
enum StorcliPart<'t> {
    VirtualDrives,
    Drives,
    Battery,
    /// Fields of one drive, by its controller, enclosure and slot.
    Drive(&'t str, &'t str, &'t str),
}

impl<'t> StorcliPart<'t> {
    fn parse(line: &'t str) -> Option<Self> {
        let title = line.trim().trim_end_matches(':').trim_end();
        match title {
            "VD LIST" | "Virtual Drives" => Some(Self::VirtualDrives),
            "PD LIST" | "Drive Information" => Some(Self::Drives),
            "BBU_Info" | "Cachevault_Info" | "BBU Info" => Some(Self::Battery),
            _ => {
                // `Drive /c0/e252/s3 State`
                let path = title.strip_prefix("Drive /c")?.split(' ').next()?;
                let (controller, place) = path.split_once("/e")?;
                let (enclosure, slot) = place.split_once("/s")?;
                Some(Self::Drive(controller, enclosure, slot))
            }
        }
    }
}

/// Returns true for a line of `=` or `-`.
fn is_rule(line: &str) -> bool {
    let line = line.trim();
    line.len() >= 4 && line.bytes().all(|b| b == b'=' || b == b'-')
}

/// Returns the prefix for the name of an array or drive: those of the first controller have plain names.
fn prefix_of(controller: &str) -> String {
    if controller == "0" { String::new() } else { format!("{controller}/") }
}

/// Returns true for a line of a drive's data, in hexadecimal.
fn is_data(line: &str) -> bool {
    let mut words = line.split_whitespace().peekable();
    words.peek().is_some() && words.all(|word| word.len() == 2 && word.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Splits `Media Error Count = 0`; names begin with a capital, unlike those of sysctl.
fn storcli_field(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(" =").filter(|(_, value)| value.is_empty() || value.starts_with(' '))?;
    name.starts_with(|c: char| c.is_ascii_uppercase()).then(|| (name.trim(), value.trim()))
}

/// Returns the number of the controller that the following lines describe.
fn storcli_controller(line: &str) -> Option<&str> {
    storcli_field(line).filter(|(name, _)| *name == "Controller").map(|(_, number)| number)
}

/// States of a drive that is in use, or could be.
const WHOLE: [&str; 9] = ["Onln", "UGood", "GHS", "DHS", "JBOD", "Rbld", "Cpybck", "UGUnsp", "Conf"];
/// States of a member that its array has lost.
const LOST: [&str; 3] = ["Failed", "Offln", "Msng"];

/// Returns true for `252:3`, `1/1`.
fn is_place(text: &str, separator: char) -> bool {
    let is_number = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    text.split_once(separator).is_some_and(|(group, own)| is_number(group) && !own.is_empty() && is_number(own))
}

/// Number of rules of a table: around its header and below its rows.
const RULES: u32 = 3;

/// Reads a table after its title: its columns, and its rows with their lines.
fn storcli_table(lines: &mut Lines<'_>) -> (Vec<String>, Vec<TextLine>) {
    let mut rules = 0;
    let mut columns = Vec::new();
    let mut rows = Vec::new();
    let is_row = |text: &str| !text.trim().is_empty() && !is_command(text);
    while let Some(line) = match rules {
        0 => lines.take_past_blanks_if(is_rule),
        _ => lines.take_if(is_row),
    } {
        if is_rule(&line.text) {
            // The rule below the title is not counted.
            rules += u32::from(!line.text.contains('='));
            if rules == RULES {
                break;
            }
        } else if columns.is_empty() {
            columns = line.text.split_whitespace().map(str::to_owned).collect();
        } else {
            rows.push(line);
        }
    }
    (columns, rows)
}

fn read_storcli(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let mut prefix = String::new();
    let mut controller = "controller".to_owned();
    let mut drive: Option<String> = None;
    // Arrays of each drive group.
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    // Legends have all abbreviations on one line.
    let is_own = |text: &str| {
        let is_title = text.trim_end().ends_with(" :") || StorcliPart::parse(text).is_some();
        let is_known = is_title || is_rule(text) || storcli_field(text).is_some() || is_data(text);
        !is_command(text) && (is_known || text.contains('|'))
    };
    while let Some(TextLine { number: at, text }) = lines.take_past_blanks_if(is_own) {
        if let Some(number) = storcli_controller(&text) {
            prefix = prefix_of(number);
            controller = format!("controller {number}");
            groups.clear();
        }
        let part = StorcliPart::parse(&text);
        if let Some(StorcliPart::Drive(controller, enclosure, slot)) = part {
            prefix = prefix_of(controller);
            drive = Some(format!("{prefix}{enclosure}:{slot}"));
        } else if let Some((drive, (name, value))) = drive.as_ref().zip(storcli_field(&text)) {
            drive_field(drive, at, name, value, run);
        }
        // Below any other title there is also a table, or fields.
        if !lines.peek_past_blanks(0).is_some_and(|(_, next)| is_rule(next)) {
            continue;
        }
        let (columns, rows) = storcli_table(lines);
        for TextLine { number: at, text } in &rows {
            let cells: Vec<&str> = text.split_whitespace().collect();
            let cell = |name: &str| cells.get(columns.iter().position(|column| column == name)?).copied();
            match part {
                Some(StorcliPart::VirtualDrives) => {
                    let Some((group, array)) = virtual_drive(&cell, *at, &prefix, run) else { continue };
                    groups.entry(group).or_default().push(array);
                }
                Some(StorcliPart::Drives) => {
                    let (Some(place), Some(state)) = (cells.first(), cell("State")) else { continue };
                    let place = format!("{prefix}{place}");
                    if LOST.contains(&state) {
                        let arrays = cell("DG").and_then(|group| groups.get(group)).into_iter().flatten();
                        arrays.for_each(|array| lost(run, *at, array, &place));
                    } else if is_place(cells[0], ':') && (state == "UBad" || WHOLE.contains(&state)) {
                        run.row::<Drive>(0.0, *at, place.as_str().into()).failing = f64::from(state == "UBad").into();
                    }
                }
                Some(StorcliPart::Battery) => take_battery(run, *at, &controller, text),
                Some(StorcliPart::Drive(..)) | None => {}
            }
        }
    }
    Ok(())
}

/// Adds a drive to those that an array has lost.
fn lost(run: &mut ToolRun, at: u32, array: &str, drive: &str) {
    /// Limit for the list of names: an array that has lost more drives has lost all data anyway.
    const LONGEST: usize = 200;
    let row = run.row::<Array>(0.0, at, array.into());
    if row.failed_members.get().is_some_and(|others| others.len() > LONGEST) {
        return;
    }
    let all = row.failed_members.get().map_or_else(|| drive.to_owned(), |others| format!("{others}, {drive}"));
    row.failed_members = all.as_str().into();
}

/// Records `0/0   RAID1 Optl  RW     Yes     NRWTD -   ON  446.625 GB os`. The column of the cache has the policy for reads,
/// the policy for writes (`WB`, `AWB`, `WT`) and that of the cache itself. Returns the drive group and the array.
fn virtual_drive<'c>(
    cell: &impl Fn(&str) -> Option<&'c str>,
    at: u32,
    prefix: &str,
    run: &mut ToolRun,
) -> Option<(String, String)> {
    let (group, number) = cell("DG/VD").filter(|place| is_place(place, '/'))?.split_once('/')?;
    let array = format!("virtual drive {prefix}{number}");
    let row = run.row::<Array>(0.0, at, array.as_str().into());
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
    Some((group.to_owned(), array))
}

/// Parses `Smart Array P410i in Slot 0 (Embedded)`.
fn smart_array(line: &str) -> Option<&str> {
    let (model, slot) = line.trim().split_once(" in Slot ")?;
    let is_model = model.starts_with("Smart Array") || model.starts_with("HPE ") || model.starts_with("HP ");
    is_model.then(|| slot.split([' ', '(']).next().unwrap_or_default())
}

fn read_ssacli(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let Some(controller) =
        lines.take().and_then(|line| smart_array(&line.text).map(|slot| format!("controller {slot}")))
    else {
        return Ok(());
    };
    let number_of = |number: &str| match controller.strip_prefix("controller ") {
        Some("0") | None => format!("logical drive {number}"),
        Some(slot) => format!("logical drive {slot}/{number}"),
    };
    // Array of the fields below, in `show config detail`.
    let mut array: Option<String> = None;
    // Arrays on the drives listed below them, in `show config`.
    let mut above: Vec<String> = Vec::new();
    let is_own = |text: &str| !is_command(text) && smart_array(text).is_none() && text.starts_with([' ', '\t']);
    while let Some(TextLine { number: at, text }) = lines.take_past_blanks_if(is_own) {
        if let Some((number, details)) = listed(&text, "logicaldrive ") {
            // `2.2 TB, RAID 5, Recovering, 45% complete`
            let mut details = details.split(", ").skip(1);
            let row = run.row::<Array>(0.0, at, number_of(number).as_str().into());
            row.level = details.next().map(|level| level.replace(' ', "")).as_deref().into();
            let state = details.next().unwrap_or_default();
            row.state = state.to_ascii_lowercase().as_str().into();
            row.degraded = missing(state).into();
            above.push(number_of(number));
        } else if let Some((place, details)) = listed(&text, "physicaldrive ") {
            let state = details.rsplit(", ").next().filter(|_| !details.contains("drive "));
            let failing = match state {
                Some("Predictive Failure") => Some(1.0),
                Some("OK" | "Rebuilding") => Some(0.0),
                _ => None,
            };
            if failing.is_some() {
                run.row::<Drive>(0.0, at, place.into()).failing = failing.into();
            } else if state == Some("Failed") {
                above.iter().for_each(|array| lost(run, at, array, place));
            }
        }
        // The fields below these titles do not belong to the array.
        if ["physicaldrive", "unassigned", "array "].iter().any(|title| text.trim_start().starts_with(title)) {
            array = None;
        }
        if text.trim_start().starts_with("array ") || text.trim_start().starts_with("unassigned") {
            above.clear();
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

/// Returns the name and the details of `logicaldrive 1 (279.4 GB, RAID 1, OK)`.
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

    /// Returns level, missing members, cache, the wanted cache, and battery, by name.
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
            ("controller 0", seen(CONTROLLER, None, ["", ""], "failed")),
            ("virtual drive 0", seen("RAID1", Some(0.0), ["write-through", ""], "")),
            ("virtual drive 1", seen("RAID5", Some(1.0), ["write-through", ""], "")),
        ];
        assert_eq!(arrays(&window), expected.map(|(name, seen)| (name.to_owned(), seen)).into());
        let drives = [("252:0", false), ("252:2", false)];
        assert_eq!(failing(&window), drives.map(|(name, failing)| (name.to_owned(), failing)).into());
    }

    #[test]
    fn storcli_of_several_controllers_and_of_drives() {
        let text = fixture("layouts/storcli.txt");
        let (first, own) = text.split_once("Controller = 0").unwrap();
        let window = window_of(&format!("{first}Controller = 0{own}\nController = 1{own}"));
        assert_eq!(
            arrays(&window).into_keys().collect::<Vec<_>>(),
            [
                "controller 0",
                "controller 1",
                "virtual drive 0",
                "virtual drive 1",
                "virtual drive 1/0",
                "virtual drive 1/1"
            ]
        );
        let failed = |array: &str| window.newest::<Array>()[array].failed_members.get().map(str::to_owned);
        assert_eq!(failed("virtual drive 1").as_deref(), Some("252:3"));
        assert_eq!(failed("virtual drive 1/1").as_deref(), Some("1/252:3"));
        assert_eq!(failed("virtual drive 0"), None);

        let table = &text[text.find("PD LIST").unwrap()..text.find("BBU_Info").unwrap()];
        let listed = failing(&window_of(&table.replace("PD LIST", "Drive Information").replace("Failed", "UBad  ")));
        assert!(listed["252:3"]);

        let drive = "Controller = 0\nStatus = Success\nDescription = Show Drive Information Succeeded.\n\n\n\
            Drive /c0/e252/s2 :\n=================\n\nDrive /c0/e252/s2 State :\n=======================\n\
            Shield Counter = 0\nMedia Error Count = 7\nOther Error Count = 0\nPredictive Failure Count = 2\n\
            S.M.A.R.T alert flagged by drive = No\n";
        let row = crate::testing::row_of::<Drive>(drive);
        assert_eq!((&*row.device, row.media_errors.get(), row.failing.get()), ("252:2", Some(7.0), Some(1.0)));
        let other = drive.split_once("\n\n\n").unwrap().1.replace("/c0", "/c1").replace("Count = 2", "Count = 0");
        let both = failing(&window_of(&format!("{drive}Inquiry Data =\n00 00 06 12 5b 01 10 02\n\n{other}")));
        assert_eq!((both["252:2"], both["1/252:2"]), (true, false));
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
