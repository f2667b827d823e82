//! mount(8) without arguments: mounted file systems.

use crate::prelude::*;
use whyslow_model::catalogue::Mount;

pub const FORMAT: Format = Format {
    name: "mount",
    versions: "util-linux, all; without arguments",
    shows: "file systems, their devices and options; which are mounted read-only",
    lacks: "rates",
    programs: &[word("mount")],
    files: &["mount"],
    starts: |lines| lines.next_is(|line| MountEntry::parse(line).is_some()),
    read,
    ..Format::NEW
};

struct MountEntry<'t> {
    device: &'t str,
    point: &'t str,
    kind: &'t str,
    options: &'t str,
}

impl<'t> MountEntry<'t> {
    /// Parses `/dev/vda on / type ext4 (rw,relatime)`; a label may follow in brackets.
    fn parse(line: &'t str) -> Option<Self> {
        let (device, rest) = line.split_once(" on /")?;
        let (_, from_point) = line.split_at(line.len() - rest.len() - 1);
        let (point, rest) = from_point.rsplit_once(" type ")?;
        let (kind, rest) = rest.split_once(" (")?;
        let (options, _) = rest.split_once(')')?;
        let mode = options.split(',').next().is_some_and(|o| o == "rw" || o == "ro");
        // Two lines were joined.
        let is_one = !point.contains(" type ") || !point.contains(" (r");
        (mode && is_one && !kind.contains(' ')).then_some(Self { device, point, kind, options })
    }
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    while let Some(line) = lines.take_if(|text| MountEntry::parse(text).is_some()) {
        let Some(mounted) = MountEntry::parse(&line.text) else { break };
        // If two file systems are mounted on one point, the later one is visible.
        let row = run.row::<Mount>(0.0, line.number, mounted.point.into());
        row.device = mounted.device.trim_start_matches("/dev/").into();
        row.kind = mounted.kind.into();
        row.options = mounted.options.into();
        row.read_only = f64::from(u8::from(mounted.options.starts_with("ro"))).into();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    #[test]
    fn devices_types_and_options_are_read() {
        let text = format!("{}server:/a b on /mnt/a type b type nfs (ro,vers=3)\n", fixture("mount.txt"));
        let window = window_of(&text);
        let rows = window.newest::<Mount>();
        let root = rows.values().find(|m| &*m.point == "/").unwrap();
        assert_eq!((root.device.get(), root.kind.get(), root.read_only.get()), (Some("vda"), Some("ext4"), Some(0.0)));
        let nfs = rows.values().find(|m| m.kind.get() == Some("nfs")).unwrap();
        assert_eq!((&*nfs.point, nfs.read_only.get()), ("/mnt/a type b", Some(1.0)));
    }
}
