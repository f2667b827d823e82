//! Tests of the sampler: whatever one source does, the others are read.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};
use whyslow_model::catalogue::Cpu;
use whyslow_model::snapshot::{ReadOutcome, Snapshot, SourceReport};
use whyslow_sense::{Root, Sampler, Source, SourceError, SourceInfo};

/// A source that adds a row and then calls a closure of the test.
struct TestSource<F> {
    info: SourceInfo,
    act: F,
}

impl<F: FnMut() -> Result<(), SourceError> + Send> Source for TestSource<F> {
    fn info(&self) -> SourceInfo {
        self.info
    }

    fn read(&mut self, _: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
        out.processor.cpu.push(Cpu::new(0));
        (self.act)()
    }
}

fn source(name: &'static str, act: impl FnMut() -> Result<(), SourceError> + Send + 'static) -> Box<dyn Source> {
    Box::new(TestSource { info: SourceInfo::new(name, "nothing"), act })
}

/// Creates a source that hangs in each reading until it is released.
fn hanging(name: &'static str) -> (Box<dyn Source>, Sender<()>) {
    let (release, released): (_, Receiver<()>) = channel();
    let source = source(name, move || {
        let _ = released.recv();
        Ok(())
    });
    (source, release)
}

/// Creates a sampler that does not give up on a source on a busy machine.
fn sampler(sources: Vec<Box<dyn Source>>) -> Sampler {
    Sampler::with_sources(Root::captured("/nonexistent"), sources).patience(Duration::from_secs(60))
}

fn report<'s>(snapshot: &'s Snapshot, name: &str) -> &'s SourceReport {
    snapshot.sources.iter().find(|r| &*r.source == name).expect("every source that is due has a report")
}

#[test]
fn a_failing_source_keeps_its_rows_and_the_others_are_read() {
    let mut sampler = sampler(vec![
        source("fails", || Err(SourceError::Failed("bad".into()))),
        source("refused", || Err(SourceError::NotPermitted { why: "no".into(), remedy: "ask".into() })),
        source("lacks", || Err(SourceError::Absent("none".into()))),
        source("reads", || Ok(())),
    ]);
    let snapshot = sampler.sample();
    assert_eq!(report(&snapshot, "fails").outcome, ReadOutcome::Failed("bad".into()));
    assert_eq!(
        report(&snapshot, "refused").outcome,
        ReadOutcome::NotPermitted { why: "no".into(), remedy: "ask".into() }
    );
    assert_eq!(report(&snapshot, "lacks").outcome, ReadOutcome::Absent("none".into()));
    assert_eq!(report(&snapshot, "reads").outcome, ReadOutcome::Read);
    assert_eq!(snapshot.processor.cpu.len(), 4);
}

#[test]
fn a_panicking_source_has_failed_and_is_read_again() {
    let mut sampler = sampler(vec![source("panics", || panic!("at {}", "sea")), source("reads", || Ok(()))]);
    for _ in 0..2 {
        let snapshot = sampler.sample();
        assert_eq!(report(&snapshot, "panics").outcome, ReadOutcome::Failed("panicked: at sea".into()));
        assert_eq!(report(&snapshot, "reads").outcome, ReadOutcome::Read);
    }
}

