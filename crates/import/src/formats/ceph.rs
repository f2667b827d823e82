//! `ceph status`: the health of a storage cluster, and how many of its disks' daemons (OSDs) are up.

use crate::prelude::*;
use whyslow_model::catalogue::Array;

pub const FORMAT: Format = Format {
    name: "ceph status",
    versions: "Ceph 12 on: status, -s, -w, and what rook prints; as text",
    shows: "whether all OSDs are up",
    lacks: "which of them is slow (ceph osd perf), and what the clients wait for; PGs that are degraded while it recovers",
    programs: &[partly_read("ceph")],
    files: &["ceph_status", "ceph_-s"],
    starts: |lines| {
        lines.next_is(|line| line.trim() == "cluster:")
            && (1..=MOST_BETWEEN).any(|at| lines.peek(at).is_some_and(|text| health(text).is_some()))
    },
    read,
    ..Format::NEW
};

/// What the sections are called: all else is indented below them.
const SECTIONS: [&str; 6] = ["cluster:", "services:", "task status:", "data:", "io:", "progress:"];
/// The lines between `cluster:` and `health:`.
const MOST_BETWEEN: usize = 3;
/// The most lines of a status, which can list many problems.
const MOST_LINES: usize = 200;

/// `    health: HEALTH_WARN`
fn health(line: &str) -> Option<&str> {
    line.trim().strip_prefix("health: ").filter(|health| health.starts_with("HEALTH_"))
}

/// The OSDs there are and those that are up: `osd: 144 osds: 143 up (since 5d), 144 in`.
fn osds(line: &str) -> Option<(f64, f64)> {
    let (all, rest) = line.trim().strip_prefix("osd:")?.trim().split_once(" osds: ")?;
    let (up, _) = rest.split_once(" up")?;
    Some((number(all)?, number(up)?))
}

fn read(lines: &mut Lines<'_>, _: &CaptureContext, run: &mut ToolRun) -> ReadResult {
    let line = lines.number();
    run.row::<Array>(0.0, line, "ceph".into()).level = "ceph".into();
    for _ in 0..MOST_LINES {
        let Some((blanks, text)) = lines.peek_past_blanks(0) else { break };
        if !(text.starts_with([' ', '\t']) || SECTIONS.contains(&text.trim())) || is_command(text) {
            break;
        }
        let row = run.row::<Array>(0.0, line, "ceph".into());
        if let Some(health) = health(text) {
            row.state = health.into();
        } else if let Some((all, up)) = osds(text) {
            row.members = all.into();
            row.degraded = (all - up).max(0.0).into();
        }
        lines.skip(blanks + 1);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, row_of};

    #[test]
    fn osds_that_are_down_are_missing() {
        let text = fixture("layouts/ceph-status.txt");
        let row = row_of::<Array>(&text);
        let seen = (row.state.get(), row.members.get(), row.degraded.get());
        assert_eq!(seen, (Some("HEALTH_WARN"), Some(12.0), Some(1.0)));
        let old = row_of::<Array>(&text.replace(" (since 3h)", ""));
        assert_eq!(old.degraded.get(), Some(1.0));
    }
}
