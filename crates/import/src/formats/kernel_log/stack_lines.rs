//! Selects the lines of task stacks that are kept from a log.

use whyslow_model::kernel_stack::{ends_as_task, frame, stack_task};

/// Maximum number of lines of all stacks.
const MOST_LINES: usize = 8_000;
/// Maximum number of functions per stack: the innermost ones show what a task waits for.
const MOST_FRAMES: usize = 24;
/// Maximum number of lines between two that are kept: modules, registers and code take about 30, functions that are no longer
/// called more.
const MOST_BETWEEN: u32 = 100;
/// Text of lines that stacks follow, at their beginning or within them.
const BEGINS: [&str; 5] = ["INFO: task ", "Call Trace", "Call trace:", "PC stack", "Show Blocked State"];

/// Tracks the stacks of a log.
#[derive(Default)]
pub struct StackLines {
    /// Number of lines that may still precede the next line of a stack; zero outside of stacks.
    near: u32,
    frames: usize,
    /// Whether the kernel could unwind the current stack: functions that it merely found on the stack do not matter then.
    unwound: bool,
    kept: usize,
}

impl StackLines {
    /// Returns true if a line names the task of a stack, or is a function on it.
    pub fn wants(&self, text: &str) -> bool {
        names_task(text) || (self.near > 0 && self.is_function(text))
    }

    /// Returns true if a line is to be kept as part of a stack.
    pub fn take(&mut self, text: &str) -> bool {
        if names_task(text) {
            (self.frames, self.unwound) = (0, false);
        } else if self.near > 0 && self.is_function(text) {
            self.frames += 1;
            self.unwound |= frame(text).is_some_and(|frame| frame.reliable);
        } else {
            self.pass_over();
            if BEGINS.iter().any(|words| text.contains(words)) {
                (self.near, self.frames, self.unwound) = (MOST_BETWEEN, 0, false);
            }
            return false;
        }
        self.near = MOST_BETWEEN;
        self.kept += 1;
        self.frames <= MOST_FRAMES && self.kept <= MOST_LINES
    }

    fn is_function(&self, text: &str) -> bool {
        frame(text).is_some_and(|frame| frame.reliable || !self.unwound)
    }

    /// Notes a line that is not part of a stack.
    pub fn pass_over(&mut self) {
        self.near = self.near.saturating_sub(1);
    }
}

/// Returns true if a line names the task whose stack follows.
pub fn names_task(text: &str) -> bool {
    (text.starts_with("task:") || text.starts_with("CPU: ") || ends_as_task(text)) && stack_task(text).is_some()
}
