//! Quantities of the machine's pressure stall information (Documentation/accounting/psi.rst): the share of the time in which
//! tasks waited for a resource.
//!
//! A late sample may give slightly more than all of the time.

use crate::declare::quantities;
use whyslow_model::catalogue::Pressure;

quantities! { Pressure;
    CPU = "pressure.cpu" "ratio" "share of the time in which a runnable task waited for a CPU", "/proc/pressure/cpu" = rate(cpu_some) at most 1.0;
    MEMORY = "pressure.memory" "ratio" "share of the time in which a task waited for memory", "/proc/pressure/memory"
        = rate(memory_some) at most 1.0;
    IO = "pressure.io" "ratio" "share of the time in which a task waited for I/O", "/proc/pressure/io" = rate(io_some) at most 1.0;
    MEMORY_FULL = "pressure.memory_full" "ratio" "share of the time in which all tasks that were not idle waited for memory", "/proc/pressure/memory"
        = rate(memory_full) at most 1.0;
    IO_FULL = "pressure.io_full" "ratio" "share of the time in which all tasks that were not idle waited for I/O", "/proc/pressure/io"
        = rate(io_full) at most 1.0;
    IRQ_FULL = "pressure.irq_full" "ratio" "share of the time in which interrupts held tasks up", "/proc/pressure/irq"
        = rate(irq_full) at most 1.0;
}
