//! mount(8) without arguments: what is mounted where.

use crate::format::{Asked, Format};
use crate::lines::Lines;
use crate::refusal::Refusal;
use crate::run::Run;
use whyslow_model::catalogue::Mount;

/// The format.
pub const FORMAT: Format = Format {
    name: "mount",
    versions: "util-linux, all",
    tells: "file systems, their devices and options; which are mounted read-only",
    starts: |lines| lines.peek(0).is_some_and(|line| entry(line).is_some()),
    read,
};

/// What stands on a line.
struct Entry<'t> {
    device: &'t str,
    point: &'t str,
    kind: &'t str,
    options: &'t str,
}

/// `/dev/vda on / type ext4 (rw,relatime)`; a label may follow in brackets.
fn entry(line: &str) -> Option<Entry<'_>> {
    let (device, rest) = line.split_once(" on /")?;
    let (_, from_point) = line.split_at(line.len() - rest.len() - 1);
    let (point, rest) = from_point.rsplit_once(" type ")?;
    let (kind, rest) = rest.split_once(" (")?;
    let (options, _) = rest.split_once(')')?;
    let mode = options.split(',').next().is_some_and(|o| o == "rw" || o == "ro");
    (mode && !kind.contains(' ')).then_some(Entry { device, point, kind, options })
}

fn read(lines: &mut Lines<'_>, _: &Asked, run: &mut Run) -> Result<(), Refusal> {
    while let Some(text) = lines.peek(0).map(str::to_owned) {
        let Some(entry) = entry(&text) else { break };
        // Of two on one point the later one is seen.
        let row = run.row::<Mount>(0.0, lines.number(), entry.point.into());
        row.device = entry.device.trim_start_matches("/dev/").into();
        row.kind = entry.kind.into();
        row.options = entry.options.into();
        row.read_only = f64::from(u8::from(entry.options.starts_with("ro"))).into();
        lines.skip(1);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    #[test]
    fn devices_kinds_and_options() {
        let text = format!("{}server:/a b on /mnt/a type b type nfs (ro,vers=3)\n", fixture("mount.txt"));
        let window = window_of(&text);
        let rows = window.newest::<Mount>();
        let root = rows.values().find(|m| &*m.point == "/").unwrap();
        assert_eq!((root.device.get(), root.kind.get(), root.read_only.get()), (Some("vda"), Some("ext4"), Some(0.0)));
        let nfs = rows.values().find(|m| m.kind.get() == Some("nfs")).unwrap();
        assert_eq!((&*nfs.point, nfs.read_only.get()), ("/mnt/a type b", Some(1.0)));
    }
}
