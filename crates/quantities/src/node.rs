//! Quantities of NUMA nodes (Documentation/admin-guide/numastat.rst).

use crate::declare::quantities;
use whyslow_model::catalogue::Node;

quantities! { Node;
    MISSES = "node.misses" "1/s" "pages allocated here although another node was preferred", "/sys/devices/system/node/*/numastat" = rate(numa_miss);
}
