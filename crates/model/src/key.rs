//! What identifies the rows of a family.

use crate::value::Name;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;

/// A row's key, which can be split into column values and rebuilt.
pub trait Key: Clone + Ord + fmt::Display {
    /// Its columns, in order.
    const COLUMNS: &'static [KeyColumn];

    /// Appends its values to `parts`, one for each column.
    fn take_apart(&self, parts: &mut Vec<KeyPart>);

    /// Rebuilds it from as many values as it has columns. `None` if one is missing or invalid.
    fn put_together(parts: &mut dyn Iterator<Item = KeyPart>) -> Option<Self>;
}

/// A column of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct KeyColumn {
    /// Its name; `None` if the key has only one value, which is named by the family (`device`, `cpu`).
    pub name: Option<&'static str>,
    /// The kind of its values.
    pub kind: KeyPartKind,
}

/// The kind of values in a key column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyPartKind {
    /// A whole number.
    Number,
    /// Words.
    Text,
}

/// A value in a key column. Numbers sort before words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyPart {
    /// A whole number.
    Number(u64),
    /// Words, as the system spells them. The text is not trusted: whoever draws it escapes it.
    Text(Name),
}

/// The key of a family with one row: the machine itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MachineKey;

impl fmt::Display for MachineKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("host")
    }
}

/// Something counted per CPU: an interrupt line, a softirq vector.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PerCpu {
    /// The line or vector, named as in /proc/interrupts or /proc/softirqs.
    pub name: Name,
    /// CPU number; [`PerCpu::ALL`] if only the sum over all CPUs is known.
    pub cpu: u32,
}

impl PerCpu {
    /// The sum over all CPUs.
    pub const ALL: u32 = u32::MAX;
}

impl fmt::Display for PerCpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.cpu == Self::ALL { write!(f, "{}", self.name) } else { write!(f, "{} on cpu{}", self.name, self.cpu) }
    }
}

/// A process or thread. The start time distinguishes tasks that reuse a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskKey {
    /// PID (thread group id).
    pub pid: u32,
    /// TID; equal to `pid` for a process as a whole; 0 for a thread whose number is unknown.
    pub tid: u32,
    /// Start time in clock ticks since boot (field 22 of /proc/PID/stat); for a thread without a number, whatever distinguishes
    /// it from the others.
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

/// The children of a process with the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Offspring {
    /// Their parent: the nearest ancestor that outlived them.
    pub parent: TaskKey,
    /// Their name.
    pub name: Name,
}

impl fmt::Display for Offspring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.name, self.parent)
    }
}

/// Something named within a network namespace: an interface, the counters of a protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NetKey {
    /// The namespace: empty for the observer's own, otherwise its name under /run/netns, or `net:[inode]`.
    pub ns: Name,
    /// The name within it.
    pub name: Name,
}

impl fmt::Display for NetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.ns.is_empty() { write!(f, "{}", self.name) } else { write!(f, "{}@{}", self.name, self.ns) }
    }
}

/// A connection or a listening socket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SocketKey {
    /// The network namespace, as in [`NetKey`].
    pub ns: Name,
    /// The local address.
    pub local: SocketAddr,
    /// The remote address; the unspecified address and port 0 if the socket is not connected.
    pub remote: SocketAddr,
    /// The socket's inode, which distinguishes several sockets on one address (SO_REUSEPORT); 0 if unknown.
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

/// A link between two named things: a block device and the one below it, a cgroup and a device it uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LinkKey {
    /// The upper one, or the user.
    pub upper: Name,
    /// The lower one, or the one used.
    pub lower: Name,
}

impl fmt::Display for LinkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.upper, self.lower)
    }
}

/// An operation of a block device: `read`, `write`, `flush` or `discard`, as /proc/diskstats groups them.
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

/// A process that issues an operation to a block device.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequesterKey {
    /// The device and operation.
    pub on: OperationKey,
    /// The process that issued the request: for write-back a kernel thread.
    pub task: TaskKey,
    /// The control group the request is charged to; empty if unknown.
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
            const COLUMNS: &'static [KeyColumn] = &[KeyColumn { name: None, kind: KeyPartKind::Number }];

            fn take_apart(&self, parts: &mut Vec<KeyPart>) {
                parts.push(KeyPart::Number((*self).into()));
            }

            fn put_together(parts: &mut dyn Iterator<Item = KeyPart>) -> Option<Self> {
                match parts.next()? {
                    KeyPart::Number(number) => number.try_into().ok(),
                    KeyPart::Text(_) => None,
                }
            }
        }
    )* };
}

