//! lsblk(8): block devices, how they are stacked, and their queues; as a tree, and as JSON (`-J`).

use crate::json;
use crate::prelude::*;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use whyslow_model::catalogue::{Layer, Mount, Queue};
use whyslow_model::key::LinkKey;

pub const FORMAT: Format = Format {
    name: "lsblk",
    versions: "util-linux 2.19 to 2.40, tree and -J, with any columns (-o, -f, -t, -S)",
    shows: "how devices are stacked, and what is mounted from them; with -t or -o queues and block sizes",
    lacks: "rates",
    programs: &[program("lsblk")],
    files: &["lsblk"],
    columns: &[&QUEUE],
    starts: |lines| lines.next_is(is_header) || json::begins(lines, JSON_KEY),
    read,
    ..Format::NEW
};

const JSON_KEY: &str = "blockdevices";
const QUEUE: MetricColumns<Queue> = columns![
    "ROTA" => rotational, "MIN-IO" => minimum_io, "OPT-IO" => optimal_io, "PHY-SEC" => physical_block,
    "LOG-SEC" => logical_block, "RQ-SIZE" => nr_requests, "RA" => read_ahead * KIB,
];
const QUEUE_TEXTS: [&str; 6] = ["SCHED", "MODEL", "SERIAL", "WWN", "HCTL", "STATE"];
/// Columns of which a tree has at least one, besides NAME.
const USUAL: [&str; 6] = ["MAJ:MIN", "FSTYPE", "TYPE", "SIZE", "ROTA", "HCTL"];
/// Columns whose text may have several words.
const TEXTS: [&str; 6] = ["MODEL", "LABEL", "PARTLABEL", "MOUNTPOINT", "MOUNTPOINTS", "VENDOR"];
/// Column whose numbers are aligned at their colon.
const NUMBERS: &str = "MAJ:MIN";
const BRANCHES: [char; 8] = ['├', '└', '│', '─', '|', '`', '-', ' '];

/// A device, and its cells by column.
struct BlockDevice {
    line: u32,
    /// Device below it.
    parent: Option<String>,
    cells: BTreeMap<String, String>,
}

