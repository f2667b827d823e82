//! Quantities of control groups (Documentation/admin-guide/cgroup-v2.rst).

use crate::declare::quantities;
use whyslow_model::catalogue::Group;

quantities! { Group;
    CPU = "group.cpu_usage" "count" "CPUs' worth of time it used, as its controller counts it", "cpu.stat, cpuacct.usage" = rate(cpu_usage);
}