#[test]
fn a_hanging_source_is_left_behind_and_read_again_once_it_returns() {
    let (first, release_first) = hanging("first");
    let (second, release_second) = hanging("second");
    let sources = vec![first, source("between", || Ok(())), second, source("last", || Ok(()))];
    let mut sampler = sampler(sources).patience(Duration::from_millis(500));

    let snapshot = sampler.sample();
    assert!(matches!(report(&snapshot, "first").outcome, ReadOutcome::Hung(_)));
    assert!(matches!(report(&snapshot, "second").outcome, ReadOutcome::Hung(_)));
    assert_eq!(report(&snapshot, "between").outcome, ReadOutcome::Read);
    assert_eq!(report(&snapshot, "last").outcome, ReadOutcome::Read);
    assert_eq!(snapshot.sources.len(), 4);

    // The sampler does not wait for the sources again, or this would not end.
    let mut sampler = sampler.patience(Duration::from_secs(86_400));
    let snapshot = sampler.sample();
    assert!(matches!(report(&snapshot, "first").outcome, ReadOutcome::Hung(_)));
    assert!(report(&snapshot, "first").wall_ns >= 500_000_000);
    assert_eq!(report(&snapshot, "last").outcome, ReadOutcome::Read);

    // Releases the reading that hung, and the next ones.
    (0..3000).for_each(|_| release_first.send(()).unwrap());
    let start = Instant::now();
    let snapshot = loop {
        let snapshot = sampler.sample();
        if report(&snapshot, "first").outcome == ReadOutcome::Read {
            break snapshot;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", snapshot.sources);
        thread::sleep(Duration::from_millis(10));
    };
    assert!(matches!(report(&snapshot, "second").outcome, ReadOutcome::Hung(_)));
    drop(release_second);
}

#[test]
fn a_sampler_that_takes_over_from_a_stuck_thread_reads_the_others() {
    let (enter, entered) = channel();
    let (release, released): (_, Receiver<()>) = channel();
    let hangs = source("hangs", move || {
        enter.send(()).unwrap();
        let _ = released.recv();
        Ok(())
    });
    let mut first = sampler(vec![source("before", || Ok(())), hangs, source("after", || Ok(()))]);
    let mut second = first.clone();
    let stuck = thread::spawn(move || first.sample_here(|| true));
    entered.recv().unwrap();
    let sample = second.sample_here(|| true).unwrap();
    assert!(matches!(report(&sample, "hangs").outcome, ReadOutcome::Hung(_)));
    assert_eq!(report(&sample, "before").outcome, ReadOutcome::Read);
    assert_eq!(report(&sample, "after").outcome, ReadOutcome::Read);
    drop(release);
    assert!(stuck.join().unwrap().is_some());
    let sample = second.sample_here(|| true).unwrap();
    assert_eq!(report(&sample, "hangs").outcome, ReadOutcome::Read, "it has returned");
    assert!(second.sample_here(|| false).is_none(), "the sample is no longer needed");
}

#[test]
fn a_slow_source_is_read_at_the_first_sample_and_then_at_its_interval() {
    let slow: Box<dyn Source> =
        Box::new(TestSource { info: SourceInfo::new("slow", "nothing").slow(), act: || Ok(()) });
    let mut sampler = sampler(vec![slow, source("reads", || Ok(()))]).slow(Duration::from_secs(1000));
    let names = |s: &Snapshot| s.sources.iter().map(|r| r.source.to_string()).collect::<Vec<_>>();
    assert_eq!(names(&sampler.sample()), ["reads", "slow"]);
    assert_eq!(names(&sampler.sample()), ["reads"]);
    let mut sampler = sampler.slow(Duration::ZERO);
    assert_eq!(names(&sampler.sample()), ["reads", "slow"]);
}

/// Returns the CPU time of this thread.
fn own_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call is given a timespec to fill.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) }, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[test]
fn each_source_reports_its_own_time() {
    let mut sampler = sampler(vec![
        source("sleeps", || {
            thread::sleep(Duration::from_millis(30));
            Ok(())
        }),
        source("works", || {
            // More than other tests of this process can use while the first one sleeps.
            while own_time() < Duration::from_millis(300) {}
            Ok(())
        }),
    ]);
    let snapshot = sampler.sample();
    let (sleeps, works) = (report(&snapshot, "sleeps"), report(&snapshot, "works"));
    assert!(sleeps.wall_ns >= 30_000_000 && works.wall_ns >= 30_000_000);
    assert!(sleeps.cpu_ns < works.cpu_ns, "{sleeps:?} {works:?}");
}

#[test]
fn sources_are_read_in_a_thread_of_their_own() {
    let mut sampler = Sampler::with_sources(
        Root::live(),
        vec![source("watched", || {
            let comm = std::fs::read_to_string("/proc/thread-self/comm").unwrap_or_default();
            if comm == "sources\n" { Ok(()) } else { Err(SourceError::Failed(comm)) }
        })],
    );
    assert_eq!(report(&sampler.sample(), "watched").outcome, ReadOutcome::Read);
}

#[test]
fn times_are_those_of_the_clocks_or_those_given() {
    let mut sampler = sampler(Vec::new());
    let given = sampler.sample_at(5, 7);
    assert_eq!((given.wall_ns, given.boot_ns), (5, 7));
    let (a, b) = (sampler.sample(), sampler.sample());
    assert!(a.boot_ns > 0 && b.boot_ns >= a.boot_ns);
    assert!(a.wall_ns > 1_577_836_800_000_000_000, "after 2020");
}

#[test]
fn each_source_is_listed_once() {
    let sampler = Sampler::new(Root::live());
    let mut names: Vec<_> = sampler.sources().map(|s| s.name).collect();
    assert!(sampler.sources().all(|s| !s.description.is_empty()));
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}
