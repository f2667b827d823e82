//! Errors of BPF objects, as a blind spot reports them.

use crate::source_error::SourceError;
use std::error::Error;
use std::io;

pub(super) fn missing(object: &str, what: &str) -> SourceError {
    SourceError::Failed(format!("BPF {object}: has no {what}"))
}

pub(super) fn failed(object: &str, error: &(dyn Error + 'static)) -> SourceError {
    SourceError::Failed(format!("BPF {object}: {}", causes(error)))
}

/// Why an object could not be loaded.
pub(super) fn refused(object: &str, error: &(dyn Error + 'static)) -> SourceError {
    let why = causes(error);
    if system_error(error) == Some(libc::EPERM) {
        let why =
            format!("BPF {object}: refused despite the capabilities, for example by a container's seccomp profile");
        return SourceError::NotPermitted { why, remedy: "run on the host, outside of any container".into() };
    }
    // This kernel lacks a tracepoint, structure or field that the object uses.
    if ["unknown type", "no BTF type", "relocation", "relocating"].iter().any(|sign| why.contains(sign)) {
        return SourceError::Absent(format!("BPF {object}: not supported by this kernel ({why})"));
    }
    SourceError::Failed(format!("BPF {object}: {why}"))
}

/// The errno at the root of an error.
fn system_error(error: &(dyn Error + 'static)) -> Option<i32> {
    chain(error).find_map(|e| e.downcast_ref::<io::Error>()?.raw_os_error())
}

/// An error and its causes in one line; of a verifier log, the first and the last line.
pub(super) fn causes(error: &(dyn Error + 'static)) -> String {
    const LONGEST: usize = 300;
    let mut words: Vec<String> = Vec::new();
    for e in chain(error) {
        let text = e.to_string();
        if !words.last().is_some_and(|last| last.contains(&text)) {
            words.push(text);
        }
    }
    let text = words.join(": ");
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("processed "));
    let first = lines.next().unwrap_or_default().to_owned();
    let line = lines.next_back().map_or(first.clone(), |last| format!("{first} … {last}"));
    line.chars().take(LONGEST).collect()
}

fn chain<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    let mut next = Some(error);
    std::iter::from_fn(move || {
        let error = next?;
        next = error.source();
        Some(error)
    })
}
