//! Selects one signal of one entity by name, to measure what a change does: `disk.wait@vda`, `stall.io`.

use crate::facts::Facts;
use crate::scope::Scope;
use crate::signal::{Entity, Signal};
use crate::sources::TRACEPOINTS;
use std::fmt;
use std::str::FromStr;
use whyslow_model::window::Window;

/// On-demand sources that a signal may need.
const ASKED: [&str; 5] = ["bpf/sched", "bpf/lock", "bpf/softirq", "bpf/packets", "bpf/cache"];

/// Signals of disks by the names that iostat uses.
const IOSTAT: [(&str, &str); 5] =
    [("await", "wait"), ("r_await", "read_wait"), ("w_await", "write_wait"), ("aqu-sz", "queue"), ("util", "busy")];

/// A signal of one entity, or of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignalSelector {
    name: String,
    thing: Option<String>,
}

impl SignalSelector {
    /// Returns its unit, as in the diagnosis document.
    pub fn unit(&self) -> &'static str {
        described(&self.name).map_or("", |(_, signal)| signal.unit)
    }

    /// Returns the on-demand sources that it needs.
    pub fn asks(&self) -> Vec<&'static str> {
        let from = described(&self.name).map_or("", |(_, signal)| signal.source);
        let mut asks: Vec<&str> =
            TRACEPOINTS.iter().filter(|(word, _)| from.contains(word)).map(|(_, source)| *source).collect();
        asks.retain(|source| ASKED.contains(source));
        asks.dedup();
        asks
    }

    /// Returns its value over a window; `None` if it is unknown, not a number, or differs between the entities of this name: a
    /// process that uses two devices has two entities, and some of their signals are the process' own.
    fn value(&self, facts: &Facts) -> Option<f64> {
        let of = |scope: &Scope| {
            let mut matching = facts.entities(*scope).iter().filter(|entity| self.is_of(entity));
            let number = matching.next()?.number(&self.name)?;
            matching.all(|entity| entity.number(&self.name) == Some(number)).then_some(number)
        };
        Scope::ALL.iter().find_map(of)
    }

    fn is_of(&self, entity: &Entity) -> bool {
        let Some(thing) = &self.thing else { return true };
        let subject = &entity.subject;
        subject.name == *thing
            || subject.pid.is_some_and(|pid| subject.tid.unwrap_or(pid).to_string() == *thing)
            || entity.aliases.contains(thing)
    }
}

impl fmt::Display for SignalSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.thing {
            Some(thing) => write!(f, "{}@{thing}", self.name),
            None => write!(f, "{}", self.name),
        }
    }
}

impl FromStr for SignalSelector {
    type Err = String;

    /// Parses `NAME` or `NAME@THING`; for a disk also `disk.THING.NAME`, with the names that iostat uses.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, thing) = match text.split_once('@') {
            Some((name, thing)) => (name.to_owned(), Some(thing.to_owned())),
            None => within(text).unwrap_or_else(|| (text.to_owned(), None)),
        };
        let Some((scope, signal)) = described(&name) else { return Err(unknown(&name)) };
        if signal.unit == "text" {
            return Err(format!("{name} is text; only numbers can be measured"));
        }
        match (scope, &thing) {
            (Scope::Host, Some(thing)) => Err(format!("{name} belongs to the whole machine, not to '{thing}'")),
            (Scope::Host, None) => Ok(Self { name, thing }),
            (scope, None) => {
                Err(format!("{name} exists per {0}: write {name}@{1}", scope.name(), scope.name().to_uppercase()))
            }
            (_, Some(thing)) if thing.is_empty() => Err(format!("'{text}' has nothing after the @")),
            (_, Some(_)) => Ok(Self { name, thing }),
        }
    }
}

/// Returns the value of each selected signal over a window; `None` where it is unknown.
pub fn values(window: &Window, selectors: &[SignalSelector]) -> Vec<Option<f64>> {
    if selectors.is_empty() || window.snapshots().len() < 2 {
        return vec![None; selectors.len()];
    }
    let facts = Facts::from_window(window);
    selectors.iter().map(|selector| selector.value(&facts)).collect()
}

/// Converts `disk.vda.await` to `disk.wait` of vda.
fn within(text: &str) -> Option<(String, Option<String>)> {
    let (thing, name) = text.strip_prefix("disk.")?.rsplit_once('.')?;
    let name = IOSTAT.iter().find(|(theirs, _)| *theirs == name).map_or(name, |(_, ours)| ours);
    Some((format!("disk.{name}"), Some(thing.to_owned())))
}

