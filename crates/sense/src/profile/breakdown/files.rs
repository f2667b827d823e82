//! Files behind descriptors, and the peers of connections on this host (proc_pid_fd(5)).

use super::connections::{Connections, Destination, address};
use crate::root::Root;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

/// Descriptors above this are not looked up: an apparent descriptor may be half an address.
const MOST_FILES: i32 = 1 << 16;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum OpenFile {
    /// Identified by its inode.
    Socket(u64),
    /// Identified by its inode; `reads` is true for the read end.
    Pipe { inode: u64, reads: bool },
    /// Its path, and the name of the device that it is, or is stored on.
    Path { path: String, device: String },
}

/// Time for which a descriptor is assumed to refer to the same file: it may be closed and opened again, or belong to another
/// program after `execve`.
const VALID: Duration = Duration::from_secs(1);

/// Open files by process and descriptor, with the time of the lookup.
#[derive(Debug, Default)]
pub(super) struct OpenFiles(HashMap<(u32, i32), (Instant, Option<OpenFile>)>);

impl OpenFiles {
    pub(super) fn note(&mut self, pid: u32, descriptor: i32, root: &Root) {
        if !(0..MOST_FILES).contains(&descriptor) {
            return;
        }
        let known = self.0.get(&(pid, descriptor));
        if known.is_some_and(|(at, _)| at.elapsed() < VALID) {
            return;
        }
        let now = open_file(pid, descriptor, root);
        // The files of a process that has ended remain known.
        if now.is_some() || known.is_none() {
            self.0.insert((pid, descriptor), (Instant::now(), now));
        }
    }

    /// Forgets the files of a process that called `execve`.
    pub(super) fn forget(&mut self, pid: u32) {
        self.0.retain(|(of, _), _| *of != pid);
    }

    pub(super) fn get(&self, pid: u32, descriptor: i32) -> Option<&OpenFile> {
        self.0.get(&(pid, descriptor))?.1.as_ref()
    }

    /// Lists the files that have a peer, with their process.
    fn peered(&self) -> impl Iterator<Item = (u32, &OpenFile)> {
        let open = self.0.iter().filter_map(|((pid, _), (_, file))| Some((*pid, file.as_ref()?)));
        open.filter(|(_, file)| !matches!(file, OpenFile::Path { .. }))
    }
}

fn open_file(pid: u32, descriptor: i32, root: &Root) -> Option<OpenFile> {
    let link = format!("proc/{pid}/fd/{descriptor}");
    let path = root.link(&link)?;
    if let Some(end) = end(&path, &link, root) {
        return Some(end);
    }
    // Avoids stat(2), which waits for the server of a network file system.
    let block = path.strip_prefix("/dev/").filter(|name| root.at(format!("sys/class/block/{name}")).exists());
    let device = block.map(str::to_owned).or_else(|| device_of_mount(pid, descriptor, root))?;
    Some(OpenFile::Path { path, device })
}

/// Parses the link target of a socket or pipe: `socket:[1234]`.
fn end(path: &str, link: &str, root: &Root) -> Option<OpenFile> {
    let inode = |kind: &str| path.strip_prefix(kind)?.strip_suffix(']')?.parse().ok();
    if let Some(inode) = inode("socket:[") {
        return Some(OpenFile::Socket(inode));
    }
    let inode = inode("pipe:[")?;
    // The link itself has the mode of the descriptor: r or w for the owner (proc_pid_fd(5)).
    let mode = fs::symlink_metadata(root.at(link)).ok()?.mode();
    Some(OpenFile::Pipe { inode, reads: mode & 0o400 != 0 })
}

/// Returns the device of the mount that holds a file: its name, or `MAJOR:MINOR` if it has none.
fn device_of_mount(pid: u32, descriptor: i32, root: &Root) -> Option<String> {
    let info = root.maybe(&format!("proc/{pid}/fdinfo/{descriptor}"))?;
    let numbers = device_numbers(pid, &info, root)?;
    Some(device_name(&numbers, root).unwrap_or(numbers))
}

/// Returns the same device as `MAJOR:MINOR`, from the file's /proc/PID/fdinfo (proc_pid_fdinfo(5), proc_pid_mountinfo(5)).
pub(super) fn device_numbers(pid: u32, info: &str, root: &Root) -> Option<String> {
    let mount = info.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim();
    let mounts = root.maybe(&format!("proc/{pid}/mountinfo"))?;
    let numbers = mounts.lines().find_map(|line| line.strip_prefix(mount)?.strip_prefix(' ')?.split(' ').nth(1))?;
    Some(numbers.to_owned())
}

