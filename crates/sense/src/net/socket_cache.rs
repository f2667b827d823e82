//! Reads the TCP sockets of a namespace that has few of them one by one, which takes a few microseconds each, instead of walking
//! the kernel's tables of all sockets.
//!
//! The cache misses no socket: if the kernel counts as many sockets as are cached, and each of those still exists, there are no
//! others.

use super::netlink::Netlink;
use super::sock_diag::{self, DiagSocket, SocketId};
use std::collections::HashMap;
use std::time::{Duration, Instant};
use whyslow_model::value::{Name, State};

/// With more sockets, reading each would take as long as the walk.
const MAX_SOCKETS: usize = 48;
/// Time for which a connection is assumed to use the same interface.
const TTL: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(super) struct SocketCache {
    last_sample: HashMap<Name, CachedSockets>,
    this_sample: HashMap<Name, CachedSockets>,
}

/// The sockets that the last walk through a namespace found, and the interface of each.
pub(super) struct CachedSockets {
    since: Instant,
    sockets: Vec<(SocketId, State)>,
}

impl Default for CachedSockets {
    fn default() -> Self {
        Self { since: Instant::now(), sockets: Vec::new() }
    }
}

impl CachedSockets {
    pub(super) fn add(&mut self, id: SocketId, interface: State) {
        // One more than the maximum indicates that there are too many.
        if self.sockets.len() <= MAX_SOCKETS {
            self.sockets.push((id, interface));
        }
    }

    fn is_valid(&self, count: u64) -> bool {
        self.sockets.len() <= MAX_SOCKETS && self.sockets.len() as u64 == count && self.since.elapsed() < TTL
    }
}

impl SocketCache {
    pub(super) fn begin_sample(&mut self) {
        self.last_sample = std::mem::take(&mut self.this_sample);
    }

    /// Calls `each` with every socket of a namespace that has `count` of them, and the socket's interface. Returns false if the
    /// caller has to walk: not all sockets are cached, or `each` returned false for one that has closed.
    pub(super) fn read(
        &mut self,
        netlink: &mut Netlink,
        namespace: &Name,
        count: u64,
        mut each: impl FnMut(&DiagSocket<'_>, &State) -> bool,
    ) -> bool {
        let Some(cached) = self.last_sample.remove(namespace).filter(|cached| cached.is_valid(count)) else {
            return false;
        };
        let mut read = |(id, interface): &(SocketId, State)| {
            sock_diag::one(netlink, libc::IPPROTO_TCP, id, |socket| each(socket, interface)).unwrap_or(false)
        };
        let all = cached.sockets.iter().all(&mut read);
        if all {
            self.this_sample.insert(namespace.clone(), cached);
        }
        all
    }

    /// Stores the result of a walk for the next sample.
    pub(super) fn insert(&mut self, namespace: &Name, sockets: CachedSockets) {
        self.this_sample.insert(namespace.clone(), sockets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::sock_diag::{CONNECTED_STATES, LISTEN};
    use crate::testing::{NetnsPair, within};
    use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};

    /// A listening socket and both ends of a connection to it, all of them cached.
    struct TestSockets {
        listener: TcpListener,
        ends: [TcpStream; 2],
        netlink: Netlink,
        cache: SocketCache,
    }

    impl TestSockets {
        fn new() -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let ends = [client, listener.accept().unwrap().0];
            let mut netlink = Netlink::open(libc::NETLINK_SOCK_DIAG).unwrap();
            let (mut cache, mut sockets) = (SocketCache::default(), CachedSockets::default());
            let (tcp, states) = ((libc::AF_INET, libc::IPPROTO_TCP), CONNECTED_STATES | 1 << LISTEN);
            sock_diag::dump(&mut netlink, tcp, states, |socket| sockets.add(socket.id, "lo".into())).unwrap();
            cache.insert(&"here".into(), sockets);
            Self { listener, ends, netlink, cache }
        }

        /// Returns both ends of all sockets at the next sample, if the kernel counts this many.
        fn read(&mut self, count: u64) -> Option<Vec<(SocketAddr, u16)>> {
            self.cache.begin_sample();
            let mut found = Vec::new();
            let all = self.cache.read(&mut self.netlink, &"here".into(), count, |socket, interface| {
                assert_eq!(interface.get(), Some("lo"));
                found.push((socket.local, socket.remote.port()));
                socket.tcp_info.is_some()
            });
            found.sort();
            all.then_some(found)
        }
    }

    #[test]
    fn few_sockets_are_read_one_by_one() {
        let Some(pair) = NetnsPair::new() else { return };
        within(&pair.a, || {
            let mut sockets = TestSockets::new();
            let (near, far) = (sockets.ends[0].local_addr().unwrap(), sockets.listener.local_addr().unwrap());
            let mut expected = vec![(near, far.port()), (far, near.port()), (far, 0)];
            expected.sort();
            for _ in 0..2 {
                assert_eq!(sockets.read(3), Some(expected.clone()));
            }
            assert_eq!(sockets.read(4), None, "one is not cached");
            assert_eq!(sockets.read(3), None, "the cache was dropped");
        });
    }

    #[test]
    fn a_closed_socket_is_noticed_whatever_the_kernel_counts() {
        let Some(pair) = NetnsPair::new() else { return };
        within(&pair.a, || {
            let mut sockets = TestSockets::new();
            assert!(sockets.read(3).is_some());
            sockets.ends.iter().for_each(|end| end.shutdown(Shutdown::Both).unwrap());
            assert_eq!(sockets.read(3), None);
        });
    }
}
