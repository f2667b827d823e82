//! A server under clients of every kind.

use super::*;
use crate::net::server::{Serve, serve};
use crate::stop::Stop;
use proptest::prelude::*;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Once, mpsc};
use std::thread::{self, JoinHandle};
use whyslow_model::bench::{Direction, Work};

/// Threads of servers that panicked: nobody waits for those, so that nothing else would tell.
static PANICS: AtomicU32 = AtomicU32::new(0);

fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if thread::current().name().is_some_and(|name| name.starts_with("bench-")) {
                PANICS.fetch_add(1, Ordering::Relaxed);
            }
            before(panic);
        }));
    });
}

/// A server on this machine, ended when dropped.
struct House {
    at: SocketAddr,
    token: Token,
    stop: Stop,
    thread: Option<JoinHandle<Result<()>>>,
}

impl House {
    fn new() -> Self {
        count_panics();
        let (token, stop) = (Token::random().unwrap(), Stop::default());
        let asked = Serve { listen: ([127, 0, 0, 1], 0).into(), token: token.clone(), seconds: 120.0 };
        let (tell, ready) = mpsc::channel();
        let until = stop.clone();
        let thread = thread::spawn(move || serve(&asked, &until, |at| tell.send(at).unwrap()));
        Self { at: ready.recv().unwrap(), token, stop, thread: Some(thread) }
    }

    /// A session. Those of clients that are gone may not have ended yet, and there are not many.
    fn link(&self) -> Link {
        let link = || Link::open(&self.at.to_string(), &self.token).ok();
        let wait = || thread::sleep(Duration::from_millis(20));
        (0..500).find_map(|_| link().or_else(|| (wait(), None).1)).expect("a session")
    }

    /// Whether it serves, and no server's thread has panicked so far.
    fn works(&self) -> bool {
        let load = NetLoad::stream(Direction::Up, 0.05);
        let round = self.link().round("", "", &[("", load)], &mut |_| false).unwrap();
        let none = PANICS.load(Ordering::Relaxed) == 0;
        none && round.runs[0].failed.is_none() && round.runs[0].bandwidth > Some(0.0)
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.stop.ask();
        let ended = self.thread.take().map(|thread| thread.join().expect("the server panicked"));
        assert!(matches!(ended, Some(Ok(()))));
    }
}

fn loads() -> impl Strategy<Value = NetLoad> {
    let work =
        prop_oneof![Just(Work::Stream(Direction::Up)), Just(Work::Stream(Direction::Down)), Just(Work::Exchange)];
    let transport = prop_oneof![Just(Transport::Tcp), Just(Transport::Udp)];
    let sizes = (0..300u32, any::<u32>(), any::<u32>(), proptest::option::of(any::<u32>()));
    (work, transport, sizes, any::<f64>()).prop_map(|(work, transport, (streams, block, answer, buffer), rate)| {
        NetLoad {
            work,
            transport,
            streams,
            block: block >> (streams % 32),
            answer,
            buffer,
            rate: Some(rate),
            ..NetLoad::stream(Direction::Up, 0.01)
        }
    })
}

fn requests() -> impl Strategy<Value = Request> {
    prop_oneof![
        (any::<u32>(), proptest::collection::vec(loads(), 0..6))
            .prop_map(|(round, loads)| Request::Prepare { round, loads }),
        Just(Request::Start),
        Just(Request::Stop),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, ..ProptestConfig::default() })]

    #[test]
    fn no_stranger_ends_a_server(visits in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 1..20)) {
        let house = House::new();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        for visit in visits {
            let mut stream = TcpStream::connect(house.at).unwrap();
            // It may be shown the door before all is said.
            let _ = stream.write_all(&Purpose::Control.greeting()).and_then(|()| stream.write_all(&visit));
            let _ = TcpStream::connect(house.at).unwrap().write_all(&visit);
            socket.send_to(&visit, house.at).unwrap();
        }
        prop_assert!(house.works());
    }

    #[test]
    fn no_client_ends_a_server(
        visits in proptest::collection::vec(proptest::collection::vec(requests(), 1..6), 1..6),
        garbage: Vec<u8>,
    ) {
        let house = House::new();
        for visit in visits {
            let mut link = house.link();
            for request in visit {
                // It may be sent away in between.
                let _ = link.channel.send(&request);
            }
            let _ = link.channel.stream().write_all(&garbage);
        }
        prop_assert!(house.works());
    }
}

#[test]
fn a_line_with_a_pass_of_another_session_is_not_let_in() {
    let house = House::new();
    let (mut link, other) = (house.link(), house.link());
    link.tell(&Request::Prepare { round: 1, loads: vec![NetLoad::stream(Direction::Up, 0.05)] }).unwrap();
    link.expect(|reply| matches!(reply, Reply::Expecting), PATIENCE).unwrap();
    let place = Place { round: 1, load: 0, line: 0 };
    let forged = Pass::new(link.session, place, &other.key);
    let mut stream = TcpStream::connect(house.at).unwrap();
    stream.write_all(&Purpose::Line.greeting()).unwrap();
    stream.write_all(&forged.bytes()).unwrap();
    assert_eq!(std::io::Read::read(&mut stream, &mut [0]).unwrap(), 0, "it is closed");
    assert_eq!(link.channel.listen(Duration::from_millis(50)), Heard::Nothing, "and the round still waits");
}
