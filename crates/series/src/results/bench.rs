//! Charts of a benchmark.

use super::labelled::{Label, LabelledChart, LabelledValue, SeriesName, capital};
use whyslow_documents::bench::{
    BenchReport, Ceiling, DiskRun, FileWork, Latency, LayerResult, Limit, Network, RequestStats, Round, Sizes, Study,
};
use whyslow_documents::chart::Chart;
use whyslow_model::human;

/// Lowest percentile of a chart. Below the median, little differs.
const MEDIAN: f64 = 0.5;

/// Returns the charts of a benchmark that have data. Leaves out unreliable rounds and failed runs.
pub fn charts_of_bench(report: &BenchReport) -> Vec<Chart> {
    let rounds: Vec<&Round> = report.rounds.iter().filter(|round| round.spoiled.is_none()).collect();
    let is_one_target = distinct(report.targets.iter().map(|target| target.path.as_str())).len() < 2;
    let target =
        |run: &DiskRun| report.targets.get(run.target).filter(|_| !is_one_target).map(|target| target.path.as_str());
    let flows: Vec<Flow<'_>> = rounds.iter().flat_map(|round| flows_of(round, target)).collect();
    let mut charts = by_depth(&flows, &report.ceilings);
    charts.extend(by_block(&flows));
    charts.extend(report.studies.iter().flat_map(of_study));
    charts.extend(of_files(&report.files));
    charts.extend(report.layers.chunk_by(|a, b| a.group == b.group).flat_map(of_layers));
    charts.extend(report.network.iter().flat_map(of_network));
    charts.extend(percentiles(&flows, report.network.as_ref()));
    charts
}

/// Requests of one direction of a run.
struct Flow<'r> {
    round: &'r Round,
    run: &'r DiskRun,
    /// The target, if there are several.
    target: Option<&'r str>,
    direction: &'static str,
    stats: &'r RequestStats,
}

fn flows_of<'r>(round: &'r Round, target: impl Fn(&DiskRun) -> Option<&'r str>) -> Vec<Flow<'r>> {
    let runs = round.runs.iter().filter(|run| run.failed.is_none());
    let flows = runs.flat_map(|run| {
        let flows = [("reads", &run.read), ("writes", &run.write)];
        let measured = flows.into_iter().filter_map(|(direction, stats)| Some((direction, stats.as_ref()?)));
        let target = target(run);
        let sound = measured.filter(|(_, stats)| stats.operations > 0);
        sound.map(move |(direction, stats)| Flow { round, run, target, direction, stats })
    });
    flows.collect()
}

impl Flow<'_> {
    /// Returns true if the run is part of a sweep: no other run is in its round, and it is named after its group, so that only
    /// its workload distinguishes it.
    fn is_of_sweep(&self) -> bool {
        self.round.runs.len() == 1 && self.run.name == self.round.group
    }

    /// Returns true if two runs of a sweep differ in nothing but the number of requests in flight.
    fn is_alike(&self, other: &Self) -> bool {
        let of = |flow: &Self| (flow.direction, flow.block(), flow.run.target);
        self.is_of_sweep() && other.is_of_sweep() && self.round.group == other.round.group && of(self) == of(other)
    }

    fn block(&self) -> u32 {
        self.run.asked.largest_block()
    }

    /// Returns the maximum that the sweep found.
    fn ceiling<'c>(&self, ceilings: &'c [Ceiling]) -> Option<&'c Ceiling> {
        ceilings.iter().find(|ceiling| ceiling.requests == self.round.group && ceiling.block == self.block())
    }

    fn in_flight(&self) -> u32 {
        self.run.asked.depth.saturating_mul(self.run.asked.jobs)
    }

    /// Describes the request: `random read of 4 KiB`.
    fn request(&self) -> String {
        self.on_target(format!("{} of {}", self.round.group, human::bytes(self.block().into())))
    }

    fn on_target(&self, what: String) -> String {
        self.target.map_or_else(|| what.clone(), |target| format!("{what} on {target}"))
    }

    fn name(&self) -> String {
        let name = if self.round.name.contains(&self.run.name) {
            self.round.name.clone()
        } else {
            format!("{}, {}", self.round.name, self.run.name)
        };
        let has_both = self.run.read.is_some() && self.run.write.is_some();
        self.on_target(if has_both { format!("{name}: {}", self.direction) } else { name })
    }
}

