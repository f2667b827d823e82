//! Heat map: time lost by each host over time.

use crate::cell::{double, text, timestamp};
use crate::commands::sick;
use crate::span::{HOUR_MS, rfc3339};
use crate::{Failure, Fleet, Span, sql};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use std::collections::{BTreeMap, HashMap};

/// Possible lengths of a piece in minutes: each divides an hour or a day.
const LENGTHS: [i64; 10] = [1, 5, 15, 30, 60, 120, 180, 360, 720, 1440];
/// Approximate maximum number of pieces.
const MOST_PIECES: i64 = 100;
const MINUTE_MS: i64 = 60_000;
/// Number of hosts whose pieces are in memory as rows at a time.
const HOSTS_AT_ONCE: usize = 2000;

/// The share of time that each host lost, piece by piece.
#[derive(Debug, JsonSchema, Serialize)]
pub struct HeatMap {
    /// When the first piece begins.
    pub start: String,
    /// The length of a piece, seconds.
    pub step_s: i64,
    /// How many there are.
    pub pieces: usize,
    /// The findings that `causes` refers to.
    pub findings: Vec<String>,
    /// Hosts that were observed, or did not report, those that lost the most first.
    pub hosts: Vec<HeatRow>,
}

/// A host.
#[derive(Debug, JsonSchema, Serialize)]
pub struct HeatRow {
    /// Its name.
    pub host: String,
    /// Seconds in which it was judged.
    pub judged_s: f64,
    /// Seconds that it lost.
    pub lost_s: f64,
    /// What it lost the most to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finding: Option<String>,
    /// The last minute that was observed; of a host that did not report, the last hour.
    pub last: String,
    /// Whether it is not all there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<Missing>,
    /// Of each piece the share of time lost, 0..1; `null` where the host was not judged.
    #[schemars(with = "Vec<Option<f64>>")]
    pub shares: Vec<HeatShare>,
    /// What it lost the most to in a piece: the number of the piece, and that of the finding.
    pub causes: Vec<(usize, usize)>,
}

/// How a host is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// It shipped in the two days before, and not in this time.
    NotReporting,
    /// Nothing of the last hour has come.
    Silent,
}

/// A share of time, rounded to a thousandth when serialized: a fleet has a million of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HeatShare(pub Option<f64>);

impl Serialize for HeatShare {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            None => to.serialize_none(),
            Some(share) if share <= 0.0 => to.serialize_u8(0),
            // A small share must not become zero.
            Some(share) => to.serialize_f64(((share * 1e3).round() / 1e3).clamp(0.001, 1.0)),
        }
    }
}

/// Equal pieces of a span, aligned to whole hours or days, or to parts of an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pieces {
    start_ms: i64,
    minutes: i64,
    count: usize,
}

impl Pieces {
    fn from_span(span: Span) -> Self {
        let length = |minutes: i64| minutes * MINUTE_MS;
        let fits = |minutes: &&i64| (span.to_ms - span.from_ms) / length(**minutes) <= MOST_PIECES;
        let minutes = LENGTHS.iter().find(fits).copied().unwrap_or(LENGTHS[LENGTHS.len() - 1]);
        let start = span.from_ms.div_euclid(length(minutes));
        let end = (span.to_ms - 1).div_euclid(length(minutes)) + 1;
        Self { start_ms: start * length(minutes), minutes, count: usize::try_from(end - start).unwrap_or(0) }
    }

    fn length_ms(self) -> i64 {
        self.minutes * MINUTE_MS
    }

    /// Returns the index of the piece that contains a time.
    fn at(self, ms: i64) -> Option<usize> {
        let at = usize::try_from((ms - self.start_ms).div_euclid(self.length_ms())).ok()?;
        (at < self.count).then_some(at)
    }

