//! A link that delays and loses packets.

use super::{Endless, ready};
use clap::Args;
use nix::sched::{CloneFlags, setns};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

nix::ioctl_write_int!(tunsetiff, b'T', 202);

/// Forwards packets between the TUN devices `tun0` of two namespaces
#[derive(Args)]
pub struct Relay {
    /// File of one namespace
    #[arg(long)]
    near: PathBuf,
    /// File of the other namespace
    #[arg(long)]
    far: PathBuf,
    /// Delay of a packet, each way
    #[arg(long)]
    delay_us: u64,
    /// How many of ten thousand packets are lost, each way
    #[arg(long, default_value_t = 0)]
    loss: u64,
}

impl Relay {
    /// Ready when both devices exist; ends when one of them is removed.
    pub fn run(self) -> Endless {
        let (near, far) = (tun(&self.near)?, tun(&self.far)?);
        let delay = Duration::from_micros(self.delay_us);
        let (near_back, far_back) = (near.try_clone()?, far.try_clone()?);
        let loss = self.loss;
        thread::spawn(move || forward(far_back, near_back, delay, Loss::new(1, loss)));
        ready("")?;
        forward(near, far, delay, Loss::new(2, loss))
    }
}

/// Loses each packet with the same probability, independently of the others.
struct Loss {
    rng: SmallRng,
    of_ten_thousand: u64,
}

impl Loss {
    fn new(seed: u64, of_ten_thousand: u64) -> Self {
        Self { rng: SmallRng::seed_from_u64(seed), of_ten_thousand }
    }

    fn loses_next(&mut self) -> bool {
        self.rng.random_range(0..10_000) < self.of_ten_thousand
    }
}

/// Packets in transit are held in the channel until they are due.
fn forward(mut from: File, mut to: File, delay: Duration, mut loss: Loss) -> Endless {
    let (send, sent) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        for (due, packet) in sent {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            // A device that is down loses packets.
            drop(to.write(&packet));
        }
    });
    let mut buffer = [0; 65536];
    loop {
        let length = from.read(&mut buffer)?;
        if loss.loses_next() {
            continue;
        }
        let packet = (Instant::now() + delay, buffer[..length].to_vec());
        send.send(packet).map_err(|_| io::ErrorKind::BrokenPipe)?;
    }
}

/// Creates the TUN device `tun0` in a namespace; it exists as long as its file is open.
fn tun(namespace: &PathBuf) -> io::Result<File> {
    setns(File::open(namespace)?, CloneFlags::CLONE_NEWNET)?;
    let file = OpenOptions::new().read(true).write(true).open("/dev/net/tun")?;
    // SAFETY: an ifreq of zeroes is valid: no name, no flags.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"tun0") {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the request is valid and outlives the call.
    unsafe { tunsetiff(file.as_raw_fd(), &raw const request as u64) }?;
    Ok(file)
}
