//! Stacks of tasks as the kernel prints them into /proc/PID/stack, one or many (fs/proc/base.c).

use crate::prelude::*;
use whyslow_model::catalogue::LogLine;
use whyslow_model::kernel_stack::{STACK_FUNCTIONS, frame, stack_task};

pub const FORMAT: Format = Format {
    name: "kernel stack",
    versions: "/proc/PID/stack of all versions, the stack of one task or of many with a line before each that names it; task lists of sysrq w and t without their times",
    shows: "what stuck tasks wait for: a lock, the journal, an array, a server, a frozen file system, a device",
    lacks: "for how long they have waited, and whether they are stuck at all",
    files: &["stack", "sysrq-w", "blocked-tasks"],
    starts: |lines| match first_function(lines, 0) {
        Some(0) => lines.peek(1).is_some_and(is_function),
        Some(_) => lines.next_is(|line| task_of(line).is_some()),
        None => false,
    },
    read,
    ..Format::NEW
};

/// Maximum number of lines that the kernel prints between the name of a task and its first function.
const MOST_BETWEEN: usize = 4;
/// Maximum number of functions per stack: the innermost ones show what a task waits for.
const MOST_FUNCTIONS: usize = 24;

fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let mut asked = context.command().and_then(|command| command.arguments().find_map(pid_of_path));
    while let Some((blanks, text)) = lines.peek_past_blanks(0) {
        let (is_command, task) = (is_command(text), if is_function(text) { None } else { task_of(text) });
        let Some(first) =
            first_function(lines, blanks).filter(|first| task.is_some() || (*first == blanks && !is_command))
        else {
            break;
        };
        // A loop prints one task's stack repeatedly.
        if let Some((pid, ..)) = task.as_ref().filter(|_| is_command) {
            asked = Some(*pid);
        }
        let (pid, name, state) = task.unwrap_or((asked.unwrap_or(0), String::new(), '?'));
        lines.skip(blanks);
        let (number, sequence) = (lines.number(), lines.sequence());
        lines.skip(first - blanks);
        let mut functions = Vec::new();
        while let Some(line) = lines.take_if(|text| frame(text).is_some() || is_mark(text)) {
            if let Some(frame) = frame(&line.text).filter(|frame| frame.reliable && functions.len() < MOST_FUNCTIONS) {
                functions.push(frame.function.to_owned());
            }
        }
        let functions = functions.join(" ");
        let text = format!("task:{name} state:{state} pid:{pid}{STACK_FUNCTIONS}{functions}");
        run.row::<LogLine>(0.0, number, sequence).text = text.as_str().into();
    }
    Ok(())
}

/// Returns the position of the first function of a stack that begins here, or whose task is named here.
fn first_function(lines: &mut Lines<'_>, from: usize) -> Option<usize> {
    let mut at = from;
    while !lines.peek(at).is_some_and(is_function) {
        let may_precede = lines.peek(at).is_some_and(|text| at == from || is_mark(text));
        if !may_precede || at > from + MOST_BETWEEN {
            return None;
        }
        at += 1;
    }
    Some(at)
}

/// Returns true for `[<0>] folio_wait_bit+0xd6/0x220` or ` folio_wait_bit+0xd6/0x220`; after a time, such a line belongs to a
/// log.
fn is_function(text: &str) -> bool {
    let begins = text.split_whitespace().next().is_some_and(|word| word.starts_with("[<") || word.contains("+0x"));
    begins && frame(text).is_some_and(|frame| frame.reliable)
}

/// Returns true for `Call Trace:`, `<TASK>`, `Workqueue: loop1 loop_rootcg_workfn`, or the address of a function without a
/// name.
fn is_mark(text: &str) -> bool {
    let text = text.trim_start();
    ["Call Trace", "Call trace:", "<", "[<", "Workqueue: "].iter().any(|beginning| text.starts_with(beginning))
}

/// Returns the PID, name and state of the task that a line names: as the kernel prints it, or `/proc/812/stack:`, `== 812
/// mysqld`.
fn task_of(line: &str) -> Option<(u32, String, char)> {
    if let Some(task) = stack_task(line) {
        return Some((task.pid, task.name.to_owned(), task.state.unwrap_or('?')));
    }
    if let Some(pid) = line.split_whitespace().find_map(pid_of_path) {
        return Some((pid, String::new(), '?'));
    }
    let mut words = line.split(|c: char| !(c.is_ascii_alphanumeric() || "/_-+.:".contains(c))).filter(|word| {
        word.contains(|c: char| c.is_ascii_alphanumeric()) && !word.trim_end_matches(':').eq_ignore_ascii_case("pid")
    });
    let pid = words.next()?.trim_end_matches(':').parse().ok()?;
    Some((pid, words.next().unwrap_or_default().to_owned(), '?'))
}

/// Returns the ID in `/proc/812/stack` or `/proc/812/task/813/stack`.
fn pid_of_path(path: &str) -> Option<u32> {
    let (before, _) = path.split_once("/stack").filter(|(before, _)| before.starts_with("/proc/"))?;
    before.rsplit('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    fn texts(text: &str) -> Vec<String> {
        let window = window_of(text);
        window.newest::<LogLine>().values().filter_map(|line| line.text.get().map(str::to_owned)).collect()
    }

    #[test]
    fn the_stacks_of_many_tasks_are_read() {
        let texts = texts(&fixture("proc-stacks-frozen.txt"));
        assert_eq!(texts.len(), 12);
        assert_eq!(
            texts[0],
            "task:ext4lazyinit state:? pid:9247 functions: ext4_read_block_bitmap_nowait ext4_mb_init_cache ext4_mb_init_group \
             ext4_mb_prefetch_fini ext4_lazyinit_thread kthread ret_from_fork ret_from_fork_asm"
        );
        assert!(
            texts[11].starts_with("task:kworker/u8:5+loop1 state:? pid:22740 functions: percpu_rwsem_wait lo_rw_aio ")
        );
    }

    #[test]
    fn a_task_is_named_in_many_ways() {
        let stack = "[<0>] rpc_wait_bit_killable+0x24/0xa0\n[<0>] nfs4_proc_getattr+0x1/0x2\n";
        for (before, task) in [
            ("# cat /proc/812/stack\n", "task: state:? pid:812 "),
            ("/proc/812/stack:\n", "task: state:? pid:812 "),
            ("==> /proc/812/task/813/stack <==\n", "task: state:? pid:813 "),
            ("== 812 mysqld\n", "task:mysqld state:? pid:812 "),
            ("PID: 812 (mysqld)\n", "task:mysqld state:? pid:812 "),
            ("", "task: state:? pid:0 "),
            (
                "task:mysqld          state:D stack:    0 pid:  812 ppid:     1\nCall Trace:\n <TASK>\n",
                "task:mysqld state:D pid:812 ",
            ),
        ] {
            let texts = texts(&format!("{before}{stack}"));
            let expected = format!("{task}functions: rpc_wait_bit_killable nfs4_proc_getattr");
            assert_eq!(texts, [expected], "{before}");
        }
    }
}
