//! A benchmark report: capability of the target, the runs, the counts of its layers, and caveats.

use super::study::study;
use super::table::{AlignedTable, remark};
use super::{TextStyle, heading, network, words};
use crate::canvas::{Canvas, Ink, Piece, bold, dim, plain};
use crate::human;
use whyslow_documents::bench::{
    BenchReport, Ceiling, DiskRun, DroppedCaches, FileWork, Interference, IoAccounting, LayerResult, Limit,
    RequestStats, Round, TargetInfo, Traffic,
};

/// Formats the report: tables first, and the summary last, where the eye lands.
pub fn bench(report: &BenchReport, style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    // A target opened in several ways is listed once.
    for (at, target) in report.targets.iter().enumerate() {
        if !report.targets[..at].contains(target) {
            about(&mut canvas, target);
        }
    }
    if let Some(network) = &report.network {
        network::peer(&mut canvas, network);
    }
    machine(&mut canvas, report);
    if let Some(found) = &report.network {
        network::network(&mut canvas, found, style.all);
    }
    for group in report.layers.chunk_by(|a, b| a.group == b.group) {
        layers(&mut canvas, group);
    }
    files(&mut canvas, &report.files);
    report.studies.iter().for_each(|found| study(&mut canvas, found, style.all));
    for group in report.rounds.chunk_by(|a, b| a.group == b.group) {
        rounds(&mut canvas, group, style.all);
    }
    surroundings(&mut canvas, report, style.all);
    summary(&mut canvas, report);
    canvas.finish()
}

/// Reports the dropped caches, and the remaining ones.
pub fn dropped_caches(dropped: &DroppedCaches, style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    let line = |what, before, after| format!("{what}: {} before, {} left.", human::bytes(before), human::bytes(after));
    let DroppedCaches { before, after, seconds, .. } = dropped;
    canvas.paragraph(0, 2, &[plain(line("Page cache", before.page_cache, after.page_cache))]);
    canvas.paragraph(0, 2, &[plain(line("Dentries and inodes", before.reclaimable_slab, after.reclaimable_slab))]);
    let took = format!("Took {}. Programs will reread what they need from disk.", human::seconds(*seconds));
    canvas.paragraph(0, 2, &[dim(took)]);
    canvas.finish()
}

fn summary(canvas: &mut Canvas, report: &BenchReport) {
    let ceilings = report.ceilings.iter().map(ceiling);
    let network = report.network.iter().flat_map(network::summary);
    let findings = report.studies.iter().flat_map(|study| &study.findings).map(|finding| vec![plain(finding)]);
    let lines: Vec<Vec<Piece>> = ceilings.chain(network).chain(findings).collect();
    if !(lines.is_empty() && report.pairs.is_empty()) {
        heading(canvas, "Summary");
    }
    lines.iter().for_each(|line| canvas.paragraph(2, 4, line));
    pairs(canvas, &report.pairs);
    if report.interrupted {
        canvas.paragraph(0, 2, &[Piece::new(Ink::Yellow, "Ended early"), plain(": results up to that point.")]);
    }
}

fn about(canvas: &mut Canvas, target: &TargetInfo) {
    let mut line = vec![bold(&target.path), plain(": "), plain(&target.kind)];
    if target.kind == "folder" {
        line.push(plain(", with a temporary file"));
    }
    line.extend([plain(" of "), plain(human::bytes(target.bytes))]);
    if let Some(kind) = &target.file_system {
        line.extend([plain(" on "), plain(kind)]);
    }
    let devices: Vec<&str> = target.device.iter().chain(&target.below).map(String::as_str).collect();
    if !devices.is_empty() {
        line.extend([dim(" · "), plain(devices.join(" on "))]);
    }
    canvas.paragraph(0, 2, &line);
}

fn machine(canvas: &mut Canvas, report: &BenchReport) {
    let host = &report.environment.host;
    let facts = [
        host.kernel.as_ref().map(|kernel| format!("Linux {kernel}")),
        host.cpus.map(|n| if n == 1 { "1 CPU".into() } else { format!("{n} CPUs") }),
        host.memory_bytes.map(human::bytes),
        Some(format!("took {}", human::seconds((report.seconds * 10.0).round() / 10.0))),
    ];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    canvas.paragraph(0, 2, &[dim(facts.join(" · "))]);
}

