//! Files of /proc and /sys that one command line prints in several steps: `date; cat a; sleep 10; date; cat a`.

use crate::command::CommandLine;
use crate::printed_files::PrintedFiles;

/// Steps of a command line that prints files of /proc and /sys, in order; a loop repeats them.
#[derive(Clone, Debug, PartialEq)]
pub struct PrintSteps {
    steps: Vec<Step>,
    next: usize,
    /// Whether it prints the time before the files.
    prints_time: bool,
    /// First step of a loop, which extends to the last step.
    looped: Option<usize>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Print(PrintedFiles),
    /// Pause in seconds.
    Pause(f64),
}

impl PrintSteps {
    /// Parses a line with several commands, or a loop. Returns `None` if it prints no such files.
    pub fn parse(line: &str, folder: Option<&str>) -> Option<Self> {
        let (commands, first_looped) = CommandLine::each(line);
        if commands.len() < 2 {
            return None;
        }
        let mut steps: Vec<Step> = Vec::new();
        // Whether nothing is printed between the last step and the next command.
        let mut is_adjacent = false;
        let mut looped = None;
        for (at, command) in commands.iter().enumerate() {
            if first_looped == Some(at) {
                (looped, is_adjacent) = (Some(steps.len()), false);
            }
            let files = PrintedFiles::from_command(command, folder);
            match (command.program(), files) {
                ("sleep", _) => steps.extend(command.interval().map(Step::Pause)),
                ("cd", _) => {}
                (_, Some(more)) => {
                    let left = match steps.last_mut() {
                        Some(Step::Print(files)) if is_adjacent => files.append(more),
                        _ => Some(more),
                    };
                    steps.extend(left.map(Step::Print));
                    is_adjacent = true;
                }
                _ => is_adjacent = false,
            }
        }
        let prints = |steps: &[Step]| steps.iter().any(|step| matches!(step, Step::Print(_)));
        let looped = looped.filter(|first| prints(&steps[*first..]));
        // A time printed only after a file does not tell when that file was printed.
        let printed: Vec<_> = commands.iter().map(|command| PrintedFiles::from_command(command, folder)).collect();
        let last = printed.iter().rev().flatten().next();
        let first = printed.iter().position(|files| files.as_ref() == last);
        let date = commands.iter().position(|command| command.program() == "date");
        let prints_time = date.is_some_and(|date| first.is_some_and(|first| date < first));
        prints(&steps).then_some(Self { steps, next: 0, prints_time, looped })
    }

    /// Returns true if only pauses show how much time passes between the outputs.
    pub fn is_timed_by_pauses(&self) -> bool {
        !self.prints_time && self.steps.iter().any(|step| matches!(step, Step::Pause(_)))
    }

    /// Returns the files to be printed next, and the seconds waited before them.
    pub fn advance(&mut self) -> Option<(PrintedFiles, f64)> {
        let mut waited = 0.0;
        loop {
            if self.next == self.steps.len() {
                self.next = self.looped.unwrap_or(self.next);
            }
            self.next += 1;
            match self.steps.get(self.next - 1)? {
                Step::Print(files) => return Some((files.clone(), waited)),
                Step::Pause(seconds) => waited += seconds,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed_files(paths: &[&str]) -> PrintedFiles {
        PrintedFiles::Of(paths.iter().map(|path| (*path).to_owned()).collect())
    }

    #[test]
    fn a_line_that_prints_a_file_twice_has_a_pause_between() {
        let line =
            "# cd /sys/fs/cgroup/app; date; cat cpu.stat io.stat; cat io.max; sleep 10; date; free -m; cat cpu.stat";
        let mut steps = PrintSteps::parse(line, Some("/sys/fs/cgroup/app")).unwrap();
        let first = ["cpu.stat", "io.stat", "io.max"].map(|file| format!("/sys/fs/cgroup/app/{file}"));
        assert_eq!(steps.advance(), Some((printed_files(&first.each_ref().map(String::as_str)), 0.0)));
        assert_eq!(steps.advance(), Some((printed_files(&[&first[0]]), 10.0)));
        assert_eq!(steps.advance(), None);
        assert!(!steps.is_timed_by_pauses(), "it prints the time");
        let late = PrintSteps::parse("# cat /proc/stat; date; sleep 10; date; cat /proc/stat", None).unwrap();
        assert!(late.is_timed_by_pauses());
        let untimed = PrintSteps::parse("# cat /proc/stat; sleep 10; cat /proc/stat", None).unwrap();
        assert!(untimed.is_timed_by_pauses());
    }

    #[test]
    fn a_loop_prints_again_and_again() {
        let line = "$ while sleep 5; do date; cat /sys/fs/cgroup/a/io.stat; sleep 1; done";
        let mut steps = PrintSteps::parse(line, None).unwrap();
        let file = printed_files(&["/sys/fs/cgroup/a/io.stat"]);
        let waits = [0; 3].map(|_| steps.advance().unwrap());
        assert_eq!(waits, [(file.clone(), 5.0), (file.clone(), 6.0), (file.clone(), 6.0)]);
        let line = "# cd /sys/fs/cgroup/a; cat cpu.max; for i in 1 2; do date +%T; cat io.stat; sleep 9; done";
        let mut steps = PrintSteps::parse(line, Some("/sys/fs/cgroup/a")).unwrap();
        let waits = [0; 3].map(|_| steps.advance().unwrap());
        assert_eq!(
            waits,
            [(printed_files(&["/sys/fs/cgroup/a/cpu.max"]), 0.0), (file.clone(), 0.0), (file.clone(), 9.0)]
        );
        let mut once =
            PrintSteps::parse("# cat /sys/fs/cgroup/a/io.stat; for i in 1 2; do sleep 9; done", None).unwrap();
        assert_eq!((once.advance(), once.advance()), (Some((file, 0.0)), None));
    }

    #[test]
    fn one_command_and_commands_without_files_have_no_steps() {
        for line in
            ["# cat /sys/fs/cgroup/a/io.stat", "# date; vmstat 1 5; sleep 3", "# for i in 1 2; do sleep 1; done"]
        {
            assert_eq!(PrintSteps::parse(line, None), None, "{line}");
        }
    }
}
