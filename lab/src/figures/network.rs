//! A link of known rate, and a path of known rate and delay.

use super::{Figure, Judged, Probe, near};
use crate::error::{During, Error, Result};
use crate::leash::{Leash, die_with_us, enter};
use crate::netns::NetNs;
use crate::observer::Observer;
use crate::stage::Stage;
use crate::stop;
use crate::wire::{long_wire, wired_pair};
use nix::sched::CloneFlags;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;
use whyslow_model::bench::{Network, Report};

/// A shaped link.
pub const RATE: Figure = Figure {
    name: "bench.link_rate",
    what: "a token bucket holds a link to a rate; TCP over it is measured within 2 %",
    make: make_rate,
};

/// A long path.
pub const BUFFER: Figure = Figure {
    name: "bench.link_buffer",
    what: "a wire takes its time, a token bucket its rate: the bandwidth-delay product is found, and the buffer it needs",
    make: make_buffer,
};

/// How long the server may take to listen.
const PATIENCE: Duration = Duration::from_secs(10);
/// What a frame of Ethernet holds beside TCP's payload: its own header, IP's, TCP's with time stamps. The bucket counts it.
const HEADERS: f64 = 14.0 + 20.0 + 32.0;

fn make_rate(stage: &mut Stage) -> Result<Probe> {
    let net = stage.dice.between(1, 250);
    let (near_end, far_end) = wired_pair(stage, net)?;
    let megabits = stage.dice.between(20, 200);
    shape(&near_end, "wire0", megabits)?;
    let host = format!("10.213.{net}.2");
    let far = FarEnd { namespace: far_end.path(), host: host.clone() };
    stage.netns = Some(near_end.path());
    let bits = megabits as f64 * 1e6;
    let judge = move |report: &Report| {
        let Some((measured, mss)) = report.network.as_ref().and_then(measured) else {
            return Judged::of("nothing".into(), &[(false, "nothing was measured")]);
        };
        let on_the_wire = measured * 8.0 * (mss + HEADERS) / mss;
        let found = format!("{:.1} Mbit/s with headers", on_the_wire / 1e6);
        Judged::of(found, &[(near(on_the_wire, bits, 0.02), "the rate is off by more than 2 %")])
    };
    let args = ["net", &host, "--only", "streams", "--streams", "1", "--direction", "up", "--for", "4s"];
    Ok(Probe {
        args: args.map(str::to_owned).to_vec(),
        group: None,
        far: Some(far),
        expected: format!("{megabits} Mbit/s"),
        judge: Box::new(judge),
    })
}

/// Where `whyslow bench net serve` is run.
pub(super) struct FarEnd {
    namespace: PathBuf,
    host: String,
}

impl FarEnd {
    /// Starts the server. What the other end needs to know, as options.
    ///
    /// # Errors
    /// Where it does not listen in time.
    pub(super) fn serve(&self, stage: &mut Stage, observer: &Observer) -> Result<[String; 2]> {
        let (token, said) = (stage.path("token"), stage.path("served"));
        fs::write(&token, "known to both ends of a figure")?;
        let token = token.to_str().ok_or_else(|| Error::failed("a path is not UTF-8"))?.to_owned();
        let mut command = Command::new(&observer.whyslow);
        command.args(["bench", "net", "serve", "--listen", &self.host, "--for", "5m", "--token-file", &token]);
        command.stdin(Stdio::null()).stdout(File::create(&said)?);
        die_with_us(&mut command);
        enter(&mut command, File::open(&self.namespace)?, CloneFlags::CLONE_NEWNET);
        stage.keep(Leash(command.spawn().during("the server of a figure")?));
        let listens = || Ok((!fs::read(&said)?.is_empty()).then_some(()));
        stop::until(PATIENCE, listens)?.ok_or_else(|| Error::failed("the server does not listen"))?;
        Ok(["--token-file".to_owned(), token])
    }
}

/// What a stream brought, bytes a second, and its segments.
fn measured(network: &Network) -> Option<(f64, f64)> {
    let run = network.rounds.first()?.runs.first()?;
    Some((run.bandwidth?, f64::from(run.sender()?.streams.first()?.mss?)))
}

fn make_buffer(stage: &mut Stage) -> Result<Probe> {
    let (near_end, far_end) = (NetNs::new(stage, "near")?, NetNs::new(stage, "far")?);
    let net = stage.dice.between(1, 250);
    let delay_ms = stage.dice.between(10, 30);
    long_wire(stage, &near_end, &far_end, net, delay_ms * 1000)?;
    let megabits = stage.dice.between(20, 60);
    shape(&near_end, "wire0", megabits)?;
    let host = format!("10.214.{net}.2");
    let far = FarEnd { namespace: far_end.path(), host: host.clone() };
    stage.netns = Some(near_end.path());
    let product = megabits as f64 * 1e6 / 8.0 * 2.0 * delay_ms as f64 / 1e3;
    let judge = move |report: &Report| {
        let buffers = report.network.as_ref().and_then(|network| network.buffers.as_ref());
        let Some((found, needed)) = buffers.and_then(|sizes| Some((sizes.product?, f64::from(sizes.needed?)))) else {
            return Judged::of("nothing".into(), &[(false, "no product was found")]);
        };
        let words = format!("{:.0} KiB, buffer {:.0} KiB", found / 1024.0, needed / 1024.0);
        let close = (0.5..=2.0).contains(&(needed / product));
        Judged::of(
            words,
            &[
                (near(found, product, 0.15), "the product is off by more than 15 %"),
                (close, "the buffer needed is less than half or more than twice the product"),
            ],
        )
    };
    // Reno is in every kernel and leaves all pacing to the window.
    let args = ["net", &host, "--only", "buffers", "--direction", "up", "--for", "2s", "--congestion", "reno"];
    Ok(Probe {
        args: args.map(str::to_owned).to_vec(),
        group: None,
        far: Some(far),
        expected: format!("{:.0} KiB", product / 1024.0),
        judge: Box::new(judge),
    })
}

/// Holds what leaves by an interface to a rate.
fn shape(ns: &NetNs, interface: &str, megabits: u64) -> Result<()> {
    let rate = format!("{megabits}mbit");
    ns.tc(&["qdisc", "add", "dev", interface, "root", "tbf", "rate", &rate, "burst", "16k", "latency", "50ms"])
}
