//! Disks of a guest: the devices that the guest sees, and the images or devices of the host behind them
//! (qemu-block-drivers(7)).

use super::CommandLine;
use super::limits::{IoLimits, LimitNames};
use super::options::QemuOptions;
use std::collections::BTreeSet;
use std::num::NonZeroU64;
use whyslow_model::catalogue::GuestDisk;
use whyslow_model::key::{GuestDevice, TaskKey};
use whyslow_model::mask;
use whyslow_model::value::State;

/// Maximum depth of images on top of images.
const DEEPEST: usize = 8;
/// Drivers of -blockdev that pass requests on to another driver.
const FORMATS_AND_FILTERS: [&str; 14] = [
    "raw",
    "qcow2",
    "qcow",
    "qed",
    "vmdk",
    "vdi",
    "vpc",
    "vhdx",
    "luks",
    "parallels",
    "throttle",
    "copy-on-read",
    "preallocate",
    "compress",
];

/// Names of limits in -drive, the new and the old ones, and in -object throttle-group.
const DRIVE_LIMITS: [LimitNames; 2] = [
    [
        "throttling.iops-total",
        "throttling.iops-read",
        "throttling.iops-write",
        "throttling.bps-total",
        "throttling.bps-read",
        "throttling.bps-write",
    ],
    ["iops", "iops_rd", "iops_wr", "bps", "bps_rd", "bps_wr"],
];
const GROUP_LIMITS: [LimitNames; 2] = [
    [
        "limits.iops-total",
        "limits.iops-read",
        "limits.iops-write",
        "limits.bps-total",
        "limits.bps-read",
        "limits.bps-write",
    ],
    ["x-iops-total", "x-iops-read", "x-iops-write", "x-bps-total", "x-bps-read", "x-bps-write"],
];

/// Host side of a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Backend {
    format: Option<String>,
    file: Option<String>,
    direct: bool,
    no_flush: bool,
    /// `None` if the device decides, by `write-cache`.
    write_through: Option<bool>,
    aio: Option<String>,
    /// True if all layers pass discards on.
    discard: bool,
    detect_zeroes: Option<String>,
    read_only: bool,
    is_cdrom: bool,
    limits: IoLimits,
}

pub(super) fn disks(line: &CommandLine, task: TaskKey) -> Vec<GuestDisk> {
    let attached = line.devices.iter().filter(|device| is_disk(device)).enumerate();
    let attached = attached.filter_map(|(at, device)| {
        let backend = backend_of(line, device.get("drive"))?;
        let name = device.get("id").map_or_else(|| format!("disk{at}"), str::to_owned);
        Some(row(line, task, &name, device, &backend))
    });
    let mut disks: Vec<GuestDisk> = attached.collect();
    // Unless `if=none`, -drive creates the device too.
    for (drive, name) in line.drives.iter().zip(names_of_drives(line)) {
        let Some(driver) = driver_of_drive(line, drive) else { continue };
        let backend = of_drive(drive);
        let device = QemuOptions::parse(driver, "driver");
        if backend.file.is_some() && !backend.is_cdrom {
            disks.push(row(line, task, &name, &device, &backend));
        }
    }
    disks
}

fn is_disk(device: &QemuOptions) -> bool {
    device.get("drive").is_some()
        && device.get("driver").is_some_and(|driver| !driver.ends_with("-cd") && driver != "pflash")
}

fn row(line: &CommandLine, task: TaskKey, name: &str, device: &QemuOptions, backend: &Backend) -> GuestDisk {
    let controller = controller(line, device);
    let own_or_controllers = |key: &str| device.dashed(key).or_else(|| controller?.dashed(key));
    let write_through = backend.write_through.or_else(|| device.flag("write-cache").map(|on| !on)).unwrap_or(false);
    let cache = match (backend.no_flush, write_through, backend.direct) {
        (true, ..) => "unsafe",
        (_, true, true) => "directsync",
        (_, true, false) => "writethrough",
        (_, false, true) => "none",
        (_, false, false) => "writeback",
    };
    let queues = own_or_controllers("num-queues").and_then(|text| text.parse::<u64>().ok());
    // If several threads are mapped (QEMU 9), all of them.
    let threads: Vec<&str> = std::iter::once(device)
        .chain(controller)
        .flat_map(|device| device.get("iothread").into_iter().chain(mapped_threads(device)))
        .collect();
    let mut disk = GuestDisk {
        model: State::from(device.get("driver")),
        controller: State::from(controller.and_then(|controller| controller.get("driver"))),
        file: State::from(backend.file.as_deref()),
        format: State::from(backend.format.as_deref()),
        cache: cache.into(),
        aio: backend.aio.as_deref().unwrap_or("threads").into(),
        discard: if backend.discard { "unmap" } else { "ignore" }.into(),
        detect_zeroes: State::from(backend.detect_zeroes.as_deref()),
        io_thread: State::from(Some(threads.join(" ")).filter(|text| !text.is_empty())),
        queues: queues.into(),
        serial: State::from(device.get("serial")),
        wwn: State::from(device.get("wwn").and_then(hexadecimal)),
        read_only: u64::from(backend.read_only).into(),
        ..GuestDisk::new(GuestDevice { task, name: name.into() })
    };
    backend.limits.set(&mut disk);
    disk
}