/// Returns the name of a disk or partition by `MAJOR:MINOR`.
pub(super) fn device_name(numbers: &str, root: &Root) -> Option<String> {
    root.link(&format!("sys/dev/block/{numbers}"))?.rsplit('/').next().map(str::to_owned)
}

/// Peers of sockets and pipes, looked up while both ends exist.
#[derive(Debug, Default)]
pub(super) struct Peers {
    known: HashMap<OpenFile, Option<Peer>>,
    /// Pairs of processes, and whether the first one is the server of their connection; `None` if they have none.
    pairs: HashMap<(u32, u32), Option<bool>>,
    /// The only server that a process is connected to, or else its only client.
    partners: HashMap<u32, Option<Peer>>,
    /// Peers by the tracer's number for a destination of datagrams. The flag is true if the ports do not show which end is the
    /// client.
    destinations: HashMap<u32, (Peer, bool)>,
    /// Local ports of UDP sockets without a peer.
    udp_ports: HashMap<u64, u16>,
}

/// Lookups needed in addition to the awaited files.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// Pairs of a process that was woken from an interrupt and the process that was interrupted.
    pub(super) pairs: HashSet<(u32, u32)>,
    /// Processes that wait for any of several files.
    pub(super) pollers: HashSet<u32>,
    /// Destinations of a process's datagrams, by number.
    pub(super) destinations: HashMap<u32, (u32, Destination)>,
}

/// The other end of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Peer {
    /// The process, if it is on this host.
    pub(super) pid: Option<u32>,
    pub(super) address: Option<String>,
    /// Whether it is a client: it connected to a listening port here.
    pub(super) is_client: bool,
}

impl Peers {
    pub(super) fn peer(&self, file: &OpenFile) -> Option<&Peer> {
        self.known.get(file)?.as_ref()
    }

    /// Returns the only server that a process is connected to, or else its only client.
    pub(super) fn partner(&self, pid: u32) -> Option<&Peer> {
        self.partners.get(&pid)?.as_ref()
    }

    /// Returns the local port of a UDP socket, if it was looked up.
    pub(super) fn udp_port(&self, socket: u64) -> Option<u16> {
        self.udp_ports.get(&socket).copied()
    }

    /// Returns the destination of datagrams. `serves` is true for a process that received a datagram first; if the ports do not
    /// show the roles, such a process counts as a server and the result is `None`.
    pub(super) fn destination(&self, number: u32, serves: bool) -> Option<&Peer> {
        self.destinations.get(&number).filter(|(_, is_open)| !(serves && *is_open)).map(|(peer, _)| peer)
    }

    /// Whether the first process is the server of a connection with the second; `None` if they have none.
    pub(super) fn serves(&self, a: u32, b: u32) -> Option<bool> {
        *self.pairs.get(&(a, b))?
    }

    /// Whether [`look_up`](Self::look_up) would find something new.
    pub(super) fn lacks(&self, files: &OpenFiles, wanted: &Wanted) -> bool {
        files.peered().any(|(_, file)| !self.known.contains_key(file))
            || wanted.pairs.iter().any(|pair| !self.pairs.contains_key(pair))
            || wanted.pollers.iter().any(|pid| !self.partners.contains_key(pid))
            || wanted.destinations.keys().any(|number| !self.destinations.contains_key(number))
    }

