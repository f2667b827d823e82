//! What a format is to the recogniser.

use crate::banner::Banner;
use crate::clock::Moment;
use crate::command::Command;
use crate::lines::Lines;
use crate::refusal::Refusal;
use crate::run::Run;
use whyslow_model::format::FormatInfo;

/// A format: how to know it, and how to read it.
pub struct Format {
    /// The tool, or the file under /proc.
    pub name: &'static str,
    /// The versions and variants that are read.
    pub versions: &'static str,
    /// What can be concluded from it alone.
    pub tells: &'static str,
    /// Whether its output starts at the next line. Looks ahead, takes nothing.
    pub starts: fn(&mut Lines<'_>) -> bool,
    /// Takes its output, up to the first line that is not its own. It takes at least one line.
    pub read: fn(&mut Lines<'_>, &Asked, &mut Run) -> Result<(), Refusal>,
}

impl Format {
    /// As people see it.
    pub fn info(&self) -> FormatInfo {
        FormatInfo { name: self.name, versions: self.versions, tells: self.tells }
    }
}

/// What is known of a capture before its output begins.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// The command at the last prompt, where there was one.
    pub command: Option<Command>,
    /// The line sysstat's tools begin with, where there was one.
    pub banner: Option<Banner>,
    /// The time that stands before it, where one was printed.
    pub at: Moment,
}

impl Asked {
    /// The day the banner tells, for tools that print the time of each row.
    pub fn day(&self) -> Moment {
        Moment { date: self.banner.as_ref().and_then(|b| b.date), time: None }
    }

    /// The interval the command was given.
    pub fn interval(&self) -> Option<f64> {
        self.command.as_ref()?.interval()
    }

    /// Whether the command was one whose output is none of ours: what it printed is passed over.
    pub fn is_of_another_tool(&self) -> bool {
        let known = |tool: &str| crate::TOOLS.contains(&tool) || crate::TOOLS_AT_PROMPTS.contains(&tool);
        self.command.as_ref().is_some_and(|c| c.tool() == "cat" || !known(c.tool()))
    }

    /// Whether the command was this tool with this option.
    pub fn has(&self, tool: &str, option: char) -> bool {
        self.command.as_ref().is_some_and(|c| c.tool() == tool && c.has(option))
    }
}
