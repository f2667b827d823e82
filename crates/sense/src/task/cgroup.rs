//! /proc/PID/cgroup (cgroups(7)).

/// The controllers of version 1 whose groups hold a process back: those that a diagnosis speaks of.
const CONTROLLERS: [&[u8]; 3] = [b"cpu", b"memory", b"blkio"];

/// The control groups of a process, one a line, the deepest first: those under the controllers cpu, memory and blkio of
/// version 1, and the one of the unified hierarchy. The root, which holds nothing back, only where there is no other.
pub(super) fn paths(text: &[u8]) -> Option<String> {
    let mut groups: Vec<&[u8]> = Vec::new();
    for line in text.split(|b| *b == b'\n') {
        // A path may hold colons; the number and the controllers before it hold none.
        let mut parts = line.splitn(3, |b| *b == b':');
        let (Some(hierarchy), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let unified = hierarchy == b"0" && controllers.is_empty();
        let holds_back = controllers.split(|b| *b == b',').any(|c| CONTROLLERS.contains(&c));
        if (unified || holds_back) && !groups.contains(&path) {
            groups.push(path);
        }
    }
    groups.sort_by_key(|path| std::cmp::Reverse(depth(path)));
    if groups.len() > 1 {
        groups.retain(|path| *path != b"/");
    }
    let lines: Vec<_> = groups.iter().map(|path| String::from_utf8_lossy(path)).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn depth(path: &[u8]) -> usize {
    path.split(|b| *b == b'/').filter(|part| !part.is_empty()).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn all_groups_are_named_the_deepest_first() {
        assert_eq!(paths(b"0::/user.slice/a:b\n").as_deref(), Some("/user.slice/a:b"));
        assert_eq!(paths(b"4:memory:/old/x\n0::/new\n").as_deref(), Some("/old/x\n/new"));
        assert_eq!(
            paths(b"5:devices:/x/y/z\n4:memory:/api/72cf\n1:cpu,cpuacct:/api\n0::/\n").as_deref(),
            Some("/api/72cf\n/api")
        );
        assert_eq!(paths(b"4:memory:/m\n1:cpu,cpuacct:/m\n").as_deref(), Some("/m"));
        assert_eq!(paths(b"9:name=systemd:/s\n0::/\n").as_deref(), Some("/"));
        assert_eq!(paths(b"9:name=systemd:/s\n"), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let _ = paths(&bytes);
        }
    }
}
