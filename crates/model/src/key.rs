//! What tells the rows of a family apart.

use crate::value::Name;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;

/// What tells rows apart, and how it is taken apart into columns and put together again.
pub trait Key: Clone + Ord + fmt::Display {
    /// Its columns, in order.
    const COLUMNS: &'static [KeyColumn];

    /// Adds its values to `parts`, one for each column.
    fn take_apart(&self, parts: &mut Vec<Part>);

    /// Takes as many values as it has columns. `None` where one is missing or makes no sense.
    fn put_together(parts: &mut dyn Iterator<Item = Part>) -> Option<Self>;
}

/// A column of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct KeyColumn {
    /// Its name; `None` where the key has one value only, which goes by the family's own word for it (`device`, `cpu`).
    pub name: Option<&'static str>,
    /// What is in it.
    pub kind: PartKind,
}

/// What is in a column of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PartKind {
    /// A whole number.
    Number,
    /// Words.
    Text,
}

/// A value of one column of a key. Numbers come before words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// A whole number.
    Number(u64),
    /// Words, as the system spells them. Hostile text: whoever draws it escapes it.
    Text(Name),
}

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

/// A process and a mount that it uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MountTask {
    /// The mount point.
    pub mount: Name,
    /// The process.
    pub task: TaskKey,
}

impl fmt::Display for MountTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.task, self.mount)
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

macro_rules! key_of_one_number {
    ($($t:ty),*) => { $(
        impl Key for $t {
            const COLUMNS: &'static [KeyColumn] = &[KeyColumn { name: None, kind: PartKind::Number }];

            fn take_apart(&self, parts: &mut Vec<Part>) {
                parts.push(Part::Number((*self).into()));
            }

            fn put_together(parts: &mut dyn Iterator<Item = Part>) -> Option<Self> {
                match parts.next()? {
                    Part::Number(number) => number.try_into().ok(),
                    Part::Text(_) => None,
                }
            }
        }
    )* };
}

key_of_one_number!(u32, u64);

impl Key for Name {
    const COLUMNS: &'static [KeyColumn] = &[KeyColumn { name: None, kind: PartKind::Text }];

    fn take_apart(&self, parts: &mut Vec<Part>) {
        parts.push(Part::Text(self.clone()));
    }

    fn put_together(parts: &mut dyn Iterator<Item = Part>) -> Option<Self> {
        match parts.next()? {
            Part::Text(name) => Some(name),
            Part::Number(_) => None,
        }
    }
}

/// An address and a port, in the usual spelling: `192.0.2.1:80`, `[::1]:80`.
impl Key for SocketAddr {
    const COLUMNS: &'static [KeyColumn] = &[KeyColumn { name: None, kind: PartKind::Text }];

    fn take_apart(&self, parts: &mut Vec<Part>) {
        parts.push(Part::Text(self.to_string().into()));
    }

    fn put_together(parts: &mut dyn Iterator<Item = Part>) -> Option<Self> {
        Name::put_together(parts)?.parse().ok()
    }
}

/// A key of several values: its fields, and the names and kinds of the columns they come to.
macro_rules! key_of_fields {
    ($Key:ident { $( $field:ident ),* }: $( $column:literal $kind:ident ),*) => {
        impl Key for $Key {
            const COLUMNS: &'static [KeyColumn] =
                &[ $( KeyColumn { name: Some($column), kind: PartKind::$kind } ),* ];

            fn take_apart(&self, _parts: &mut Vec<Part>) {
                $( self.$field.take_apart(_parts); )*
            }

            fn put_together(_parts: &mut dyn Iterator<Item = Part>) -> Option<Self> {
                Some(Self { $( $field: Key::put_together(_parts)? ),* })
            }
        }
    };
}

key_of_fields!(Machine {}:);
key_of_fields!(PerCpu { name, cpu }: "name" Text, "cpu" Number);
key_of_fields!(TaskKey { pid, tid, start }: "pid" Number, "tid" Number, "start" Number);
key_of_fields!(MountTask { mount, task }: "mount" Text, "pid" Number, "tid" Number, "start" Number);
key_of_fields!(Offspring { parent, name }: "parent_pid" Number, "parent_tid" Number, "parent_start" Number, "name" Text);
key_of_fields!(NetKey { ns, name }: "ns" Text, "name" Text);
key_of_fields!(SocketKey { ns, local, remote, inode }: "ns" Text, "local" Text, "remote" Text, "inode" Number);
key_of_fields!(Pair { upper, lower }: "upper" Text, "lower" Text);
key_of_fields!(OperationKey { device, operation }: "device" Text, "operation" Text);
key_of_fields!(RequesterKey { on, task, cgroup }:
    "device" Text, "operation" Text, "pid" Number, "tid" Number, "start" Number, "cgroup" Text);

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

unset_by_default!(
    u32,
    u64,
    Name,
    Machine,
    MountTask,
    PerCpu,
    TaskKey,
    Offspring,
    NetKey,
    Pair,
    OperationKey,
    RequesterKey
);

impl Unset for SocketKey {
    fn unset() -> Self {
        let none = SocketAddr::from(([0, 0, 0, 0], 0));
        Self { ns: Name::default(), local: none, remote: none, inode: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes a key apart and puts it together again.
    fn again<K: Key + fmt::Debug>(key: &K) -> Option<K> {
        let mut parts = Vec::new();
        key.take_apart(&mut parts);
        let kinds = parts.iter().map(|part| match part {
            Part::Number(_) => PartKind::Number,
            Part::Text(_) => PartKind::Text,
        });
        assert!(kinds.eq(K::COLUMNS.iter().map(|column| column.kind)), "{key:?}");
        K::put_together(&mut parts.into_iter())
    }

    #[test]
    fn keys_come_back_as_they_were() {
        let task = TaskKey { pid: 7, tid: 8, start: u64::MAX };
        let on = OperationKey { device: "sda".into(), operation: "read".into() };
        let socket = SocketKey {
            ns: "web".into(),
            local: "[fe80::1%2]:443".parse().unwrap(),
            remote: "10.0.0.1:9".parse().unwrap(),
            inode: 3,
        };
        assert_eq!(again(&Machine), Some(Machine));
        assert_eq!(again(&9_u32), Some(9));
        assert_eq!(again(&task), Some(task));
        assert_eq!(again(&socket), Some(socket.clone()));
        assert_eq!(again(&PerCpu { name: "NMI".into(), cpu: 3 }), Some(PerCpu { name: "NMI".into(), cpu: 3 }));
        let on_mount = MountTask { mount: "/srv".into(), task };
        assert_eq!(again(&on_mount), Some(on_mount.clone()));
        let offspring = Offspring { parent: task, name: "sh\n".into() };
        assert_eq!(again(&offspring), Some(offspring.clone()));
        let user = RequesterKey { on, task, cgroup: "/a".into() };
        assert_eq!(again(&user), Some(user.clone()));
    }

    #[test]
    fn parts_that_make_no_key_are_refused() {
        let put = |parts: Vec<Part>| u32::put_together(&mut parts.into_iter());
        assert_eq!(put(vec![]), None);
        assert_eq!(put(vec![Part::Text("7".into())]), None);
        assert_eq!(put(vec![Part::Number(1 << 32)]), None);
        assert_eq!(SocketAddr::put_together(&mut [Part::Text("nowhere".into())].into_iter()), None);
    }
}
