//! Keys, which identify the rows of a family.

use crate::value::Name;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;

/// A row's key, which can be split into column values and rebuilt.
pub trait Key: Clone + Ord + fmt::Display {
    /// Its columns, in order.
    const COLUMNS: &'static [KeyColumn];

    /// Appends the key's values to `parts`, one per column.
    fn take_apart(&self, parts: &mut Vec<KeyPart>);

    /// Rebuilds a key from as many values as it has columns. `None` if one is missing or invalid.
    fn put_together(parts: &mut dyn Iterator<Item = KeyPart>) -> Option<Self>;
}

/// A column of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct KeyColumn {
    /// Its name; `None` if the key has only one value, which is named by the family (`device`, `cpu`).
    pub name: Option<&'static str>,
    /// The kind of its values.
    pub kind: KeyPartKind,
}

/// The kind of values in a key column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum KeyPartKind {
    /// A whole number.
    Number,
    /// Words.
    Text,
}

/// A value in a key column. Numbers sort before text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyPart {
    /// A whole number.
    Number(u64),
    /// Text as the system spells it. Untrusted: anything that displays it must escape it.
    Text(Name),
}

/// Declares a key: its fields, each with the names and kinds of its columns.
macro_rules! key {
    (
        $(#[$meta:meta])*
        $Key:ident { $( $(#[$field_meta:meta])* $field:ident: $Field:ty = $( $column:literal $kind:ident ),+; )* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $Key {
            $( $(#[$field_meta])* pub $field: $Field, )*
        }

        impl Key for $Key {
            const COLUMNS: &'static [KeyColumn] =
                &[ $( $( KeyColumn { name: Some($column), kind: KeyPartKind::$kind } ),+ ),* ];

            fn take_apart(&self, parts: &mut Vec<KeyPart>) {
                $( self.$field.take_apart(parts); )*
            }

            fn put_together(parts: &mut dyn Iterator<Item = KeyPart>) -> Option<Self> {
                Some(Self { $( $field: Key::put_together(parts)? ),* })
            }
        }
    };
}

/// The key of a family with one row: the machine itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MachineKey;

impl fmt::Display for MachineKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("host")
    }
}

key! {
    /// Something counted per CPU: an interrupt line, a softirq vector.
    #[derive(Default)]
    PerCpu {
        /// The line or vector, named as in /proc/interrupts or /proc/softirqs.
        name: Name = "name" Text;
        /// CPU number; [`PerCpu::ALL`] if only the sum over all CPUs is known.
        cpu: u32 = "cpu" Number;
    }
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

key! {
    /// A process or thread. The start time distinguishes tasks that reuse a number.
    #[derive(Copy, Default)]
    TaskKey {
        /// PID (thread group id).
        pid: u32 = "pid" Number;
        /// TID; equal to `pid` for a process as a whole; 0 for a thread whose number is unknown.
        tid: u32 = "tid" Number;
        /// Start time in clock ticks since boot (field 22 of /proc/PID/stat); for a thread without a number, whatever distinguishes
        /// it from the others.
        start: u64 = "start" Number;
    }
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

key! {
    /// A process and a mount that it uses.
    #[derive(Default)]
    MountTask {
        /// The mount point.
        mount: Name = "mount" Text;
        /// The process.
        task: TaskKey = "pid" Number, "tid" Number, "start" Number;
    }
}

impl fmt::Display for MountTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.task, self.mount)
    }
}

key! {
    /// A process and a NUMA node.
    #[derive(Copy, Default)]
    NodeTask {
        /// The node's number.
        node: u32 = "node" Number;
        /// The process.
        task: TaskKey = "pid" Number, "tid" Number, "start" Number;
    }
}

impl fmt::Display for NodeTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on node{}", self.task, self.node)
    }
}

key! {
    /// A disk or network card of a virtual machine.
    #[derive(Default)]
    GuestDevice {
        /// The process that runs the virtual machine.
        task: TaskKey = "pid" Number, "tid" Number, "start" Number;
        /// What QEMU calls the device.
        name: Name = "name" Text;
    }
}

impl fmt::Display for GuestDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.name, self.task)
    }
}

key! {
    /// The children of a process with the same name.
    #[derive(Default)]
    Offspring {
        /// Their parent: the nearest ancestor that outlived them.
        parent: TaskKey = "parent_pid" Number, "parent_tid" Number, "parent_start" Number;
        /// Their name.
        name: Name = "name" Text;
    }
}

impl fmt::Display for Offspring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.name, self.parent)
    }
}

key! {
    /// Something named within a network namespace: an interface, the counters of a protocol.
    #[derive(Default)]
    NetKey {
        /// The namespace: empty for the observer's own, otherwise its name under /run/netns, or `net:[inode]`.
        ns: Name = "ns" Text;
        /// The name within it.
        name: Name = "name" Text;
    }
}

