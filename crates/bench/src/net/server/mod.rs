//! `bench net serve`: the end that others measure against.
//!
//! Whoever knows the token may have a server send, receive and answer, within limits. A stranger gets no further than the
//! challenge, and not much of the machine's time.

mod desk;
mod session;

use super::door::{GREETING, PASS, Pass, Purpose};
use super::line::Side;
use super::message::{Admission, Challenge, MEDIUM, Response, SMALL, Welcome};
use super::socket::{LULL, bound_udp};
use super::token::{Role, Token, nonce};
use super::wire::Channel;
use crate::error::{Error, Result};
use crate::stop::Stop;
use desk::{Arrival, Desk};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use session::Session;
use socket2::Socket;
use std::io;
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Where a server listens unless told otherwise.
pub const PORT: u16 = 5219;

/// How long a stranger may take to say who it is.
const INTRODUCTION: Duration = Duration::from_secs(5);
/// How long whoever does not know the token waits for the answer: guessing shall take time.
const REFUSAL: Duration = Duration::from_secs(1);
/// How long sessions may take to end when the server does.
const FAREWELL: Duration = Duration::from_secs(15);
/// How often it is looked whether the server is to end.
const TICK: Duration = Duration::from_millis(100);

/// What to serve.
#[derive(Clone, Debug)]
pub struct Serve {
    /// Where to listen, TCP and UDP; port 0 is any that is free.
    pub listen: SocketAddr,
    /// What clients have to know.
    pub token: Token,
    /// When to end, seconds.
    pub seconds: f64,
}

/// Serves until the time is up, a client that knows the token ends it, or `stop` is asked for. `ready` is told where it
/// listens.
///
/// # Errors
/// Where the address cannot be had.
pub fn serve(asked: &Serve, stop: &Stop, ready: impl FnOnce(SocketAddr)) -> Result<()> {
    let refused = |e: io::Error| Error::new(format!("{}: cannot listen there: {e}", asked.listen));
    let listener = TcpListener::bind(asked.listen).map_err(refused)?;
    listener.set_nonblocking(true).map_err(refused)?;
    let at = listener.local_addr().map_err(refused)?;
    let door = bound_udp(at).map_err(refused)?;
    door.set_read_timeout(Some(LULL)).map_err(refused)?;
    let desk = Arc::new(Desk::new(stop.clone()));
    let datagrams = desk.clone();
    let answers = thread::Builder::new().name("bench-door".into()).spawn(move || admit_datagrams(&door, &datagrams));
    answers.map_err(refused)?;
    ready(at);
    let end = Instant::now() + Duration::try_from_secs_f64(asked.seconds).unwrap_or(Duration::MAX / 4);
    while !desk.is_closing() && Instant::now() < end {
        let _ = poll(&mut [PollFd::new(listener.as_fd(), PollFlags::POLLIN)], poll_time(TICK));
        // All that wait, or strangers who keep coming fill the kernel's queue.
        while let Ok((stream, _)) = listener.accept() {
            welcome(stream, &asked.token, &desk);
            if desk.is_closing() {
                break;
            }
        }
    }
    desk.close(FAREWELL);
    Ok(())
}

fn poll_time(time: Duration) -> PollTimeout {
    PollTimeout::try_from(time).unwrap_or(PollTimeout::MAX)
}

/// Hears whoever comes, in a thread of its own; there are not many at a time.
fn welcome(stream: TcpStream, token: &Token, desk: &Arc<Desk>) {
    // A connection that is gone already needs no answer.
    let Ok(guest) = desk.seat_stranger(&stream) else { return };
    let (token, desk) = (token.clone(), desk.clone());
    // Where there is no thread to be had the connection is closed, which tells the client.
    let _ = thread::Builder::new().name("bench-guest".into()).spawn(move || {
        // What strangers do wrong is their own affair.
        if let Ok(Some(session)) = introduce(stream, &token, &desk) {
            drop(guest);
            session.serve();
        }
    });
}

/// Hears what a connection is for. A session, where it is for one and the client may have it.
fn introduce(stream: TcpStream, token: &Token, desk: &Arc<Desk>) -> io::Result<Option<Session>> {
    stream.set_nonblocking(false)?;
    let due = Instant::now() + INTRODUCTION;
    let mut channel = Channel::new(stream)?;
    let mut greeting = [0; GREETING];
    channel.fill(&mut greeting, due)?;
    match Purpose::of(&greeting) {
        Some(Purpose::Control) => admit(channel, token, desk, due),
        Some(Purpose::Line) => {
            let mut pass = [0; PASS];
            channel.fill(&mut pass, due)?;
            let stream = channel.stream().try_clone()?;
            stream.set_read_timeout(None)?;
            stream.set_write_timeout(None)?;
            desk.admit(&Pass::of(&pass), Arrival::Stream(Socket::from(stream)));
            Ok(None)
        }
        None => Ok(None),
    }
}

/// Lets a client in that knows the token, and shows it that this end does.
fn admit(mut channel: Channel, token: &Token, desk: &Arc<Desk>, due: Instant) -> io::Result<Option<Session>> {
    let challenge = Challenge { program: super::PROGRAM.into(), nonce: nonce()? };
    channel.send(&challenge)?;
    let response: Response = channel.receive(SMALL, due)?;
    if !token.is_proof(&response.proof, Role::Client, &challenge.nonce, &response.nonce) {
        thread::sleep(REFUSAL);
        channel.send(&Admission::Refused("the token is another one".into()))?;
        return Ok(None);
    }
    let key = token.proof(Role::Session, &challenge.nonce, &response.nonce);
    let Some((seat, arrivals)) = desk.open_session(key)? else {
        channel.send(&Admission::Refused("the server has as many clients as it takes; try again later".into()))?;
        return Ok(None);
    };
    let proof = token.proof(Role::Server, &challenge.nonce, &response.nonce);
    channel.send(&Admission::Welcome(Box::new(introduction(proof, seat.id))))?;
    Ok(Some(Session::new(channel, desk.clone(), seat, arrivals)))
}

fn introduction(proof: [u8; 32], session: [u8; 16]) -> Welcome {
    let name = nix::sys::utsname::uname().ok();
    let word = |text: &std::ffi::OsStr| text.to_str().map(str::to_owned);
    Welcome {
        proof,
        session,
        host: name.as_ref().and_then(|name| word(name.nodename())),
        kernel: name.as_ref().and_then(|name| word(name.release())),
        cpus: thread::available_parallelism().ok().and_then(|n| u32::try_from(n.get()).ok()),
        receive_most: super::most_buffer("tcp_rmem"),
        send_most: super::most_buffer("tcp_wmem"),
    }
}

/// Hears the first datagram of each line of UDP until the server ends.
fn admit_datagrams(door: &Socket, desk: &Desk) {
    let mut buffer = [MaybeUninit::uninit(); MEDIUM];
    while !desk.is_closing() {
        // A time-out, or what an earlier answer met on its way.
        let Ok((length, from)) = door.recv_from(&mut buffer) else { continue };
        // SAFETY: the kernel has written the first `length` bytes.
        let bytes: Vec<u8> = buffer[..length].iter().map(|byte| unsafe { byte.assume_init() }).collect();
        if let Some((pass, from)) = Pass::of_datagram(&bytes).zip(from.as_socket()) {
            desk.admit(&pass, Arrival::Datagrams(from));
        }
    }
}

/// This end of every load.
const SIDE: Side = Side::Server;