impl BlockDevice {
    fn get(&self, column: &str) -> Option<&str> {
        self.cells.get(column).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns the kernel's name if it is printed, else the name of the volume.
    fn name(&self) -> &str {
        let name = self.get("KNAME").or(self.get("NAME")).unwrap_or_default();
        name.strip_prefix("/dev/").unwrap_or(name)
    }

    fn record(&self, run: &mut ToolRun) {
        if let Some(parent) = &self.parent {
            let kind = match self.get("TYPE").unwrap_or_default() {
                "part" => "partition",
                "lvm" | "crypt" | "mpath" | "dm" => "dm",
                raid if raid.starts_with("raid") || raid == "linear" => "md",
                other => other,
            };
            let key = LinkKey { upper: self.name().into(), lower: parent.as_str().into() };
            let row = run.row::<Layer>(0.0, self.line, key);
            if !kind.is_empty() {
                row.kind = kind.into();
            }
        }
        self.record_queue(run);
        let points = self.get("MOUNTPOINTS").or(self.get("MOUNTPOINT")).unwrap_or_default();
        for point in points.lines().filter(|point| point.starts_with('/')) {
            let row = run.row::<Mount>(0.0, self.line, point.into());
            row.device = self.name().into();
            row.kind = self.get("FSTYPE").map(Into::into).unwrap_or_default();
        }
    }

    /// Records the queue. Partitions have none of their own.
    fn record_queue(&self, run: &mut ToolRun) {
        let numbers = self.cells.iter().filter_map(|(column, cell)| Some((column.clone(), number(cell)?)));
        let row = TableRow::new(self.line, self.name(), numbers);
        let any = !QUEUE.values(&row).is_empty() || QUEUE_TEXTS.iter().any(|column| self.get(column).is_some());
        if self.get("TYPE") == Some("part") || !any {
            return;
        }
        let queue = run.counts(0.0, self.name().into(), &row, &QUEUE);
        let text = |column: &str| self.get(column).map(Into::into).unwrap_or_default();
        // A number belongs to a neighbouring column.
        queue.scheduler = self.get("SCHED").filter(|name| number(name).is_none()).into();
        // A path belongs to a neighbouring column.
        queue.model = self.get("MODEL").filter(|name| !name.starts_with('/')).into();
        queue.serial = text("SERIAL");
        let wwn = self.get("WWN").and_then(|name| name.strip_prefix("0x").or_else(|| name.strip_prefix("eui.")));
        queue.wwn = wwn.map(str::to_ascii_lowercase).as_deref().into();
        queue.address = text("HCTL");
        queue.state = text("STATE");
    }
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let devices = if json::begins(lines, JSON_KEY) { read_json(lines)? } else { read_tree(lines)? };
    devices.iter().filter(|device| !device.name().is_empty()).for_each(|device| device.record(run));
    Ok(())
}

#[derive(Deserialize)]
struct LsblkDocument {
    blockdevices: Vec<JsonDevice>,
}

#[derive(Deserialize)]
struct JsonDevice {
    #[serde(default)]
    children: Vec<JsonDevice>,
    #[serde(flatten)]
    columns: BTreeMap<String, Value>,
}

fn read_json(lines: &mut Lines<'_>) -> Result<Vec<BlockDevice>, Refusal> {
    let line = lines.number();
    let document: LsblkDocument = json::take(lines, "the document that lsblk -J prints")?;
    let mut devices = Vec::new();
    for device in document.blockdevices {
        collect(device, None, line, &mut devices);
    }
    Ok(devices)
}

/// Collects a device and those stacked on it. serde_json limits nesting to 128 levels.
fn collect(device: JsonDevice, parent: Option<String>, line: u32, devices: &mut Vec<BlockDevice>) {
    let cells = device.columns.into_iter().map(|(name, value)| (name.to_ascii_uppercase(), text(&value))).collect();
    let own = BlockDevice { line, parent, cells };
    let name = own.name().to_owned();
    devices.push(own);
    for child in device.children {
        collect(child, Some(name.clone()), line, devices);
    }
}

/// Formats a value as the tree shows it: `1` for true, a list one per line.
fn text(value: &Value) -> String {
    match value {
        Value::Null | Value::Object(_) => String::new(),
        Value::Bool(yes) => u8::from(*yes).to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(text).collect::<Vec<_>>().join("\n"),
    }
}

fn is_header(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let upper = |word: &&str| word.bytes().all(|b| b.is_ascii_uppercase() || b":-%".contains(&b));
    words.first() == Some(&"NAME") && words.iter().all(upper) && words.iter().any(|word| USUAL.contains(word))
}

/// Reads the tree. Cells may be blank, so the position of a word decides its column.
fn read_tree(lines: &mut Lines<'_>) -> Result<Vec<BlockDevice>, Refusal> {
    let header = positioned_words(&lines.take().map(|line| line.text).unwrap_or_default());
    let mut devices: Vec<BlockDevice> = Vec::new();
    // Names on the path to the previous device, by indentation.
    let mut path: Vec<(usize, String)> = Vec::new();
    let mut is_row_lost = false;
    while let Some(text) = lines.peek(0).map(str::to_owned) {
        let indent = text.chars().take_while(|c| BRANCHES.contains(c)).count();
        let blank = text.chars().take(indent).all(char::is_whitespace);
        // Further mount points stand alone below the first.
        if blank && indent > 0 {
            let Some(device) = devices.last_mut() else { break };
            let point = text.trim();
            if !point.starts_with('/') && point != "[SWAP]" {
                break;
            }
            // The first one is in the device's own row, unless that was lost.
            if is_row_lost || device.get("MOUNTPOINTS").is_none() {
                lines.leave_out("a mount point below that of its device")?;
                continue;
            }
            device.cells.entry("MOUNTPOINTS".into()).or_default().push_str(&format!("\n{point}"));
            lines.skip(1);
            continue;
        }
        if text.trim().is_empty() || (indent == 0 && another_output_starts(lines, FORMAT.name)) {
            break;
        }
        let read = cells(&header, &text, indent).ok_or_else(|| lines.refuse("words below the names of their columns"));
        path.retain(|(depth, _)| *depth < indent);
        // A mount point is a path or swap; anything else means that another row was joined to this one.
        let is_point = |cell: &String| cell.is_empty() || cell.starts_with(['/', '[']);
        // A piece that was broken off a row begins with a number.
        let is_named = |cells: &BTreeMap<String, String>| {
            cells.get("NAME").is_none_or(|name| name.bytes().any(|b| b.is_ascii_alphabetic()))
        };
        let are_points = |cells: &BTreeMap<String, String>| {
            ["MOUNTPOINT", "MOUNTPOINTS"].iter().all(|column| cells.get(*column).is_none_or(is_point))
        };
        let read = match read {
            Ok(cells) if !are_points(&cells) || !is_named(&cells) => {
                Err(lines.refuse("one device, and where it is mounted"))
            }
            read => read,
        };
        let Some(cells) = lines.keep(read)? else {
            // The position of devices stacked on it is unknown.
            path.clear();
            is_row_lost = true;
            lines.skip(1);
            continue;
        };
        is_row_lost = false;
        let parent = path.last().map(|(_, name)| name.clone());
        let mut device = BlockDevice { line: lines.number(), parent, cells };
        // The line of its disk may have been lost.
        let is_part_of =
            |parent: &String| device.get("TYPE") != Some("part") || device.name().starts_with(parent.as_str());
        device.parent = device.parent.clone().filter(is_part_of);
        path.push((indent, device.name().to_owned()));
        devices.push(device);
        lines.skip(1);
    }
    Ok(devices)
}

/// A word and its position, in characters.
#[derive(Clone, Debug, PartialEq)]
struct PositionedWord {
    text: String,
    from: usize,
    to: usize,
}

fn positioned_words(line: &str) -> Vec<PositionedWord> {
    let mut words: Vec<PositionedWord> = Vec::new();
    let mut open = false;
    for (at, c) in line.chars().enumerate() {
        if c.is_whitespace() {
            open = false;
            continue;
        }
        match words.last_mut().filter(|_| open) {
            Some(word) => {
                word.text.push(c);
                word.to = at + 1;
            }
            None => words.push(PositionedWord { text: c.into(), from: at, to: at + 1 }),
        }
        open = true;
    }
    words
}

/// Returns the cells of a row by column. A cell is aligned with its heading on one side; a word below no heading continues the
/// previous cell. A cell that is not aligned may belong to the neighbouring column.
fn cells(header: &[PositionedWord], text: &str, indent: usize) -> Option<BTreeMap<String, String>> {
    let mut cells: BTreeMap<String, String> = BTreeMap::new();
    let row: String = text.chars().enumerate().map(|(at, c)| if at < indent { ' ' } else { c }).collect();
    let mut column = 0;
    for (nth, word) in positioned_words(&row).iter().enumerate() {
        let below = |h: &PositionedWord| word.from < h.to && h.from < word.to;
        let at = if nth == 0 { Some(0) } else { (column..header.len()).find(|at| below(&header[*at])) };
        match at {
            Some(at) if nth == 0 || at > column || below(&header[column]) => {
                let continues = at == column && TEXTS.contains(&header[at].text.as_str());
                let is_aligned = word.from == header[at].from || word.to == header[at].to;
                if nth > 0 && !continues && !is_aligned && header[at].text != NUMBERS {
                    return None;
                }
                column = at;
                let cell = cells.entry(header[at].text.clone()).or_default();
                if !cell.is_empty() {
                    cell.push(' ');
                }
                cell.push_str(&word.text);
            }
            _ if TEXTS.contains(&header[column].text.as_str()) => {
                let cell = cells.get_mut(&header[column].text)?;
                cell.push(' ');
                cell.push_str(&word.text);
            }
            _ => return None,
        }
    }
    Some(cells)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, window_of};

