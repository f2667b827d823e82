//! Measures how fast a server answers requests for the page of a long recording, and the size of a report about it.

use serde::Serialize;
use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use whyslow_documents::chart::PageData;
use whyslow_pairs::failure::{Failure, Result};
use whyslow_testing::{HttpServer, UrlOn};

/// Number of series, and the maximum time in seconds to draw them for a day.
const SERIES: usize = 10;
const TIME: f64 = 1.0;
/// Maximum size of a report, in bytes per day.
const SIZE: u64 = 3_000_000;
const DAY: f64 = 86_400.0;
/// Long timeout, because slow answers are to be measured.
const PATIENCE: Duration = Duration::from_secs(1800);

/// Response times of the server for the parts of a page, and the size of the report.
#[derive(Serialize)]
pub struct PageReport {
    /// Length of the recording in seconds.
    length: f64,
    outline: Answer,
    answer: Answer,
    /// The first charts, with ten series in total.
    first: Answer,
    /// Each chart, requested separately.
    charts: Vec<Answer>,
    report_seconds: f64,
    report_bytes: u64,
}

/// A request to the server.
#[derive(Serialize)]
struct Answer {
    charts: Vec<String>,
    series: usize,
    seconds: f64,
    bytes: usize,
}

/// Requests the page of a recording from a server, and writes its report.
pub fn measure(whyslow: &Path, recording: &Path) -> Result<PageReport> {
    let mut command = Command::new(whyslow);
    command.args(["serve", "--no-live", "--listen", "127.0.0.1:0"]).arg(recording);
    let mut server = HttpServer::start(command.stdin(Stdio::null()).stdout(Stdio::piped()), UrlOn::Stdout);
    server.patience = PATIENCE;
    let ask = |what: &str| ask(&server, what);
    let (outline, page) = ask("only=outline")?;
    let ids: Vec<&str> = page.charts.iter().map(|chart| chart.id.as_str()).collect();
    let (answer, _) = ask("only=answer")?;
    let mut charts = Vec::new();
    for id in &ids {
        charts.push(ask(&format!("only=charts&charts={id}"))?.0);
    }
    let mut series = 0;
    let counted = charts.iter().take_while(|chart| {
        let is_enough = series >= SERIES;
        series += chart.series;
        !is_enough
    });
    let first = ids[..counted.count()].join(",");
    let (first, _) = ask(&format!("only=charts&charts={first}"))?;
    drop(server);
    let folder = whyslow_testing::folder();
    let file = folder.path().join("report.html");
    let begin = Instant::now();
    let status = Command::new(whyslow).args(["report", "--dir"]).arg(recording).arg("-o").arg(&file).status()?;
    if !status.success() {
        return Err(Failure::new(format!("whyslow report: {status}")));
    }
    let report_seconds = begin.elapsed().as_secs_f64();
    let report_bytes = std::fs::metadata(&file)?.len();
    Ok(PageReport { length: page.to - page.from, outline, answer, first, charts, report_seconds, report_bytes })
}

fn ask(server: &HttpServer, what: &str) -> Result<(Answer, PageData)> {
    let token = server.path.trim_start_matches('?');
    let begin = Instant::now();
    let answer = server.get(&format!("/api/page?host=0&{what}&{token}"), "");
    let seconds = begin.elapsed().as_secs_f64();
    if answer.status != 200 {
        return Err(Failure::new(format!("{what}: {}: {}", answer.status, answer.body)));
    }
    let page: PageData = serde_json::from_str(&answer.body)?;
    let charts = page.charts.iter().map(|chart| chart.id.clone()).collect();
    let series = page.charts.iter().map(|chart| chart.series.len()).sum();
    Ok((Answer { charts, series, seconds, bytes: answer.body.len() }, page))
}

impl PageReport {
    /// Returns whether it is as fast and as small as it should be.
    pub fn holds(&self) -> bool {
        self.first.seconds <= TIME && (self.report_bytes as f64) <= SIZE as f64 * (self.length / DAY).max(1.0)
    }

    /// Returns the report as JSON.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data becomes JSON")
    }
}

impl fmt::Display for PageReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hours = self.length / 3600.0;
        writeln!(
            f,
            "a recording of {hours:.1} h: outline {:.3} s, answer {:.3} s",
            self.outline.seconds, self.answer.seconds
        )?;
        let Answer { charts, series, seconds, bytes } = &self.first;
        writeln!(f, "the first {} charts, {series} series: {seconds:.3} s, {bytes} bytes", charts.len())?;
        for Answer { charts, series, seconds, bytes } in &self.charts {
            writeln!(f, "  {seconds:7.3} s {series:4} series {bytes:8} bytes  {}", charts.join(" "))?;
        }
        writeln!(f, "the report: {:.2} s, {} bytes", self.report_seconds, self.report_bytes)
    }
}
