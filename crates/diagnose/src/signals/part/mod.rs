//! Devices whose errors the kernel logged, as opposed to those that only saw a reset of their bus.

mod lost;
mod suspect;

use crate::kernel_log::storage::{Errors, Event, Kind, parse};
use crate::kernel_log::{self, disk_of, has_smart};
use crate::signal::{Entity, signals};
use lost::Clock;
use std::collections::{BTreeMap, BTreeSet};
use suspect::{Suspect, Suspects};
use whyslow_documents::diagnosis::Subject;
use whyslow_model::catalogue::{LogLine, Queue};
use whyslow_model::window::Window;

/// Maximum number of entities of a kind that a text names.
const MOST_NAMED: usize = 4;
/// Sectors within this distance of one another are one spot: 64 MiB, some tens of tracks.
const ONE_SPOT: u64 = 131_072;

/// Inputs of a part's signals.
pub struct Part<'a> {
    target: &'a str,
    device: Option<&'a str>,
    model: Option<&'a str>,
    serial: Option<&'a str>,
    queue: Option<&'a Queue>,
    events: Vec<&'a Event>,
    suspect: Suspect,
    bystanders: Vec<&'a str>,
    log: &'a BTreeMap<u64, &'a LogLine>,
    clock: &'a Clock<'a>,
}

impl Part<'_> {
    fn count(&self, kind: Kind) -> f64 {
        self.events.iter().filter(|e| e.kind == kind).map(|e| e.times).sum()
    }

    /// Counts the errors of each kind. Reactions of the kernel, such as resetting or offlining the device, are not errors.
    fn by_kind(&self) -> BTreeMap<Kind, f64> {
        let mut counts: BTreeMap<Kind, f64> = BTreeMap::new();
        self.events.iter().filter(|e| e.kind.is_error()).for_each(|e| *counts.entry(e.kind).or_default() += e.times);
        counts
    }

    fn errors(&self) -> f64 {
        self.by_kind().values().fold(0.0, |sum, count| sum + count)
    }

    fn kinds(&self) -> Option<String> {
        let counts: Vec<String> = self.by_kind().into_iter().map(|(kind, count)| kind.counted(count)).collect();
        (!counts.is_empty()).then(|| counts.join(", "))
    }

    /// Describes its errors and the kernel's reactions, as the end of a sentence that begins with its name.
    fn history(&self) -> String {
        let mut counts: Vec<(Kind, f64)> = self.by_kind().into_iter().collect();
        counts.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        let counted = |(kind, count): (Kind, f64)| kind.counted(count);
        let errors = match counts[..] {
            [] => None,
            [one] => Some(format!("had {}", counted(one))),
            [first, second] => Some(format!("had {} and {}", counted(first), counted(second))),
            [first, ..] => Some(format!("had {} and {} other errors", counted(first), self.errors() - first.1)),
        };
        let reset = match self.count(Kind::Reset) {
            0.0 => None,
            1.0 => Some("reset once".to_owned()),
            2.0 => Some("reset twice".to_owned()),
            times => Some(format!("reset {times} times")),
        };
        let offline = (self.count(Kind::Offline) > 0.0).then_some("taken offline");
        let measures: Vec<&str> = reset.as_deref().into_iter().chain(offline).collect();
        let measures = (!measures.is_empty()).then(|| format!("was {}", measures.join(" and ")));
        errors.into_iter().chain(measures).collect::<Vec<_>>().join(", and ")
    }

    fn time(&self, event: Option<&&Event>) -> Option<String> {
        kernel_log::time(self.log.get(&event?.sequence)?)
    }

    /// Describes the time of its errors, without repeating what the first and the last have in common.
    fn when(&self) -> Option<String> {
        let (first, last) = (self.time(self.events.first())?, self.time(self.events.last())?);
        if first == last {
            return Some(format!("at {first}"));
        }
        let (first, last): (Vec<&str>, Vec<&str>) = (first.split(' ').collect(), last.split(' ').collect());
        let alike = first.iter().zip(&last).take_while(|(a, b)| a == b).count();
        let unit = first.iter().rev().zip(last.iter().rev()).take_while(|(a, b)| a == b).count();
        Some(format!("from {} to {}", first[..first.len() - unit].join(" "), last[alike..].join(" ")))
    }

    fn details(&self) -> Option<String> {
        some_of(self.events.iter().filter_map(|e| e.detail.as_deref()))
    }

    fn devices(&self) -> Option<String> {
        some_of(self.events.iter().filter_map(|e| e.device.as_deref()).chain(self.device))
            .or_else(|| self.disk().map(str::to_owned))
    }

    /// Returns the disk's name, for a command.
    fn disk(&self) -> Option<&str> {
        let bare = || Some(self.target).filter(|t| !t.contains([':', '.', ' ']));
        self.device.or_else(|| self.events.iter().find_map(|e| e.device.as_deref()).map(disk_of)).or_else(bare)
    }

    /// Returns the disk's name and address.
    fn called(&self) -> String {
        match self.disk().filter(|disk| *disk != self.target) {
            Some(disk) => format!("{disk} ({})", self.target),
            None => self.target.to_owned(),
        }
    }

    fn serial(&self) -> Option<&str> {
        self.queue.and_then(|q| q.serial.get()).or(self.serial)
    }

    fn model(&self) -> Option<&str> {
        self.queue.and_then(|q| q.model.get()).or(self.model)
    }

    fn spread(&self) -> Option<String> {
        let sectors: BTreeSet<u64> = self.events.iter().filter_map(|e| e.sector).collect();
        let (first, last) = (sectors.first()?, sectors.last()?);
        let place = if last - first <= ONE_SPOT { "one spot" } else { "spread" };
        Some(format!("{place}: {} different, {first} to {last}", sectors.len()))
    }
}

