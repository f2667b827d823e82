//! Context before an output in a capture: the command at the prompt, the time, and the banner of sysstat's tools, `Linux
//! 2.6.18-92.el5 (host) 01/14/2010 _x86_64_ (4 CPU)`.

use crate::banner::Banner;
use crate::clock::{self, DAY, PrintedTime};
use crate::command::CommandLine;
use crate::print_steps::PrintSteps;
use crate::printed_files::PrintedFiles;
use crate::timeline::ReportClock;
use crate::tool_run::ToolRun;
use std::collections::{BTreeMap, HashMap};
use whyslow_model::diagnosis::Host;
use whyslow_model::value::Name;

/// State of a capture before an output begins.
#[derive(Clone, Debug, Default)]
pub struct CaptureContext {
    /// Command at the last prompt.
    pub command: Option<CommandLine>,
    /// Files of /proc and /sys whose contents come next without their names.
    pub printed: Option<PrintedFiles>,
    /// Files that the same command line prints after that.
    pub steps: Option<PrintSteps>,
    /// Current folder of the shell, if it is below /proc or /sys.
    pub folder: Option<String>,
    /// Container in which commands run, and whether it stays current until its shell exits.
    pub container: Option<(String, bool)>,
    /// Variables set at prompts.
    pub variables: ShellVariables,
    /// I/O scheduler that a command set or a sentence names.
    pub scheduler: Option<Scheduler>,
    /// Banner of sysstat's tools.
    pub banner: Option<Banner>,
    /// Machine that the file named last.
    pub host: Option<Name>,
    /// Machines named in prompts.
    pub prompts: PromptHosts,
    /// Time printed before the output.
    pub at: PrintedTime,
    /// Clock behind the times printed before outputs, and whether it was set.
    pub clock: ReportClock,
    pub is_clock_set: bool,
    /// Whether the last command line prints seconds since 1970.
    pub prints_epoch: bool,
    /// Seconds that a command line with several steps has waited since `at`.
    pub waited: f64,
    /// Seconds that the last command line waits between its outputs.
    pub pause: Option<f64>,
    /// Formats of the outputs since the command line began, or since it last printed the time.
    pub outputs: Vec<&'static str>,
    /// Whether a number alone on a line after the last prompt can only come from `nproc`.
    pub counts_cpus: bool,
    /// Whether an output was read since the last banner.
    pub is_past_banner: bool,
    /// Whether an output was read since the last command.
    pub is_past_command: bool,
}

/// Shell variables with plain values: `CG=/sys/fs/cgroup/system.slice/app.service`.
#[derive(Clone, Debug, Default)]
pub struct ShellVariables(BTreeMap<String, String>);

impl ShellVariables {
    const MOST: usize = 30;
    const LONGEST: usize = 512;

    /// Sets the variables that a command line assigns.
    pub fn set(&mut self, line: &str) {
        let (commands, _) = CommandLine::each(line);
        for (name, value) in commands.iter().flat_map(CommandLine::assignments) {
            let is_name = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') && !name.is_empty();
            let is_plain = value.len() <= Self::LONGEST && !value.contains(['$', '`', '(', '"', '\'']);
            if is_name && is_plain && self.0.len() < Self::MOST {
                self.0.insert(name.to_owned(), value.to_owned());
            }
        }
    }

    /// Expands the variables in a line: `cat $CG/io.stat`, `cat ${CG}/io.stat`.
    pub fn expanded(&self, line: &str) -> Option<String> {
        if self.0.is_empty() || !line.contains('$') {
            return None;
        }
        let mut text = String::new();
        let mut rest = line;
        while let Some((before, behind)) = rest.split_once('$') {
            text.push_str(before);
            let is_braced = behind.starts_with('{');
            let inner = behind.strip_prefix('{').unwrap_or(behind);
            let end = inner.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(inner.len());
            let (name, after) = inner.split_at(end);
            let after = if is_braced { after.strip_prefix('}') } else { Some(after) };
            match self.0.get(name).zip(after) {
                Some((value, after)) => {
                    text.push_str(value);
                    rest = after;
                }
                None => {
                    text.push('$');
                    rest = behind;
                }
            }
        }
        text.push_str(rest);
        (text != line).then_some(text)
    }
}

/// Machines named in prompts. The banner below a prompt may name the same machine differently, for example because only one of
/// the two was anonymized.
#[derive(Clone, Debug, Default)]
pub struct PromptHosts {
    last: Option<Name>,
    /// Last prompt and current machine before a command ran on another machine.
    before_remote: Option<(Option<Name>, Option<Name>)>,
    /// Names that banners use for these machines.
    banners: HashMap<Name, Name>,
}

