//! Tests of `whyslow top` on a real terminal, provided by tmux: keys, sizes, hostile names, and the state in which it
//! leaves the terminal.

mod skip;

use skip::has_program;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use whyslow_model::catalogue::{Family, Sample};
use whyslow_store::Recording;
use whyslow_testing::ends_with_test;
use whyslow_top::{Event, ScreenOptions};

/// Maximum time for a frame on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Prints the exit status and the terminal's state: whether it edits and echoes lines, as before.
const AFTERWARDS: &str =
    "echo \"status $?\"; stty -a | tr ' ;' '\\n\\n' | grep -x -e '-*icanon' -e '-*echo' | xargs echo terminal:";

/// A separate terminal with a program in it.
struct Terminal {
    /// Holds the socket of the tmux server.
    folder: tempfile::TempDir,
}

impl Terminal {
    /// Runs a shell command in a terminal of 80x24, with these variables.
    fn run(command: &str, variables: &[(&str, &str)]) -> Self {
        let terminal = Self { folder: whyslow_testing::folder() };
        let variables: Vec<String> = variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let env: Vec<&str> = variables.iter().flat_map(|variable| ["-e", variable]).collect();
        let script = format!("{command}; {AFTERWARDS}; exec sleep 600");
        let mut new = terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24"]);
        assert!(new.args(env).args(["sh", "-c", &script]).status().unwrap().success());
        terminal
    }

    fn whyslow(args: &str, variables: &[(&str, &str)]) -> Self {
        Self::run(&format!("'{}' {args}", env!("CARGO_BIN_EXE_whyslow")), variables)
    }

    fn tmux(&self, args: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        // Without TERM, tmux cannot tell what terminal to emulate.
        command
            .arg("-S")
            .arg(self.folder.path().join("socket"))
            .args(args)
            .env("TERM", "xterm")
            .env_remove("TMUX")
            .stdin(Stdio::null());
        command
    }

    fn output(&self, args: &[&str]) -> String {
        let out = self.tmux(args).output().unwrap();
        assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }

    fn press(&self, keys: &[&str]) {
        self.output(&[&["send-keys"], keys].concat());
    }

    fn text(&self) -> String {
        self.output(&["capture-pane", "-p"])
    }

    /// Waits until the screen contains all of these words; returns the screen.
    fn wait_for(&self, words: &[&str]) -> String {
        self.wait_until(&format!("{words:?}"), |text| words.iter().all(|word| text.contains(word)))
    }

    /// Goes to the end of a page until it contains these words: slow data, such as open files, is added there.
    fn wait_for_at_end(&self, words: &str) {
        self.wait_until(words, |text| {
            let is_there = text.contains(words);
            if !is_there {
                self.press(&["End"]);
            }
            is_there
        });
    }

