//! Who may read a recording does not depend on the umask of the program that records.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn all_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| if path.is_dir() { all_below(&path).into_iter().chain([path]).collect() } else { vec![path] })
        .collect()
}

/// A single test: the umask is that of the whole program.
#[test]
fn files_are_for_the_owner_and_the_group_whatever_the_umask() {
    for umask in [0, 0o022, 0o077] {
        let dir = common::folder();
        // SAFETY: umask takes a number; no other thread creates files meanwhile.
        unsafe { libc::umask(umask) };
        let recording = dir.path().join("recording");
        common::record(&recording, 0..3);
        // As an older version left them.
        let day = recording.join("disk/day=2026-11-21");
        fs::set_permissions(&recording, fs::Permissions::from_mode(0o2777)).unwrap();
        fs::set_permissions(&day, fs::Permissions::from_mode(0o700)).unwrap();
        fs::set_permissions(recording.join("lock"), fs::Permissions::from_mode(0o666)).unwrap();
        let mut recorder = common::recorder(&recording);
        common::add(&mut recorder, common::made(3), std::time::Instant::now());
        common::wait_until_written(&recorder);
        assert_eq!(common::tails(&recording).iter().map(|tail| mode(tail)).collect::<Vec<_>>(), [0o640], "{umask:o}");
        recorder.finish().unwrap();
        drop(recorder);
        assert_eq!(mode(&recording), 0o2750, "{umask:o}");
        for path in all_below(&recording) {
            let expected = if path.is_dir() { 0o750 } else { 0o640 };
            assert_eq!(mode(&path) & 0o777, expected, "{umask:o}: {}", path.display());
        }
        // A folder that is closed to its group stays so.
        fs::set_permissions(&recording, fs::Permissions::from_mode(0o700)).unwrap();
        common::record(&recording, 4..5);
        assert_eq!(mode(&recording), 0o700);
    }
}
