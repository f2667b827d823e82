//! Memory that was needed for a moment.

use std::fs;

/// Gives memory back to the kernel that was needed for a moment: by the loading of BPF programs before the first sample, and by the
/// closing of a segment.
pub(super) fn give_back_memory() {
    give_back_heap();
    give_back_code();
}

/// Some megabytes that the C library would keep for as long as the recorder runs (malloc_trim(3)).
fn give_back_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim takes a number and may be called at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Code that ran once: of what is mapped after the start, a recorder runs a quarter. The rest would stay mapped as long as the
/// kernel has memory to spare; what is needed comes back from the page cache, some hundred faults in all.
fn give_back_code() {
    let (Ok(program), Ok(maps)) = (fs::read_link("/proc/self/exe"), fs::read_to_string("/proc/self/maps")) else {
        return;
    };
    for (start, end) in maps.lines().filter(|line| line.ends_with(&*program.to_string_lossy())).filter_map(code) {
        // SAFETY: the range is code of this program, mapped from its file, private and never writable: what is let go of is read
        // again, as it was, where it is run next (madvise(2), MADV_DONTNEED).
        unsafe { libc::madvise(std::ptr::without_provenance_mut(start), end - start, libc::MADV_DONTNEED) };
    }
}

/// Where a mapping of code begins and ends (proc_pid_maps(5)); `None` for another.
fn code(line: &str) -> Option<(usize, usize)> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    rest.starts_with("r-xp ").then_some((address(start)?, address(end)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_is_code() {
        assert_eq!(
            code("55da31ebf000-55da33186000 r-xp 004d9000 fe:00 9994540 /usr/bin/whyslow"),
            Some((0x55da31ebf000, 0x55da33186000))
        );
        assert_eq!(code("55da33186000-55da33221000 r--p 0179f000 fe:00 9994540 /usr/bin/whyslow"), None);
        assert_eq!(code(""), None);
    }

    #[test]
    fn the_program_goes_on_without_what_it_gave_back() {
        for _ in 0..3 {
            give_back_memory();
        }
        assert!(fs::read_to_string("/proc/self/maps").unwrap().lines().filter_map(code).count() > 0);
    }
}
