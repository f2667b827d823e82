//! `ceph status` and `ceph health detail`: health of a storage cluster, and the number of its disk daemons (OSDs) that are up.

use crate::lines::TextLine;
use crate::prelude::*;
use whyslow_model::catalogue::{Array, Drive};

pub const FORMAT: Format = Format {
    name: "ceph status",
    versions: "Ceph 12 on (health detail: 10 on): status, -s, -w, health, health detail, and what rook prints; as text",
    shows: "whether all OSDs are up, and which of them have slow requests",
    lacks: "how long requests take (ceph osd perf), and what the clients wait for; PGs that are degraded while it recovers",
    programs: &[partly_read("ceph")],
    files: &["ceph_status", "ceph_-s"],
    starts: |lines| {
        lines.next_is(is_health)
            || lines.next_is(|line| line.trim() == "cluster:")
                && (1..=MOST_BETWEEN).any(|at| lines.peek(at).is_some_and(|text| health(text).is_some()))
    },
    read,
    ..Format::NEW
};

/// Names of the sections; everything else is indented below them.
const SECTIONS: [&str; 6] = ["cluster:", "services:", "task status:", "data:", "io:", "progress:"];
/// Maximum number of lines between `cluster:` and `health:`.
const MOST_BETWEEN: usize = 3;

/// Parses `    health: HEALTH_WARN`.
fn health(line: &str) -> Option<&str> {
    line.trim().strip_prefix("health: ").filter(|health| health.starts_with("HEALTH_"))
}

/// Returns true for the first line of `ceph health detail`, which lists all problems: `HEALTH_WARN 1 osds down; 30 slow ops,
/// oldest one blocked …`.
fn is_health(line: &str) -> bool {
    ["HEALTH_OK", "HEALTH_WARN ", "HEALTH_ERR "].iter().any(|health| line.starts_with(health))
}

/// Returns true for a problem below it: `[WRN] OSD_DOWN: 1 osds down` since Ceph 15, `OSD_DOWN 1 osds down` before; and for the
/// lines that are indented below a problem.
fn is_detail(line: &str) -> bool {
    let problem = ["[WRN] ", "[ERR] "].iter().find_map(|level| line.strip_prefix(level)).unwrap_or(line);
    let code = problem.split([' ', ':']).next().unwrap_or_default();
    let is_code = code.contains('_') && code.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
    is_code || line.starts_with("    ") || line.starts_with("pg ") || slow_osds(line).is_some()
}

/// Returns the number of OSDs that are down: `1 osds down`, among other problems.
fn osds_down(text: &str) -> Option<f64> {
    text.split([';', ':']).find_map(|problem| number(problem.trim().strip_suffix(" osds down")?))
}

/// Returns the OSDs with slow requests, and the age of the oldest request in nanoseconds: `1 slow ops, oldest one blocked for
/// 41 sec, osd.23 has slow ops`, `daemons [osd.3,mon.a] have slow ops`; before Ceph 14 a lower limit of it: `31 slow requests
/// are blocked > 32 sec. Implicated osds 4,7`, `20 ops are blocked > 262.144 sec on osd.3`, `osd.12 has blocked requests >
/// 32.768 sec`.
fn slow_osds(text: &str) -> Option<(f64, Vec<String>)> {
    if let Some((_, rest)) = text.split_once(" slow ops, oldest one blocked for ") {
        let (seconds, daemons) = rest.split_once(" sec, ")?;
        let daemons = daemons.split(" ha").next()?.trim_start_matches("daemons ").trim_matches(['[', ']', '.']);
        let osds = daemons.split(',').filter(|daemon| daemon.starts_with("osd.")).map(str::to_owned);
        return Some((number(seconds)? * SECOND, osds.collect()));
    }
    let (what, rest) = text.split_once(" blocked ")?;
    let (_, rest) = rest.split_once("> ")?;
    let (seconds, rest) = rest.split_once(" sec")?;
    let osds = if let Some((_, ids)) = rest.split_once("Implicated osds ") {
        ids.trim_end().split(',').map(|id| format!("osd.{id}")).collect()
    } else {
        let one = rest.strip_prefix(" on ").or(what.strip_suffix(" has"))?.trim();
        one.starts_with("osd.").then(|| vec![one.to_owned()])?
    };
    Some((number(seconds)? * SECOND, osds))
}

fn record_slow(text: &str, at: u32, run: &mut ToolRun) {
    // The age of the oldest request refers to all listed OSDs together.
    let Some((blocked, osds)) = slow_osds(text) else { return };
    let [osd] = &osds[..] else { return };
    run.row::<Drive>(0.0, at, osd.as_str().into()).blocked_for = blocked.into();
}

