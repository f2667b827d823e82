//! virsh(1): definition of a guest, limits and I/O of its disks, and the CPUs that it is bound to.

use crate::prelude::*;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use whyslow_model::catalogue::{Guest, GuestCpu, GuestDisk, GuestDiskIo, GuestMemory};
use whyslow_model::cpu_list;
use whyslow_model::key::GuestDevice;
use whyslow_proc::qemu::libvirt_domain;

pub const BLKDEVIOTUNE: Format = Format {
    name: "virsh blkdeviotune",
    versions: "libvirt 1 and later, with the command line",
    shows: "the limits that QEMU keeps a disk of a guest within",
    lacks: "how much of them is used: virsh domstats GUEST --block, twice",
    programs: &[partly_read("virsh")],
    starts: |lines| {
        lines.next_is(|line| limit(line).is_some()) && lines.peek(1).is_some_and(|line| limit(line).is_some())
    },
    read: read_limits,
    ..Format::NEW
};

pub const DOMSTATS: Format = Format {
    name: "virsh domstats",
    versions: "libvirt 1.2 and later, --block or --balloon, with the command line or the line that names the guest",
    shows: "requests and bytes of the disks of a guest, and how long they took; the memory that its balloon leaves it; printed twice their rates",
    lacks: "what the host's devices did",
    starts: |lines| {
        lines.next_is(|line| domain(line).is_some() || block_value(line).is_some() || balloon_value(line).is_some())
    },
    read: read_statistics,
    ..Format::NEW
};

pub const DOMMEMSTAT: Format = Format {
    name: "virsh dommemstat",
    versions: "libvirt 1 and later, with the command line",
    shows: "the memory that the balloon leaves a guest, how much of it is usable, and what the guest read from its swap space",
    lacks: "the memory that the guest could have: virsh dominfo GUEST",
    starts: |lines| {
        lines.next_is(|line| memory_statistic(line).is_some())
            && lines.peek(1).is_some_and(|line| memory_statistic(line).is_some())
    },
    read: read_memory,
    ..Format::NEW
};

pub const DOMINFO: Format = Format {
    name: "virsh dominfo",
    versions: "libvirt 1 and later",
    shows: "virtual CPUs of a guest, the memory that it could have and what its balloon leaves it",
    lacks: "what it uses of them",
    // `pool-info` and `net-info` begin in the same way.
    starts: |lines| {
        let infos = (0..INFO.len()).map_while(|at| Some(info(lines.peek(at)?)?.0.to_owned()));
        infos.filter(|name| OF_GUESTS.contains(&name.as_str())).count() > 1
    },
    read: read_info,
    ..Format::NEW
};

pub const VCPUPIN: Format = Format {
    name: "virsh vcpupin",
    versions: "libvirt 1 and later, with the command line or a heading that names the guest",
    shows: "the CPUs of the host that the virtual CPUs of a guest may run on",
    lacks: "how busy they are: mpstat -P ALL",
    starts: |lines| {
        is_affinity_header(lines, 0) || (lines.next_is(|line| heading(line).is_some()) && is_affinity_header(lines, 1))
    },
    read: read_affinity,
    ..Format::NEW
};

pub const DUMPXML: Format = Format {
    name: "virsh dumpxml",
    versions: "libvirt 1 and later; the whole definition, or with the command line some elements of its devices, such as <disk>",
    shows: "virtual CPUs and those they are bound to, memory, disks and network cards of a guest, with cache mode, aio, I/O threads, queues and limits",
    lacks: "what it uses of them",
    starts: |lines| {
        lines.next_is(|line| {
            let line = line.trim_start();
            DEFINITIONS.iter().any(|start| line.strip_prefix(start).is_some_and(|rest| rest.starts_with([' ', '>'])))
        })
    },
    read: read_definition,
    ..Format::NEW
};

/// Beginnings of a definition or a part of one.
const DEFINITIONS: [&str; 4] = ["<domain", "<devices", "<disk", "<interface"];

