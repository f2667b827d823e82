//! nfsstat(8): calls of this machine's NFS client and server since boot (/proc/net/rpc).

use crate::prelude::*;
use whyslow_model::catalogue::NfsMount;

pub const FORMAT: Format = Format {
    name: "nfsstat",
    versions: "nfs-utils 1 and 2: -c, -s, -r, -n, -o",
    shows: "calls that the client retransmitted since boot; of two with times, their rate",
    lacks: "which mount; how long calls take; what the server does",
    programs: &[program("nfsstat")],
    files: &["nfsstat"],
    starts: |lines| lines.next_is(|line| section(line).is_some()),
    read,
    ..Format::NEW
};

/// Name for the client's calls, which are not counted by mount.
const ALL_MOUNTS: &str = "all NFS mounts";

/// Parses `Client rpc stats:`, `Server nfs v4 operations:`.
fn section(line: &str) -> Option<&str> {
    let title = line.trim().strip_suffix(':')?;
    let mut words = title.split(' ');
    let known = matches!(words.next(), Some("Client" | "Server"))
        && matches!(words.next(), Some("rpc" | "nfs" | "packet" | "file" | "reply"));
    known.then_some(title)
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let mut client = false;
    while let Some(title) = lines.take_past_blanks_if(|text| section(text).is_some()) {
        let of_calls = section(&title.text) == Some("Client rpc stats");
        // A repetition belongs to the next reading.
        if of_calls && client {
            lines.reuse(title);
            break;
        }
        while let Some(header) = lines.take_past_blanks_if(is_header) {
            let Some(counts) = lines.take_if(is_counts) else {
                return Err(lines.refuse("the counts below their names"));
            };
            if of_calls && header.text.trim_start().starts_with("calls") {
                client = true;
                calls(&header.text, &counts.text, counts.number, run)
                    .ok_or_else(|| lines.refuse_at(&counts, "a count for each name"))?;
            }
        }
    }
    if !client {
        run.note(
            "the NFS server's load",
            "nfsstat counts its operations since boot, but not how long they take",
            "on a client: nfsiostat 1 10",
        );
    }
    Ok(())
}

/// Returns true for `calls      retrans    authrefrsh`.
fn is_header(text: &str) -> bool {
    !text.trim().is_empty()
        && text.split_whitespace().all(|word| {
            word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-')
                && !word.starts_with(|c: char| c.is_ascii_digit())
        })
        && text.split_whitespace().count() > 1
}

/// Returns true for `0       0% 123    80%`, `1830021    41033      1830114`.
fn is_counts(text: &str) -> bool {
    !text.trim().is_empty()
        && text.split_whitespace().all(|word| word.trim_end_matches('%').bytes().all(|b| b.is_ascii_digit()))
}

fn calls(header: &str, counts: &str, line: u32, run: &mut ToolRun) -> Option<()> {
    let names: Vec<&str> = header.split_whitespace().collect();
    let numbers: Option<Vec<u64>> = counts.split_whitespace().map(|word| word.parse().ok()).collect();
    let numbers = numbers.filter(|numbers| numbers.len() == names.len())?;
    let of = |name: &str| names.iter().position(|own| *own == name).map(|at| numbers[at]);
    let row = run.row::<NfsMount>(0.0, line, ALL_MOUNTS.into());
    row.operations = of("calls").into();
    row.sent_again = of("retrans").into();
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, row_of};

    #[test]
    fn calls_that_were_sent_again() {
        let text = fixture("layouts/nfsstat-c.txt");
        let row = row_of::<NfsMount>(&text);
        assert_eq!((row.operations.get(), row.sent_again.get()), (Some(1_830_021), Some(41_033)));
        assert_eq!(refusal_of(&text.replace("1830021    41033", "1830021 x")).line, 4);
    }
}
