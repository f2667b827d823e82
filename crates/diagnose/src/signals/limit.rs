//! Counts with a kernel limit.

use crate::signal::{Entity, netns, over, page_size, share_of_true, signals};
use whyslow_model::catalogue::{Conntrack, Ipc, Limits, NamespaceConntrack, Protocol, Setting, System};
use whyslow_model::diagnosis::Subject;
use whyslow_model::human;
use whyslow_model::value::{Gauge, Name};
use whyslow_model::window::{Change, Window};

/// A count and its limit.
pub struct LimitUse {
    name: &'static str,
    used: Option<f64>,
    most: Option<f64>,
    at_limit_share: Option<f64>,
    refused: Option<f64>,
}

signals! { l: LimitUse;
    "limit.name" "text" "the setting that limits", "sysctl name", "/proc/sys" => l.name;
    "limit.used" "count" "how much is taken (bytes for kernel.shmall)", "as the kernel gives it", "/proc/sysvipc, /proc/sys, /proc/loadavg, /proc/net/sockstat", normal "well below the limit" => l.used;
    "limit.max" "count" "how much there can be", "as the kernel gives it", "/proc/sys", normal "above the need" => l.most;
    "limit.usage" "text" "how much is taken of what there can be, in the unit of the setting", "used of max", "/proc/sysvipc, /proc/sys" => usage(l).as_deref();
    "limit.fill" "ratio" "taken against what can be", "used / max", "/proc/sysvipc, /proc/sys", normal "below 80 %", better lower, baseline true => over(l.used, l.most);
    "limit.at_limit_share" "ratio" "share of the samples in which 95 % or more was taken", "samples with used / max >= 0.95", "/proc/sysvipc, /proc/sys", normal "0" => l.at_limit_share;
    "limit.refused" "1/s" "what was refused for it", "Δdrops / Δt, for connection tracking", "/proc/net/stat/nf_conntrack" => l.refused;
}

/// Maximum of the connection tracking tables: each network namespace has its own table, and the same maximum.
const CONNTRACK_MAX: &str = "net.netfilter.nf_conntrack_max";

/// kernel.shmall counts pages.
const PAGE: f64 = 4096.0;

fn usage(limit: &LimitUse) -> Option<String> {
    let (used, most) = (limit.used?, limit.most?);
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
    Some(LimitUse { name, used, most: Some(most), at_limit_share, refused: None })
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
        };
        Entity::of(Subject { netns: netns(&c.key().ns), ..Subject::new("limit", CONNTRACK_MAX) }, &limit)
    };
    window.changes().iter().map(entity).collect()
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
        limit!(window, Ipc, "kernel.msgmni", msg_queues, |r: &Ipc| r.msg_queues_max.get()),
        limit!(window, Limits, "fs.file-max", files, |r: &Limits| r.files_max.get()),
        limit!(window, Limits, "fs.aio-max-nr", aio, |r: &Limits| r.aio_max.get()),
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
    .map(|l| Entity::of(Subject::new("limit", l.name), &l))
    .chain(tables_elsewhere(window))
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
