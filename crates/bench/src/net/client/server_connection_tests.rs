//! Tests of a server under hostile clients.

use super::*;
use crate::Stop;
use crate::net::server::{ServerOptions, serve};
use proptest::prelude::*;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Once, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Instant;
use whyslow_documents::bench::{Direction, Work};

/// Number of panics in server threads, which are never joined.
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

/// A server on loopback, stopped when dropped.
struct TestServer {
    at: SocketAddr,
    token: Token,
    stop: Stop,
    thread: Option<JoinHandle<Result<()>>>,
}

impl TestServer {
    fn new() -> Self {
        count_panics();
        let (token, stop) = (Token::random().unwrap(), Stop::default());
        let asked = ServerOptions { listen: ([127, 0, 0, 1], 0).into(), token: token.clone(), seconds: 120.0 };
        let (report_ready, ready) = mpsc::channel();
        let until = stop.clone();
        let thread = thread::spawn(move || serve(&asked, &until, |at| report_ready.send(at).unwrap()));
        Self { at: ready.recv().unwrap(), token, stop, thread: Some(thread) }
    }

    /// Connects; retries while the sessions of earlier clients end.
    fn connection(&self) -> ServerConnection {
        let start = Instant::now();
        loop {
            match ServerConnection::open(&self.at.to_string(), &self.token) {
                Ok(connection) => return connection,
                Err(e) => assert!(start.elapsed() < Duration::from_secs(60), "no session: {e}"),
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns whether the server still serves and none of its threads has panicked.
    fn works(&self) -> bool {
        let load = NetLoad::stream(Direction::Up, 0.05);
        let round = self.connection().run_round("", "", &[("", load)], &mut |_| false).unwrap();
        let none = PANICS.load(Ordering::Relaxed) == 0;
        none && round.runs[0].failed.is_none() && round.runs[0].bandwidth > Some(0.0)
    }
}

impl Drop for TestServer {
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

fn requests() -> impl Strategy<Value = ClientRequest> {
    prop_oneof![
        (any::<u32>(), proptest::collection::vec(loads(), 0..6))
            .prop_map(|(round, loads)| ClientRequest::Prepare { round, loads }),
        Just(ClientRequest::Start),
        Just(ClientRequest::Stop),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, ..ProptestConfig::default() })]

    #[test]
    fn no_unauthenticated_data_ends_a_server(visits in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 1..20)) {
        let server = TestServer::new();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        for visit in visits {
            let mut stream = TcpStream::connect(server.at).unwrap();
            // The server may close it before everything is sent.
            let _ = stream.write_all(&ConnectionPurpose::Control.greeting()).and_then(|()| stream.write_all(&visit));
            let _ = TcpStream::connect(server.at).unwrap().write_all(&visit);
            socket.send_to(&visit, server.at).unwrap();
        }
        prop_assert!(server.works());
    }

    #[test]
    fn no_authenticated_requests_end_a_server(
        visits in proptest::collection::vec(proptest::collection::vec(requests(), 1..6), 1..6),
        garbage: Vec<u8>,
    ) {
        let server = TestServer::new();
        for visit in visits {
            let mut connection = server.connection();
            for request in visit {
                // The server may close the connection in between.
                let _ = connection.channel.send(&request);
            }
            let _ = connection.channel.stream().write_all(&garbage);
        }
        prop_assert!(server.works());
    }
}

#[test]
fn a_stream_with_a_token_of_another_session_is_refused() {
    let server = TestServer::new();
    let (mut connection, other) = (server.connection(), server.connection());
    connection
        .send_request(&ClientRequest::Prepare { round: 1, loads: vec![NetLoad::stream(Direction::Up, 0.05)] })
        .unwrap();
    connection.expect(|reply| matches!(reply, ServerReply::Expecting)).unwrap();
    let id = StreamId { round: 1, load: 0, stream: 0 };
    let forged = ConnectionToken::new(connection.session, id, &other.key);
    let mut stream = TcpStream::connect(server.at).unwrap();
    stream.write_all(&ConnectionPurpose::TestStream.greeting()).unwrap();
    stream.write_all(&forged.bytes()).unwrap();
    assert_eq!(std::io::Read::read(&mut stream, &mut [0]).unwrap(), 0, "it is closed");
    assert_eq!(connection.channel.poll(Duration::from_millis(50)), Readiness::Idle, "and the round still waits");
}
