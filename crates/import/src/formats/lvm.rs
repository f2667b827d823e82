//! lvs(8), vgs(8), pvs(8) and lvdisplay(8): logical volumes, volume groups and physical volumes of LVM.

use crate::prelude::*;
use std::rc::Rc;
use whyslow_model::catalogue::{Array, Volume};

pub const REPORTS: Format = Format {
    name: "lvs",
    versions: "LVM2: lvs, vgs, pvs, with -a and -o; with headings",
    shows: "thin pools and snapshots that are nearly full, volumes that are suspended, invalid or incomplete, whether a raid is in sync",
    lacks: "rates; which processes write",
    programs: &[program("lvs"), program("vgs"), program("pvs")],
    files: &["lvs", "vgs", "pvs"],
    starts: |lines| lines.next_is(|line| kind_of_report(line).is_some()),
    read: read_report,
    ..Format::NEW
};

pub const LVDISPLAY: Format = Format {
    name: "lvdisplay",
    versions: "LVM2",
    shows: "thin pools and snapshots that are nearly full, volumes that are suspended",
    lacks: "rates; which processes write",
    programs: &[program("lvdisplay")],
    files: &["lvdisplay"],
    starts: |lines| lines.next_is(|line| line.trim() == DISPLAY_TITLE),
    read: read_display,
    ..Format::NEW
};

const DISPLAY_TITLE: &str = "--- Logical volume ---";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Report {
    Volumes,
    Groups,
    Physical,
}

/// Returns the kind of report whose header a line is: `LV VG Attr LSize Pool Origin Data% Meta% Move Log Cpy%Sync Convert`.
fn kind_of_report(line: &str) -> Option<Report> {
    // Checked first, since every line is tested.
    if !line.contains("Attr") {
        return None;
    }
    let has = |wanted: &[&str]| wanted.iter().all(|name| line.split_whitespace().any(|word| word == *name));
    if has(&["LV", "Attr"]) && (has(&["LSize"]) || has(&["VG"])) {
        Some(Report::Volumes)
    } else if has(&["PV", "VG", "Attr", "PSize"]) {
        Some(Report::Physical)
    } else {
        has(&["VG", "Attr", "VSize"]).then_some(Report::Groups)
    }
}

/// Start of each column in a header. Cells may be empty, so only their position identifies their column.
struct ReportColumns(Vec<(usize, Rc<str>)>);

impl ReportColumns {
    fn parse(header: &str) -> Self {
        Self(words_at(header).map(|(at, word)| (at, word.into())).collect())
    }

    /// Returns true if each word begins or ends where its column does. The last column may have several words.
    fn are_aligned(&self, line: &str) -> bool {
        let Some((last, name)) = self.0.last() else { return false };
        let may_be_last = |at: usize| at == *last || at > *last && is_right_aligned(name);
        words_at(line).skip(1).all(|(at, word)| {
            let behind = at + word.chars().count() + 1;
            let ends_here = |pair: &[(usize, Rc<str>)]| pair[1].0 == behind && is_right_aligned(&pair[0].1);
            may_be_last(at) || self.0.iter().any(|(from, _)| *from == at) || self.0.windows(2).any(ends_here)
        })
    }

    /// Returns the cell of a column: the text that begins within it.
    fn cell<'l>(&self, line: &'l str, name: &str) -> Option<&'l str> {
        let column = self.0.iter().position(|(_, own)| **own == *name)?;
        // The first column begins where the line does.
        let from = if column == 0 { 0 } else { self.0[column].0 };
        let to = self.0.get(column + 1).map_or(usize::MAX, |(at, _)| *at);
        words_at(line).find(|(at, _)| (from..to).contains(at)).map(|(_, word)| word)
    }
}

/// Returns true for columns of counts and sizes, which are right-aligned.
fn is_right_aligned(column: &str) -> bool {
    ["#", "Size", "Free", "Used", "Ext", "Maj", "Min", "Start"].iter().any(|part| column.contains(part))
}

/// Returns the words of a line, with their positions in characters.
fn words_at(line: &str) -> impl Iterator<Item = (usize, &str)> {
    line.split_whitespace().map(|word| {
        let bytes = word.as_ptr() as usize - line.as_ptr() as usize;
        (line[..bytes].chars().count(), word)
    })
}