fn ceiling(ceiling: &Ceiling) -> Vec<Piece> {
    let most = match ceiling.of {
        Limit::Requests => human::quantity(ceiling.rate, "1/s"),
        Limit::Bandwidth => human::quantity(ceiling.bandwidth, "bytes/s"),
    };
    let mut line = vec![plain(format!("{} of {}: ", ceiling.requests, human::bytes(ceiling.block.into()))), bold(most)];
    line.push(plain(reservation(ceiling)));
    if let Some(knee) = &ceiling.knee {
        line.push(plain(format!(
            "; throughput plateaus at queue depth {} (latency {} there, {} at depth 1)",
            knee.depth,
            human::seconds(knee.latency),
            human::seconds(knee.latency_alone)
        )));
    }
    line
}

/// Returns the reason why a maximum may not be that of the target.
fn reservation(ceiling: &Ceiling) -> &'static str {
    match (ceiling.generator, ceiling.reached) {
        (true, _) => " at least: the CPU generating the load was the limit",
        (false, false) => " at least: throughput was still rising with queue depth",
        (false, true) => "",
    }
}

fn layers(canvas: &mut Canvas, layers: &[LayerResult]) {
    heading(canvas, &format!("Cost of each layer: {}", layers[0].group));
    let mut table = AlignedTable::new(["", "bandwidth", "change", "latency", "adds", "request", "cpu", "rate"]);
    let signed = |seconds: f64| {
        let sign = if seconds < 0.0 { "-" } else { "+" };
        format!("{sign}{}", human::seconds(seconds.abs()))
    };
    for layer in layers {
        table.row([
            layer.name.clone(),
            human::quantity(layer.bandwidth, "bytes/s"),
            layer.takes.map_or_else(String::new, |part| format!("{:+.0} %", -part * 100.0)),
            human::seconds(layer.latency),
            layer.adds.map_or_else(String::new, signed),
            layer.request.map_or_else(String::new, |bytes| human::quantity(bytes, "bytes")),
            layer.cost.map_or_else(String::new, human::seconds),
            human::quantity(layer.rate, "1/s"),
        ]);
    }
    table.draw(canvas, 2);
}

fn files(canvas: &mut Canvas, files: &[FileWork]) {
    if files.is_empty() {
        return;
    }
    heading(canvas, "Small files");
    let mut table = AlignedTable::new(["", "order", "rate", "mean", "p99", "cpu", "max", "files"]);
    for work in files {
        table.row([
            work.what.clone(),
            work.order.clone(),
            human::quantity(work.rate, "1/s"),
            human::seconds(work.latency.mean),
            work.latency.percentile(0.99).map_or_else(String::new, human::seconds),
            work.cost.map_or_else(String::new, human::seconds),
            human::seconds(work.latency.max),
            work.operations.to_string(),
        ]);
    }
    table.draw(canvas, 2);
}

fn pairs(canvas: &mut Canvas, pairs: &[Interference]) {
    for pair in pairs {
        let (ink, verdict) = verdict(pair);
        let line = [
            bold(&pair.names[0]),
            plain(" and "),
            bold(&pair.names[1]),
            plain(": "),
            Piece::new(ink, verdict),
            plain(format!("; {}, {}", kept(pair, 0), kept(pair, 1))),
        ];
        canvas.paragraph(2, 4, &line);
        if pair.contend == Some(true) {
            let known = match pair.known.as_slice() {
                [] => "no shared device is known: what they share is hidden from this kernel".to_owned(),
                known => format!("both are on {}", known.join(", ")),
            };
            remark(canvas, 4, &known);
        }
    }
}

fn verdict(pair: &Interference) -> (Ink, &'static str) {
    match pair.contend {
        Some(true) if pair.kept.iter().all(|&kept| kept < SLOWED) => (Ink::Yellow, "they slow each other down"),
        Some(true) if pair.kept[0] < pair.kept[1] => (Ink::Yellow, "the second slows the first down"),
        Some(true) => (Ink::Yellow, "the first slows the second down"),
        Some(false) => (Ink::Green, "no interference"),
        None => (Ink::Plain, "limited by the CPU, so any interference on the storage is hidden"),
    }
}

