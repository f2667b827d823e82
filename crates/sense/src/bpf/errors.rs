//! Reasons why BPF cannot be used, as blind spots report them: missing prerequisites, checked before anything is loaded
//! (capabilities(7), kernel_lockdown(7)), and errors of loading and reading.

use crate::root::{Root, status_field};
use crate::source_error::SourceError;
use std::error::Error;
use std::io;

/// CAP_SYS_ADMIN, which includes the other two, CAP_PERFMON and CAP_BPF of include/uapi/linux/capability.h.
const SYS_ADMIN: u64 = 1 << 21;
const PERFMON: u64 = 1 << 38;
const BPF: u64 = 1 << 39;

/// BTF of the running kernel (Documentation/bpf/btf.rst).
pub(super) const TYPES: &str = "sys/kernel/btf/vmlinux";

/// Messages of older kernels' verifiers about a program, and the feature that such a kernel lacks.
const OLDER_KERNELS: &[(&str, &str)] = &[
    ("uses reserved fields", "atomic operations that return the old value (added in Linux 5.12)"),
    ("invalid func unknown", "a function that the program calls"),
    ("invalid bpf_context access", "an argument of the tracepoint"),
];

/// Checks the prerequisites before anything is loaded: without BTF, programs would load and read nonsense. Returns the first one
/// that is missing, with its remedy.
pub(crate) fn check(root: &Root) -> Result<(), SourceError> {
    root.require_bpf()?;
    if !root.at(TYPES).exists() {
        return Err(SourceError::Absent(format!(
            "BPF: this kernel has no BTF (no /{TYPES}; needs CONFIG_DEBUG_INFO_BTF=y)"
        )));
    }
    privileged(&root.text("proc/self/status")?)?;
    unlocked(&root.maybe("sys/kernel/security/lockdown").unwrap_or_default())
}

/// Checks that the process of this status file may load and attach tracing programs.
fn privileged(status: &str) -> Result<(), SourceError> {
    let held = status_field(status, "CapEff")
        .and_then(|hex| u64::from_str_radix(hex, 16).ok())
        .ok_or_else(|| SourceError::malformed("proc/self/status", "CapEff"))?;
    if held & SYS_ADMIN != 0 || held & (BPF | PERFMON) == BPF | PERFMON {
        return Ok(());
    }
    Err(SourceError::NotPermitted {
        why: "BPF needs CAP_BPF and CAP_PERFMON".into(),
        remedy: "run as root, or run once: setcap cap_bpf,cap_perfmon=ep on the program".into(),
    })
}

/// Checks that programs may read kernel memory, which lockdown for confidentiality forbids.
fn unlocked(lockdown: &str) -> Result<(), SourceError> {
    if !lockdown.contains("[confidentiality]") {
        return Ok(());
    }
    Err(SourceError::NotPermitted {
        why: "BPF: the kernel is locked down and does not allow reading its memory".into(),
        remedy: "boot without lockdown=confidentiality".into(),
    })
}

pub(super) fn missing(object: &str, what: &str) -> SourceError {
    SourceError::Failed(format!("BPF {object}: has no {what}"))
}

