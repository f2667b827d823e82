//! Command line at a prompt: its interval and options decide how the output is read.

use crate::prompt::split_prompt;
use crate::shell::{self, ShellCommand};
use crate::wrapped_command::{SHELLS, remote, unwrapped};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    command: ShellCommand,
    /// Machine on which ssh ran the command.
    remote: Option<String>,
    /// Container or pod in which docker, kubectl or a similar program ran the command.
    container: Option<String>,
    /// Whether a shell loop ran the command, possibly more than once.
    is_looped: bool,
    /// Whether the line holds other commands as well.
    is_beside: bool,
}

/// Commands that may precede the relevant command on the same line.
const INCIDENTAL: [&str; 5] = ["date", "echo", "clear", "cd", "export"];
/// Programs that select lines by a pattern.
const GREPS: [&str; 3] = ["grep", "egrep", "fgrep"];
/// Options that make these programs print something other than lines: names, numbers, counts, parts.
const NO_LINES: &str = "HnbcorRlLqhZ";
/// Keywords that begin a shell loop, whose commands follow `do`.
const LOOPS: [&str; 3] = ["for", "while", "until"];
/// Maximum number of words in a command without a prompt: longer lines are sentences.
const MOST_WORDS: usize = 8;

impl CommandLine {
    /// Parses the command on a line with a prompt: `$ vmstat 1`, `[root@x ~]# vmstat 1`, `x:~ # vmstat 1`; or in a shell trace:
    /// `+ vmstat 1`.
    pub fn at_prompt(line: &str) -> Option<Self> {
        Self::parse(split_prompt(line)?.1)
    }

    /// Returns all commands on a line, with or without a prompt, and the position of the first command in a shell loop, which
    /// extends to the last command.
    pub fn each(line: &str) -> (Vec<Self>, Option<usize>) {
        let text = split_prompt(line).map_or(line, |(_, command)| command).trim_start();
        let (container, text) = unwrapped(remote(text).map_or(text, |(_, command)| command));
        let (mut commands, mut looped) = (Vec::new(), None);
        for part in shell::commands(text) {
            let (own, part) = unwrapped(part);
            let part = part.trim_start();
            let is_loop = LOOPS.contains(&first_word(part)) && text.contains("do ");
            if is_loop {
                looped = looped.or(Some(commands.len()));
            }
            // The values that a `for` loop iterates over are not commands; the condition of a `while` loop is one: `while sleep
            // 5`.
            let part = match first_word(part) {
                "for" if is_loop => continue,
                word if is_loop || word == "do" => part[word.len()..].trim_start(),
                _ => part,
            };
            if !["", "done"].contains(&first_word(part)) {
                let container = own.or(container).map(str::to_owned);
                let command = shell::command(part);
                commands.push(Self { command, remote: None, container, is_looped: false, is_beside: false });
            }
        }
        (commands, looped)
    }

    /// Returns the seconds that a line waits between its outputs, if all its pauses are known and equal: `nstat -az; sleep 10;
    /// nstat -az`.
    pub fn pause(line: &str) -> Option<f64> {
        let (commands, _) = Self::each(line);
        let mut pauses = commands.iter().filter(|command| command.program() == "sleep").map(Self::interval);
        let first = pauses.next()??;
        pauses.all(|pause| pause == Some(first)).then_some(first)
    }

    /// Returns true if one of the commands on a line counts the CPUs (`nproc` or an equivalent) and no other command can print
    /// a number on a line by itself.
    pub fn counts_cpus(line: &str) -> bool {
        const NUMBERLESS: [&str; 14] = [
            "cd",
            "date",
            "df",
            "dmidecode",
            "free",
            "hostname",
            "hostnamectl",
            "lscpu",
            "lsb_release",
            "swapon",
            "uname",
            "uptime",
            "w",
            "who",
        ];
        let (commands, looped) = Self::each(line);
        let (counts, others): (Vec<_>, Vec<_>) = commands.iter().partition(|command| command.prints_cpus());
        let is_of_etc =
            |command: &Self| command.program() == "cat" && command.operands().all(|of| of.starts_with("/etc/"));
        let is_numberless = |command: &&Self| NUMBERLESS.contains(&command.program()) || is_of_etc(command);
        looped.is_none() && counts.len() == 1 && commands.iter().all(Self::is_plain) && others.iter().all(is_numberless)
    }

