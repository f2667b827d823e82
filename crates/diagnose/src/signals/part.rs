//! Parts whose errors the kernel logged, told apart from bystanders of a reset.

use crate::kernel_log::{self, Errors, Event, Kind};
use crate::signal::{Entity, signals};
use std::collections::{BTreeMap, BTreeSet};
use whyslow_model::catalogue::{LogLine, Queue};
use whyslow_model::diagnosis::Subject;
use whyslow_model::window::Window;

/// How many things of a kind are named in a text.
const MOST_NAMED: usize = 4;
/// Sectors that lie within this of one another are one spot: 64 MiB, some tens of tracks.
const ONE_SPOT: u64 = 131_072;

/// What the signals of a part are computed from.
pub struct Part<'a> {
    target: &'a str,
    device: Option<&'a str>,
    events: Vec<&'a Event>,
    /// Whether its link was free of errors, where the log tells.
    clean_link: Option<bool>,
    /// How many parts of the same host are suspect.
    suspects_of_host: usize,
    bystanders: Vec<&'a str>,
    queue: Option<&'a Queue>,
    log: &'a BTreeMap<u64, &'a LogLine>,
}

impl Part<'_> {
    fn count(&self, kind: Kind) -> f64 {
        self.events.iter().filter(|e| e.kind == kind).count() as f64
    }

    fn errors(&self) -> f64 {
        self.events.iter().filter(|e| e.kind != Kind::Reset).count() as f64
    }

    fn kinds(&self) -> String {
        let mut counts: BTreeMap<Kind, usize> = BTreeMap::new();
        self.events.iter().for_each(|e| *counts.entry(e.kind).or_default() += 1);
        let words = counts.into_iter().map(|(kind, count)| format!("{count} x {}", kind.word()));
        words.collect::<Vec<_>>().join(", ")
    }

    fn time(&self, event: Option<&&Event>) -> Option<String> {
        kernel_log::time(self.log.get(&event?.sequence)?)
    }

    fn details(&self) -> Option<String> {
        some_of(self.events.iter().filter_map(|e| e.detail.as_deref()))
    }

    fn devices(&self) -> Option<String> {
        some_of(self.events.iter().filter_map(|e| e.device.as_deref()).chain(self.device))
    }

    fn sectors(&self) -> BTreeSet<u64> {
        self.events.iter().filter_map(|e| e.sector).collect()
    }

    fn spread(&self) -> Option<String> {
        let sectors = self.sectors();
        let (first, last) = (sectors.first()?, sectors.last()?);
        let place = if last - first <= ONE_SPOT { "one spot" } else { "spread" };
        Some(format!("{place}: {} different, {first} to {last}", sectors.len()))
    }

    /// What the kinds of errors, and who else has them, say of where the fault lies.
    fn points_at(&self) -> &'static str {
        let has = |kind| self.count(kind) > 0.0;
        if has(Kind::Medium) || has(Kind::Hardware) {
            "the disk itself"
        } else if has(Kind::Transport) {
            "the path to it: cable, connector, backplane or host adapter"
        } else if self.clean_link == Some(true) {
            "the disk itself, which does not answer in time: the link to it reports no error (SErr 0x0)"
        } else if self.suspects_of_host > 1 {
            "the bus or the host adapter: several of its targets fail"
        } else if has(Kind::NoAnswer) || has(Kind::Timeout) || has(Kind::Offline) {
            "this one target: the disk, or its own cable and slot"
        } else if has(Kind::Recovered) {
            "the disk itself, which still recovers"
        } else {
            "not told by the log: requests failed without a reason"
        }
    }
}

/// Different texts, the first few.
fn some_of<'a>(texts: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut seen: Vec<&str> = Vec::new();
    for text in texts {
        if !seen.contains(&text) {
            seen.push(text);
        }
    }
    let more = if seen.len() > MOST_NAMED { ", …" } else { "" };
    (!seen.is_empty()).then(|| seen[..seen.len().min(MOST_NAMED)].join(", ") + more)
}

