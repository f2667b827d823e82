//! The sampler: whatever one source does, the others are read.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use whyslow_model::catalogue::Cpu;
use whyslow_model::snapshot::{Outcome, Snapshot, SourceReport};
use whyslow_sense::{Miss, Root, Sampler, Source, Tempo};

/// A source that does as the test says, after it has written one row.
struct Made<F> {
    name: &'static str,
    tempo: Tempo,
    act: F,
}

impl<F: FnMut() -> Result<(), Miss> + Send> Source for Made<F> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn tells(&self) -> &'static str {
        "nothing"
    }

    fn tempo(&self) -> Tempo {
        self.tempo
    }

    fn read(&mut self, _: &Root, out: &mut Snapshot) -> Result<(), Miss> {
        out.processor.cpu.push(Cpu::new(0));
        (self.act)()
    }
}

fn made(name: &'static str, act: impl FnMut() -> Result<(), Miss> + Send + 'static) -> Box<dyn Source> {
    Box::new(Made { name, tempo: Tempo::Sample, act })
}

/// A source that does not return until it is told to, once for each reading.
fn hanging(name: &'static str) -> (Box<dyn Source>, Sender<()>) {
    let (release, released): (_, Receiver<()>) = channel();
    let source = made(name, move || {
        let _ = released.recv();
        Ok(())
    });
    (source, release)
}

fn sampler(sources: Vec<Box<dyn Source>>) -> Sampler {
    Sampler::with_sources(Root::captured("/nonexistent"), sources).patience(Duration::from_millis(100))
}

fn report<'s>(snapshot: &'s Snapshot, name: &str) -> &'s SourceReport {
    snapshot.sources.iter().find(|r| &*r.source == name).expect("every source that is due has a report")
}

#[test]
fn a_failing_source_keeps_what_it_read_and_the_others_go_on() {
    let mut sampler = sampler(vec![
        made("fails", || Err(Miss::Failed("bad".into()))),
        made("refused", || Err(Miss::NotPermitted { why: "no".into(), remedy: "ask".into() })),
        made("lacks", || Err(Miss::Absent("none".into()))),
        made("reads", || Ok(())),
    ]);
    let snapshot = sampler.sample();
    assert_eq!(report(&snapshot, "fails").outcome, Outcome::Failed("bad".into()));
    assert_eq!(report(&snapshot, "refused").outcome, Outcome::NotPermitted { why: "no".into(), remedy: "ask".into() });
    assert_eq!(report(&snapshot, "lacks").outcome, Outcome::Absent("none".into()));
    assert_eq!(report(&snapshot, "reads").outcome, Outcome::Read);
    assert_eq!(snapshot.processor.cpu.len(), 4);
}

#[test]
fn a_panicking_source_has_failed_and_is_read_again() {
    // Printing a panic with its stack can take a while.
    let sources = vec![made("panics", || panic!("at {}", "sea")), made("reads", || Ok(()))];
    let mut sampler = sampler(sources).patience(Duration::from_secs(60));
    for _ in 0..2 {
        let snapshot = sampler.sample();
        assert_eq!(report(&snapshot, "panics").outcome, Outcome::Failed("panicked: at sea".into()));
        assert_eq!(report(&snapshot, "reads").outcome, Outcome::Read);
    }
}

#[test]
fn a_hanging_source_is_left_behind_and_taken_up_again_when_it_returns() {
    let (first, release_first) = hanging("first");
    let (second, release_second) = hanging("second");
    let mut sampler = sampler(vec![first, made("between", || Ok(())), second, made("last", || Ok(()))]);

    let snapshot = sampler.sample();
    assert!(matches!(report(&snapshot, "first").outcome, Outcome::Hung(_)));
    assert!(matches!(report(&snapshot, "second").outcome, Outcome::Hung(_)));
    assert_eq!(report(&snapshot, "between").outcome, Outcome::Read);
    assert_eq!(report(&snapshot, "last").outcome, Outcome::Read);
    assert_eq!(snapshot.sources.len(), 4);

    // Known to hang, they are not waited for again.
    let started = Instant::now();
    let snapshot = sampler.sample();
    assert!(started.elapsed() < Duration::from_millis(100));
    assert!(matches!(report(&snapshot, "first").outcome, Outcome::Hung(_)));
    assert!(report(&snapshot, "first").wall_ns >= 100_000_000);
    assert_eq!(report(&snapshot, "last").outcome, Outcome::Read);

    // The first lets go of the reading it hung in, and of the next one.
    release_first.send(()).unwrap();
    release_first.send(()).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let snapshot = sampler.sample();
    assert_eq!(report(&snapshot, "first").outcome, Outcome::Read);
    assert!(matches!(report(&snapshot, "second").outcome, Outcome::Hung(_)));
    drop(release_second);
}