impl PromptHosts {
    /// Sets `host` to the machine whose output follows a command: `remote`, on which ssh ran it, or that of the prompt. Keeps
    /// `host` if neither is known, or if the name is that of the last prompt.
    pub fn enter(&mut self, remote: Option<&str>, prompt: Option<&str>, host: &mut Option<Name>) {
        if let Some(before) = self.before_remote.take() {
            (self.last, *host) = before;
        }
        if remote.is_some() {
            self.before_remote = Some((self.last.clone(), host.clone()));
        }
        if let Some(name) = remote.or(prompt).filter(|name| self.last.as_deref() != Some(*name)) {
            self.last = Some(name.into());
            *host = Some(self.banners.get(name).cloned().unwrap_or_else(|| name.into()));
        }
    }

    /// Takes the name from a banner below the last prompt. Returns the prompt's name if it differs and was used until now.
    pub fn rename(&mut self, banner: &Name) -> Option<Name> {
        let last = self.last.as_ref().filter(|last| Host::names_differ(Some(last), Some(banner)))?;
        let before = self.banners.insert(last.clone(), banner.clone());
        before.is_none().then(|| last.clone())
    }
}

/// An I/O scheduler named in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduler {
    name: &'static str,
    /// Line of the sentence that names it; `None` if a command set it.
    said_on: Option<u32>,
}

impl Scheduler {
    /// Schedulers of block/, old and new. `none` and `deadline` also occur in other sentences.
    const NAMES: [&str; 7] = ["cfq", "bfq", "mq-deadline", "kyber", "noop", "deadline", "none"];
    const ORDINARY_WORDS: [&str; 2] = ["deadline", "none"];
    /// Maximum length of a sentence.
    const LONGEST: usize = 200;
    /// Maximum number of lines between a sentence and the output that it introduces.
    const NEAR: u32 = 4;

    /// Parses `# echo bfq > /sys/block/sda/queue/scheduler` or `With bfq I get:`. Ignores a sentence that names several
    /// schedulers.
    pub fn named(line: &str, number: u32) -> Option<Self> {
        // Checked first, since every line that is not output is tested.
        let may_name = ["fq", "FQ", "eadline", "yber", "oop", "cheduler"].iter().any(|part| line.contains(part));
        if !may_name || line.len() > Self::LONGEST {
            return None;
        }
        let words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').map(str::to_ascii_lowercase);
        let is_command = line.contains("echo ") && line.contains("/queue/scheduler");
        let is_said = |name: &&str| words.clone().any(|word| word == **name);
        let names: Vec<&str> = Self::NAMES.into_iter().filter(|name| is_said(name)).collect();
        let [name] = names[..] else { return None };
        let is_clear = is_command || !Self::ORDINARY_WORDS.contains(&name) || line.contains("scheduler");
        is_clear.then_some(Self { name, said_on: (!is_command).then_some(number) })
    }

    /// Returns the scheduler in use for the output on a line, as far as the text says.
    pub fn at(&self, line: u32) -> Option<&'static str> {
        self.said_on.is_none_or(|said| line.saturating_sub(said) <= Self::NEAR).then_some(self.name)
    }
}

impl CaptureContext {
    /// Returns the date in the banner, for tools that print only the time of each row.
    pub fn day(&self) -> PrintedTime {
        PrintedTime { date: self.banner.as_ref().and_then(|b| b.date), ..PrintedTime::default() }
    }

    /// Parses seconds since 1970 as `date +%s` prints them. Below any other command, a number that stands alone in a line is
    /// ignored.
    pub fn epoch_line(&self, text: &str) -> Option<PrintedTime> {
        clock::epoch_time(text.trim()).filter(|_| self.prints_epoch || self.command.is_none())
    }

    /// Sets the time printed before the next output. Returns the seconds by which the clock was set since the previous time,
    /// but only if times had been printed at regular intervals until then: otherwise the outputs are merely in a different
    /// order.
    pub fn set_at(&mut self, at: PrintedTime) -> Option<f64> {
        let is_regular = self.clock.is_regular();
        let reading = self.clock.read(at, None);
        let set_by = reading.set_by.filter(|_| is_regular);
        self.is_clock_set |= set_by.is_some();
        // Times of day continue after midnight.
        let is_counted = self.is_clock_set || at.date.is_none();
        self.at = if is_counted { self.clock.first().after(reading.elapsed) } else { at };
        if reading.set_by.is_some() && !is_regular {
            (self.clock, self.is_clock_set, self.at) = (ReportClock::default(), false, at);
            self.clock.read(at, None);
        }
        self.waited = 0.0;
        self.outputs.clear();
        set_by
    }

    /// Dates a time of day that follows the time printed before the output.
    pub fn at_time_of_day(&self, time: f64) -> PrintedTime {
        let is_next_day = self.at.time.is_some_and(|before| time < before % DAY - DAY / 2.0);
        let same_day = PrintedTime { time: Some(time), ..self.at };
        match (self.at.date, is_next_day) {
            (Some(_), true) => same_day.after(DAY),
            _ => same_day,
        }
    }