fn read_health(lines: &mut Lines<'_>, run: &mut ToolRun) -> ReadResult {
    let line = lines.number();
    let text = lines.take().map(|line| line.text).unwrap_or_default();
    let (health, problems) = text.split_once(' ').unwrap_or((&text, ""));
    let row = run.row::<Array>(0.0, line, "ceph".into());
    row.level = "ceph".into();
    row.state = health.into();
    row.degraded = if health == "HEALTH_OK" { Some(0.0) } else { osds_down(problems) }.into();
    problems.split("; ").for_each(|problem| record_slow(problem, line, run));
    while let Some(detail) = lines.take_if(is_detail) {
        record_slow(&detail.text, detail.number, run);
    }
    Ok(())
}

/// Returns the number of OSDs and the number that is up: `osd: 144 osds: 143 up (since 5d), 144 in`.
fn osds(line: &str) -> Option<(f64, f64)> {
    let (all, rest) = line.trim().strip_prefix("osd:")?.trim().split_once(" osds: ")?;
    let (up, _) = rest.split_once(" up")?;
    Some((number(all)?, number(up)?))
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    if lines.next_is(is_health) {
        return read_health(lines, run);
    }
    let line = lines.number();
    run.row::<Array>(0.0, line, "ceph".into()).level = "ceph".into();
    let is_own = |text: &str| (text.starts_with([' ', '\t']) || SECTIONS.contains(&text.trim())) && !is_command(text);
    while let Some(TextLine { number: at, text }) = lines.take_past_blanks_if(is_own) {
        let row = run.row::<Array>(0.0, line, "ceph".into());
        if let Some(health) = health(&text) {
            row.state = health.into();
        } else if let Some((all, up)) = osds(&text) {
            row.members = all.into();
            row.degraded = (all - up).max(0.0).into();
        }
        record_slow(&text, at, run);
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

    #[test]
    fn health_says_how_many_are_down() {
        let detail = "HEALTH_WARN 2 osds down; Degraded data redundancy: 10/60 objects degraded (16.667%); 30 slow ops, oldest \
            one blocked for 45 sec, osd.4 has slow ops\n[WRN] OSD_DOWN: 2 osds down\n    osd.3 (root=default,host=b) is down\n    \
            osd.5 (root=default,host=c) is down\n[WRN] SLOW_OPS: 30 slow ops, oldest one blocked for 45 sec, osd.4 has slow ops\n";
        assert_eq!(row_of::<Array>(detail).degraded.get(), Some(2.0));
        assert_eq!(row_of::<Array>(&detail.replace("[WRN] ", "")).state.get(), Some("HEALTH_WARN"));
        assert_eq!(row_of::<Array>("HEALTH_WARN noout flag(s) set\n").degraded.get(), None);
        assert_eq!(row_of::<Array>("HEALTH_OK\n").degraded.get(), Some(0.0));
    }

    #[test]
    fn osds_with_slow_requests() {
        let one = "1 slow ops, oldest one blocked for 41 sec, osd.23 has slow ops";
        assert_eq!(slow_osds(one), Some((41.0 * SECOND, vec!["osd.23".to_owned()])));
        let several =
            "[WRN] SLOW_OPS: 30 slow ops, oldest one blocked for 45 sec, daemons [osd.4,osd.7,mon.a] have slow ops.";
        assert_eq!(slow_osds(several), Some((45.0 * SECOND, vec!["osd.4".to_owned(), "osd.7".to_owned()])));
        let status =
            format!("  cluster:\n    id:     8d2f\n    health: HEALTH_WARN\n            {one}\n\n  services:\n");
        assert_eq!(row_of::<Drive>(&status).blocked_for.get(), Some(41.0 * SECOND));
        assert_eq!(row_of::<Drive>(&format!("HEALTH_WARN {one}\n")).blocked_for.get(), Some(41.0 * SECOND));
        for (old, seconds) in [
            ("31 slow requests are blocked > 32 sec. Implicated osds 3", 32.0),
            (
                "20 requests are blocked > 32 sec; 1 osds have slow requests\n20 ops are blocked > 262.144 sec on osd.3",
                262.144,
            ),
            (
                "2 slow requests are blocked > 32 sec. Implicated osds 3\n    osd.3 has blocked requests > 32.768 sec",
                32.768,
            ),
        ] {
            let row = row_of::<Drive>(&format!("HEALTH_WARN {old}\n"));
            assert_eq!((&*row.device, row.blocked_for.get()), ("osd.3", Some(seconds * SECOND)), "{old}");
        }
    }
}