#[test]
fn who_takes_over_from_a_stuck_thread_reads_the_others() {
    let (enter, entered) = channel();
    let (release, released): (_, Receiver<()>) = channel();
    let hangs = made("hangs", move || {
        enter.send(()).unwrap();
        let _ = released.recv();
        Ok(())
    });
    let mut first = sampler(vec![made("before", || Ok(())), hangs, made("after", || Ok(()))]);
    let mut second = first.clone();
    let stuck = std::thread::spawn(move || first.sample_here(|| true));
    entered.recv().unwrap();
    let sample = second.sample_here(|| true).unwrap();
    assert!(matches!(report(&sample, "hangs").outcome, Outcome::Hung(_)));
    assert_eq!(report(&sample, "before").outcome, Outcome::Read);
    assert_eq!(report(&sample, "after").outcome, Outcome::Read);
    drop(release);
    assert!(stuck.join().unwrap().is_some());
    let sample = second.sample_here(|| true).unwrap();
    assert_eq!(report(&sample, "hangs").outcome, Outcome::Read, "it has come back");
    assert!(second.sample_here(|| false).is_none(), "nobody waits for it");
}

#[test]
fn a_slow_source_is_read_at_first_and_then_when_its_time_has_come() {
    let slow: Box<dyn Source> = Box::new(Made { name: "slow", tempo: Tempo::Slow, act: || Ok(()) });
    let mut sampler = sampler(vec![slow, made("reads", || Ok(()))]).slow(Duration::from_millis(200));
    let names = |s: &Snapshot| s.sources.iter().map(|r| r.source.to_string()).collect::<Vec<_>>();
    assert_eq!(names(&sampler.sample()), ["slow", "reads"]);
    assert_eq!(names(&sampler.sample()), ["reads"]);
    std::thread::sleep(Duration::from_millis(250));
    assert_eq!(names(&sampler.sample()), ["slow", "reads"]);
}

/// Processor time of this thread.
fn own_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call is given a timespec to fill.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) }, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[test]
fn each_source_reports_its_own_time() {
    let mut sampler = sampler(vec![
        made("sleeps", || {
            std::thread::sleep(Duration::from_millis(30));
            Ok(())
        }),
        made("works", || {
            // More than other tests of this process can use while the first one sleeps.
            while own_time() < Duration::from_millis(300) {}
            Ok(())
        }),
    ])
    .patience(Duration::from_secs(30));
    let snapshot = sampler.sample();
    let (sleeps, works) = (report(&snapshot, "sleeps"), report(&snapshot, "works"));
    assert!(sleeps.wall_ns >= 30_000_000 && works.wall_ns >= 30_000_000);
    assert!(sleeps.cpu_ns < works.cpu_ns, "{sleeps:?} {works:?}");
}

#[test]
fn between_samples_no_thread_is_left() {
    let mut sampler = Sampler::with_sources(
        Root::live(),
        vec![made("watched", || {
            let comm = std::fs::read_to_string("/proc/thread-self/comm").unwrap_or_default();
            if comm == "sources\n" { Ok(()) } else { Err(Miss::Failed(comm)) }
        })],
    );
    assert_eq!(report(&sampler.sample(), "watched").outcome, Outcome::Read);
}

#[test]
fn times_are_the_clocks_or_those_given() {
    let mut sampler = sampler(Vec::new());
    let given = sampler.sample_at(5, 7);
    assert_eq!((given.wall_ns, given.boot_ns), (5, 7));
    let (a, b) = (sampler.sample(), sampler.sample());
    assert!(a.boot_ns > 0 && b.boot_ns >= a.boot_ns);
    assert!(a.wall_ns > 1_577_836_800_000_000_000, "after 2020");
}

#[test]
fn the_list_of_sources_names_each_once() {
    let sampler = Sampler::new(Root::live());
    let mut names: Vec<_> = sampler.sources().map(|s| s.name).collect();
    assert!(sampler.sources().all(|s| !s.tells.is_empty()));
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}