    /// Splits an interval into the pieces that it overlaps, each with its share of the interval.
    fn parts(self, from_ms: i64, to_ms: i64) -> impl Iterator<Item = (usize, f64)> {
        let (from, to) = (from_ms, to_ms.max(from_ms + 1));
        let first = (from - self.start_ms).div_euclid(self.length_ms());
        let last = (to - 1 - self.start_ms).div_euclid(self.length_ms());
        (first..=last).filter_map(move |piece| {
            let begin = self.start_ms + piece * self.length_ms();
            let part = (begin + self.length_ms()).min(to) - begin.max(from);
            let piece = usize::try_from(piece).ok().filter(|piece| *piece < self.count)?;
            Some((piece, part as f64 / (to - from) as f64))
        })
    }
}

/// Computes the heat map of a fleet.
///
/// # Errors
/// Fails if the store cannot be read.
pub fn heat(fleet: &Fleet) -> Result<HeatMap, Failure> {
    let pieces = Pieces::from_span(fleet.span());
    let mut observed = sick::hosts(fleet, None)?;
    let not_reporting = sick::not_reporting(fleet, &observed)?;
    let mut names: Vec<String> = observed.iter().map(|host| host.host.clone()).collect();
    names.sort();
    let mut shares = shares(fleet, pieces, &names)?;
    let (findings, mut causes) = causes(fleet, pieces)?;
    observed.sort_by(|a, b| b.lost_s.total_cmp(&a.lost_s).then_with(|| a.host.cmp(&b.host)));
    let to_ms = fleet.span().to_ms;
    let of_observed = observed.into_iter().map(|host| HeatRow {
        shares: shares.remove(&host.host).unwrap_or_else(|| vec![HeatShare(None); pieces.count]),
        causes: causes.remove(&host.host).unwrap_or_default(),
        finding: host.findings.first().map(|lost| lost.finding.clone()),
        last: rfc3339(host.last_ms),
        missing: host.is_silent(to_ms).then_some(Missing::Silent),
        host: host.host,
        judged_s: host.judged_s,
        lost_s: host.lost_s,
    });
    let of_missing = not_reporting.into_iter().map(|host| HeatRow {
        host: host.host,
        judged_s: 0.0,
        lost_s: 0.0,
        finding: None,
        last: host.last,
        missing: Some(Missing::NotReporting),
        shares: vec![HeatShare(None); pieces.count],
        causes: Vec::new(),
    });
    Ok(HeatMap {
        start: rfc3339(pieces.start_ms),
        step_s: pieces.minutes * 60,
        pieces: pieces.count,
        findings,
        hosts: of_observed.chain(of_missing).collect(),
    })
}

/// Returns the shares of each host; `names` must be sorted.
fn shares(fleet: &Fleet, pieces: Pieces, names: &[String]) -> Result<HashMap<String, Vec<HeatShare>>, Failure> {
    let mut shares: HashMap<String, Vec<HeatShare>> = HashMap::new();
    for some in names.chunks(HOSTS_AT_ONCE) {
        let (Some(first), Some(last)) = (some.first(), some.last()) else { continue };
        for row in fleet.query(&sql::lost_in_pieces(fleet.span(), (first, last), pieces.minutes))?.rows {
            let (Some(host), Some(at)) = (text(&row[0]), timestamp(&row[1])) else { continue };
            let judged = double(&row[3]).filter(|judged| *judged > 0.0);
            let share = judged.map(|judged| double(&row[2]).unwrap_or(0.0) / judged);
            if let Some(at) = pieces.at(at) {
                let none = || vec![HeatShare(None); pieces.count];
                shares.entry(host.to_owned()).or_insert_with(none)[at] = HeatShare(share);
            }
        }
    }
    Ok(shares)
}

/// For each host, the finding that cost the most in each piece, as indices of piece and finding.
type Causes = HashMap<String, Vec<(usize, usize)>>;

