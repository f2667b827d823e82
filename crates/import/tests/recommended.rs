//! What the commands print that the rules recommend can be read: each that exists here is run for a moment, and its output read as somebody
//! would paste it.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Mutex;
use whyslow_import::{Input, read};
use whyslow_testing::{ends_with_test, folder, rule_files};

/// What begins a command that changes something, creates load, or is no capture.
const NO_CAPTURES: [&str; 17] = [
    "whyslow",
    "sudo whyslow",
    "echo",
    "cpupower",
    "fio",
    "taskset -cp {culprit",
    "taskset -acp {proc",
    "ethtool -G",
    "ethtool -s",
    "sysctl dev",
    "sysctl net.ipv4.conf.all.log_martians=1",
    "timeout 5 strace",
    "while",
    "du ",
    "for i in",
    "mysql",
    "psql",
];
/// What a placeholder stands for here, by what stands before it.
const PLACEHOLDERS: [(&str, &str); 13] = [
    ("/proc/{subject.pid}", "/proc/self"),
    ("/sys/block/{subject}", "/sys/block/DISK"),
    ("/sys/fs/cgroup{subject}", "/sys/fs/cgroup"),
    ("grep '^ *{subject}:'", "grep '^ *0:'"),
    ("grep -i {subject}", "grep -i DISK"),
    ("/dev/{subject}", "/dev/DISK"),
    ("/dev/{part.smart}", "/dev/DISK"),
    ("/dev/{disk.smart}", "/dev/DISK"),
    ("{subject.pid}", "1"),
    ("{culprit.pid}", "1"),
    ("{ping.host}", "127.0.0.1"),
    ("{timed.peer}", "127.0.0.1"),
    ("{drop.source}", "127.0.0.1"),
];
/// Programs behind which a subject is a network interface.
const OF_INTERFACES: [&str; 6] = ["ethtool", "tc ", "ip link", "iw ", "grep {subject} /proc/interrupts", "mtr "];
/// How long a command may take, in seconds.
const MOST_SECONDS: &str = "20";
/// Commands that run at once: most of them only wait.
const AT_ONCE: usize = 12;

/// Returns the commands of the rules, each once.
fn recommended() -> Vec<String> {
    let mut commands = BTreeSet::new();
    for file in rule_files() {
        let text = std::fs::read_to_string(file).unwrap();
        let quoted = text.lines().filter_map(|line| line.strip_prefix("try = ").or(line.strip_prefix("command = ")));
        commands.extend(quoted.map(|text| serde_json::from_str::<String>(text).unwrap()));
    }
    commands.into_iter().collect()
}

/// The command as it is run here; `None` if it cannot be.
fn local(command: &str) -> Option<String> {
    if NO_CAPTURES.iter().any(|begin| command.starts_with(begin)) {
        return None;
    }
    let mut text = command.to_owned();
    for (placeholder, value) in PLACEHOLDERS {
        text = text.replace(placeholder, value);
    }
    if OF_INTERFACES.iter().any(|program| command.contains(program)) {
        text = text.replace("{subject}", "lo");
    }
    let disks = std::fs::read_dir("/sys/block").ok()?.filter_map(Result::ok);
    let disk = disks.map(|disk| disk.file_name().to_string_lossy().into_owned()).min()?;
    let text = text.replace("DISK", &disk);
    (!text.contains('{') || text.contains("'{")).then(|| shortened(&text))
}

/// The same for a second or two.
fn shortened(text: &str) -> String {
    let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
    for at in 1..words.len() {
        let is_number = |word: &str| word.trim_end_matches(';').parse::<u32>().is_ok_and(|n| n > 1);
        let end = if words[at].ends_with(';') { ";" } else { "" };
        let before = words[at - 1].clone();
        if before.ends_with("sleep") && is_number(&words[at]) {
            words[at] = format!("1{end}");
        } else if ["1", "-c", "rwc", "-rwc"].contains(&before.as_str()) && is_number(&words[at]) {
            words[at] = format!("2{end}");
        } else if before == "--interval" || before == "timeout" {
            words[at] = format!("1{end}");
        }
    }
    words.join(" ")
}

/// Whether all programs of a command are installed.
fn is_installed(command: &str) -> bool {
    let parts = command.split([';', '|']).map(str::trim).filter(|part| !part.is_empty());
    let programs = parts.filter_map(|part| part.split_whitespace().find(|word| !word.starts_with(['(', '$', '-'])));
    programs.filter(|program| program.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))).all(|program| {
        let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
        found.is_ok_and(|found| found.status.success())
    })
}

#[test]
fn the_output_of_every_recommended_command_can_be_read() {
    let all = recommended();
    assert!(all.len() > 150, "{}", all.len());
    let runnable: Vec<String> = all.iter().filter_map(|command| local(command)).collect();
    let (present, missing): (Vec<String>, Vec<String>) = runnable.into_iter().partition(|text| is_installed(text));
    let queue = Mutex::new(present.iter());
    let refused = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(command) = { queue.lock().unwrap().next() } {
                    // Not into a pipe: perf would write its data there.
                    let folder = folder();
                    let script = format!("{{ {command}\n}} > printed 2>&1 < /dev/null");
                    let mut shell = Command::new("timeout");
                    shell.args([MOST_SECONDS, "bash", "-c", &script]).current_dir(folder.path());
                    ends_with_test(&mut shell).status().unwrap();
                    let printed = std::fs::read(folder.path().join("printed")).unwrap();
                    let printed = String::from_utf8_lossy(&printed);
                    let pasted = format!("root@web1:~# {command}\n{printed}root@web1:~# \n");
                    let input = Input { name: "pasted".into(), reader: Box::new(pasted.as_bytes()) };
                    if let Err(refusal) = read(vec![input], false) {
                        let start: String = printed.lines().take(4).map(|line| format!("    {line}\n")).collect();
                        refused.lock().unwrap().push(format!("{command}\n  {refusal}\n{start}"));
                    }
                }
            });
        }
    });
    let refused = refused.into_inner().unwrap();
    println!(
        "{} of {} recommended commands were run; {} change something or need what this machine does not have, {} are not installed: {missing:?}",
        present.len(),
        all.len(),
        all.len() - present.len() - missing.len(),
        missing.len()
    );
    assert!(refused.is_empty(), "{} are refused:\n{}", refused.len(), refused.join("\n"));
}
