//! Quantities of CPUs, by the modes in which the kernel counts the time of each (proc(5): /proc/stat).
//!
//! Shares are relative to the time that the kernel charged to any mode. The kernel accounts the ticks of an idle CPU later, so
//! the modes of a short step may add up to more or less than its length. Numbers of CPUs (`count`) are relative to the clock.

use crate::declare::quantities;
use whyslow_model::catalogue::Cpu;

quantities! { Cpu;
    BUSY = "core.busy" "ratio" "share of its time in use", "/proc/stat"
        = each([user] + [nice] + [system] + [irq] + [softirq] / [user] + [nice] + [system] + [irq] + [softirq] + [steal] + [idle] + [iowait]);
    USER = "core.user" "ratio" "share in user mode", "/proc/stat"
        = each([user] + [nice] / [user] + [nice] + [system] + [irq] + [softirq] + [steal] + [idle] + [iowait]);
    SYSTEM = "core.system" "ratio" "share in kernel mode, interrupts apart", "/proc/stat"
        = each(system / [user] + [nice] + [system] + [irq] + [softirq] + [steal] + [idle] + [iowait]);
    INTERRUPT = "core.interrupt" "ratio" "share in interrupts and softirqs", "/proc/stat", normal "below 20 %"
        = each([irq] + [softirq] / [user] + [nice] + [system] + [irq] + [softirq] + [steal] + [idle] + [iowait]);
    STEAL = "core.steal" "ratio" "share the hypervisor gave to others while it had work", "/proc/stat"
        = each(steal / [user] + [nice] + [system] + [irq] + [softirq] + [steal] + [idle] + [iowait]);
    IOWAIT = "core.iowait" "ratio" "share idle while a request was outstanding", "/proc/stat"
        = each(iowait / [user] + [nice] + [system] + [irq] + [softirq] + [steal] + [idle] + [iowait]);
    IDLE = "core.unused" "ratio" "share idle, waiting for I/O apart", "/proc/stat"
        = each(idle / [user] + [nice] + [system] + [irq] + [softirq] + [steal] + [idle] + [iowait]);
    CHARGED_TIME = "core.charged" "ratio" "share of the time that was charged to any mode", "/proc/stat"
        = rate([user] + [nice] + [system] + [irq] + [softirq] + [steal] + [idle] + [iowait]);
    IDLE_TIME = "core.idle" "ratio" "share of the time in which it idled", "/proc/stat" = rate([idle] + [iowait]);
    INTERRUPT_TIME = "core.interrupt_time" "ratio" "share of the time in interrupts and softirqs", "/proc/stat" = rate([irq] + [softirq]);
}
