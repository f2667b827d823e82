//! A benchmark for a person: what the target can do, what was run, what its layers saw, and what speaks against the numbers.

use super::table::{Table, remark};
use super::{TextStyle, heading, words};
use crate::canvas::{Canvas, Ink, Piece, bold, dim, plain};
use crate::human;
use whyslow_model::bench::{Ceiling, Flow, Ledger, Limit, Report, Round, Run, Target, Traffic};

/// The report on a screen.
pub fn bench(report: &Report, style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    report.targets.iter().for_each(|target| about(&mut canvas, target));
    machine(&mut canvas, report);
    if report.interrupted {
        canvas.paragraph(
            0,
            2,
            &[Piece::new(Ink::Yellow, "Ended early"), plain(": this is what was measured by then.")],
        );
    }
    ceilings(&mut canvas, &report.ceilings);
    for group in report.rounds.chunk_by(|a, b| a.group == b.group) {
        rounds(&mut canvas, group, style.all);
    }
    surroundings(&mut canvas, report, style.all);
    canvas.finish()
}

fn about(canvas: &mut Canvas, target: &Target) {
    let mut line = vec![bold(&target.path), plain(": "), plain(&target.kind)];
    if target.kind == "folder" {
        line.push(plain(", in it a file"));
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

fn machine(canvas: &mut Canvas, report: &Report) {
    let host = &report.environment.host;
    let facts = [
        host.kernel.as_ref().map(|kernel| format!("Linux {kernel}")),
        host.cpus.map(|n| if n == 1 { "1 cpu".into() } else { format!("{n} cpus") }),
        host.memory_bytes.map(human::bytes),
        Some(format!("took {}", human::seconds((report.seconds * 10.0).round() / 10.0))),
    ];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    canvas.paragraph(0, 2, &[dim(facts.join(" · "))]);
}

fn ceilings(canvas: &mut Canvas, ceilings: &[Ceiling]) {
    if ceilings.is_empty() {
        return;
    }
    heading(canvas, "What it can do");
    for ceiling in ceilings {
        let most = match ceiling.of {
            Limit::Requests => human::quantity(ceiling.rate, "1/s"),
            Limit::Bandwidth => human::quantity(ceiling.bandwidth, "bytes/s"),
        };
        let mut line =
            vec![plain(format!("{} of {}: ", ceiling.requests, human::bytes(ceiling.block.into()))), bold(most)];
        line.push(plain(reservation(ceiling)));
        if let Some(knee) = &ceiling.knee {
            line.push(plain(format!(
                "; from {} in flight on more only wait ({} each there, {} alone)",
                knee.depth,
                human::seconds(knee.latency),
                human::seconds(knee.latency_alone)
            )));
        }
        canvas.paragraph(2, 4, &line);
    }
}

/// What keeps a ceiling from being the target's own.
fn reservation(ceiling: &Ceiling) -> &'static str {
    match (ceiling.generator, ceiling.reached) {
        (true, _) => ", and the processor that asked for it was the limit",
        (false, false) => " at least: more in flight still brought more",
        (false, true) => "",
    }
}

fn rounds(canvas: &mut Canvas, rounds: &[Round], all: bool) {
    heading(canvas, &words::capital(&rounds[0].group));
    let mut table = Table::new(["", "block", "depth", "jobs", "rate", "bandwidth", "mean", "p99", "cpu", "max"]);
    let runs = || rounds.iter().flat_map(|round| &round.runs);
    let several = runs().any(|run| run.name != rounds[0].group && rounds.iter().any(|round| round.runs.len() > 1));
    let mut sorted: Vec<&Run> = runs().collect();
    sorted.sort_by_key(|run| (run.asked.largest_block(), run.asked.depth * run.asked.jobs, run.asked.jobs));
    for run in sorted {
        let flows = [("read", &run.read), ("write", &run.write), ("sync", &run.sync)];
        let flows: Vec<_> = flows.iter().filter_map(|(name, flow)| Some((*name, flow.as_ref()?))).collect();
        for (place, (direction, flow)) in flows.iter().enumerate() {
            let name = if several { format!("{} ", run.name) } else { String::new() };
            let direction = if flows.len() > 1 { direction } else { "" };
            flow_row(&mut table, run, flow, (name + direction).trim_end(), place == 0);
        }
    }
    table.draw(canvas, 2);
    rounds.iter().for_each(|round| remarks(canvas, round));
    if all {
        rounds.iter().for_each(|round| round.ledgers.iter().for_each(|ledger| books(canvas, &round.name, ledger)));
    } else if let Some(last) = rounds.last() {
        last.ledgers.iter().for_each(|ledger| books(canvas, &last.name, ledger));
    }
}

fn flow_row(table: &mut Table, run: &Run, flow: &Flow, name: &str, first: bool) {
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

/// What speaks against the numbers of a round.
fn remarks(canvas: &mut Canvas, round: &Round) {
    if let Some(why) = &round.spoiled {
        canvas.paragraph(2, 4, &[Piece::new(Ink::Yellow, "spoiled"), plain(format!(": {}: {why}", round.name))]);
    }
    for run in &round.runs {
        if let Some(why) = &run.failed {
            canvas.paragraph(2, 4, &[Piece::new(Ink::Red, "failed"), plain(format!(": {}: {why}", run.name))]);
        }
        if run.hung > 0 {
            let text = format!(": {}: {} requests never came back", run.name, run.hung);
            canvas.paragraph(2, 4, &[Piece::new(Ink::Red, "hung"), plain(text)]);
        }
        if run.behind > 0 {
            remark(canvas, 2, &format!("{}: {} requests were due and could not even be made", run.name, run.behind));
        }
        if let Some(stalls) = stalls(run) {
            canvas.paragraph(2, 4, &[Piece::new(Ink::Yellow, "stalled"), plain(format!(": {}: {stalls}", run.name))]);
        }
        if run.generator.was_limit {
            remark(canvas, 2, &format!("{}: the processor that asked for it was the limit", run.name));
        }
    }
}

/// Times in which nothing came back, in words.
fn stalls(run: &Run) -> Option<String> {
    let stalls = run.series.stalls();
    let longest = stalls.iter().max_by_key(|(_, length)| *length)?;
    let seconds = |intervals: usize| human::seconds(intervals as f64 * run.series.interval);
    let times = if stalls.len() == 1 { "once".to_owned() } else { format!("{} times", stalls.len()) };
    Some(format!("nothing came back {times}, for {} at worst, from {} on", seconds(longest.1), seconds(longest.0)))
}

/// What was asked for, and what each layer saw.
fn books(canvas: &mut Canvas, name: &str, ledger: &Ledger) {
    if ledger.layers.is_empty() && ledger.cache.is_none() {
        return;
    }
    remark(canvas, 2, &format!("what the layers saw: {name}"));
    let mut table = Table::new(["", "reads", "of", "writes", "of", "merged", "flushes", "wait", "queue"]);
    traffic_row(&mut table, "asked", ledger.asked, [String::new(), String::new(), String::new()]);
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
            "the page cache served {} and had {} read for it, {} of that in vain; it held {} before and {} after",
            human::bytes(cache.served),
            human::bytes(cache.fetched),
            human::bytes(cache.in_vain),
            human::bytes(cache.before),
            human::bytes(cache.after)
        );
        remark(canvas, 4, &text);
    }
}

fn traffic_row(table: &mut Table, name: &str, traffic: Traffic, [merged, wait, queue]: [String; 3]) {
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

fn surroundings(canvas: &mut Canvas, report: &Report, all: bool) {
    canvas.blank();
    for caveat in &report.caveats {
        canvas.paragraph(0, 2, &[Piece::new(Ink::Yellow, "Mind"), plain(": "), plain(caveat)]);
    }
    let others = &report.environment.others;
    for other in others {
        let moved = human::bytes(other.read_bytes + other.write_bytes);
        let text = format!("{} (pid {}) read or wrote {moved} meanwhile.", other.name, other.pid);
        canvas.paragraph(0, 2, &[dim(text)]);
    }
    if let Some(cpus) = report.environment.others_cpus {
        canvas.paragraph(0, 2, &[dim(format!("Others kept {cpus:.2} processors busy."))]);
    }
    if all {
        for (setting, value) in &report.environment.settings {
            canvas.paragraph(0, 2, &[dim(format!("{setting}: {value}"))]);
        }
    }
}