    /// Returns true for `nproc`, `grep -c ^processor /proc/cpuinfo` and `getconf _NPROCESSORS_ONLN`.
    fn prints_cpus(&self) -> bool {
        let mut operands = self.operands();
        match self.program() {
            "nproc" => true,
            "grep" | "egrep" => {
                let is_pattern = |word: &str| word.trim_start_matches('^').starts_with("processor");
                self.has('c') && operands.next().is_some_and(is_pattern) && operands.eq(["/proc/cpuinfo"])
            }
            "getconf" => operands.next().is_some_and(|name| name.starts_with("_NPROCESSORS_")),
            _ => false,
        }
    }

    /// Parses a command without a prompt, if `is_program` accepts its program.
    pub fn bare(line: &str, is_program: impl Fn(&str) -> bool) -> Option<Self> {
        // Checked first, since every line is tested.
        let mut words = line.split_whitespace();
        if !words.by_ref().take(3).any(|word| is_program(base_name(word))) || words.count() > MOST_WORDS {
            return None;
        }
        Self::parse(line).filter(|c| is_program(c.program()) && c.command.words.len() <= MOST_WORDS)
    }

    /// Parses the command that sosreport and similar tools encode in a file name: `ethtool_-S_eth0`.
    pub fn in_file_name(file: &str, is_program: impl Fn(&str) -> bool) -> Option<Self> {
        let name = file.rsplit('/').next().unwrap_or(file).split(".txt").next()?;
        name.contains("_-").then(|| Self::bare(&name.replace('_', " "), is_program)).flatten()
    }