fn read_definition(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let begin = lines.number();
    let mut text = String::new();
    while let Some(line) = lines.take_if(|text| text.trim_start().starts_with('<')) {
        text.push_str(&line.text);
        text.push('\n');
        if line.text.trim() == "</domain>" {
            break;
        }
    }
    let named = named(context, "dumpxml");
    let Some(domain) = libvirt_domain(&text, named.as_deref(), task_of) else {
        run.note(
            "the definition of a guest",
            "it was cut, or does not say which guest it is of",
            "include all of it, with the command line: virsh dumpxml GUEST",
        );
        return Ok(());
    };
    run.put(0.0, begin, domain.guest);
    domain.cpus.into_iter().for_each(|cpu| run.put(0.0, begin, cpu));
    domain.disks.into_iter().for_each(|disk| run.put(0.0, begin, disk));
    domain.cards.into_iter().for_each(|card| run.put(0.0, begin, card));
    Ok(())
}

/// Returns true for ` VCPU   CPU Affinity` or `VCPU: CPU Affinity`, and a ruler.
fn is_affinity_header(lines: &mut Lines<'_>, at: usize) -> bool {
    let is_title = |line: &str| line.replace(':', " ").split_whitespace().eq(["VCPU", "CPU", "Affinity"]);
    let is_ruler = |line: &str| line.trim().len() > 3 && line.trim().bytes().all(|b| b == b'-');
    lines.peek(at).is_some_and(is_title) && lines.peek(at + 1).is_some_and(is_ruler)
}

/// Returns the name in `== web1`, as loops over guests print it, or `web1:`.
fn heading(line: &str) -> Option<&str> {
    let name = line.trim_matches(['=', '-', '#', ':', ' ']);
    (name.len() < line.trim().len() && is_name(name)).then_some(name)
}

/// Parses ` 0      2-5`, `   0: 2-5`.
fn affinity(line: &str) -> Option<(u32, &str)> {
    let mut words = line.split_whitespace();
    let number = words.next()?.trim_end_matches(':').parse().ok()?;
    let cpus = words.next().filter(|cpus| cpu_list::parse(cpus).is_some())?;
    words.next().is_none().then_some((number, cpus))
}

fn read_affinity(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let printed = lines.take_if(|text| heading(text).is_some());
    let printed = printed.as_ref().and_then(|line| heading(&line.text)).map(str::to_owned);
    lines.skip(2);
    let guest = printed.or_else(|| named(context, "vcpupin"));
    while let Some(line) = lines.take_if(|text| affinity(text).is_some()) {
        let (Some(guest), Some((number, cpus))) = (&guest, affinity(&line.text)) else { continue };
        let task = task_of(guest);
        run.row::<Guest>(0.0, line.number, task).name = guest.as_str().into();
        let row = run.row::<GuestCpu>(
            0.0,
            line.number,
            TaskKey { tid: task.tid.saturating_add(1).saturating_add(number), ..task },
        );
        (row.number, row.cpus) = (f64::from(number).into(), cpus.into());
    }
    if guest.is_none() {
        run.note(
            "CPUs that a guest is bound to",
            "which guest is not shown by its name",
            "include the command line: virsh vcpupin GUEST",
        );
    }
    Ok(())
}

/// Parses `total_iops_sec : 500`, `total_iops_sec_max: 0`.
fn limit(line: &str) -> Option<(&str, f64)> {
    let (name, value) = line.split_once(':')?;
    let name = name.trim();
    let (of, kind) = name.split_once('_')?;
    let is_kind = ["bytes_sec", "iops_sec"]
        .iter()
        .any(|own| kind.strip_prefix(own).is_some_and(|rest| ["", "_max", "_max_length"].contains(&rest)));
    let is_limit = (["total", "read", "write"].contains(&of) && is_kind) || name == "size_iops_sec";
    is_limit.then_some((name, number(value.trim())?))
}

