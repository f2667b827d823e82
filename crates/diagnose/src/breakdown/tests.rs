use super::*;
use whyslow_documents::time_breakdown::{LockedThread, ProgramTime, TimeBreakdown};

fn part(kind: TimeKind, share: f64, by: &[(&str, &str, Option<u32>, f64)]) -> TimePart {
    let contributor = |&(kind, name, pid, share): &(&str, &str, Option<u32>, f64)| Contributor {
        kind: kind.into(),
        name: name.into(),
        pid,
        share,
    };
    let by = by.iter().map(contributor).collect();
    let (functions, released_in, programs) = (Vec::new(), Vec::new(), Vec::new());
    TimePart { kind, seconds: share * 10.0, share, times: 1, by, functions, released_in, programs }
}

fn concluded(parts: Vec<TimePart>, chain: Vec<ChainLink>, root: &[TimePart]) -> TimeBreakdown {
    let mut breakdown = TimeBreakdown { target: "app (pid 1)".into(), parts, chain, ..TimeBreakdown::default() };
    conclude(&mut breakdown, root, &[]);
    breakdown
}

#[test]
fn the_longest_part_that_is_not_idle_is_named() {
    let fsync = part(TimeKind::Fsync, 0.7, &[("device", "vda", None, 1.0)]);
    let found = concluded(vec![fsync, part(TimeKind::User, 0.3, &[])], Vec::new(), &[]);
    assert_eq!(found.conclusion, "app (pid 1) spends 70 % of its time waiting for fsync on vda.");
    assert!((found.advice.as_ref().unwrap().saves - 0.7).abs() < 1e-9);
    assert!(found.advice.unwrap().text.contains("(vda)"));
}

#[test]
fn idle_threads_do_not_hide_what_is_slow() {
    let parts = vec![part(TimeKind::Poll, 0.9, &[]), part(TimeKind::User, 0.08, &[]), part(TimeKind::Read, 0.02, &[])];
    let found = concluded(parts, Vec::new(), &[]);
    assert_eq!(
        found.conclusion,
        "app (pid 1) has nothing to do 90 % of the time; of the rest, 80 % is on a CPU, in its own code."
    );
    assert!((found.advice.unwrap().saves - 0.8).abs() < 1e-9);
}

#[test]
fn a_program_without_work_is_idle() {
    let found = concluded(vec![part(TimeKind::Poll, 0.999, &[("client", "wrk", None, 0.5)])], Vec::new(), &[]);
    assert_eq!(
        found.conclusion,
        "app (pid 1) has nothing to do: 100 % of its time it is waiting for events (its clients: wrk)."
    );
    assert_eq!(found.advice, None);
}

#[test]
fn the_end_of_the_chain_is_the_cause() {
    let wait = part(TimeKind::Receive, 0.95, &[("process", "db", Some(2), 1.0)]);
    let of_db = [part(TimeKind::Fsync, 0.9, &[("device", "vdb", None, 1.0)]), part(TimeKind::User, 0.1, &[])];
    assert_eq!(waited_for(std::slice::from_ref(&wait)), Some(Awaited::Process(2)));
    let chain = vec![link("app", 1, None, std::slice::from_ref(&wait)), link("db", 2, None, &of_db)];
    let found = concluded(vec![wait, part(TimeKind::User, 0.05, &[])], chain, &of_db);
    assert_eq!(
        found.conclusion,
        "app (pid 1) spends 95 % of its time waiting for data from its peer: db (pid 2); in the end the time goes to db (pid 2), waiting for fsync on vdb."
    );
    let advice = found.advice.unwrap();
    assert!((advice.saves - 0.95 * 0.9).abs() < 1e-9);
    assert!(advice.text.contains("vdb"), "{}", advice.text);
}

#[test]
fn a_program_that_is_waited_for_is_not_idle_while_it_sleeps() {
    let wait = part(TimeKind::Receive, 1.0, &[("process", "db", Some(2), 1.0)]);
    let of_db = of_waited_for(&[part(TimeKind::Sleep, 0.98, &[]), part(TimeKind::CpuWait, 0.02, &[])]);
    let chain = vec![link("app", 1, None, std::slice::from_ref(&wait)), link("db", 2, None, &of_db)];
    let found = concluded(vec![wait], chain, &of_db);
    assert!(found.conclusion.ends_with("in the end the time goes to db (pid 2), asleep."), "{}", found.conclusion);
    assert!(found.advice.unwrap().text.starts_with("Shorten the pause of db (pid 2)"));
}

#[test]
fn a_deadlock_is_named_first() {
    let thread = |name: &str, tid| LockedThread { name: name.into(), tid };
    let mut breakdown = TimeBreakdown {
        target: "app (pid 1)".into(),
        parts: vec![part(TimeKind::Lock, 1.0, &[])],
        deadlock: vec![thread("one", 2), thread("two", 3)],
        ..TimeBreakdown::default()
    };
    conclude(&mut breakdown, &[], &[]);
    assert_eq!(
        breakdown.conclusion,
        "app (pid 1) is deadlocked: the threads one (tid 2) and two (tid 3) wait for each other's locks."
    );
}

