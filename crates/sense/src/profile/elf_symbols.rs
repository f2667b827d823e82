//! Functions in ELF files by file offset: from debug information, which includes inlined functions, otherwise from the symbol
//! table. blazesym reads both.

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Sym, Symbolized, Symbolizer};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Function {
    /// Demangled.
    pub(super) name: String,
    /// Whether it was inlined into the function before it.
    pub(super) inlined: bool,
}

/// Returns the functions at each of the offsets in a file, outermost first; `None` on a timeout.
///
/// The file is untrusted and may contain anything. It is read in a separate thread, so that a debug file that takes forever does
/// not block the profile.
pub(super) fn of_file(file: &File, offsets: &[u64], timeout: Duration) -> Option<Vec<Vec<Function>>> {
    let file = file.try_clone().ok()?;
    let offsets = offsets.to_vec();
    with_timeout(timeout, move || read(&file, &offsets))
}

fn with_timeout<T: Send + 'static>(timeout: Duration, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (answer, answered) = mpsc::sync_channel(1);
    // Sending fails after the timeout.
    let run = move || drop(answer.send(work()));
    thread::Builder::new().name("symbols".into()).spawn(run).ok()?;
    answered.recv_timeout(timeout).ok()
}

fn read(file: &File, offsets: &[u64]) -> Vec<Vec<Function>> {
    // Damaged debug information can make blazesym panic; the symbol table may still be readable.
    let attempt = |debug| catch_unwind(AssertUnwindSafe(|| lookup(file, offsets, debug))).ok().flatten();
    attempt(true).or_else(|| attempt(false)).unwrap_or_else(|| vec![Vec::new(); offsets.len()])
}

fn lookup(file: &File, offsets: &[u64], debug_information: bool) -> Option<Vec<Vec<Function>>> {
    // Opened through its descriptor: the file may be deleted, or its path not reachable for us.
    let mut elf = Elf::new(format!("/proc/self/fd/{}", file.as_raw_fd()));
    elf.debug_syms = debug_information;
    let symbolizer = Symbolizer::builder().enable_auto_reload(false).build();
    let found = symbolizer.symbolize(&Source::Elf(elf), Input::FileOffset(offsets)).ok()?;
    Some(found.iter().map(functions).collect())
}

fn functions(found: &Symbolized<'_>) -> Vec<Function> {
    let Symbolized::Sym(Sym { name, inlined, .. }) = found else { return Vec::new() };
    let outer = Function { name: demangled(name), inlined: false };
    let inner = inlined.iter().map(|function| Function { name: demangled(&function.name), inlined: true });
    std::iter::once(outer).chain(inner).collect()
}

/// Demangles a C++ or Rust name. Leaves other names unchanged: to demanglers the C function `b` is the type `bool`.
fn demangled(name: &str) -> String {
    let by_rust = || rustc_demangle::try_demangle(name).ok().map(|name| format!("{name:#}"));
    let by_cpp = || cpp_demangle::Symbol::new(name).ok()?.demangle().ok();
    let mangled = ["_Z", "_R"].iter().any(|prefix| name.starts_with(prefix));
    mangled.then(|| by_rust().or_else(by_cpp)).flatten().unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const TIMEOUT: Duration = Duration::from_secs(60);

    #[test]
    fn only_mangled_names_are_demangled() {
        assert_eq!(demangled("_ZN3std2io4Read4read17h0123456789abcdefE"), "std::io::Read::read");
        assert_eq!(
            demangled("_ZNSt6vectorIiSaIiEE9push_backERKi"),
            "std::vector<int, std::allocator<int> >::push_back(int const&)"
        );
        assert_eq!(demangled("_RNvC6_123foo3bar"), "123foo::bar");
        for plain in ["b", "f", "main", "_start", "_Zed", ""] {
            assert_eq!(demangled(plain), plain);
        }
    }

    #[test]
    fn a_file_other_than_elf_has_no_functions() {
        let mut file = tempfile::tempfile().unwrap();
        for bytes in [&b""[..], b"\x7fELF", b"#!/bin/sh\n"] {
            file.set_len(0).unwrap();
            file.write_all(bytes).unwrap();
            assert_eq!(of_file(&file, &[0, 4096], TIMEOUT), Some(vec![Vec::new(), Vec::new()]));
        }
    }

    #[test]
    fn a_damaged_file_neither_panics_nor_hangs() {
        let whole = std::fs::read("/bin/true").unwrap();
        for step in 1..40 {
            let mut bytes = whole[..whole.len() * step / 40].to_vec();
            for place in (step * 8..bytes.len()).step_by(97 * step) {
                bytes[place] ^= 0x55;
            }
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&bytes).unwrap();
            let functions = of_file(&file, &[0, 0x1000, 0x2345, u64::MAX], TIMEOUT).expect("neither panic nor hang");
            assert_eq!(functions.len(), 4);
        }
    }

    #[test]
    fn a_timeout_ends_the_lookup() {
        let (release, released) = mpsc::channel::<()>();
        assert_eq!(with_timeout(Duration::from_millis(10), move || released.recv().is_ok()), None);
        drop(release);
    }
}
