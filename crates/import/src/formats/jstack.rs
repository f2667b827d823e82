//! jstack(1): stacks of a Java program's threads, and the locks (monitors) that they wait for (HotSpot: vframe.cpp,
//! javaVFrame::print_lock_info_on).

use crate::lines::TextLine;
use crate::prelude::*;
use std::collections::BTreeMap;
use whyslow_model::catalogue::Monitor;

pub const FORMAT: Format = Format {
    name: "jstack",
    versions: "JDK 5 to 24: jstack, jcmd PID Thread.print, kill -3; whole, or the lines that grep leaves, counted by uniq -c or not",
    shows: "which lock threads wait for, and which thread holds it",
    lacks: "for how long; locks of java.util.concurrent, for which threads are parked",
    programs: &[program("jstack"), partly_read("jcmd")],
    files: &["jstack*", "threaddump*", "thread_dump*"],
    starts: |lines| {
        lines.next_is(|line| line.starts_with(TITLE) || waited_for(line).is_some())
            || lines.next_is(is_thread) && lines.peek(1).is_some_and(|line| line.trim_start().starts_with(STATE))
    },
    read,
    ..Format::NEW
};

const TITLE: &str = "Full thread dump";
const STATE: &str = "java.lang.Thread.State:";

/// Returns true for `"http-nio-8080-exec-57" #212 daemon prio=5 os_prio=0 tid=0x00007f8a nid=0x1bbf runnable [0x00007f89]`.
fn is_thread(line: &str) -> bool {
    line.starts_with('"') && (line.contains(" prio=") || line.contains(" tid=0x") || line.contains(" nid="))
}

/// Lock that a thread waits for or holds, by its address and class.
struct Lock<'t> {
    /// Number of threads that the line stands for, if such lines were counted.
    counted: Option<f64>,
    address: &'t str,
    class: &'t str,
}

/// Parses `\t- waiting to lock <0x00000005c8a1f0e8> (a com.acme.session.SessionRegistry)`, after a number if such lines were
/// counted.
fn lock<'t>(line: &'t str, what: &str) -> Option<Lock<'t>> {
    let (before, rest) = line.split_once(what)?;
    let counted = match before.trim() {
        "" => None,
        count => Some(number(count)?),
    };
    let (address, rest) = rest.split_once("> (a ")?;
    Some(Lock { counted, address, class: rest.trim_end().strip_suffix(')')? })
}

fn waited_for(line: &str) -> Option<Lock<'_>> {
    lock(line, "- waiting to lock <")
}

/// Returns true if a line belongs to a dump.
fn is_own(line: &str) -> bool {
    const BEGINNINGS: [&str; 9] = [
        TITLE,
        STATE,
        "at ",
        "- ",
        "No compile task",
        "Locked ownable",
        "JNI global",
        "Threads class SMR",
        "_java_thread",
    ];
    let text = line.trim_start();
    is_thread(line) || waited_for(line).is_some() || BEGINNINGS.iter().any(|beginning| text.starts_with(beginning))
}

/// Information about a lock.
#[derive(Default)]
struct Seen {
    class: String,
    line: u32,
    waiters: f64,
    holder: Option<(String, Option<String>)>,
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let mut locks: BTreeMap<String, Seen> = BTreeMap::new();
    let mut thread = None;
    let mut place: Option<String> = None;
    // A thread in Object.wait() has released the lock that its stack shows as locked.
    let mut given_back: Option<String> = None;
    // Everything listed below was already listed before.
    let mut is_deadlock = false;
    let mut is_begun = false;
    while let Some(TextLine { number: at, text }) = lines.take_past_blanks_if(|text| {
        is_deadlock |= text.starts_with("Found ") && text.contains("Java-level deadlock");
        // The next dump is a separate reading.
        let is_another = is_begun && text.starts_with(TITLE);
        (is_own(text) || is_deadlock) && !is_command(text) && !is_another
    }) {
        is_begun |= text.starts_with(TITLE);
        if is_deadlock {
            continue;
        }
        if is_thread(&text) {
            given_back = None;
            thread = text[1..].split_once('"').map(|(name, _)| name.to_owned());
            place = None;
        } else if let Some(frame) = text.trim_start().strip_prefix("at ") {
            place = place.or_else(|| frame.split_once('(').map(|(method, _)| method.to_owned()));
        } else if let Some(lock) = waited_for(&text) {
            let seen = locks.entry(lock.address.to_owned()).or_default();
            seen.class = lock.class.to_owned();
            seen.line = at;
            // Each counted line belongs to a separate dump.
            seen.waiters = lock.counted.map_or(seen.waiters + 1.0, |counted| seen.waiters.max(counted));
        } else if let Some(lock) = lock(&text, "- waiting on <") {
            given_back = Some(lock.address.to_owned());
        } else if let Some(lock) = lock(&text, "- locked <")
            && let Some(name) = &thread
            && given_back.as_deref() != Some(lock.address)
        {
            locks.entry(lock.address.to_owned()).or_default().holder = Some((name.clone(), place.clone()));
        }
    }
    for seen in locks.into_values().filter(|seen| seen.waiters > 0.0) {
        let row = run.row::<Monitor>(0.0, seen.line, seen.class.as_str().into());
        // If several locks have the same class, the one with the most waiters is used.
        if row.waiters.get().is_some_and(|waiters| waiters >= seen.waiters) {
            continue;
        }
        row.waiters = seen.waiters.into();
        let (holder, place) = seen.holder.map_or((None, None), |(holder, place)| (Some(holder), place));
        row.holder = holder.as_deref().into();
        row.place = place.as_deref().into();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, row_of};

    #[test]
    fn who_waits_for_what_and_who_holds_it() {
        let row = row_of::<Monitor>(&fixture("layouts/jstack.txt"));
        assert_eq!(&*row.class, "com.acme.session.SessionRegistry");
        assert_eq!((row.waiters.get(), row.holder.get()), (Some(3.0), Some("http-nio-8080-exec-57")));
        assert_eq!(row.place.get(), Some("java.util.HashMap$HashIterator.nextNode"));
    }

    #[test]
    fn lines_that_were_counted() {
        let text = "    163 \t- waiting to lock <0x5c8a> (a com.acme.A)\n      1 \t- waiting to lock <0x5c91> (a com.acme.B)\n    \
                    171 \t- waiting to lock <0x5c8a> (a com.acme.A)\n";
        let window = crate::testing::window_of(text);
        let waiters: Vec<_> = window.newest::<Monitor>().values().map(|m| m.waiters.get()).collect();
        assert_eq!(waiters, [Some(171.0), Some(1.0)]);
    }
}
