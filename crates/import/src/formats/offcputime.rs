//! offcputime of bcc and libbpf-tools: stacks of the functions in which threads stopped running, and the time they were off
//! CPU.

use crate::prelude::*;
use whyslow_model::catalogue::OffCpu;

pub const FORMAT: Format = Format {
    name: "offcputime",
    versions: "bcc, libbpf-tools; not folded (-f)",
    shows: "what programs wait for in the kernel: storage, locks, other tasks, and fsync",
    lacks: "how long each wait took; the device; of idle threads, only their stacks show that they have nothing to do",
    programs: &[program("offcputime"), program("offcputime-bpfcc")],
    starts: |lines| lines.next_is(is_title) || (lines.next_is(|line| function(line).is_some()) && ends_as_stack(lines)),
    read,
    ..Format::NEW
};

const TITLE: &str = "Tracing off-CPU time (us)";
/// Limit at which the kernel and bcc both cut stacks (kernel.perf_event_max_stack).
const MOST_FRAMES: usize = 2 * 128;
/// Maximum number of functions: the innermost ones show what a thread waits for.
const MOST_FUNCTIONS: usize = 24;
/// Options that take a value.
const VALUED: [&str; 6] = ["-p", "-t", "-m", "-M", "--state", "--stack-storage-size"];
const NS_PER_US: f64 = 1e3;

fn is_title(line: &str) -> bool {
    line.starts_with(TITLE)
}

/// Returns the function on a line: `    io_schedule`, `    b'io_schedule'`, `    io_schedule+0x10`.
fn function(line: &str) -> Option<&str> {
    let text = line.strip_prefix([' ', '\t'])?.trim();
    let text = text.strip_prefix("b'").and_then(|text| text.strip_suffix('\'')).unwrap_or(text);
    let name = text.split(['+', '.', '(']).next()?;
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    is_name.then_some(name)
}

/// Returns true for a function of the kernel or of a program in any language, the separator between kernel and program, or an
/// unresolved address.
fn is_frame(line: &str) -> bool {
    line.starts_with([' ', '\t']) && !line.trim().is_empty() && program_of(line).is_none() && time_of(line).is_none()
}

/// Returns the program and its PID below a stack: `    -                mysqld (812)`.
fn program_of(line: &str) -> Option<(&str, u32)> {
    let rest = line.strip_prefix([' ', '\t'])?.trim().strip_prefix("- ")?.trim();
    let (name, pid) = rest.strip_suffix(')')?.rsplit_once(" (")?;
    let name = name.strip_prefix("b'").and_then(|name| name.strip_suffix('\'')).unwrap_or(name);
    Some((name, pid.parse().ok()?))
}

/// Returns the time below the program, in microseconds.
fn time_of(line: &str) -> Option<f64> {
    line.starts_with([' ', '\t']).then(|| number(line.trim()))?
}

fn ends_as_stack(lines: &mut Lines<'_>) -> bool {
    let end = (1..MOST_FRAMES).find(|at| !lines.peek(*at).is_some_and(is_frame));
    end.is_some_and(|at| {
        lines.peek(at).is_some_and(|line| program_of(line).is_some())
            && lines.peek(at + 1).is_some_and(|line| time_of(line).is_some())
    })
}

/// Returns the seconds in `... by user + kernel stack for 5 secs.`, or on the command line, where other numbers follow options.
fn period(title: &str, context: OutputContext<'_>) -> Option<f64> {
    let printed = title.split_once(" for ").and_then(|(_, rest)| number(rest.split_whitespace().next()?));
    let asked = || {
        let command = context.command_of("offcputime").or(context.command_of("offcputime-bpfcc"))?;
        command.positional(&VALUED).next().and_then(number)
    };
    printed.or_else(asked)
}

fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let title = lines.take_if(is_title).map(|line| line.text).unwrap_or_default();
    let period = period(&title, context);
    let mut count = 0;
    while let Some((blanks, _)) = lines.peek_past_blanks(0).filter(|(_, text)| is_frame(text) || *text == "^C") {
        lines.skip(blanks);
        if lines.take_if(|text| text == "^C").is_some() {
            continue;
        }
        if !ends_as_stack(lines) {
            break;
        }
        let mut functions = Vec::new();
        while let Some(line) = lines.take_if(is_frame) {
            // The innermost frames belong to the tracer itself.
            let name = function(&line.text).filter(|name| !name.starts_with("bpf_"));
            if let Some(name) = name.filter(|_| functions.len() < MOST_FUNCTIONS) {
                functions.push(name.to_owned());
            }
        }
        let (Some(of), Some(time)) = (lines.take(), lines.take().and_then(|line| time_of(&line.text))) else { break };
        let Some((name, pid)) = program_of(&of.text) else { break };
        count += 1;
        let row = run.row::<OffCpu>(0.0, of.number, format!("{name} ({pid}) {count}").as_str().into());
        row.program = name.into();
        row.pid = f64::from(pid).into();
        row.functions = functions.join(" ").as_str().into();
        row.time = (time * NS_PER_US).into();
        row.period = period.map(|s| s * SECOND).into();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell_session::ShellSession;
    use crate::testing::{fixture, window_of};

    #[test]
    fn stacks_with_their_times() {
        let window = window_of(&fixture("offcputime.txt"));
        let rows = window.newest::<OffCpu>();
        let first = rows.values().next().unwrap();
        assert_eq!((first.program.get(), first.period.get()), (Some("python3"), Some(2e9)));
        assert!(first.functions.get().unwrap().starts_with("__schedule schedule "), "{first:?}");
        assert!(rows.values().all(|row| row.time.get().is_some()));
    }

    #[test]
    fn the_form_of_bcc_in_python_3() {
        let text = "Tracing off-CPU time (us) of all threads by user + kernel stack for 5 secs.\n\n    b'finish_task_switch'\n    \
                    b'schedule'\n    b'io_schedule'\n    --\n    [unknown]\n    -                b'my db' (812)\n        1228\n\n";
        let window = window_of(text);
        let rows = window.newest::<OffCpu>();
        let row = rows.values().next().unwrap();
        assert_eq!((row.program.get(), row.time.get(), row.period.get()), (Some("my db"), Some(1228e3), Some(5e9)));
        assert_eq!(row.functions.get(), Some("finish_task_switch schedule io_schedule"));
    }

    #[test]
    fn the_period_is_no_value_of_an_option() {
        for (command, seconds) in [
            ("offcputime -p 812 3", Some(3.0)),
            ("offcputime-bpfcc -K 5", Some(5.0)),
            ("offcputime -p 812", None),
            ("offcputime --state 2 7", Some(7.0)),
            ("offcputime 10", Some(10.0)),
        ] {
            let session = ShellSession::of_command(&format!("# {command}"));
            assert_eq!(period("", session.context()), seconds, "{command}");
        }
    }

    #[test]
    fn indented_text_is_no_stack() {
        let mut lines = Lines::new("x", &b"    words\n    more words\n    - a list (1)\n        of things\n"[..]);
        assert!(!(FORMAT.starts)(&mut lines));
    }
}
