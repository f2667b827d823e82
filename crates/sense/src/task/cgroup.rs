//! /proc/PID/cgroup (cgroups(7)).

use std::borrow::Cow;

/// The controllers of version 1 whose groups hold a process back: those that a diagnosis speaks of.
const CONTROLLERS: [&[u8]; 3] = [b"cpu", b"memory", b"blkio"];

/// The one control group that stands for a process.
///
/// Its group in the unified hierarchy, unless that is the root, as it is where version 1 does the work. Then the deepest
/// of its groups under the controllers cpu, memory and blkio; the first of these where several are as deep.
pub(super) fn path(text: &[u8]) -> Option<Cow<'_, str>> {
    let mut unified = None;
    let mut deepest: Option<&[u8]> = None;
    for line in text.split(|b| *b == b'\n') {
        // A path may hold colons; the number and the controllers before it hold none.
        let mut parts = line.splitn(3, |b| *b == b':');
        let (Some(hierarchy), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        if hierarchy == b"0" && controllers.is_empty() {
            unified = Some(path);
        } else if controllers.split(|b| *b == b',').any(|c| CONTROLLERS.contains(&c))
            && deepest.is_none_or(|d| depth(path) > depth(d))
        {
            deepest = Some(path);
        }
    }
    let chosen = unified.filter(|p| *p != b"/").or(deepest).or(unified)?;
    Some(String::from_utf8_lossy(chosen))
}

fn depth(path: &[u8]) -> usize {
    path.split(|b| *b == b'/').filter(|part| !part.is_empty()).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_unified_group_wins_unless_it_is_the_root() {
        assert_eq!(path(b"0::/user.slice/a:b\n").as_deref(), Some("/user.slice/a:b"));
        assert_eq!(path(b"4:memory:/old\n0::/new\n").as_deref(), Some("/new"));
        assert_eq!(
            path(b"5:devices:/x/y/z\n4:memory:/api/72cf\n1:cpu,cpuacct:/api\n0::/\n").as_deref(),
            Some("/api/72cf")
        );
        assert_eq!(path(b"4:memory:/m\n1:cpu,cpuacct:/c\n").as_deref(), Some("/m"));
        assert_eq!(path(b"9:name=systemd:/s\n0::/\n").as_deref(), Some("/"));
        assert_eq!(path(b"9:name=systemd:/s\n"), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let _ = path(&bytes);
        }
    }
}
