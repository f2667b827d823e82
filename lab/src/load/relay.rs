//! A long wire: packets between two network namespaces, each some time later.

use super::{Endless, ready};
use crate::dice::Dice;
use clap::Args;
use nix::sched::{CloneFlags, setns};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

nix::ioctl_write_int!(tunsetiff, b'T', 202);

/// Carries packets between the TUN devices `wire0` of two namespaces.
#[derive(Args)]
pub struct Relay {
    /// One namespace's file.
    #[arg(long)]
    near: PathBuf,
    /// The other's.
    #[arg(long)]
    far: PathBuf,
    /// How much later a packet arrives, each way.
    #[arg(long)]
    delay_us: u64,
    /// Of ten thousand packets, how many are lost on the way, each way.
    #[arg(long, default_value_t = 0)]
    loss: u64,
}

impl Relay {
    /// Ready when both devices are there; ends when one of them goes.
    pub fn run(self) -> Endless {
        let (near, far) = (tun(&self.near)?, tun(&self.far)?);
        let delay = Duration::from_micros(self.delay_us);
        let (near_again, far_again) = (near.try_clone()?, far.try_clone()?);
        let loss = self.loss;
        thread::spawn(move || carry(far_again, near_again, delay, Loss::new("back", loss)));
        ready("")?;
        carry(near, far, delay, Loss::new("forth", loss))
    }
}

/// Which packets are lost: each with the same chance, whatever became of the one before.
struct Loss {
    dice: Dice,
    of_ten_thousand: u64,
}

impl Loss {
    fn new(way: &str, of_ten_thousand: u64) -> Self {
        Self { dice: Dice::new(1, way), of_ten_thousand }
    }

    fn takes_next(&mut self) -> bool {
        self.dice.between(1, 10_000) <= self.of_ten_thousand
    }
}

/// Packets are read at once and written when their time has come: what is on its way is held in the channel.
fn carry(mut from: File, mut to: File, delay: Duration, mut loss: Loss) -> Endless {
    let (send, sent) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        for (due, packet) in sent {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            // A device that is down loses packets, as a wire does.
            drop(to.write(&packet));
        }
    });
    let mut buffer = [0; 65536];
    loop {
        let length = from.read(&mut buffer)?;
        if loss.takes_next() {
            continue;
        }
        let packet = (Instant::now() + delay, buffer[..length].to_vec());
        send.send(packet).map_err(|_| io::ErrorKind::BrokenPipe)?;
    }
}

/// Makes the TUN device `wire0` in a namespace; it lives as long as its file is open.
fn tun(namespace: &PathBuf) -> io::Result<File> {
    setns(File::open(namespace)?, CloneFlags::CLONE_NEWNET)?;
    let file = OpenOptions::new().read(true).write(true).open("/dev/net/tun")?;
    // SAFETY: an ifreq of zeroes is valid: no name, no flags.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"wire0") {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the request is valid and outlives the call.
    unsafe { tunsetiff(file.as_raw_fd(), &raw const request as u64) }?;
    Ok(file)
}