    /// Returns the time at which the next files of /proc and /sys are printed. If no time is printed, the first step is at
    /// zero.
    pub fn files_at(&self) -> PrintedTime {
        let is_relative = self.steps.as_ref().is_some_and(PrintSteps::is_timed_by_pauses);
        let time = self.at.time.or(is_relative.then_some(0.0));
        PrintedTime { time: time.map(|time| time + self.waited), ..self.at }
    }

    /// Returns true if only pauses show when the command line printed its outputs: a date among them must not set the clock.
    pub fn is_timed_by_pauses(&self) -> bool {
        let is_begun = !self.outputs.is_empty() || self.steps.as_ref().is_some_and(PrintSteps::is_timed_by_pauses);
        self.at.time.is_none() && self.pause.is_some() && is_begun
    }

    /// Sets the time of an output. If the same format was already printed, adds the pauses since its first output.
    pub fn set_time(&self, run: &mut ToolRun) {
        run.start = self.at;
        let Some(pause) = self.pause else { return };
        let copies = self.outputs.iter().filter(|earlier| **earlier == run.tool).count();
        run.is_relative = self.at.time.is_none();
        run.start.time = Some(self.at.time.unwrap_or(0.0) + pause * copies as f64);
    }

    /// Advances to the files that the command line prints next.
    pub fn advance(&mut self) {
        let next = self.steps.as_mut().and_then(PrintSteps::advance);
        self.waited += next.as_ref().map_or(0.0, |(_, waited)| *waited);
        self.printed = next.map(|(files, _)| files);
    }

    /// Enters the container that a command runs in, or leaves it.
    pub fn enter_container(&mut self, command: &CommandLine) {
        const LEAVE: [&str; 2] = ["exit", "logout"];
        self.container = match (command.container(), self.container.take()) {
            (Some(name), _) => Some((name.to_owned(), command.is_shell())),
            (None, before) => before.filter(|(_, is_shell)| *is_shell && !LEAVE.contains(&command.program())),
        };
    }

    /// Returns the command if it runs this program.
    pub fn command_of(&self, program: &str) -> Option<&CommandLine> {
        self.command.as_ref().filter(|command| command.program() == program)
    }

    /// Returns true if the next report is the only one that this tool printed: its command line asks for one, or, without a
    /// command line, the banner at the start of its output is directly above.
    pub fn prints_once(&self, tool: &str) -> bool {
        match &self.command {
            Some(command) => command.program() == tool && command.reports() == Some(1),
            None => self.banner.is_some() && !self.is_past_banner,
        }
    }

    /// Returns true if the command line cut off the beginning of this tool's output.
    pub fn lacks_beginning(&self, tool: &str) -> bool {
        let is_below_banner = self.banner.is_some() && !self.is_past_banner;
        let command = self.command_of(tool).filter(|command| command.reports() != Some(1));
        command.is_some_and(CommandLine::cuts_beginning) && !is_below_banner
    }

    /// Returns true if another output was read since the last command and banner: the next lines may be the rest of it.
    pub fn is_past_output(&self) -> bool {
        self.is_past_banner && self.is_past_command
    }

    /// Returns the number printed by `nproc`.
    pub fn counted_cpus(&self, text: &str) -> Option<f64> {
        text.trim().parse::<u16>().ok().filter(|count| self.counts_cpus && *count > 0).map(f64::from)
    }

    /// Returns the interval on the command line.
    pub fn interval(&self) -> Option<f64> {
        self.command.as_ref()?.interval()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheduler_is_named_by_a_command_or_by_the_sentence_above() {
        let of = |line: &str| Scheduler::named(line, 10);
        let set = of("# echo none > /sys/block/sda/queue/scheduler").unwrap();
        assert_eq!((set.at(11), set.at(500)), (Some("none"), Some("none")));
        let said = of("With BFQ, I get:").unwrap();
        assert_eq!((said.at(12), said.at(20)), (Some("bfq"), None));
        assert_eq!(of("With noop or deadline"), None);
        assert_eq!(of("none of them"), None);
        assert_eq!(of("with the deadline scheduler:").and_then(|s| s.at(11)), Some("deadline"));
        assert_eq!(of("with mq-deadline").and_then(|s| s.at(11)), Some("mq-deadline"));
    }

    #[test]
    fn variables_stand_for_their_values() {
        let mut variables = ShellVariables::default();
        for line in ["$ CG=/sys/fs/cgroup/app", "# CGROUP=\"/sys/x\" D=$(ls) X=1", "$ vmstat interval=1"] {
            variables.set(line);
        }
        let expanded = |line: &str| variables.expanded(line);
        assert_eq!(
            expanded("# cat $CG/io.max ${CGROUP}/a $CGROUP/b $D $CGX ${CG").as_deref(),
            Some("# cat /sys/fs/cgroup/app/io.max /sys/x/a /sys/x/b $D $CGX ${CG")
        );
        assert_eq!((expanded("$ vmstat 1"), expanded("# echo $interval")), (None, None));
    }
}
