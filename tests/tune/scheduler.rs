//! Tests of `whyslow try` on a scheduler with a certain effect: bfq serves a process of the idle class only if no other
//! request is queued, or 200 ms after it last did (BFQ_CL_IDLE_TIMEOUT of block/bfq-iosched.h); none passes on requests
//! in order of arrival, and has no classes.

use crate::cage::in_cage;
use crate::disk::Loop;
use crate::group::Group;
use crate::known::tried;
use crate::load::Load;
use crate::trial::is_undecided;
use std::fs;

#[test]
fn an_idle_reader_is_let_through_where_nobody_schedules() {
    in_cage(|cage| {
        let Some(group) = Group::new(cage, "blkio") else { return };
        // Each read of the group takes a millisecond below the scheduler, and there are three readers, so a request is
        // always queued. Neither they nor the measured reader wait for a processor that other tests keep busy.
        let below = Loop::new(cage);
        let number = fs::read_to_string(format!("/sys/block/{}/dev", below.name())).unwrap();
        group.write("blkio.throttle.read_iops_device", &format!("{} 1000", number.trim()));
        let disk = Loop::over(&below);
        let scheduler = format!("/sys/block/{}/queue/scheduler", disk.name());
        if fs::write(&scheduler, "bfq").is_err() {
            crate::skip::skip("this kernel has no bfq");
            return;
        }
        let read = |count: u32| format!("dd if={} of=/dev/null bs=4k count={count} iflag=direct", disk.device);
        let _load = Load::shell(
            &group.joined(&format!("for i in 1 2 3; do while nice -n -15 {}; do :; done & done; wait", read(4096))),
        );
        let with = |to: &str| format!("disk.scheduler@{}={to}", disk.name());
        let idle = read(2);
        let command =
            [&["--", "nice", "-n", "-15", "ionice", "-c", "3"][..], &idle.split(' ').collect::<Vec<_>>()].concat();
        let tried = |change: &str| tried(cage, &[&[change, "--keep"][..], &command].concat());
        let active = || fs::read_to_string(&scheduler).unwrap();
        let trial = tried(&with("none"));
        if is_undecided(&trial) {
            assert!(active().contains("[bfq]"));
            return;
        }
        assert_eq!(trial["verdict"], "helped", "{trial}");
        // The change was kept as requested; the reverse change is harmful and is undone.
        let trial = tried(&with("bfq"));
        assert!(active().starts_with("[none]"));
        if is_undecided(&trial) {
            return;
        }
        assert_eq!((&trial["verdict"], &trial["kept"]), (&"harmed".into(), &serde_json::Value::Null), "{trial}");
    });
}
