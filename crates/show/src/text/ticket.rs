//! A report as Markdown, for a ticket: findings with their evidence, the recommended change, and a table of figures.

use super::{screen, words};
use crate::chart::value;
use crate::clock::ZonedClock;
use crate::escape::markdown;
use crate::human;
use whyslow_documents::chart::{Chart, ChartSeries, PageData};
use whyslow_documents::diagnosis::{Basis, BlindSpot, Confidence, Diagnosis, Evidence, Finding, Verdict};
use whyslow_documents::explanation::Explanation;

/// Maximum number of findings described, and of charts and series per chart whose figures are listed.
const MOST_FINDINGS: usize = 5;
const MOST_CHARTS: usize = 5;
const MOST_SERIES: usize = 6;
/// Charts whose figures are listed if no finding has evidence.
const USUAL: [&str; 5] = ["cpu.modes", "memory.available", "disk.latency", "disk.busy", "network.throughput"];

/// Formats a report as Markdown (CommonMark with tables).
pub fn ticket(data: &PageData) -> String {
    let mut out = format!("# {}\n", markdown(&data.title));
    if let Some(result) = &data.result {
        line(&mut out, &format!("**{}**", markdown(&result.headline)));
        block(&mut out, result.text.trim_end());
    }
    if let Some(diagnosis) = &data.diagnosis {
        of_diagnosis(&mut out, diagnosis);
    }
    if let Some(explanation) = &data.explanation {
        of_explanation(&mut out, explanation);
    }
    figures(&mut out, data);
    out
}

fn of_diagnosis(out: &mut String, diagnosis: &Diagnosis) {
    let verdict = match diagnosis.verdict {
        Verdict::Bottleneck => "There is a bottleneck.",
        Verdict::Healthy => "No resource is saturated or failing.",
        Verdict::Undetermined => "Undetermined: too little was visible, or no cause is known.",
    };
    line(out, verdict);
    let (causes, effects): (Vec<&Finding>, Vec<_>) =
        diagnosis.findings.iter().partition(|finding| finding.explained_by.is_none());
    causes.iter().take(MOST_FINDINGS).for_each(|cause| finding(out, cause));
    let names = |findings: &[&Finding]| findings.iter().map(|one| words::headline(one)).collect::<Vec<_>>().join("; ");
    if causes.len() > MOST_FINDINGS {
        line(out, &format!("Also found: {}.", markdown(&names(&causes[MOST_FINDINGS..]))));
    }
    if !effects.is_empty() {
        line(out, &format!("Effects of these: {}.", markdown(&names(&effects))));
    }
    if !diagnosis.ruled_out.is_empty() {
        heading(out, "Ruled out");
        for ruled_out in diagnosis.ruled_out.iter().filter(|ruled_out| !ruled_out.id.contains('.')) {
            item(out, &format!("{}: {}", words::id(&ruled_out.id), ruled_out.because));
        }
    }
    if !diagnosis.not_cleared.is_empty() {
        heading(out, "Stands out, without a known cause");
        diagnosis.not_cleared.iter().for_each(|one| item(out, &format!("{}: {}", words::id(&one.id), one.because)));
    }
    if !diagnosis.blind_spots.is_empty() {
        heading(out, "Not seen");
        diagnosis.blind_spots.iter().for_each(|spot| item(out, &blind_spot(spot)));
    }
}

fn blind_spot(spot: &BlindSpot) -> String {
    let remedy = if spot.remedy.is_empty() { String::new() } else { format!("; {}", spot.remedy) };
    format!("{}: {}{remedy}", spot.what, spot.why)
}

fn finding(out: &mut String, finding: &Finding) {
    heading(out, &words::headline(finding));
    line(out, &markdown(&finding.summary));
    if !finding.culprits.is_empty() {
        let names: Vec<String> = finding.culprits.iter().map(words::culprit).collect();
        item(out, &format!("Who: {}", names.join(", ")));
    }
    let confidence = match finding.confidence {
        Confidence::High => String::new(),
        other => format!("; confidence {}", other.word()),
    };
    item(out, &format!("How bad: {}{confidence}", words::time_lost(finding)));
    if !finding.evidence.is_empty() {
        out.push_str("\n| evidence | value | expected |\n|---|---|---|\n");
        finding.evidence.iter().for_each(|evidence| row(out, &evidence_cells(evidence)));
    }
    let Some(action) = screen::recommended(finding) else { return };
    line(out, &format!("**Recommended action:** {}", markdown(&action.text)));
    if let Some(command) = &action.try_command {
        code(out, command);
    }
    if let Some(expected) = &action.expect {
        line(out, &format!("Expected: {}", markdown(expected)));
    }
}

fn evidence_cells(evidence: &Evidence) -> [String; 3] {
    [evidence.metric.clone(), human::evidence(evidence), evidence.expected.clone()]
}

