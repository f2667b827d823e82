//! Scopes: the kinds of entity that rules judge. Each is declared once, with its signals and the function that finds its
//! entities.

use crate::own;
use crate::signal::{Entity, HasSignals, Signal};
use crate::signals::blocked::Blocked;
use crate::signals::group::BlockedMembers;
use crate::signals::io::IoUse;
use crate::signals::shortage::Rooms;
use crate::signals::task::TaskUse;
use crate::signals::{
    connection, core, cpu_set, disk, drop, filesystem, group, guest, host, interface, io, limit, link, log,
    memory_module, netlink, numa, off_cpu, part, pcie, peer, ports, process, quota, reports, shaper, subnet, usb,
    volume,
};
use whyslow_model::catalogue::{self, Process};
use whyslow_model::topology::Topology;
use whyslow_model::window::{Change, Window};

/// Inputs of the entities. Data that several scopes need is computed once.
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
    /// Share of the time in which tasks waited for I/O.
    pub io_stall: Option<f64>,
    /// Share of the time in which tasks waited for memory.
    pub memory_stall: Option<f64>,
}

/// Declares scopes: name, `listed` if a diagnosis of captures lists all its figures, the type that has its signals, and its
/// entities.
macro_rules! scopes {
    ($of:ident; $(
        $(#[doc = $doc:literal])+
        $Scope:ident $(($listed:ident))? from $Source:ty => $entities:expr;
    )*) => {
        /// A kind of thing that rules judge.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Scope {
            $( $(#[doc = $doc])+ $Scope, )*
        }

        impl Scope {
            /// All scopes.
            pub const ALL: &'static [Self] = &[ $( Self::$Scope ),* ];

            /// Returns the signals of this kind of entity that the program declares.
            pub(crate) fn built_in_signals(self) -> &'static [Signal] {
                match self {
                    $( Self::$Scope => <$Source as HasSignals>::SIGNALS, )*
                }
            }

            /// Returns true if a diagnosis of captures lists all figures of such entities.
            pub fn is_listed(self) -> bool {
                match self {
                    $( Self::$Scope => $( !stringify!($listed).is_empty() || )? false, )*
                }
            }

            /// Returns the entities of this kind in a window.
            pub fn entities(self, $of: &EntitySources<'_>) -> Vec<Entity> {
                match self {
                    $( Self::$Scope => $entities, )*
                }
            }
        }
    };
}

impl Scope {
    /// Returns the signals of this kind of entity: those of the program, then the quantities that users declared.
    pub fn signals(self) -> &'static [Signal] {
        own::signals(self).unwrap_or_else(|| self.built_in_signals())
    }
}

/// Returns the signals of all kinds of entities.
pub fn all_signals() -> impl Iterator<Item = &'static Signal> + Clone {
    Scope::ALL.iter().flat_map(|scope| scope.signals())
}

