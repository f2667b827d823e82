//! Block devices: requests, queue settings, stacking, mounts, arrays.

use super::*;
use crate::key::{DepthKey, LinkKey, MountTask, OperationKey, RequesterKey, ResponseKey, TaskKey};
use crate::value::Name;

family_group! {
    /// Storage from the device to the mount.
    block: BlockTables

    /// Requests by block device and partition (Documentation/admin-guide/iostats.rst).
    disk: Disk by device: Name of device, from "/proc/diskstats" since boot {
        reads: counter count "system.disk.operations{disk.io.direction=read}" "reads completed";
        reads_merged: counter count "system.disk.merged{disk.io.direction=read}" "reads merged into another before they were issued";
        read_bytes: counter bytes "system.disk.io{disk.io.direction=read}" "bytes read";
        read_time: counter32_ms ns "system.disk.operation_time{disk.io.direction=read}" "time all reads took, summed, queue included";
        writes: counter count "system.disk.operations{disk.io.direction=write}" "writes completed";
        writes_merged: counter count "system.disk.merged{disk.io.direction=write}" "writes merged";
        write_bytes: counter bytes "system.disk.io{disk.io.direction=write}" "bytes written";
        write_time: counter32_ms ns "system.disk.operation_time{disk.io.direction=write}" "time all writes took, summed, queue included";
        in_flight: gauge count "system.disk.in_flight" "requests outstanding now";
        busy_time: counter32_ms ns "system.disk.io_time" "time with at least one request outstanding";
        weighted_time: counter32_ms ns "system.disk.weighted_io_time" "requests outstanding x time";
        discards: counter count "system.disk.discards" "discards completed";
        discards_merged: counter count "system.disk.discards_merged" "discards merged";
        discard_bytes: counter bytes "system.disk.discard_io" "bytes discarded";
        discard_time: counter32_ms ns "system.disk.discard_time" "time all discards took, summed";
        flushes: counter count "system.disk.flushes" "flush requests completed";
        flush_time: counter32_ms ns "system.disk.flush_time" "time all flushes took, summed";
        transfers: counter count "system.disk.operations" "reads and writes completed, from tools that report only their sum" only captures;
        transfer_time: counter ns "system.disk.operation_time" "total time of all reads and writes, from tools that report only their sum" only captures;
        service_time: gauge ns "system.disk.service_time" "service time per request as computed by a tool (iostat's svctm)" only captures;
        number: state word "system.device.number" "major:minor";
        identity: identity word "system.device.sequence_number" "sequence number of the disk, unique within this boot (diskseq); absent for partitions";
    }

    /// Requests by device and operation, traced one by one (include/trace/events/block.h). At thousands per second only a
    /// sample is traced, and each stands for several; family `disk` counts all of them.
    request: Request by operation: OperationKey of device word, from "BPF: block_rq_insert, block_rq_issue, block_rq_requeue, block_rq_complete, block_split" {
        requests: counter count "system.disk.operations" "requests completed";
        bytes: counter bytes "system.disk.io" "bytes of those requests";
        queue_time: histogram ns "system.disk.queue_time" "time from the making of a request until the device got it";
        device_time: histogram ns "system.disk.device_time" "time from then until the device had done it";
        size: histogram bytes "system.disk.request_size" "bytes of a request";
        sequential: counter count "system.disk.sequential" "requests that start where a recent one ended";
        read_ahead: counter count "system.disk.read_ahead_operations" "requests made by read-ahead";
        forced: counter count "system.disk.fua" "writes that must reach the medium, not only the device's cache (FUA)";
        splits: counter count "system.disk.splits" "times a request was split because it exceeded the device's limit or crossed a stripe boundary";
        depth_requests: counter count "system.disk.depth.operations" "requests for which the number in flight on arrival at the device is known";
        depth: counter count "system.disk.depth.in_flight" "requests in flight at each issue, the request itself included, summed";
        depth_squared: counter count "system.disk.depth.in_flight_squared" "squares of those numbers, summed";
        depth_device_time: counter ns "system.disk.depth.device_time" "time in the device, summed";
        depth_x_device_time: counter count "system.disk.depth.product" "requests in flight x microseconds in the device, summed";
    }

    /// What a device completes by the number of requests it has in flight. Its busy time is cut into slices of many requests, and
    /// each counts for the number nearest to its mean. At thousands per second only a part of the time is traced.
    throughput: Throughput by level: DepthKey of device, from "BPF: block_rq_issue, block_rq_requeue, block_rq_complete" {
        busy_time: counter ns "system.disk.throughput.busy_time" "time with about so many reads and writes in flight";
        in_flight_time: counter ns "system.disk.throughput.in_flight_time" "requests in flight x that time";
        requests: counter count "system.disk.throughput.operations" "reads and writes completed in that time";
        bytes: counter bytes "system.disk.throughput.io" "bytes of those";
    }

    /// How long requests take in the device, by operation, size, access and requests in flight; only classes that occurred.
    response: Response by class: ResponseKey of device word word, from "BPF: block_rq_issue, block_rq_complete" {
        requests: counter count "system.disk.response.operations" "requests";
        bytes: counter bytes "system.disk.response.io" "bytes of those requests";
        device_time: counter ns "system.disk.response.device_time" "time in the device, summed";
    }

    /// Processes that issue block requests; sampled requests stand for the others.
    requester: Requester by user: RequesterKey of device word cgroup, from "BPF: block_rq_insert, block_rq_issue, block_rq_complete" {
        command: state process "process.command" "the name of the process";
        requests: counter count "process.disk.operations" "requests";
        bytes: counter bytes "process.disk.request_io" "bytes of those requests";
        queue_time: counter ns "process.disk.queue_time" "time in the queue, summed";
        device_time: counter ns "process.disk.device_time" "time in the device, summed";
    }

    /// Page cache use by process (include/trace/events/filemap.h, readahead.h, writeback.h).
    page_cache: PageCache by task: TaskKey, from "BPF: mm_filemap_get_pages, page_cache_sync_ra, page_cache_async_ra, ..." {
        command: state process "process.command" "the name of the process";
        lookups: counter count "process.page_cache.lookups" "page cache lookups by read calls";
        misses: counter count "process.page_cache.misses" "lookups by read calls or page faults that missed";
        read_ahead_hits: counter count "process.page_cache.read_ahead_hits" "times it reached a page that had been read ahead, which triggered the next read-ahead";
        faults: counter count "process.page_cache.faults" "page faults on mapped files that the cache could not satisfy at once";
        faults_cached: counter count "process.page_cache.faults_cached" "page faults on mapped files for which pages were in the cache";
        written_back: counter bytes "process.page_cache.written_back" "bytes written back by the kernel for files that this process wrote last";
    }

    /// A device's queue and geometry (Documentation/ABI/stable/sysfs-block).
    queue: Queue by device: Name of device, from "/sys/block/*/queue, /sys/block/*/device, /sys/block/*/mq, /sys/block/*/size, /sys/class/scsi_host, ata_link, sas_phy, fc_host" {
        scheduler: state word "system.disk.scheduler" "the I/O scheduler in force";
        rotational: gauge count "system.disk.rotational" "1 for a spinning disk";
        nr_requests: gauge count "system.disk.nr_requests" "requests the queue holds";
        max_request: gauge bytes "system.disk.max_request" "largest request in force (max_sectors_kb)";
        max_hw_request: gauge bytes "system.disk.max_hw_request" "largest request the hardware takes (max_hw_sectors_kb)";
        read_ahead: gauge bytes "system.disk.read_ahead" "read-ahead (read_ahead_kb)";
        logical_block: gauge bytes "system.disk.logical_block" "smallest addressable unit";
        physical_block: gauge bytes "system.disk.physical_block" "smallest unit written without read-modify-write";
        minimum_io: gauge bytes "system.disk.minimum_io" "preferred smallest request";
        optimal_io: gauge bytes "system.disk.optimal_io" "preferred request size; 0 if the device reports none";
        alignment_offset: gauge bytes "system.disk.alignment_offset" "bytes by which the start is off the device's natural alignment";
        write_cache: state word "system.disk.write_cache" "write back or write through";
        wbt_latency: gauge ns "system.disk.wbt_latency" "write-back throttling's target; 0 is off";
        hardware_queues: gauge count "system.disk.hardware_queues" "hardware queues (entries of mq)";
        device_depth: gauge count "system.disk.queue_depth" "commands the device takes at once (device/queue_depth)";
        size: gauge bytes "system.disk.limit" "capacity";
        model: state word "system.disk.model" "vendor and model";
        serial: state id "system.disk.serial" "serial number";
        wwn: state id "system.disk.wwn" "world wide name, in hexadecimal digits: the part behind naa. or eui.";
        firmware: state word "system.disk.firmware" "firmware revision";
        state: state word "system.disk.state" "running, blocked, transport-offline or offline, for SCSI devices; live, connecting, resetting or dead, for NVMe";
        address: state word "system.disk.scsi_address" "host:channel:target:lun, for SCSI devices";
        max_segments: gauge count "system.disk.max_segments" "pieces of memory that a request may consist of";
        chunk: gauge bytes "system.disk.chunk" "requests that cross a multiple of this are split (chunk_sectors): a stripe, a zone; 0 if there is none";
        bus: state word "system.disk.bus" "PCI address of the device or its adapter";
        adapter: state word "system.disk.adapter" "the adapter: host0, nvme0, virtio1";
        driver: state word "system.disk.driver" "the driver of the adapter";
        transport: state word "system.disk.transport" "how the device is attached: ata, sas, fc, iscsi, usb, virtio, nvme over pcie, tcp, ...";
        adapter_depth: gauge count "system.disk.adapter_depth" "commands the adapter takes at once, for all its devices (can_queue)";
        numa_node: gauge count "system.disk.numa_node" "NUMA node of the adapter";
        link_speed: gauge bps "system.disk.link_speed" "negotiated speed of the link to the device (SATA, SAS, Fibre Channel, USB)";
        rotation_rate: gauge count "system.disk.rotation_rate" "revolutions per minute; 1 if the medium does not rotate";
    }

    /// Commands of a SCSI disk: also ATA, USB, iSCSI and Fibre Channel (drivers/scsi/scsi_sysfs.c).
    scsi: ScsiDisk by device: Name of device, from "/sys/block/*/device/device_busy, iodone_cnt, ioerr_cnt, iotmo_cnt, /sys/class/scsi_host/*/state" since creation {
        completed: counter32 count "system.disk.commands" "commands that the device completed";
        failed: counter32 count "system.disk.commands.failed" "of those, commands that failed or were refused";
        timeouts: counter32 count "system.disk.commands.timeouts" "commands that it did not answer in time, which the kernel then aborts and usually retries; absent where the kernel does not count them";
        in_flight: gauge count "system.disk.commands.in_flight" "commands that were sent to the device and are not finished: also those that wait for the error handler";
        recovering: gauge count "system.disk.adapter_recovering" "1 while the kernel's error handler is busy with its adapter, which gets no new commands meanwhile";
    }

    /// What a drive reports about its own health (ATA SMART attributes, NVMe log page 02h, SCSI log pages).
    drive: Drive by device: Name of device, from "smartctl, nvme smart-log, zpool status, btrfs device stats, ceph status" only captures {
        failing: gauge count "system.disk.health.failing" "1 if the drive assesses itself as failing, or its spare blocks as used up";
        unreadable: gauge count "system.disk.health.unreadable" "sectors it could not read and has not replaced";
        reallocated: gauge count "system.disk.health.reallocated" "sectors it has replaced by spare ones";
        media_errors: gauge count "system.disk.health.media_errors" "requests whose data it could not read or write, over its lifetime";
        wear: gauge ratio "system.disk.health.wear" "rated endurance used up; may exceed 1";
        io_errors: gauge count "system.disk.health.io_errors" "reads and writes that failed, as the file system counted";
        checksum_errors: gauge count "system.disk.health.checksum_errors" "blocks whose checksum was wrong, as the file system counted";
        failed_tests: gauge count "hw.disk.failed_self_tests" "self-tests that failed, as the drive logged";
        blocked_for: gauge ns "system.disk.blocked_for" "how long the oldest request to the daemon of a Ceph disk has taken";
        logged_errors: gauge count "hw.disk.logged_errors" "errors in the drive's own log";
    }

    /// How devices are stacked: a partition on a disk, a loop device on a file system, dm and md on their members.
    layer: Layer by link: LinkKey of device device, from "/sys/block" {
        kind: state word "system.device.relation" "partition, loop, dm, md, nvme (a path) or zram";
        file: state path "system.device.file" "the backing file of a loop device";
        offset: gauge bytes "system.device.offset" "where a loop device begins in its file";
        direct: gauge count "system.device.direct" "1 if a loop device bypasses the page cache of the file system below";
    }

    /// Devices of the device mapper (Documentation/admin-guide/device-mapper): logical volumes, encryption, multipath.
    mapped: MappedDevice by device: Name of device, from "/sys/block/dm-*/dm, /dev/mapper/control" {
        name: state volume "system.device.mapped.name" "its name under /dev/mapper";
        uuid: state uuid "system.device.mapped.uuid" "its UUID, which begins with what made it: LVM-, CRYPT-, mpath-";
        target: state word "system.device.mapped.target" "what it does with requests: linear, striped, crypt, ...; all of them if its parts differ";
        stripes: gauge count "system.device.mapped.stripes" "devices that a striped part is spread over; the most, if parts differ";
        chunk: gauge bytes "system.device.mapped.chunk" "bytes on one of those devices before the next one follows; the least, if parts differ";
    }

    /// Compressed memory used as a disk (Documentation/admin-guide/blockdev/zram.rst).
    zram: Zram by device: Name of device, from "/sys/block/zram*" {
        algorithm: state word "system.zram.algorithm" "how it compresses";
        stored: gauge bytes "system.zram.stored" "data stored, uncompressed";
        memory: gauge bytes "system.zram.usage" "memory this takes";
        memory_limit: gauge bytes "system.zram.limit" "memory it may take; 0 if that is not limited";
    }

    /// Devices of a file system besides the one it is mounted from, and where its journal is; the upper one is the device that
    /// is mounted.
    file_system_device: FileSystemDevice by part: LinkKey of device device, from "/sys/fs/ext4, /sys/fs/btrfs, /proc/self/mountinfo" {
        role: state word "system.filesystem.device.role" "data, journal, realtime (data of XFS), or no journal";
        profile: state word "system.filesystem.device.profile" "how btrfs spreads data: single, raid0, raid1, ...";
    }

    /// Where partitions start on their disk.
    partition: Partition by device: Name of device, from "/sys/block/*/*/start, fdisk" {
        start: gauge bytes "system.partition.start" "bytes from the disk's first to the partition's";
    }

    /// Mounted file systems.
    mount: Mount by point: Name of path, from "/proc/self/mountinfo, statvfs" {
        device: state source "system.device" "what is mounted: the kernel's name of the block device, if there is one";
        number: state word "system.device.number" "major:minor";
        kind: state word "system.filesystem.type" "file system type";
        options: state options "system.filesystem.mode" "mount and superblock options";
        size: gauge bytes "system.filesystem.limit" "space in all";
        free: gauge bytes "system.filesystem.usage{system.filesystem.state=free}" "space free, the reserve for root included";
        available: gauge bytes "system.filesystem.usage" "space available to ordinary users";
        inodes: gauge count "system.filesystem.inodes.limit" "total inodes; 0 if the file system creates them on demand";
        inodes_free: gauge count "system.filesystem.inodes.free" "inodes free";
        read_only: gauge count "system.filesystem.read_only" "1 if mounted read-only";
    }

    /// Processes that hold files on a full file system open for writing, or deleted files open; read on demand.
    writer: Writer by on: MountTask of path, from "/proc/PID/fd, /proc/PID/fdinfo" {
        files: gauge count "process.open_files.count" "number of such files";
        bytes: gauge bytes "process.open_files.usage" "space used by those files";
        deleted_bytes: gauge bytes "process.open_files.deleted_usage" "of that, space of deleted files, which is freed when they are closed";
        largest: state path "process.open_files.largest" "path of the largest";
    }

    /// Paths of multipath devices, as `multipath -ll` lists them.
    path: Path by path: LinkKey of device device, from "/dev/mapper/control, /sys/block/nvme*, multipath -ll, spmgr display" {
        state: state word "system.multipath.path.state" "active, available, standby or failed";
        adapter: state word "system.multipath.path.adapter" "the host adapter of the path";
        balanced: gauge count "system.multipath.balanced" "1 if the driver spreads the load over all paths";
    }

    /// Logical volumes, volume groups and other devices of the device mapper.
    volume: Volume by name: Name of volume, from "/dev/mapper/control, lvs, vgs, dmsetup, zpool" {
        kind: state word "system.volume.kind" "thin pool, snapshot, cache, crypt, volume group, ZFS pool, ...";
        size: gauge bytes "system.volume.limit" "size";
        free: gauge bytes "system.volume.free" "space of a volume group that no volume has";
        data_used: gauge ratio "system.volume.utilization" "used share of a thin pool, of a snapshot's room for changes, of a cache, or of a ZFS pool";
        metadata_used: gauge ratio "system.volume.metadata" "used share of the room for metadata";
        fragmentation: gauge ratio "system.volume.fragmentation" "how far the free space of a ZFS pool is in small pieces: 0 if all of it is in large ones";
        dirty: gauge ratio "system.volume.dirty" "share of a cache that is not yet written to the slow device";
        suspended: gauge count "system.volume.suspended" "1 if the kernel holds back all I/O to it";
        failure: state text "system.volume.failure" "what is wrong with it, as the kernel or LVM reports it";
    }

    /// NFS mounts, with the client's operation counters (struct rpc_iostats of include/linux/sunrpc/metrics.h).
    nfs: NfsMount by point: Name of path, from "/proc/self/mountstats" since creation {
        server: state source "system.nfs.server" "server and path";
        age: gauge ns "system.nfs.age" "time since it was mounted" only captures;
        operations: counter count "system.nfs.operations" "completed operations; from some tools only reads and writes";
        sent_again: counter count "system.nfs.retransmissions" "retransmissions";
        queue_time: counter ns "system.nfs.queue_time" "time in the client's queue, summed";
        round_trip_time: counter ns "system.nfs.round_trip_time" "time from being sent until the server's answer, summed";
        execute_time: counter ns "system.nfs.execute_time" "time from being made until done, summed";
    }

    /// Software RAID arrays (Documentation/admin-guide/md.rst).
    array: Array by array: Name of device, from "/sys/block/md*/md" {
        level: state word "system.md.level" "RAID level";
        state: state word "system.md.state" "clean, active, inactive, ...";
        degraded: gauge count "system.md.degraded" "members missing";
        members: gauge count "system.md.members" "members wanted";
        action: state word "system.md.action" "idle, resync, recover, check, repair";
        sync_done: gauge ratio "system.md.sync_done" "completed share of a rebuild or check";
        sync_speed: gauge bytes "system.md.sync_speed" "bytes a second of a rebuild or check";
        chunk: gauge bytes "system.md.chunk" "bytes on one member before the next one follows; 0 for levels without stripes";
        cache: state word "system.raid_controller.cache" "whether a RAID controller caches writes: write-back or write-through" only captures;
        cache_wanted: state word "system.raid_controller.cache_wanted" "whether it is set to do so" only captures;
        battery: state word "system.raid_controller.battery" "whether its battery or capacitor keeps the cache over a power cut: ok, charging, absent or failed" only captures;
        failed_members: state text "system.md.failed_members" "the members that failed, as md or a RAID controller lists them";
    }
}