pub(super) fn failed(object: &str, error: &(dyn Error + 'static)) -> SourceError {
    SourceError::Failed(format!("BPF {object}: {}", causes(error)))
}

/// Returns the reason why an object could not be loaded.
pub(super) fn refused(object: &str, error: &(dyn Error + 'static)) -> SourceError {
    let why = causes(error);
    if system_error(error) == Some(libc::EPERM) {
        let why =
            format!("BPF {object}: refused despite the capabilities, for example by a container's seccomp profile");
        return SourceError::NotPermitted { why, remedy: "run on the host, outside of any container".into() };
    }
    if let Some(tracepoint) = missing_tracepoint(&why) {
        return SourceError::Absent(format!(
            "BPF {object}: not supported by this kernel, which has no tracepoint {tracepoint}"
        ));
    }
    // This kernel lacks a structure or field that the object uses.
    if ["unknown type", "no BTF type", "relocation", "relocating"].iter().any(|sign| why.contains(sign)) {
        return SourceError::Absent(format!("BPF {object}: not supported by this kernel ({why})"));
    }
    if let Some((_, lacks)) = OLDER_KERNELS.iter().find(|(sign, _)| why.contains(sign)) {
        return SourceError::Absent(format!("BPF {object}: not supported by this kernel, which lacks {lacks}"));
    }
    SourceError::Failed(format!("BPF {object}: {why}"))
}

/// Returns the tracepoint that the kernel lacks: it has no type for the arguments, which aya looks up as `btf_trace_NAME`.
fn missing_tracepoint(why: &str) -> Option<&str> {
    let name = why.split_once("unknown BTF type `btf_trace_")?.1;
    Some(name.split_once('`')?.0)
}

/// Returns the errno at the root of an error.
fn system_error(error: &(dyn Error + 'static)) -> Option<i32> {
    chain(error).find_map(|e| e.downcast_ref::<io::Error>()?.raw_os_error())
}

/// Formats an error and its causes in one line; shortens a verifier log to its first and last line.
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
    // The verifier appends statistics to its log.
    let is_statistics =
        |line: &str| ["processed ", "stack depth ", "verification time "].iter().any(|s| line.starts_with(s));
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !is_statistics(line));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn why(miss: Result<(), SourceError>) -> String {
        match miss {
            Err(SourceError::NotPermitted { why, .. }) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn root_or_the_two_capabilities_suffice() {
        let status = |held: u64| format!("Name:\tx\nCapEff:\t{held:016x}\n");
        assert_eq!(privileged(&status(u64::MAX >> 24)), Ok(()));
        assert_eq!(privileged(&status(BPF | PERFMON)), Ok(()));
        assert_eq!(why(privileged(&status(BPF))), "BPF needs CAP_BPF and CAP_PERFMON");
        assert_eq!(why(privileged(&status(0))), "BPF needs CAP_BPF and CAP_PERFMON");
        assert!(matches!(privileged("CapEff:\tnonsense\n"), Err(SourceError::Failed(_))));
    }

    #[test]
    fn what_an_older_verifier_refuses_is_not_supported_by_its_kernel() {
        // The messages of Debian 11, Linux 5.10.
        for (log, lacks) in [
            ("BPF_STX uses reserved fields\nprocessed 0 insns (limit 1000000)", "atomic operations"),
            (
                "arg#0 type is not a struct\n32: (79) r1 = *(u64 *)(r7 +16)\ninvalid bpf_context access off=16 size=8",
                "an argument",
            ),
            ("5: (85) call unknown#158\ninvalid func unknown#158", "a function"),
            ("unknown BTF type `btf_trace_mm_filemap_fault`", "no tracepoint mm_filemap_fault"),
        ] {
            match refused("block", &io::Error::other(log)) {
                SourceError::Absent(why) => assert!(why.contains(lacks), "{why}"),
                other => panic!("{other:?}"),
            }
        }
        assert!(matches!(refused("block", &io::Error::other("BPF program is too large")), SourceError::Failed(_)));
    }

    #[test]
    fn lockdown_for_integrity_allows_reading() {
        assert_eq!(unlocked(""), Ok(()));
        assert_eq!(unlocked("none [integrity] confidentiality\n"), Ok(()));
        assert!(why(unlocked("none integrity [confidentiality]\n")).contains("locked down"));
    }

    #[test]
    fn a_captured_tree_is_absent_and_no_bpf_not_permitted() {
        let tree = whyslow_testing::folder();
        let captured = Root::captured(tree.path());
        assert!(matches!(check(&captured), Err(SourceError::Absent(_))), "a captured tree has no kernel");
        let off = Root::live().without_bpf();
        assert_eq!(why(check(&off)), "BPF is switched off (--no-bpf)");
    }
}
