//! Breakdown of the time of a program's threads, and what they wait for: a part of the diagnosis document.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The time of the threads of a process, control group or command, by what they did. The parts add up to the whole, except for
/// what was lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimeBreakdown {
    /// What was asked about, in words: `postgres (pid 4711)`, `nginx.service`, `make -j4`.
    pub target: String,
    /// How long it was watched, seconds: for a command, as long as it ran.
    pub seconds: f64,
    /// How the command ended, in words; absent if it is none, or still runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_status: Option<String>,
    /// How many threads there were, those that ended included.
    pub threads: usize,
    /// The sum of their lives while they were watched, seconds.
    pub thread_seconds: f64,
    /// What they did, longest first.
    pub parts: Vec<TimePart>,
    /// How often its threads were sampled as they ran: of few samples, functions and the kernel's share are a guess.
    #[serde(default)]
    pub samples: u64,
    /// The programs that ran, those first whose processes lived longest together. Empty if there was one process only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<ProgramTime>,
    /// What was too short, or ended too soon, to be seen, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<String>,
    /// The threads that were busiest, those first that spent most time on a CPU, waiting for one, or waiting for a device.
    pub busiest: Vec<ThreadTime>,
    /// Threads, each of which waits for a lock that the next one holds, and the last for one of the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deadlock: Vec<LockedThread>,
    /// Whom it waits for, who that waits for, and so on; the last is where the time goes. Empty if it waits for no other program.
    pub chain: Vec<ChainLink>,
    /// The answer in one sentence.
    pub conclusion: String,
    /// The one change that gains the most; absent if nothing takes time that a change could save.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<Advice>,
    /// What it cost to watch.
    pub cost: TraceCost,
}

/// What threads do with their time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimeKind {
    /// Run code of the program.
    User,
    /// Run in the kernel.
    Kernel,
    /// Ready to run, without a CPU.
    CpuWait,
    /// Stopped by the CPU quota of the control group.
    Throttled,
    /// Read through the page cache from a disk.
    Read,
    /// Write through the page cache: blocks that are read first, or are being written.
    Write,
    /// Read or write past the page cache.
    DirectIo,
    /// Wait until written data is on the disk: fsync(2), O_SYNC.
    Fsync,
    /// Wait for the journal of the file system.
    Journal,
    /// Wait until fewer pages are dirty.
    Writeback,
    /// Other waiting for a disk.
    BlockIo,
    /// Wait for a page of memory: from a file or swap.
    PageFault,
    /// Free memory for itself.
    Reclaim,
    /// Wait for data of a peer.
    Receive,
    /// Wait until a peer, or the path to it, takes data.
    Send,
    /// Wait for a connection to be made.
    Connect,
    /// Wait for the server of a network file system.
    Nfs,
    /// Wait for the other end of a pipe.
    Pipe,
    /// Wait for a lock that another thread holds.
    Lock,
    /// Wait for a lock of the kernel.
    KernelLock,
    /// Wait for a lock on a file.
    FileLock,
    /// Wait for a semaphore or a message (System V, POSIX).
    Ipc,
    /// Wait for a child process.
    Child,
    /// Wait for work: a condition variable, a queue between threads, the end of a thread.
    Futex,
    /// Wait for any of several files or sockets, or for clients.
    Poll,
    /// Sleep for a time, or for a signal.
    Sleep,
    /// The same, of a program that another one waits for.
    Pause,
    /// Stopped by a signal, a debugger or the freezer.
    Stopped,
    /// Anything else.
    Other,
}

