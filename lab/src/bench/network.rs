//! Benchmark trials on links of known rate and delay.

use super::{BenchTrial, Benchmark, Checked, near};
use crate::command::{ChildGuard, join_namespace, kill_with_parent};
use crate::error::{Context, Error, Result};
use crate::interrupt;
use crate::link::{Link, tun_relay, veth_pair};
use crate::observer::Observer;
use crate::testbed::Testbed;
use nix::sched::CloneFlags;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;
use whyslow_documents::bench::{BenchReport, Network};

pub const LINK_RATE: BenchTrial = BenchTrial {
    name: "bench.link_rate",
    what: "a token bucket limits a link; TCP over it is measured within 2 %",
    setup: |bed| {
        let link = veth_pair(bed)?;
        let megabits = bed.range(20..=200);
        link.near.shape("veth0", megabits, "16k", "50ms")?;
        let bits = megabits as f64 * 1e6;
        let check = move |report: &BenchReport| {
            let Some((goodput, mss)) = report.network.as_ref().and_then(goodput_and_mss) else {
                return Checked::no("stream");
            };
            let on_the_wire = goodput * 8.0 * (mss + HEADERS) / mss;
            let found = format!("{:.1} Mbit/s with headers", on_the_wire / 1e6);
            Checked::new(found, &[(near(on_the_wire, bits, 0.02), "the rate is off by more than 2 %")])
        };
        let args = ["net", &link.far_ip, "--only", "streams", "--streams", "1", "--direction", "up", "--for", "4s"];
        Ok(Benchmark { server: Some(over(bed, &link)), ..Benchmark::new(&args, format!("{megabits} Mbit/s"), check) })
    },
};

/// Bytes that the token bucket counts per frame in addition to TCP's payload: the headers of Ethernet, IP, and TCP with
/// timestamps.
const HEADERS: f64 = 14.0 + 20.0 + 32.0;

/// Returns the stream's bytes per second and its segment size.
fn goodput_and_mss(network: &Network) -> Option<(f64, f64)> {
    let run = network.rounds.first()?.runs.first()?;
    Some((run.bandwidth?, f64::from(run.sender()?.streams.first()?.mss?)))
}

pub const BUFFER: BenchTrial = BenchTrial {
    name: "bench.link_buffer",
    what: "a link has a delay and a token bucket: the bandwidth-delay product and the buffer that it needs are found",
    setup: |bed| {
        let delay_ms = bed.range(10..=30);
        let link = tun_relay(bed, delay_ms * 1000, 0)?;
        let megabits = bed.range(20..=60);
        link.near.shape("tun0", megabits, "16k", "50ms")?;
        let product = megabits as f64 * 1e6 / 8.0 * 2.0 * delay_ms as f64 / 1e3;
        let check = move |report: &BenchReport| {
            let buffers = report.network.as_ref().and_then(|network| network.buffers.as_ref());
            let Some((found, needed)) = buffers.and_then(|sizes| Some((sizes.product?, f64::from(sizes.needed?))))
            else {
                return Checked::no("bandwidth-delay product");
            };
            let close = (0.5..=2.0).contains(&(needed / product));
            Checked::new(
                format!("{:.0} KiB, buffer {:.0} KiB", found / 1024.0, needed / 1024.0),
                &[
                    (near(found, product, 0.15), "the product is off by more than 15 %"),
                    (close, "the buffer needed is less than half or more than twice the product"),
                ],
            )
        };
        // Every kernel has Reno, which leaves pacing to the window.
        let args =
            ["net", &link.far_ip, "--only", "buffers", "--direction", "up", "--for", "2s", "--congestion", "reno"];
        let expected = format!("{:.0} KiB", product / 1024.0);
        Ok(Benchmark { server: Some(over(bed, &link)), ..Benchmark::new(&args, expected, check) })
    },
};

/// Time for the server to start listening.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(10);

/// `whyslow bench net serve` at the far end of a link.
pub(super) struct BenchServer {
    namespace: PathBuf,
    ip: String,
}

/// Sets up whyslow at the near end of a link, with its server at the far end.
fn over(bed: &mut Testbed, link: &Link) -> BenchServer {
    bed.netns = Some(link.near.path());
    BenchServer { namespace: link.far.path(), ip: link.far_ip.clone() }
}

impl BenchServer {
    /// Starts the server and returns the options that the client needs.
    pub(super) fn start(&self, bed: &mut Testbed, observer: &Observer) -> Result<Vec<String>> {
        let (token, output) = (bed.path("token"), bed.path("server-output"));
        fs::write(&token, "a token that both ends know")?;
        let token = token.to_string_lossy().into_owned();
        let mut command = Command::new(&observer.whyslow);
        command.args(["bench", "net", "serve", "--listen", &self.ip, "--for", "5m", "--token-file", &token]);
        command.stdin(Stdio::null()).stdout(File::create(&output)?);
        kill_with_parent(&mut command);
        join_namespace(&mut command, File::open(&self.namespace)?, CloneFlags::CLONE_NEWNET);
        bed.keep(ChildGuard(command.spawn().context("whyslow bench net serve")?));
        let listens = || Ok((!fs::read(&output)?.is_empty()).then_some(()));
        interrupt::wait_for(LISTEN_TIMEOUT, listens)?.ok_or_else(|| Error::failed("the server does not listen"))?;
        Ok(vec!["--token-file".to_owned(), token])
    }
}
