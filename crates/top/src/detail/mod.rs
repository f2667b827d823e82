//! Details of a row, shown by Enter. One file for each kind of entity.

mod connection;
mod cpu;
mod disk;
mod group;
mod interface;
mod process;

use crate::app::OpenFile;
use crate::entity::EntityId;
use crate::panel::Context;
use crate::text::{Line, bold, dim, plain};
use whyslow_model::key::TaskKey;

/// Maximum number of entries in a list.
const MOST: usize = 12;

/// Open files of a process, as last requested: its key, and its files or why they cannot be read.
pub(crate) type Files = Option<(TaskKey, Result<Vec<OpenFile>, String>)>;

/// Returns the details of an entity as a heading and lines.
pub(crate) fn page(id: &EntityId, context: &Context<'_>, files: &Files) -> Vec<Line> {
    let page = match id {
        EntityId::Process(task) => process::page(task, context, files),
        EntityId::Thread(task) => process::thread_page(task, context),
        EntityId::Group(path) => group::page(path, context),
        EntityId::Disk(name) => disk::page(name, context),
        EntityId::Interface(key) => interface::page(key, context),
        EntityId::Connection(key) => connection::page(key, context),
        EntityId::Cpu(number) => cpu::page(*number, context),
        EntityId::Memory(_) => None,
    };
    page.unwrap_or_else(|| vec![vec![dim("It is not there any more. Esc goes back.")]])
}

/// Adds a heading after a blank line.
fn heading(lines: &mut Vec<Line>, title: &str) {
    lines.push(Vec::new());
    lines.push(vec![bold(title)]);
}

/// Adds entries below a heading. Shows the first ones and counts the rest; shows `none` if the list is empty.
fn list(lines: &mut Vec<Line>, title: &str, entries: Vec<String>, none: &str) {
    heading(lines, title);
    if entries.is_empty() {
        lines.push(vec![dim(format!("  {none}"))]);
    }
    let more = entries.len().saturating_sub(MOST);
    lines.extend(entries.into_iter().take(MOST).map(|entry| vec![plain(format!("  {entry}"))]));
    if more > 0 {
        lines.push(vec![dim(format!("  and {more} more"))]);
    }
}
