//! nstat(8) of iproute2: protocol counters by the kernel's names, as text and JSON.

use super::protocols;
use crate::format::{Asked, Format};
use crate::json::{self, Amount};
use crate::lines::Lines;
use crate::number::number;
use crate::refusal::Refusal;
use crate::run::Run;
use serde::Deserialize;
use std::collections::BTreeMap;
use whyslow_model::catalogue::{Family, Protocol};
use whyslow_proc::snmp::Names;

/// The format.
pub const FORMAT: Format = Format {
    name: "nstat",
    versions: "iproute2, text and -j; -a counts since boot, without it since the last call",
    tells: "retransmissions, overflows and errors; with -a, of two with their times, their rates",
    starts: |lines| is_text(lines) || json::begins(lines, "kernel"),
    read,
};

/// `#kernel`, or `#48394.1804289383 sampling_interval=1 time_const=60`, then a counter.
fn is_text(lines: &mut Lines<'_>) -> bool {
    let head = |line: &str| line == "#kernel" || (line.starts_with('#') && line.contains("sampling_interval="));
    lines.peek(0).is_some_and(head)
}

#[derive(Deserialize)]
struct Document {
    kernel: BTreeMap<String, Amount>,
}

fn read(lines: &mut Lines<'_>, asked: &Asked, run: &mut Run) -> Result<(), Refusal> {
    let line = lines.number();
    let counters = if json::begins(lines, "kernel") {
        let document: Document = json::take(lines, "the kernel's counters, by name")?;
        document.kernel.into_iter().map(|(name, count)| (line, name, count.whole())).collect()
    } else {
        lines.skip(1);
        table(lines)?
    };
    // Differences have no place among counts since boot.
    if asked.command.as_ref().is_some_and(|c| c.tool() == "nstat" && !c.has('a')) {
        run.note(
            "nstat",
            "counts since it was last called, of which the time is not known",
            "print them since boot: nstat -az",
        );
        return Ok(());
    }
    let names = Names::default();
    for (line, name, count) in counters {
        if let Some(metric) = names.metric("", &name) {
            run.row::<Protocol>(0.0, line, protocols()).set(metric, count);
        }
    }
    Ok(())
}

/// `TcpRetransSegs                  5955               0.0`: a name, a count, a rate that only its daemon knows.
fn table(lines: &mut Lines<'_>) -> Result<Vec<(u32, String, u64)>, Refusal> {
    let mut counters = Vec::new();
    while let Some(text) = lines.peek(0).map(str::to_owned) {
        let fields: Vec<&str> = text.split_whitespace().collect();
        if !fields.first().is_some_and(|name| name.starts_with(|c: char| c.is_ascii_uppercase())) || fields.len() > 3 {
            break;
        }
        let line = lines.number();
        match fields[..] {
            [name, count, rate] if number(rate).is_some() => match count.parse::<u64>() {
                Ok(count) => counters.push((line, name.to_owned(), count)),
                Err(_) => return Err(lines.refuse("a counter's name, a whole number and a rate")),
            },
            _ => return Err(lines.refuse("a counter's name, a whole number and a rate")),
        }
        lines.skip(1);
    }
    Ok(counters)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, window_of};

    #[test]
    fn text_and_json() {
        let text = fixture("nstat-az.txt");
        let out = window_of(&text).the::<Protocol>().unwrap().tcp_out_segs.get();
        assert!(out.is_some_and(|segments| segments > 1000), "{out:?}");
        let window = window_of("{\"kernel\":{\"TcpOutSegs\":18,\"IcmpInMsgs\":3,\"TcpExtListenOverflows\":5}}\n");
        let row = window.the::<Protocol>().unwrap();
        assert_eq!((row.tcp_out_segs.get(), row.tcp_ext_listen_overflows.get()), (Some(18), Some(5)));
        assert_eq!(refusal_of("#kernel\nIpInReceives 7 0.0\nTcpOutSegs 18x 0.0\n").line, 3);
    }

    #[test]
    fn differences_over_an_unknown_time_are_left_out() {
        let window = window_of("$ nstat\n#kernel\nTcpOutSegs 18 0.0\n");
        assert!(window.the::<Protocol>().is_none());
    }
}
