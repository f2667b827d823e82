//! What tells the rows of a family apart.

use crate::value::Name;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;

/// The key of a family that has one row: the machine itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Machine;

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("host")
    }
}

/// Something counted per processor: an interrupt line, a softirq vector.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PerCpu {
    /// The line or vector as /proc/interrupts or /proc/softirqs names it.
    pub name: Name,
    /// Processor number; [`PerCpu::ALL`] for the sum over the processors, where only that is told.
    pub cpu: u32,
}

impl PerCpu {
    /// The sum over the processors.
    pub const ALL: u32 = u32::MAX;
}

impl fmt::Display for PerCpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.cpu == Self::ALL { write!(f, "{}", self.name) } else { write!(f, "{} on cpu{}", self.name, self.cpu) }
    }
}

/// A process or thread. The start time tells a reused number apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskKey {
    /// Process (thread group) number.
    pub pid: u32,
    /// Thread number; equal to `pid` for a process as a whole; 0 for a thread whose number was not told.
    pub tid: u32,
    /// Start, in clock ticks since boot (field 22 of /proc/PID/stat); of a thread without a number, whatever tells it
    /// from the others.
    pub start: u64,
}

impl fmt::Display for TaskKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tid {
            0 => write!(f, "{}/?{}", self.pid, self.start),
            tid if tid == self.pid => write!(f, "{}", self.pid),
            tid => write!(f, "{}/{tid}", self.pid),
        }
    }
}

/// The children of a process that have one name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Offspring {
    /// The process they come from: the nearest ancestor that outlived them.
    pub parent: TaskKey,
    /// What they are named.
    pub name: Name,
}

impl fmt::Display for Offspring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.name, self.parent)
    }
}

/// Something named within a network namespace: an interface, a protocol's counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NetKey {
    /// The namespace: empty for the observer's own, else its name under /run/netns, or `net:[inode]`.
    pub ns: Name,
    /// The name within it.
    pub name: Name,
}

impl fmt::Display for NetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.ns.is_empty() { write!(f, "{}", self.name) } else { write!(f, "{}@{}", self.name, self.ns) }
    }
}

/// A connection, or a socket that waits for one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SocketKey {
    /// The network namespace, as in [`NetKey`].
    pub ns: Name,
    /// The socket's own address.
    pub local: SocketAddr,
    /// The other end; the unspecified address and port 0 for a socket that is not connected.
    pub remote: SocketAddr,
    /// The socket's inode, which tells several sockets on one address apart (SO_REUSEPORT); 0 where unknown.
    pub inode: u64,
}

impl fmt::Display for SocketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.local)?;
        if self.remote.port() != 0 {
            write!(f, "->{}", self.remote)?;
        }
        if !self.ns.is_empty() {
            write!(f, "@{}", self.ns)?;
        }
        Ok(())
    }
}

/// A relation between two named things: a block device on another, a cgroup and a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Pair {
    /// The one above, or the user.
    pub upper: Name,
    /// The one below, or the used.
    pub lower: Name,
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.upper, self.lower)
    }
}

/// What is asked of a block device: `read`, `write`, `flush` or `discard`, as /proc/diskstats groups operations.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OperationKey {
    /// The whole device.
    pub device: Name,
    /// The operation.
    pub operation: Name,
}

impl fmt::Display for OperationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.operation, self.device)
    }
}

/// Who asks a block device for an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequesterKey {
    /// What is asked for.
    pub on: OperationKey,
    /// The process in whose name the kernel made the request: for write-back a thread of the kernel's own.
    pub task: TaskKey,
    /// The control group the request is charged to; empty where it cannot be told.
    pub cgroup: Name,
}

impl fmt::Display for RequesterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {}", self.on, self.task)?;
        if self.cgroup.is_empty() { Ok(()) } else { write!(f, " in {}", self.cgroup) }
    }
}

/// The key of a row that has not been given one.
pub(crate) fn unset<K: Unset>() -> K {
    K::unset()
}

/// Keys that have a value for 'not yet given'; for sockets, which have no `Default`, the unspecified address.
pub(crate) trait Unset {
    fn unset() -> Self;
}

macro_rules! unset_by_default {
    ($($t:ty),*) => { $( impl Unset for $t { fn unset() -> Self { Self::default() } } )* };
}

unset_by_default!(u32, u64, Name, Machine, PerCpu, TaskKey, Offspring, NetKey, Pair, OperationKey, RequesterKey);

impl Unset for SocketKey {
    fn unset() -> Self {
        let none = SocketAddr::from(([0, 0, 0, 0], 0));
        Self { ns: Name::default(), local: none, remote: none, inode: 0 }
    }
}