/// Draws throughput and latency by the number of requests in flight. Beyond the knee, additional requests only wait. Small
/// requests are drawn by their number, large ones by their bytes.
fn by_depth(flows: &[Flow<'_>], ceilings: &[Ceiling]) -> Vec<Chart> {
    const ALONG: &str = "queue depth";
    let mut rate = LabelledChart::new(
        "bench.depth_rate",
        "Requests by queue depth",
        "1/s",
        ALONG,
        "Requests completed. Beyond the knee, deeper queues only add latency.",
    );
    let mut bandwidth = LabelledChart::new(
        "bench.depth_throughput",
        "Throughput by queue depth",
        "By/s",
        ALONG,
        "Bytes transferred. Beyond the knee, deeper queues only add latency.",
    );
    let mut latency = LabelledChart::new(
        "bench.depth_latency",
        "Latency by queue depth",
        "s",
        ALONG,
        "The time of a request: mean, and 99th percentile.",
    );
    for (at, flow) in flows.iter().enumerate() {
        let alike = || flows.iter().filter(|other| other.is_alike(flow));
        let is_sweep = alike().any(|other| other.in_flight() != flow.in_flight());
        // A depth may be measured with several numbers of jobs; the best one counts.
        let better = flows.iter().enumerate().any(|(other_at, other)| {
            let is_same = other.is_alike(flow) && other.in_flight() == flow.in_flight();
            is_same && (other.stats.rate, at) > (flow.stats.rate, other_at)
        });
        if !is_sweep || better {
            continue;
        }
        let label = || Label::doubling(flow.in_flight().into(), flow.in_flight().to_string());
        let request = flow.request();
        let of = |what: &str| SeriesName { entity: request.clone(), name: format!("{request}, {what}") };
        let ceiling = flow.ceiling(ceilings);
        let is_knee = ceiling.and_then(|ceiling| ceiling.knee).is_some_and(|knee| knee.depth == flow.in_flight());
        let draw = |chart: &mut LabelledChart, limit: Limit, value: f64| {
            if ceiling.is_none_or(|ceiling| ceiling.of == limit) {
                chart.add(request.as_str(), label(), value);
                if is_knee {
                    chart.add_point(of("knee"), label(), value);
                }
            }
        };
        draw(&mut rate, Limit::Requests, flow.stats.rate);
        draw(&mut bandwidth, Limit::Bandwidth, flow.stats.bandwidth);
        if flow.stats.latency.count > 0 {
            latency.add(of("mean"), label(), flow.stats.latency.mean);
        }
        if let Some(p99) = flow.stats.latency.percentile(0.99) {
            latency.add(of("99\u{a0}%"), label(), p99);
        }
    }
    [rate, bandwidth, latency].into_iter().filter_map(LabelledChart::finish).collect()
}

/// Draws the best throughput for each block size of a sweep.
fn by_block(flows: &[Flow<'_>]) -> Option<Chart> {
    let mut chart = LabelledChart::new(
        "bench.block_throughput",
        "Throughput by block size",
        "By/s",
        "block size",
        "The most that any queue depth reached.",
    );
    for flow in flows.iter().filter(|flow| flow.is_of_sweep()) {
        let same = |other: &&Flow<'_>| {
            other.is_of_sweep() && other.round.group == flow.round.group && other.run.target == flow.run.target
        };
        let has_others = flows.iter().filter(same).any(|other| other.block() != flow.block());
        let best = flows.iter().filter(same).filter(|other| other.block() == flow.block());
        let best = best.map(|other| other.stats.bandwidth).fold(0.0, f64::max);
        if has_others {
            let label = Label::doubling(flow.block().into(), human::bytes(flow.block().into()));
            chart.add(flow.on_target(flow.round.group.clone()).as_str(), label, best);
        }
    }
    chart.finish()
}

/// Draws a chart for each unit of a study. Its axis has the conditions or the names of the figures: those that have an order, or
/// else those that are more numerous.
fn of_study(study: &Study) -> Vec<Chart> {
    let mut units: Vec<&str> = Vec::new();
    for figure in &study.figures {
        if !units.contains(&figure.unit.as_str()) {
            units.push(&figure.unit);
        }
    }
    let chart = |unit: &str| {
        let figures = || study.figures.iter().filter(|figure| figure.unit == unit);
        let conditions = distinct(figures().map(|figure| figure.under.as_str()));
        let names = distinct(figures().map(|figure| figure.name.as_str()));
        // Sizes and numbers of threads have an order, so values can be interpolated.
        let is_ordered = |labels: &[&str]| {
            labels.len() > 1 && labels.iter().all(|label| label.starts_with(|c: char| c.is_ascii_digit()))
        };
        let is_by_condition = match (is_ordered(&conditions), is_ordered(&names)) {
            (true, false) => true,
            (false, true) => false,
            _ => conditions.len() >= names.len() && conditions.len() > 1,
        };
        let is_joined = is_ordered(if is_by_condition { &conditions } else { &names });
        let of = if units.len() > 1 { format!("@{unit}") } else { String::new() };
        let id = format!("bench.{}{of}", study.name.replace(' ', "_"));
        let title = capital(&study.name);
        let mut chart = LabelledChart::new(&id, &title, unit, "", &study.method);
        for figure in figures() {
            let (label, series) =
                if is_by_condition { (&figure.under, &figure.name) } else { (&figure.name, &figure.under) };
            let series = if series.is_empty() { study.name.as_str() } else { series.as_str() };
            let value = LabelledValue { value: figure.value, range: figure.interval };
            if is_joined {
                chart.add(series, Label::next(label), value);
            } else {
                chart.add_point(series, Label::next(label), value);
            }
        }
        chart.finish()
    };
    units.iter().filter_map(|unit| chart(unit)).collect()
}

fn distinct<'s>(all: impl Iterator<Item = &'s str>) -> Vec<&'s str> {
    let mut found = Vec::new();
    for one in all {
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

fn of_files(files: &[FileWork]) -> Vec<Chart> {
    let mut rate = LabelledChart::new("bench.files_rate", "Small files", "1/s", "", "Operations on small files.");
    let mut time =
        LabelledChart::new("bench.files_latency", "Small files, time of each", "s", "", "Mean and 99th percentile.");
    for work in files {
        let label = || {
            Label::next(if work.order.is_empty() {
                work.what.clone()
            } else {
                format!("{}, {}", work.what, work.order)
            })
        };
        rate.add_point("operations", label(), work.rate);
        time.add_point("mean", label(), work.latency.mean);
        if let Some(p99) = work.latency.percentile(0.99) {
            time.add_point("99\u{a0}%", label(), p99);
        }
    }
    [rate, time].into_iter().filter_map(LabelledChart::finish).collect()
}

/// Draws bandwidth and latency of the layers below a file.
fn of_layers(layers: &[LayerResult]) -> Vec<Chart> {
    let Some(first) = layers.first() else { return Vec::new() };
    let id = |what: &str| format!("bench.layers_{what}@{}", first.group);
    let title = |what: &str| format!("{what} at each layer: {}", first.group);
    let help = "The same reads at each layer, from the lowest measured up to the file.";
    let mut bandwidth = LabelledChart::new(&id("throughput"), &title("Throughput"), "By/s", "layer", help);
    let mut latency = LabelledChart::new(&id("latency"), &title("Latency"), "s", "layer", help);
    for layer in layers {
        bandwidth.add_point("throughput", Label::next(&layer.name), layer.bandwidth);
        latency.add_point("mean latency", Label::next(&layer.name), layer.latency);
    }
    [bandwidth, latency].into_iter().filter_map(LabelledChart::finish).collect()
}

fn of_network(network: &Network) -> Vec<Chart> {
    let sizes = |id: &str, title: &str, along: &str, sizes: Option<&Sizes>| {
        let mut chart = LabelledChart::new(id, title, "bit/s", along, "What one stream carries.");
        for point in sizes.iter().flat_map(|sizes| &sizes.points) {
            let label = Label::doubling(point.bytes.into(), human::bytes(point.bytes.into()));
            chart.add("one stream", label, point.bandwidth * 8.0);
        }
        chart.finish()
    };
    let mut streams = LabelledChart::new("bench.streams", "Throughput of streams", "bit/s", "", "Payload received.");
    for round in &network.rounds {
        for run in round.runs.iter().filter(|run| run.failed.is_none()) {
            if let Some(bandwidth) = run.bandwidth.filter(|_| round.group == "TCP streams") {
                streams.add_point("throughput", Label::next(&round.name), bandwidth * 8.0);
            }
        }
    }
    let buffers = sizes("bench.buffers", "Throughput by socket buffer", "socket buffer", network.buffers.as_ref());
    let segments = sizes("bench.segments", "Throughput by segment size", "segment size", network.segments.as_ref());
    streams.finish().into_iter().chain(buffers).chain(segments).collect()
}

/// Draws latency percentiles: the time that a share of the requests did not exceed. Of a sweep, draws the lowest and the best
/// depth.
fn percentiles(flows: &[Flow<'_>], network: Option<&Network>) -> Option<Chart> {
    let mut chart = LabelledChart::new(
        "bench.latency_percentiles",
        "Latency percentiles",
        "s",
        "percentile",
        "The time that this share of the requests did not exceed.",
    );
    for flow in flows {
        let alike: Vec<&Flow<'_>> = flows.iter().filter(|other| other.is_alike(flow)).collect();
        let is_shallowest = || alike.iter().all(|other| other.in_flight() >= flow.in_flight());
        let is_best = || alike.iter().all(|other| other.stats.rate <= flow.stats.rate);
        if alike.len() < 2 || is_shallowest() || is_best() {
            add_percentiles(&mut chart, &flow.name(), &flow.stats.latency);
        }
    }
    for round in network.iter().flat_map(|network| &network.rounds) {
        for run in round.runs.iter().filter(|run| run.failed.is_none()) {
            let name = if round.name.contains(&run.name) {
                round.name.clone()
            } else {
                format!("{}, {}", round.name, run.name)
            };
            if let Some(latency) = &run.here.latency {
                add_percentiles(&mut chart, &name, latency);
            }
        }
    }
    chart.finish()
}

fn add_percentiles(chart: &mut LabelledChart, name: &str, latency: &Latency) {
    for percentile in latency.percentiles.iter().filter(|one| one.share >= MEDIAN && one.share < 1.0) {
        // Each further nine is equally far away: 90 %, 99 %, 99.9 %.
        let place = -(1.0 - percentile.share).log10();
        // 0.9999 × 100 is not exactly 99.99.
        let percent = (percentile.share * 1e8).round() / 1e6;
        chart.add(name, Label::at((place * 1e6).round() / 1e6, format!("{percent}\u{a0}%")), percentile.seconds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_documents::bench::{Knee, Measurement, Percentile, Workload};

    fn flow(depth: u32, block: u32, rate: f64) -> Round {
        let mut run: DiskRun = serde_json::from_value(serde_json::json!({
            "name": "random read", "target": 0, "asked": Workload { depth, ..Workload::of_blocks(block) }, "seconds": 1.0,
            "read": null, "write": null, "sync": null,
            "series": { "interval": 0.1, "reads": [], "read_bytes": [], "writes": [], "write_bytes": [], "longest": [] },
            "cost": { "thread_seconds": 1.0, "user_seconds": 0.0, "system_seconds": 0.0, "per_operation": null,
                      "context_switches": 0, "machine_per_operation": null },
            "generator": { "busy": null, "waited": null, "was_limit": false }, "failed": null, "hung": 0, "behind": 0
        }))
        .unwrap();
        let latency = Latency {
            count: 100,
            mean: f64::from(depth) / rate,
            percentiles: [(0.01, 1.0), (0.5, 2.0), (0.99, 4.0), (0.9999, 9.0)]
                .map(|(share, seconds)| Percentile { share, seconds })
                .to_vec(),
            ..Latency::default()
        };
        run.read = Some(RequestStats {
            operations: 100,
            rate,
            bandwidth: rate * f64::from(block),
            latency,
            ..RequestStats::default()
        });
        Round {
            name: format!("random read, {depth} in flight"),
            group: "random read".into(),
            runs: vec![run],
            ledgers: Vec::new(),
            spoiled: None,
        }
    }

    fn report(rounds: Vec<Round>) -> BenchReport {
        serde_json::from_value(serde_json::json!({
            "schema": "whyslow.bench/1", "kind": "disk", "started": null, "started_ms": null, "seconds": 1.0,
            "interrupted": false, "environment": { "host": {}, "settings": {}, "others_cpus": null, "others": [] },
            "targets": [], "rounds": rounds, "ceilings": [], "caveats": []
        }))
        .unwrap()
    }

    fn chart<'c>(charts: &'c [Chart], id: &str) -> &'c Chart {
        charts.iter().find(|chart| chart.id == id).unwrap_or_else(|| panic!("{id}: {charts:?}"))
    }

    #[test]
    fn a_sweep_is_a_curve_over_the_queue_depth() {
        let spoiled = Round { spoiled: Some("others read".into()), ..flow(16, 4096, 9e9) };
        // A second run at depth 2, with more jobs, was better.
        let rounds =
            vec![flow(1, 4096, 100.0), flow(4, 4096, 380.0), flow(2, 4096, 190.0), flow(2, 4096, 200.0), spoiled];
        let charts = charts_of_bench(&report(rounds));
        let rate = chart(&charts, "bench.depth_rate");
        assert_eq!((&rate.times[..], rate.series.len()), (&[0.0, 1.0, 2.0][..], 1));
        assert_eq!(rate.x.as_ref().unwrap().labels, ["1", "2", "4"]);
        assert_eq!(rate.series[0].name, "random read of 4 KiB");
        assert_eq!(rate.series[0].mean, [Some(100.0), Some(200.0), Some(380.0)]);
        let latency = chart(&charts, "bench.depth_latency");
        assert_eq!(latency.series[0].mean, [Some(0.01), Some(0.01), Some(0.010526)]);
        assert_eq!(latency.series[1].mean, [Some(4.0); 3]);
    }

    #[test]
    fn the_knee_is_marked_where_what_the_sweep_is_about_is_drawn() {
        let knee = Knee { depth: 2, rate: 190.0, latency: 0.01, latency_alone: 0.01, parallelism: 2.0 };
        let ceiling = |of: Limit| Ceiling {
            of,
            requests: "random read".into(),
            block: 4096,
            rate: 200.0,
            bandwidth: 200.0 * 4096.0,
            knee: Some(knee),
            reached: true,
            generator: false,
        };
        let rounds = || vec![flow(1, 4096, 100.0), flow(2, 4096, 190.0), flow(4, 4096, 200.0)];
        let drawn = |of: Limit| {
            let charts = charts_of_bench(&BenchReport { ceilings: vec![ceiling(of)], ..report(rounds()) });
            charts
                .into_iter()
                .filter(|chart| ["bench.depth_rate", "bench.depth_throughput"].contains(&&*chart.id))
                .map(|chart| (chart.id, chart.series))
                .collect::<Vec<_>>()
        };
        let [(id, series)] = &drawn(Limit::Requests)[..] else { panic!("one chart") };
        assert_eq!(
            (id.as_str(), series[1].name.as_str(), series[1].points),
            ("bench.depth_rate", "random read of 4 KiB, knee", true)
        );
        assert_eq!(series[1].mean, [None, Some(190.0), None]);
        assert_eq!(drawn(Limit::Bandwidth)[0].0, "bench.depth_throughput");
    }

    #[test]
    fn percentiles_are_of_the_shallowest_and_the_best_depth_and_nines_are_equally_far_apart() {
        let charts = charts_of_bench(&report(vec![flow(1, 4096, 100.0), flow(2, 4096, 200.0), flow(4, 4096, 380.0)]));
        let percentiles = chart(&charts, "bench.latency_percentiles");
        assert_eq!(percentiles.x.as_ref().unwrap().labels, ["50\u{a0}%", "99\u{a0}%", "99.99\u{a0}%"]);
        assert!((percentiles.times[0] - std::f64::consts::LOG10_2).abs() < 1e-6);
        assert_eq!(percentiles.times[1..], [2.0, 4.0]);
        let names: Vec<&str> = percentiles.series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names, ["random read, 1 in flight", "random read, 4 in flight"]);
        assert_eq!(percentiles.series[0].mean, [Some(2.0), Some(4.0), Some(9.0)]);
    }

    #[test]
    fn block_sizes_at_the_best_depth_are_a_curve_too() {
        let rounds = vec![flow(1, 4096, 100.0), flow(8, 4096, 800.0), flow(8, 65_536, 500.0)];
        let charts = charts_of_bench(&report(rounds));
        let blocks = chart(&charts, "bench.block_throughput");
        assert_eq!(blocks.x.as_ref().unwrap().labels, ["4 KiB", "64 KiB"]);
        // 800 × 4096, and 500 × 65,536, with five significant digits.
        assert_eq!(blocks.series[0].mean, [Some(3_276_800.0), Some(32_768_000.0)]);
        // The larger block has only one depth, which is no curve.
        assert_eq!(chart(&charts, "bench.depth_rate").series.len(), 1);
    }

    #[test]
    fn a_study_is_drawn_over_what_has_more_values_with_its_intervals() {
        let figure = |name: &str, under: &str, value: f64| {
            Measurement::from_samples(name, under, "s", (0..10).map(|i| value + f64::from(i)).collect()).unwrap()
        };
        let figures = ["16 KiB", "1 MiB", "64 MiB"]
            .into_iter()
            .flat_map(|set| [figure(set, "4 KiB pages", 10.0), figure(set, "huge pages", 5.0)])
            .collect();
        let study = Study { name: "latency".into(), figures, ..Study::default() };
        let charts = of_study(&study);
        assert_eq!(charts.len(), 1);
        assert_eq!((charts[0].id.as_str(), charts[0].title.as_str()), ("bench.latency", "Latency"));
        assert_eq!(charts[0].x.as_ref().unwrap().labels, ["16 KiB", "1 MiB", "64 MiB"]);
        let series = &charts[0].series[0];
        // Ten samples from 10 to 19: the median, and the second lowest and highest for 95 % confidence.
        assert_eq!((series.name.as_str(), series.mean[0], series.points), ("4 KiB pages", Some(14.5), false));
        assert_eq!((series.min.as_ref().unwrap()[0], series.max.as_ref().unwrap()[0]), (Some(11.0), Some(18.0)));
        // Names have no order.
        let calls = Study {
            name: "calls".into(),
            figures: vec![figure("getppid", "", 1.0), figure("clock", "", 2.0)],
            ..Study::default()
        };
        let charts = of_study(&calls);
        assert_eq!(charts[0].x.as_ref().unwrap().labels, ["getppid", "clock"]);
        assert!(charts[0].series[0].points && charts[0].series[0].name == "calls");
    }
}