scopes! { of;
    /// The machine as a whole; its signals are in sight of every rule.
    Host (listed) from host::HostUse<'_> => vec![of.host.clone()];
    /// A CPU.
    Core (listed) from core::CoreUse<'_> => core::entities(of.window);
    /// A whole block device.
    Disk (listed) from disk::DiskUse<'_> => disk::entities(of.window, of.topology, of.io_stall, of.uses, of.blocked);
    /// A control group's use of a device it has a limit on.
    Quota from quota::QuotaUse<'_> => quota::entities(of.window, of.members);
    /// A mounted file system.
    Mount from Change<'_, catalogue::Mount> => filesystem::mounts(of.window);
    /// A control group.
    Group (listed) from group::GroupUse<'_> => group::entities(of.window, of.processes, of.rooms, of.members, of.memory_stall);
    /// A process.
    Process from process::ProcessUse<'_> => process::processes(of.window, of.processes, of.changes, of.rooms);
    /// CPUs that processes are bound to.
    Cpuset from cpu_set::CpuSetUse<'_> => cpu_set::entities(of.window, of.processes);
    /// A virtual machine that runs on this one.
    Guest (listed) from guest::GuestUse<'_> => guest::entities(of.window, of.processes, of.threads);
    /// A thread; a process with one thread is one.
    Thread from TaskUse => process::threads(of.threads);
    /// A process' use of a device.
    Io from IoUse<'_> => io::entities(of.uses);
    /// A process the kernel killed for memory.
    Kill from log::OomKill => log::kills(of.window);
    /// What held memory when the kernel killed a process for it.
    Holder from log::MemoryHolder => log::holders(of.window);
    /// A message that the kernel logged about one thing, however often.
    Notice from log::Noticed<'_> => log::notices(of.window);
    /// A network interface.
    Interface (listed) from interface::InterfaceUse<'_> => interface::interfaces(of.window, of.threads);
    /// The shaper of a network interface that holds most back.
    Shaper from shaper::ShaperUse<'_> => shaper::entities(of.window);
    /// A subnet in which several interfaces have addresses.
    Subnet from subnet::SubnetUse<'_> => subnet::entities(of.window);
    /// Packets that the kernel drops for one reason, at one interface or in a network namespace.
    Drop from drop::DropUse<'_> => drop::entities(of.window);
    /// The link of a network interface.
    Link from catalogue::Link => link::links(of.window);
    /// A port of a bond.
    Port (listed) from link::PortUse<'_> => link::ports(of.window);
    /// A wireless interface.
    Wireless (listed) from catalogue::Wireless => link::wireless(of.window);
    /// A TCP connection.
    Connection from connection::ConnectionUse<'_> => connection::connections(of.window);
    /// The other end of TCP connections that have ended.
    Peer from Change<'_, catalogue::EndedConnections> => peer::entities(of.window);
    /// Connections to one peer that take up many of the local ports.
    Ports from ports::PortUse<'_> => ports::entities(of.window);
    /// A listening socket.
    Listener from Change<'_, catalogue::Listener> => connection::listeners(of.window);
    /// A UDP socket.
    Datagram from Change<'_, catalogue::Datagram> => connection::datagram_sockets(of.window);
    /// A netlink socket of a program.
    Netlink from netlink::NetlinkUse<'_> => netlink::entities(of.window);
    /// A count with a kernel limit.
    Limit (listed) from limit::LimitUse => limit::entities(of.window);
    /// A part whose errors the kernel logged: a disk, by host:channel:target:lun if the log has that.
    Part (listed) from part::Part<'_> => part::entities(of.window);
    /// A lock of a Java program that threads of it wait for.
    Monitor (listed) from catalogue::Monitor => reports::monitors(of.window);
    /// The heap of a Java program.
    Heap (listed) from reports::HeapUse<'_> => reports::heaps(of.window);
    /// A drive that reports on its own health.
    Drive (listed) from catalogue::Drive => reports::drives(of.window);
    /// A software RAID array.
    Array (listed) from volume::ArrayUse<'_> => volume::arrays(of.window, of.topology);
    /// A transfer that a tool timed.
    Transfer (listed) from reports::Timed<'_> => reports::transfers(of.window);
    /// A host that ping sent echoes to.
    Ping (listed) from reports::PingUse<'_> => reports::pings(of.window);
    /// A partition whose start is known.
    Partition (listed) from catalogue::Partition => volume::partitions(of.window);
    /// A PCIe link whose speed and width are known.
    Pcie (listed) from catalogue::PcieLink => pcie::entities(of.window);
    /// Something whose time was traced, each time.
    Latency (listed) from catalogue::Latency => reports::latencies(of.window);
    /// A program whose time off the CPU was traced.
    Offcpu (listed) from off_cpu::OffCpuUse<'_> => off_cpu::entities(of.window);
    /// A USB device whose speed is known.
    Usb (listed) from catalogue::UsbLink => usb::entities(of.window);
    /// A device with several paths.
    Multipath (listed) from volume::Paths<'_> => volume::multipath_devices(of.window);
    /// An NFS mount.
    Nfs (listed) from Change<'_, catalogue::NfsMount> => filesystem::nfs_mounts(of.window);
    /// A program in a profile of CPU time.
    Profile (listed) from catalogue::Profile => reports::profiles(of.window);
    /// A database instance that reported on itself.
    Database (listed) from catalogue::Database => reports::databases(of.window);
    /// A logical volume, a volume group, or another device of the device mapper.
    Volume (listed) from catalogue::Volume => volume::volumes(of.window);
    /// A condition that Kubernetes reports of a node, pod or container.
    Condition (listed) from catalogue::Condition => reports::conditions(of.window);
    /// A zone of the machine's memory.
    Zone (listed) from catalogue::Zone => reports::zones(of.window);
    /// A memory module with error correction.
    Module (listed) from Change<'_, catalogue::MemoryModule> => memory_module::entities(of.window);
    /// A NUMA node, of a machine with several.
    Node (listed) from numa::NodeUse<'_> => numa::entities(of.window);
    /// A process with files of a full file system open.
    Writer from Change<'_, catalogue::Writer> => filesystem::writers(of.window, of.processes);
}

impl Scope {
    /// Returns the name as a rule's file spells it.
    pub fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_1_or_0_is_a_flag() {
        let is_flag = |help: &str| ["1 where", "1 if", "1 for"].iter().any(|words| help.starts_with(words));
        let signals = all_signals();
        let wrong: Vec<&str> = signals.filter(|s| is_flag(s.help) && s.unit != "flag").map(|s| s.name).collect();
        assert_eq!(wrong, [""; 0]);
    }
}
