//! Counts that stand against a limit of the kernel.

use crate::signal::{Entity, over, share_of_true, signals};
use whyslow_model::catalogue::{Conntrack, Ipc, Limits, System};
use whyslow_model::diagnosis::Subject;
use whyslow_model::human;
use whyslow_model::window::Window;

/// One count and its limit.
pub struct LimitUse {
    name: &'static str,
    used: Option<f64>,
    most: Option<f64>,
    at_limit_share: Option<f64>,
    refused: Option<f64>,
}

signals! { l: LimitUse;
    "limit.name" "text" "the setting that limits", "sysctl name", "/proc/sys" => l.name;
    "limit.used" "count" "how much is taken (bytes for kernel.shmall)", "as the kernel gives it", "/proc/sysvipc, /proc/sys, /proc/loadavg" => l.used;
    "limit.max" "count" "how much there can be", "as the kernel gives it", "/proc/sys" => l.most;
    "limit.usage" "text" "how much is taken of what there can be, in the unit of the setting", "used of max", "/proc/sysvipc, /proc/sys" => usage(l).as_deref();
    "limit.fill" "ratio" "taken against what can be", "used / max", "/proc/sysvipc, /proc/sys" => over(l.used, l.most);
    "limit.at_limit_share" "ratio" "share of the samples in which 95 % or more was taken", "samples with used / max >= 0.95", "/proc/sysvipc, /proc/sys" => l.at_limit_share;
    "limit.refused" "1/s" "what was refused for it", "Δdrops / Δt, for connection tracking", "/proc/net/stat/nf_conntrack" => l.refused;
}

/// kernel.shmall counts pages.
const PAGE: f64 = 4096.0;

fn usage(limit: &LimitUse) -> Option<String> {
    let (used, most) = (limit.used?, limit.most?);
    Some(match limit.name {
        "kernel.shmall" => {
            format!("{:.0} of {:.0} pages ({})", used / PAGE, most / PAGE, human::quantity(most, "bytes"))
        }
        _ => format!("{used} of {most}"),
    })
}

macro_rules! limit {
    ($window:ident, $Family:ty, $name:literal, $used:ident, $max:expr) => {{
        $window.change::<$Family>().map(|c| LimitUse {
            name: $name,
            used: c.last().$used.get(),
            most: $max(c.last()),
            at_limit_share: share_of_true(c.rows().filter_map(|r| Some(over(r.$used.get(), $max(r))? >= 0.95))),
            refused: None,
        })
    }};
}

/// Every such count.
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
        limit!(window, Conntrack, "net.netfilter.nf_conntrack_max", count, |r: &Conntrack| r.max.get())
            .map(|l| LimitUse { refused: conntrack_refused, ..l }),
    ]
    .into_iter()
    .flatten()
    .map(|l| Entity::of(Subject::new("limit", l.name), &l))
    .collect()
}
