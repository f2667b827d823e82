use super::*;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

const BLOCK: u32 = 4096;

/// Returns a file of 64 blocks, each filled with its number.
fn file() -> Arc<File> {
    let file = tempfile::tempfile_in("/var/tmp").unwrap();
    (0..64_u8).for_each(|n| file.write_all_at(&[n; BLOCK as usize], u64::from(n) * u64::from(BLOCK)).unwrap());
    Arc::new(file)
}

fn engines(file: &Arc<File>, stop_event: &Arc<StopEvent>) -> Vec<(&'static str, Box<dyn IoEngine>)> {
    let block = BLOCK as usize;
    let length = file.metadata().unwrap().len();
    vec![
        ("io_uring", Box::new(Uring::new(file.clone(), stop_event.clone(), 4, block, true).unwrap())),
        ("psync", Box::new(Psync::new(file.clone(), stop_event.clone(), block, true).unwrap())),
        ("mmap", Box::new(Mmap::new(file.clone(), stop_event.clone(), block, true, length, true).unwrap())),
    ]
}

fn request(action: IoOp, block: u64) -> IoRequest {
    let bytes = if action == IoOp::Sync { 0 } else { BLOCK };
    IoRequest { action, offset: block * u64::from(BLOCK), bytes }
}

fn done(engine: &mut dyn IoEngine, request: IoRequest) -> i64 {
    engine.submit(0, request).unwrap();
    loop {
        if let Some(done) = engine.next(None).unwrap() {
            assert_eq!(done.slot, 0);
            return done.result;
        }
    }
}

#[test]
fn every_engine_reads_writes_and_syncs() {
    let (file, stop_event) = (file(), StopEvent::new().unwrap());
    for (name, mut engine) in engines(&file, &stop_event) {
        assert_eq!(done(&mut *engine, request(IoOp::Read, 7)), i64::from(BLOCK), "{name}");
        assert!(engine.buffer(0)[..BLOCK as usize].iter().all(|&b| b == 7), "{name}");
        engine.buffer(0).fill(0xee);
        assert_eq!(done(&mut *engine, request(IoOp::Write, 9)), i64::from(BLOCK), "{name}");
        assert_eq!(done(&mut *engine, request(IoOp::Sync, 0)), 0, "{name}");
        let mut block = [0; BLOCK as usize];
        file.read_exact_at(&mut block, 9 * u64::from(BLOCK)).unwrap();
        assert!(block.iter().all(|&b| b == 0xee), "{name}");
        file.write_all_at(&[9; BLOCK as usize], 9 * u64::from(BLOCK)).unwrap();
    }
}

#[test]
fn each_slot_gets_its_own_data_with_many_requests_in_flight() {
    let (file, stop_event) = (file(), StopEvent::new().unwrap());
    let mut engine = Uring::new(file, stop_event, 4, BLOCK as usize, true).unwrap();
    for round in 0..8 {
        (0..4).for_each(|slot| engine.submit(slot, request(IoOp::Read, round * 4 + slot as u64)).unwrap());
        let mut back: Vec<usize> = Vec::new();
        while back.len() < 4 {
            back.extend(engine.next(None).unwrap().map(|done| done.slot));
        }
        back.sort_unstable();
        assert_eq!(back, [0, 1, 2, 3]);
        for slot in 0..4 {
            assert!(engine.buffer(slot).iter().all(|&b| u64::from(b) == round * 4 + slot as u64));
        }
    }
}

#[test]
fn a_stop_event_consumed_between_completions_still_ends_the_wait() {
    let (file, stop_event) = (file(), StopEvent::new().unwrap());
    let mut engine = Uring::new(file, stop_event.clone(), 4, BLOCK as usize, true).unwrap();
    stop_event.signal();
    // The stop event's completion comes only once, and may be skipped among those of requests.
    (0..3).for_each(|_| assert_eq!(engine.next(None).unwrap(), None));
    assert_eq!(
        done(&mut engine, request(IoOp::Read, 3)),
        i64::from(BLOCK),
        "what is in flight comes back all the same"
    );
}