/// Parses `<100.00g`, `512.00m`, `1.82t`; capital letters are powers of 1000.
fn size(text: &str) -> Option<f64> {
    let text = text.trim_start_matches(['<', '>']);
    let step = if text.ends_with(|c: char| c.is_ascii_uppercase()) { 1000.0 } else { KIB };
    match text.strip_suffix(['b', 'B']) {
        Some(bytes) => number(bytes),
        // Only whole numbers are printed without a unit.
        None => scaled(text, step, 1.0).filter(|_| !text.contains(['.', ',']) || text.ends_with(char::is_alphabetic)),
    }
}

/// Parses `97.85` of `Data%`.
fn share(text: Option<&str>) -> Option<f64> {
    number(text?).filter(|percent| *percent <= 100.0).map(|percent| percent / 100.0)
}

fn read_report(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let Some(header) = lines.take() else { return Ok(()) };
    let Some(report) = kind_of_report(&header.text) else {
        return Err(lines.refuse_at(&header, "a header of lvs, vgs or pvs"));
    };
    let columns = ReportColumns::parse(&header.text);
    // Names of volumes do not look like percentages.
    let is_name = |text: &str, column: &str| columns.cell(text, column).is_none_or(|name| number(name).is_none());
    let are_names = |text: &str| ["Pool", "Origin"].iter().all(|column| is_name(text, column));
    let is_own = |text: &str| is_row(text, &columns) && columns.are_aligned(text) && are_names(text);
    while let Some(line) = lines.take_own(is_own, has_attributes, "words below the names of their columns")? {
        let text = line.text.as_str();
        let cell = |name: &str| columns.cell(text, name);
        match report {
            Report::Volumes => volume(&cell, line.number, run),
            Report::Groups => {
                let Some(name) = cell("VG") else { continue };
                let row = run.row::<Volume>(0.0, line.number, name.into());
                row.kind = "volume group".into();
                row.size = cell("VSize").and_then(size).into();
                row.free = cell("VFree").and_then(size).into();
                if cell("Attr").is_some_and(|attr| attr.chars().nth(3) == Some('p')) {
                    row.failure = MISSING.into();
                }
            }
            Report::Physical => {
                let Some(name) = cell("PV") else { continue };
                let row = run.row::<Volume>(0.0, line.number, name.into());
                row.kind = "physical volume".into();
                row.size = cell("PSize").and_then(size).into();
                row.free = cell("PFree").and_then(size).into();
                if name == "[unknown]" || cell("Attr").is_some_and(|attr| attr.ends_with('m')) {
                    row.failure = MISSING.into();
                }
            }
        }
    }
    Ok(())
}

/// Returns true if a row has attributes in the column of the header's attributes.
fn is_row(text: &str, columns: &ReportColumns) -> bool {
    columns.cell(text, "Attr").is_some_and(is_attributes)
}

fn is_attributes(word: &str) -> bool {
    word.contains('-') && word.bytes().all(|b| b == b'-' || b.is_ascii_alphabetic())
}

/// Returns true if a line is indented like a row and has attributes anywhere.
fn has_attributes(text: &str) -> bool {
    text.starts_with("  ") && text.split_whitespace().any(|word| (3..=10).contains(&word.len()) && is_attributes(word))
}

const MISSING: &str = "a physical volume is missing";

/// Returns the meaning of the first attribute of a volume (lvs(8): lv_attr).
fn kind_of(attr: &str) -> &'static str {
    match attr.chars().next() {
        Some('t') => "thin pool",
        Some('V') => "thin volume",
        Some('s' | 'S') => "snapshot",
        Some('C') => "cache",
        Some('r' | 'R') => "raid",
        Some('m' | 'M') => "mirror",
        Some('d') => "VDO pool",
        Some('v') => "virtual volume",
        Some('o' | 'O') => "origin of a snapshot",
        Some('p') => "volume that is moved",
        _ => "plain volume",
    }
}

