//! redis-cli INFO of Redis and Valkey: memory, clients, persistence (redis.io/docs: INFO).

use crate::prelude::*;
use std::collections::BTreeMap;
use whyslow_model::catalogue::Database;

pub const FORMAT: Format = Format {
    name: "redis-cli INFO",
    versions: "Redis 2.4 to 8, Valkey; all sections, single ones, or fields without their section",
    shows: "evictions, memory that is swapped out, refused connections, delayed syncs of the append-only file, how long a fork stopped the server",
    lacks: "which command is slow (SLOWLOG, LATENCY); rates, except as means since the start",
    programs: &[partly_read("redis-cli"), partly_read("valkey-cli")],
    files: &["redis-cli_info", "redis-cli_INFO"],
    columns: &[&COLUMNS],
    starts: |lines| {
        let is_section = lines.next_is(|line| section(line).is_some())
            && lines.peek_past_blanks(1).is_some_and(|(_, next)| is_field(next));
        is_section || lines.next_is(is_own_field)
    },
    read,
    ..Format::NEW
};

const COLUMNS: MetricColumns<Database> = columns![
    "uptime_in_seconds" => uptime * SECOND, "connected_clients" => connections, "maxclients" => connections_max,
    "rejected_connections" => refused, "used_memory" => memory_used, "used_memory_rss" => memory_resident,
    "evicted_keys" => evicted, "aof_delayed_fsync" => delayed_syncs, "latest_fork_usec" => fork_time * 1e3,
];

/// Titles of sections, each with a field that it always has.
const SECTIONS: [(&str, &str); 13] = [
    ("Server", "redis_version"),
    ("Clients", "connected_clients"),
    ("Memory", "used_memory"),
    ("Persistence", "loading"),
    ("Threads", "io_thread_0"),
    ("Stats", "total_connections_received"),
    ("Replication", "role"),
    ("CPU", "used_cpu_sys"),
    ("Modules", ""),
    ("Commandstats", ""),
    ("Errorstats", ""),
    ("Cluster", "cluster_enabled"),
    ("Keyspace", "db0"),
];

/// Parses `# Memory`.
fn section(line: &str) -> Option<&'static str> {
    let title = line.trim_start().strip_prefix("# ")?.trim_end();
    SECTIONS.iter().map(|(name, _)| *name).find(|name| *name == title)
}

/// Returns true for the first field of a section: `used_memory:24512840`.
fn is_field(line: &str) -> bool {
    field(line.trim_start()).is_some_and(|(name, _)| SECTIONS.iter().any(|(_, first)| *first == name))
}

/// Fields that no other program prints, so that they are recognized without the title of their section.
const OWN_FIELDS: [&str; 16] = [
    "used_memory",
    "used_memory_human",
    "used_memory_rss",
    "used_memory_rss_human",
    "used_memory_peak",
    "used_memory_peak_human",
    "maxmemory",
    "maxmemory_human",
    "maxmemory_policy",
    "mem_fragmentation_ratio",
    "mem_allocator",
    "evicted_keys",
    "rejected_connections",
    "latest_fork_usec",
    "aof_delayed_fsync",
    "instantaneous_ops_per_sec",
];

fn is_own_field(line: &str) -> bool {
    field(line.trim_start()).is_some_and(|(name, value)| {
        OWN_FIELDS.contains(&name) && !value.is_empty() && !value.contains(char::is_whitespace)
    })
}

fn field(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(':')?;
    let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_|-.".contains(&b));
    // A space never follows the colon: `Note: this is a sentence`.
    (is_name && !value.starts_with(' ')).then_some((name, value.trim_end()))
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let begin = lines.number();
    let mut end = begin;
    let mut fields: BTreeMap<String, (u32, String)> = BTreeMap::new();
    while let Some((blanks, text)) = lines.peek_past_blanks(0) {
        let known = field(text.trim_start()).map(|(name, value)| (name.to_owned(), value.to_owned()));
        let title = section(text);
        // The section of the server begins another report.
        let again = title == Some("Server") && !fields.is_empty();
        if again || (known.is_none() && title.is_none()) {
            break;
        }
        lines.skip(blanks);
        end = lines.number();
        if let Some((name, value)) = known {
            fields.insert(name, (end, value));
        }
        lines.skip(1);
    }
    let number_of = |name: &str| fields.get(name).and_then(|(_, value)| number(value));
    let instance = number_of("tcp_port").map_or_else(|| "Redis".to_owned(), |port| format!("Redis:{port}"));
    let numbers = fields.iter().filter_map(|(name, (_, value))| Some((name.clone(), number(value)?)));
    let row = TableRow::new(begin, "", numbers).until(end);
    let database = run.counts(0.0, instance.as_str().into(), &row, &COLUMNS);
    database.product = "Redis".into();
    // 0 is unlimited.
    database.memory_max = number_of("maxmemory").filter(|most| *most > 0.0).into();
    if let Some((_, policy)) = fields.get("maxmemory_policy") {
        database.policy = policy.as_str().into();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, row_of, window_of};

    #[test]
    fn a_full_server_evicts_and_refuses() {
        let row = row_of::<Database>(&fixture("redis-info-evictions.txt"));
        assert_eq!(
            (&*row.instance, row.product.get(), row.policy.get()),
            ("Redis:7001", Some("Redis"), Some("allkeys-lru"))
        );
        assert_eq!((row.memory_used.get(), row.memory_max.get()), (Some(24_512_840.0), Some(25_165_824.0)));
        assert_eq!((row.evicted.get(), row.refused.get()), (Some(88_966.0), Some(24.0)));
        assert_eq!((row.fork_time.get(), row.uptime.get()), (Some(1_261_000.0), Some(192e9)));
        assert_eq!((row.connections.get(), row.connections_max.get()), (Some(1.0), Some(20.0)));
    }

    #[test]
    fn without_a_limit_there_is_none() {
        let row = row_of::<Database>(&fixture("redis-info.txt"));
        assert_eq!((row.memory_max.get(), row.evicted.get(), row.delayed_syncs.get()), (None, Some(0.0), None));
    }

    #[test]
    fn one_section_alone_is_read_and_a_comment_is_not() {
        let row = row_of::<Database>("# Stats\ntotal_connections_received:64\nrejected_connections:3\n");
        assert_eq!((row.refused.get(), row.memory_used.get()), (Some(3.0), None));
        assert!(crate::testing::read_text("# Memory\nmemory: of the server\n").map_or(true, |all| all.is_empty()));
    }

    #[test]
    fn fields_that_were_quoted_without_their_title_are_read() {
        let row = row_of::<Database>("I see\n  evicted_keys:7031\n  maxmemory:1048576\nall day.\n");
        assert_eq!(
            (row.evicted.get(), row.memory_max.get(), row.memory_used.get()),
            (Some(7031.0), Some(1_048_576.0), None)
        );
        assert!(!is_own_field("maxmemory: the limit of") && !is_own_field("maxmemory:2 GB or so"));
    }

    #[test]
    fn two_servers_are_two_instances() {
        let text = fixture("redis-info.txt") + &fixture("redis-info-evictions.txt");
        let window = window_of(&text);
        let names: Vec<String> = window.newest::<Database>().keys().map(|name| name.to_string()).collect();
        assert_eq!(names, ["Redis:7001", "Redis:7002"]);
    }
}
