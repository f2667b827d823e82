//! Asks a host about a span of its own recording through the user's own ssh. The remote command only reads.

use crate::span::rfc3339;
use crate::{Failure, Span};
use std::process::{Command, ExitCode, Stdio};
use whyslow_model::catalogue;
use whyslow_model::suggest::unknown;

/// Prints the command, or runs it.
pub(super) fn run(host: &str, span: Span, export: Option<&str>, run: bool) -> Result<ExitCode, Failure> {
    let command = command(host, span, export)?;
    if !run {
        whyslow_command::print(format!("{}\n", shown(&command)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let status = Command::new(&command[0]).args(&command[1..]).stdin(Stdio::null()).status();
    let status = status.map_err(|e| Failure::usage(format!("cannot run ssh: {e}")))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the command and its arguments. The remote shell gets only our own words and times. Refuses a host name that
/// ssh would parse as an option, or as a user or address on another host.
pub(super) fn command(host: &str, span: Span, export: Option<&str>) -> Result<Vec<String>, Failure> {
    let is_name = host.starts_with(|c: char| c.is_ascii_alphanumeric())
        && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    if !is_name {
        return Err(Failure::usage(format!("'{host}' is not a name that can be given to ssh")));
    }
    let there = format!("whyslow {}", question(span, export)?.join(" "));
    Ok(["ssh", "--", host, &there].map(str::to_owned).to_vec())
}

/// Returns the arguments of `whyslow` for a question about a recording.
pub(super) fn question(span: Span, export: Option<&str>) -> Result<Vec<String>, Failure> {
    let what = match export {
        None => vec!["explain"],
        Some(family) => {
            let known = catalogue::families();
            if !known.iter().any(|known| known.is_named(family)) {
                let names = known.iter().map(|known| known.name);
                return Err(Failure::usage(unknown("metric family", family, "whyslow metrics", names)));
            }
            vec!["export", family]
        }
    };
    let (from, to) = (rfc3339(span.from_ms), rfc3339(span.to_ms));
    Ok(what.into_iter().chain(["--from", &from, "--to", &to]).map(str::to_owned).collect())
}

/// Quotes a command for pasting into a shell.
pub(super) fn shown(command: &[String]) -> String {
    shlex::try_join(command.iter().map(String::as_str)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Span = Span { from_ms: 1_764_126_000_000, to_ms: 1_764_127_200_000 };

    #[test]
    fn the_host_is_asked_to_read_only() {
        let command = command("db-17.example", SPAN, Some("disk")).unwrap();
        assert_eq!(
            shown(&command),
            "ssh -- db-17.example 'whyslow export disk --from 2025-11-26T03:00:00Z --to 2025-11-26T03:20:00Z'"
        );
    }

    #[test]
    fn names_that_are_more_than_names_are_refused() {
        for host in ["", "-oProxyCommand=x", "a b", "root@web", "web;reboot", "wéb", "web\n"] {
            assert!(command(host, SPAN, None).is_err(), "{host}");
        }
        assert!(command("web", SPAN, Some("disk; reboot")).is_err());
    }
}