signals! { p: &Part<'_>;
    "part.target" "text" "host:channel:target:lun, or the port", "as the log has it", "/dev/kmsg" => p.target;
    "part.device" "text" "the disks and partitions whose requests failed", "as the log has them", "/dev/kmsg" => p.devices().as_deref();
    "part.model" "text" "vendor and model, for the replacement", "device/model", "/proc/scsi/scsi, /sys/block/*/queue" => p.queue.and_then(|q| q.model.get());
    "part.errors" "count" "errors logged, resets not counted", "lines", "/dev/kmsg" => p.errors();
    "part.kinds" "text" "the errors by kind", "lines by kind", "/dev/kmsg" => p.kinds().as_str();
    "part.sense" "text" "what the device said: sense key and additional code (T10)", "sense data decoded", "/dev/kmsg" => p.details().as_deref();
    "part.medium" "count" "errors of the medium", "sense key 3h, UNC", "/dev/kmsg" => p.count(Kind::Medium);
    "part.hardware" "count" "errors of the device's hardware", "sense key 4h", "/dev/kmsg" => p.count(Kind::Hardware);
    "part.recovered" "count" "errors recovered, and failures predicted", "sense key 1h", "/dev/kmsg" => p.count(Kind::Recovered);
    "part.transport" "count" "commands cut off or garbled on the way", "sense key Bh, interface CRC", "/dev/kmsg" => p.count(Kind::Transport);
    "part.no_answer" "count" "times the target did not answer", "DID_NO_CONNECT", "/dev/kmsg" => p.count(Kind::NoAnswer);
    "part.timeouts" "count" "commands not completed in time", "time-outs, aborts for time-out", "/dev/kmsg" => p.count(Kind::Timeout);
    "part.offline" "count" "times the kernel said it had given the device up", "lines", "/dev/kmsg" => p.count(Kind::Offline);
    "part.first" "text" "when the first was logged", "as printed", "/dev/kmsg" => p.time(p.events.first()).as_deref();
    "part.last" "text" "when the last was logged", "as printed", "/dev/kmsg" => p.time(p.events.last()).as_deref();
    "part.sectors" "text" "where on the disk: one spot or spread", "sectors named", "/dev/kmsg" => p.spread().as_deref();
    "part.points_at" "text" "where the evidence points", "kinds of errors, and who else has them", "/dev/kmsg" => p.points_at();
    "part.itself" "count" "1 where the evidence points at the disk itself", "medium, hardware or recovered errors; or time-outs over a link without errors", "/dev/kmsg" => p.points_at().starts_with("the disk itself");
    "part.bystanders" "text" "devices that only report a reset, which hits them too", "unit attention 29h and nothing else", "/dev/kmsg" => some_of(p.bystanders.iter().copied()).as_deref();
}

/// Every part with errors of its own.
pub fn entities(window: &Window) -> Vec<Entity> {
    let log: BTreeMap<u64, &LogLine> = kernel_log::lines(window).into_iter().map(|l| (l.sequence, l)).collect();
    let errors = kernel_log::parse(log.iter().filter_map(|(sequence, line)| Some((*sequence, line.text.get()?))));
    let queues = window.newest::<Queue>();
    let targets: BTreeSet<&str> = errors.events.iter().map(|e| e.target.as_str()).collect();
    let (suspects, bystanders): (Vec<&str>, Vec<&str>) = targets.into_iter().partition(|t| is_suspect(&errors, t));
    suspects
        .iter()
        .map(|target| {
            let device = errors.name(target);
            let fits =
                |q: &&Queue| q.address.get() == Some(target) || device == Some(&q.device) || **target == *q.device;
            let part = Part {
                target,
                device,
                events: errors.events.iter().filter(|e| e.target == *target).collect(),
                clean_link: errors.clean_links.get(*target).copied(),
                suspects_of_host: suspects.iter().filter(|s| host_of(s) == host_of(target)).count(),
                bystanders: bystanders.clone(),
                queue: queues.values().copied().find(fits),
                log: &log,
            };
            let lines = [part.events.first(), part.events.last()].into_iter().flatten().map(|e| e.sequence);
            let names = part.events.iter().filter_map(|e| e.device.as_deref()).chain(device);
            let names = names.map(|name| kernel_log::disk_of(name).to_owned()).collect::<BTreeSet<_>>();
            let rows: Vec<u64> = lines.collect();
            Entity::new(Subject::new("device", *target), read(&part))
                .of_rows(rows)
                .also_named(names.into_iter().collect())
        })
        .collect()
}

/// A reset hits bystanders too; anything else is an error of one's own.
fn is_suspect(errors: &Errors, target: &str) -> bool {
    errors.events.iter().any(|e| e.target == target && (e.kind.accuses() || e.kind == Kind::Request))
}

fn host_of(target: &str) -> &str {
    target.split([':', '.']).next().unwrap_or(target)
}
