//! Processes the kernel killed for memory, as it logged them (mm/oom_kill.c).

use crate::kernel_log;
use crate::signal::{Entity, signals};
use whyslow_model::diagnosis::Subject;
use whyslow_model::window::Window;

/// One kill, put together from the lines the kernel logs about it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kill {
    pid: u32,
    command: String,
    anon_bytes: Option<f64>,
    in_group: bool,
    group: Option<String>,
}

signals! { k: &Kill;
    "kill.name" "text" "the process killed", "'Killed process PID (NAME)'", "kernel log (mm/oom_kill.c)" => k.command.as_str();
    "kill.anon" "bytes" "anonymous memory it had", "'anon-rss:'", "kernel log" => k.anon_bytes;
    "kill.in_group" "count" "1 where a control group's limit was the cause, 0 where the machine ran out", "'Memory cgroup out of memory'", "kernel log" => k.in_group;
    "kill.group" "text" "the control group whose limit it was", "'oom_memcg='", "kernel log" => k.group.as_deref();
}

/// Every kill logged in the window.
pub fn entities(window: &Window) -> Vec<Entity> {
    kills(kernel_log::lines(window).into_iter().filter_map(|l| l.text.get()))
        .iter()
        .map(|k| {
            Entity::new(Subject { pid: Some(k.pid), ..Subject::new("process", k.command.clone()) }, read(k))
                .within(k.group.clone())
        })
        .collect()
}

/// Finds the kills in a log. The group is named on the `oom-kill:` line that comes before the kill.
pub fn kills<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<Kill> {
    let mut found = Vec::new();
    let mut group = None;
    for line in lines {
        if line.contains("oom-kill:constraint=") {
            group = line.contains("CONSTRAINT_MEMCG").then(|| after(line, "oom_memcg=", ',')).flatten();
        } else if let Some(mut kill) = killed(line) {
            kill.group = group.take();
            kill.in_group |= kill.group.is_some();
            found.push(kill);
        }
    }
    found
}

/// `Memory cgroup out of memory: Killed process 123 (name) total-vm:1kB, anon-rss:2kB, ...`; before 2.6.33 the line
/// read `Out of memory: Killed process 123 (name).`
fn killed(line: &str) -> Option<Kill> {
    let rest = line.split_once("Killed process ")?.1;
    let (pid, rest) = rest.split_once(" (")?;
    let (command, rest) = rest.rsplit_once(')')?;
    let anon = after(rest, "anon-rss:", 'k').and_then(|kib| kib.parse::<f64>().ok());
    Some(Kill {
        pid: pid.trim_end_matches(',').parse().ok()?,
        command: command.to_owned(),
        anon_bytes: anon.map(|kib| kib * 1024.0),
        in_group: line.contains("Memory cgroup out of memory"),
        group: None,
    })
}

fn after(line: &str, word: &str, end: char) -> Option<String> {
    let value = line.split_once(word)?.1;
    Some(value.split(end).next().unwrap_or(value).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kill_in_a_group_names_group_and_process() {
        let log = [
            "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/shop,task_memcg=/shop/a,task=hog,pid=812,uid=0",
            "Memory cgroup out of memory: Killed process 812 (hog (1)) total-vm:104448kB, anon-rss:65536kB, file-rss:1kB, shmem-rss:0kB, UID:0",
        ];
        let found = kills(log.into_iter());
        assert_eq!(
            found,
            [Kill {
                pid: 812,
                command: "hog (1)".into(),
                anon_bytes: Some(65536.0 * 1024.0),
                in_group: true,
                group: Some("/shop".into())
            }]
        );
    }

    #[test]
    fn a_kill_of_the_machine_has_no_group() {
        let log = ["Out of memory: Killed process 4711 (evolution)"];
        assert_eq!(kills(log.into_iter())[0].group, None);
        assert!(!kills(log.into_iter())[0].in_group);
    }
}
