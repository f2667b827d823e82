//! Counts with a kernel limit.

use crate::signal::{Entity, netns, over, page_size, share_of_true, signals};
use whyslow_documents::diagnosis::Subject;
use whyslow_model::catalogue::{
    Conntrack, EachFamily, Family, Ipc, Limits, NamespaceConntrack, Protocol, Setting, System,
};
use whyslow_model::human;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::{Counter, Gauge, Name, Value};
use whyslow_model::window::{Change, Window};
use whyslow_quantities::bounded::{self, Bounded};

/// A count and its limit.
pub struct LimitUse {
    name: &'static str,
    used: Option<f64>,
    most: Option<f64>,
    at_limit_share: Option<f64>,
    refused: Option<f64>,
    bounded: Option<BoundedUse>,
}

/// A declared level.
struct BoundedUse {
    declared: &'static Bounded,
    /// Number of times that its limit was hit in the window.
    hits: Option<f64>,
}

signals! { l: LimitUse;
    "limit.name" "text" "the setting that limits", "sysctl name", "/proc/sys" => l.name;
    "limit.used" "count" "how much is taken (bytes for kernel.shmall)", "as the kernel gives it; of ipcs the sum of its rows", "/sys/fs/cgroup, /proc/spl/kstat/zfs/arcstats, /proc/sysvipc, /proc/sys, /proc/loadavg, /proc/net/sockstat", normal "well below the limit" => l.used;
    "limit.max" "count" "how much there can be", "as the kernel gives it", "/proc/sys", normal "above the need" => l.most;
    "limit.usage" "text" "how much is taken of what there can be, in the unit of the setting", "used of max", "/proc/sysvipc, /proc/sys" => usage(l).as_deref();
    "limit.fill" "ratio" "taken against what can be", "used / max", "/proc/sysvipc, /proc/sys", normal (below 0.8), better lower, baseline true => over(l.used, l.most);
    "limit.at_limit_share" "ratio" "share of the samples in which 95 % or more was taken", "samples with used / max >= 0.95", "/proc/sysvipc, /proc/sys", normal (near 0.0) => l.at_limit_share;
    "limit.hits" "count" "times something was refused or held back for it in the window", "Δevents", "memory.events, pids.events", normal (near 0.0) => l.bounded.as_ref().and_then(|b| b.hits);
    "limit.what" "text" "what is limited", "by the file", "/sys/fs/cgroup" => l.bounded.as_ref().map(|b| b.declared.meaning);
    "limit.harm" "text" "what happens at the limit", "by the file", "Documentation/admin-guide/cgroup-v2.rst" => l.bounded.as_ref().map(|b| b.declared.harm);
    "limit.may_be_full" "flag" "1 if being full does no harm by itself, as with page cache", "by the file", "Documentation/admin-guide/cgroup-v2.rst" => l.bounded.as_ref().map(|b| b.declared.may_be_full);
    "limit.refused" "1/s" "what was refused for it", "Δdrops / Δt, for connection tracking", "/proc/net/stat/nf_conntrack" => l.refused;
}

/// Maximum of the connection tracking tables: each network namespace has its own table, and the same maximum.
const CONNTRACK_MAX: &str = "net.netfilter.nf_conntrack_max";

/// kernel.shmall counts pages.
const PAGE: f64 = 4096.0;

fn usage(limit: &LimitUse) -> Option<String> {
    let (used, most) = (limit.used?, limit.most?);
    if let Some(BoundedUse { declared, .. }) = &limit.bounded {
        return Some(format!("{} of {}", human::quantity(used, declared.unit), human::quantity(most, declared.unit)));
    }
    Some(match limit.name {
        "kernel.shmall" => {
            format!("{:.0} of {:.0} pages ({})", used / PAGE, most / PAGE, human::quantity(most, "bytes"))
        }
        "net.ipv4.tcp_mem" | "net.ipv4.udp_mem" => format!("{used:.0} of {most:.0} pages"),
        _ => format!("{used} of {most}"),
    })
}

macro_rules! limit {
    ($window:ident, $Family:ty, $name:expr, $used:ident, $max:expr) => {{
        $window.change::<$Family>().map(|c| LimitUse {
            name: $name,
            used: c.last().$used.get(),
            most: $max(c.last()),
            at_limit_share: share_of_true(c.rows().filter_map(|r| Some(over(r.$used.get(), $max(r))? >= 0.95))),
            refused: None,
            bounded: None,
        })
    }};
}