    #[test]
    fn mounts_and_queues_by_where_columns_stand() {
        let window = window_of(&fixture("lsblk.txt"));
        let mounts = window.newest::<Mount>();
        assert_eq!(mounts.values().find(|m| &*m.point == "/").unwrap().device.get(), Some("vda"));
        let window = window_of(&fixture("lsblk-t.txt"));
        let queues = window.newest::<Queue>();
        let vda = queues.values().find(|q| &*q.device == "vda").unwrap();
        assert_eq!((vda.scheduler.get(), vda.nr_requests.get()), (Some("mq-deadline"), Some(256.0)));
        assert_eq!((vda.read_ahead.get(), vda.logical_block.get()), (Some(8192.0 * KIB), Some(512.0)));
        let zram = queues.values().find(|q| &*q.device == "zram0").unwrap();
        assert_eq!(
            (zram.scheduler.get(), zram.nr_requests.get(), zram.read_ahead.get()),
            (None, None, Some(128.0 * KIB))
        );
    }

    #[test]
    fn a_disk_is_known_by_its_serial_number() {
        let text = "NAME   HCTL    SIZE TYPE MODEL            SERIAL   WWN
sdb    2:0:1:0 3.7T disk ST4000NM0035-1V4 ZC10ABCD 0x5000c500a1b2c3d4
└─sdb1         3.7T part                           
";
        let window = window_of(text);
        let queues = window.newest::<Queue>();
        let sdb = queues.values().find(|q| &*q.device == "sdb").unwrap();
        assert_eq!((sdb.serial.get(), sdb.address.get()), (Some("ZC10ABCD"), Some("2:0:1:0")));
        assert_eq!(sdb.wwn.get(), Some("5000c500a1b2c3d4"));
    }

    #[test]
    fn json_and_text_yield_the_same() {
        let window = window_of(&fixture("lsblk.json.txt"));
        let mounts = window.newest::<Mount>();
        assert_eq!(mounts.values().find(|m| &*m.point == "/").unwrap().device.get(), Some("vda"));
    }

    #[test]
    fn stacked_devices_are_linked() {
        let text = "NAME            MAJ:MIN RM   SIZE RO TYPE  MOUNTPOINT
sda               8:0    0 465.8G  0 disk
├─sda1            8:1    0     1G  0 part  /boot
└─sda2            8:2    0 464.8G  0 part
  ├─vg-root     253:0    0    50G  0 lvm   /
  └─vg-my_data  253:1    0 414.8G  0 lvm   /srv/my data
sr0              11:0    1  1024M  0 rom
";
        let window = window_of(text);
        let layers: Vec<_> = window.newest::<Layer>().values().map(|l| (l.link.to_string(), l.kind.get())).collect();
        assert!(layers.contains(&("vg-root on sda2".into(), Some("dm"))), "{layers:?}");
        assert!(layers.contains(&("sda1 on sda".into(), Some("partition"))), "{layers:?}");
        assert!(window.newest::<Mount>().values().any(|m| &*m.point == "/srv/my data"));
        assert_eq!(
            refusal_of(
                &text.replace("├─sda1            8:1    0     1G  0 part  /boot", "├─sda1 8:1 0 1G 0 part /boot")
            )
            .line,
            3
        );
    }
}