/// Parses `Domain: 'pg-stage'`.
fn domain(line: &str) -> Option<&str> {
    line.trim().strip_prefix("Domain: '")?.strip_suffix('\'').filter(|name| is_name(name))
}

/// Returns the disk, the statistic and the value: `  block.1.rd.reqs=88120331`.
fn block_value(line: &str) -> Option<(u32, &str, &str)> {
    let (name, value) = line.trim().strip_prefix("block.")?.split_once('=')?;
    let (disk, what) = name.split_once('.')?;
    Some((disk.parse().ok()?, what, value))
}

/// Splits `  balloon.current=4194304`, in KiB.
fn balloon_value(line: &str) -> Option<(&str, &str)> {
    line.trim().strip_prefix("balloon.")?.split_once('=')
}

/// Statistics of virDomainMemoryStats, by libvirt's names for them in virsh (tools/virsh-domain-monitor.c).
const MEMORY_STATISTICS: [&str; 12] = [
    "actual",
    "swap_in",
    "swap_out",
    "major_fault",
    "minor_fault",
    "unused",
    "available",
    "usable",
    "last_update",
    "disk_caches",
    "rss",
    "hugetlb_pgalloc",
];

/// Parses `actual 4194304`.
fn memory_statistic(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.trim().split_once(' ')?;
    let is_number = !value.trim().is_empty() && value.trim().bytes().all(|b| b.is_ascii_digit());
    (MEMORY_STATISTICS.contains(&name) && is_number).then_some((name, value.trim()))
}

/// Fields of `dominfo`, in its order.
const INFO: [&str; 16] = [
    "Id",
    "Name",
    "UUID",
    "OS Type",
    "State",
    "CPU(s)",
    "CPU time",
    "Max memory",
    "Used memory",
    "Persistent",
    "Autostart",
    "Autostart Once",
    "Managed save",
    "Security model",
    "Security DOI",
    "Security label",
];

/// Fields that only a guest has, but no pool or network.
const OF_GUESTS: [&str; 4] = ["CPU(s)", "CPU time", "Max memory", "Used memory"];

/// Parses `Max memory:     8388608 KiB`.
fn info(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.trim().split_once(':')?;
    INFO.contains(&name).then_some((name, value.trim()))
}

/// Records the balloon statistics of a guest, which are in KiB.
fn note_balloon(run: &mut ToolRun, line: u32, guest: &str, value: impl Fn(&str) -> Option<u64>) {
    let bytes = |name: &str| value(name).map(|kib| kib.saturating_mul(1 << 10));
    let task = task_of(guest);
    let row = run.row::<Guest>(0.0, line, task);
    row.name = guest.into();
    row.memory_now = bytes("actual").or_else(|| bytes("current")).into();
    if let Some(most) = bytes("maximum") {
        row.memory = most.into();
    }
    let row = run.row::<GuestMemory>(0.0, line, task);
    (row.usable, row.resident) = (bytes("usable").into(), bytes("rss").into());
    row.swapped_in = bytes("swap_in").into();
}