/// Returns the pages of all sockets of a protocol against the third number of its setting (tcp(7): tcp_mem, udp(7): udp_mem).
fn socket_memory(window: &Window, name: &'static str, memory: fn(&Protocol) -> Gauge) -> Option<LimitUse> {
    let settings = window.newest::<Setting>();
    let setting = settings.get(&Name::from(name))?.value.get()?;
    let most: f64 = setting.split_ascii_whitespace().nth(2)?.parse().ok()?;
    // Only the row of the observer's own namespace has the machine-wide values.
    let protocols = window.changes::<Protocol>();
    let protocol = protocols.iter().find(|p| p.key().ns.is_empty())?;
    let pages: Vec<f64> = protocol.readings(memory).map(|bytes| bytes / page_size(window)).collect();
    let used = Some(*pages.last()?);
    let at_limit_share = share_of_true(pages.iter().map(|pages| *pages >= 0.95 * most));
    Some(LimitUse { name, used, most: Some(most), at_limit_share, refused: None, bounded: None })
}

/// Returns the connection tracking tables of the other network namespaces.
fn tables_elsewhere(window: &Window) -> Vec<Entity> {
    let fill = |row: &NamespaceConntrack| over(row.count.get(), row.max.get());
    let entity = |c: &Change<'_, NamespaceConntrack>| {
        let limit = LimitUse {
            name: CONNTRACK_MAX,
            used: c.last().count.get(),
            most: c.last().max.get(),
            at_limit_share: share_of_true(c.rows().filter_map(|row| Some(fill(row)? >= 0.95))),
            refused: c.rate(|c| c.drops),
            bounded: None,
        };
        Entity::from_subject(Subject { netns: netns(&c.key().ns), ..Subject::new("limit", CONNTRACK_MAX) }, &limit)
    };
    window.changes().iter().map(entity).collect()
}

/// Collects the levels that limits beside them bound.
struct BoundedLevels<'w> {
    window: &'w Window,
    found: Vec<Entity>,
}

impl EachFamily for BoundedLevels<'_> {
    fn family<F: Family>(&mut self, _: &mut Vec<F>) {
        let declared = bounded::ALL.iter().filter(|bounded| bounded.family.name == F::INFO.name);
        let changes = if declared.clone().next().is_some() { self.window.changes::<F>() } else { Vec::new() };
        for declared in declared {
            self.found.extend(changes.iter().filter_map(|change| level(declared, change)));
        }
    }
}

/// Returns a level as an entity; `None` if the level or its limit is unknown.
fn level<F: Family>(declared: &'static Bounded, change: &Change<'_, F>) -> Option<Entity> {
    let number = |row: &F, column: usize| match row.value(column) {
        Some(Value::Gauge(gauge)) => gauge.get(),
        _ => None,
    };
    let fill = |row: &F| over(number(row, declared.level), number(row, declared.limit));
    let counter = |row: &F| match declared.refused.and_then(|column| row.value(column)) {
        Some(Value::Counter(counter)) => counter,
        _ => Counter::default(),
    };
    let last = change.last();
    let limit = LimitUse {
        name: declared.setting,
        used: Some(number(last, declared.level)?),
        most: Some(number(last, declared.limit)?),
        at_limit_share: share_of_true(change.rows().filter_map(|row| Some(fill(row)? >= 0.95))),
        refused: change.rate(counter),
        bounded: Some(BoundedUse { declared, hits: change.grown(counter) }),
    };
    if F::INFO.key_columns.is_empty() {
        return Some(Entity::from_subject(Subject::new("limit", declared.setting), &limit));
    }
    let key = change.key().to_string();
    let entity = Entity::from_subject(Subject::new("limit", format!("{} of {key}", declared.setting)), &limit);
    Some(entity.also_named(vec![key]))
}

fn bounded_levels(window: &Window) -> Vec<Entity> {
    let mut levels = BoundedLevels { window, found: Vec::new() };
    Snapshot::default().each_family(&mut levels);
    levels.found
}

