//! Memory reclaim, in the background by kernel threads (kswapd, kcompactd) or directly by programs that allocate memory
//! (mm/vmscan.c, mm/compaction.c). Pressure does not distinguish them (kernel/sched/psi.c).

use super::sleep::ReclaimUse;
use super::task::TaskUse;
use crate::signal::{over, page_size, sum};
use crate::sources::Sources;
use whyslow_model::catalogue::{DirectReclaim, Vmstat};
use whyslow_model::value::Counter;
use whyslow_model::window::{Change, Window};

/// The source that measures reclaim by programs.
const SOURCE: &str = "bpf/reclaim";
/// Bytes per second of swap-ins or refaults above which programs also wait for those.
const PAGED_IN: f64 = 100e3;

/// Reclaim of memory over a window.
#[derive(Default)]
pub struct Reclaim<'w> {
    vmstat: Option<Change<'w, Vmstat>>,
    page_size: f64,
    /// The programs that reclaimed most, compacted most, and did most of both together.
    reclaimed: OwnWork<'w>,
    compacted: OwnWork<'w>,
    worked: OwnWork<'w>,
    /// CPUs' worth of time of kswapd.
    kswapd: Option<f64>,
    /// Share of the time in which kswapd or kcompactd were at work, at most 1.
    background: Option<f64>,
}

/// Work that programs did for their own memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum OwnWork<'w> {
    /// The work was not traced, or not for long enough.
    #[default]
    Unknown,
    None,
    /// The program that did most, and its mean number of threads doing it.
    Most(&'w str, f64),
}

impl<'w> OwnWork<'w> {
    /// Finds the program with the most work; `is_traced` is true if the whole window was traced.
    fn most(tasks: &'w [TaskUse], is_traced: bool, part: impl Fn(&ReclaimUse) -> Option<f64>) -> Self {
        let parts = tasks.iter().filter(|task| !task.kernel);
        let parts = parts.filter_map(|task| Some((task, part(&task.sleep.reclaim).filter(|part| *part > 0.0)?)));
        match parts.max_by(|a, b| a.1.total_cmp(&b.1)) {
            Some((task, threads)) => Self::Most(&task.command, threads),
            None if is_traced => Self::None,
            None => Self::Unknown,
        }
    }

    /// Replaces `Unknown` by `None` if a kernel counter shows that there was no such work.
    fn or_counted(self, times: Option<f64>) -> Self {
        if self == Self::Unknown && times == Some(0.0) { Self::None } else { self }
    }

    /// Returns the share of the time that the program lost, at most 1.
    pub fn lost(self) -> Option<f64> {
        match self {
            Self::Unknown => None,
            Self::None => Some(0.0),
            Self::Most(_, threads) => Some(threads.min(1.0)),
        }
    }

    /// Returns the program that lost most.
    pub fn program(self) -> Option<&'w str> {
        if let Self::Most(name, _) = self { Some(name) } else { None }
    }
}

