//! Commands inside other commands: `ssh HOST COMMAND`, `docker exec NAME COMMAND`, `sh -c COMMAND`.

use crate::command::base_name;

/// Options of ssh that take a value.
const SSH_VALUES: &str = "BbcDEeFIiJLlmOoPpQRSWw";

/// Splits `ssh -p 2222 root@db9 'vmstat 1 5'` into the machine and the command.
pub fn remote(text: &str) -> Option<(&str, &str)> {
    let mut rest = text.strip_prefix("ssh ")?.trim_start();
    while rest.starts_with('-') {
        let (option, behind) = rest.split_once(char::is_whitespace)?;
        let has_value = option.len() == 2 && option.ends_with(|letter| SSH_VALUES.contains(letter));
        rest = behind.trim_start();
        if has_value {
            rest = rest.split_once(char::is_whitespace)?.1.trim_start();
        }
    }
    let (target, command) = rest.split_once(char::is_whitespace)?;
    let host = target.rsplit_once('@').map_or(target, |(_, host)| host);
    let command = command.trim().trim_start_matches(['\'', '"']).trim_end_matches(['\'', '"']);
    (!host.is_empty() && !command.is_empty()).then_some((host, command))
}

pub const SHELLS: [&str; 4] = ["sh", "bash", "ash", "zsh"];
/// Programs that run a command in a container: `docker exec NAME COMMAND`.
const CONTAINER_PROGRAMS: [&str; 6] = ["kubectl", "oc", "docker", "podman", "nerdctl", "crictl"];
/// Options of these programs that take a value.
const CONTAINER_VALUES: [&str; 11] =
    ["-n", "--namespace", "-c", "--container", "--context", "-u", "--user", "-w", "--workdir", "-e", "--env"];

/// Returns the container, if any, and the command without `docker exec` or `sh -c` around it: the quoted text of `kubectl -n
/// shop exec -it deploy/api -- sh -c 'cat a; sleep 9; cat a'`.
pub fn unwrapped(text: &str) -> (Option<&str>, &str) {
    let (container, command) = contained(text).map_or((None, text), |(container, command)| (Some(container), command));
    (container, script(command.strip_prefix("sudo ").unwrap_or(command)).unwrap_or(command))
}

/// Returns the script passed to a shell: the quoted text of `bash -c "date; free"`.
fn script(text: &str) -> Option<&str> {
    let script = SHELLS.iter().find_map(|shell| text.strip_prefix(&format!("{shell} -c ")[..]))?.trim();
    let quote = script.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    script.strip_prefix(quote)?.strip_suffix(quote).filter(|inner| !inner.contains(quote))
}

fn contained(text: &str) -> Option<(&str, &str)> {
    let next = |text: &mut &'_ str| -> Option<String> {
        let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let word = Some(word.to_owned()).filter(|word| !word.is_empty());
        *text = rest.trim_start();
        word
    };
    let mut rest = text.strip_prefix("sudo ").unwrap_or(text);
    let program = next(&mut rest)?;
    if !CONTAINER_PROGRAMS.contains(&base_name(&program)) {
        return None;
    }
    let (mut is_exec, mut name) = (false, None);
    while let (None, false) = (name, rest.is_empty()) {
        let begin = rest;
        let word = next(&mut rest)?;
        if CONTAINER_VALUES.contains(&word.as_str()) {
            next(&mut rest)?;
        } else if word == "exec" {
            is_exec = true;
        } else if !word.starts_with('-') && is_exec {
            name = Some(&begin[..word.len()]);
        } else if !word.starts_with('-') {
            return None;
        }
    }
    let name = name?.rsplit('/').next()?;
    let is_name = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    // `-c CONTAINER --`
    while rest.starts_with('-') {
        let word = next(&mut rest)?;
        if CONTAINER_VALUES.contains(&word.as_str()) {
            next(&mut rest)?;
        }
    }
    let script = SHELLS.iter().find_map(|shell| rest.strip_prefix(&format!("{shell} -c ")[..]));
    let command = script.map_or(rest, |script| script.trim().trim_matches(['\'', '"']));
    (is_name && !name.is_empty() && !command.is_empty()).then_some((name, command))
}
