//! The smaller text files of a process or thread: /proc/PID/{cgroup,io,limits,sched,schedstat,status}, and /proc/PID/task/TID/*.
//!
//! Names in them can contain any bytes, so they are parsed as bytes.

use whyslow_model::catalogue::ProcessRow;

/// Parses a decimal number that spans all of `bytes`.
pub(super) fn number(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() {
        return None;
    }
    bytes.iter().try_fold(0u64, |n, b| {
        let digit = b.is_ascii_digit().then(|| u64::from(b - b'0'))?;
        n.checked_mul(10)?.checked_add(digit)
    })
}

pub(super) fn signed(bytes: &[u8]) -> Option<i64> {
    match bytes.strip_prefix(b"-") {
        Some(digits) => number(digits).and_then(|n| 0i64.checked_sub_unsigned(n)),
        None => number(bytes).and_then(|n| n.try_into().ok()),
    }
}

/// Splits a line at spaces and tabs.
pub(super) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|w| !w.is_empty())
}

/// Iterates over the `name: value` lines of a file, with trimmed values.
pub(super) fn pairs(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    text.split(|b| *b == b'\n').filter_map(|line| {
        let colon = line.iter().position(|b| *b == b':')?;
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    })
}

/// Version 1 controllers that can limit a process.
const CONTROLLERS: [&[u8]; 3] = [b"cpu", b"memory", b"blkio"];

/// Returns the cgroups of a process (cgroups(7)), one per line, the deepest first: those with a controller of [`CONTROLLERS`],
/// and that of the unified hierarchy. The root, which limits nothing, is included only if there is no other.
pub(super) fn cgroups(text: &[u8]) -> Option<String> {
    let mut groups: Vec<&[u8]> = Vec::new();
    for line in text.split(|b| *b == b'\n') {
        // A path may contain colons; the number and the controllers before it contain none.
        let mut parts = line.splitn(3, |b| *b == b':');
        let (Some(hierarchy), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let unified = hierarchy == b"0" && controllers.is_empty();
        let limits = controllers.split(|b| *b == b',').any(|c| CONTROLLERS.contains(&c));
        if (unified || limits) && !groups.contains(&path) {
            groups.push(path);
        }
    }
    let depth = |path: &[u8]| path.split(|b| *b == b'/').filter(|part| !part.is_empty()).count();
    groups.sort_by_key(|path| std::cmp::Reverse(depth(path)));
    if groups.len() > 1 {
        groups.retain(|path| *path != b"/");
    }
    let lines: Vec<_> = groups.iter().map(|path| String::from_utf8_lossy(path)).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Limits (proc_pid_limits(5)): soft ones unless the name says hard; `None` if unlimited.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ProcessLimits {
    pub(super) open_files: Option<u64>,
    pub(super) open_files_hard: Option<u64>,
    pub(super) processes: Option<u64>,
}

pub(super) fn limits(text: &[u8]) -> ProcessLimits {
    let mut limits = ProcessLimits::default();
    for line in text.split(|b| *b == b'\n') {
        if let Some(values) = line.strip_prefix(b"Max open files") {
            let mut values = words(values);
            limits.open_files = values.next().and_then(number);
            limits.open_files_hard = values.next().and_then(number);
        } else if let Some(values) = line.strip_prefix(b"Max processes") {
            limits.processes = words(values).next().and_then(number);
        }
    }
    limits
}

/// Returns the thread's number of migrations from sched (kernel/sched/debug.c), which kernels with CONFIG_SCHED_DEBUG have.
///
/// The first line contains the thread's name; with at most 15 bytes no name can imitate the line in question.
pub(super) fn migrations(text: &[u8]) -> Option<u64> {
    let (_, value) = pairs(text).find(|(name, _)| name.trim_ascii() == b"se.nr_migrations")?;
    number(words(value).next()?)
}

/// A thread's schedstat (Documentation/scheduler/sched-stats.rst), nanoseconds. The schedstat of a process is that of its main
/// thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SchedStat {
    pub(super) run: u64,
    /// Time waiting on a run queue.
    pub(super) delay: u64,
}

/// Parses a schedstat. Returns `None` for `0 0 0`: a kernel without this accounting reports that for every thread, other kernels
/// only for a thread that has never run.
pub(super) fn schedstat(line: &[u8]) -> Option<SchedStat> {
    let mut fields = words(line).map(number);
    let (run, delay, slices) = (fields.next()??, fields.next()??, fields.next()??);
    (run, delay, slices).ne(&(0, 0, 0)).then_some(SchedStat { run, delay })
}

/// Values of /proc/PID/status (proc_pid_status(5)). Memory is in bytes; a kernel thread has none.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ProcessStatus {
    /// Effective UID.
    pub(super) user_id: Option<u64>,
    pub(super) rss_anon: Option<u64>,
    pub(super) rss_file: Option<u64>,
    pub(super) rss_shmem: Option<u64>,
    pub(super) swap: Option<u64>,
    pub(super) page_tables: Option<u64>,
    /// Of this thread only, as are the involuntary switches.
    pub(super) voluntary_switches: Option<u64>,
    pub(super) involuntary_switches: Option<u64>,
}

