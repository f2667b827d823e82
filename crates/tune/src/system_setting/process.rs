//! Properties of a running process, by system calls. A property that each thread has for itself is set for all of them, but only
//! if they agree: otherwise the original values could not be restored.

use super::{Handle, sorted};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::io;
use whyslow_documents::tune::Unavailable;
use whyslow_model::cpu_list;

#[derive(Clone, Copy)]
enum ProcessProperty {
    Nice,
    Cpus,
    Ionice,
    /// `RLIMIT_*`, whose type depends on the C library.
    Limit(u32),
}

/// Names of the I/O classes, by number (include/uapi/linux/ioprio.h).
const CLASSES: [&str; 4] = ["none", "realtime", "best-effort", "idle"];
const CLASS_SHIFT: i32 = 13;
const WHO_PROCESS: i32 = 1;
const UNLIMITED: &str = "unlimited";

pub(super) struct ProcessSetting {
    property: ProcessProperty,
    pid: libc::pid_t,
}

impl ProcessSetting {
    /// Returns a property of a process.
    ///
    /// # Errors
    /// `Failed` if the catalogue names an unknown property, or the PID is not a number.
    pub(super) fn for_process(name: &str, pid: &str) -> Result<Self, Unavailable> {
        let property = match name {
            "nice" => ProcessProperty::Nice,
            "cpus" => ProcessProperty::Cpus,
            "ionice" => ProcessProperty::Ionice,
            "nofile" => ProcessProperty::Limit(libc::RLIMIT_NOFILE as _),
            "nproc" => ProcessProperty::Limit(libc::RLIMIT_NPROC as _),
            "memlock" => ProcessProperty::Limit(libc::RLIMIT_MEMLOCK as _),
            other => return Err(Unavailable::Failed(format!("a process has no property {other}"))),
        };
        let pid = pid.parse().map_err(|_| Unavailable::Failed(format!("there is no process '{pid}'")))?;
        Ok(Self { property, pid })
    }

    /// Lists the threads of the process.
    fn threads(&self) -> Result<Vec<libc::pid_t>, Unavailable> {
        let folder = format!("/proc/{}/task", self.pid);
        let entries = std::fs::read_dir(&folder).map_err(|_| self.gone())?;
        Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
    }

    fn gone(&self) -> Unavailable {
        Unavailable::Absent(format!("no process {}", self.pid))
    }

    fn failed(&self, error: &io::Error) -> Unavailable {
        sorted(&format!("process {}", self.pid), error)
    }

    fn of_thread(&self, thread: libc::pid_t) -> io::Result<String> {
        match self.property {
            ProcessProperty::Nice => nice(thread).map(|nice| nice.to_string()),
            ProcessProperty::Cpus => cpus(thread),
            ProcessProperty::Ionice => ionice(thread),
            ProcessProperty::Limit(resource) => limit(thread, resource),
        }
    }

    fn set_thread(&self, thread: libc::pid_t, value: &str) -> io::Result<()> {
        match self.property {
            ProcessProperty::Nice => set_nice(thread, value),
            ProcessProperty::Cpus => set_cpus(thread, value),
            ProcessProperty::Ionice => set_ionice(thread, value),
            ProcessProperty::Limit(resource) => set_limit(thread, resource, value),
        }
    }
}

impl Handle for ProcessSetting {
    fn read(&self) -> Result<String, Unavailable> {
        if let ProcessProperty::Limit(_) = self.property {
            return self.of_thread(self.pid).map_err(|e| self.failed(&e));
        }
        let mut common: Option<String> = None;
        for thread in self.threads()? {
            let own = match self.of_thread(thread) {
                // A thread may end meanwhile.
                Err(e) if e.raw_os_error() == Some(libc::ESRCH) => continue,
                other => other.map_err(|e| self.failed(&e))?,
            };
            match &common {
                Some(common) if *common != own => {
                    return Err(Unavailable::Unsupported(format!(
                        "the threads of process {} have different values ({common} and {own}); not changed",
                        self.pid
                    )));
                }
                _ => common = Some(own),
            }
        }
        common.ok_or_else(|| self.gone())
    }

    fn spelled(&self, value: &str) -> Result<String, String> {
        match self.property {
            ProcessProperty::Ionice => {
                io_priority(value).map(|(class, level)| io_priority_words(class, level)).ok_or_else(|| {
                    format!("'{value}' is not an I/O priority: {}, and a level from 0 to 7", CLASSES.join(", "))
                })
            }
            _ => Ok(value.to_owned()),
        }
    }

    fn write(&self, value: &str) -> Result<(), Unavailable> {
        let threads = if let ProcessProperty::Limit(_) = self.property { vec![self.pid] } else { self.threads()? };
        for thread in threads {
            match self.set_thread(thread, value) {
                Err(e) if e.raw_os_error() == Some(libc::ESRCH) => {}
                other => other.map_err(|e| self.failed(&e))?,
            }
        }
        Ok(())
    }
}

fn invalid() -> io::Error {
    io::Error::from_raw_os_error(libc::EINVAL)
}