fn read_memory(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let begin = lines.number();
    let (mut values, mut seen) = (Vec::new(), BTreeSet::new());
    while let Some(line) =
        lines.take_if(|text| memory_statistic(text).is_some_and(|(name, _)| seen.insert(name.to_owned())))
    {
        values.extend(memory_statistic(&line.text).map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
    let Some(guest) = named(context, "dommemstat") else {
        run.note(
            "memory of a guest",
            "which guest is not shown by its name",
            "include the command line: virsh dommemstat GUEST",
        );
        return Ok(());
    };
    note_balloon(run, begin, &guest, |name| values.iter().find(|(own, _)| own == name)?.1.parse().ok());
    Ok(())
}

fn read_info(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let begin = lines.number();
    let (mut values, mut seen) = (Vec::new(), BTreeSet::new());
    while let Some(line) = lines.take_if(|text| info(text).is_some_and(|(name, _)| seen.insert(name.to_owned()))) {
        values.extend(info(&line.text).map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
    let value = |name: &str| values.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str());
    let asked = named(context, "dominfo");
    let Some(guest) = value("Name").filter(|name| is_name(name)).or(asked.as_deref()) else {
        run.note("what a guest has", "its name is missing", "include the line 'Name:'");
        return Ok(());
    };
    // A guest that is shut off uses nothing.
    if value("State").is_some_and(|state| !["running", "idle", "paused", "in shutdown"].contains(&state)) {
        return Ok(());
    }
    let bytes = |name: &str| Some(value(name)?.strip_suffix(" KiB")?.parse::<u64>().ok()?.saturating_mul(1 << 10));
    let row = run.row::<Guest>(0.0, begin, task_of(guest));
    row.name = guest.into();
    row.cpus = value("CPU(s)").and_then(number).into();
    row.memory = bytes("Max memory").into();
    row.memory_now = bytes("Used memory").into();
    Ok(())
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() < 100 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}

/// Returns the words after the subcommand: the guest, and possibly its disk.
fn operands(context: OutputContext<'_>, subcommand: &str) -> Vec<String> {
    let command = context.command_of("virsh");
    let words = command.iter().flat_map(|command| command.operands()).skip_while(|word| *word != subcommand);
    words.skip(1).filter(|word| is_name(word)).map(str::to_owned).collect()
}

/// Returns the guest named on the command line. Ignores an ID or UUID, which could not be matched with a guest known by its
/// name.
fn named(context: OutputContext<'_>, subcommand: &str) -> Option<String> {
    let is_uuid = |word: &str| word.len() == 36 && word.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    let is_number = |word: &str| word.bytes().all(|b| b.is_ascii_digit());
    operands(context, subcommand).into_iter().next().filter(|word| !is_number(word) && !is_uuid(word))
}

/// Returns a number that stands for the guest and that no process has, since virsh shows no process. It is always the same for
/// the same guest.
fn task_of(guest: &str) -> TaskKey {
    const BEYOND_ALL: u32 = 1 << 30;
    let mut hasher = DefaultHasher::new();
    guest.hash(&mut hasher);
    let number = BEYOND_ALL | (hasher.finish() as u32 & (BEYOND_ALL - 1));
    TaskKey { pid: number, tid: number, start: 0 }
}

fn disk_of(run: &mut ToolRun, line: u32, guest: &str, disk: &str) -> GuestDevice {
    let task = task_of(guest);
    run.row::<Guest>(0.0, line, task).name = guest.into();
    GuestDevice { task, name: disk.into() }
}

fn read_limits(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let begin = lines.number();
    let mut limits = Vec::new();
    while let Some(line) = lines.take_if(|text| limit(text).is_some() || text.starts_with("group_name")) {
        limits.extend(limit(&line.text).map(|(name, value)| (name.to_owned(), value)));
    }
    let (Some(guest), Some(disk)) =
        (named(context, "blkdeviotune"), operands(context, "blkdeviotune").into_iter().nth(1))
    else {
        run.note(
            "limits of a guest's disk",
            "which guest and disk is not shown by name",
            "include the command line: virsh blkdeviotune GUEST DISK",
        );
        return Ok(());
    };
    let key = disk_of(run, begin, &guest, &disk);
    let row = run.row::<GuestDisk>(0.0, begin, key);
    // 0 means no limit.
    let of = |name: &str| limits.iter().find(|(own, value)| own == name && *value > 0.0).map(|(_, value)| *value);
    row.limit_operations = of("total_iops_sec").into();
    row.limit_reads = of("read_iops_sec").into();
    row.limit_writes = of("write_iops_sec").into();
    row.limit_bytes = of("total_bytes_sec").into();
    row.limit_read_bytes = of("read_bytes_sec").into();
    row.limit_write_bytes = of("write_bytes_sec").into();
    Ok(())
}

/// Reads the guests of one command, until one is repeated: that is another reading.
fn read_statistics(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let mut guests = BTreeSet::new();
    let mut is_another = |text: &str| domain(text).is_some_and(|guest| guests.insert(guest.to_owned()));
    let first = lines.take_if(&mut is_another);
    let named = match &first {
        Some(line) => domain(&line.text).map(str::to_owned),
        None => named(context, "domstats"),
    };
    read_guest(lines, named, run);
    while let Some(line) = first.is_some().then(|| lines.take_past_blanks_if(&mut is_another)).flatten() {
        read_guest(lines, domain(&line.text).map(str::to_owned), run);
    }
    Ok(())
}

fn read_guest(lines: &mut Lines<'_>, guest: Option<String>, run: &mut ToolRun) {
    let begin = lines.number();
    let (mut values, mut balloon) = (Vec::new(), Vec::new());
    // The statistics of a guest end at a repeated one, or at other text.
    let statistic = |text: &str| {
        let (name, _) = text.trim().split_once('=')?;
        (name.contains('.') && !name.contains(' ')).then(|| name.to_owned())
    };
    let mut seen = BTreeSet::new();
    let mut is_next = |text: &str| statistic(text).is_some_and(|name| seen.insert(name));
    while let Some(line) = lines.take_past_blanks_if(&mut is_next) {
        if let Some((disk, what, value)) = block_value(&line.text) {
            values.push(((disk, what.to_owned()), value.to_owned(), line.number));
        }
        balloon.extend(balloon_value(&line.text).map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
    let Some(guest) = guest else {
        run.note(
            "statistics of a guest",
            "which guest is not shown by its name",
            "include the command line: virsh domstats GUEST",
        );
        return;
    };
    if !balloon.is_empty() {
        note_balloon(run, begin, &guest, |name| balloon.iter().find(|(own, _)| own == name)?.1.parse().ok());
    }
    if !values.is_empty() && !values.iter().any(|((_, what), _, _)| what == "name") {
        run.note("statistics of a guest's disks", "their names are not shown", "keep the lines block.N.name");
    }
    let names = values.iter().filter(|((_, what), _, _)| what == "name");
    for ((disk, _), name, line) in names {
        let value = |of: &str| {
            let found = values.iter().find(|((own, what), _, _)| own == disk && what == of);
            found.and_then(|(_, value, _)| value.parse::<u64>().ok())
        };
        let key = disk_of(run, begin, &guest, name);
        let row = run.row::<GuestDiskIo>(0.0, *line, key);
        (row.reads, row.writes, row.flushes) =
            (value("rd.reqs").into(), value("wr.reqs").into(), value("fl.reqs").into());
        (row.read_bytes, row.write_bytes) = (value("rd.bytes").into(), value("wr.bytes").into());
        (row.read_time, row.write_time, row.flush_time) =
            (value("rd.times").into(), value("wr.times").into(), value("fl.times").into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};
    use whyslow_model::window::Change;

    #[test]
    fn a_definition_is_read_whole_or_in_parts() {
        let disk = "<disk type='block'>\n<driver cache='none'/>\n<target dev='vda' bus='virtio'/>\n\
                    <iotune>\n<total_iops_sec>500</total_iops_sec>\n</iotune>\n</disk>\n";
        let whole = format!("<domain type='kvm'>\n<name>db9</name>\n<devices>\n{disk}</devices>\n</domain>\n");
        let part = format!("root@hv3:~# virsh dumpxml db9 | grep -A9 '<disk'\n{disk}");
        for text in [whole.as_str(), part.as_str()] {
            let window = window_of(text);
            let found = window.newest::<GuestDisk>().into_values().next().expect(text);
            assert_eq!((&*found.disk.name, found.limit_operations.get()), ("vda", Some(500.0)));
            assert_eq!(window.newest::<Guest>().into_values().next().unwrap().name.get(), Some("db9"));
        }
    }

    #[test]
    fn limits_and_use_of_a_guests_disk() {
        let window = window_of(&fixture("virsh-block.txt"));
        let disk = window.newest::<GuestDisk>().into_values().next().expect("a disk");
        assert_eq!((&*disk.disk.name, disk.limit_operations.get(), disk.limit_reads.get()), ("vdb", Some(500.0), None));
        let guest = window.newest::<Guest>().into_values().next().expect("a guest");
        assert_eq!((guest.name.get(), guest.task), (Some("pg-stage"), disk.disk.task));
        let io = window.changes::<GuestDiskIo>();
        let [only] = &io[..] else { panic!("{} disks", io.len()) };
        assert_eq!((only.rate(|io| io.reads), only.rate(|io| io.writes)), (Some(380.0), Some(120.0)));
    }

    #[test]
    fn the_cpus_that_guests_are_bound_to() {
        let window = window_of(&fixture("virsh-vcpupin.txt"));
        let rows = window.newest::<GuestCpu>();
        let names = window.newest::<Guest>();
        let of = |name: &str| {
            let own = rows.values().filter(|row| {
                names.iter().any(|(task, guest)| task.pid == row.thread.pid && guest.name.get() == Some(name))
            });
            own.map(|row| row.cpus.get().unwrap_or_default().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!((of("crm-app1"), of("mail1")), (vec!["2-5".to_owned(); 4], vec!["0-23".to_owned(); 2]));
        let old = "# virsh vcpupin old\nVCPU: CPU Affinity\n----------------------------------\n   0: 0-3\n";
        assert_eq!(
            window_of(old).newest::<GuestCpu>().into_values().next().and_then(|row| row.cpus.get()),
            Some("0-3")
        );
    }

    #[test]
    fn the_memory_that_a_balloon_leaves_a_guest() {
        let window = window_of(&fixture("virsh-dommemstat.txt"));
        let (changes, used) = (window.changes::<Guest>(), window.changes::<GuestMemory>());
        let [guest] = &changes[..] else { panic!("{} guests", changes.len()) };
        assert_eq!((guest.last().name.get(), guest.first().memory.get()), (Some("crm-db"), Some(17_179_869_184.0)));
        assert_eq!(guest.last().memory_now.get(), Some(8_589_934_592.0));
        assert_eq!(used[0].grown(|m| m.swapped_in), Some(179_200.0 * 1024.0));
    }

    #[test]
    fn several_guests_of_one_command_are_one_reading() {
        let of = |guest: &str, swapped: u64| {
            format!(
                "Domain: '{guest}'\n  balloon.current=1000\n  balloon.maximum=2000\n  balloon.swap_in={swapped}\n\n"
            )
        };
        let print = |swapped: u64| of("a1", swapped) + &of("b2", 2 * swapped) + &of("c3", 0);
        let text =
            format!("# virsh domstats --balloon; sleep 10; virsh domstats --balloon\n{}{}", print(1000), print(2000));
        let window = window_of(&text);
        let (names, used) = (window.newest::<Guest>(), window.changes::<GuestMemory>());
        let is_of = |memory: &&Change<'_, GuestMemory>, name: &str| names[memory.key()].name.get() == Some(name);
        let rate = |name: &str| used.iter().find(|memory| is_of(memory, name)).unwrap().rate(|m| m.swapped_in);
        assert_eq!((rate("a1"), rate("b2"), rate("c3")), (Some(102_400.0), Some(204_800.0), Some(0.0)));
    }

    #[test]
    fn a_guest_that_is_not_named_is_asked_for() {
        let window = window_of("total_bytes_sec: 0\nread_bytes_sec : 0\ntotal_iops_sec : 500\n");
        assert!(window.newest::<GuestDisk>().is_empty());
    }
}
