//! TCP sockets of a namespace that has few of them: those that are known are asked for one by one, which takes a few
//! microseconds each, and not by a walk through the kernel's tables of all.
//!
//! None is missed: the kernel counts its sockets, and where there are as many as are known, and each of those is still there, there
//! are no others.

use super::netlink::Netlink;
use super::sock_diag::{self, Socket, SocketId};
use std::collections::HashMap;
use std::time::{Duration, Instant};
use whyslow_model::value::{Name, State};

/// What few is: of more, asking for each would take as long as the walk.
const MOST: usize = 48;
/// How long a connection is taken to leave by the same interface.
const STANDS: Duration = Duration::from_secs(60);

/// What is known of each namespace.
#[derive(Default)]
pub(super) struct Few {
    /// At the last sample.
    before: HashMap<Name, Known>,
    /// At this sample.
    known: HashMap<Name, Known>,
}

/// The sockets of a namespace when they were last walked through, and by which interface each leaves.
pub(super) struct Known {
    since: Instant,
    sockets: Vec<(SocketId, State)>,
}

impl Default for Known {
    fn default() -> Self {
        Self { since: Instant::now(), sockets: Vec::new() }
    }
}

impl Known {
    /// Adds one.
    pub(super) fn add(&mut self, id: SocketId, interface: State) {
        // One more than are asked for tells that there are too many.
        if self.sockets.len() <= MOST {
            self.sockets.push((id, interface));
        }
    }

    fn stands(&self, count: u64) -> bool {
        self.sockets.len() <= MOST && self.sockets.len() as u64 == count && self.since.elapsed() < STANDS
    }
}

impl Few {
    /// A new sample begins.
    pub(super) fn next(&mut self) {
        self.before = std::mem::take(&mut self.known);
    }

    /// Shows each socket of a namespace that has so many, and the interface by which it leaves. False where they have to be
    /// walked through, since `each` was not shown all or says that one is over.
    pub(super) fn ask(
        &mut self,
        netlink: &mut Netlink,
        namespace: &Name,
        count: u64,
        mut each: impl FnMut(&Socket<'_>, &State) -> bool,
    ) -> bool {
        let Some(known) = self.before.remove(namespace).filter(|known| known.stands(count)) else { return false };
        let mut ask = |(id, interface): &(SocketId, State)| {
            sock_diag::one(netlink, libc::IPPROTO_TCP, id, |socket| each(socket, interface)).unwrap_or(false)
        };
        let all = known.sockets.iter().all(&mut ask);
        if all {
            self.known.insert(namespace.clone(), known);
        }
        all
    }

    /// Keeps what a walk found, for the next sample.
    pub(super) fn keep(&mut self, namespace: &Name, known: Known) {
        self.known.insert(namespace.clone(), known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::live_tests::{Pair, within};
    use crate::net::sock_diag::{CONNECTED_STATES, LISTEN};
    use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};

    /// A socket that listens, and both ends of a connection to it, all of which are known.
    struct Stage {
        listener: TcpListener,
        ends: [TcpStream; 2],
        netlink: Netlink,
        few: Few,
    }

    impl Stage {
        fn new() -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let ends = [client, listener.accept().unwrap().0];
            let mut netlink = Netlink::open(libc::NETLINK_SOCK_DIAG).unwrap();
            let (mut few, mut known) = (Few::default(), Known::default());
            let (tcp, states) = ((libc::AF_INET, libc::IPPROTO_TCP), CONNECTED_STATES | 1 << LISTEN);
            sock_diag::dump(&mut netlink, tcp, states, |socket| known.add(socket.id, "lo".into())).unwrap();
            few.keep(&"here".into(), known);
            Self { listener, ends, netlink, few }
        }

        /// The ends of all, at the next sample, where the kernel counts so many.
        fn ask(&mut self, count: u64) -> Option<Vec<(SocketAddr, u16)>> {
            self.few.next();
            let mut found = Vec::new();
            let all = self.few.ask(&mut self.netlink, &"here".into(), count, |socket, interface| {
                assert_eq!(interface.get(), Some("lo"));
                found.push((socket.local, socket.remote.port()));
                socket.tcp_info.is_some()
            });
            found.sort();
            all.then_some(found)
        }
    }

    #[test]
    fn few_sockets_are_asked_for_one_by_one() {
        let Some(pair) = Pair::new() else { return };
        within(&pair.a, || {
            let mut stage = Stage::new();
            let (near, far) = (stage.ends[0].local_addr().unwrap(), stage.listener.local_addr().unwrap());
            let mut there = vec![(near, far.port()), (far, near.port()), (far, 0)];
            there.sort();
            for _ in 0..2 {
                assert_eq!(stage.ask(3), Some(there.clone()));
            }
            assert_eq!(stage.ask(4), None, "there is one that is not known");
            assert_eq!(stage.ask(3), None, "and none is known any more");
        });
    }

    #[test]
    fn one_that_is_gone_is_noticed_whatever_the_kernel_counts() {
        let Some(pair) = Pair::new() else { return };
        within(&pair.a, || {
            let mut stage = Stage::new();
            assert!(stage.ask(3).is_some());
            stage.ends.iter().for_each(|end| end.shutdown(Shutdown::Both).unwrap());
            assert_eq!(stage.ask(3), None);
        });
    }
}
