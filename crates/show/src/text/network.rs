//! The text of a network benchmark.

use super::heading;
use super::table::{AlignedTable, remark};
use super::words::capital;
use crate::canvas::{Canvas, Ink, Piece, bold, dim, plain};
use crate::human;
use whyslow_documents::bench::{
    Direction, Loaded, NetEnd, NetRound, NetRun, NetStream, Network, PathMtu, Sizes, StreamTime, Transport, Work,
};

pub(super) fn network(canvas: &mut Canvas, network: &Network, all: bool) {
    for group in network.rounds.chunk_by(|a, b| a.group == b.group) {
        rounds(canvas, group, all);
    }
}

pub(super) fn peer(canvas: &mut Canvas, network: &Network) {
    let peer = &network.peer;
    let facts = [
        Some(peer.address.clone()),
        Some(peer.program.clone()).filter(|program| !program.is_empty()),
        peer.kernel.as_ref().map(|kernel| format!("Linux {kernel}")),
        peer.cpus.map(|n| if n == 1 { "1 CPU".into() } else { format!("{n} CPUs") }),
    ];
    let mut line = vec![bold(&peer.name)];
    if let Some(host) = peer.host.as_ref().filter(|host| **host != peer.name) {
        line.push(plain(format!(" ({host})")));
    }
    facts.into_iter().flatten().for_each(|fact| line.extend([dim(" · "), plain(fact)]));
    canvas.paragraph(0, 2, &line);
}

/// Returns a line for each result that combines several runs.
pub(super) fn summary(network: &Network) -> Vec<Vec<Piece>> {
    let mtu = network.mtu.as_ref().map(mtu);
    let buffers = network.buffers.as_ref().and_then(|sizes| enough(sizes, "socket buffer"));
    let segments = network.segments.as_ref().and_then(|sizes| enough(sizes, "segment size"));
    let udp = network
        .udp_lossless
        .map(|rate| vec![plain("UDP without loss: "), bold(bits(rate)), plain(" received on one stream")]);
    let loaded = network.loaded.iter().map(loaded);
    let streams = network.rounds.iter().flat_map(|round| &round.runs);
    let fastest = |direction| {
        let of_direction = streams.clone().filter(|run| run.asked.work == Work::Stream(direction));
        let fastest = of_direction.filter(|run| run.asked.transport == Transport::Tcp).filter_map(|run| run.bandwidth);
        let most = fastest.reduce(f64::max)?;
        Some(vec![plain(format!("TCP {}: at most ", way(direction))), bold(bits(most))])
    };
    let tcp = [Direction::Up, Direction::Down].into_iter().filter_map(fastest);
    mtu.into_iter().chain(tcp).chain(loaded).chain([buffers, segments, udp].into_iter().flatten()).collect()
}

fn mtu(mtu: &PathMtu) -> Vec<Piece> {
    let mut line = vec![plain("path MTU: "), bold(format!("{} bytes", mtu.bytes))];
    match mtu.kernel {
        Some(kernel) if kernel > mtu.bytes => {
            line.push(Piece::new(
                Ink::Red,
                format!(", but the kernel sends packets of {kernel} bytes: those are lost"),
            ));
        }
        Some(kernel) => line.push(plain(format!(" (the kernel uses {kernel})"))),
        None => {}
    }
    line
}

fn loaded(loaded: &Loaded) -> Vec<Piece> {
    let p99 = loaded.p99.map_or_else(String::new, |p99| format!(", p99 {}", human::seconds(p99)));
    vec![
        plain(format!("response time: {} idle, ", human::seconds(loaded.alone))),
        bold(human::seconds(loaded.median)),
        plain(format!(
            "{p99} during {} {} at {}: {} queued on the path",
            streams(loaded.streams),
            way(loaded.direction),
            bits(loaded.bandwidth),
            human::bytes(loaded.queued as u64)
        )),
    ]
}

fn enough(sizes: &Sizes, what: &str) -> Option<Vec<Piece>> {
    let least = if sizes.open { "at least " } else { "" };
    let Some(needed) = sizes.needed else {
        let (first, last) = (sizes.points.first()?, sizes.points.last()?);
        let (first, last) = (human::bytes(first.bytes.into()), human::bytes(last.bytes.into()));
        return Some(vec![plain(format!("{what}: no measurable effect between {first} and {last}"))]);
    };
    let mut line = vec![plain(format!("{what} needed: {least}")), bold(human::bytes(needed.into()))];
    if let Some(product) = sizes.product {
        line.push(plain(format!("; the bandwidth-delay product is {}", human::bytes(product as u64))));
    }
    if let Some(automatic) = sizes.automatic {
        line.push(plain(format!("; with the kernel's default, {}", bits(automatic))));
    }
    Some(line)
}

fn rounds(canvas: &mut Canvas, rounds: &[NetRound], all: bool) {
    heading(canvas, &capital(&rounds[0].group));
    let mut table = AlignedTable::new([
        "",
        "streams",
        "bandwidth",
        "rate",
        "mean",
        "p99",
        "lost",
        "buffer full",
        "retransmits",
        "limit",
        "CPUs here",
        "there",
    ]);
    for round in rounds {
        for run in &round.runs {
            let alone = round.runs.len() == 1;
            row(&mut table, if alone { round.name.clone() } else { format!("{}: {}", round.name, run.name) }, run);
        }
    }
    table.draw(canvas, 2);
    let runs = || rounds.iter().flat_map(|round| round.runs.iter().map(move |run| (&round.name, run)));
    runs().for_each(|(name, run)| remarks(canvas, name, run));
    let times: Vec<(&String, &NetRun)> = runs().filter(|(_, run)| run.asked.transport == Transport::Tcp).collect();
    if let Some((name, run)) = times.last() {
        streams_of(canvas, name, run);
    }
    if all {
        times.iter().rev().skip(1).rev().for_each(|(name, run)| streams_of(canvas, name, run));
    }
}

