//! A link that delays, loses and damages packets.

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
    /// How many of ten thousand packets arrive damaged, each way
    #[arg(long, default_value_t = 0)]
    damage: u64,
    /// Size of the largest packet that is not lost
    #[arg(long, default_value_t = usize::MAX)]
    largest: usize,
}

impl Relay {
    /// Runs the relay. Ready when both devices exist; ends when one of them is removed.
    pub fn run(self) -> Endless {
        let (near, far) = (tun(&self.near)?, tun(&self.far)?);
        let (near_back, far_back) = (near.try_clone()?, far.try_clone()?);
        let back = Wire::new(&self, 1);
        thread::spawn(move || forward(far_back, near_back, back));
        ready("")?;
        forward(near, far, Wire::new(&self, 2))
    }
}

/// One direction of the link. Each packet is lost or damaged with the same probability, independently of the others.
struct Wire {
    delay: Duration,
    rng: SmallRng,
    loss: u64,
    damage: u64,
    largest: usize,
}

/// Length of the header before each packet (struct virtio_net_hdr of include/uapi/linux/virtio_net.h).
const HEADER: usize = 10;

impl Wire {
    fn new(relay: &Relay, seed: u64) -> Self {
        let (delay, rng) = (Duration::from_micros(relay.delay_us), SmallRng::seed_from_u64(seed));
        Self { delay, rng, loss: relay.loss, damage: relay.damage, largest: relay.largest }
    }

    fn loses(&mut self, packet: &[u8]) -> bool {
        self.rng.random_range(0..10_000) < self.loss || packet.len().saturating_sub(HEADER) > self.largest
    }

    /// Damages some packets: no valid header has this type (gso_type), so the device counts a framing error.
    fn damage(&mut self, packet: &mut [u8]) {
        if self.rng.random_range(0..10_000) < self.damage
            && let Some(gso_type) = packet.get_mut(1)
        {
            *gso_type = 0x7f;
        }
    }
}

/// Forwards packets; those in transit are held in the channel until they are due.
fn forward(mut from: File, mut to: File, mut wire: Wire) -> Endless {
    let (send, sent) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        for (due, packet) in sent {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            // A device that is down loses packets, and a device refuses damaged ones.
            drop(to.write(&packet));
        }
    });
    let mut buffer = [0; 65536 + HEADER];
    loop {
        let length = from.read(&mut buffer)?;
        let mut packet = buffer[..length].to_vec();
        if wire.loses(&packet) {
            continue;
        }
        wire.damage(&mut packet);
        send.send((Instant::now() + wire.delay, packet)).map_err(|_| io::ErrorKind::BrokenPipe)?;
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
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
    // SAFETY: the request is valid and outlives the call.
    unsafe { tunsetiff(file.as_raw_fd(), &raw const request as u64) }?;
    Ok(file)
}
