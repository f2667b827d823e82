//! Over TCP.

use super::low_water::{self, LowWater};
use super::{Line, gone, moved};
use crate::load::{Action, Tally, Times};
use crate::net::socket::set_low_water;
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::fs::File;
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::num::NonZeroUsize;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What streams are made of.
const FILL: u8 = 0x5a;

/// Sends until all is over.
pub(super) fn send(line: &Line) -> io::Result<()> {
    let block = vec![FILL; line.load.block as usize];
    if line.load.send_file {
        return send_file(line, &block);
    }
    while !line.is_over() {
        if let Some(sent) = moved(line.socket.send(&block))? {
            line.meter.add(sent);
        }
    }
    Ok(())
}

/// The same from the page cache: the network reads the pages themselves.
fn send_file(line: &Line, block: &[u8]) -> io::Result<()> {
    let mut file = File::from(memfd_create(c"wsl-net", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(block)?;
    while !line.is_over() {
        if let Some(sent) = moved(line.socket.sendfile(&file, 0, NonZeroUsize::new(block.len())))? {
            line.meter.add(sent);
        }
    }
    Ok(())
}

/// Receives until the other end closes. Nobody looks at what comes.
pub(super) fn receive(line: &Line) -> io::Result<()> {
    let mut buffer = vec![MaybeUninit::uninit(); line.load.block as usize];
    let flags = if line.load.discard { libc::MSG_TRUNC } else { 0 };
    // Where a buffer was asked for, it is measured how far that goes where each piece is read as it comes.
    let mut low_water = (line.load.discard && line.load.buffer.is_none()).then(|| LowWater::new(Instant::now()));
    loop {
        let received = match moved(line.socket.recv_with_flags(&mut buffer, flags))? {
            Some(0) => return Err(gone()),
            Some(received) => received,
            None => continue,
        };
        line.meter.add(received);
        if let Some(mark) = low_water.as_mut().and_then(|water| water.received(received, Instant::now)) {
            set_low_water(&line.socket, mark)?;
            line.socket.set_read_timeout((mark > 0).then_some(low_water::LATE))?;
        }
    }
}

/// Sends a request, waits for its answer, and again.
pub(super) fn ask(line: &Line, tally: &mut Tally) -> io::Result<()> {
    let request = vec![FILL; line.load.block as usize];
    let mut answer = vec![0; line.load.answer as usize];
    let pause = Duration::from_secs_f64(line.load.pause);
    let mut socket = &*line.socket;
    while !line.has_asked_enough() {
        let made = line.now();
        socket.write_all(&request)?;
        socket.read_exact(&mut answer)?;
        tally.add(Action::Read, line.load.answer, Times { due: made, made, done: line.now() });
        if !pause.is_zero() {
            sleep(pause);
        }
    }
    Ok(())
}

/// Answers until the other end closes.
pub(super) fn answer(line: &Line) -> io::Result<()> {
    let mut request = vec![0; line.load.block as usize];
    let answer = vec![FILL; line.load.answer as usize];
    let mut socket = &*line.socket;
    loop {
        let read = match moved(socket.read(&mut request))? {
            // Whoever asks ends it, between two requests.
            Some(0) => return Ok(()),
            Some(read) => read,
            None => continue,
        };
        socket.read_exact(&mut request[read..])?;
        socket.write_all(&answer)?;
    }
}