fn mapped_threads(device: &QemuOptions) -> Vec<&str> {
    let keys = (0..64).map(|at| format!("iothread-vq-mapping.{at}.iothread"));
    keys.map_while(|key| device.get(&key)).collect()
}

/// Returns the adapter that a disk is attached to: the one that its bus names, or the first of its kind.
fn controller<'l>(line: &'l CommandLine, device: &QemuOptions) -> Option<&'l QemuOptions> {
    let kinds: &[&str] = match device.get("driver")? {
        driver if driver.starts_with("scsi-") => {
            &["virtio-scsi", "lsi", "megasas", "mptsas", "pvscsi", "am53c974", "dc390", "spapr-vscsi"]
        }
        driver if driver.starts_with("ide-") => &["ahci", "ich9-ahci", "piix3-ide", "piix4-ide"],
        _ => return None,
    };
    let mut found = line
        .devices
        .iter()
        .filter(|other| other.get("driver").is_some_and(|driver| kinds.iter().any(|kind| driver.starts_with(kind))));
    match device.get("bus").and_then(|bus| bus.split_once('.')) {
        Some((id, _)) => found.find(|other| other.get("id") == Some(id)),
        None => found.next(),
    }
}

/// Returns the backend that `drive=` names: a -blockdev by its node name, or a -drive by its id. `None` for a drive
/// without a medium.
fn backend_of(line: &CommandLine, drive: Option<&str>) -> Option<Backend> {
    let name = drive?;
    let node = |name: &str| line.nodes.iter().find(|node| node.get("node-name") == Some(name));
    if let Some(top) = node(name) {
        return of_node(line, top, node);
    }
    let drive = line.drives.iter().find(|drive| drive.get("id") == Some(name))?;
    Some(of_drive(drive)).filter(|backend| backend.file.is_some() && !backend.is_cdrom)
}

/// Follows the layers of a -blockdev down to the file or device.
fn of_node<'l>(
    line: &CommandLine,
    top: &QemuOptions,
    node: impl Fn(&str) -> Option<&'l QemuOptions>,
) -> Option<Backend> {
    let mut backend = Backend { discard: true, ..Backend::default() };
    let mut layer = top.clone();
    for _ in 0..DEEPEST {
        let driver = layer.get("driver")?.to_owned();
        backend.discard &= layer.get("discard").is_some_and(|discard| discard == "unmap" || discard == "on");
        backend.read_only |= layer.flag("read-only") == Some(true);
        backend.no_flush |= layer.flag("cache.no-flush") == Some(true);
        if backend.detect_zeroes.is_none() {
            backend.detect_zeroes = layer.get("detect-zeroes").map(str::to_owned);
        }
        if driver == "throttle"
            && let Some(group) = layer.get("throttle-group")
        {
            backend.limits = of_group(line, group);
        }
        if !FORMATS_AND_FILTERS.contains(&driver.as_str()) {
            backend.direct = layer.flag("cache.direct") == Some(true);
            backend.aio = layer.get("aio").map(str::to_owned);
            backend.file = Some(location(&driver, &layer));
            return Some(backend);
        }
        if backend.format.is_none()
            && !["throttle", "copy-on-read", "preallocate", "compress"].contains(&driver.as_str())
        {
            backend.format = Some(driver);
        }
        let nested = layer.below("file");
        layer = if nested.is_empty() { node(layer.get("file")?)?.clone() } else { nested };
    }
    None
}

/// Returns the path of a file or device; for network storage, its driver, address and name.
fn location(driver: &str, layer: &QemuOptions) -> String {
    if let Some(path) = layer.get("filename") {
        return public(path);
    }
    let keys = [
        "server.host",
        "server.path",
        "server.0.host",
        "portal",
        "pool",
        "image",
        "volume",
        "export",
        "path",
        "target",
    ];
    let words: Vec<&str> = keys.iter().filter_map(|key| layer.get(key)).collect();
    format!("{driver}:{}", words.join("/"))
}

/// Returns the public part of a path: URLs can contain a user and password, and those of RBD a key.
fn public(path: &str) -> String {
    match path.strip_prefix("rbd:") {
        Some(rest) => format!("rbd:{}", rest.split(':').next().unwrap_or_default()),
        None => match path.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.split_once('@')?.1))) {
            Some((scheme, rest)) => format!("{scheme}://{rest}"),
            None => mask::words(&[path]).concat(),
        },
    }
}

