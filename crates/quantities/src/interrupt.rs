//! Quantities of interrupts and of what they leave to softirqs (proc(5): /proc/interrupts; net/core/dev.c).

/// Interrupt lines on each CPU.
pub mod line {
    use crate::declare::quantities;
    use whyslow_model::catalogue::Irq;

    quantities! { Irq;
        RATE = "irq.rate" "1/s" "interrupts served", "/proc/interrupts" = rate(count);
    }
}

/// Time in softirqs.
pub mod softirq {
    use crate::declare::quantities;
    use whyslow_model::catalogue::SoftirqTime;

    quantities! { SoftirqTime;
        CPU = "softirq.cpu" "count" "CPUs' worth of time in softirqs", "BPF: softirq_entry, softirq_exit" = rate(time);
    }
}

/// Packets that a CPU takes in.
pub mod softnet {
    use crate::declare::quantities;
    use whyslow_model::catalogue::Softnet;

    quantities! { Softnet;
        DROPS = "core.backlog_drops" "1/s" "packets dropped because its backlog was full", "/proc/net/softnet_stat column 2", normal (near 0.0)
            = rate(dropped);
        SQUEEZES = "core.squeezed" "1/s" "times the packet budget ran out with work left", "/proc/net/softnet_stat column 3", normal (near 0.0, "the packet budget suffices")
            = rate(squeezed);
    }
}