key_of_one_number!(u32, u64);

impl Key for Name {
    const COLUMNS: &'static [KeyColumn] = &[KeyColumn { name: None, kind: KeyPartKind::Text }];

    fn take_apart(&self, parts: &mut Vec<KeyPart>) {
        parts.push(KeyPart::Text(self.clone()));
    }

    fn put_together(parts: &mut dyn Iterator<Item = KeyPart>) -> Option<Self> {
        match parts.next()? {
            KeyPart::Text(name) => Some(name),
            KeyPart::Number(_) => None,
        }
    }
}

/// An address and a port: `192.0.2.1:80`, `[::1]:80`.
impl Key for SocketAddr {
    const COLUMNS: &'static [KeyColumn] = &[KeyColumn { name: None, kind: KeyPartKind::Text }];

    fn take_apart(&self, parts: &mut Vec<KeyPart>) {
        parts.push(KeyPart::Text(self.to_string().into()));
    }

    fn put_together(parts: &mut dyn Iterator<Item = KeyPart>) -> Option<Self> {
        Name::put_together(parts)?.parse().ok()
    }
}

/// Declares a key with several values: its fields, and the names and kinds of their columns.
macro_rules! key_of_fields {
    ($Key:ident { $( $field:ident ),* }: $( $column:literal $kind:ident ),*) => {
        impl Key for $Key {
            const COLUMNS: &'static [KeyColumn] =
                &[ $( KeyColumn { name: Some($column), kind: KeyPartKind::$kind } ),* ];

            fn take_apart(&self, _parts: &mut Vec<KeyPart>) {
                $( self.$field.take_apart(_parts); )*
            }

            fn put_together(_parts: &mut dyn Iterator<Item = KeyPart>) -> Option<Self> {
                Some(Self { $( $field: Key::put_together(_parts)? ),* })
            }
        }
    };
}

key_of_fields!(MachineKey {}:);
key_of_fields!(PerCpu { name, cpu }: "name" Text, "cpu" Number);
key_of_fields!(TaskKey { pid, tid, start }: "pid" Number, "tid" Number, "start" Number);
key_of_fields!(MountTask { mount, task }: "mount" Text, "pid" Number, "tid" Number, "start" Number);
key_of_fields!(Offspring { parent, name }: "parent_pid" Number, "parent_tid" Number, "parent_start" Number, "name" Text);
key_of_fields!(NetKey { ns, name }: "ns" Text, "name" Text);
key_of_fields!(SocketKey { ns, local, remote, inode }: "ns" Text, "local" Text, "remote" Text, "inode" Number);
key_of_fields!(LinkKey { upper, lower }: "upper" Text, "lower" Text);
key_of_fields!(OperationKey { device, operation }: "device" Text, "operation" Text);
key_of_fields!(RequesterKey { on, task, cgroup }:
    "device" Text, "operation" Text, "pid" Number, "tid" Number, "start" Number, "cgroup" Text);

/// Unset: the unspecified address, port 0.
impl Default for SocketKey {
    fn default() -> Self {
        let none = SocketAddr::from(([0, 0, 0, 0], 0));
        Self { ns: Name::default(), local: none, remote: none, inode: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Splits a key and rebuilds it.
    fn again<K: Key + fmt::Debug>(key: &K) -> Option<K> {
        let mut parts = Vec::new();
        key.take_apart(&mut parts);
        let kinds = parts.iter().map(|part| match part {
            KeyPart::Number(_) => KeyPartKind::Number,
            KeyPart::Text(_) => KeyPartKind::Text,
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
        assert_eq!(again(&MachineKey), Some(MachineKey));
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
        let put = |parts: Vec<KeyPart>| u32::put_together(&mut parts.into_iter());
        assert_eq!(put(vec![]), None);
        assert_eq!(put(vec![KeyPart::Text("7".into())]), None);
        assert_eq!(put(vec![KeyPart::Number(1 << 32)]), None);
        assert_eq!(SocketAddr::put_together(&mut [KeyPart::Text("nowhere".into())].into_iter()), None);
    }
}