/// A workload that keeps less than this share of its rate is considered slowed down.
const SLOWED: f64 = 0.75;

fn kept(pair: &Interference, at: usize) -> String {
    let rate = |of: [f64; 2]| human::quantity(of[at], "1/s");
    let which = ["the first", "the second"][at];
    format!(
        "{which} keeps {} of its rate ({} → {})",
        human::share(pair.kept[at]),
        rate(pair.alone),
        rate(pair.together)
    )
}

fn rounds(canvas: &mut Canvas, rounds: &[Round], all: bool) {
    heading(canvas, &words::capital(&rounds[0].group));
    let mut table = AlignedTable::new(["", "block", "depth", "jobs", "rate", "bandwidth", "mean", "p99", "cpu", "max"]);
    let runs = || rounds.iter().flat_map(|round| &round.runs);
    let named = runs().any(|run| run.name != rounds[0].group);
    let mut sorted: Vec<&DiskRun> = runs().collect();
    // A depth sweep bisects after doubling; named workloads stay in the order they ran in.
    if !named {
        sorted.sort_by_key(|run| (run.asked.largest_block(), run.asked.depth * run.asked.jobs, run.asked.jobs));
    }
    for run in sorted {
        let flows = [("read", &run.read), ("write", &run.write), ("sync", &run.sync)];
        let flows: Vec<_> = flows.iter().filter_map(|(name, flow)| Some((*name, flow.as_ref()?))).collect();
        for (place, (direction, flow)) in flows.iter().enumerate() {
            let name = if named { format!("{} ", run.name) } else { String::new() };
            let direction = if flows.len() > 1 { direction } else { "" };
            flow_row(&mut table, run, flow, (name + direction).trim_end(), place == 0);
        }
    }
    table.draw(canvas, 2);
    rounds.iter().for_each(|round| remarks(canvas, round));
    if all {
        rounds.iter().for_each(|round| round.ledgers.iter().for_each(|ledger| accounting(canvas, &round.name, ledger)));
    } else if let Some(last) = rounds.last() {
        last.ledgers.iter().for_each(|ledger| accounting(canvas, &last.name, ledger));
    }
}

fn flow_row(table: &mut AlignedTable, run: &DiskRun, flow: &RequestStats, name: &str, first: bool) {
    let once = |text: String| if first { text } else { String::new() };
    let p99 = flow.latency.percentile(0.99);
    let latency = |seconds: f64| if flow.latency.count > 0 { human::seconds(seconds) } else { String::new() };
    table.row([
        name.to_owned(),
        once(human::bytes(run.asked.largest_block().into())),
        once((run.asked.depth * run.asked.jobs).to_string()),
        once(if run.asked.jobs > 1 { run.asked.jobs.to_string() } else { String::new() }),
        human::quantity(flow.rate, "1/s"),
        if flow.bytes > 0 { human::quantity(flow.bandwidth, "bytes/s") } else { String::new() },
        latency(flow.latency.mean),
        p99.map_or_else(String::new, human::seconds),
        once(run.cost.per_operation.map_or_else(String::new, human::seconds)),
        latency(flow.latency.max),
    ]);
}

fn remarks(canvas: &mut Canvas, round: &Round) {
    if let Some(why) = &round.spoiled {
        flag(canvas, Ink::Yellow, "unreliable", &format!("{}: {why}", round.name));
    }
    for run in &round.runs {
        let alone = round.runs.len() == 1;
        let name = if alone { round.name.clone() } else { format!("{}: {}", round.name, run.name) };
        if let Some(why) = &run.failed {
            flag(canvas, Ink::Red, "failed", &format!("{name}: {why}"));
        }
        if run.hung > 0 {
            flag(
                canvas,
                Ink::Red,
                "hung",
                &format!("{name}: {} {} never completed", run.hung, if run.hung == 1 { "request" } else { "requests" }),
            );
        }
        if let Some(stalls) = stalls(run) {
            flag(canvas, Ink::Yellow, "stalled", &format!("{name}: {stalls}"));
        }
        if run.behind > 0 {
            remark(canvas, 2, &format!("{name}: {} requests were due but not issued in time", run.behind));
        }
        if run.generator.was_limit {
            remark(canvas, 2, &format!("{name}: the CPU generating the load was the limit"));
        }
    }
}