fn outcome(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn nice(thread: libc::pid_t) -> io::Result<i32> {
    // -1 is a value as well as an error; only errno distinguishes them.
    // SAFETY: the location of errno is valid for the life of this thread.
    unsafe { *libc::__errno_location() = 0 };
    // SAFETY: getpriority has no preconditions.
    let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, thread as libc::id_t) };
    let error = io::Error::last_os_error();
    if nice == -1 && error.raw_os_error() != Some(0) { Err(error) } else { Ok(nice) }
}

fn set_nice(thread: libc::pid_t, value: &str) -> io::Result<()> {
    let nice = value.parse().map_err(|_| invalid())?;
    // SAFETY: setpriority has no preconditions.
    outcome(unsafe { libc::setpriority(libc::PRIO_PROCESS, thread as libc::id_t, nice) })
}

fn cpus(thread: libc::pid_t) -> io::Result<String> {
    let set = sched_getaffinity(Pid::from_raw(thread))?;
    let is_in = |cpu: &u32| set.is_set(*cpu as usize) == Ok(true);
    Ok(cpu_list::format(&(0..CpuSet::count() as u32).filter(is_in).collect()))
}

fn set_cpus(thread: libc::pid_t, value: &str) -> io::Result<()> {
    let mut set = CpuSet::new();
    cpu_list::parse(value).ok_or_else(invalid)?.into_iter().try_for_each(|cpu| set.set(cpu as usize))?;
    Ok(sched_setaffinity(Pid::from_raw(thread), &set)?)
}

fn ionice(thread: libc::pid_t) -> io::Result<String> {
    // SAFETY: ioprio_get has no preconditions.
    let priority = unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, thread) } as i32;
    outcome(priority)?;
    let class = (priority >> CLASS_SHIFT) as usize & 7;
    if class < CLASSES.len() { Ok(io_priority_words(class, priority & 7)) } else { Err(invalid()) }
}

fn io_priority_words(class: usize, level: i32) -> String {
    match CLASSES[class] {
        word @ ("none" | "idle") => word.to_owned(),
        word => format!("{word} {level}"),
    }
}

/// Parses class and level, by the names and numbers of ionice(1), whose default level is 4. Classes without levels have 0.
fn io_priority(value: &str) -> Option<(usize, i32)> {
    let (class, level) = value.split_once(' ').unwrap_or((value, "4"));
    let number = || class.parse::<usize>().ok().filter(|class| *class < CLASSES.len());
    let class = CLASSES.iter().position(|word| *word == class).or_else(number)?;
    let level = level.parse().ok().filter(|level| (0..8).contains(level))?;
    Some((class, if matches!(CLASSES[class], "none" | "idle") { 0 } else { level }))
}

fn set_ionice(thread: libc::pid_t, value: &str) -> io::Result<()> {
    let (class, level) = io_priority(value).ok_or_else(invalid)?;
    let class = class as i32;
    // SAFETY: ioprio_set has no preconditions.
    outcome(unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, thread, class << CLASS_SHIFT | level) } as i32)
}

fn limit(pid: libc::pid_t, resource: u32) -> io::Result<String> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel fills `limit`; there is no new one.
    outcome(unsafe { libc::prlimit(pid, resource as _, std::ptr::null(), &raw mut limit) })?;
    let word =
        |number: libc::rlim_t| if number == libc::RLIM_INFINITY { UNLIMITED.to_owned() } else { number.to_string() };
    Ok(format!("{} {}", word(limit.rlim_cur), word(limit.rlim_max)))
}

fn set_limit(pid: libc::pid_t, resource: u32, value: &str) -> io::Result<()> {
    let number = |text: &str| match text {
        UNLIMITED => Ok(libc::RLIM_INFINITY),
        text => text.parse::<libc::rlim_t>().map_err(|_| invalid()),
    };
    let (soft, hard) = value.split_once(' ').ok_or_else(invalid)?;
    let limit = libc::rlimit { rlim_cur: number(soft)?, rlim_max: number(hard)? };
    // SAFETY: the kernel reads `limit`; the old one is not asked for.
    outcome(unsafe { libc::prlimit(pid, resource as _, &raw const limit, std::ptr::null_mut()) })
}

#[cfg(test)]
mod tests {
    use crate::machine::Machine;
    use crate::system_setting::SystemSetting;
    use std::process::Command;
    use whyslow_documents::tune::Unavailable;

    #[test]
    fn a_process_of_our_own_is_set_and_set_back() {
        let mut child = whyslow_testing::ends_with_test(Command::new("sleep").arg("60")).spawn().unwrap();
        let outcome = std::panic::catch_unwind(|| {
            for (name, value) in
                [("nice", "7"), ("cpus", "0"), ("ionice", "idle"), ("ionice", "best-effort 5"), ("nofile", "64 128")]
            {
                let setting =
                    SystemSetting::named(&Machine::live(), &format!("process.{name}@{}", child.id())).unwrap();
                let before = setting.read().unwrap();
                assert_eq!(setting.write(value).unwrap(), value, "{name}");
                // Without privileges, nice values and hard limits cannot be restored.
                if before != value && matches!(name, "cpus") {
                    assert_eq!(setting.write(&before).unwrap(), before, "{name}");
                }
            }
        });
        child.kill().unwrap();
        child.wait().unwrap();
        outcome.unwrap();
        let gone = SystemSetting::named(&Machine::live(), &format!("process.nice@{}", child.id()));
        assert!(matches!(gone.map(|_| ()), Err(Unavailable::Absent(_))));
    }
}