pub(super) fn status(text: &[u8]) -> ProcessStatus {
    let kilobytes = |value: &[u8]| number(words(value).next()?)?.checked_mul(1024);
    let mut status = ProcessStatus::default();
    for (name, value) in pairs(text) {
        match name {
            b"Uid" => status.user_id = words(value).nth(1).and_then(number),
            b"RssAnon" => status.rss_anon = kilobytes(value),
            b"RssFile" => status.rss_file = kilobytes(value),
            b"RssShmem" => status.rss_shmem = kilobytes(value),
            b"VmSwap" => status.swap = kilobytes(value),
            b"VmPTE" => status.page_tables = kilobytes(value),
            b"voluntary_ctxt_switches" => status.voluntary_switches = number(value),
            b"nonvoluntary_ctxt_switches" => status.involuntary_switches = number(value),
            _ => {}
        }
    }
    status
}

/// Parses io: sums over all threads, including ended ones (proc_pid_io(5), Documentation/filesystems/proc.rst).
pub(super) fn io(text: &[u8], row: &mut ProcessRow) {
    for (name, value) in pairs(text) {
        let Some(value) = number(value) else { continue };
        let slot = match name {
            b"rchar" => &mut row.read_chars,
            b"wchar" => &mut row.write_chars,
            b"syscr" => &mut row.read_calls,
            b"syscw" => &mut row.write_calls,
            b"read_bytes" => &mut row.read_bytes,
            b"write_bytes" => &mut row.write_bytes,
            b"cancelled_write_bytes" => &mut row.cancelled_write_bytes,
            _ => continue,
        };
        *slot = value.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_parsed_completely_or_not_at_all() {
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!([number(b"18446744073709551616"), number(b""), number(b"-1"), number(b"1x")], [None; 4]);
        assert_eq!((signed(b"-20"), signed(b"19"), signed(b"-")), (Some(-20), Some(19), None));
        assert_eq!(signed(b"-9223372036854775808"), Some(i64::MIN));
    }

    #[test]
    fn pairs_are_split_at_the_first_colon() {
        let found: Vec<_> = pairs(b"Name:\ta:b\nnothing\nUid:\t1\t2\n").collect();
        assert_eq!(found, [(&b"Name"[..], &b"a:b"[..]), (b"Uid", b"1\t2")]);
    }

    #[test]
    fn all_cgroups_are_listed_the_deepest_first() {
        assert_eq!(cgroups(b"0::/user.slice/a:b\n").as_deref(), Some("/user.slice/a:b"));
        assert_eq!(cgroups(b"4:memory:/old/x\n0::/new\n").as_deref(), Some("/old/x\n/new"));
        assert_eq!(
            cgroups(b"5:devices:/x/y/z\n4:memory:/api/72cf\n1:cpu,cpuacct:/api\n0::/\n").as_deref(),
            Some("/api/72cf\n/api")
        );
        assert_eq!(cgroups(b"4:memory:/m\n1:cpu,cpuacct:/m\n").as_deref(), Some("/m"));
        assert_eq!(cgroups(b"9:name=systemd:/s\n0::/\n").as_deref(), Some("/"));
        assert_eq!(cgroups(b"9:name=systemd:/s\n"), None);
    }

    #[test]
    fn an_unlimited_soft_limit_is_none() {
        let text = b"Limit                     Soft Limit           Hard Limit           Units     \n\
            Max processes             unlimited            unlimited            processes \n\
            Max open files            1024                 20000                files     \n";
        let expected = ProcessLimits { open_files: Some(1024), open_files_hard: Some(20_000), processes: None };
        assert_eq!(limits(text), expected);
    }

    #[test]
    fn migrations_are_found_among_the_scheduler_statistics() {
        let text = b"cat (1192, #threads: 1)\n---------------------\n\
            se.exec_start                                :      16223641.652630\n\
            se.nr_migrations                             :                   17\n\
            nr_switches                                  :                    1\n";
        assert_eq!((migrations(text), migrations(b"nr_switches : 1\n")), (Some(17), None));
    }

    #[test]
    fn a_schedstat_of_zeros_is_none() {
        assert_eq!(schedstat(b"492790 12 1\n"), Some(SchedStat { run: 492_790, delay: 12 }));
        assert_eq!([schedstat(b"0 0 0\n"), schedstat(b"1 2\n"), schedstat(b"")], [None; 3]);
    }

    #[test]
    fn the_status_of_a_process_has_memory_and_that_of_a_kernel_thread_none() {
        let text = b"Name:\tUid:\t9\nState:\tS (sleeping)\nUid:\t1000\t33\t33\t33\nVmSwap:\t       4 kB\nVmPTE:\t      36 kB\n\
            RssAnon:\t     100 kB\nRssFile:\t      50 kB\nRssShmem:\t       0 kB\n\
            voluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t545\n";
        let expected = ProcessStatus {
            user_id: Some(33),
            rss_anon: Some(102_400),
            rss_file: Some(51_200),
            rss_shmem: Some(0),
            swap: Some(4096),
            page_tables: Some(36_864),
            voluntary_switches: Some(150),
            involuntary_switches: Some(545),
        };
        assert_eq!(status(text), expected);
        let kernel = status(b"Name:\tkswapd0\nUid:\t0\t0\t0\t0\nvoluntary_ctxt_switches:\t1\n");
        assert_eq!((kernel.swap, kernel.page_tables, kernel.user_id), (None, None, Some(0)));
    }

    #[test]
    fn each_line_of_io_has_its_metric() {
        let mut row = ProcessRow::default();
        io(
            b"rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\ncancelled_write_bytes: 7\n",
            &mut row,
        );
        let read = [row.read_chars, row.write_chars, row.read_calls, row.write_calls, row.read_bytes];
        assert_eq!(read.map(|c| c.get().unwrap()), [1, 2, 3, 4, 5]);
        assert_eq!((row.write_bytes.get(), row.cancelled_write_bytes.get()), (Some(6), Some(7)));
    }
}
