//! Prompts of shells, and the machines that they name.

use crate::wrapped_command::SHELLS;

const PROMPT_ENDS: [&str; 6] = ["# ", "$ ", "> ", "% ", "#\t", "$\t"];
const LONGEST_PROMPT: usize = 70;
/// Placeholders for a host name in prompts.
const ANY_HOST: [&str; 6] = ["localhost", "host", "hostname", "server", "machine", "linux"];
/// Length of the host name that Docker gives a container: hexadecimal digits.
const CONTAINER_ID: usize = 12;

/// Returns the host name in a prompt, after the user or before the folder: `[root@web1 ~]# `, `web1:~ # `. Ignores placeholders
/// and the names that Docker gives containers.
pub fn host_at_prompt(line: &str) -> Option<&str> {
    let prompt = split_prompt(line)?.0.trim_end();
    let name = match prompt.split_once('@') {
        Some((_, behind)) => behind.split([':', ' ', ']', ')']).next()?,
        None if is_numbered_name(prompt) => prompt,
        None => {
            let is_folder = |folder: &str| folder.starts_with(['~', '/']) && !folder.starts_with("//");
            prompt.split_once(':').filter(|(_, folder)| is_folder(folder))?.0
        }
    };
    let is_container = name.len() == CONTAINER_ID && name.bytes().all(|b| b.is_ascii_hexdigit());
    let is_name = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    (is_name && !name.is_empty() && !is_container && !ANY_HOST.contains(&name)).then_some(name)
}

/// Returns true if a line is a prompt, with or without a command.
pub fn is_prompt_line(line: &str) -> bool {
    // Without a command, no space needs to follow.
    split_prompt(&format!("{} ", line.trim_end())).is_some()
}

/// Splits a line into the prompt (empty for a shell trace) and the text after it.
pub fn split_prompt(line: &str) -> Option<(&str, &str)> {
    if let Some(traced) = line.strip_prefix("+ ").or_else(|| line.strip_prefix("++ ")) {
        return Some(("", traced));
    }
    PROMPT_ENDS
        .iter()
        .filter_map(|end| Some((end, line.split_once(end)?)))
        .filter(|(end, (prompt, _))| is_prompt(prompt.trim(), end))
        .map(|(_, parts)| parts)
        .min_by_key(|(prompt, _)| prompt.len())
}

/// Returns true if a word before `$` may be a host name, as in `db-3$ `: lower case, with a digit or several parts.
fn is_numbered_name(text: &str) -> bool {
    let is_plain = text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b));
    let is_of_parts = text.bytes().any(|b| b.is_ascii_digit() || b == b'-');
    let ends =
        text.starts_with(|c: char| c.is_ascii_lowercase()) && text.ends_with(|c: char| c.is_ascii_alphanumeric());
    is_plain && is_of_parts && ends && text.len() > 2 && !is_shell_version(text)
}

/// Returns true for `bash-5.1`, the default prompt of a shell.
fn is_shell_version(text: &str) -> bool {
    let version = text.split_once('-').filter(|(shell, _)| SHELLS.contains(shell)).map(|(_, version)| version);
    version.is_some_and(|version| !version.is_empty() && version.bytes().all(|b| b.is_ascii_digit() || b == b'.'))
}

/// Returns true if the text before a prompt sign is a prompt. A lone sign counts unless ordinary text begins with it: `> `
/// quotes a mail, `% ` begins a line of a report.
fn is_prompt(text: &str, end: &str) -> bool {
    if text.is_empty() {
        return end.starts_with(['#', '$']);
    }
    if (end.starts_with('$') && is_numbered_name(text)) || is_shell_version(text) {
        return true;
    }
    // BusyBox shows only the folder: `/ # `.
    let is_folder = |text: &str| text == "~" || text.starts_with('/') || text.starts_with("~/");
    if end.ends_with(' ') && is_folder(text) && !text.contains(char::is_whitespace) && text.len() <= LONGEST_PROMPT {
        return true;
    }
    let short = text.len() <= LONGEST_PROMPT && text.split_whitespace().count() <= 3;
    short && (text.starts_with('[') || text.contains('@') || text.contains(":~") || text.contains(":/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_names_its_machine_behind_a_user() {
        for (line, host) in [
            ("[root@x232 root]# vmstat 2", Some("x232")),
            ("rlrevell@mindpipe:~$ /usr/bin/vmstat 2", Some("mindpipe")),
            ("root@pve-1.example.com ~ # vmstat 2", Some("pve-1.example.com")),
            ("[oracle@ora2]$ vmstat 2", Some("ora2")),
            ("root@3fd1ab2c4d5e:/# vmstat 2", None),
            ("[user@localhost ~]$ vmstat 2", None),
            ("crm-app1:~ # vmstat 2", Some("crm-app1")),
            ("gw:/var/log# vmstat 2", Some("gw")),
            ("db-3$ vmstat 2", Some("db-3")),
            ("cp-1 $ vmstat 2", Some("cp-1")),
            ("bash-5.1# vmstat 2", None),
            ("eth0 # uplink", None),
            ("billing-# from x", None),
            ("https://x/y # note", None),
            ("sum$ vmstat 2", None),
            ("# vmstat 2", None),
            ("sda 0.00 0.20 # 3", None),
        ] {
            assert_eq!(host_at_prompt(line), host, "{line}");
        }
    }
}
