//! `whyslow report`: charts and findings of the live machine, of a recording, or of other tools' output.

use crate::atomic_file::{AtomicFile, unwritable};
use crate::complete;
use crate::explain::{Extent, RecordedMachine, explain_together, in_parallel};
use crate::observe::observed_as;
use crate::options::{Observe, OutputOptions, duration};
use crate::output::{Failure, by_ending, print};
use crate::pseudonymise::{PseudonymOptions, PseudonymSession};
use crate::read::{self, ReadArgs};
use crate::recordings::{RecordingPeriod, in_words, recorded_then};
use crate::results::MeasuredResult;
use crate::stack;
use crate::user_rules;
use clap::{Args, ValueEnum};
use clap_complete::ArgValueCandidates;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use whyslow_diagnose::add_loads;
use whyslow_documents::chart::{Chart, PageData, SCHEMA};
use whyslow_documents::diagnosis::Finding;
use whyslow_documents::explanation::Explanation;
use whyslow_documents::profile::{self, StackProfile};
use whyslow_import::Capture;
use whyslow_model::suggest::unknown;
use whyslow_series::{ChartAxes, ChartBuilder, ChartSpec, ChartTimes, charts, charts_of_window, has_times};
use whyslow_show::clock::ZonedClock;
use whyslow_show::{chart, json, page, text};
use whyslow_store::{Recording, StoreError, TimeRange};

/// Maximum number of intervals of a chart with an interval per sample, or of a single chart.
pub const MOST_INTERVALS: usize = 1500;
/// Maximum number of intervals of each of many charts: with minimum and maximum, a day of them takes about two
/// megabytes.
const INTERVALS: usize = 500;
/// Maximum number of files in the title of a page.
const MOST_NAMED: usize = 3;

/// What to report on, and how.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Output of other tools, as for 'read'; the folder of a recording, or those of machines that belong together; or the JSON of
    /// 'bench' or 'try' [default: watch this machine]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    part: RecordingPeriod,
    /// Of a recording, five minutes on either side of this time: 03:12, '2026-11-21 03:12'
    #[arg(long, value_name = "WHEN", conflicts_with_all = ["since", "from", "to"])]
    at: Option<String>,
    /// How long to watch this machine
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = duration)]
    time: Duration,
    /// Only this chart, such as disk.latency [default of a picture: the chart of the main finding]
    #[arg(long, value_name = "CHART", add = ArgValueCandidates::new(complete::charts))]
    chart: Option<String>,
    /// Add the flame graph of this file, which 'profile -o FILE.json' wrote, to the page
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Output format [default: by the extension of FILE, otherwise html]
    #[arg(long, conflicts_with = "json")]
    format: Option<ReportFormat>,
    #[command(flatten)]
    pseudonyms: PseudonymOptions,
}

/// What to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ReportFormat {
    // No doc comments here: clap would show each as a paragraph of the help.
    Html,
    Json,
    Svg,
    Png,
    Md,
}

/// File name extensions and their formats.
const ENDINGS: &[(&str, ReportFormat)] = &[
    ("html", ReportFormat::Html),
    ("htm", ReportFormat::Html),
    ("json", ReportFormat::Json),
    ("svg", ReportFormat::Svg),
    ("png", ReportFormat::Png),
    ("md", ReportFormat::Md),
];

