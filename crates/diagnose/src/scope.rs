//! Scopes: the kinds of thing that rules judge. Each is declared once, with its signals and how its entities are found.

use crate::signal::{Entity, Signal};
use crate::signals::blocked::{Blocked, BlockedMembers};
use crate::signals::io::IoUse;
use crate::signals::shortage::Rooms;
use crate::signals::task::TaskUse;
use crate::signals::{
    array, card, connection, core, database, disk, group, host, interface, io, kill, limit, mount, multipath, nfs,
    notice, part, partition, peer, process, quota, socket, thread, transfer, writer,
};
use whyslow_model::catalogue::Process;
use whyslow_model::topology::Topology;
use whyslow_model::window::{Change, Window};

/// What entities are computed from. What several scopes need is computed once.
pub struct EntitySources<'a> {
    pub window: &'a Window,
    pub topology: &'a Topology,
    pub host: &'a Entity,
    pub changes: &'a [Change<'a, Process>],
    pub processes: &'a [TaskUse],
    pub threads: &'a [TaskUse],
    pub rooms: &'a Rooms,
    pub blocked: Option<&'a Blocked>,
    pub members: &'a BlockedMembers<'a>,
    pub uses: &'a [IoUse<'a>],
    /// The share of the time in which tasks waited for I/O.
    pub io_stall: Option<f64>,
    /// The same for memory.
    pub memory_stall: Option<f64>,
}

/// Declares scopes: name, `listed` if a diagnosis of captures lists all its figures, the module with its signals, and its
/// entities.
macro_rules! scopes {
    ($of:ident; $(
        $(#[doc = $doc:literal])+
        $Scope:ident $(($listed:ident))? from $($module:ident)::+ => $entities:expr;
    )*) => {
        /// A kind of thing that rules judge.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Scope {
            $( $(#[doc = $doc])+ $Scope, )*
        }

        impl Scope {
            /// All of them.
            pub const ALL: &'static [Self] = &[ $( Self::$Scope ),* ];

            /// The signals of this kind of thing.
            pub fn signals(self) -> &'static [Signal] {
                match self {
                    $( Self::$Scope => $($module)::+::SIGNALS, )*
                }
            }

            /// Whether a diagnosis of captures lists all that is known of such things.
            pub fn is_listed(self) -> bool {
                match self {
                    $( Self::$Scope => $( !stringify!($listed).is_empty() || )? false, )*
                }
            }

            /// The things of this kind in a window.
            pub fn entities(self, $of: &EntitySources<'_>) -> Vec<Entity> {
                match self {
                    $( Self::$Scope => $entities, )*
                }
            }
        }
    };
}

scopes! { of;
    /// The machine as a whole; its signals are in sight of every rule.
    Host (listed) from host => vec![of.host.clone()];
    /// A CPU.
    Core (listed) from core => core::entities(of.window);
    /// A whole block device.
    Disk (listed) from disk => disk::entities(of.window, of.topology, of.io_stall, of.uses, of.blocked);
    /// A control group's use of a device it has a limit on.
    Quota from quota => quota::entities(of.window, of.members);
    /// A mounted file system.
    Mount from mount => mount::entities(of.window);
    /// A control group.
    Group from group => group::entities(of.window, of.rooms, of.members, of.memory_stall);
    /// A process.
    Process from process => process::entities(of.processes, of.changes, of.rooms);
    /// A thread; a process with one thread is one.
    Thread from thread => thread::entities(of.threads);
    /// A process' use of a device.
    Io from io => io::entities(of.uses);
    /// A process the kernel killed for memory.
    Kill from kill => kill::entities(of.window);
    /// What the kernel's log says again and again of one thing.
    Notice from notice => notice::entities(of.window);
    /// A network interface.
    Interface (listed) from interface => interface::entities(of.window, of.threads);
    /// A TCP connection.
    Connection from connection => connection::entities(of.window);
    /// The other end of TCP connections that have ended.
    Peer from peer => peer::entities(of.window);
    /// A listening socket.
    Listener from socket::listener => socket::listener::entities(of.window);
    /// A UDP socket.
    Datagram from socket::datagram => socket::datagram::entities(of.window);
    /// A count with a kernel limit.
    Limit (listed) from limit => limit::entities(of.window);
    /// A part whose errors the kernel logged: a disk, by host:channel:target:lun if the log has that.
    Part (listed) from part => part::entities(of.window);
    /// A software RAID array.
    Array (listed) from array => array::entities(of.window, of.topology);
    /// A transfer that a tool timed.
    Transfer (listed) from transfer => transfer::entities(of.window);
    /// A network card of which only counts since boot are known.
    Card (listed) from card => card::entities(of.window);
    /// A partition whose start is known.
    Partition (listed) from partition => partition::entities(of.window);
    /// A device with several paths.
    Multipath (listed) from multipath => multipath::entities(of.window);
    /// An NFS mount.
    Nfs (listed) from nfs => nfs::entities(of.window);
    /// A database instance that reported on itself.
    Database (listed) from database => database::entities(of.window);
    /// A process with files of a full file system open.
    Writer from writer => writer::entities(of.window, of.processes);
}

impl Scope {
    /// As a rule's file spells it.
    pub fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}
