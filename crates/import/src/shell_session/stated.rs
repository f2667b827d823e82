//! Settings that the text states around its outputs: by a command that sets one, by a title, or by a sentence.

use super::scheduler::Scheduler;
use crate::prompt::split_prompt;
use crate::shell::{self, ShellCommand};
use std::collections::BTreeMap;
use whyslow_model::settings::{SCHEDULER, SettingChange, Settings, TITLE, UNSTATED, changes, names_change};

/// Maximum length of a title and of a value; longer ones are text.
const LONGEST: usize = 80;
/// Maximum number of words in a title without marks.
const MOST_WORDS: usize = 5;
/// Maximum number of settings that are remembered.
const MOST: usize = 64;
/// Marks that people put around titles.
const MARKS: [char; 8] = ['#', '=', '-', '*', '_', '~', '>', ' '];
/// Settings in effect at a line, as far as the text states them.
#[derive(Clone, Debug, Default)]
pub struct StatedSettings {
    /// Values by name, set by commands.
    set: BTreeMap<String, String>,
    title: Option<String>,
    scheduler: Option<Scheduler>,
}

impl StatedSettings {
    /// Reads the line of a command, with or without its prompt.
    pub fn command(&mut self, text: &str, number: u32) {
        self.title = comment(text).map(str::to_owned).or(self.title.take());
        let command = split_prompt(text).map_or(text, |(_, command)| command);
        for part in shell::commands(command) {
            for (name, value) in settings(&shell::command(part)) {
                let is_kept = value.len() <= LONGEST && !value.is_empty();
                if is_kept && (self.set.len() < MOST || self.set.contains_key(&name)) {
                    self.set.insert(name, value);
                }
            }
        }
        self.scheduler = Scheduler::named(text, number).or(self.scheduler.take());
    }

    /// Reads a line that is neither a command nor output. Directly below an output, it may be a part of it.
    pub fn sentence(&mut self, text: &str, number: u32, is_below_output: bool) {
        let title = title(text).filter(|title| !is_below_output || title.split_whitespace().all(names_change));
        self.title = title.map(str::to_owned).or(self.title.take());
        self.command(text, number);
    }

    /// Returns the settings in effect for the output on a line.
    pub fn at(&self, line: u32) -> Settings {
        let scheduler = self.scheduler.as_ref().and_then(|scheduler| scheduler.at(line));
        let mut settings = Settings::default();
        self.set.iter().for_each(|(name, value)| settings.set(name.clone(), Some(value)));
        settings.set(TITLE, self.title.as_deref());
        settings.set(SCHEDULER, scheduler);
        settings
    }
}

/// Returns true if a setting was changed between what is stated at two places of a text.
pub fn is_change(before: &Settings, after: &Settings) -> bool {
    let states_change = |title: &str| title.split_whitespace().any(names_change);
    // What no longer applies, such as the scheduler of another sentence, was not changed.
    let is_setting = |change: &SettingChange<'_>| match change.name {
        TITLE => states_change(change.before) || states_change(change.after),
        _ => change.after != UNSTATED,
    };
    changes(before.by_name(), after.by_name()).iter().any(is_setting)
}

/// Returns the title on a line: `# MTU 9000`, `== with noop ==`, `After the change:`, `before`.
pub fn title(line: &str) -> Option<&str> {
    let line = line.trim();
    let inner = line.trim_matches(MARKS);
    let is_marked = line.starts_with(['#', '=', '*', '>']) || line.starts_with("--") || inner.ends_with(':');
    let title = inner.trim_end_matches(':').trim_end();
    let words = || title.split_whitespace();
    let is_plain = || words().count() <= MOST_WORDS && words().any(names_change) && !title.ends_with(['.', '?', '!']);
    // Prompts and the aligned rows of reports may end with a colon, too.
    let is_row = title.contains('@') || title.contains("  ") || title.contains(", ");
    let is_text = title.len() <= LONGEST && title.contains(char::is_alphabetic) && !is_row;
    (is_text && (is_marked || is_plain())).then_some(title)
}