    /// Looks up everything still unknown; reads every descriptor of every process.
    pub(super) fn look_up(&mut self, files: &OpenFiles, wanted: &Wanted, root: &Root) {
        if !self.lacks(files, wanted) {
            return;
        }
        let new: Vec<(u32, &OpenFile)> = files.peered().filter(|(_, file)| !self.known.contains_key(file)).collect();
        let pairs: Vec<(u32, u32)> =
            wanted.pairs.iter().copied().filter(|pair| !self.pairs.contains_key(pair)).collect();
        let pollers: Vec<u32> = wanted.pollers.iter().copied().filter(|pid| !self.partners.contains_key(pid)).collect();
        let senders = wanted.destinations.values().map(|(pid, _)| *pid);
        let pids = new.iter().map(|(pid, _)| *pid).chain(pairs.iter().map(|(a, _)| *a)).chain(pollers.iter().copied());
        let pids = pids.chain(senders);
        let connections = Connections::read(pids, root);
        let ends = DescriptorEnds::read(root);
        self.udp_ports.extend(connections.udp_ports());
        for (pid, file) in new {
            let peer = match file {
                OpenFile::Socket(inode) => connections.is_known(*inode).then(|| Peer {
                    pid: connections.other_end(*inode).and_then(|inode| ends.sockets.get(&inode).copied()),
                    address: connections.remote(*inode).and_then(address),
                    is_client: connections.serves(*inode),
                }),
                OpenFile::Pipe { inode, reads } => {
                    let holders = ends.pipes.get(&(*inode, !reads)).map_or(&[][..], Vec::as_slice);
                    let other = holders.iter().find(|holder| **holder != pid).or(holders.first());
                    other.map(|&pid| Peer { pid: Some(pid), ..Peer::default() })
                }
                OpenFile::Path { .. } => None,
            };
            self.known.insert(file.clone(), peer);
        }
        // The sockets of a process, each with the owner of the other end.
        let connected = |pid: u32| {
            let own = ends.sockets.iter().filter(move |(_, owner)| **owner == pid).map(|(inode, _)| *inode);
            own.filter_map(|inode| Some((inode, *ends.sockets.get(&connections.other_end(inode)?)?)))
        };
        for (a, b) in pairs {
            let shared = connected(a).find(|(_, other)| *other == b);
            self.pairs.insert((a, b), shared.map(|(inode, _)| connections.serves(inode)));
        }
        for (number, (_, destination)) in &wanted.destinations {
            let owner = connections.bound_at(destination).and_then(|inode| ends.sockets.get(&inode).copied());
            let is_client = destination.is_client(root);
            let address = Some(destination.address.to_string());
            let peer = Peer { pid: owner, address, is_client: is_client == Some(true) };
            self.destinations.entry(*number).or_insert((peer, is_client.is_none()));
        }
        for pid in pollers {
            let others = connected(pid).filter(|(_, other)| *other != pid);
            let (clients, servers): (HashSet<_>, HashSet<_>) = others
                .map(|(inode, other)| Peer { pid: Some(other), address: None, is_client: connections.serves(inode) })
                .partition(|peer| peer.is_client);
            let partners = if servers.is_empty() { clients } else { servers };
            let only = partners.len() == 1;
            self.partners.insert(pid, partners.into_iter().next().filter(|_| only));
        }
    }
}

/// Sockets and pipes, with the processes that have them open.
#[derive(Debug, Default)]
struct DescriptorEnds {
    sockets: HashMap<u64, u32>,
    /// By inode, and whether the processes hold the read end.
    pipes: HashMap<(u64, bool), Vec<u32>>,
}

impl DescriptorEnds {
    fn read(root: &Root) -> Self {
        let mut ends = Self::default();
        for pid in root.list("proc").iter().filter_map(|name| name.parse::<u32>().ok()) {
            for descriptor in root.list(&format!("proc/{pid}/fd")) {
                let link = format!("proc/{pid}/fd/{descriptor}");
                match root.link(&link).and_then(|path| end(&path, &link, root)) {
                    Some(OpenFile::Socket(inode)) => {
                        ends.sockets.insert(inode, pid);
                    }
                    Some(OpenFile::Pipe { inode, reads }) => ends.pipes.entry((inode, reads)).or_default().push(pid),
                    _ => {}
                }
            }
        }
        ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};

    #[test]
    fn the_peer_of_a_connection_on_this_host_is_found() {
        let root = Root::live();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        let (reader, writer) = std::io::pipe().unwrap();
        let own = std::process::id();
        let descriptors = [client.as_raw_fd(), server.as_raw_fd(), reader.as_raw_fd(), writer.as_raw_fd()];
        let mut files = OpenFiles::default();
        descriptors.iter().for_each(|&descriptor| files.note(own, descriptor, &root));
        let wanted =
            Wanted { pairs: HashSet::from([(own, own), (own, 1)]), pollers: HashSet::from([own]), ..Wanted::default() };
        let mut peers = Peers::default();
        assert!(peers.lacks(&files, &wanted));
        peers.look_up(&files, &wanted, &root);
        assert!(!peers.lacks(&files, &wanted));
        let [client_end, server_end, reader_end, writer_end] =
            descriptors.map(|d| peers.peer(files.get(own, d).unwrap()).unwrap());
        let address = |stream: &TcpStream| Some(stream.peer_addr().unwrap().to_string());
        assert_eq!(client_end, &Peer { pid: Some(own), address: address(&client), is_client: false });
        assert_eq!(server_end, &Peer { pid: Some(own), address: address(&server), is_client: true });
        assert_eq!((reader_end.pid, writer_end.pid), (Some(own), Some(own)));
        assert!(peers.serves(own, own).is_some());
        assert_eq!(peers.serves(own, 1), None);
    }

