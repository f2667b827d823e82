//! How the C library's allocator is to behave.

/// Has large blocks given back to the kernel as soon as they are freed.
///
/// glibc raises the size from which it does so up to 32 MiB, to whatever was freed last (mallopt(3), M_MMAP_THRESHOLD). The
/// kernel's type information, parsed once and dropped, then leaves 14 MB behind; this holds the threshold where it begins.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt(3) takes two numbers, and no other thread runs yet.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 128 * 1024);
    }
}

/// Has large blocks kept for the next that are as large, from here on: looking through a day allocates columns of some hundred
/// kilobytes again and again, and a sample of a thousand processes the rows that the one before had. To have each mapped anew
/// takes a fifth of the time of the one, and an eighth of the other's.
pub fn keep() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt(3) takes two numbers; the allocator's own lock keeps other threads out.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 16 << 20);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 64 << 20);
    }
}