impl<'w> Reclaim<'w> {
    /// Computes the reclaim of this window by these processes.
    pub fn from_window(window: &'w Window, sources: &Sources, tasks: &'w [TaskUse]) -> Self {
        let vmstat = window.change::<Vmstat>();
        let grown = |f: fn(&Vmstat) -> Counter| vmstat.as_ref().and_then(|v| v.grown(f));
        let rows = window.changes::<DirectReclaim>();
        // Rows that were read once do not show what was done in between.
        let is_traced = if rows.is_empty() {
            sources.was_read(SOURCE)
        } else {
            rows.iter().any(|row| row.grown(|r| r.reclaim).is_some())
        };
        let most = |part: fn(&ReclaimUse) -> Option<f64>| OwnWork::most(tasks, is_traced, part);
        let kernel = |names: &'static [&str]| {
            tasks.iter().filter(move |t| t.kernel && names.iter().any(|name| t.command.starts_with(name)))
        };
        let at_work = |task: &TaskUse| Some(task.cpu? + task.run_delay.unwrap_or(0.0) + task.blocked);
        let background =
            kernel(&["kswapd", "kcompactd", "arc_reclaim", "arc_evict"]).filter_map(at_work).reduce(|a, b| a + b);
        let stalls = grown(|v| v.allocstall);
        Self {
            page_size: page_size(window),
            reclaimed: most(|r| r.machine).or_counted(stalls),
            compacted: most(|r| r.compaction).or_counted(grown(|v| v.compact_stall).zip(stalls).map(|(a, b)| a + b)),
            worked: most(ReclaimUse::all),
            kswapd: kernel(&["kswapd"]).filter_map(|task| task.cpu).reduce(|a, b| a + b),
            background: background.map(|share| share.min(1.0)),
            vmstat,
        }
    }

    /// Returns the work of programs to reclaim memory of the machine.
    pub fn reclaimed(&self) -> OwnWork<'w> {
        self.reclaimed
    }

    /// Returns the work of programs to get blocks of contiguous pages.
    pub fn compacted(&self) -> OwnWork<'w> {
        self.compacted
    }

    /// Returns the share of the time in which kernel threads reclaimed or compacted memory.
    pub fn background(&self) -> Option<f64> {
        self.background
    }

    /// Returns the bytes reclaimed per second, by kswapd and by programs.
    pub fn rate(&self) -> Option<f64> {
        let vmstat = self.vmstat.as_ref()?;
        Some(sum([vmstat.rate(|v| v.pgsteal_kswapd), vmstat.rate(|v| v.pgsteal_direct)])? * self.page_size)
    }

    /// Returns the share of the reclaimed pages that programs reclaimed themselves.
    pub fn direct_share(&self) -> Option<f64> {
        let vmstat = self.vmstat.as_ref()?;
        let direct = vmstat.rate(|v| v.pgsteal_direct)?;
        over(Some(direct), Some(direct + vmstat.rate(|v| v.pgsteal_kswapd)?))
    }

    /// Estimates the mean number of programs in direct reclaim, at most 1, from the pages they scanned at kswapd's speed.
    pub fn estimate(&self) -> Option<f64> {
        let vmstat = self.vmstat.as_ref()?;
        let ratio = over(vmstat.grown(|v| v.pgscan_direct), vmstat.grown(|v| v.pgscan_kswapd))?;
        Some((self.kswapd? * ratio).min(1.0))
    }

    /// Returns the programs' part of the share of the time in which any task waited for memory. Subtracts background reclaim
    /// only if direct reclaim was traced, and if programs cannot have waited for anything else.
    pub fn programs_wait(&self, pressure: f64) -> f64 {
        let paged_in = |f: fn(&Vmstat) -> Counter| {
            self.vmstat.as_ref().and_then(|v| v.rate(f)).is_none_or(|pages| pages * self.page_size > PAGED_IN)
        };
        match (self.worked.lost(), self.background) {
            (Some(own), Some(background)) if !paged_in(|v| v.pswpin) && !paged_in(|v| v.workingset_refault_file) => {
                own.max(pressure - background)
            }
            _ => pressure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signals::blocked::Blocked;
    use crate::signals::task;
    use crate::testing::{SECOND, window};
    use whyslow_model::catalogue::{Process, ProcessRow};
    use whyslow_model::key::TaskKey;

    const KSWAPD: TaskKey = TaskKey { pid: 50, tid: 50, start: 1 };
    const PROGRAM: TaskKey = TaskKey { pid: 700, tid: 700, start: 9 };

    /// Returns a window in which kswapd uses 0.4 CPUs and waits 0.05 s per second for one, and scans 4,000 pages. A program
    /// scans 1,000.
    fn reclaiming(refaults: u64, traced: impl Fn(u64) -> Option<DirectReclaim>) -> Window {
        window([0, 2], |t, s| {
            let process = |task, name: &str, kernel: u64, cpu_ms: u64, delay_ms: u64| ProcessRow {
                command: name.into(),
                kernel_thread: kernel.into(),
                user: 0.into(),
                system: (t * cpu_ms * SECOND / 1000).into(),
                run_delay: (t * delay_ms * SECOND / 1000).into(),
                ..ProcessRow::new(task)
            };
            s.task
                .process
                .extend([process(KSWAPD, "kswapd0", 1, 400, 50).into(), process(PROGRAM, "web", 0, 500, 0).into()]);
            s.task.direct_reclaim.extend(traced(t));
            s.memory.vmstat.push(Vmstat {
                pgscan_kswapd: (t * 4000).into(),
                pgscan_direct: (t * 1000).into(),
                pgsteal_kswapd: (t * 3000).into(),
                pgsteal_direct: (t * 1000).into(),
                pswpin: 0.into(),
                workingset_refault_file: (t * refaults).into(),
                allocstall: (t * 30).into(),
                compact_stall: 5.into(),
                ..Vmstat::default()
            });
        })
    }

    fn with<T>(window: &Window, check: impl FnOnce(Reclaim<'_>) -> T) -> T {
        let changes = window.changes::<Process>();
        let tasks = task::processes(window, &changes, &Blocked::from_window(window));
        check(Reclaim::from_window(window, &Sources::from_window(window), &tasks))
    }

    fn web(reclaim_ms: u64) -> impl Fn(u64) -> Option<DirectReclaim> {
        move |t| {
            let ns = (t * reclaim_ms * SECOND / 1000).into();
            Some(DirectReclaim { reclaim: ns, compaction: 0.into(), ..DirectReclaim::new(PROGRAM) })
        }
    }

    #[test]
    fn the_program_that_reclaims_most_is_named() {
        with(&reclaiming(0, web(150)), |reclaim| {
            assert_eq!(reclaim.reclaimed(), OwnWork::Most("web", 0.15));
            assert_eq!(reclaim.compacted(), OwnWork::None);
            // 4,000 pages of 4 KiB per second, one in four of them by the program.
            assert_eq!((reclaim.rate(), reclaim.direct_share()), (Some(16_384_000.0), Some(0.25)));
        });
    }

    #[test]
    fn what_was_not_traced_is_estimated_from_what_was_scanned() {
        with(&reclaiming(0, |_| None), |reclaim| {
            assert_eq!(reclaim.reclaimed(), OwnWork::Unknown);
            assert_eq!(reclaim.reclaimed().lost(), None);
            assert_eq!(reclaim.compacted(), OwnWork::Unknown, "some reclaim may have been for large blocks");
            // A quarter of what kswapd scanned, for which it used 0.4 CPUs.
            assert_eq!(reclaim.estimate(), Some(0.1));
        });
    }

    #[test]
    fn where_the_kernel_counted_none_there_was_none() {
        let idle = window([0, 2], |_, s| {
            s.memory.vmstat.push(Vmstat { allocstall: 7.into(), compact_stall: 5.into(), ..Vmstat::default() });
        });
        with(&idle, |reclaim| {
            assert_eq!((reclaim.reclaimed().lost(), reclaim.compacted().lost()), (Some(0.0), Some(0.0)));
            assert_eq!((reclaim.background(), reclaim.estimate(), reclaim.direct_share()), (None, None, None));
            assert_eq!(reclaim.programs_wait(0.3), 0.3, "the limits of groups are not counted");
        });
    }

    #[test]
    fn a_program_that_was_read_once_may_have_reclaimed() {
        let once = |t| (t == 2).then(|| web(150)(t))?;
        with(&reclaiming(0, once), |reclaim| assert_eq!(reclaim.reclaimed(), OwnWork::Unknown));
    }

    #[test]
    fn reclaim_in_the_background_keeps_no_program_waiting() {
        let wait = |refaults, traced: bool, pressure: f64| {
            let window = reclaiming(refaults, move |t| traced.then(|| web(20)(t))?);
            (with(&window, |reclaim| reclaim.programs_wait(pressure)) * 1000.0).round() / 1000.0
        };
        // kswapd is at work 45 % of the time.
        assert_eq!(wait(0, true, 0.45), 0.02);
        assert_eq!(wait(0, true, 0.75), 0.3, "for something that was not traced");
        assert_eq!(wait(0, false, 0.45), 0.45);
        // 100 pages per second are refaulted.
        assert_eq!(wait(100, true, 0.45), 0.45);
    }
}