impl fmt::Display for NetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.ns.is_empty() { write!(f, "{}", self.name) } else { write!(f, "{}@{}", self.name, self.ns) }
    }
}

key! {
    /// A connection or a listening socket.
    SocketKey {
        /// The network namespace, as in [`NetKey`].
        ns: Name = "ns" Text;
        /// The local address.
        local: SocketAddr = "local" Text;
        /// The remote address; the unspecified address and port 0 if the socket is not connected.
        remote: SocketAddr = "remote" Text;
        /// The socket's inode, which distinguishes several sockets on one address (SO_REUSEPORT); 0 if unknown.
        inode: u64 = "inode" Number;
    }
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

key! {
    /// A link between two named things: a block device and the one below it, a cgroup and a device it uses.
    #[derive(Default)]
    LinkKey {
        /// The upper one, or the user.
        upper: Name = "upper" Text;
        /// The lower one, or the one used.
        lower: Name = "lower" Text;
    }
}

impl fmt::Display for LinkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.upper, self.lower)
    }
}

key! {
    /// A group of processes that waits for a resource, and the one that keeps it waiting.
    #[derive(Default)]
    InterferenceKey {
        /// What is waited for: `cpu` or `network`.
        resource: Name = "resource" Text;
        /// The control group that waits.
        victim: Name = "victim" Text;
        /// The control group that keeps it waiting, which may be the same: empty if it could not be told, `kernel` for threads of the
        /// kernel.
        culprit: Name = "culprit" Text;
    }
}

impl fmt::Display for InterferenceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} behind {} for {}", self.victim, self.culprit, self.resource)
    }
}

key! {
    /// An operation of a block device: `read`, `write`, `flush` or `discard`, as /proc/diskstats groups them.
    #[derive(Default)]
    OperationKey {
        /// The whole device.
        device: Name = "device" Text;
        /// The operation.
        operation: Name = "operation" Text;
    }
}

impl fmt::Display for OperationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.operation, self.device)
    }
}

key! {
    /// A thing of the machine's inventory.
    #[derive(Default)]
    InventoryKey {
        /// What kind of thing: `package`, `sysctl`, `firmware`.
        kind: Name = "kind" Text;
        /// What it is called, the same on every machine that has it.
        name: Name = "name" Text;
    }
}

impl fmt::Display for InventoryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

key! {
    /// A block device with a number of requests in flight.
    #[derive(Default)]
    DepthKey {
        /// The whole device.
        device: Name = "device" Text;
        /// Requests in flight: 1, 2, 4, ... 256, each of which stands for those up to its geometric mean with the next one.
        depth: u32 = "depth" Number;
    }
}

impl fmt::Display for DepthKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with {} in flight", self.device, self.depth)
    }
}

key! {
    /// Requests of one kind to a block device.
    #[derive(Default)]
    ResponseKey {
        /// The device and operation.
        on: OperationKey = "device" Text, "operation" Text;
        /// The size class: bytes of the largest, [`ResponseKey::LARGEST`] if unlimited.
        size: u32 = "size" Number;
        /// `sequential` if it begins where a recent one ended, else `random`.
        access: Name = "access" Text;
        /// Requests in flight, as in [`DepthKey`]: the larger one of the numbers at its issue and at its completion.
        depth: u32 = "depth" Number;
    }
}

impl ResponseKey {
    /// The size class of the largest requests.
    pub const LARGEST: u32 = u32::MAX;
}

impl fmt::Display for ResponseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} up to {} bytes, {} in flight", self.on, self.access, self.size, self.depth)
    }
}

key! {
    /// A process that issues an operation to a block device.
    #[derive(Default)]
    RequesterKey {
        /// The device and operation.
        on: OperationKey = "device" Text, "operation" Text;
        /// The process that issued the request: for write-back a kernel thread.
        task: TaskKey = "pid" Number, "tid" Number, "start" Number;
        /// The control group the request is charged to; empty if unknown.
        cgroup: Name = "cgroup" Text;
    }
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

impl Key for MachineKey {
    const COLUMNS: &'static [KeyColumn] = &[];

    fn take_apart(&self, _: &mut Vec<KeyPart>) {}

    fn put_together(_: &mut dyn Iterator<Item = KeyPart>) -> Option<Self> {
        Some(Self)
    }
}

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
        let on_node = NodeTask { node: 1, task };
        assert_eq!(again(&on_node), Some(on_node));
        let device = GuestDevice { task, name: "virtio-disk0".into() };
        assert_eq!(again(&device), Some(device.clone()));
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