#[test]
fn a_failed_request_is_reported_by_its_completion() {
    let path = whyslow_testing::file_in("/var/tmp");
    std::fs::write(path.path(), [1; 8192]).unwrap();
    let read_only = Arc::new(File::open(path.path()).unwrap());
    let stop_event = StopEvent::new().unwrap();
    let block = BLOCK as usize;
    let engines: [Box<dyn IoEngine>; 2] = [
        Box::new(Uring::new(read_only.clone(), stop_event.clone(), 1, block, true).unwrap()),
        Box::new(Psync::new(read_only, stop_event, block, true).unwrap()),
    ];
    for mut engine in engines {
        assert_eq!(done(&mut *engine, request(IoOp::Write, 0)), -i64::from(libc::EBADF));
        assert_eq!(done(&mut *engine, request(IoOp::Read, 100)), 0, "beyond the end there is nothing");
    }
}

#[test]
fn waiting_ends_at_the_deadline_and_at_the_stop_event() {
    let (file, stop_event) = (file(), StopEvent::new().unwrap());
    for (name, mut engine) in engines(&file, &stop_event) {
        let due = Instant::now() + Duration::from_millis(20);
        while Instant::now() < due {
            assert_eq!(engine.next(Some(due)).unwrap(), None, "{name}");
        }
    }
    let signaller = stop_event.clone();
    // SAFETY: gettid takes no arguments and cannot fail.
    let stat = format!("/proc/self/task/{}/stat", unsafe { libc::gettid() });
    let thread = std::thread::spawn(move || {
        // Wait until the other thread sleeps.
        while !std::fs::read_to_string(&stat).unwrap().contains(") S ") {
            std::thread::yield_now();
        }
        signaller.signal();
    });
    for (name, mut engine) in engines(&file, &stop_event) {
        let far = Instant::now() + Duration::from_secs(600);
        assert_eq!(engine.next(Some(far)).unwrap(), None, "{name}");
        assert!(stop_event.is_signalled(), "{name}");
    }
    thread.join().unwrap();
}

/// On a device without polled queues the kernel waits for the interrupt, so this runs everywhere.
#[test]
fn a_polled_ring_completes_requests_and_stops() {
    use std::os::unix::fs::OpenOptionsExt;
    let path = whyslow_testing::file_in("/var/tmp").into_temp_path();
    std::fs::write(&path, vec![7; 4 * BLOCK as usize]).unwrap();
    let flags = libc::O_DIRECT;
    let file = File::options().read(true).write(true).custom_flags(flags).open(&path).unwrap();
    let stop_event = StopEvent::new().unwrap();
    let mut engine = PolledUring::new(Arc::new(file), stop_event.clone(), 4, BLOCK as usize).unwrap();
    let read = done(&mut engine, request(IoOp::Read, 3));
    if read == -i64::from(libc::EOPNOTSUPP) {
        crate::skip::skip("nothing on this file system can be polled");
        return;
    }
    assert_eq!(read, i64::from(BLOCK));
    assert!(engine.buffer(0)[..BLOCK as usize].iter().all(|&byte| byte == 7));
    (0..4).for_each(|slot| engine.submit(slot, request(IoOp::Read, slot as u64)).unwrap());
    let mut slots: Vec<usize> =
        std::iter::from_fn(|| engine.next(None).unwrap()).take(4).map(|done| done.slot).collect();
    slots.sort_unstable();
    assert_eq!(slots, [0, 1, 2, 3]);
    let soon = Instant::now() + Duration::from_millis(5);
    assert_eq!(engine.next(Some(soon)).unwrap(), None);
    assert!(Instant::now() >= soon);
    stop_event.signal();
    assert_eq!(engine.next(Some(Instant::now() + Duration::from_secs(600))).unwrap(), None, "stopped");
    // Reported once: requests in flight are still waited for.
    assert_eq!(done(&mut engine, request(IoOp::Read, 0)), i64::from(BLOCK));
}