/// Returns the title in a comment, which looks like a command at root's prompt: `# With noop`.
fn comment(line: &str) -> Option<&str> {
    let inner = line.trim_start().strip_prefix('#')?.trim_start();
    let first = inner.split_whitespace().next()?;
    let is_comment = first.starts_with(char::is_uppercase) || first.starts_with('#') || names_change(first);
    title(line).filter(|_| is_comment)
}

/// Returns the settings that a command sets: names and values.
fn settings(command: &ShellCommand) -> Vec<(String, String)> {
    let words: Vec<&str> = command.words.iter().map(String::as_str).skip_while(|word| *word == "sudo").collect();
    let Some((program, arguments)) = words.split_first() else { return Vec::new() };
    let one = |name: String, value: &str| vec![(name, value.to_owned())];
    match (program.rsplit('/').next().unwrap_or(program), arguments) {
        ("sysctl", _) => {
            let all = arguments.iter().filter_map(|word| word.split_once('='));
            all.map(|(name, value)| (name.trim().replace('/', "."), value.trim().to_owned())).collect()
        }
        ("echo", [values @ .., last]) if !last.starts_with('-') => {
            let values: Vec<&str> = values.iter().chain([last]).copied().filter(|word| *word != "-n").collect();
            let target = command.targets.first().or_else(|| teed(&command.filters));
            target.and_then(|path| of_kernel_file(path)).map_or_else(Vec::new, |name| one(name, &values.join(" ")))
        }
        ("tuned-adm", ["profile", profile @ ..]) => one("tuned profile".to_owned(), &profile.join(" ")),
        ("blockdev", ["--setra", sectors, device]) => one(format!("read-ahead of {device}"), sectors),
        ("cpupower", ["frequency-set", "-g" | "--governor", governor]) => one("governor".to_owned(), governor),
        ("ip", ["link", "set", rest @ ..]) => {
            let rest = rest.strip_prefix(&["dev"]).unwrap_or(rest);
            rest.split_first().map_or_else(Vec::new, |(interface, pairs)| of_interface(interface, pairs))
        }
        ("ifconfig", [interface, pairs @ ..]) => of_interface(interface, pairs),
        ("ethtool", [option, interface, values @ ..]) if !values.is_empty() => ethtool_group(option)
            .map_or_else(Vec::new, |group| one(format!("{group} of {interface}"), &values.join(" "))),
        ("tc", ["qdisc", "add" | "change" | "replace", "dev", interface, rest @ ..]) => {
            one(format!("qdisc of {interface}"), &rest.join(" "))
        }
        ("mount", ["-o", options, .., directory]) => one(format!("mount options of {directory}"), options),
        ("hdparm", [option, device]) if option.starts_with("-W") => {
            one(format!("write cache of {device}"), option.trim_start_matches("-W"))
        }
        (maker, [options @ .., device]) if maker.starts_with("mkfs.") => {
            let words = [&[maker.trim_start_matches("mkfs.")], options].concat();
            one(format!("file system of {device}"), &words.join(" "))
        }
        ("lvcreate" | "mdadm", options) if options.iter().any(|word| makes_volume(word)) => {
            one("volume".to_owned(), &options.join(" "))
        }
        ("systemctl" | "service", [verb @ ("start" | "stop"), service]) => one(format!("service {service}"), verb),
        _ => Vec::new(),
    }
}

fn makes_volume(word: &str) -> bool {
    ["-i", "-I", "--stripes", "--stripesize", "--type", "--create", "-C", "--level", "-l"].contains(&word)
}

/// Returns the file that the output is copied to: `| sudo tee FILE`.
fn teed(filters: &[Vec<String>]) -> Option<&String> {
    filters.iter().find(|filter| filter.iter().any(|word| word == "tee")).and_then(|filter| filter.last())
}