fn causes(fleet: &Fleet, pieces: Pieces) -> Result<(Vec<String>, Causes), Failure> {
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    let mut lost: HashMap<String, HashMap<(usize, usize), f64>> = HashMap::new();
    // An episode's row belongs to the hour in which it was first noticed.
    let span = fleet.span().extended_back(HOUR_MS);
    for row in fleet.with_span(span).query(&sql::spans_of_findings(span))?.rows {
        let (Some(host), Some(at), Some(until)) = (text(&row[0]), timestamp(&row[1]), timestamp(&row[2])) else {
            continue;
        };
        let (Some(finding), Some(seconds)) = (text(&row[3]), double(&row[4])) else { continue };
        let next = numbers.len();
        let number = numbers.get(finding).copied().unwrap_or_else(|| {
            numbers.insert(finding.to_owned(), next);
            next
        });
        let of_host = lost.entry(host.to_owned()).or_default();
        for (piece, part) in pieces.parts(at, until) {
            *of_host.entry((piece, number)).or_default() += seconds * part;
        }
    }
    let causes = lost.into_iter().map(|(host, lost)| (host, greatest(lost))).collect();
    let mut findings: Vec<(String, usize)> = numbers.into_iter().collect();
    findings.sort_by_key(|(_, number)| *number);
    Ok((findings.into_iter().map(|(finding, _)| finding).collect(), causes))
}

/// Returns the finding that cost the most in each piece.
fn greatest(lost: HashMap<(usize, usize), f64>) -> Vec<(usize, usize)> {
    let mut most: BTreeMap<usize, (usize, f64)> = BTreeMap::new();
    for ((piece, finding), seconds) in lost {
        let best = most.entry(piece).or_insert((finding, seconds));
        // Break ties by the finding seen first, so that the answer is deterministic.
        if seconds > best.1 || (seconds == best.1 && finding < best.0) {
            *best = (finding, seconds);
        }
    }
    most.into_iter().map(|(piece, (finding, _))| (piece, finding)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(hours: i64) -> Span {
        // Ends at 2026-11-26 10:20:30 UTC.
        let to_ms = 1_795_688_430_000;
        Span { from_ms: to_ms - hours * HOUR_MS, to_ms }
    }

    #[test]
    fn pieces_are_as_long_as_the_span_wants() {
        let lengths = [1, 6, 24, 168, 720].map(|hours| {
            let pieces = Pieces::from_span(span(hours));
            assert_eq!(pieces.start_ms.rem_euclid(pieces.length_ms()), 0);
            assert!(pieces.start_ms <= span(hours).from_ms, "{pieces:?}");
            let end = pieces.start_ms + pieces.count as i64 * pieces.length_ms();
            assert!(end >= span(hours).to_ms && end - pieces.length_ms() < span(hours).to_ms, "{pieces:?}");
            pieces.minutes
        });
        assert_eq!(lengths, [1, 5, 15, 120, 720]);
    }

    #[test]
    fn what_lasted_longer_is_divided_among_its_pieces() {
        let pieces = Pieces { start_ms: 0, minutes: 1, count: 3 };
        let parts = |from, to| pieces.parts(from, to).collect::<Vec<_>>();
        assert_eq!(parts(30_000, 90_000), [(0, 0.5), (1, 0.5)]);
        assert_eq!(parts(-60_000, 60_000), [(0, 0.5)], "before the first piece");
        assert_eq!(parts(150_000, 150_000), [(2, 1.0)], "a moment");
        assert_eq!(parts(180_000, 200_000), [], "behind the last");
    }

    #[test]
    fn the_greatest_loss_names_a_piece() {
        let lost = HashMap::from([((0, 1), 5.0), ((0, 2), 7.0), ((3, 2), 1.0), ((3, 0), 1.0)]);
        assert_eq!(greatest(lost), [(0, 2), (3, 0)]);
    }

    #[test]
    fn shares_are_short_in_json() {
        let shares = [None, Some(0.0), Some(0.000_01), Some(0.123_456), Some(1.2)].map(HeatShare);
        assert_eq!(serde_json::to_string(&shares).unwrap(), "[null,0,0.001,0.123,1.0]");
    }
}