impl TimeKind {
    /// Returns the kind in words, as a continuation of 'it is': `waiting for fsync`.
    pub fn words(self) -> &'static str {
        match self {
            Self::User => "on a CPU, in its own code",
            Self::Kernel => "on a CPU, in the kernel",
            Self::CpuWait => "waiting for a CPU",
            Self::Throttled => "stopped by its CPU quota",
            Self::Read => "reading files",
            Self::Write => "writing files",
            Self::DirectIo => "doing direct I/O",
            Self::Fsync => "waiting for fsync",
            Self::Journal => "waiting for the journal",
            Self::Writeback => "held back because too many pages are dirty",
            Self::BlockIo => "waiting for a disk",
            Self::PageFault => "waiting for pages of memory",
            Self::Reclaim => "freeing memory",
            Self::Receive => "waiting for data from a peer",
            Self::Send => "waiting for a peer to accept data",
            Self::Connect => "waiting for a connection",
            Self::Nfs => "waiting for an NFS server",
            Self::Pipe => "waiting for the other end of a pipe",
            Self::Lock => "waiting for a lock",
            Self::KernelLock => "waiting for a kernel lock",
            Self::FileLock => "waiting for a file lock",
            Self::Ipc => "waiting for a semaphore or message",
            Self::Child => "waiting for a child process",
            Self::Futex => "waiting for another thread",
            Self::Poll => "waiting for events",
            Self::Sleep | Self::Pause => "asleep",
            Self::Stopped => "stopped",
            Self::Other => "waiting for something else",
        }
    }

    /// Returns whether a thread with nothing to do waits like this: the time may be no loss.
    pub fn may_be_idle(self) -> bool {
        matches!(
            self,
            Self::Receive | Self::Pipe | Self::Ipc | Self::Child | Self::Futex | Self::Poll | Self::Sleep | Self::Other
        )
    }

    /// Returns whether the thread waits for a disk.
    pub fn is_disk(self) -> bool {
        matches!(
            self,
            Self::Read | Self::Write | Self::DirectIo | Self::Fsync | Self::Journal | Self::Writeback | Self::BlockIo
        )
    }

    /// Returns whether another process can end the wait; a sleep can be ended by a signal.
    pub fn is_for_others(self) -> bool {
        matches!(
            self,
            Self::Receive
                | Self::Send
                | Self::Connect
                | Self::Pipe
                | Self::Lock
                | Self::FileLock
                | Self::Ipc
                | Self::Child
                | Self::Futex
                | Self::Poll
                | Self::Sleep
        )
    }
}

/// A part of the time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimePart {
    /// What was done.
    pub kind: TimeKind,
    /// Seconds, over all threads.
    pub seconds: f64,
    /// Share of the time of all threads, 0..1.
    pub share: f64,
    /// How often; for running, how often a CPU was left.
    pub times: u64,
    /// Devices, peers, lock holders, who had the CPU, longest first; with the share of this part.
    pub by: Vec<Contributor>,
    /// The program's functions, or the kernel's if it has none with a name, that did so; longest first, with the share of this part.
    pub functions: Vec<FunctionShare>,
    /// The functions that released the locks that were waited for: where their holders were. With the share of the releases seen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub released_in: Vec<FunctionShare>,
    /// Which programs did so, with the share of this part. Empty if there is one only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<FunctionShare>,
}

/// The time of all processes that ran one program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramTime {
    /// Its name: the last one of each process.
    pub name: String,
    /// How many processes, those that ended included.
    pub processes: usize,
    /// The sum of their lives while they were watched, seconds.
    pub seconds: f64,
    /// The time on a CPU, over all threads, seconds.
    pub on_cpu: f64,
}

/// Who or what a part of the time is due to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Contributor {
    /// device, process, thread, peer, file.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// PID, or TID of a thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Share of the part, 0..1.
    pub share: f64,
}

/// Minimum number of samples that show which code ran.
pub const FEW_SAMPLES: u64 = 10;

/// Name of functions whose stack could not be read.
pub const UNKNOWN: &str = "[unknown]";

/// A function or program and its share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FunctionShare {
    /// Its name.
    pub name: String,
    /// Share of the part, 0..1.
    pub share: f64,
}

/// A thread of a deadlock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LockedThread {
    /// Its name.
    pub name: String,
    /// Its TID.
    pub tid: u32,
}

/// The time of one thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadTime {
    /// Its name.
    pub name: String,
    /// Its TID.
    pub tid: u32,
    /// Share of its life on a CPU.
    pub on_cpu: f64,
    /// Share of its life that it was ready to run without a CPU.
    pub waiting_for_cpu: f64,
}

/// A program in a chain of waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChainLink {
    /// Its name.
    pub name: String,
    /// Its PID; of several children, one of them.
    pub pid: u32,
    /// The TID, if it is a thread of the program before it, which holds a lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tid: Option<u32>,
    /// What it did most of the time, and what the next link is waited for with.
    pub kind: TimeKind,
    /// The share of its threads' time, without those that had nothing to do.
    pub share: f64,
    /// The same in words, with device or peer.
    pub what: String,
}

/// The one change that gains the most.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Advice {
    /// What to do.
    pub text: String,
    /// The share of the program's time, without that in which it had nothing to do, that it could save, 0..1, at most.
    pub saves: f64,
    /// The key of the finding on the machine that it belongs to, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finding: Option<String>,
}

/// The cost of tracing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TraceCost {
    /// Events traced: context switches and wake-ups of the watched processes.
    pub events: u64,
    /// CPU time of the BPF programs as a share of the machine's; `null` if the kernel does not tell.
    pub cpu_share: Option<f64>,
    /// Threads, stacks or waits that did not fit into the tables.
    pub lost: u64,
}