fn flag(canvas: &mut Canvas, ink: Ink, word: &str, text: &str) {
    canvas.paragraph(2, 4, &[Piece::new(ink, word), plain(": "), plain(text)]);
}

fn stalls(run: &DiskRun) -> Option<String> {
    let stalls = run.series.stalls();
    let longest = stalls.iter().max_by_key(|(_, length)| *length)?;
    let seconds = |intervals: usize| human::seconds(intervals as f64 * run.series.interval);
    let times = if stalls.len() == 1 { String::new() } else { format!("{} times, ", stalls.len()) };
    let worst = if stalls.len() == 1 { "for" } else { "for up to" };
    Some(format!("no request completed {times}{worst} {}, from {} on", seconds(longest.1), seconds(longest.0)))
}

/// Draws the requests issued, and those counted by each layer.
fn accounting(canvas: &mut Canvas, name: &str, ledger: &IoAccounting) {
    if ledger.layers.is_empty() && ledger.cache.is_none() {
        return;
    }
    remark(canvas, 2, &format!("requests at each layer: {name}"));
    let mut table = AlignedTable::new(["", "reads", "of", "writes", "of", "merged", "flushes", "wait", "queue"]);
    traffic_row(&mut table, "issued", ledger.asked, [String::new(), String::new(), String::new()]);
    for layer in &ledger.layers {
        let merged = layer.reads_merged + layer.writes_merged;
        let wait = layer.read_wait.or(layer.write_wait).map_or_else(String::new, human::seconds);
        let queue = layer.queue.map_or_else(String::new, |queue| human::quantity(queue, "count"));
        let merged = if merged > 0 { merged.to_string() } else { String::new() };
        traffic_row(&mut table, &layer.device, layer.traffic, [merged, wait, queue]);
    }
    table.draw(canvas, 4);
    if let Some(cache) = &ledger.cache {
        let text = format!(
            "page cache: {} served from it, {} read from storage, {} of that unused; cached {} before and {} after",
            human::bytes(cache.served),
            human::bytes(cache.fetched),
            human::bytes(cache.in_vain),
            human::bytes(cache.before),
            human::bytes(cache.after)
        );
        remark(canvas, 4, &text);
    }
}

fn traffic_row(table: &mut AlignedTable, name: &str, traffic: Traffic, [merged, wait, queue]: [String; 3]) {
    let each = |bytes: u64, count: u64| {
        if count > 0 { human::quantity(bytes as f64 / count as f64, "bytes") } else { String::new() }
    };
    let count = |n: u64| if n > 0 { n.to_string() } else { String::new() };
    table.row([
        name.to_owned(),
        count(traffic.reads),
        each(traffic.read_bytes, traffic.reads),
        count(traffic.writes),
        each(traffic.write_bytes, traffic.writes),
        merged,
        count(traffic.flushes),
        wait,
        queue,
    ]);
}

fn surroundings(canvas: &mut Canvas, report: &BenchReport, all: bool) {
    canvas.blank();
    for caveat in &report.caveats {
        canvas.paragraph(0, 2, &[Piece::new(Ink::Yellow, "Note"), plain(": "), plain(caveat)]);
    }
    let others = &report.environment.others;
    for other in others {
        let moved = human::bytes(other.read_bytes + other.write_bytes);
        let text = format!("{} (PID {}) read or wrote {moved} meanwhile.", other.name, other.pid);
        canvas.paragraph(0, 2, &[dim(text)]);
    }
    if let Some(cpus) = report.environment.others_cpus {
        canvas.paragraph(0, 2, &[dim(format!("Other processes used {cpus:.2} CPUs."))]);
    }
    if all {
        for (setting, value) in &report.environment.settings {
            canvas.paragraph(0, 2, &[dim(format!("{setting}: {value}"))]);
        }
    }
}