/// Finds the signal of a name, with the first scope that has it.
fn described(name: &str) -> Option<(Scope, &'static Signal)> {
    Scope::ALL.iter().find_map(|scope| Some((*scope, scope.signals().iter().find(|signal| signal.name == name)?)))
}

/// Returns the error, with the names that exist in the same family.
fn unknown(name: &str) -> String {
    let family = name.split('.').next().unwrap_or_default();
    let alike: Vec<&str> = Scope::ALL
        .iter()
        .flat_map(|scope| scope.signals())
        .filter(|signal| signal.name.split('.').next() == Some(family) && signal.unit != "text")
        .map(|signal| signal.name)
        .collect();
    match alike.as_slice() {
        [] => format!("there is no metric '{name}': it is time, number, or a signal such as disk.wait@sda or stall.io"),
        names => format!("there is no metric '{name}'; {family} has {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SECOND, window};
    use whyslow_model::catalogue::{Disk, ProcessRow, Requester};
    use whyslow_model::key::{OperationKey, RequesterKey, TaskKey};
    use whyslow_model::value::Name;

    fn read(text: &str) -> Result<String, String> {
        text.parse::<SignalSelector>().map(|selector| selector.to_string())
    }

    #[test]
    fn selectors_are_named_as_signals_or_as_iostat_does() {
        assert_eq!(read("disk.wait@vda").as_deref(), Ok("disk.wait@vda"));
        assert_eq!(read("disk.vda.await").as_deref(), Ok("disk.wait@vda"));
        assert_eq!(read("stall.io").as_deref(), Ok("stall.io"));
        assert!(read("disk.wait").unwrap_err().contains("disk.wait@DISK"));
        assert!(read("stall.io@vda").unwrap_err().contains("whole machine"));
        assert!(read("disk.wait@").is_err());
        assert!(read("disk.length@vda").unwrap_err().contains("disk.wait"));
        assert!(read("nonsense").unwrap_err().contains("there is no metric"));
        assert_eq!("disk.read_rate@a".parse::<SignalSelector>().unwrap().unit(), "bytes/s");
    }

    #[test]
    fn every_number_that_a_rule_reads_can_be_measured() {
        for rule in crate::RuleBook::built_in().rules() {
            for signal in rule.signals.iter().filter(|signal| signal.unit != "text") {
                let name = &signal.name;
                let selector = name.parse::<SignalSelector>().or_else(|_| format!("{name}@x").parse());
                assert!(selector.is_ok(), "{}: {name}: {selector:?}", rule.id);
            }
        }
        assert_eq!("proc.lock_wait@x".parse::<SignalSelector>().unwrap().asks(), ["bpf/sched"]);
        assert!("disk.wait@x".parse::<SignalSelector>().unwrap().asks().is_empty());
        assert!("core.costliest_line@cpu0".parse::<SignalSelector>().unwrap_err().contains("is text"));
    }

    #[test]
    fn a_selector_reads_the_signal_of_one_entity() {
        let window = window([0, 2], |t, s| {
            for (name, rate) in [("a", 100), ("b", 7)] {
                let bytes = (rate * t).into();
                s.block.disk.push(Disk { read_bytes: bytes, ..Disk::new(name.into()) });
            }
        });
        let selectors = ["disk.read_rate@b", "disk.write_rate@b", "disk.read_rate@c"].map(|text| text.parse().unwrap());
        assert_eq!(values(&window, &selectors), [Some(7.0), None, None]);
        assert_eq!(values(&Window::default(), &selectors), [None, None, None]);
    }

    /// A process requests 1000 bytes per second, with one read in flight on a and two on b.
    #[test]
    fn what_a_process_asks_for_is_one_number_however_many_devices_it_reads() {
        let task = TaskKey { pid: 7, tid: 7, start: 1 };
        let window = window([0, 2], |t, s| {
            for (device, in_flight) in [("a", 1), ("b", 2)] {
                s.block.disk.push(Disk::new(device.into()));
                let on = OperationKey { device: device.into(), operation: "read".into() };
                s.block.requester.push(Requester {
                    requests: t.into(),
                    queue_time: 0.into(),
                    device_time: (t * SECOND * in_flight).into(),
                    ..Requester::new(RequesterKey { on, task, cgroup: Name::default() })
                });
            }
            let row = ProcessRow { read_chars: (1000 * t).into(), ..ProcessRow::new(task) };
            s.task.process.push(ProcessRow { minor_faults: 0.into(), major_faults: 0.into(), ..row }.into());
        });
        let selectors = ["io.asked@7", "io.in_flight@7"].map(|text| text.parse().unwrap());
        assert_eq!(values(&window, &selectors), [Some(1000.0), None]);
    }
}