/// Returns the name of a setting by its file: `vm.swappiness`, `nr_requests of sda`. Files that do something once, such as
/// dropping caches, are no settings.
fn of_kernel_file(path: &str) -> Option<String> {
    const ACTIONS: [&str; 4] = ["drop_caches", "compact_memory", "sysrq-trigger", "flush"];
    let last = path.rsplit('/').next()?;
    if ACTIONS.contains(&last) {
        return None;
    }
    if let Some(name) = path.strip_prefix("/proc/sys/") {
        return Some(name.replace('/', "."));
    }
    match path.strip_prefix("/sys/")?.split('/').collect::<Vec<_>>()[..] {
        // Sentences name it without its disk.
        ["block", _, "queue", SCHEDULER] => None,
        ["block", device, "queue", name] | ["class", "net", device, name] => Some(format!("{name} of {device}")),
        _ => Some(path.to_owned()),
    }
}

/// Returns the settings of an interface in `mtu 9000 txqueuelen 1000`.
fn of_interface(interface: &str, pairs: &[&str]) -> Vec<(String, String)> {
    const NAMES: [&str; 2] = ["mtu", "txqueuelen"];
    let known = pairs.windows(2).filter(|pair| NAMES.contains(&pair[0]));
    known.map(|pair| (format!("{} of {interface}", pair[0]), pair[1].to_owned())).collect()
}

/// Returns what an option of ethtool sets.
fn ethtool_group(option: &str) -> Option<&'static str> {
    Some(match option {
        "-C" | "--coalesce" => "coalescing",
        "-G" | "--set-ring" => "rings",
        "-K" | "--features" | "--offload" => "offloads",
        "-L" | "--set-channels" => "queues",
        "-A" | "--pause" => "flow control",
        "-s" | "--change" => "link",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stated(lines: &[&str]) -> String {
        let mut settings = StatedSettings::default();
        (1..).zip(lines).for_each(|(number, line)| settings.sentence(line, number, false));
        settings.at(lines.len() as u32).to_state().get().unwrap_or_default().to_owned()
    }

    #[test]
    fn commands_tell_what_they_set() {
        for (line, settings) in [
            ("sysctl -w net.core.rmem_max=16777216 vm.swappiness=1", "net.core.rmem_max=16777216, vm.swappiness=1"),
            ("echo 1024 > /sys/block/sda/queue/nr_requests", "nr_requests of sda=1024"),
            (
                "echo never | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
                "/sys/kernel/mm/transparent_hugepage/enabled=never",
            ),
            ("echo 10 > /proc/sys/vm/dirty_ratio; sync", "vm.dirty_ratio=10"),
            ("echo 3 > /proc/sys/vm/drop_caches", ""),
            ("echo bfq > /sys/block/sda/queue/scheduler", "scheduler=bfq"),
            ("sudo ip link set dev eth0 mtu 9000", "mtu of eth0=9000"),
            ("ifconfig eth1 mtu 1500 up", "mtu of eth1=1500"),
            ("ethtool -C eth0 rx-usecs 0", "coalescing of eth0=rx-usecs 0"),
            ("ethtool -S eth0", ""),
            ("tuned-adm profile throughput-performance", "tuned profile=throughput-performance"),
            ("mkfs.xfs -l logdev=/dev/sdb1 /dev/sdc1", "file system of /dev/sdc1=xfs -l logdev=/dev/sdb1"),
            ("lvcreate -i 2 -I 16 -L 10G -n lv vg", "volume=-i 2 -I 16 -L 10G -n lv vg"),
            ("ls -l", ""),
        ] {
            assert_eq!(stated(&[line]), settings, "{line}");
        }
    }

    #[test]
    fn a_title_has_marks_or_says_that_something_changes() {
        for (line, expected) in [
            ("# MTU 9000", Some("MTU 9000")),
            ("=== with noop ===", Some("with noop")),
            ("After the change:", Some("After the change")),
            ("**ext4**", Some("ext4")),
            ("before", Some("before")),
            ("It is slow.", None),
            ("the disk is slow", None),
            ("-----------", None),
            ("root@web1:~", None),
            ("Disk stats       (read/write):", None),
        ] {
            assert_eq!(title(line), expected, "{line}");
        }
        assert_eq!(stated(&["MTU 1500:", "and so on", "MTU 9000:"]), "title=MTU 9000");
        for (line, expected) in
            [("# With noop", Some("With noop")), ("# after", Some("after")), ("# systemctl stop tuned", None)]
        {
            assert_eq!(comment(line), expected, "{line}");
        }
    }
}
