//! Trials with limits of processes and of the kernel.

use crate::expect::EntityPattern::{Host, Named, Process};
use crate::expect::Expect;
use crate::load_process::LoadCommand;
use crate::trial::Trial;

pub const TRIALS: &[Trial] = &[
    Trial {
        name: "limit.open_files",
        what: "a process has as many files open as it may, and keeps trying to open more",
        quick: true,
        finding: Some("limit.open_files"),
        never: &["limit.file_table", "limit.processes"],
        setup: |bed| {
            let limit = bed.range(64..=1024);
            let files = LoadCommand::new("files").with("limit", limit).with("open", limit + 1).start(bed)?;
            Ok(Expect::subject([Process(files.pid)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "limit.shm",
        what: "all shared memory segments that an IPC namespace may have exist, and a program keeps trying to create more",
        finding: Some("limit.shm"),
        never: &["limit.semaphores", "limit.open_files"],
        setup: |bed| {
            let limit = bed.range(16..=200);
            let shm = LoadCommand::new("shm").with("limit", limit).with("size", 4096).in_own_ipc().start(bed)?;
            bed.ipc_namespace_of = Some(shm.pid);
            let limits = ["shmmni", "kernel.shmmni"].map(|name| Named("limit", name.into()));
            Ok(Expect::subject([&[Host], &limits[..]].concat()))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "limit.map_count",
        what: "a process has as many memory mappings as it may, and keeps trying to create more",
        finding: Some("limit.map_count"),
        never: &["limit.open_files", "mem.leak"],
        needs_bpf: true,
        setup: |bed| {
            let mappings = LoadCommand::new("mappings").with("percent", 100).start(bed)?;
            Ok(Expect::subject([Process(mappings.pid)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "half-mappings",
        what: "a process has half to two thirds of the memory mappings that it may have",
        setup: |bed| {
            let percent = bed.range(50..=66);
            LoadCommand::new("mappings").with("percent", percent).start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "half-open-files",
        what: "a process has half as many files open as it may",
        setup: |bed| {
            let limit = bed.range(256..=4096);
            LoadCommand::new("files").with("limit", limit).with("open", limit / 2).start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
];
