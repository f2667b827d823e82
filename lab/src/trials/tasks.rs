//! Trials with tasks that wait for each other or in the kernel.

use crate::disk::{DiskSpec, SimulatedDisk, freeze};
use crate::expect::EntityPattern::{Process, Thread};
use crate::expect::Expect;
use crate::load_process::LoadCommand;
use crate::trial::Trial;
use std::time::Duration;

pub const TRIALS: &[Trial] = &[
    Trial {
        name: "task.blocked",
        what: "a writer is stuck in uninterruptible sleep on a frozen file system",
        finding: Some("task.blocked"),
        never: &["disk.saturated"],
        setup: |bed| {
            let disk = SimulatedDisk::new(bed, 64 << 20, DiskSpec::new(Duration::ZERO, 4))?;
            let dir = disk.device.ext4(bed, "frozen", &[])?;
            let size = bed.range(100..=4000);
            let append = LoadCommand::new("append").with("path", dir.join("log").display()).with("size", size);
            let append = append.with("every-ms", 10).flag("lazy").start(bed)?;
            freeze(bed, dir)?;
            Ok(Expect::subject([Process(append.pid), Thread(append.pid)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "lock.contention",
        what: "many threads contend for one lock, whose holder computes or sleeps",
        finding: Some("lock.contention"),
        never: &["cpu.saturated", "cpu.context_switches", "task.blocked"],
        setup: |bed| {
            let (threads, hold) = (bed.range(4..=16), bed.range(300..=5000));
            let mut mutex = LoadCommand::new("mutex").with("threads", threads).with("hold-us", hold);
            if bed.coin() {
                mutex = mutex.flag("asleep");
            }
            let mutex = mutex.with("outside-us", 20).start(bed)?;
            Ok(Expect::subject([Process(mutex.pid)]).culprit([Process(mutex.pid)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "high-load",
        what: "many parents wait in state D, each for its vfork child: the load average is high and nothing is delayed",
        setup: |bed| {
            let (parents, busy) = (bed.range(20..=40), bed.range(5..=20));
            for _ in 0..parents {
                LoadCommand::new("vfork").with("hold-ms", bed.range(600..=1500)).start(bed)?;
            }
            let bursts = LoadCommand::new("bursts").with("threads", busy);
            bursts.with("busy-us", 200).with("every-us", 20_000).start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "thread-pool",
        what: "more than a thousand threads sleep in futex(2) until occasional work arrives for one of them",
        setup: |bed| {
            let (threads, rate) = (bed.range(1000..=1800), bed.range(20..=200));
            let pool = LoadCommand::new("pool").with("threads", threads).with("rate", rate);
            pool.with("work-us", bed.range(500..=2000)).start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "game-loop",
        what: "several threads do their part of each frame, wait for each other in futex(2), and for the next frame",
        setup: |bed| {
            let (threads, rate) = (bed.range(2..=6), bed.choose(&[30, 60, 120]));
            // A fifth of one CPU in total: the threads of a frame want to run at the same time.
            let work = 200_000 / rate / threads;
            LoadCommand::new("frames").with("threads", threads).with("rate", rate).with("work-us", work).start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
];