    /// Parses the command of a line whose output matters: the second one of `date; netstat -s`.
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim_start();
        let (host, text) = remote(text).map_or((None, text), |(host, command)| (Some(host), command));
        let (container, text) = unwrapped(text);
        let is_looped = LOOPS.contains(&first_word(text)) && text.contains("do ");
        let is_incidental = |part: &&str| {
            let word = first_word(part);
            word.is_empty() || INCIDENTAL.contains(&word) || (is_looped && LOOPS.contains(&word))
        };
        let parts = shell::commands(text);
        let mut body = parts.iter().map(|part| match part.strip_prefix("do ") {
            Some(rest) if is_looped => rest.trim_start(),
            _ => part,
        });
        let start = body.find(|part| !is_incidental(part)).unwrap_or(text);
        let (host, start) = remote(start).map_or((host, start), |(host, command)| (Some(host), command));
        let (own, start) = unwrapped(start);
        let container = own.or(container).map(str::to_owned);
        let word = start.starts_with(|c: char| c.is_ascii_alphabetic() || c == '.' || c == '/');
        let is_beside = parts.len() > 1;
        let remote = host.map(str::to_owned);
        word.then(|| Self { command: shell::command(start), remote, container, is_looped, is_beside })
    }

    /// Returns the machine on which ssh ran the command.
    pub fn remote_host(&self) -> Option<&str> {
        self.remote.as_deref()
    }

    /// Returns the container or pod in which the command ran.
    pub fn container(&self) -> Option<&str> {
        self.container.as_deref()
    }

    /// Returns the command as it was typed, without quotes and shortened.
    pub fn shown(&self) -> String {
        const LONGEST: usize = 80;
        let filters = self.command.filters.iter().map(|filter| format!(" | {}", filter.join(" ")));
        let text = self.command.words.join(" ") + &filters.collect::<String>();
        match text.char_indices().nth(LONGEST) {
            Some((end, _)) => format!("{} ...", &text[..end]),
            None => text,
        }
    }

    /// Returns true if the command starts a shell for the commands that follow.
    pub fn is_shell(&self) -> bool {
        self.command.words.len() == 1 && SHELLS.contains(&self.program())
    }

    /// Returns the program's name, without its directory.
    pub fn program(&self) -> &str {
        let wrapper = |w: &&String| matches!(w.as_str(), "sudo" | "time") || w.starts_with('-') || w.contains('=');
        base_name(self.command.words.iter().find(|w| !wrapper(w)).map_or("", |w| w))
    }

    /// Returns the arguments up to a pipe: `-S` and `eth0` for `-S eth0|grep x`.
    pub fn arguments(&self) -> impl Iterator<Item = &str> {
        self.command.words.iter().map(String::as_str).skip(1)
    }

    /// Returns the variables that the command sets, if it does nothing else: `CG=/sys/fs/cgroup/app`.
    pub fn assignments(&self) -> impl Iterator<Item = (&str, &str)> {
        let all: Option<Vec<_>> = self.command.words.iter().map(|word| word.split_once('=')).collect();
        all.unwrap_or_default().into_iter()
    }

    /// Returns true if the output is discarded.
    pub fn is_silent(&self) -> bool {
        self.command.targets.iter().any(|target| target == "/dev/null")
    }

    /// Returns true if the output is the command's alone: it is not piped, redirected, or mixed with that of other commands.
    pub fn is_plain(&self) -> bool {
        self.is_alone() && self.command.filters.is_empty()
    }

    /// Returns true if the output is the command's alone, except for lines that grep, head or tail dropped.
    pub fn is_filtered(&self) -> bool {
        self.is_alone() && self.command.filters.iter().all(|filter| only_drops_lines(filter))
    }

    /// Returns true if the command only prints lines of files that it selects by a pattern.
    pub fn is_selection(&self) -> bool {
        let words = &self.command.words;
        let start = words.iter().position(|word| base_name(word) == self.program());
        start.is_some_and(|start| GREPS.contains(&self.program()) && only_drops_lines(&words[start..]))
    }

    /// Returns true for grep and its variants.
    pub fn is_grep(&self) -> bool {
        GREPS.contains(&self.program())
    }

    /// Returns true if the output is piped through programs that transform it: `| sort | uniq -c`, `| wc -l`.
    pub fn is_summed_up(&self) -> bool {
        const SUMMARIES: [&str; 6] = ["uniq", "wc", "cut", "awk", "sed", "sort"];
        self.command.filters.iter().flatten().any(|word| SUMMARIES.contains(&base_name(word)))
    }

    /// Returns true if the beginning of the output was cut off: `| tail -n 5`, `| sed 1,7d`, `| awk 'NR > 7'`.
    pub fn cuts_beginning(&self) -> bool {
        let cuts = |filter: &Vec<String>| {
            let Some((program, arguments)) = filter.split_first() else { return false };
            match base_name(program) {
                "tail" => !arguments.iter().any(|word| word.ends_with("+1")),
                "sed" => arguments.iter().any(|word| word.starts_with("1,") && word.ends_with('d')),
                "awk" | "gawk" | "mawk" => arguments.iter().any(|word| word.replace(' ', "").starts_with("NR>")),
                _ => false,
            }
        };
        self.command.filters.iter().any(cuts)
    }

    fn is_alone(&self) -> bool {
        !self.is_looped && !self.is_beside && self.command.targets.is_empty() && !self.command.has_substitution
    }

    /// Returns the arguments that are not options.
    pub fn operands(&self) -> impl Iterator<Item = &str> {
        self.arguments().filter(|word| !word.starts_with('-'))
    }

    /// Returns the arguments that are neither options nor values of the `valued` options.
    pub fn positional<'c>(&'c self, valued: &'c [&'c str]) -> impl Iterator<Item = &'c str> {
        let mut is_value = false;
        self.arguments().filter(move |argument| {
            let is_own = !std::mem::replace(&mut is_value, valued.contains(argument));
            is_own && !argument.starts_with('-')
        })
    }

    /// Returns true if the command has this one-letter option.
    pub fn has(&self, option: char) -> bool {
        self.arguments().any(|a| a.starts_with('-') && !a.starts_with("--") && a.contains(option))
    }

    /// Returns the interval in seconds: the first plain number, as in vmstat, iostat, mpstat and sar.
    pub fn interval(&self) -> Option<f64> {
        self.plain_numbers().filter_map(|a| a.parse::<f64>().ok()).find(|s| (0.05..=86_400.0).contains(s))
    }

    /// Returns the numeric arguments without the values of options: `pidstat -p 812 10 1`, `mpstat -P 0 10 1`.
    fn plain_numbers(&self) -> impl Iterator<Item = &str> {
        let options = match self.program() {
            "pidstat" => "pTGC",
            "mpstat" => "PIN",
            "sar" => "PI",
            _ => "",
        };
        let takes_value = move |option: &str| {
            option
                .strip_prefix('-')
                .and_then(|letters| letters.chars().last())
                .is_some_and(|last| options.contains(last))
        };
        let before = std::iter::once("").chain(self.arguments());
        let numbers = self.arguments().zip(before).filter(move |(_, before)| !takes_value(before));
        numbers.map(|(argument, _)| argument).filter(|argument| argument.parse::<f64>().is_ok())
    }

    /// Returns the number of reports that these tools print: one without an interval, `None` if they run until interrupted.
    pub fn reports(&self) -> Option<u32> {
        let mut numbers = self.plain_numbers();
        match (numbers.next(), numbers.next()) {
            (None, _) => Some(1),
            (Some(_), count) => count?.parse().ok(),
        }
    }
}