/// Joins the first few distinct texts.
fn some_of<'a>(texts: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut seen: Vec<&str> = Vec::new();
    for text in texts {
        if !seen.contains(&text) {
            seen.push(text);
        }
        if seen.len() > MOST_NAMED {
            break;
        }
    }
    let more = if seen.len() > MOST_NAMED { ", …" } else { "" };
    (!seen.is_empty()).then(|| seen[..seen.len().min(MOST_NAMED)].join(", ") + more)
}

signals! { p: Part<'_>;
    "part.target" "text" "host:channel:target:lun, or the port", "as the log has it", "/dev/kmsg" => p.target;
    "part.device" "text" "the disks and partitions whose requests failed", "as the log has them", "/dev/kmsg", normal "the data on it is at risk" => p.devices().as_deref();
    "part.called" "text" "the disk, and where it is", "as the log has them", "/dev/kmsg" => p.called().as_str();
    "part.disk" "text" "the disk as the system names it", "as the log has it", "/dev/kmsg" => p.disk();
    "part.smart" "text" "the disk, if it is of a kind that answers SMART commands", "as the log has it", "/dev/kmsg" => p.disk().filter(|disk| has_smart(disk));
    "part.model" "text" "vendor, model and firmware, for the replacement", "device/model; the log's own words where that is all there is", "/proc/scsi/scsi, /sys/block/*/queue, /dev/kmsg", normal "the model to order" => p.model();
    "part.serial" "text" "serial number, to find the part in its slot", "device/vpd_pg80, serial; lsblk, smartctl; of USB devices the log", "/sys/block/*/queue, /dev/kmsg", normal "the drive to replace" => p.serial();
    "part.errors" "count" "errors logged; resets, and that it was taken offline, are no errors", "lines", "/dev/kmsg", normal (near 0.0) => p.errors();
    "part.kinds" "text" "the errors by kind", "lines by kind", "/dev/kmsg", normal "none" => p.kinds().as_deref();
    "part.resets" "count" "times it or its bus was reset", "lines", "/dev/kmsg", normal (near 0.0) => p.count(Kind::Reset);
    "part.history" "text" "its errors, and what the kernel did about them", "lines by kind", "/dev/kmsg" => p.history().as_str();
    "part.when" "text" "the time from the first to the last", "as printed", "/dev/kmsg" => p.when().as_deref();
    "part.sense" "text" "what the device said: sense key and additional code (T10)", "sense data decoded", "/dev/kmsg", normal "nothing: a healthy device reports no errors" => p.details().as_deref();
    "part.medium" "count" "errors of the medium", "sense key 3h, UNC", "/dev/kmsg" => p.count(Kind::Medium);
    "part.hardware" "count" "errors of the device's hardware", "sense key 4h", "/dev/kmsg" => p.count(Kind::Hardware);
    "part.recovered" "count" "errors recovered, and failures predicted", "sense key 1h, ASC 5Dh", "/dev/kmsg" => p.count(Kind::Recovered);
    "part.transport" "count" "commands cut off or garbled in transit", "sense key Bh, interface CRC", "/dev/kmsg" => p.count(Kind::Transport);
    "part.no_answer" "count" "times the target did not answer, or was not ready", "DID_NO_CONNECT, sense key 2h", "/dev/kmsg" => p.count(Kind::NoAnswer) + p.count(Kind::NotReady);
    "part.timeouts" "count" "commands not completed in time", "time-outs, aborts", "/dev/kmsg" => p.count(Kind::Timeout) + p.count(Kind::Abort);
    "part.offline" "count" "times the kernel said it had given up on the device", "lines", "/dev/kmsg", normal (near 0.0, "the kernel has not given up on it") => p.count(Kind::Offline);
    "part.adapter" "count" "faults of a host adapter", "lines", "/dev/kmsg" => p.count(Kind::Adapter);
    "part.lost" "s" "how long, at least, commands to it were held up without success", "the times before each line put together: the command's age as logged; of a time-out, the kernel's limit of 30 s", "/dev/kmsg", normal "0 s; a log does not show other losses" => p.clock.held_up(&p.events);
    "part.lost_share" "ratio" "the same as a share of the time the log covers", "held up / (last line - first line)", "/dev/kmsg" => p.clock.share(&p.events);
    "part.log_span" "s" "the time the log covers", "last line - first line", "/dev/kmsg" => p.clock.span;
    "part.first" "text" "when the first was logged", "as printed", "/dev/kmsg" => p.time(p.events.first()).as_deref();
    "part.last" "text" "when the last was logged", "as printed", "/dev/kmsg", normal "whether it is still happening" => p.time(p.events.last()).as_deref();
    "part.sectors" "text" "where on the disk: one spot or spread", "sectors named", "/dev/kmsg", normal "in one place: a damaged area; spread out: the device or its connection" => p.spread().as_deref();
    "part.points_at" "text" "where the evidence points", "kinds of errors, and who else has them", "/dev/kmsg", normal "the kinds of errors tell disk, path, bus and adapter apart" => p.suspect.words();
    "part.suspect" "text" "the same in a word: disk, slow disk, path, bus, adapter, target or unknown", "kinds of errors, and who else has them", "/dev/kmsg" => p.suspect.name();
    "part.bystanders" "text" "devices of the same host that only report a reset, which hits them too", "unit attention 29h and nothing else", "/dev/kmsg", normal "also affected by resets: not suspect" => some_of(p.bystanders.iter().copied()).as_deref();
}

