//! Virtual machines on this host.

use super::*;
use crate::key::{GuestDevice, TaskKey};

family_group! {
    /// Virtual machines that run on this one. Each is a process of QEMU.
    guest: GuestTables

    /// Virtual machines and their settings.
    guest: Guest by task: TaskKey, from "/proc/PID/cmdline, /proc/PID/fd, QMP" {
        name: state host "guest.name" "its name (-name)";
        uuid: state id "guest.uuid" "its UUID";
        architecture: state word "guest.architecture" "the architecture of its CPUs";
        accelerator: state word "guest.accelerator" "kvm: on the CPUs themselves; tcg: emulated";
        machine: state word "guest.machine" "type of the machine";
        cpu_model: state word "guest.cpu.model" "model of its CPUs";
        cpus: gauge count "guest.cpu.count" "virtual CPUs at the start";
        memory: gauge bytes "guest.memory.limit" "memory at the start (-m)";
        memory_backing: state word "guest.memory.backing" "hugetlb: reserved huge pages; anonymous, memfd or file: pages as the kernel has them";
        memory_nodes: state word "guest.memory.nodes" "the NUMA nodes of the host that its memory is bound to";
        io_threads: gauge count "guest.io_threads" "threads for disks (-object iothread)";
        memory_now: gauge bytes "guest.memory.usage" "memory that its balloon leaves it now (QMP query-balloon)";
        balloon: gauge count "guest.balloon" "1 if it has a balloon, by which the host can take memory back";
        passed_through: state word "guest.passed_through" "PCI devices of the host that it uses directly (VFIO), separated by blanks";
    }

    /// What the balloon drivers of virtual machines report, if QEMU asks them to. Read on demand.
    guest_memory: GuestMemory by guest: TaskKey, from "QMP qom-get guest-stats" since creation {
        usable: gauge bytes "guest.memory.available" "memory that its programs could use without making it swap";
        resident: gauge bytes "guest.memory.resident" "memory of QEMU in the host's memory" only captures;
        swapped_in: counter bytes "guest.paging.in" "bytes that it read from its swap space";
    }

    /// The virtual CPUs of virtual machines, as far as their threads can be recognised.
    guest_cpu: GuestCpu by thread: TaskKey, from "/proc/PID/task/TID/comm, /proc/PID/task/TID/status, QMP" {
        number: gauge count "guest.cpu.number" "which of its virtual CPUs it is";
        cpus: state word "guest.cpu.affinity" "the CPUs of the host that it may run on";
    }

    /// Disks of virtual machines.
    guest_disk: GuestDisk by disk: GuestDevice of id, from "/proc/PID/cmdline, QMP, /run/libvirt/qemu" {
        model: state word "guest.disk.model" "the device that the guest sees";
        controller: state word "guest.disk.controller" "the controller it is attached to";
        file: state path "guest.disk.file" "the image or device behind it";
        format: state word "guest.disk.format" "format of the image";
        cache: state word "guest.disk.cache" "cache mode: none, writeback, writethrough, directsync or unsafe";
        aio: state word "guest.disk.aio" "how requests are passed to the kernel: threads, native or io_uring";
        discard: state word "guest.disk.discard" "whether discards reach the image: unmap or ignore";
        detect_zeroes: state word "guest.disk.detect_zeroes" "whether written zeros are turned into holes";
        io_thread: state word "guest.disk.io_thread" "threads that serve it; without one the main loop does";
        queues: gauge count "guest.disk.queues" "queues (num-queues), if given";
        serial: state id "guest.disk.serial" "its serial number, as the guest sees it";
        wwn: state id "guest.disk.wwn" "its world wide name, as the guest sees it";
        read_only: gauge count "guest.disk.read_only" "1 if it cannot be written";
        limit_group: state id "guest.disk.limit.group" "the disks that name the same group share their limits";
        limit_operations: gauge count "guest.disk.limit.operations" "requests a second that QEMU lets through";
        limit_reads: gauge count "guest.disk.limit.operations{disk.io.direction=read}" "reads a second that QEMU lets through";
        limit_writes: gauge count "guest.disk.limit.operations{disk.io.direction=write}" "writes a second that QEMU lets through";
        limit_bytes: gauge bytes "guest.disk.limit.bytes" "bytes a second that QEMU lets through";
        limit_read_bytes: gauge bytes "guest.disk.limit.bytes{disk.io.direction=read}" "bytes a second that QEMU lets be read";
        limit_write_bytes: gauge bytes "guest.disk.limit.bytes{disk.io.direction=write}" "bytes a second that QEMU lets be written";
        host_device: state device "guest.disk.host_device" "the block device of the host that it is, or that the file system of its image is on";
    }

    /// What the guests moved to and from their disks, as they see it: the time in the queues of QEMU's own limits included. Read on demand.
    guest_disk_io: GuestDiskIo by disk: GuestDevice of id, from "QMP query-blockstats" {
        reads: counter count "guest.disk.operations{disk.io.direction=read}" "reads completed";
        writes: counter count "guest.disk.operations{disk.io.direction=write}" "writes completed";
        flushes: counter count "guest.disk.flushes" "flushes completed";
        read_bytes: counter bytes "guest.disk.bytes{disk.io.direction=read}" "bytes read";
        write_bytes: counter bytes "guest.disk.bytes{disk.io.direction=write}" "bytes written";
        read_time: counter ns "guest.disk.operation_time{disk.io.direction=read}" "time that reads took, summed";
        write_time: counter ns "guest.disk.operation_time{disk.io.direction=write}" "time that writes took, summed";
        flush_time: counter ns "guest.disk.flush_time" "time that flushes took, summed";
    }

    /// Network cards of virtual machines.
    guest_nic: GuestNic by card: GuestDevice of id, from "/proc/PID/cmdline, /proc/PID/fdinfo" {
        model: state word "guest.network.model" "the card that the guest sees";
        backend: state word "guest.network.backend" "what it is connected to: tap, user, vhost-user, ...";
        vhost: gauge count "guest.network.vhost" "1 if the kernel moves its packets (vhost), 0 if QEMU does";
        queues: gauge count "guest.network.queues" "pairs of queues";
        mac: state id "guest.network.mac" "its MAC address";
        interface: state interface "guest.network.interface" "the tap interface of the host";
    }
}
