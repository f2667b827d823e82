//! `bench net serve`: the server that clients measure against.
//!
//! A client that knows the token can make the server send, receive and answer, within limits. An unauthenticated
//! connection gets only a challenge and little of the machine's time.

mod client_session;
mod session_registry;

use super::handshake::{ConnectionPurpose, ConnectionToken, GREETING, TOKEN_BYTES};
use super::message::{Admission, Challenge, MAX_REQUEST, MAX_UNAUTHENTICATED, Response, ServerInfo};
use super::message_channel::MessageChannel;
use super::socket::{POLL_INTERVAL, bound_udp};
use super::token::{ProofKind, Token, nonce};
use crate::{Error, Result, Stop};
use client_session::ClientSession;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use session_registry::{IncomingStream, SessionRegistry};
use socket2::Socket;
use std::io;
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Default port.
pub const PORT: u16 = 5219;

/// Time limit for authentication.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Delay before the answer to a wrong token, so that guessing takes time.
const REFUSAL_DELAY: Duration = Duration::from_secs(1);
/// Time for sessions to end when the server ends.
const CLOSING: Duration = Duration::from_secs(15);
/// Interval for checking whether to end.
const TICK: Duration = Duration::from_millis(100);

/// Options of `bench net serve`.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Listen address for TCP and UDP; port 0 means any free port.
    pub listen: SocketAddr,
    /// Token that clients must know.
    pub token: Token,
    /// Duration in seconds.
    pub seconds: f64,
}

/// Serves until the time is up, a client asks the server to stop, or `stop` is set. Calls `ready` with the listen
/// address.
///
/// # Errors
/// Fails if the address cannot be bound.
pub fn serve(options: &ServerOptions, stop: &Stop, ready: impl FnOnce(SocketAddr)) -> Result<()> {
    let failed = |e: io::Error| Error::new(format!("{}: cannot listen: {e}", options.listen));
    let listener = TcpListener::bind(options.listen).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let at = listener.local_addr().map_err(failed)?;
    let udp = bound_udp(at).map_err(failed)?;
    udp.set_read_timeout(Some(POLL_INTERVAL)).map_err(failed)?;
    let registry = Arc::new(SessionRegistry::new(stop.clone()));
    let of_datagrams = registry.clone();
    let receive = move || receive_datagrams(&udp, &of_datagrams);
    thread::Builder::new().name("bench-udp".into()).spawn(receive).map_err(failed)?;
    ready(at);
    let end = Instant::now() + Duration::try_from_secs_f64(options.seconds).unwrap_or(Duration::MAX / 4);
    while !registry.is_closing() && Instant::now() < end {
        let timeout = PollTimeout::try_from(TICK).unwrap_or(PollTimeout::MAX);
        let _ = poll(&mut [PollFd::new(listener.as_fd(), PollFlags::POLLIN)], timeout);
        // Accept all waiting connections, or the kernel's queue fills up.
        while let Ok((stream, _)) = listener.accept() {
            handle_connection(stream, &options.token, &registry);
            if registry.is_closing() {
                break;
            }
        }
    }
    registry.close(CLOSING);
    Ok(())
}

/// Serves a connection in a thread of its own.
fn handle_connection(stream: TcpStream, token: &Token, registry: &Arc<SessionRegistry>) {
    // It may already be closed.
    let Ok(pending) = registry.add_pending(&stream) else { return };
    let (token, registry) = (token.clone(), registry.clone());
    // If no thread can be started, the connection is closed, which informs the client.
    let _ = thread::Builder::new().name("bench-client".into()).spawn(move || {
        // Errors are for the client to handle.
        if let Ok(Some(session)) = identify(stream, &token, &registry) {
            drop(pending);
            session.serve();
        }
    });
}

/// Reads the purpose of a connection; opens a session if that is requested and the client authenticates.
fn identify(stream: TcpStream, token: &Token, registry: &Arc<SessionRegistry>) -> io::Result<Option<ClientSession>> {
    stream.set_nonblocking(false)?;
    let due = Instant::now() + HANDSHAKE_TIMEOUT;
    let mut channel = MessageChannel::new(stream)?;
    let mut greeting = [0; GREETING];
    channel.fill(&mut greeting, due)?;
    match ConnectionPurpose::parse(&greeting) {
        Some(ConnectionPurpose::Control) => authenticate(channel, token, registry, due),
        Some(ConnectionPurpose::TestStream) => {
            let mut bytes = [0; TOKEN_BYTES];
            channel.fill(&mut bytes, due)?;
            let stream = channel.stream().try_clone()?;
            stream.set_read_timeout(None)?;
            stream.set_write_timeout(None)?;
            registry.deliver(&ConnectionToken::from_bytes(&bytes), IncomingStream::Tcp(Socket::from(stream)));
            Ok(None)
        }
        None => Ok(None),
    }
}

/// Authenticates a client: both ends prove that they know the token.
fn authenticate(
    mut channel: MessageChannel,
    token: &Token,
    registry: &Arc<SessionRegistry>,
    due: Instant,
) -> io::Result<Option<ClientSession>> {
    let challenge = Challenge { program: super::PROGRAM.into(), nonce: nonce()? };
    channel.send(&challenge)?;
    let response: Response = channel.receive(MAX_UNAUTHENTICATED, due)?;
    if !token.is_proof(&response.proof, ProofKind::Client, &challenge.nonce, &response.nonce) {
        thread::sleep(REFUSAL_DELAY);
        channel.send(&Admission::Refused("wrong token".into()))?;
        return Ok(None);
    }
    let key = token.proof(ProofKind::Session, &challenge.nonce, &response.nonce);
    let Some((guard, incoming)) = registry.open_session(key)? else {
        channel.send(&Admission::Refused("the server has the maximum number of clients; try again later".into()))?;
        return Ok(None);
    };
    let proof = token.proof(ProofKind::Server, &challenge.nonce, &response.nonce);
    channel.send(&Admission::Welcome(Box::new(server_info(proof, guard.id))))?;
    Ok(Some(ClientSession::new(channel, registry.clone(), guard, incoming)))
}

fn server_info(proof: [u8; 32], session: [u8; 16]) -> ServerInfo {
    let name = nix::sys::utsname::uname().ok();
    let word = |text: &std::ffi::OsStr| text.to_str().map(str::to_owned);
    ServerInfo {
        proof,
        session,
        host: name.as_ref().and_then(|name| word(name.nodename())),
        kernel: name.as_ref().and_then(|name| word(name.release())),
        cpus: thread::available_parallelism().ok().and_then(|n| u32::try_from(n.get()).ok()),
        receive_most: super::max_auto_buffer("tcp_rmem"),
        send_most: super::max_auto_buffer("tcp_wmem"),
    }
}

/// Receives the first datagram of each UDP stream until the server ends.
fn receive_datagrams(udp: &Socket, registry: &SessionRegistry) {
    let mut buffer = [MaybeUninit::uninit(); MAX_REQUEST];
    while !registry.is_closing() {
        // Timeout or ICMP error.
        let Ok((length, from)) = udp.recv_from(&mut buffer) else { continue };
        // SAFETY: the kernel has written the first `length` bytes.
        let bytes: Vec<u8> = buffer[..length].iter().map(|byte| unsafe { byte.assume_init() }).collect();
        if let Some((token, from)) = ConnectionToken::of_datagram(&bytes).zip(from.as_socket()) {
            registry.deliver(&token, IncomingStream::Udp(from));
        }
    }
}