/// Returns every count with a limit.
pub fn entities(window: &Window) -> Vec<Entity> {
    let threads_max = window.the::<Limits>().and_then(|l| l.threads_max.get());
    let pid_max = window.the::<Limits>().and_then(|l| l.pid_max.get());
    let conntrack_refused = window.change::<Conntrack>().and_then(|c| c.rate(|c| c.drops));
    [
        limit!(window, Ipc, "kernel.shmall", shm_bytes, |r: &Ipc| r.shm_bytes_max.get()),
        limit!(window, Ipc, "kernel.shmmni", shm_segments, |r: &Ipc| r.shm_segments_max.get()),
        limit!(window, Ipc, "kernel.sem (arrays)", sem_arrays, |r: &Ipc| r.sem_arrays_max.get()),
        limit!(window, Ipc, "kernel.sem (semaphores)", semaphores, |r: &Ipc| r.semaphores_max.get()),
        limit!(window, Limits, "fs.file-max", files, |r: &Limits| r.files_max.get()),
        limit!(window, System, "kernel.threads-max", tasks, |_: &System| threads_max),
        limit!(window, System, "kernel.pid_max", tasks, |_: &System| pid_max),
        limit!(window, Conntrack, CONNTRACK_MAX, count, |r: &Conntrack| r.max.get())
            .map(|l| LimitUse { refused: conntrack_refused, ..l }),
    ]
    .into_iter()
    .chain([
        socket_memory(window, "net.ipv4.tcp_mem", |p| p.tcp_memory),
        socket_memory(window, "net.ipv4.udp_mem", |p| p.udp_memory),
    ])
    .flatten()
    .map(|l| Entity::from_subject(Subject::new("limit", l.name), &l))
    .chain(tables_elsewhere(window))
    .chain(bounded_levels(window))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::window;
    use whyslow_model::key::NetKey;

    #[test]
    fn each_network_namespace_has_a_connection_tracking_table_of_its_own() {
        let window = window([0, 10], |t, s| {
            s.net.conntrack.push(Conntrack { count: 10.into(), max: 1000.into(), ..Conntrack::default() });
            s.net.namespace_conntrack.push(NamespaceConntrack {
                count: 990.into(),
                max: 1000.into(),
                drops: (t * 30).into(),
                ..NamespaceConntrack::new(NetKey { ns: "shop".into(), name: "nf_conntrack".into() })
            });
        });
        let found = entities(&window);
        let fills: Vec<_> = found.iter().map(|l| (l.subject.netns.as_deref(), l.number("limit.fill"))).collect();
        assert_eq!(fills, [(None, Some(0.01)), (Some("shop"), Some(0.99))]);
        assert_eq!(found[1].number("limit.refused"), Some(30.0));
    }

    #[test]
    fn a_level_beside_its_limit_is_an_entity_of_its_own() {
        let window = window([0, 10], |t, s| {
            s.cgroup.group.push(whyslow_model::catalogue::Group {
                pids: 99.into(),
                pids_max: 100.into(),
                pids_events: (t * 3).into(),
                memory: 5.into(),
                ..whyslow_model::catalogue::Group::new("/app".into())
            });
        });
        let found = entities(&window);
        let [pids] = &found[..] else { panic!("memory without a limit is none: {found:?}") };
        assert_eq!((&*pids.subject.name, &pids.aliases[..]), ("pids.max of /app", &["/app".to_owned()][..]));
        assert_eq!((pids.number("limit.fill"), pids.number("limit.hits")), (Some(0.99), Some(30.0)));
    }

    #[test]
    fn the_memory_of_tcp_sockets_is_compared_with_the_third_number_of_tcp_mem() {
        let window = window([0, 5, 10], |t, s| {
            let setting = Setting { value: "500 700 1000".into(), ..Setting::new("net.ipv4.tcp_mem".into()) };
            s.kernel.setting.push(setting);
            for (ns, pages) in [("", if t == 0 { 100 } else { 960 }), ("shop", 7)] {
                let key = NetKey { ns: ns.into(), name: "ip".into() };
                s.net.protocol.push(Protocol { tcp_memory: (pages * 4096).into(), ..Protocol::new(key) });
            }
        });
        let found = entities(&window);
        let [tcp] = &found[..] else { panic!("{found:?}") };
        assert_eq!(tcp.subject.name, "net.ipv4.tcp_mem");
        assert_eq!((tcp.number("limit.used"), tcp.number("limit.fill")), (Some(960.0), Some(0.96)));
        // Two of three samples.
        assert_eq!(tcp.number("limit.at_limit_share").map(|share| (share * 3.0).round()), Some(2.0));
    }
}
