//! Quantities of CPUs, by the modes in which the kernel counts the time of each (proc(5): /proc/stat).
//!
//! Shares are relative to the time that the kernel charged to any mode. The kernel accounts the ticks of an idle CPU later, so
//! the modes of a short step may add up to more or less than its length. Numbers of CPUs (`count`) are relative to the clock.

use crate::declare::{quantities, sum};
use crate::expression::Sum;
use whyslow_model::catalogue::{Cpu, Family, FamilyInfo};

const CPU: &FamilyInfo = &Cpu::INFO;
/// Time in all modes.
const CHARGED: Sum = sum!(CPU[user] + [nice] + [system] + [irq] + [softirq] + [steal] + [idle] + [iowait]);

quantities! { Cpu;
    BUSY = "core.busy" "ratio" "share of its time in use", "/proc/stat", baseline true
        = each(user + [nice] + [system] + [irq] + [softirq] / (CHARGED));
    USER = "core.user" "ratio" "share in user mode, niced tasks included", "/proc/stat" = each([user] + [nice] / (CHARGED));
    UNNICED = "core.unniced" "ratio" "share in user mode, niced tasks apart", "/proc/stat" = each(user / (CHARGED));
    NICED = "core.niced" "ratio" "share in user mode of niced tasks", "/proc/stat" = each(nice / (CHARGED));
    SYSTEM = "core.system" "ratio" "share in kernel mode, interrupts excluded", "/proc/stat" = each(system / (CHARGED));
    INTERRUPT = "core.interrupt" "ratio" "share in interrupts and softirqs", "/proc/stat", normal (below 0.2)
        = each([irq] + [softirq] / (CHARGED));
    STEAL = "core.steal" "ratio" "share the hypervisor gave to others while it had work", "/proc/stat" = each(steal / (CHARGED));
    IOWAIT = "core.iowait" "ratio" "share idle while a request was outstanding", "/proc/stat" = each(iowait / (CHARGED));
    IDLE = "core.unused" "ratio" "share idle, waiting for I/O excluded", "/proc/stat" = each(idle / (CHARGED));
    NOT_BUSY = "core.not_busy" "ratio" "share idle, waiting for I/O included", "/proc/stat" = each([idle] + [iowait] / (CHARGED));
    CHARGED_TIME = "core.charged" "ratio" "share of the time that was accounted to any mode", "/proc/stat" = rate((CHARGED));
    BUSY_TIME = "core.busy_time" "ratio" "share of the time in use", "/proc/stat" = rate(user + [nice] + [system] + [irq] + [softirq]);
    TASK_TIME = "core.task_time" "ratio" "share of the time in use, interrupts apart", "/proc/stat" = rate(user + [nice] + [system]);
    SYSTEM_TIME = "core.system_time" "ratio" "share of the time in kernel mode, interrupts apart", "/proc/stat" = rate(system);
    IDLE_TIME = "core.idle" "ratio" "share of the time in which it idled", "/proc/stat" = rate([idle] + [iowait]);
    INTERRUPT_TIME = "core.interrupt_time" "ratio" "share of the time in interrupts and softirqs", "/proc/stat" = rate([irq] + [softirq]);
}

/// The mean of all CPUs, where a tool prints no more.
pub mod mean {
    use crate::declare::{quantities, sum};
    use crate::expression::Sum;
    use whyslow_model::catalogue::{CpuMean, Family, FamilyInfo};

    const CPUS: &FamilyInfo = &CpuMean::INFO;
    /// Time in all modes.
    const CHARGED: Sum = sum!(CPUS[user] + [nice] + [system] + [irq] + [softirq] + [steal] + [idle] + [iowait]);

    quantities! { CpuMean;
        BUSY = "cpu.busy" "ratio" "share of the CPUs' time in use", "/proc/stat", normal "high use alone is no problem", baseline true
            = each(user + [nice] + [system] + [irq] + [softirq] / (CHARGED));
        USER = "cpu.user" "ratio" "share in user mode", "/proc/stat", normal "the work itself; vmstat counts niced work with it", baseline true
            = each([user] + [nice] / (CHARGED));
        UNNICED = "cpu.unniced" "ratio" "share in user mode, niced tasks apart", "/proc/stat" = each(user / (CHARGED));
        NICED = "cpu.nice" "ratio" "share in user mode of niced tasks", "/proc/stat" = each(nice / (CHARGED));
        SYSTEM = "cpu.system" "ratio" "share in kernel mode, interrupts excluded", "/proc/stat", normal (below 0.2 as "below 20 % of the machine"), baseline true
            = each(system / (CHARGED));
        INTERRUPT = "cpu.interrupt" "ratio" "share in interrupts and softirqs", "/proc/stat", normal (below 0.1), baseline true
            = each([irq] + [softirq] / (CHARGED));
        STEAL = "cpu.steal" "ratio" "share the hypervisor gave to others while this machine had work", "/proc/stat", normal (below 0.05), better lower, baseline true
            = each(steal / (CHARGED));
        IOWAIT = "cpu.iowait" "ratio" "share idle while a request was outstanding", "/proc/stat", normal (below 0.1, "CPUs idle while requests are outstanding"), baseline true
            = each(iowait / (CHARGED));
        NOT_BUSY = "cpu.idle" "ratio" "share idle, waiting for I/O included", "/proc/stat" = each([idle] + [iowait] / (CHARGED));
        BUSY_TIME = "cpu.busy_time" "ratio" "share of the time in use", "/proc/stat" = rate(user + [nice] + [system] + [irq] + [softirq]);
        TASK_TIME = "cpu.task_time" "ratio" "share of the time in use, interrupts apart", "/proc/stat" = rate(user + [nice] + [system]);
        SYSTEM_TIME = "cpu.system_time" "ratio" "share of the time in kernel mode, interrupts apart", "/proc/stat" = rate(system);
        IDLE_TIME = "cpu.idle_time" "ratio" "share of the time in which they idled", "/proc/stat" = rate([idle] + [iowait]);
    }
}
