//! Quantities of queueing disciplines (tc(8)).

use crate::declare::quantities;
use whyslow_model::catalogue::Qdisc;

quantities! { Qdisc;
    DROPS = "qdisc.drops" "1/s" "packets it dropped", "rtnetlink" = rate(drops);
}
