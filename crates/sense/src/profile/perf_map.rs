//! Functions that a just-in-time compiler made, as it tells of them in /tmp/perf-PID.map
//! (tools/perf/Documentation/jit-interface.txt).

use crate::root::Root;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

/// More than this is no list of functions.
const LARGEST: u64 = 256 << 20;

/// Functions by address.
#[derive(Debug, Default)]
pub(super) struct PerfMap {
    functions: BTreeMap<u64, (u64, String)>,
}

impl PerfMap {
    /// Reads the file of a process, by its own root and by the number it knows itself by. Empty where there is none, or it is
    /// somebody else's, who could tell anything.
    pub(super) fn read(pid: u32, root: &Root) -> Self {
        Self::text(pid, root).map(|text| Self::parse(&text)).unwrap_or_default()
    }

    fn text(pid: u32, root: &Root) -> Option<String> {
        let status = root.maybe(&format!("proc/{pid}/status"))?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        let own_number = field("NStgid:").split_whitespace().last()?;
        let owner: u32 = field("Uid:").split_whitespace().nth(1)?.parse().ok()?;
        let path = root.at(format!("proc/{pid}/root/tmp/perf-{own_number}.map"));
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW).open(path).ok()?;
        let meta = file.metadata().ok().filter(|meta| meta.is_file() && meta.uid() == owner)?;
        let mut bytes = Vec::with_capacity(usize::try_from(meta.len().min(LARGEST)).unwrap_or(0));
        file.take(LARGEST).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Lines of `START SIZE NAME`, the first two in hexadecimal. A later one is what lies at the address by now.
    fn parse(text: &str) -> Self {
        let functions = text.lines().filter_map(|line| {
            let (start, rest) = line.split_once(' ')?;
            let (size, name) = rest.split_once(' ')?;
            let hex = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
            let start = hex(start)?;
            Some((start, (start.checked_add(hex(size)?)?, name.to_owned())))
        });
        Self { functions: functions.collect() }
    }

    /// The function at an address.
    pub(super) fn find(&self, address: u64) -> Option<&str> {
        let (_, (end, name)) = self.functions.range(..=address).next_back()?;
        (address < *end).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::never_panics;

    const MAP: &str = "7f0010 20 LazyCompile:~main /app/server.js:1\n7f0040 8 old\n7f0040 10 new\nnonsense\n";

    #[test]
    fn functions_are_found_by_address_and_the_latest_counts() {
        let map = PerfMap::parse(MAP);
        assert_eq!(map.find(0x7f0010), Some("LazyCompile:~main /app/server.js:1"));
        assert_eq!(map.find(0x7f002f), Some("LazyCompile:~main /app/server.js:1"));
        assert_eq!(map.find(0x7f0030), None);
        assert_eq!(map.find(0x7f004f), Some("new"));
        assert_eq!((map.find(0), map.find(u64::MAX)), (None, None));
    }

    #[test]
    fn our_own_file_is_read_and_a_link_or_a_pipe_is_not() {
        let path = std::path::PathBuf::from(format!("/tmp/perf-{}.map", std::process::id()));
        let read = || PerfMap::read(std::process::id(), &Root::live()).functions.len();
        std::fs::write(&path, MAP).unwrap();
        let from_file = read();
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        let from_link = read();
        std::fs::remove_file(&path).unwrap();
        assert_eq!((from_file, from_link, read()), (2, 0, 0));
    }

    #[test]
    fn any_text_is_read() {
        never_panics(MAP, |text| {
            PerfMap::parse(text).find(0x7f0020);
        });
    }
}