/// Returns every part with errors of its own.
pub fn entities(window: &Window) -> Vec<Entity> {
    let log = kernel_log::rows(window);
    let clock = Clock::from_window(window, &log);
    let errors = parse(kernel_log::lines(window).into_iter());
    let suspects = Suspects::from_errors(&errors, |event| Some((lost::file_of(event), clock.at(event)?)));
    let queues = Queues::from_window(window);
    let part = |target: &'_ str| {
        let logged = errors.known.name(target);
        let queue = queues.fitting(target, logged);
        let part = Part {
            target,
            device: logged.or_else(|| Some(&*queue?.device)),
            model: errors.known.model(target),
            serial: errors.known.serial(target),
            queue,
            suspect: suspects.suspect(target),
            bystanders: suspects.bystanders(target, MOST_NAMED + 1),
            events: suspects.events(target).to_vec(),
            log: &log,
            clock: &clock,
        };
        entity(&part, &errors)
    };
    suspects.suspicious().map(part).collect()
}

/// Queues of disks, by address and by name.
struct Queues<'w>(BTreeMap<&'w str, &'w Queue>);

impl<'w> Queues<'w> {
    fn from_window(window: &'w Window) -> Self {
        let mut by_name = BTreeMap::new();
        for queue in window.newest::<Queue>().into_values() {
            let names = [queue.address.get(), Some(disk_of(&queue.device))];
            names.into_iter().flatten().for_each(|name| {
                by_name.entry(name).or_insert(queue);
            });
        }
        Self(by_name)
    }

    fn fitting(&self, target: &str, device: Option<&str>) -> Option<&'w Queue> {
        self.0.get(target).or_else(|| self.0.get(device?)).copied()
    }
}

fn entity(part: &Part<'_>, errors: &Errors) -> Entity {
    let lines = [part.events.first(), part.events.last()].into_iter().flatten().map(|e| e.sequence);
    // Where the log has only the address, another tool may say which disk it is.
    let listed = part.queue.filter(|queue| queue.address.get() == Some(part.target)).map(|queue| &*queue.device);
    let devices = part.events.iter().filter_map(|e| e.device.as_deref()).chain(part.device).chain(listed);
    let names: BTreeSet<String> = devices
        .flat_map(|device| [device, disk_of(device)])
        .chain(errors.known.ports_of(part.target))
        .map(str::to_owned)
        .collect();
    Entity::from_subject(Subject::new("device", part.target), part)
        .of_rows(lines)
        .also_named(names.into_iter().collect())
}