/// Returns the failure that the fifth or ninth attribute reports.
fn failure_of(attr: &str) -> Option<&'static str> {
    let at = |position: usize| attr.chars().nth(position);
    match (at(4), at(8)) {
        (Some('I' | 'S'), _) => Some("the snapshot is invalid: it ran out of space"),
        (Some('c' | 'C'), _) => Some("its metadata needs a check"),
        (_, Some('p')) => Some(MISSING),
        (_, Some('r')) => Some("a physical volume had a write error"),
        (_, Some('F')) => Some("it failed: every read and write returns an error"),
        (_, Some('D')) => Some("it is out of data space"),
        (_, Some('M')) => Some("its metadata is read-only"),
        (_, Some('E')) => Some("it failed with an error"),
        _ => None,
    }
}

fn volume<'l>(cell: &impl Fn(&str) -> Option<&'l str>, line: u32, run: &mut ToolRun) {
    let (Some(name), Some(attr)) = (cell("LV"), cell("Attr")) else { return };
    // Parts of other volumes are not used by themselves.
    if name.starts_with('[') {
        return;
    }
    let path = cell("VG").map_or_else(|| name.to_owned(), |group| format!("{group}/{name}"));
    let kind = kind_of(attr);
    let row = run.row::<Volume>(0.0, line, path.as_str().into());
    row.kind = kind.into();
    row.size = cell("LSize").and_then(size).into();
    // For a thin volume, it is the part of its size that was ever written.
    if kind != "thin volume" {
        row.data_used = share(cell("Data%").or_else(|| cell("Snap%"))).into();
        row.metadata_used = share(cell("Meta%")).into();
    }
    row.suspended = f64::from(u8::from(matches!(attr.chars().nth(4), Some('s' | 'S' | 'M' | 'C')))).into();
    if let Some(failure) = failure_of(attr) {
        row.failure = failure.into();
    }
    if let Some(done) = share(cell("Cpy%Sync").or_else(|| cell("Copy%"))).filter(|_| matches!(kind, "raid" | "mirror"))
    {
        let array = run.row::<Array>(0.0, line, path.as_str().into());
        array.level = kind.into();
        array.sync_done = done.into();
        array.action = if done < 1.0 { "resync" } else { "idle" }.into();
    }
}

fn read_display(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    while let Some(title) = lines.take_past_blanks_if(|text| text.trim() == DISPLAY_TITLE) {
        let (mut name, mut group) = (String::new(), String::new());
        let mut is_damaged = false;
        let mut volume = Volume::default();
        let mut last = title.number;
        // `  LV Size                5.00 GiB`
        while let Some(text) = lines.peek(0).filter(|text| display_field(text).is_some()).map(str::to_owned) {
            last = lines.number();
            lines.skip(1);
            let Some((field, value)) = display_field(&text) else { continue };
            // Two lines were joined.
            is_damaged |= value.contains("  ");
            let percent = || share(value.strip_suffix('%'));
            match field {
                "LV Name" => name = value.rsplit('/').next().unwrap_or(value).to_owned(),
                "VG Name" => group = value.to_owned(),
                "LV Size" => {
                    volume.size = value
                        .split_once(' ')
                        .and_then(|(n, unit)| size(&format!("{n}{}", unit.chars().next()?.to_ascii_lowercase())))
                        .into()
                }
                "Allocated pool data" => {
                    volume.kind = "thin pool".into();
                    volume.data_used = percent().into();
                }
                "Allocated metadata" => volume.metadata_used = percent().into(),
                "Allocated to snapshot" => {
                    volume.kind = "snapshot".into();
                    volume.data_used = percent().into();
                }
                "LV snapshot status" if value.starts_with("INACTIVE") => {
                    volume.failure = "the snapshot is invalid: it ran out of space".into();
                }
                "LV Status" if !value.is_empty() => volume.suspended = f64::from(u8::from(value == "suspended")).into(),
                _ => {}
            }
        }
        if is_damaged {
            lines.leave_out_line(&title, "one field of a logical volume on each line")?;
            continue;
        }
        if name.is_empty() {
            return Err(lines.refuse_at(&title, "the fields of a logical volume, with its name"));
        }
        let path = if group.is_empty() { name } else { format!("{group}/{name}") };
        run.row::<Volume>(0.0, title.number, path.as_str().into());
        let row = run.row::<Volume>(0.0, last, path.as_str().into());
        *row = Volume { name: row.name.clone(), ..volume };
    }
    Ok(())
}

