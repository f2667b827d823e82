//! Charts of CPUs and pressure.

use super::declare::chart_table;
use whyslow_model::catalogue::{
    Cpu, CpuMean, Frequency, Irq, Pressure, RunQueue, SoftirqTime, Softnet, System, Thermal,
};
use whyslow_quantities::{cpu, interrupt, pressure, system};

chart_table! {
    "cpu.modes" "CPU time by mode" in "1" "Share of the time of all CPUs in each mode; idle time is not drawn.";
    Stacked; shows "cpu.busy" "cpu.user" "cpu.nice" "cpu.system" "cpu.steal" "cpu.iowait" "cpu.interrupt" "cpu.idle";
    Cpu, Sum {
        "user": of(cpu::UNNICED);
        "nice": of(cpu::NICED);
        "system": of(cpu::SYSTEM);
        "interrupts": of(cpu::INTERRUPT);
        "steal": of(cpu::STEAL);
        "iowait": of(cpu::IOWAIT);
    }
    CpuMean, Machine {
        "user": of(cpu::mean::UNNICED);
        "nice": of(cpu::mean::NICED);
        "system": of(cpu::mean::SYSTEM);
        "interrupts": of(cpu::mean::INTERRUPT);
        "steal": of(cpu::mean::STEAL);
        "iowait": of(cpu::mean::IOWAIT);
    }

    "cpu.busy" "Busy time by CPU" in "1" "Share of its time that a CPU worked: steal time is not part of it.";
    Lines; shows "core.busy" "core.idle" "core.kernel" "core.others_idle" "cpu.idle_processors" "cpu.idle_spread";
    Cpu, TopCpus(8) {
        "": of(cpu::BUSY);
    }

    "cpu.interrupt_time" "Interrupt time by CPU" in "1" "Share of the time in which a CPU served interrupts and softirqs.";
    Lines "only if any"; shows "core.interrupt" "core.interrupt_most" "cpu.most_interrupt" "cpu.interrupt";
    Cpu, TopCpus(8) { "": of(cpu::INTERRUPT); }

    "cpu.tasks" "Runnable and blocked tasks" in "count" "Tasks that run or wait for a CPU, and tasks that wait for storage, at each sample.";
    Lines; shows "cpu.runnable" "cpu.waiting" "cpu.runnable_share" "cpu.waiting_share" "cpu.waiting_at_least" "cpu.waiting_cores" "cpu.kept_waiting" "cpu.waiting_normal";
    System, Machine { "runnable": level(running); "blocked": level(blocked); }

    "cpu.load" "Load average" in "count" "Runnable and uninterruptible tasks, averaged by the kernel over 1, 5 and 15 minutes.";
    Lines; shows "cpu.load_1m";
    System, Machine { "1 min": level(load_1m); "5 min": level(load_5m); "15 min": level(load_15m); }

    "cpu.switches" "Context switches and interrupts" in "1/s" "Switches from one task to another, and interrupts served, on all CPUs.";
    Lines; shows "cpu.switches";
    System, Machine { "context switches": of(system::SWITCHES); "interrupts": of(system::INTERRUPTS); }

    "cpu.forks" "Processes and threads created" in "1/s" "Processes and threads started on the whole machine.";
    Lines "only if any"; shows "cpu.forks";
    System, Machine { "": of(system::FORKS); }

    "cpu.interrupts" "Interrupts by line" in "1/s" "Interrupts of the busiest lines, on all CPUs.";
    Lines "only if any"; shows "irq.busiest_rate" "core.line_rate" "irq.nic_share";
    Irq, TopLines(6 by device) { "": of(interrupt::line::RATE); }

    "cpu.softirq_time" "Time in softirqs" in "count" "CPU time in softirqs, as a number of CPUs.";
    Lines "only if any"; shows "core.softirq_time" "core.vector_rate";
    SoftirqTime, TopNames(6) { "": of(interrupt::softirq::CPU); }

    "cpu.softnet" "Packet backlog" in "1/s" "Packets dropped because a CPU's backlog was full, and times it ran out of budget with packets left.";
    Lines "only if any"; shows "core.dropped" "core.drop_share" "core.backlog_drops" "core.squeezed";
    Softnet, Sum { "dropped": of(interrupt::softnet::DROPS); "squeezed": of(interrupt::softnet::SQUEEZES); }

    "cpu.frequency" "Clock frequency" in "Hz" "Frequency of each CPU at each sample.";
    Lines; shows "cpu.clock_share" "cpu.clock_busy" "cpu.slowest_share" "cpu.policy_share";
    Frequency, TopCpus(8) { "": level(current); }

    "cpu.temperature" "Temperature" in "Cel" "Temperature of the thermal zones.";
    Lines; shows "cpu.temperature" "cpu.heat_throttles" "cpu.heat_throttle_rate";
    Thermal, Top(6) { "": level(temperature); }

    "cpu.run_queue_latency" "Run queue latency" in "s" "How long tasks waited for a CPU each time, traced on demand.";
    Heat; shows "cpu.run_queue_median" "cpu.run_queue_p99" "core.run_queue_median" "core.run_queue_p99";
    RunQueue, Sum { "": values(latency); }

    "pressure.some" "Pressure" in "1" "Share of the time in which at least one task waited for the resource (pressure stall information).";
    Lines; shows "stall.cpu" "stall.memory" "stall.io" "stall.cpu_minute" "stall.memory_minute" "stall.io_minute" "mem.wait" "mem.waited";
    Pressure, Machine { "CPU": of(pressure::CPU); "memory": of(pressure::MEMORY); "I/O": of(pressure::IO); }

    "pressure.full" "Full pressure" in "1" "Share of the time in which all tasks that were not idle waited for the resource.";
    Lines; shows "stall.memory_full" "stall.io_full";
    Pressure, Machine { "memory": of(pressure::MEMORY_FULL); "I/O": of(pressure::IO_FULL); "interrupts": of(pressure::IRQ_FULL); }
}
