//! Shell patterns, as fnmatch(3) has them.

use std::ffi::CString;

/// Whether a name is what a pattern means. Nothing matches what holds a zero byte.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let (Ok(pattern), Ok(name)) = (CString::new(pattern), CString::new(name)) else { return false };
    // SAFETY: both strings end with a zero and outlive the call.
    unsafe { libc::fnmatch(pattern.as_ptr(), name.as_ptr(), 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match() {
        assert!(matches("sd*", "sda") && matches("*", "") && matches("nvme?n[!2]", "nvme0n1"));
        assert!(!matches("sd*", "vda") && !matches("a\0", "a"));
    }
}