fn of_drive(drive: &QemuOptions) -> Backend {
    let mode = drive.get("cache").unwrap_or_default();
    let direct = drive.flag("cache.direct").unwrap_or(matches!(mode, "none" | "off" | "directsync"));
    let file = drive.get("file").or_else(|| drive.get("filename")).map(|file| match file.strip_prefix("json:") {
        Some(json) => {
            let layer = QemuOptions::parse(json, "driver");
            let below = layer.below("file");
            let layer = if below.is_empty() { layer } else { below };
            location(layer.get("driver").unwrap_or("file"), &layer)
        }
        None => public(file),
    });
    Backend {
        format: drive.get("format").or_else(|| drive.get("driver")).map(str::to_owned),
        file,
        direct,
        no_flush: drive.flag("cache.no-flush").unwrap_or(mode == "unsafe"),
        write_through: match drive.flag("cache.writeback") {
            Some(on) => Some(!on),
            None => (!mode.is_empty()).then_some(matches!(mode, "writethrough" | "directsync")),
        },
        aio: drive.get("aio").map(str::to_owned),
        discard: matches!(drive.get("discard"), Some("unmap" | "on")),
        detect_zeroes: drive.get("detect-zeroes").map(str::to_owned),
        read_only: drive.flag("readonly").or_else(|| drive.flag("read-only")) == Some(true),
        is_cdrom: drive.get("media") == Some("cdrom"),
        limits: given_limits(drive, DRIVE_LIMITS, drive.get("throttling.group").or_else(|| drive.get("group"))),
    }
}

/// Returns the interface by which a -drive is attached.
fn interface<'l>(line: &CommandLine, drive: &'l QemuOptions) -> &'l str {
    // PC machines attach drives by IDE by default.
    drive.get("if").unwrap_or(if line.is_pc() { "ide" } else { "virtio" })
}

/// Returns the device that a -drive creates by itself: `None` with `if=none`, and for firmware.
fn driver_of_drive(line: &CommandLine, drive: &QemuOptions) -> Option<&'static str> {
    match interface(line, drive) {
        "virtio" => Some("virtio-blk"),
        "scsi" => Some("scsi-hd"),
        "ide" => Some("ide-hd"),
        _ => None,
    }
}

/// Returns QEMU's names of the drives, in their order: by id, otherwise by position: `ide0-hd1`, `virtio0` (`drive_new`
/// of blockdev.c).
fn names_of_drives(line: &CommandLine) -> Vec<String> {
    let mut taken: BTreeSet<(&str, u64)> = BTreeSet::new();
    let name = |drive| {
        let interface = interface(line, drive);
        let units: Option<NonZeroU64> = match interface {
            "ide" => NonZeroU64::new(if line.is_q35() { 1 } else { 2 }),
            "scsi" => NonZeroU64::new(7),
            _ => None,
        };
        let place = |bus: Option<u64>, unit: u64| {
            bus.unwrap_or(0).saturating_mul(units.map_or(1, NonZeroU64::get)).saturating_add(unit)
        };
        let given = match (drive.number("unit"), drive.number("bus")) {
            (None, None) => drive.number("index"),
            (unit, bus) => Some(place(bus, unit.unwrap_or(0))),
        };
        let at = given.or_else(|| (0..).find(|at| !taken.contains(&(interface, *at)))).unwrap_or(0);
        taken.insert((interface, at));
        let medium = match interface {
            "ide" | "scsi" if drive.get("media") == Some("cdrom") => "-cd",
            "ide" | "scsi" => "-hd",
            _ => "",
        };
        let place = match units {
            Some(units) => format!("{interface}{}{medium}{}", at / units, at % units),
            None => format!("{interface}{at}"),
        };
        drive.get("id").map_or(place, str::to_owned)
    };
    line.drives.iter().map(name).collect()
}

/// Formats a world wide name like the guest's kernel: 16 hexadecimal digits.
fn hexadecimal(number: &str) -> Option<String> {
    let value = match number.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => number.parse().ok()?,
    };
    Some(format!("{value:016x}"))
}

/// Returns the limits of a group that -blockdev throttle names.
fn of_group(line: &CommandLine, id: &str) -> IoLimits {
    let group = line.objects_of("throttle-group").find(|object| object.get("id") == Some(id));
    group.map(|group| given_limits(group, GROUP_LIMITS, Some(id))).unwrap_or_default()
}

fn given_limits(options: &QemuOptions, names: [LimitNames; 2], group: Option<&str>) -> IoLimits {
    let [new, old] = names.map(|names| IoLimits::read(names, group, |name| options.get(name)?.parse().ok()));
    if new.is_some() { new } else { old }
}