    fn wait_until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let began = Instant::now();
        loop {
            let text = self.text();
            if is_so(&text) {
                return text;
            }
            assert!(began.elapsed() < PATIENCE, "{what} is not on the screen:\n{text}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Returns the PID of the program in the terminal, a child of its shell.
    fn program(&self) -> i32 {
        let shell = self.output(&["display-message", "-p", "#{pane_pid}"]);
        let children = format!("/proc/{0}/task/{0}/children", shell.trim());
        fs::read_to_string(children).unwrap().split_whitespace().next().and_then(|pid| pid.parse().ok()).unwrap()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.tmux(&["kill-server"]).stderr(Stdio::null()).status();
    }
}

#[test]
fn every_table_and_page_is_reached_by_its_key_and_q_leaves_the_terminal_as_it_was() {
    if !has_program("tmux") {
        return;
    }
    let terminal = Terminal::whyslow("top --interval 500ms", &[]);
    terminal.wait_for(&["live, every 500 ms", "numbers over", "1 Processes", "WAITS FOR", "stalled"]);
    for (key, title) in [
        ("2", "2 Groups"),
        ("3", "3 Disks"),
        ("4", "4 Interfaces"),
        ("5", "5 Connections"),
        ("6", "6 CPUs"),
        ("7", "7 Memory"),
        ("Tab", "1 Processes"),
        ("BTab", "7 Memory"),
    ] {
        terminal.press(&[key]);
        let screen = terminal.wait_until(title, |text| text.lines().any(|line| line.starts_with(title)));
        assert_eq!(screen.lines().count(), 24, "{screen}");
    }
    terminal.wait_for(&["usable memory", "GiB"]);
    terminal.press(&["6", "Enter"]);
    terminal.wait_for(&["CPU 0", "in user mode"]);
    terminal.press(&["Escape"]);
    terminal.wait_for(&["6 CPUs"]);
    terminal.press(&["?"]);
    terminal.wait_for(&["Keys", "select a row, or scroll"]);
    terminal.press(&["End"]);
    terminal.wait_for(&["was not read: not the same as zero"]);
    terminal.press(&["Escape"]);
    terminal.wait_until("a diagnosis", |text| !text.contains("the first diagnosis takes"));
    terminal.press(&["d"]);
    terminal.wait_for(&["(watched ", "Esc back"]);
    terminal.press(&["Escape", "Space"]);
    terminal.wait_for(&["PAUSED at"]);
    terminal.press(&["Space"]);
    terminal.wait_for(&["live, every"]);
    terminal.press(&["C-l", "["]);
    terminal.wait_for(&["PAUSED at"]);
    terminal.press(&["h"]);
    terminal.wait_for(&["No earlier sample is kept"]);
    terminal.press(&["l", "Space"]);
    terminal.wait_for(&["live, every"]);
    terminal.press(&["q"]);
    terminal.wait_for(&["status 0", "terminal: icanon echo"]);
}

#[test]
fn ctrl_z_gives_the_terminal_back_to_the_shell_until_fg() {
    if !has_program("tmux") {
        return;
    }
    // A shell with job control, which continues once its job has stopped.
    let top = format!("'{}' top --no-bpf --interval 500ms", env!("CARGO_BIN_EXE_whyslow"));
    let command = format!("set -m; {top}; {AFTERWARDS}; read key; fg");
    let terminal = Terminal::run(&command, &[]);
    terminal.wait_for(&["1 Processes", "numbers over"]);
    terminal.press(&["C-z"]);
    // 128 plus SIGTSTP.
    terminal.wait_for(&["status 148", "terminal: icanon echo"]);
    terminal.press(&["Enter"]);
    terminal.wait_for(&["live, every 500 ms", "1 Processes"]);
    terminal.press(&["3"]);
    terminal.wait_until("the key", |text| text.lines().any(|line| line.starts_with("3 Disks")));
    terminal.press(&["q"]);
    terminal.wait_for(&["status 0", "terminal: icanon echo"]);
}

#[test]
fn the_screen_follows_the_size_of_its_terminal() {
    if !has_program("tmux") {
        return;
    }
    let terminal = Terminal::whyslow("top --no-bpf --interval 500ms", &[]);
    terminal.wait_for(&["1 Processes"]);
    for (width, height) in [("20", "5"), ("5", "2"), ("200", "60"), ("40", "10")] {
        terminal.output(&["resize-window", "-x", width, "-y", height]);
        let lines = height.parse::<usize>().unwrap();
        terminal.wait_until(height, |text| text.lines().count() == lines);
        terminal.press(&["3", "Enter", "d", "Escape", "Escape", "1"]);
    }
    terminal.output(&["resize-window", "-x", "80", "-y", "24"]);
    terminal.wait_for(&["1 Processes", "PID", "WAITS FOR", "Enter details"]);
    terminal.press(&["C-c"]);
    terminal.wait_for(&["status 0", "terminal: icanon echo"]);
}

#[test]
fn a_hostile_name_of_a_process_does_not_garble_the_screen() {
    if !has_program("tmux") {
        return;
    }
    let folder = whyslow_testing::folder();
    // The kernel uses the first 15 bytes as the name of the process: these clear the screen.
    let program = folder.path().join("\u{1b}[2Jevil\u{1b}[1m");
    whyslow_testing::install(Path::new("/bin/sleep"), &program);
    let mut evil = ends_with_test(Command::new(&program).arg("600")).spawn().unwrap();
    let terminal = Terminal::whyslow("top --no-bpf --interval 500ms", &[]);
    terminal.wait_for(&["1 Processes"]);
    terminal.press(&["/", "e", "v", "i", "l", "Enter"]);
    let screen = terminal.wait_until("evil", |text| text.contains(r"\x1b[2Jevil"));
    let rows: Vec<&str> = screen.lines().collect();
    assert!(rows[0].contains("live, every") && rows[rows.len() - 1].starts_with("[evil]  Enter"), "{screen}");
    terminal.press(&["Enter"]);
    terminal.wait_for(&[&format!(r"Process {} \x1b[2Jevil\x1b[1m", evil.id())]);
    terminal.wait_for_at_end("Open files");
    terminal.press(&["q"]);
    terminal.wait_for(&["status 0"]);
    let terminal = Terminal::whyslow("top --no-bpf --interval 500ms --pseudonymise", &[]);
    let screen = terminal.wait_for(&["1 Processes", "process-"]);
    assert!(!screen.contains("evil"), "{screen}");
    terminal.press(&["Enter"]);
    terminal.wait_for_at_end("not listed with --pseudonymise");
    terminal.press(&["q"]);
    terminal.wait_for(&["status 0"]);
    evil.kill().unwrap();
    evil.wait().unwrap();
}

#[test]
fn sigterm_leaves_the_terminal_as_it_was() {
    if !has_program("tmux") {
        return;
    }
    let terminal = Terminal::whyslow("top --no-bpf", &[]);
    terminal.wait_for(&["1 Processes", "numbers over"]);
    // SAFETY: kill takes two numbers; the program has not been waited for, because its shell has not shown its status.
    assert_eq!(unsafe { libc::kill(terminal.program(), libc::SIGTERM) }, 0);
    terminal.wait_for(&["status 143", "terminal: icanon echo"]);
}

/// The next test runs this in a terminal: a screen whose source panics on request.
#[test]
fn panics_where_the_next_test_asks_for_it() {
    if std::env::var_os("WHYSLOW_TOP_PANICS").is_none() {
        return;
    }
    let (keys, events) = channel();
    keys.send(Event::Recorded(Box::default(), Box::default())).unwrap();
    let options = ScreenOptions { interval: None, colour: false, utc: true };
    let _ = whyslow_top::run(options, &events, keys, |_| panic!("on purpose"));
}

#[test]
fn a_panic_leaves_the_terminal_as_it_was_and_says_what_happened() {
    if !has_program("tmux") {
        return;
    }
    let this = std::env::current_exe().unwrap();
    let command = format!("'{}' --exact panics_where_the_next_test_asks_for_it --nocapture", this.display());
    let terminal = Terminal::run(&command, &[("WHYSLOW_TOP_PANICS", "1"), ("RUST_BACKTRACE", "0")]);
    terminal.wait_for(&["No processes are visible."]);
    terminal.press(&["["]);
    terminal.wait_for(&["on purpose", "status 101", "terminal: icanon echo"]);
}

#[test]
fn without_color_nothing_is_colored() {
    if !has_program("tmux") {
        return;
    }
    let terminal = Terminal::whyslow("top --no-bpf --interval 500ms", &[("NO_COLOR", "1")]);
    terminal.wait_for(&["1 Processes", "numbers over"]);
    // Wait for a diagnosis, which would be in color.
    terminal.wait_until("a diagnosis", |text| !text.contains("the first diagnosis takes"));
    let styled = terminal.output(&["capture-pane", "-p", "-e"]);
    let sequences = styled.split('\u{1b}').filter_map(|part| part.strip_prefix('[')?.split_once('m'));
    // Bold, dim, reverse and plain; 39 and 49 are the terminal's own colors.
    let unexpected: Vec<&str> = sequences
        .map(|(parameters, _)| parameters)
        .filter(|parameters| {
            !parameters.split(';').all(|p| ["", "0", "1", "2", "7", "22", "27", "39", "49"].contains(&p))
        })
        .collect();
    assert_eq!(unexpected, <[&str; 0]>::default());
}

#[test]
fn a_recording_is_stepped_through_with_the_same_keys() {
    if !has_program("tmux") {
        return;
    }
    // On a nearly full file system, the recorder records less.
    let folder = whyslow_testing::memory_folder();
    let dir = folder.path().to_str().unwrap();
    let record = ["record", "--no-bpf", "--interval", "500ms", "--for", "6s", "--dir", dir];
    let mut recorder = Command::new(env!("CARGO_BIN_EXE_whyslow"));
    assert!(recorder.args(record).stdout(Stdio::null()).status().unwrap().success());
    let seconds = seconds_of(folder.path());
    let (first, last) = (*seconds.first().unwrap(), *seconds.last().unwrap());
    let at = |second: i64| jiff::Timestamp::from_second(second).unwrap();
    let title = |second: i64| format!("recorded {}", at(second).strftime("%Y-%m-%d %H:%M:%S"));
    let terminal = Terminal::whyslow(&format!("top --utc --at {} --dir '{dir}'", at(last)), &[]);
    let shown = terminal.wait_for(&["recorded ", "1 Processes", "← → time"]);
    assert!(shown.contains(&title(last)) || shown.contains(&title(last - 1)), "{shown}");
    for _ in 0..seconds.len() {
        terminal.press(&["Left"]);
    }
    terminal.wait_for(&[&title(first)]);
    terminal.press(&["]"]);
    terminal.wait_for(&[&title(last)]);
    terminal.press(&["["]);
    terminal.wait_for(&[&title(first)]);
    terminal.press(&["}"]);
    terminal.wait_until("an answer", |text| text.contains("episode") || !text.contains(&title(first)));
    terminal.press(&["q"]);
    terminal.wait_for(&["status 0", "terminal: icanon echo"]);
}

/// Returns the second of each sample.
fn seconds_of(dir: &Path) -> Vec<i64> {
    let recording = Recording::open(dir).unwrap();
    let samples = recording.snapshots(&recording.span(), &|family| family == Sample::INFO.name).unwrap();
    samples.iter().map(|sample| sample.wall_ns / 1_000_000_000).collect()
}

#[test]
fn what_cannot_be_shown_is_refused_with_what_to_do() {
    let whyslow = |args: &[&str]| {
        let out = Command::new(env!("CARGO_BIN_EXE_whyslow")).args(args).stdin(Stdio::null()).output().unwrap();
        (out.status.code(), String::from_utf8(out.stderr).unwrap(), out.stdout)
    };
    let (status, message, out) = whyslow(&["top"]);
    assert_eq!((status, out), (Some(2), Vec::new()));
    assert!(
        message.starts_with("whyslow: 'whyslow top' needs a terminal") && message.contains("use 'whyslow'"),
        "{message}"
    );
    for (args, why) in [
        (&["top", "--interval", "10ms"][..], "--interval must be at least 100ms"),
        (&["top", "--dir", "/tmp"], "--at"),
        (&["top", "--at", "03:12", "--interval", "1s"], "cannot be used with"),
    ] {
        let (status, message, _) = whyslow(args);
        assert_eq!(status, Some(2), "{args:?}");
        assert!(message.contains(why), "{message}");
    }
}