/// Splits a line of lvdisplay into name and value.
fn display_field(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    // `LV Creation host, time host1, 2024-05-01 10:00:00 +0000`
    let (name, value) = text.split_once("  ").unwrap_or((text, ""));
    let known = [
        "LV ",
        "VG ",
        "Allocated ",
        "Current LE",
        "Segments",
        "Allocation",
        "Read ahead",
        "- currently",
        "Block device",
        "COW-table",
        "Snapshot chunk",
        "Mapped size",
        "# open",
        "Persistent",
    ];
    known.iter().any(|start| name.starts_with(start)).then_some((name, value.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};
    use std::collections::BTreeMap;

    fn volumes(text: &str) -> BTreeMap<String, Volume> {
        let window = window_of(text);
        window.newest::<Volume>().into_iter().map(|(name, row)| (name.to_string(), row.clone())).collect()
    }

    /// Hundredths of a per cent.
    fn percent(share: whyslow_model::value::Gauge) -> Option<u32> {
        share.get().map(|share| (share * 10_000.0).round() as u32)
    }

    #[test]
    fn pools_and_snapshots_are_read_by_position() {
        let rows = volumes(&fixture("layouts/lvs-a.txt"));
        let pool = &rows["vg0/pool0"];
        assert_eq!(
            (pool.kind.get(), percent(pool.data_used), percent(pool.metadata_used)),
            (Some("thin pool"), Some(9785), Some(4217))
        );
        assert_eq!((rows["vg0/vm1"].kind.get(), rows["vg0/vm1"].data_used.get()), (Some("thin volume"), None));
        assert_eq!(
            (percent(rows["vg0/before"].data_used), rows["vg0/before"].size.get()),
            (Some(9240), Some(5.0 * GIB))
        );
        assert_eq!(
            (rows["vg0/root"].data_used.get(), rows["vg0/old"].failure.get()),
            (None, Some("the snapshot is invalid: it ran out of space"))
        );
        assert_eq!((rows["vg0/data"].suspended.get(), rows["vg0/root"].suspended.get()), (Some(1.0), Some(0.0)));
        assert_eq!(rows["vg0/r1"].failure.get(), Some(MISSING));
        assert_eq!(rows.len(), 8, "{:?}", rows.keys());
        let window = window_of(&fixture("layouts/lvs-a.txt"));
        let array = window.the::<Array>().unwrap();
        assert_eq!((&*array.array, array.sync_done.get(), array.action.get()), ("vg0/r1", Some(0.375), Some("resync")));
    }

    #[test]
    fn groups_and_physical_volumes_are_read() {
        let rows = volumes("  VG  #PV #LV #SN Attr   VSize   VFree\n  vg0   2   8   2 wz-pn- 199.99g <12.50g\n");
        assert_eq!((rows["vg0"].free.get(), rows["vg0"].failure.get()), (Some(12.5 * GIB), Some(MISSING)));
        let rows = volumes(
            "  PV         VG  Fmt  Attr PSize    PFree\n  /dev/sda2  vg0 lvm2 a--  <100.00g     0\n  [unknown]  vg0 lvm2 a-m   100.00g 12.50g\n",
        );
        assert_eq!((rows["/dev/sda2"].free.get(), rows["[unknown]"].failure.get()), (Some(0.0), Some(MISSING)));
    }

    #[test]
    fn lvdisplay_shows_the_same() {
        let rows = volumes(&fixture("layouts/lvdisplay.txt"));
        let pool = &rows["vg0/pool0"];
        assert_eq!(
            (percent(pool.data_used), percent(pool.metadata_used), pool.size.get()),
            (Some(9785), Some(4217), Some(100.0 * GIB))
        );
        assert_eq!(
            (rows["vg0/before"].kind.get(), percent(rows["vg0/before"].data_used)),
            (Some("snapshot"), Some(9240))
        );
        assert_eq!((rows["vg0/data"].suspended.get(), rows["vg0/data"].size.get()), (Some(1.0), Some(1.5 * GIB * KIB)));
    }
}