#[test]
fn a_stopped_program_is_not_idle() {
    let found = concluded(vec![part(TimeKind::Stopped, 1.0, &[])], Vec::new(), &[]);
    assert_eq!(found.conclusion, "app (pid 1) spends 100 % of its time stopped.");
}

#[test]
fn an_idle_holder_of_a_lock_is_asked_to_release_it() {
    let wait = part(TimeKind::Lock, 1.0, &[("process", "postgres", Some(2), 1.0)]);
    let of_holder = [part(TimeKind::Poll, 1.0, &[("client", "psql", Some(3), 1.0)])];
    let chain = vec![link("postgres", 1, None, std::slice::from_ref(&wait)), link("postgres", 2, None, &of_holder)];
    let found = concluded(vec![wait], chain, &of_holder);
    assert_eq!(
        found.advice.unwrap().text,
        "Have postgres (pid 2) release its lock: it holds it while it is waiting for its client psql (pid 3)."
    );
}

#[test]
fn whoever_is_waited_for_little_is_not_followed() {
    let parts = [part(TimeKind::User, 0.9, &[]), part(TimeKind::Pipe, 0.1, &[("process", "tail", Some(3), 1.0)])];
    assert_eq!(waited_for(&parts), None);
    let client = [part(TimeKind::Poll, 1.0, &[("client", "wrk", Some(4), 1.0)])];
    assert_eq!(waited_for(&client), None);
}

#[test]
fn waiting_for_its_own_children_does_not_count() {
    let parts = vec![part(TimeKind::Child, 0.5, &[("member", "sort", Some(5), 1.0)]), part(TimeKind::User, 0.5, &[])];
    let found = concluded(parts, Vec::new(), &[]);
    // All of the half that is not the child's.
    assert!(found.conclusion.contains("spends 100 % of its time on a CPU"), "{}", found.conclusion);
}

#[test]
fn children_and_the_holders_of_locks_are_followed() {
    let child = [part(TimeKind::Child, 0.9, &[("process", "cc1", Some(5), 0.5), ("process", "as", Some(6), 0.5)])];
    assert_eq!(waited_for(&child), Some(Awaited::Children));
    let lock =
        |share| [part(TimeKind::Lock, 0.8, &[("thread", "hog", Some(7), share)]), part(TimeKind::User, 0.2, &[])];
    assert_eq!((waited_for(&lock(0.9)), waited_for(&lock(0.4))), (Some(Awaited::Thread(7)), None));
}

#[test]
fn the_thread_that_holds_a_lock_is_the_end_of_the_chain() {
    let mut lock = part(TimeKind::Lock, 0.8, &[("thread", "hog", Some(7), 1.0)]);
    lock.released_in = vec![FunctionShare { name: "flush_log".into(), share: 1.0 }];
    let of_hog = [part(TimeKind::Fsync, 1.0, &[("device", "vda", None, 1.0)])];
    let chain = vec![link("app", 1, None, std::slice::from_ref(&lock)), link("hog", 1, Some(7), &of_hog)];
    let found = concluded(vec![lock, part(TimeKind::Fsync, 0.2, &[])], chain, &of_hog);
    assert_eq!(
        found.conclusion,
        "app (pid 1) spends 80 % of its time waiting for a lock that thread hog (tid 7) holds in flush_log; in the end the time goes to thread hog (tid 7), waiting for fsync on vda."
    );
}

#[test]
fn many_short_processes_are_the_cause() {
    // A shell that waits for its children: they live 0.75 s of its 1 s.
    let parts = vec![
        part(TimeKind::Child, 0.375, &[("member", "true", Some(5), 1.0)]),
        part(TimeKind::Kernel, 0.5, &[]),
        part(TimeKind::User, 0.125, &[]),
    ];
    let program = |name: &str, processes, seconds| ProgramTime { name: name.into(), processes, seconds, on_cpu: 0.0 };
    let mut breakdown = TimeBreakdown {
        target: "sh".into(),
        thread_seconds: 1.6,
        samples: 4,
        parts,
        programs: vec![program("sh", 1, 1.0), program("true", 300, 0.75)],
        ..TimeBreakdown::default()
    };
    conclude(&mut breakdown, &[], &[]);
    assert_eq!(breakdown.conclusion, "sh spends 80 % of its time on a CPU, in the kernel; it started true 300 times.");
    let advice = breakdown.advice.unwrap();
    assert!((advice.saves - 0.75).abs() < 1e-9, "{advice:?}");
    assert!(advice.text.contains("2.50 ms"), "{advice:?}");
    assert_eq!(breakdown.unseen.len(), 1, "{:?}", breakdown.unseen);
    assert!(breakdown.unseen[0].contains("4 samples"), "{:?}", breakdown.unseen);
}

#[test]
fn the_function_that_takes_the_time_is_named() {
    let mut user = part(TimeKind::User, 1.0, &[]);
    user.functions = vec![FunctionShare { name: "hash".into(), share: 0.6 }];
    let found = concluded(vec![user], Vec::new(), &[]);
    assert!(found.conclusion.ends_with("in its own code (hash 60 %)."), "{}", found.conclusion);
    assert_eq!(found.advice.unwrap().text, "Make hash faster: it takes most of the CPU time of the program.");
}
