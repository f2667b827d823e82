//! What a process has mapped to run: in which file, and where in it, the code at an address is (proc_pid_maps(5)).

use super::binaries::Binaries;
use super::mapping::Mapping;
use crate::root::Root;

/// The executable mappings of an address space.
#[derive(Clone, Debug, Default)]
pub(super) struct Space {
    /// By address; no two overlap.
    mappings: Vec<Mapping>,
}

impl Space {
    /// Reads what the process has mapped now, and opens the files. Nothing where the process is gone or not ours to look at.
    pub(super) fn read(pid: u32, binaries: &mut Binaries, root: &Root) -> Option<Self> {
        let maps = root.maybe(&format!("proc/{pid}/maps")).filter(|text| !text.is_empty())?;
        let mut space = Self::parse(&maps);
        for mapping in &mut space.mappings {
            mapping.binary = binaries.open(pid, mapping, root);
        }
        Some(space)
    }

    fn parse(maps: &str) -> Self {
        let mut mappings: Vec<Mapping> = maps.lines().filter_map(Mapping::parse).collect();
        mappings.sort_by_key(|mapping| mapping.addresses.start);
        Self { mappings }
    }

    /// The mapping an address is in.
    pub(super) fn find(&self, address: u64) -> Option<&Mapping> {
        let after = self.mappings.partition_point(|mapping| mapping.addresses.start <= address);
        self.mappings.get(after.checked_sub(1)?).filter(|mapping| mapping.addresses.contains(&address))
    }

    /// Whether nothing that can be run is known of.
    pub(super) fn is_empty(&self) -> bool {
        self.mappings.is_empty()
    }

    /// What is mapped by now, and beside it what was mapped before and is not overlaid.
    pub(super) fn renewed(self, mut now: Self) -> Self {
        let overlaps =
            |a: &Mapping, b: &Mapping| a.addresses.start < b.addresses.end && b.addresses.start < a.addresses.end;
        let still_there = |old: &Mapping| !now.mappings.iter().any(|new| overlaps(old, new));
        let kept: Vec<Mapping> = self.mappings.into_iter().filter(still_there).collect();
        now.mappings.extend(kept);
        now.mappings.sort_by_key(|mapping| mapping.addresses.start);
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::never_panics;

    const MAPS: &str = "\
55d0a000-55d0c000 r--p 00000000 fd:00 1311                       /opt/my app/toy
55d0c000-55d10000 r-xp 00002000 fd:00 1311                       /opt/my app/toy
7f00a000-7f00b000 rwxp 00000000 00:00 0 
7f01a000-7f01b000 r-xp 00028000 fd:00 99                         /usr/lib/libc.so.6 (deleted)
7fff1000-7fff2000 r-xp 00000000 00:00 0                          [vdso]
";

    #[test]
    fn an_address_is_found_in_its_mapping_or_nowhere() {
        let space = Space::parse(MAPS);
        let at = |address| space.find(address).map(|mapping| (&*mapping.path, mapping.offset));
        assert_eq!(at(0x55d0_c000), Some(("/opt/my app/toy", 0x2000)));
        assert_eq!(at(0x55d0_ffff), Some(("/opt/my app/toy", 0x2000)));
        assert_eq!(at(0x55d1_0000), None);
        assert_eq!(at(0x55d0_a000), None, "not executable");
        assert_eq!(at(0x7f00_a010), Some(("", 0)));
        assert_eq!(at(0x7f01_a000), Some(("/usr/lib/libc.so.6 (deleted)", 0x28000)));
        assert_eq!(at(0x7fff_1001), Some(("[vdso]", 0)));
        assert_eq!((at(0), at(u64::MAX)), (None, None));
    }

    #[test]
    fn what_was_unmapped_is_remembered_unless_something_else_lies_there() {
        let old = Space::parse(MAPS);
        let now = Space::parse("55d0f000-55d11000 r-xp 0 fd:00 7 /bin/other\n");
        let both = old.renewed(now);
        let path = |address| both.find(address).map(|mapping| &*mapping.path);
        assert_eq!(path(0x55d0_f800), Some("/bin/other"));
        assert_eq!(path(0x55d0_c000), None);
        assert_eq!(path(0x7fff_1000), Some("[vdso]"));
    }

    #[test]
    fn any_text_is_read() {
        never_panics(MAPS, |text| {
            Space::parse(text).find(0x55d0_c000);
        });
    }
}
