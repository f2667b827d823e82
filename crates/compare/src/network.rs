//! What was measured of a network as series.

use whyslow_model::baseline::{BaselineSeries, Better};
use whyslow_model::bench::{NetRun, Network, Work};
use whyslow_model::diagnosis::Subject;

/// The series of a network benchmark: each of several runs is a sample; of a single run, each interval is.
pub(crate) fn of_network(network: &Network, one_of_several: bool) -> Vec<BaselineSeries> {
    let subject = Subject::new("connection", &network.peer.name);
    let rounds = network.rounds.iter();
    let runs = rounds.flat_map(|round| round.runs.iter().map(move |run| (round, run)));
    let sound = runs.filter(|(_, run)| run.failed.is_none());
    sound
        .flat_map(|(round, run)| {
            let what = if round.name == run.name { run.name.clone() } else { format!("{}, {}", round.name, run.name) };
            if one_of_several { figures(run, &what, &subject) } else { course(run, &what, &subject) }
        })
        .collect()
}

fn figures(run: &NetRun, what: &str, subject: &Subject) -> Vec<BaselineSeries> {
    let percentile = |share| run.here.latency.as_ref().and_then(|latency| latency.percentile(share));
    let figures = [
        ("bytes received", "bytes/s", Better::Higher, run.bandwidth),
        ("answers", "1/s", Better::Higher, run.rate),
        ("answers, median latency", "s", Better::Lower, percentile(0.5)),
        ("answers, 99th percentile latency", "s", Better::Lower, percentile(0.99)),
    ];
    let series = |(name, unit, better, figure): (&str, &str, Better, Option<f64>)| {
        Some(BaselineSeries::of_repeats(&format!("{what}: {name}"), subject.clone(), unit, better, vec![figure?]))
    };
    figures.into_iter().filter_map(series).collect()
}

fn course(run: &NetRun, what: &str, subject: &Subject) -> Vec<BaselineSeries> {
    let Some(end) = run.receiver() else { return Vec::new() };
    let length = end.series.interval;
    let (name, unit, counts) = match run.asked.work {
        Work::Stream(_) => ("bytes received", "bytes/s", &end.series.bytes),
        Work::Exchange => ("answers", "1/s", &end.series.answers),
    };
    vec![BaselineSeries::of_counts(&format!("{what}: {name}"), subject.clone(), unit, counts, length)]
}
