//! TCP streams.

use super::low_water::{self, LowWater};
use super::{TestStream, closed, moved};
use crate::engine::IoOp;
use crate::load::{RequestTimes, RunStats};
use crate::net::socket::set_low_water;
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::fs::File;
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::num::NonZeroUsize;
use std::thread::sleep;
use std::time::{Duration, Instant};

const FILL: u8 = 0x5a;

pub(super) fn send(stream: &TestStream) -> io::Result<()> {
    let block = vec![FILL; stream.load.block as usize];
    if stream.load.send_file {
        return send_file(stream, &block);
    }
    while !stream.is_over() {
        if let Some(sent) = moved(stream.socket.send(&block))? {
            stream.counter.add(sent);
        }
    }
    Ok(())
}

/// Sends from the page cache, without copying.
fn send_file(stream: &TestStream, block: &[u8]) -> io::Result<()> {
    let mut file = File::from(memfd_create(c"wsl-net", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(block)?;
    while !stream.is_over() {
        if let Some(sent) = moved(stream.socket.sendfile(&file, 0, NonZeroUsize::new(block.len())))? {
            stream.counter.add(sent);
        }
    }
    Ok(())
}

/// Receives until the other end closes.
pub(super) fn receive(stream: &TestStream) -> io::Result<()> {
    let mut buffer = vec![MaybeUninit::uninit(); stream.load.block as usize];
    let flags = if stream.load.discard { libc::MSG_TRUNC } else { 0 };
    // With a fixed buffer size, measure its effect on an ordinary receiver.
    let mut low_water = (stream.load.discard && stream.load.buffer.is_none()).then(|| LowWater::new(Instant::now()));
    loop {
        let received = match moved(stream.socket.recv_with_flags(&mut buffer, flags))? {
            Some(0) => return Err(closed()),
            Some(received) => received,
            None => continue,
        };
        stream.counter.add(received);
        if let Some(mark) = low_water.as_mut().and_then(|water| water.received(received, Instant::now)) {
            set_low_water(&stream.socket, mark)?;
            stream.socket.set_read_timeout((mark > 0).then_some(low_water::LATE))?;
        }
    }
}

/// Sends requests and waits for their answers.
pub(super) fn ask(stream: &TestStream, stats: &mut RunStats) -> io::Result<()> {
    let request = vec![FILL; stream.load.block as usize];
    let mut answer = vec![0; stream.load.answer as usize];
    let pause = Duration::from_secs_f64(stream.load.pause);
    let mut socket = &*stream.socket;
    while !stream.has_asked_enough() {
        let issued = stream.now();
        socket.write_all(&request)?;
        socket.read_exact(&mut answer)?;
        stats.add(IoOp::Read, stream.load.answer, RequestTimes { due: issued, issued, done: stream.now() });
        if !pause.is_zero() {
            sleep(pause);
        }
    }
    Ok(())
}

pub(super) fn answer(stream: &TestStream) -> io::Result<()> {
    let mut request = vec![0; stream.load.block as usize];
    let answer = vec![FILL; stream.load.answer as usize];
    let mut socket = &*stream.socket;
    loop {
        let read = match moved(socket.read(&mut request))? {
            // The requesting end closes between two requests.
            Some(0) => return Ok(()),
            Some(read) => read,
            None => continue,
        };
        socket.read_exact(&mut request[read..])?;
        socket.write_all(&answer)?;
    }
}
