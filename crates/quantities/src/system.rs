//! Quantities of the whole machine (proc(5): /proc/stat).

use crate::declare::quantities;
use whyslow_model::catalogue::System;

quantities! { System;
    SWITCHES = "cpu.switches" "1/s" "context switches", "/proc/stat", baseline true = rate(context_switches);
    FORKS = "cpu.forks" "1/s" "processes and threads created", "/proc/stat", baseline true = rate(forks);
    INTERRUPTS = "cpu.interrupts_served" "1/s" "interrupts served", "/proc/stat" = rate(interrupts);
}
