//! Words for settings: whether the names of two files, or the titles of two runs, say that a setting was changed between them.

use std::collections::BTreeSet;
use std::path::Path;

/// Words for a change.
const CHANGES: &[&str] = &[
    "after", "before", "baseline", "default", "disabled", "enabled", "new", "off", "old", "on", "original", "tuned",
    "with", "without",
];

/// Words for the subjects of experiments with storage, memory and networks. Excludes names of hosts, days and numbers: two
/// files with those come from two machines, or from two days.
const SUBJECTS: &[&str] = &[
    "alone",
    "async",
    "autogroup",
    "bad",
    "base",
    "bfq",
    "bonded",
    "btrfs",
    "buffered",
    "cached",
    "cfq",
    "changed",
    "compressed",
    "concurrent",
    "cubic",
    "bbr",
    "deadline",
    "direct",
    "encrypted",
    "ext2",
    "ext3",
    "ext4",
    "external",
    "extlog",
    "f2fs",
    "fast",
    "fifo",
    "fixed",
    "flash",
    "fsync",
    "good",
    "gro",
    "hdd",
    "huge",
    "hugepages",
    "internal",
    "jfs",
    "jumbo",
    "kyber",
    "less",
    "linear",
    "local",
    "lro",
    "luks",
    "mirror",
    "mirrored",
    "mixed",
    "more",
    "mq",
    "noatime",
    "nobarrier",
    "nocache",
    "none",
    "noop",
    "nosync",
    "nvme",
    "optimized",
    "parallel",
    "patched",
    "performance",
    "post",
    "powersave",
    "pre",
    "raid",
    "rand",
    "randread",
    "random",
    "randrw",
    "randwrite",
    "read",
    "reader",
    "readers",
    "readahead",
    "reiserfs",
    "remote",
    "schedutil",
    "seq",
    "seqread",
    "seqwrite",
    "sequential",
    "serial",
    "single",
    "slow",
    "ssd",
    "striped",
    "sync",
    "tcp",
    "thp",
    "tso",
    "tuning",
    "udp",
    "unpatched",
    "untuned",
    "write",
    "writeback",
    "writer",
    "writers",
    "writethrough",
    "xfs",
    "zfs",
];

/// Returns whether the names of two files, which have the rest in common, differ in words for a setting:
/// `iostat-before` and `iostat-after`, `fio-4k-1job` and `fio-4k-8jobs`.
pub fn tell_a_change(a: &str, b: &str) -> bool {
    let [a, b] = [a, b].map(words);
    let differing: Vec<&String> = a.symmetric_difference(&b).collect();
    !differing.is_empty() && differing.into_iter().all(|word| is_setting(word))
}

/// Returns whether two titles can be those of runs that differ in a setting: they have a word in common (`MTU 1500` and `MTU
/// 9000`), are one word each (`ext4` and `xfs`), or differ in words for a setting. Other titles may head anything.
pub fn are_titles_of_runs(a: &str, b: &str) -> bool {
    let of = |title: &str| words(&title.replace('.', " "));
    let (of_a, of_b) = (of(a), of(b));
    let is_word = |word: &&String| word.chars().any(char::is_alphabetic);
    let share = of_a.intersection(&of_b).any(|word| is_word(&word));
    share || of_a.len() == 1 && of_b.len() == 1 || tell_a_change(a, b)
}

/// Returns the words of a file name.
fn words(file: &str) -> BTreeSet<String> {
    let stem = Path::new(file).file_stem().unwrap_or_default().to_string_lossy().to_lowercase();
    stem.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Returns whether a word alone makes a line a title that states a change: `after`, `without`, `default`.
pub fn names_change(word: &str) -> bool {
    CHANGES.contains(&word.to_ascii_lowercase().as_str())
}

/// Returns whether a word names a setting or a quantity: `512k`, `6readers`, `raid5`.
fn is_setting(word: &str) -> bool {
    let of = word.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_quantity =
        of.len() < word.len() && of.starts_with(char::is_alphabetic) && of.chars().all(char::is_alphabetic);
    let name = word.trim_end_matches(|c: char| c.is_ascii_digit());
    is_quantity || [word, name].iter().any(|word| SUBJECTS.contains(word) || CHANGES.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_a_setting_tell_an_experiment() {
        for (a, b) in [
            ("before.txt", "after.txt"),
            ("/srv/in/iostat-old.log", "/srv/in/iostat-new.log"),
            ("san-2k-1reader.txt", "san-2k-6readers.txt"),
            ("san-2k-6readers.txt", "san-2k-6readers-striped.txt"),
            ("bonnie-ext3.txt", "bonnie-xfs.txt"),
            ("raid5.txt", "raid10.txt"),
            ("fio-4096k", "fio-1024k"),
        ] {
            assert!(tell_a_change(a, b) && tell_a_change(b, a), "{a}, {b}");
        }
    }

    #[test]
    fn titles_of_runs_are_alike() {
        for (a, b) in [("MTU 1500", "MTU 9000"), ("ext4", "xfs"), ("with noop", "with cfq"), ("before", "after tuning")]
        {
            assert!(are_titles_of_runs(a, b), "{a}, {b}");
        }
        assert!(!are_titles_of_runs("CMD_ABORT (0x10000)", "HOST_BUSY (0x8000)"));
        assert!(!are_titles_of_runs("data-in decoded as sense", "TASK a_scsi"));
    }

    #[test]
    fn hosts_days_and_copies_tell_none() {
        for (a, b) in [
            ("two-hosts-a.txt", "two-hosts-b.txt"),
            ("iostat-web1.txt", "iostat-db2.txt"),
            ("iostat-monday.txt", "iostat-tuesday.txt"),
            ("iostat-2026-11-01.txt", "iostat-2026-11-02.txt"),
            ("1.txt", "2.txt"),
            ("iostat.txt", "iostat.txt"),
            ("one.txt:3", "one.txt:40"),
            ("web-before.txt", "mail-after.txt"),
        ] {
            assert!(!tell_a_change(a, b), "{a}, {b}");
        }
    }
}
