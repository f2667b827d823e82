//! Tests of a journal without space: nothing is changed or everything, and the changes can be undone.

use crate::cage::{changes, in_cage, tool, values, wanted};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;

/// More than the length of a journal with one transaction.
const ENOUGH: u64 = 2000;

#[test]
fn at_any_length_of_the_journal_it_is_all_or_nothing() {
    in_cage(|cage| {
        let before = values();
        let (mut refused, mut made) = (0, 0);
        for room in (0..ENOUGH).step_by(67) {
            let mut command = cage.whyslow(&["set", "--no-confirm"]);
            // SAFETY: only system calls are made between fork and exec. Writes beyond the limit fail with EFBIG once
            // SIGXFSZ is ignored.
            unsafe {
                command.args(changes()).pre_exec(move || {
                    libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
                    let limit = libc::rlimit { rlim_cur: room, rlim_max: room };
                    if libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) == 0 {
                        Ok(())
                    } else {
                        Err(std::io::Error::last_os_error())
                    }
                });
            }
            let out = command.output().unwrap();
            if out.status.success() {
                made += 1;
                assert_eq!(values(), wanted(), "{room}");
                cage.expect(0, &["undo", "--all"]);
            } else {
                refused += 1;
                assert_eq!(values(), before, "{room}: {}", String::from_utf8_lossy(&out.stderr));
            }
            // A run without a limit must handle the remaining journal.
            cage.expect(0, &["recover"]);
            assert_eq!(values(), before, "{room}");
            fs::remove_file(cage.path("tune/journal.jsonl")).ok();
        }
        assert!(refused > 5 && made > 2, "{refused} {made}");
    });
}

#[test]
fn a_full_file_system_keeps_nobody_from_undoing() {
    in_cage(|cage| {
        let before = values();
        let state = cage.path("tune");
        fs::create_dir_all(&state).unwrap();
        tool("mount", &["-t", "tmpfs", "-o", "size=64k,mode=700", "wsl-tune-full", state.to_str().unwrap()]);
        fs::write(state.join("lock"), "").unwrap();
        fill(&state);
        let args = changes();
        let args: Vec<&str> = ["set", "--no-confirm"].into_iter().chain(args.iter().map(String::as_str)).collect();
        let out = cage.expect(2, &args);
        assert!(out.contains("No space left"), "{out}");
        assert_eq!(values(), before);
        fs::remove_file(state.join("filler")).unwrap();
        cage.expect(0, &args);
        fill(&state);
        cage.expect(0, &["undo"]);
        assert_eq!(values(), before);
        tool("umount", &[state.to_str().unwrap()]);
    });
}

/// Fills all free space.
fn fill(folder: &Path) {
    use std::io::Write;
    let mut file = fs::File::create(folder.join("filler")).unwrap();
    while file.write(&[0; 512]).is_ok_and(|written| written > 0) {}
    // The last page of the journal may have room for some more lines: fill that too.
    if let Ok(mut journal) = fs::OpenOptions::new().append(true).open(folder.join("journal.jsonl")) {
        while journal.write(b" ").is_ok_and(|written| written > 0) {}
    }
}
