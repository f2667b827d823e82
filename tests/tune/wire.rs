//! A long wire: a TUN device here and one in another network namespace; packets of each come out at the other after a
//! delay.

use crate::cage::tool;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// `TUNSETIFF` of include/uapi/linux/if_tun.h.
const TUNSETIFF: libc::c_ulong = 0x4004_54ca;

/// Address of the far end, and its port that sends `bytes` to each client.
pub const SERVER: (&str, u16) = ("10.77.0.2", 7777);

/// Lays a wire with this delay each way, from the thread's namespace to one that serves files of this many bytes. Both
/// ends disappear with the test's process.
pub fn lay(delay: Duration, bytes: usize) {
    let near = end("10.77.0.1/24");
    let (send, far) = mpsc::channel();
    thread::spawn(move || {
        // SAFETY: unshare has no preconditions; it only affects this thread.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "unshare");
        send.send(end("10.77.0.2/24")).unwrap();
        serve(bytes);
    });
    let far = far.recv().unwrap();
    carry(near.try_clone().unwrap(), far.try_clone().unwrap(), delay);
    carry(far, near, delay);
}

fn end(address: &str) -> File {
    let file = OpenOptions::new().read(true).write(true).open("/dev/net/tun").unwrap();
    // SAFETY: all zero bytes are a valid ifreq: no name, no flags.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"wsl-wire") {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the request is valid and outlives the call.
    assert_eq!(unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF as _, &raw const request) }, 0, "TUNSETIFF");
    tool("ip", &["address", "add", address, "dev", "wsl-wire"]);
    // The queue holds more than the largest window, so the wire loses no packets.
    tool("ip", &["link", "set", "wsl-wire", "txqueuelen", "10000", "up"]);
    file
}

fn serve(bytes: usize) {
    let listener = TcpListener::bind(SERVER).unwrap();
    let data = vec![7; bytes];
    for connection in listener.incoming() {
        // A client may hang up early.
        let _ = connection.and_then(|mut connection| connection.write_all(&data));
    }
}

/// Reads packets at once and writes them when they are due; the channel holds packets in transit.
fn carry(mut from: File, mut to: File, delay: Duration) {
    let (send, sent) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        for (due, packet) in sent {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            // A device that is down loses packets, like a wire.
            drop(to.write(&packet));
        }
    });
    thread::spawn(move || {
        let mut buffer = [0; 65536];
        while let Ok(length) = from.read(&mut buffer) {
            if send.send((Instant::now() + delay, buffer[..length].to_vec())).is_err() {
                return;
            }
        }
    });
}
