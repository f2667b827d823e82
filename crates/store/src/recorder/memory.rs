//! Memory that was needed for a moment.

/// Gives freed memory back to the kernel. Closing a segment, and the loading of BPF programs before the first sample, need
/// some megabytes for a moment; the C library would keep them for as long as the recorder runs (malloc_trim(3)).
pub(super) fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim takes a number and may be called at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}
