//! mtr(8) in report mode: echo replies from each hop on the way to a host.

use super::ping::is_plain_host;
use crate::prelude::*;
use crate::table::is_header;
use whyslow_model::catalogue::Ping;

pub const FORMAT: Format = Format {
    name: "mtr",
    versions: "0.75 and later, -r or -w, with the columns Loss% and Snt",
    shows: "lost packets and round trips to the last hop, and from which hop on they are lost",
    lacks: "the return path, which may be a different one; hops that limit or drop echoes lose no other packets",
    programs: &[word("mtr")],
    starts: |lines| lines.next_is(is_columns) || (lines.next_is(is_start) && lines.peek(1).is_some_and(is_columns)),
    read,
    ..Format::NEW
};

/// Returns true for `Start: 2020-06-09T11:20:41+0200`.
fn is_start(line: &str) -> bool {
    line.starts_with("Start: ")
}

/// Columns of a report, including those that -o adds.
const COLUMNS: &[&str] =
    &["Loss%", "Snt", "Last", "Avg", "Best", "Wrst", "StDev", "Drop", "Rcv", "Jttr", "Javg", "Jmax", "Jint"];

/// Returns true for `HOST: web1                Loss%   Snt   Last   Avg  Best  Wrst StDev`.
fn is_columns(line: &str) -> bool {
    let Some((_, columns)) =
        line.strip_prefix("HOST: ").and_then(|rest| rest.trim_start().split_once(char::is_whitespace))
    else {
        return false;
    };
    is_header(columns, COLUMNS, 2) && columns.contains("Loss%") && columns.contains("Snt")
}

struct Hop {
    line: u32,
    number: u8,
    host: String,
    /// Share of the echoes without a reply, 0..1.
    loss: f64,
    values: Vec<f64>,
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    if lines.next_is(is_start) {
        lines.skip(1);
    }
    let Some(title) = lines.take() else { return Err(lines.refuse("the columns of mtr")) };
    // Skips `HOST: ` and the name.
    let names: Vec<String> = title.text.split_whitespace().skip(2).map(str::to_owned).collect();
    let mut hops: Vec<Hop> = Vec::new();
    while let Some(line) = lines.take_if(|text| is_hop(text) || text.trim_start().starts_with("|")) {
        // Further hosts of the same hop: `     |  `+-- 192.0.2.7`.
        if !is_hop(&line.text) {
            continue;
        }
        let hop = hop(&line.text, line.number, names.len()).ok_or_else(|| {
            lines.refuse_at(&line, format!("a hop with {} columns as in the header ({})", names.len(), names.join(" ")))
        });
        hops.extend(lines.keep(hop)?);
    }
    // If a line is missing, loss may begin at that hop.
    let are_all = hops.iter().zip(1..).all(|(hop, number)| hop.number == number);
    hops.retain(|hop| hop.host != "???");
    let column = |hop: &Hop, name: &str| hop.values.get(names.iter().position(|own| own == name)?).copied();
    let Some(last) = hops.last() else { return Ok(()) };
    let Some(sent) = column(last, "Snt").filter(|sent| *sent > 0.0) else { return Ok(()) };
    // Loss begins at the first hop from which on all hops lose about as much as the last one; a hop before that only limits its
    // replies.
    let lossy = hops.iter().rev().take_while(|hop| hop.loss > 0.5 * last.loss).last();
    let time = |name: &str| column(last, name).map(|ms| ms * NS_PER_MS);
    let row = run.row::<Ping>(0.0, last.line, last.host.as_str().into());
    row.host = last.host.as_str().into();
    (row.sent, row.received) = (sent.into(), (sent * (1.0 - last.loss)).round().into());
    (row.rtt_min, row.rtt_mean, row.rtt_max) = (time("Best").into(), time("Avg").into(), time("Wrst").into());
    row.rtt_spread = time("StDev").into();
    if last.loss > 0.0 && are_all {
        row.lost_from = lossy.map(|hop| hop.host.as_str()).into();
    }
    Ok(())
}

/// Returns true for `  1.|-- 192.0.2.1`, and ` 1. 192.0.2.1` of older versions.
fn is_hop(line: &str) -> bool {
    let Some((number, rest)) = line.trim_start().split_once('.') else { return false };
    number.parse::<u8>().is_ok() && (rest.starts_with("|--") || rest.starts_with(' '))
}

fn hop(line: &str, at: u32, columns: usize) -> Option<Hop> {
    let (number, rest) = line.trim_start().split_once('.')?;
    let mut words = rest.trim_start_matches(['|', '-', ' ']).split_whitespace().filter(|word| !word.starts_with("AS"));
    let host = words.next()?.to_owned();
    // With both, the address is in brackets: `gw.example.org (192.0.2.1)`.
    let words: Vec<&str> = words.filter(|word| !word.starts_with('(')).collect();
    let values: Option<Vec<f64>> = words.iter().map(|word| self::number(word.trim_end_matches('%'))).collect();
    let values = values.filter(|values| values.len() == columns)?;
    let loss = values.first().map(|percent| percent / 100.0).filter(|loss| (0.0..=1.0).contains(loss))?;
    (host == "???" || is_plain_host(&host)).then_some(Hop {
        line: at,
        number: number.parse().ok()?,
        host,
        loss,
        values,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, row_of};

    #[test]
    fn loss_begins_where_all_hops_behind_it_lose_as_well() {
        let row = row_of::<Ping>(&fixture("mtr.txt"));
        assert_eq!(
            (row.host.get(), row.sent.get(), row.received.get()),
            (Some("203.0.113.40"), Some(500.0), Some(490.0))
        );
        assert_eq!(row.lost_from.get(), Some("198.51.100.130"));
        assert_eq!((row.rtt_min.get(), row.rtt_spread.get()), (Some(59.6e6), Some(1.8e6)));
    }

    #[test]
    fn a_hop_that_limits_echoes_loses_nothing() {
        let text = "HOST: a     Loss%   Snt   Last   Avg  Best  Wrst StDev\n 1. 192.0.2.1  80.0%  10  0.6  0.7  0.4  6.1  0.4\n 2. 192.0.2.9  0.0%  10  1.1  1.3  0.9  8.8  0.7\n";
        let row = row_of::<Ping>(text);
        assert_eq!((row.host.get(), row.received.get(), row.lost_from.get()), (Some("192.0.2.9"), Some(10.0), None));
        assert!(refusal_of(&text.replace("8.8  0.7", "8.8")).to_string().contains("7 columns"));
    }
}
