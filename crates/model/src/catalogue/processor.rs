//! CPUs: time by mode, interrupts, frequency, pressure.

use super::*;
use crate::key::{MachineKey, PerCpu};

family_group! {
    /// CPU time, interrupts, frequency, pressure.
    processor: Processor

    /// CPU time by mode since boot, one row per online CPU.
    cpu: Cpu by cpu: u32, from "/proc/stat" since boot in parts {
        user: counter ns "system.cpu.time{cpu.mode=user}" "time in user mode, guests included, niced tasks not";
        nice: counter ns "system.cpu.time{cpu.mode=nice}" "time in user mode of niced tasks";
        system: counter ns "system.cpu.time{cpu.mode=system}" "time in kernel mode, interrupts not included";
        idle: counter ns "system.cpu.time{cpu.mode=idle}" "time idle with no request outstanding";
        iowait: counter ns "system.cpu.time{cpu.mode=iowait}" "time idle while a task that last ran here waited for I/O";
        irq: counter ns "system.cpu.time{cpu.mode=interrupt}" "time servicing interrupts";
        softirq: counter ns "system.cpu.time{cpu.mode=softirq}" "time servicing softirqs";
        steal: counter ns "system.cpu.time{cpu.mode=steal}" "time stolen by the hypervisor";
        guest: counter ns "system.cpu.time" "time running virtual CPUs (already within user)";
        guest_nice: counter ns "system.cpu.time" "time running niced virtual CPUs (already within nice)";
    }

    /// CPU time by mode averaged over the CPUs, if a tool does not report each.
    cpu_mean: CpuMean by host: MachineKey, from "/proc/stat (cpu)" since boot in parts only captures {
        user: counter ns "system.cpu.time{cpu.mode=user}" "time in user mode, guests included, niced tasks not";
        nice: counter ns "system.cpu.time{cpu.mode=nice}" "time in user mode of niced tasks";
        system: counter ns "system.cpu.time{cpu.mode=system}" "time in kernel mode; includes interrupts if irq is absent";
        idle: counter ns "system.cpu.time{cpu.mode=idle}" "time idle without outstanding I/O; includes iowait if that is absent";
        iowait: counter ns "system.cpu.time{cpu.mode=iowait}" "time idle while tasks waited for I/O";
        irq: counter ns "system.cpu.time{cpu.mode=interrupt}" "time servicing interrupts";
        softirq: counter ns "system.cpu.time{cpu.mode=softirq}" "time servicing softirqs";
        steal: counter ns "system.cpu.time{cpu.mode=steal}" "time stolen by the hypervisor";
    }

    /// What a logical partition of a Power machine gets of its physical CPUs (powerpc-utils: lparstat(8)).
    logical_partition: LogicalPartition by host: MachineKey, from "lparstat, /proc/ppc64/lparcfg" only captures {
        entitled: gauge count "partition.entitlement" "physical CPUs that it may always use";
        capped: gauge count "partition.capped" "1 if it never gets more than that, 0 if it may use what others leave";
        shared: gauge count "partition.shared" "1 if it shares them with other partitions";
        processors: gauge count "partition.processors" "virtual CPUs; each gets at most one physical CPU";
        used: gauge count "partition.usage" "physical CPUs that it used";
    }

    /// Counters and load of the whole machine.
    system: System by host: MachineKey, from "/proc/stat, /proc/loadavg, /proc/uptime" since boot {
        interrupts: counter count "system.interrupts" "interrupts serviced";
        context_switches: counter count "system.context_switches" "context switches";
        forks: counter count "system.processes.created" "processes and threads created";
        running: gauge count "system.processes.running" "tasks runnable or running";
        blocked: gauge count "system.processes.blocked" "tasks waiting for a block request";
        load_1m: gauge count "system.cpu.load_average.1m" "runnable and uninterruptible tasks, averaged over 1 minute";
        load_5m: gauge count "system.cpu.load_average.5m" "the same over 5 minutes";
        load_15m: gauge count "system.cpu.load_average.15m" "the same over 15 minutes";
        tasks: gauge count "system.processes.count" "number of processes and threads";
        uptime: counter ns "system.uptime" "time since boot";
    }

    /// Time tasks of the whole machine stalled for a resource (pressure stall information).
    pressure: Pressure by host: MachineKey, from "/proc/pressure" since boot {
        cpu_some: counter ns "system.psi.cpu.some" "time at least one runnable task waited for a CPU";
        memory_some: counter ns "system.psi.memory.some" "time at least one task waited for memory";
        memory_full: counter ns "system.psi.memory.full" "time all non-idle tasks waited for memory";
        io_some: counter ns "system.psi.io.some" "time at least one task waited for I/O";
        io_full: counter ns "system.psi.io.full" "time all non-idle tasks waited for I/O";
        irq_full: counter ns "system.psi.irq.full" "time tasks were held up by interrupt work";
        cpu_avg60: gauge ratio "system.psi.cpu.some.avg60" "share of time a runnable task waited for a CPU, averaged over 1 minute";
        cpu_avg300: gauge ratio "system.psi.cpu.some.avg300" "the same over 5 minutes";
        memory_avg60: gauge ratio "system.psi.memory.some.avg60" "share of time a task waited for memory, averaged over 1 minute";
        memory_avg300: gauge ratio "system.psi.memory.some.avg300" "the same over 5 minutes";
        io_avg60: gauge ratio "system.psi.io.some.avg60" "share of time a task waited for I/O, averaged over 1 minute";
        io_avg300: gauge ratio "system.psi.io.some.avg300" "the same over 5 minutes";
    }

    /// Run queue waits by CPU, traced on demand.
    run_queue: RunQueue by cpu: u32, from "BPF: sched_waking, sched_switch" {
        latency: histogram ns "system.cpu.run_queue.latency" "time from becoming runnable to running, each time";
    }

    /// Interrupts by line and CPU; rows of zeros are left out.
    irq: Irq by line: PerCpu of word, from "/proc/interrupts" {
        count: counter32 count "system.interrupts" "interrupts serviced";
        device: state text "system.interrupt.device" "the devices behind the line";
    }

    /// Interrupt lines of PCI devices (Documentation/core-api/irq/irq-affinity.rst).
    irq_line: IrqLine by line: Name of word, from "/proc/irq, /sys/bus/pci/devices/*/msi_irqs" {
        bus: state word "system.interrupt.bus" "PCI address of the device";
        cpus: state word "system.interrupt.cpus" "CPUs that it interrupts";
    }

    /// Softirqs by vector and CPU.
    softirq: Softirq by vector: PerCpu of word, from "/proc/softirqs" {
        count: counter32 count "system.softirqs" "softirqs serviced";
    }

    /// Time in softirqs by vector and CPU.
    softirq_time: SoftirqTime by vector: PerCpu of word, from "BPF: softirq_entry, softirq_exit" {
        count: counter count "system.softirqs" "softirqs timed";
        time: counter ns "system.softirq.time" "time in softirqs, excluding interrupts during that time";
    }

    /// Time in interrupt handlers by line and CPU.
    irq_time: IrqTime by line: PerCpu of word, from "BPF: irq_handler_entry, irq_handler_exit" {
        count: counter count "system.interrupts" "interrupts timed";
        time: counter ns "system.interrupt.time" "time in their handlers";
    }

    /// Packet backlog work by CPU.
    softnet: Softnet by cpu: u32, from "/proc/net/softnet_stat" since boot {
        processed: counter32 count "system.softnet.processed" "packets taken from the backlog or polled";
        dropped: counter32 count "system.softnet.dropped" "packets dropped because the backlog was full";
        squeezed: counter32 count "system.softnet.squeezed" "times the budget or time ran out with work left";
        received_rps: counter32 count "system.softnet.received_rps" "times woken by another CPU to process packets (RPS)";
        flow_limited: counter32 count "system.softnet.flow_limited" "packets dropped by the flow limit";
    }

    /// Clock frequency and its limits by CPU.
    frequency: Frequency by cpu: u32, from "/sys/devices/system/cpu/cpu*/cpufreq, /sys/devices/system/cpu/cpu*/thermal_throttle" {
        current: gauge hz "system.cpu.frequency" "frequency now";
        limit: gauge hz "system.cpu.frequency.limit" "highest frequency the governor's policy allows";
        hardware_max: gauge hz "system.cpu.frequency.max" "highest frequency the hardware has";
        hardware_min: gauge hz "system.cpu.frequency.min" "lowest frequency the hardware has";
        governor: state word "system.cpu.governor" "the frequency governor";
        busy: gauge hz "system.cpu.frequency.busy" "mean frequency while it was not idle" only captures;
        base: gauge hz "system.cpu.frequency.base" "base frequency: that of the time stamp counter" only captures;
        busy_share: gauge ratio "system.cpu.frequency.busy_share" "share of the time in which it was not idle" only captures;
        core_throttles: counter count "system.cpu.throttles.core" "times the core was throttled for heat";
        package_throttles: counter count "system.cpu.throttles.package" "times the package was throttled for heat";
    }

    /// What the firmware of a Raspberry Pi reports of power and heat.
    board: Board by host: MachineKey, from "vcgencmd" only captures {
        under_voltage: gauge count "hw.power.under_voltage" "1 if the supply voltage is too low";
        capped: gauge count "hw.cpu.capped" "1 if the clock frequency is capped";
        throttled: gauge count "hw.cpu.throttled" "1 if the CPU is throttled";
        soft_limit: gauge count "hw.cpu.soft_limit" "1 if the soft limit of the temperature is in force";
        had_under_voltage: gauge count "hw.power.under_voltage.since_boot" "1 if the supply voltage was too low since boot";
        had_throttling: gauge count "hw.cpu.throttled.since_boot" "1 if the frequency was capped or the CPU throttled since boot";
    }

    /// Temperature by thermal zone.
    thermal: Thermal by zone: Name of word, from "/sys/class/thermal" {
        temperature: gauge celsius "hw.temperature" "temperature now";
        kind: state word "hw.name" "what the zone measures";
    }
}

use crate::value::Name;
