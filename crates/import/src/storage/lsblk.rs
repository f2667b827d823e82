//! lsblk(8): block devices, what lies on what, and their queues; as a tree, and as JSON (`-J`).

mod document;
mod tree;

use crate::format::{Asked, Format};
use crate::json;
use crate::lines::Lines;
use crate::number::number;
use crate::refusal::Refusal;
use crate::run::Run;
use std::collections::BTreeMap;
use whyslow_model::catalogue::{Layer, Mount, Queue};
use whyslow_model::key::Pair;

/// The format.
pub const FORMAT: Format = Format {
    name: "lsblk",
    versions: "util-linux 2.19 to 2.40, tree and -J, with any columns (-o, -f, -t, -S)",
    tells: "what lies on what, and what is mounted of it; with -t or -o queues and block sizes",
    starts: |lines| tree::starts(lines) || json::begins(lines, "blockdevices"),
    read,
};

const KIB: f64 = 1024.0;

/// A device, and what is said of it by column.
struct Device {
    line: u32,
    /// The one it lies on.
    parent: Option<String>,
    columns: BTreeMap<String, String>,
}

impl Device {
    fn get(&self, column: &str) -> Option<&str> {
        self.columns.get(column).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The kernel's name where that is told, else the one a volume goes by.
    fn name(&self) -> &str {
        let name = self.get("KNAME").or(self.get("NAME")).unwrap_or_default();
        name.strip_prefix("/dev/").unwrap_or(name)
    }

    fn amount(&self, column: &str) -> Option<f64> {
        self.get(column).and_then(number)
    }
}

fn read(lines: &mut Lines<'_>, _: &Asked, run: &mut Run) -> Result<(), Refusal> {
    let devices = if json::begins(lines, "blockdevices") { document::read(lines)? } else { tree::read(lines)? };
    for device in devices.iter().filter(|d| !d.name().is_empty()) {
        layer(run, device);
        queue(run, device);
        mount(run, device);
    }
    Ok(())
}

fn layer(run: &mut Run, device: &Device) {
    let Some(parent) = &device.parent else { return };
    let kind = match device.get("TYPE").unwrap_or_default() {
        "part" => "partition",
        "lvm" | "crypt" | "mpath" | "dm" => "dm",
        raid if raid.starts_with("raid") || raid == "linear" => "md",
        other => other,
    };
    let key = Pair { upper: device.name().into(), lower: parent.as_str().into() };
    let row = run.row::<Layer>(0.0, device.line, key);
    if !kind.is_empty() {
        row.kind = kind.into();
    }
}

/// A device's own queue: partitions have none.
fn queue(run: &mut Run, device: &Device) {
    const TOLD: [&str; 11] =
        ["ROTA", "SCHED", "MIN-IO", "OPT-IO", "PHY-SEC", "LOG-SEC", "RQ-SIZE", "RA", "MODEL", "SERIAL", "HCTL"];
    if device.get("TYPE") == Some("part") || !TOLD.iter().any(|column| device.get(column).is_some()) {
        return;
    }
    let row = run.row::<Queue>(0.0, device.line, device.name().into());
    let text = |column: &str| device.get(column).map(Into::into).unwrap_or_default();
    row.rotational = device.amount("ROTA").into();
    row.scheduler = text("SCHED");
    row.minimum_io = device.amount("MIN-IO").into();
    row.optimal_io = device.amount("OPT-IO").into();
    row.physical_block = device.amount("PHY-SEC").into();
    row.logical_block = device.amount("LOG-SEC").into();
    row.nr_requests = device.amount("RQ-SIZE").into();
    row.read_ahead = device.amount("RA").map(|kib| kib * KIB).into();
    row.model = text("MODEL");
    row.serial = text("SERIAL");
    row.address = text("HCTL");
    row.state = text("STATE");
}

fn mount(run: &mut Run, device: &Device) {
    let points = device.get("MOUNTPOINTS").or(device.get("MOUNTPOINT")).unwrap_or_default();
    for point in points.lines().filter(|point| point.starts_with('/')) {
        let row = run.row::<Mount>(0.0, device.line, point.into());
        row.device = device.name().into();
        row.kind = device.get("FSTYPE").map(Into::into).unwrap_or_default();
    }
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
        let text = "NAME   HCTL    SIZE TYPE MODEL            SERIAL
sdb    2:0:1:0 3.7T disk ST4000NM0035-1V4 ZC10ABCD
└─sdb1         3.7T part                  
";
        let window = window_of(text);
        let queues = window.newest::<Queue>();
        let sdb = queues.values().find(|q| &*q.device == "sdb").unwrap();
        assert_eq!((sdb.serial.get(), sdb.address.get()), (Some("ZC10ABCD"), Some("2:0:1:0")));
    }

    #[test]
    fn json_tells_the_same() {
        let window = window_of(&fixture("lsblk.json.txt"));
        let mounts = window.newest::<Mount>();
        assert_eq!(mounts.values().find(|m| &*m.point == "/").unwrap().device.get(), Some("vda"));
    }

    #[test]
    fn what_lies_on_what() {
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