    #[test]
    fn the_peer_of_a_unix_socket_is_found() {
        let root = Root::live();
        let folder = whyslow_testing::folder();
        let listener = UnixListener::bind(folder.path().join("socket")).unwrap();
        let client = UnixStream::connect(folder.path().join("socket")).unwrap();
        let (server, _) = listener.accept().unwrap();
        let own = std::process::id();
        let mut files = OpenFiles::default();
        [&client, &server].iter().for_each(|stream| files.note(own, stream.as_raw_fd(), &root));
        let mut peers = Peers::default();
        peers.look_up(&files, &Wanted::default(), &root);
        let of = |stream: &UnixStream| peers.peer(files.get(own, stream.as_raw_fd()).unwrap()).cloned();
        assert_eq!(of(&client), Some(Peer { pid: Some(own), address: None, is_client: false }));
        assert_eq!(of(&server), Some(Peer { pid: Some(own), address: None, is_client: true }));
    }

    #[test]
    fn the_peers_of_datagram_sockets_are_found() {
        let root = Root::live();
        let own = std::process::id();
        let folder = whyslow_testing::folder();
        let local = UnixDatagram::bind(folder.path().join("server")).unwrap();
        let asks = UnixDatagram::bind(folder.path().join("client")).unwrap();
        asks.connect(folder.path().join("server")).unwrap();
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let connected = UdpSocket::bind("127.0.0.1:0").unwrap();
        connected.connect(server.local_addr().unwrap()).unwrap();
        let mut files = OpenFiles::default();
        let descriptors = [local.as_raw_fd(), asks.as_raw_fd(), server.as_raw_fd(), connected.as_raw_fd()];
        descriptors.iter().for_each(|&descriptor| files.note(own, descriptor, &root));
        let destination = Destination { address: server.local_addr().unwrap(), local_port: 9 };
        let wanted = Wanted { destinations: HashMap::from([(7, (own, destination))]), ..Wanted::default() };
        let mut peers = Peers::default();
        peers.look_up(&files, &wanted, &root);
        let [of_local, of_asks, of_server, of_connected] =
            descriptors.map(|d| peers.peer(files.get(own, d).unwrap()).cloned());
        // A socket that receives from others has only clients.
        assert_eq!(of_local, Some(Peer { pid: None, address: None, is_client: true }));
        assert_eq!(of_asks, Some(Peer { pid: Some(own), address: None, is_client: false }));
        assert_eq!(of_server, None);
        let address = Some(server.local_addr().unwrap().to_string());
        assert_eq!(of_connected, Some(Peer { pid: Some(own), address: address.clone(), is_client: false }));
        assert_eq!(peers.destination(7, true).map(|peer| (peer.pid, peer.address.clone())), Some((Some(own), address)));
    }

    #[test]
    fn what_is_no_descriptor_is_left_out() {
        let root = Root::live();
        let own = std::process::id();
        let folder = whyslow_testing::folder();
        let path = folder.path().join("file");
        let file = fs::File::create(&path).unwrap();
        let mut files = OpenFiles::default();
        for descriptor in [file.as_raw_fd(), -1, i32::MAX, 60_000] {
            files.note(own, descriptor, &root);
        }
        let found = files.get(own, file.as_raw_fd());
        let device = file.metadata().unwrap().dev();
        let numbers = format!("{}:{}", libc::major(device), libc::minor(device));
        let device = device_name(&numbers, &root).unwrap_or(numbers);
        assert_eq!(found, Some(&OpenFile::Path { path: path.to_str().unwrap().into(), device }));
        assert!([-1, i32::MAX, 60_000].iter().all(|&none| files.get(own, none).is_none()));
    }
}