fn of_explanation(out: &mut String, explanation: &Explanation) {
    let clock = ZonedClock::local();
    if explanation.episodes.is_empty() {
        line(out, "Nothing cost a noticeable amount of time.");
        return;
    }
    out.push_str("\n| from | for | what | time lost, at worst |\n|---|---|---|---|\n");
    for episode in &explanation.episodes {
        let Some(found) = episode.finding() else { continue };
        let lost =
            if found.impact_is == Basis::NotMeasured { "not measured".into() } else { human::share(episode.impact) };
        let lasted = human::seconds(episode.seconds.round().max(1.0));
        row(out, &[clock.date_and_time(&episode.start), lasted, words::headline(found), lost]);
    }
    if explanation.left_out > 0 {
        line(out, &format!("{} more episodes, which cost less, are not listed.", explanation.left_out));
    }
    if let Some((_, worst)) = explanation.worst() {
        finding(out, worst);
    }
}

/// Adds mean, minimum and maximum of the metrics in the evidence.
fn figures(out: &mut String, data: &PageData) {
    let charts = relevant(data);
    if charts.is_empty() {
        return;
    }
    heading(out, "Figures");
    out.push_str("\n| figure | mean | lowest | highest |\n|---|---|---|---|\n");
    for chart in charts {
        for series in chart.series.iter().take(MOST_SERIES) {
            let cell =
                |number: Option<f64>| number.map_or_else(|| "unknown".into(), |number| value(number, &chart.unit));
            let name = if series.name == chart.title {
                chart.title.clone()
            } else {
                format!("{}: {}", chart.title, series.name)
            };
            row(out, &[name, cell(series.average()), cell(series.lowest()), cell(series.highest())]);
        }
    }
}

/// Returns the charts that show the evidence of the findings, in its order, or the usual ones if there is none.
fn relevant(data: &PageData) -> Vec<&Chart> {
    let of_episodes = data.explanation.iter().flat_map(|explanation| &explanation.episodes).map(|one| &one.diagnosis);
    let findings = data.diagnosis.iter().chain(of_episodes).flat_map(|diagnosis| &diagnosis.findings);
    let signals = findings.flat_map(|finding| &finding.evidence).map(|evidence| &evidence.metric);
    let mut charts: Vec<&Chart> = Vec::new();
    for signal in signals {
        let shown = data.charts.iter().find(|chart| chart.signals.contains(signal) && has_values(chart));
        charts.extend(shown.filter(|chart| !charts.iter().any(|known| known.id == chart.id)));
    }
    if charts.is_empty() {
        charts.extend(data.charts.iter().filter(|chart| USUAL.contains(&&*chart.id) && has_values(chart)));
    }
    charts.truncate(MOST_CHARTS);
    charts
}

fn has_values(chart: &Chart) -> bool {
    chart.series.iter().any(|series: &ChartSeries| series.average().is_some())
}

fn heading(out: &mut String, title: &str) {
    out.push_str(&format!("\n## {}\n", markdown(title)));
}

fn line(out: &mut String, text: &str) {
    out.push_str(&format!("\n{text}\n"));
}

fn item(out: &mut String, text: &str) {
    out.push_str(&format!("- {}\n", markdown(text)));
}

fn row(out: &mut String, cells: &[String]) {
    let cells: Vec<String> = cells.iter().map(|cell| markdown(cell)).collect();
    out.push_str(&format!("| {} |\n", cells.join(" | ")));
}

/// Adds a command, indented as code, in which markup has no effect.
fn code(out: &mut String, command: &str) {
    out.push_str(&format!("\n    {}\n", crate::escape::terminal(command)));
}

/// Adds text of several lines, unchanged.
fn block(out: &mut String, text: &str) {
    out.push('\n');
    for line in text.lines() {
        out.push_str(format!("    {}", crate::escape::terminal(line)).trim_end());
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_documents::chart::ResultText;

    #[test]
    fn a_result_is_there_as_on_a_terminal() {
        let result = ResultText { headline: "Helped: a_b=1".into(), text: "Helped: a_b=1\n\n  4 → 2\u{1b}\n".into() };
        let text = ticket(&PageData { title: "try".into(), result: Some(result), ..PageData::default() });
        assert_eq!(text, "# try\n\n**Helped: a\\_b=1**\n\n    Helped: a_b=1\n\n      4 → 2\\x1b\n");
    }

    #[test]
    fn figures_are_of_the_charts_that_show_the_evidence() {
        let chart = |id: &str, signal: &str, mean: f64| Chart {
            id: id.into(),
            title: id.into(),
            unit: "s".into(),
            signals: vec![signal.into()],
            series: vec![ChartSeries { name: "sda|b".into(), mean: vec![None, Some(mean)], ..ChartSeries::default() }],
            ..Chart::default()
        };
        let mut data = PageData {
            title: "<b>db1</b>".into(),
            host: "db1".into(),
            to: 1.0,
            charts: vec![chart("cpu.modes", "cpu.busy", 0.5), chart("disk.latency", "disk.wait", 0.004)],
            ..PageData::default()
        };
        let text = ticket(&data);
        assert!(text.starts_with("# &lt;b>db1&lt;/b>\n"), "{text}");
        assert!(text.contains("| disk.latency: sda\\|b | 4 ms | 4 ms | 4 ms |\n"), "{text}");
        data.charts.clear();
        assert!(!ticket(&data).contains("Figures"));
    }
}
