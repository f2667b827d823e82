//! /proc/self/mountinfo (Documentation/filesystems/proc.rst, 3.5).

use super::device;
use crate::text::{octal, unescape};
use crate::{Miss, Root};
use whyslow_model::value::Name;

/// Where they stand.
pub(super) const PATH: &str = "proc/self/mountinfo";

/// One mount, as this process sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MountLine {
    /// `major:minor` of the file system, st_dev of its files; major 0 where no block device is behind it.
    pub(crate) number: String,
    /// The folder of the file system that is mounted; `/` unless it is a bind mount or a part of it.
    pub(crate) root: String,
    /// Where it is mounted.
    pub(crate) point: String,
    /// Options of this mount.
    pub(crate) options: String,
    /// File system type.
    pub(crate) kind: String,
    /// What is mounted, as whoever mounted it wrote it.
    pub(crate) source: String,
    /// Options of the file system.
    pub(crate) super_options: String,
}

impl MountLine {
    /// What is mounted: the kernel's name of the block device where there is one; else the source as written
    /// (`server:/export`, the name a FUSE program gave), or the file system's type where that is empty or `none`.
    pub(crate) fn device(&self, root: &Root) -> Name {
        device::by_number(root, &self.number)
            .or_else(|| device::by_path(root, &self.source))
            .unwrap_or_else(|| match self.source.as_str() {
                "" | "none" => self.kind.clone(),
                source => source.to_owned(),
            })
            .into()
    }

    /// Whether this option is set, for the mount or for the file system as a whole.
    pub(crate) fn has(&self, option: &str) -> bool {
        self.options.split(',').chain(self.super_options.split(',')).any(|o| o == option)
    }
}

/// All mounts, in the kernel's order.
///
/// # Errors
/// Where the file cannot be read.
pub(crate) fn read(root: &Root) -> Result<Vec<MountLine>, Miss> {
    root.text(PATH).map(|text| parse(&text))
}

/// The mount that holds the file at `path`: the one with the longest mount point that leads to it.
pub(crate) fn holder<'m>(mounts: &'m [MountLine], path: &str) -> Option<&'m MountLine> {
    mounts.iter().filter(|m| leads_to(&m.point, path)).max_by_key(|m| m.point.len())
}

fn leads_to(point: &str, path: &str) -> bool {
    path.strip_prefix(point.trim_end_matches('/')).is_some_and(|rest| rest.starts_with('/'))
}

/// Lines that make no sense are left out.
pub(crate) fn parse(text: &str) -> Vec<MountLine> {
    text.lines().filter_map(parse_line).collect()
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`: the number of optional fields
/// before the `-` varies. A source can be empty, which leaves two blanks in a row.
fn parse_line(line: &str) -> Option<MountLine> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(2);
    let (number, root, point, options) = (mount.next()?, mount.next()?, mount.next()?, mount.next()?);
    let mut file_system = file_system.splitn(3, ' ');
    let (kind, source) = (file_system.next()?, file_system.next()?);
    Some(MountLine {
        number: number.to_owned(),
        root: path(root),
        point: path(point),
        options: options.to_owned(),
        kind: path(kind),
        source: path(source),
        super_options: file_system.next().unwrap_or_default().to_owned(),
    })
}

/// A name as it is, escapes undone.
fn path(word: &str) -> String {
    unescape(word, octal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn optional_fields_and_escapes_are_read() {
        let text = "36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 shared:2 - ext3 /dev/root rw,errors=continue\n\
                    37 35 0:44 / /m rw - tmpfs  rw,size=4k\nnonsense\n";
        let mounts = parse(text);
        assert_eq!(mounts.len(), 2);
        assert_eq!((mounts[0].root.as_str(), mounts[0].point.as_str()), ("/mnt1", "/mnt 2"));
        assert!(mounts[0].has("noatime") && mounts[0].has("errors=continue") && !mounts[0].has("ro"));
        assert_eq!((mounts[1].source.as_str(), mounts[1].super_options.as_str()), ("", "rw,size=4k"));
    }

    #[test]
    fn a_file_is_held_by_the_longest_mount_point() {
        let line = |point: &str| parse(&format!("1 0 8:1 / {point} rw - ext4 /dev/sda1 rw")).remove(0);
        let mounts = [line("/"), line("/var"), line("/var/lib")];
        let holds = |path| holder(&mounts, path).map(|m| m.point.as_str());
        assert_eq!(holds("/var/library/x"), Some("/var"));
        assert_eq!(holds("/var/lib/x"), Some("/var/lib"));
        assert_eq!(holds("/etc"), Some("/"));
        assert_eq!(holds("not a path"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "([ -~]{0,20}[ \\\\-]){0,20}|.*") {
            let _ = parse(&text);
            let _ = path(&text);
        }
    }
}