fn row(table: &mut AlignedTable, name: String, run: &NetRun) {
    let latency = run.here.latency.as_ref().filter(|latency| latency.count > 0);
    let share = |of: u64, all: u64| if all > 0 { human::percent(of as f64 / all as f64) } else { String::new() };
    let again = run.sender().map(|end| (sum(end, |s| s.retransmits), sum(end, |s| s.segments)));
    let lost = run.datagrams.map_or(0, |counts| counts.lost);
    let full = run.datagrams.and_then(|counts| counts.lost_for_buffer).filter(|_| lost > 0);
    table.row([
        name,
        if run.asked.streams > 1 { run.asked.streams.to_string() } else { String::new() },
        run.bandwidth.map_or_else(String::new, bits),
        run.rate.map_or_else(String::new, |rate| human::quantity(rate, "1/s")),
        latency.map_or_else(String::new, |latency| human::seconds(latency.mean)),
        latency.and_then(|latency| latency.percentile(0.99)).map_or_else(String::new, human::seconds),
        run.datagrams.map_or_else(String::new, |counts| share(counts.lost, counts.sent)),
        full.map_or_else(String::new, |full| share(full.min(lost), lost)),
        again.filter(|(again, _)| *again > 0).map_or_else(String::new, |(again, all)| share(again, all)),
        limit(run).to_owned(),
        busy(&run.here),
        run.there.as_ref().map_or_else(String::new, busy),
    ]);
}

fn sum(end: &NetEnd, of: fn(&NetStream) -> Option<u64>) -> u64 {
    end.streams.iter().filter_map(of).sum()
}

/// Returns the number of CPUs that the whole machine used.
fn busy(end: &NetEnd) -> String {
    let used = end.machine_seconds.filter(|_| end.seconds > 0.0);
    used.map_or_else(String::new, |used| format!("{:.2}", used / end.seconds))
}

fn remarks(canvas: &mut Canvas, name: &str, run: &NetRun) {
    let flag = |canvas: &mut Canvas, ink, word: &str, text: String| {
        canvas.paragraph(2, 4, &[Piece::new(ink, word), plain(": "), plain(text)]);
    };
    if let Some(why) = &run.failed {
        flag(canvas, Ink::Red, "failed", format!("{name}: {why}"));
    }
    if let Some(stalls) = run.receiver().and_then(stalls) {
        flag(canvas, Ink::Yellow, "stalled", format!("{name}: {stalls}"));
    }
}

fn limit(run: &NetRun) -> &'static str {
    let there = run.there.as_ref().is_some_and(|end| end.generator.was_limit);
    match (run.here.generator.was_limit, there) {
        (true, true) => "both ends",
        (true, false) => "this end",
        (false, true) => "other end",
        (false, false) => "",
    }
}

fn stalls(end: &NetEnd) -> Option<String> {
    let stalls = end.series.stalls();
    let longest = stalls.iter().max_by_key(|(_, length)| *length)?;
    let seconds = |intervals: usize| human::seconds(intervals as f64 * end.series.interval);
    let times = if stalls.len() == 1 { String::new() } else { format!("{} times, ", stalls.len()) };
    let worst = if stalls.len() == 1 { "for" } else { "for up to" };
    Some(format!("nothing was received {times}{worst} {}, from {} on", seconds(longest.1), seconds(longest.0)))
}

/// Draws the limiting factors of each TCP stream.
fn streams_of(canvas: &mut Canvas, name: &str, run: &NetRun) {
    let Some(sender) = run.sender().filter(|end| end.streams.iter().any(|stream| stream.time.is_some())) else {
        return;
    };
    remark(canvas, 2, &format!("what limited the streams: {name}"));
    let columns = ["", "bandwidth", "window", "buffer", "network", "program", "retransmits", "rtt", "mss", "mtu"];
    let mut table = AlignedTable::new(columns);
    for (number, stream) in sender.streams.iter().enumerate() {
        let Some(time) = stream.time else { continue };
        let [window, buffer, congestion, program] = parts(&time, sender.seconds);
        table.row([
            (number + 1).to_string(),
            bits(stream.bytes as f64 / sender.seconds),
            window,
            buffer,
            congestion,
            program,
            stream.retransmits.map_or_else(String::new, |n| n.to_string()),
            stream.rtt.map_or_else(String::new, |rtt| human::seconds(rtt.mean)),
            stream.mss.map_or_else(String::new, |mss| mss.to_string()),
            stream.mtu.map_or_else(String::new, |mtu| mtu.to_string()),
        ]);
    }
    table.draw(canvas, 4);
}

fn parts(time: &StreamTime, seconds: f64) -> [String; 4] {
    [time.receive_window, time.send_buffer, time.congestion, time.application].map(|part| human::share(part / seconds))
}

fn bits(bytes: f64) -> String {
    human::quantity(bytes * 8.0, "bit/s")
}

fn way(direction: Direction) -> &'static str {
    match direction {
        Direction::Up => "up",
        Direction::Down => "down",
    }
}

fn streams(count: u32) -> String {
    if count == 1 { "a stream".into() } else { format!("{count} streams") }
}