/// Writes the report.
///
/// # Errors
/// Fails on wrong usage, if the input cannot be read, if a chart has no data, or if the file cannot be written.
pub fn run(args: &ReportArgs, look: &OutputOptions) -> Result<ExitCode, Failure> {
    user_rules::declare_quantities();
    let format = args.format(look)?;
    let profile = args.profile.as_deref().map(profile_of).transpose()?;
    let result = args.result(look)?;
    let specs = if result.is_some() { Vec::new() } else { args.specs()? };
    // Before observing, so that an unusable name is reported at once.
    let file = args.output.as_deref().map(|path| AtomicFile::begin(path).map_err(|e| unwritable(path, &e)));
    let file = file.transpose()?;
    let names = args.pseudonyms.begin()?;
    if names.is_on() && (result.is_some() || profile.is_some()) {
        return Err(Failure::usage("--pseudonymise does not cover profiles and results of benchmarks and experiments"));
    }
    let data = match result {
        Some(data) => data,
        None => args.data(&specs, format, &names)?,
    };
    names.finish()?;
    let data = PageData { profile, ..data };
    let report = drawn(&data, args.chart.as_deref(), format)?;
    match (&args.output, file) {
        (Some(path), Some((draft, mut file))) => {
            file.write_all(&report).and_then(|()| draft.finish()).map_err(|e| unwritable(path, &e))?;
        }
        _ => print(report)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn profile_of(path: &Path) -> Result<StackProfile, Failure> {
    let json = fs::read(path).map_err(|e| Failure::usage(format!("{}: {e}", path.display())))?;
    let profile: Result<StackProfile, _> = serde_json::from_slice(&json);
    profile.ok().filter(|profile| profile.schema == profile::SCHEMA).ok_or_else(|| {
        Failure::usage(format!("{}: not what 'whyslow profile --json' prints ({})", path.display(), profile::SCHEMA))
    })
}

fn drawn(data: &PageData, asked: Option<&str>, format: ReportFormat) -> Result<Vec<u8>, Failure> {
    Ok(match format {
        ReportFormat::Html => page::html(data).into_bytes(),
        ReportFormat::Json => json::line(data).into_bytes(),
        ReportFormat::Md => text::ticket(data).into_bytes(),
        ReportFormat::Svg => chart::svg(picture(data, asked)?, data.is_elapsed).into_bytes(),
        ReportFormat::Png => chart::png(&chart::svg(picture(data, asked)?, data.is_elapsed))
            .map_err(|e| Failure::usage(format!("cannot draw the picture: {e}")))?,
    })
}

impl ReportArgs {
    fn format(&self, look: &OutputOptions) -> Result<ReportFormat, Failure> {
        let format = match (self.format, &self.output) {
            _ if look.display.json => ReportFormat::Json,
            (Some(format), _) => format,
            (None, None) => ReportFormat::Html,
            (None, Some(path)) => by_ending(path, ENDINGS, ReportFormat::Html)?,
        };
        let is_for_files = matches!(format, ReportFormat::Html | ReportFormat::Png);
        if is_for_files && self.output.is_none() && io::stdout().is_terminal() {
            return Err(Failure::usage("a page or a picture needs a file: -o FILE; --format md writes text"));
        }
        Ok(format)
    }

    /// Returns the result of a benchmark or an experiment, if the file is one; if a chart is named, only that.
    fn result(&self, look: &OutputOptions) -> Result<Option<PageData>, Failure> {
        let results: Result<Vec<_>, _> = self.files.iter().map(|path| MeasuredResult::read(path)).collect();
        let mut results: Vec<MeasuredResult> = results?.into_iter().flatten().collect();
        let Some(result) = results.pop() else { return Ok(None) };
        if self.files.len() > 1 || self.has_period() {
            return Err(Failure::usage(
                "the result of 'bench' or 'try' is drawn by itself: specify one file, and no time",
            ));
        }
        let mut data = result.page(look.display.utc);
        if let Some(asked) = &self.chart {
            let known: Vec<String> = data.charts.iter().map(|chart| chart.id.clone()).collect();
            data.charts.retain(|chart| is_asked(chart, asked));
            if data.charts.is_empty() {
                let list = "whyslow report FILE --format json | jq .charts[].id";
                return Err(Failure::usage(unknown("chart", asked, list, known)));
            }
        }
        Ok(Some(data))
    }

    /// Returns the requested charts.
    fn specs(&self) -> Result<Vec<&'static ChartSpec>, Failure> {
        let Some(asked) = &self.chart else { return Ok(charts().collect()) };
        let id = asked.split_once('@').map_or(asked.as_str(), |(id, _)| id);
        let specs: Vec<_> = charts().filter(|chart| chart.id == id).collect();
        if specs.is_empty() {
            let known = charts().map(|chart| chart.id);
            return Err(Failure::usage(unknown(
                "chart",
                asked,
                "whyslow report --format json | jq .charts[].id",
                known,
            )));
        }
        Ok(specs)
    }

    /// Returns whether the options refer to a recording.
    fn has_period(&self) -> bool {
        let RecordingPeriod { dir, since, from, to } = &self.part;
        dir.is_some() || since.is_some() || from.is_some() || to.is_some() || self.at.is_some()
    }

    fn data(
        &self,
        specs: &[&'static ChartSpec],
        format: ReportFormat,
        names: &PseudonymSession,
    ) -> Result<PageData, Failure> {
        // A picture of a named chart does not need findings.
        let is_picture = matches!(format, ReportFormat::Svg | ReportFormat::Png) && self.chart.is_some();
        let is_recording = |file: &PathBuf| file.is_dir() && Recording::open(file).is_ok();
        if !self.files.is_empty() && self.part.dir.is_none() && self.files.iter().all(is_recording) {
            return self.recorded(specs, is_picture, names);
        }
        match (self.files.is_empty(), self.has_period()) {
            (true, true) => self.recorded(specs, is_picture, names),
            (true, false) => self.live(specs, format, names),
            (false, true) => Err(Failure::usage(
                "--dir, --since, --from, --to and --at are for a recording; specify its folder, or only files",
            )),
            (false, false) => self.captured(specs, names),
        }
    }

    fn live(
        &self,
        specs: &[&'static ChartSpec],
        format: ReportFormat,
        names: &PseudonymSession,
    ) -> Result<PageData, Failure> {
        let interval = (self.time / 2).min(Duration::from_secs(1));
        let asked = Observe { time: self.time, interval, no_bpf: false, check: false, nagios: false };
        asked.check().map_err(Failure::usage)?;
        let (diagnosis, window) = observed_as(&asked, names)?;
        let made = charts_of_window(&window, specs.to_vec(), MOST_INTERVALS, ChartTimes::Live);
        let host = diagnosis.host.name.clone().unwrap_or_default();
        // If a chart is named, only that is needed; and only the page draws the stack.
        let has_stack = self.chart.is_none() && matches!(format, ReportFormat::Html | ReportFormat::Json);
        let stack = has_stack.then(|| {
            let mut stack = stack::live(names);
            add_loads(&mut stack, &window);
            stack
        });
        Ok(PageData { diagnosis: Some(diagnosis), stack, ..page_of(host, made, false) })
    }

    fn captured(&self, specs: &[&'static ChartSpec], names: &PseudonymSession) -> Result<PageData, Failure> {
        let captures = names.captures(read::captures(&ReadArgs::of_files(self.files.clone()))?);
        let diagnosis = read::diagnosed(&captures, &user_rules::load(), &self.files)?;
        let is_elapsed = !captures.iter().all(|capture| has_times(&capture.window));
        let times = if is_elapsed { ChartTimes::Elapsed } else { ChartTimes::Captured };
        let of = |capture: &Capture| {
            let most = intervals(capture.window.snapshots().len(), specs.len() == 1);
            let charts = charts_of_window(&capture.window, specs.to_vec(), most, times);
            if captures.len() > 1 { labelled(charts, &capture.label()) } else { charts }
        };
        let made = captures.iter().flat_map(of).collect();
        let host = diagnosis.host.name.clone().unwrap_or_default();
        let mut page = page_of(host, made, is_elapsed);
        if page.host.is_empty() {
            page.title = format!("whyslow: {}", named(&captures));
        }
        Ok(PageData { diagnosis: Some(diagnosis), ..page })
    }

    fn recorded(
        &self,
        specs: &[&'static ChartSpec],
        is_picture: bool,
        names: &PseudonymSession,
    ) -> Result<PageData, Failure> {
        crate::keep_freed_memory();
        let unreadable = |e: StoreError| Failure::usage(e.to_string());
        let machines = RecordedMachine::open_all(&self.files, &self.part, self.at.as_deref(), names)?;
        let most = |samples| intervals(samples, specs.len() == 1);
        let mut made = Vec::new();
        for machine in &machines {
            let charts = charts_of_recording(&machine.recording, &machine.span, specs, most).map_err(unreadable)?;
            made.extend(if machines.len() > 1 { labelled(charts, &machine.name) } else { charts });
        }
        if made.is_empty() && specs.len() > 1 {
            return Err(recorded_then("nothing", &machines[0].recording));
        }
        let hosts: Vec<&str> = machines.iter().map(|machine| machine.name.as_str()).collect();
        let data = page_of(hosts.join(", "), made, false);
        if is_picture {
            return Ok(data);
        }
        let explanation = explain_together(&machines, Extent::Page).map_err(unreadable)?;
        Ok(PageData { explanation: Some(explanation), ..data })
    }
}

/// Labels the charts of one of several machines or captures.
fn labelled(charts: Vec<Chart>, label: &str) -> Vec<Chart> {
    let of = |chart: Chart| Chart {
        id: format!("{}@{label}", chart.id),
        title: format!("{}: {label}", chart.title),
        ..chart
    };
    charts.into_iter().map(of).collect()
}

/// Returns the charts of a recording that have data; `most` returns the approximate maximum number of intervals for a
/// number of samples.
///
/// # Errors
/// Fails if a file cannot be read.
pub fn charts_of_recording(
    recording: &Recording,
    span: &TimeRange,
    specs: &[&'static ChartSpec],
    most: impl Fn(usize) -> usize,
) -> Result<Vec<Chart>, StoreError> {
    let samples = recording.sample_times(span)?;
    let axes = Arc::new(ChartAxes::new(samples.times.clone(), most(samples.times.len()), false));
    // Group charts of the same tables, so that each table is read once. Those of processes, which take the longest,
    // start first.
    let mut groups: Vec<Vec<&'static ChartSpec>> = Vec::new();
    for &spec in specs.iter().rev() {
        match groups.iter_mut().find(|group| group[0].read_from().eq(spec.read_from())) {
            Some(group) => group.push(spec),
            None => groups.push(vec![spec]),
        }
    }
    let made = in_parallel(&groups, |specs| -> Result<Vec<Chart>, StoreError> {
        let mut builder = ChartBuilder::new(specs.clone(), axes.clone());
        let selections = builder.selections();
        recording.each_reading(&samples, &selections, |selection, reading| builder.add(selection, reading))?;
        Ok(builder.finish())
    });
    let mut made = made.into_iter().collect::<Result<Vec<_>, _>>()?.concat();
    // In the requested order; charts of several entities keep theirs.
    made.sort_by_key(|chart| specs.iter().position(|spec| is_asked(chart, spec.id)));
    Ok(made)
}

/// Returns the charts for which a recording may have data, without the data.
///
/// # Errors
/// Fails if a file cannot be read.
pub fn outline_of_recording(
    recording: &Recording,
    span: &TimeRange,
    specs: &[&'static ChartSpec],
) -> Result<Vec<Chart>, StoreError> {
    let recorded = recording.families_in(span)?;
    let may_be_drawn = |spec: &&&ChartSpec| spec.read_from().any(|family| recorded.contains(family));
    Ok(specs.iter().filter(may_be_drawn).map(|spec| spec.outline()).collect())
}

/// Returns the default number of intervals of a chart, alone or as one of many.
pub fn intervals(samples: usize, is_alone: bool) -> usize {
    if samples <= MOST_INTERVALS || is_alone { MOST_INTERVALS } else { INTERVALS }
}

/// Returns a page of these charts.
pub fn page_of(host: String, charts: Vec<Chart>, is_elapsed: bool) -> PageData {
    let times = || charts.iter().flat_map(|chart| &chart.times).copied();
    let (from, to) = (times().reduce(f64::min).unwrap_or(0.0), times().reduce(f64::max).unwrap_or(0.0));
    let span = (!is_elapsed && !charts.is_empty()).then_some((from, to));
    let title = title(&host, span);
    PageData { schema: SCHEMA.to_owned(), title, host, from, to, is_elapsed, charts, ..PageData::default() }
}

/// Returns a name for captures of an unknown machine: the first few of their files.
fn named(captures: &[Capture]) -> String {
    let files: Vec<&str> = captures.iter().flat_map(|capture| &capture.files).map(String::as_str).collect();
    let more = if files.len() > MOST_NAMED { ", …" } else { "" };
    format!("{}{more}", files[..files.len().min(MOST_NAMED)].join(", "))
}

/// Returns the title of a page about a machine and, if known, a time span in seconds since 1970.
pub fn title(host: &str, span: Option<(f64, f64)>) -> String {
    let name = if host.is_empty() { "report" } else { host };
    let in_words = |seconds: f64| in_words((seconds * 1e9) as i64);
    match span {
        Some((from, to)) => {
            format!("whyslow: {name}, {}", ZonedClock::local().span(&in_words(from), &in_words(to), true))
        }
        None => format!("whyslow: {name}"),
    }
}

/// Returns whether the chart is the requested one, or one of its charts of several entities.
fn is_asked(chart: &Chart, asked: &str) -> bool {
    chart.id.strip_prefix(asked).is_some_and(|rest| rest.is_empty() || rest.starts_with('@'))
}

/// Returns the chart to draw: the requested one, or the one with the evidence of the main finding, or the first one.
fn picture<'d>(data: &'d PageData, asked: Option<&str>) -> Result<&'d Chart, Failure> {
    if let Some(id) = asked {
        return data
            .charts
            .iter()
            .find(|chart| is_asked(chart, id))
            .ok_or_else(|| Failure::nothing(format!("there is no data for the chart {id}")));
    }
    let main = main_finding(data);
    let signals = main.iter().flat_map(|finding| &finding.evidence).map(|evidence| &evidence.metric);
    let shown = signals.filter_map(|signal| data.charts.iter().find(|chart| chart.signals.contains(signal)));
    shown.chain(&data.charts).next().ok_or_else(|| Failure::nothing("there is no data for a chart"))
}

/// Returns the first finding; for a recording, that of the episode that cost the most time.
fn main_finding(data: &PageData) -> Option<&Finding> {
    let of_episodes = data.explanation.as_ref().and_then(Explanation::worst).map(|(_, finding)| finding);
    of_episodes.or_else(|| data.diagnosis.as_ref()?.findings.first())
}
