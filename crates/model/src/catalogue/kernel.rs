//! The machine, its limits and settings, the kernel's log, and the observer itself.

use super::*;
use crate::key::{InventoryKey, MachineKey};
use crate::value::Name;

family_group! {
    /// The state of the kernel as a whole.
    kernel: KernelTables

    /// The identity of the machine.
    machine: MachineInfo by host: MachineKey, from "/proc/sys/kernel, /sys/devices/system/cpu, /sys/class/dmi, /proc/cpuinfo" {
        name: state host "host.name" "host name";
        release: state word "os.version" "kernel release";
        boot: state id "host.boot_id" "identity of this boot";
        processors: gauge count "system.cpu.logical.count" "CPUs online";
        page_size: gauge bytes "system.memory.page_size" "bytes of one page of memory";
        virtualization: state word "host.virtualization" "none, or the hypervisor's name";
        product: state word "hw.model" "manufacturer and model of the machine, as reported by the firmware";
        firmware: state word "hw.firmware_version" "maker, version and date of the firmware";
        processor: state word "host.cpu.model.name" "name of the CPUs";
        microcode: state word "host.cpu.microcode" "version of their microcode";
        architecture: state word "host.arch" "architecture of the CPUs";
        kvm: gauge count "host.kvm" "1 if it can run guests on its CPUs (/dev/kvm)";
        clock_source: state word "system.clocksource" "clock source in use";
        clock_sources: state word "system.clocksource.available" "clock sources there are";
    }

    /// PCIe links: their state, and what their devices and the ports above them support.
    pcie_link: PcieLink by device: Name of word, from "/sys/bus/pci/devices, lspci -vv" {
        what: state word "hw.pcie.device" "class, vendor and model of the device";
        speed: gauge count "hw.pcie.speed" "transfers per second and lane";
        max_speed: gauge count "hw.pcie.max_speed" "transfers per second and lane that the device supports";
        port_speed: gauge count "hw.pcie.port_speed" "transfers per second and lane that the port above it supports";
        width: gauge count "hw.pcie.width" "lanes in use";
        max_width: gauge count "hw.pcie.max_width" "lanes that the device has";
        port_width: gauge count "hw.pcie.port_width" "lanes that the port above it has";
    }

    /// Parts of PCI devices that act as devices of their own (SR-IOV, Documentation/PCI/pci-iov-howto.rst), which a virtual machine can be
    /// given.
    virtual_function: VirtualFunction by device: Name of word, from "/sys/bus/pci/devices" {
        part_of: state word "hw.pci.physical_function" "the PCI address of the device that it is a part of";
    }

    /// USB devices: the speed at which they are connected, and that of the hubs above them.
    usb_link: UsbLink by device: Name of word, from "lsusb -t" only captures {
        what: state word "hw.usb.device" "class and driver of the device";
        speed: gauge bps "hw.usb.speed" "speed of the connection";
        hub_speed: gauge bps "hw.usb.hub_speed" "speed of the hub above it";
        fastest: gauge bps "hw.usb.fastest" "speed of the fastest bus of the machine";
    }

    /// Counts against the kernel's limits.
    limits: Limits by host: MachineKey, from "/proc/sys/fs, /proc/sys/kernel" {
        files: gauge count "system.limit.files" "open files on the whole machine";
        files_max: gauge count "system.limit.files_max" "maximum number of open files (fs.file-max)";
        inodes: gauge count "system.limit.inodes" "inodes in memory";
        open_files_max: gauge count "system.limit.nr_open" "the maximum of a process's limit (fs.nr_open)";
        pid_max: gauge count "system.limit.pid_max" "process numbers there are";
        threads_max: gauge count "system.limit.threads_max" "threads there can be";
        map_count_max: gauge count "system.limit.map_count" "mappings a process can have";
        aio: gauge count "system.limit.aio" "asynchronous requests promised";
        aio_max: gauge count "system.limit.aio_max" "maximum number of asynchronous requests";
    }

    /// System V and POSIX shared memory, semaphores and queues against their limits (sysvipc(7)).
    ipc: Ipc by host: MachineKey, from "/proc/sysvipc, /proc/sys/kernel" {
        shm_segments: gauge count "system.ipc.shm_segments" "shared memory segments";
        shm_segments_max: gauge count "system.ipc.shmmni" "segments there can be (kernel.shmmni)";
        shm_bytes: gauge bytes "system.ipc.shm_bytes" "shared memory of all segments, each rounded up to pages";
        shm_bytes_max: gauge bytes "system.ipc.shmall" "shared memory there can be (kernel.shmall x page size)";
        shm_segment_max: gauge bytes "system.ipc.shmmax" "largest segment (kernel.shmmax)";
        shm_largest: gauge bytes "system.ipc.shm_largest" "largest segment there is";
        shm_creator: gauge count "system.ipc.shm_creator" "the process that created the most of it";
        sem_arrays: gauge count "system.ipc.sem_arrays" "semaphore arrays";
        sem_arrays_max: gauge count "system.ipc.semmni" "semaphore arrays there can be";
        semaphores: gauge count "system.ipc.semaphores" "semaphores";
        semaphores_max: gauge count "system.ipc.semmns" "semaphores there can be";
        msg_queues: gauge count "system.ipc.msg_queues" "message queues";
        msg_queues_max: gauge count "system.ipc.msgmni" "message queues there can be";
    }

    /// Settings that matter for a diagnosis, by their sysctl name.
    setting: Setting by name: Name of text, from "/proc/sys" {
        value: state text "system.sysctl" "the setting's value";
    }

    /// Hardware, firmware, kernel, settings, limits and packages. All rows are in one sample: when recording began, and once an hour.
    inventory: InventoryItem by thing: InventoryKey of word item, from "/proc/sys, /proc/cmdline, /sys, the package database" as events {
        value: state text "whyslow.inventory.value" "its version or value";
    }

    /// What changed in the inventory, and units that were restarted.
    change: InventoryChange by thing: InventoryKey of word item, from "/proc/sys, /proc/cmdline, /sys, the package database" as events {
        old: state text "whyslow.change.old" "its value before; none if it was added, or if a unit was restarted";
        new: state text "whyslow.change.new" "its value since; none if it was removed, and `restarted` for a unit";
        time: counter ns "whyslow.change.time" "when it changed, since 1970; if that is not known, it was seen in this sample";
    }

    /// Lines the kernel logged during the observation (Documentation/ABI/testing/dev-kmsg).
    log: LogLine by sequence: u64, from "/dev/kmsg" as events {
        level: gauge count "log.severity" "0 emergency to 7 debug";
        time: counter ns "log.time" "time since boot";
        printed: state word "log.time_printed" "the time as a log file prints it, often without a year" only captures;
        text: state log "log.body" "the line";
        clock: gauge ns "whyslow.log.clock" "the time printed in a log file, on a clock shared by its lines" only captures;
        repeated: gauge count "whyslow.log.repeated" "similar lines before it that were not kept" only captures;
    }

    /// A kernel log as a whole, if it was read from files. Never read live.
    log_read: LogRead by file: Name of path, from "/dev/kmsg" only captures {
        lines: gauge count "whyslow.log.lines" "lines read";
        span: gauge ns "whyslow.log.span" "from its first line to its last";
    }

    /// The sample itself, in a recording.
    sample: Sample by host: MachineKey, from "whyslow record" as events {
        clock: counter ns "whyslow.sample.clock" "time since boot at its start, suspend included (CLOCK_BOOTTIME)";
        missed: gauge count "whyslow.sample.missed" "samples due since the previous one that were not taken or not kept";
        event: state text "whyslow.sample.event" "what happened to the recording since the previous sample";
    }

    /// A window of a recording that the recorder judged by the rules. What it found is in `finding`, in the same sample.
    judgement: Judgement by host: MachineKey, from "whyslow record" as events {
        start: counter ns "whyslow.judgement.start" "when the window began, since 1970";
        end: counter ns "whyslow.judgement.end" "when the window ended, since 1970";
        rules: state word "whyslow.judgement.rules" "fingerprint of the rules it was judged by";
    }

    /// Causes of lost time that the recorder found in the window of `judgement`.
    finding: RecordedFinding by key: Name of finding_key, from "whyslow record" as events {
        id: state word "whyslow.finding.id" "what was found";
        kind: state word "whyslow.finding.subject.kind" "what kind of thing it was found on";
        subject: state subject "whyslow.finding.subject.name" "the thing it was found on";
        pid: gauge count "process.pid" "its process number";
        tid: gauge count "thread.id" "its thread number";
        netns: state namespace "whyslow.finding.subject.netns" "its network namespace";
        impact: gauge ratio "whyslow.finding.impact" "the share of the window that it cost";
        confidence: state word "whyslow.finding.confidence" "how certain it was: low, medium or high";
        culprit: state process "whyslow.finding.culprit" "the largest consumer of the resource, if that is known";
    }

    /// The cost of observing.
    observer: Observer by host: MachineKey, from "getrusage(2)" {
        cpu_time: counter ns "process.cpu.time" "CPU time of whyslow";
        rss: gauge bytes "process.memory.usage" "its resident memory";
        pid: gauge count "process.pid" "its process number";
    }
}