/// Returns true if a command only drops lines of its input and changes none.
fn only_drops_lines(words: &[String]) -> bool {
    let Some((program, arguments)) = words.split_first() else { return false };
    let mut options = arguments.iter().filter(|word| word.starts_with('-'));
    match base_name(program) {
        program if GREPS.contains(&program) => {
            !options.any(|option| option.starts_with("--") || option.contains(|c| NO_LINES.contains(c)))
        }
        "head" | "tail" => !options.any(|option| option.contains('c')),
        _ => false,
    }
}

fn first_word(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or_default()
}

pub fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn option_values_are_not_the_interval() {
        for (line, interval, reports) in [
            ("$ pidstat -p 812 10 1", Some(10.0), Some(1)),
            ("$ pidstat -up 812", None, Some(1)),
            ("$ pidstat -U 5 2", Some(5.0), Some(2)),
            ("$ mpstat -N 0 5", Some(5.0), None),
            ("$ mpstat -P 0 5", Some(5.0), None),
            ("$ sar -I 14 1 3", Some(1.0), Some(3)),
            ("$ iostat -xp 5 2", Some(5.0), Some(2)),
        ] {
            let command = CommandLine::at_prompt(line).unwrap();
            assert_eq!((command.interval(), command.reports()), (interval, reports), "{line}");
        }
    }

    #[test]
    fn a_line_waits_between_what_it_prints() {
        for (line, pause) in [
            ("# nstat -az; sleep 10; nstat -az", Some(10.0)),
            ("$ while true; do ss -lnt; sleep 5; done", Some(5.0)),
            ("# x; sleep 5; x; sleep 5; x", Some(5.0)),
            ("# x; sleep 5; x; sleep 9; x", None),
            ("# vmstat 1 5", None),
            ("# x; sleep $N; x", None),
            ("$ ssh db9 'nstat -az; sleep 10; nstat -az'", Some(10.0)),
            ("$ sudo bash -c \"x; sleep 7; x\"", Some(7.0)),
        ] {
            assert_eq!(CommandLine::pause(line), pause, "{line}");
        }
    }

    #[test]
    fn cpus_are_counted_where_nothing_else_prints_a_number() {
        for line in [
            "$ grep -c ^processor /proc/cpuinfo",
            "/ # getconf _NPROCESSORS_ONLN",
            "$ nproc",
            "# uname -r; nproc; swapon --show",
            "root@w1:~# cat /etc/debian_version && nproc --all",
        ] {
            assert!(CommandLine::counts_cpus(line), "{line}");
        }
        for line in
            ["$ uname -r", "$ nproc | tee x", "$ nproc; wc -l < x", "$ cat /proc/x; nproc", "$ nproc; nproc --all"]
        {
            assert!(!CommandLine::counts_cpus(line), "{line}");
        }
    }

    #[test]
    fn prompts_of_many_shells_are_recognized() {
        for line in [
            "# vmstat 2",
            "$ vmstat 2",
            "[root@x232 root]# vmstat 2",
            "[root@power] /root > vmstat 2",
            "atlorca2:~ # vmstat 2",
            "rlrevell@mindpipe:~$ /usr/bin/vmstat 2",
            "+ vmstat 2",
            "/ # vmstat 2",
            "~ $ vmstat 2",
        ] {
            let command = CommandLine::at_prompt(line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!((command.program(), command.interval()), ("vmstat", Some(2.0)), "{line}");
        }
    }

    #[test]
    fn ssh_runs_a_command_on_another_machine() {
        for (line, program, host) in [
            ("$ ssh db9 vmstat 5 3", "vmstat", Some("db9")),
            ("root@hv3:~# ssh -t -p 2222 root@db9 'vmstat 5 3'", "vmstat", Some("db9")),
            ("# ssh -oBatchMode=yes 192.0.2.7 \"iostat -x 5 3\"", "iostat", Some("192.0.2.7")),
            ("# ssh db9", "ssh", None),
            ("# vmstat 5 3", "vmstat", None),
        ] {
            let command = CommandLine::at_prompt(line).unwrap();
            assert_eq!((command.program(), command.remote_host()), (program, host), "{line}");
        }
    }

    #[test]
    fn docker_and_kubectl_run_a_command_in_a_container() {
        for (line, program, container) in [
            ("$ kubectl -n shop exec -it api-6c9f7d -- cat /sys/fs/cgroup/cpu.stat", "cat", Some("api-6c9f7d")),
            ("$ kubectl exec deploy/api -c app -- sh -c 'cat /sys/fs/cgroup/cpu.stat; sleep 9'", "cat", Some("api")),
            ("# docker exec -u root web vmstat 1 5", "vmstat", Some("web")),
            ("# date; sudo podman exec db free -m", "free", Some("db")),
            ("# docker exec -it web bash", "bash", Some("web")),
            ("# docker stats --no-stream", "docker", None),
            ("# kubectl get pods", "kubectl", None),
            ("# kubectl exec", "kubectl", None),
        ] {
            let command = CommandLine::at_prompt(line).unwrap();
            assert_eq!((command.program(), command.container()), (program, container), "{line}");
        }
        let script = "$ kubectl exec api -- sh -c 'cat /sys/a; sleep 60; echo; cat /sys/a'";
        let programs: Vec<String> = CommandLine::each(script).0.iter().map(|c| c.program().to_owned()).collect();
        assert_eq!(
            (programs, CommandLine::pause(script)),
            (["cat", "sleep", "echo", "cat"].map(str::to_owned).to_vec(), Some(60.0))
        );
    }

    #[test]
    fn output_is_not_taken_for_a_prompt() {
        for line in [
            "sda 0.00 0.20 # 3",
            "Mem: 249 30",
            "------> done",
            "50% of it",
            " % SQL with executions>1:   82.91",
            "> quoted",
            "Dec 20 host kernel: x: a > b",
        ] {
            assert_eq!(CommandLine::at_prompt(line), None, "{line}");
        }
    }

    #[test]
    fn a_report_writes_commands_into_names_of_files() {
        let command =
            CommandLine::in_file_name("sos/sos_commands/networking/ethtool_-S_em1", |p| p == "ethtool").unwrap();
        assert!(command.has('S') && command.arguments().any(|a| a == "em1"));
        assert_eq!(CommandLine::in_file_name("sos/ps_aux", |p| p == "ps"), None);
        assert_eq!(CommandLine::in_file_name("rm_-rf", |p| p == "ps"), None);
    }

    #[test]
    fn the_command_in_a_loop_is_the_one_whose_output_matters() {
        for line in [
            "# for i in 1 2 3 4 ; do  cat /proc/812/stack; sleep 2; echo ; done",
            "$ while true; do date; cat /proc/812/stack; done",
        ] {
            let command = CommandLine::at_prompt(line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!((command.program(), command.operands().next()), ("cat", Some("/proc/812/stack")), "{line}");
            assert!(!command.is_plain(), "{line}");
        }
    }

    #[test]
    fn values_of_options_are_no_arguments() {
        let command = CommandLine::at_prompt("# offcputime -k -p 812 --state=2 5 | less").unwrap();
        assert_eq!(command.positional(&["-p"]).collect::<Vec<_>>(), ["5"]);
    }

    #[test]
    fn options_and_interval_end_at_a_pipe() {
        let command = CommandLine::at_prompt("x:~ # iostat -t -d -x 5 100|egrep \"sdj|sdk\" 7").unwrap();
        assert_eq!(command.interval(), Some(5.0));
        assert!(command.has('x') && command.has('t') && !command.has('k'));
    }
}
