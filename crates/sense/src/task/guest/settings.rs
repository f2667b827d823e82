//! Configuration of guests: from their command lines (qemu(1)) and from better sources. The kernel knows whether KVM runs them,
//! the names of their taps (`iff` in /proc/PID/fdinfo of tun: drivers/net/tun.c), the devices behind their images, and their CPU
//! threads; libvirt and QEMU's monitor know the settings changed since the guests started.

use super::monitor::Monitor;
use super::{QemuProcess, processes};
use crate::block::remote_mounts::answers_process;
use crate::root::{Root, status_field};
use crate::source::SourceInfo;
use crate::source_error::SourceError;
use crate::task::stat::Stat;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use whyslow_model::catalogue::{Guest, GuestCpu, GuestDisk, GuestNic};
use whyslow_model::key::TaskKey;
use whyslow_model::snapshot::Snapshot;
use whyslow_proc::qemu::{IoLimits, NetworkCard, TapName, libvirt_guest, monitor};

pub(in crate::task) const INFO: SourceInfo =
    SourceInfo::new("proc/qemu", "virtual machines: their CPUs, disks and network cards").slow();

/// Directory in which libvirt keeps the status of running guests.
const LIBVIRT: &str = "run/libvirt/qemu";

pub(in crate::task) fn read(root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    let mut limits: Option<LibvirtLimits> = None;
    for process in processes(root) {
        let limits = limits.get_or_insert_with(|| libvirt_limits(root)).remove(&process.task.pid).unwrap_or_default();
        Reader { root, process: &process, limits, monitor: Monitor::open(root, &process).ok() }.read(out);
    }
    Ok(())
}

/// Limits of disks, by process and disk name.
type LibvirtLimits = BTreeMap<u32, BTreeMap<String, IoLimits>>;

struct Reader<'r> {
    root: &'r Root,
    process: &'r QemuProcess,
    /// Limits that libvirt has set for its disks.
    limits: BTreeMap<String, IoLimits>,
    /// The monitor, if the guest has one that no other client uses.
    monitor: Option<Monitor>,
}

impl Reader<'_> {
    fn read(mut self, out: &mut Snapshot) {
        let group = &mut *out.guest;
        group.guest_cpu.extend(self.cpus());
        group.guest_disk.extend(self.disks());
        group.guest_nic.extend(self.cards());
        group.guest.push(self.guest());
    }

    /// Describes the guest. If several accelerators were given, only the one in use is reported.
    fn guest(&mut self) -> Guest {
        let mut guest = self.process.config.guest.clone();
        guest.memory_now = self.asked("query-balloon").as_ref().and_then(monitor::memory_now).into();
        if !self.process.files.is_empty() {
            let runs_kvm = self.process.files.iter().any(|(_, target)| target == "anon_inode:kvm-vm");
            guest.accelerator = if runs_kvm { "kvm" } else { "tcg" }.into();
        }
        guest
    }

    fn asked(&mut self, question: &str) -> Option<Value> {
        self.monitor.as_mut()?.ask(question)
    }

    /// Lists the CPUs from the monitor. Without it, finds the threads named `CPU 0/KVM` or `CPU 0/TCG` (accel/*/*-accel-ops.c),
    /// which exist with `-name debug-threads=on`, libvirt's default.
    fn cpus(&mut self) -> Vec<GuestCpu> {
        let pid = self.process.task.pid;
        let known: BTreeMap<u32, u64> = self
            .asked("query-cpus-fast")
            .map(|answer| monitor::cpu_threads(&answer).into_iter().map(|(number, tid)| (tid, number)).collect())
            .unwrap_or_default();
        let thread = |name: &String| {
            let (tid, folder) = (name.parse().ok()?, format!("proc/{pid}/task/{name}"));
            let stat = fs::read(self.root.at(format!("{folder}/stat"))).ok()?;
            let (stat, command) = Stat::parse(&stat)?;
            let named = || command.strip_prefix("CPU ")?.split_once('/')?.0.parse().ok();
            let number: u64 = known.get(&tid).copied().or_else(named)?;
            let status = self.root.maybe(&format!("{folder}/status")).unwrap_or_default();
            Some(GuestCpu {
                number: number.into(),
                cpus: status_field(&status, "Cpus_allowed_list").into(),
                ..GuestCpu::new(TaskKey { pid, tid, start: stat.start })
            })
        };
        self.root.list(&format!("proc/{pid}/task")).iter().filter_map(thread).collect()
    }

    /// Lists the disks. Their limits are those of the command line, unless libvirt or the monitor reports others.
    fn disks(&mut self) -> Vec<GuestDisk> {
        let mut disks: Vec<GuestDisk> = self.process.config.disks.iter().map(|disk| self.on_host(disk)).collect();
        for disk in &mut disks {
            if let Some(limits) = self.limits.get(&*disk.disk.name) {
                limits.set(disk);
            }
        }
        if let Some(blocks) = self.asked("query-block") {
            monitor::set_limits(&blocks, &mut disks);
        }
        disks
    }

    fn on_host(&self, disk: &GuestDisk) -> GuestDisk {
        let device = disk.file.get().filter(|file| file.starts_with('/')).and_then(|file| self.device_of(file));
        GuestDisk { host_device: device.into(), ..disk.clone() }
    }

    /// Returns the block device that a file is, or is stored on, resolved in the process's mount namespace: libvirt gives each
    /// guest a /dev of its own. Returns `None` for file systems on several devices and for those on the network.
    fn device_of(&self, file: &str) -> Option<String> {
        if self.root.is_live() && !answers_process(self.root, self.process.task.pid, file) {
            return None;
        }
        let seen_by = |root: String| fs::metadata(self.root.at(format!("{root}{file}"))).ok();
        let meta = seen_by(format!("proc/{}/root", self.process.task.pid)).or_else(|| seen_by(".".into()))?;
        let number = if meta.file_type().is_block_device() { meta.rdev() } else { meta.dev() };
        let name = format!("sys/dev/block/{}:{}", libc::major(number), libc::minor(number));
        self.root.link(&name)?.rsplit('/').next().map(str::to_owned)
    }

    fn cards(&self) -> Vec<GuestNic> {
        let given = |card: &NetworkCard| match &card.tap {
            Some(TapName::Given(name)) => Some(name.clone()),
            Some(TapName::OfDescriptor(fd)) => self.tap(*fd),
            Some(TapName::Unknown) | None => None,
        };
        let mut rows: Vec<GuestNic> = Vec::new();
        for card in &self.process.config.cards {
            rows.push(GuestNic { interface: given(card).into(), ..card.row.clone() });
        }
        // The remaining taps belong to the interfaces without a given name, in the order in which they were opened.
        let is_taken = |name: &String| rows.iter().any(|row| row.interface.get() == Some(name));
        let mut taps: VecDeque<String> = self
            .process
            .files
            .iter()
            .filter(|(_, target)| target == "/dev/net/tun")
            .filter_map(|(fd, _)| self.tap(*fd))
            .collect();
        taps.retain(|name| !is_taken(name));
        for (row, card) in rows.iter_mut().zip(&self.process.config.cards) {
            if card.tap == Some(TapName::Unknown) {
                row.interface = taps.pop_front().into();
            }
        }
        rows
    }

    fn tap(&self, fd: u32) -> Option<String> {
        let text = self.root.maybe(&format!("proc/{}/fdinfo/{fd}", self.process.task.pid))?;
        text.lines().find_map(|line| line.strip_prefix("iff:")).map(|name| name.trim().to_owned())
    }
}

/// Reads the limits that libvirt has set, for all guests.
fn libvirt_limits(root: &Root) -> LibvirtLimits {
    let files = root.list(LIBVIRT).into_iter().filter(|name| name.ends_with(".xml"));
    let guests = files.filter_map(|name| libvirt_guest(&root.maybe(&format!("{LIBVIRT}/{name}"))?));
    guests.map(|guest| (guest.pid, guest.limits)).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::source::stateless;
    use crate::task::guest::statistics;
    use crate::testing::{CapturedTree, Reaped, has_program, skip, wait_for};
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixStream;
    use std::path::Path;
    use std::process::{Command, Stdio};

    const STAT: &str =
        "9 (qemu-kvm) S 1 9 9 0 -1 0 1 0 0 0 1 1 0 0 20 0 1 0 77 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 17 1 0 0 0 0 0\n";

    /// Adds a guest with one of everything.
    pub(crate) fn add_guest(tree: &CapturedTree) {
        let image = tree.path().join("images/web1.qcow2");
        let disk = format!(
            "driver=qcow2,node-name=n0,discard=unmap,detect-zeroes=unmap,file.driver=file,file.aio=native,file.filename=/{}",
            "images/web1.qcow2"
        );
        let words = [
            "/usr/libexec/qemu-system-x86_64",
            "-name",
            "guest=web1",
            "-machine",
            "q35",
            "-accel",
            "kvm:tcg",
            "-cpu",
            "host",
            "-smp",
            "2",
            "-m",
            "4G",
            "-uuid",
            "4a1c2f5e",
            "-object",
            "iothread,id=io1",
            "-object",
            "memory-backend-ram,id=ram,size=4G,host-nodes=0,policy=bind",
            "-device",
            "virtio-balloon-pci",
            "-device",
            "vfio-pci,host=0000:01:00.0",
            "-blockdev",
            &disk,
            "-device",
            "virtio-scsi-pci,id=scsi0,iothread=io1,num_queues=2",
            "-device",
            "scsi-hd,bus=scsi0.0,drive=n0,id=disk0,serial=S1,wwn=7",
            "-netdev",
            "tap,id=n0,fds=27:28,vhost=on",
            "-device",
            "virtio-net-pci,netdev=n0,id=net0,mac=52:54:00:00:00:01",
            "-netdev",
            "tap,id=n1",
            "-device",
            "e1000,netdev=n1,id=net1",
        ];
        tree.write("images/web1.qcow2", "");
        let number = fs::metadata(image).unwrap().dev();
        tree.link(
            &format!("sys/dev/block/{}:{}", libc::major(number), libc::minor(number)),
            "../../devices/virtual/block/dm-3",
        );
        tree.write("proc/9/comm", "qemu-kvm\n");
        tree.write("proc/9/stat", STAT);
        tree.write("proc/9/cmdline", &words.join("\0"));
        tree.write("proc/9/task/10/stat", &STAT.replace("9 (qemu-kvm)", "10 (CPU 1/KVM)"));
        tree.write("proc/9/task/10/status", "Name:\tCPU 1/KVM\nCpus_allowed_list:\t2-3\n");
        tree.write("proc/9/task/11/stat", &STAT.replace("9 (qemu-kvm)", "11 (IO io1)"));
        for (fd, target) in [("5", "anon_inode:kvm-vm"), ("27", "/dev/net/tun"), ("30", "/dev/net/tun")] {
            tree.link(&format!("proc/9/fd/{fd}"), target);
        }
        tree.write("proc/9/fdinfo/27", "pos:\t0\niff:\tvnet0\n");
        tree.write("proc/9/fdinfo/30", "pos:\t0\niff:\ttap0\n");
        let limits: String = [
            "total_iops_sec",
            "read_iops_sec",
            "write_iops_sec",
            "total_bytes_sec",
            "read_bytes_sec",
            "write_bytes_sec",
        ]
        .iter()
        .map(|name| format!("<{name}>120</{name}>"))
        .collect();
        let disk = format!("<disk><iotune>{limits}<group_name>g</group_name></iotune><alias name='disk0'/></disk>");
        for (name, pid) in [("web0", 8), ("web1", 9)] {
            let status = format!("<domstatus pid='{pid}'><domain><devices>{disk}</devices></domain></domstatus>");
            tree.write(&format!("run/libvirt/qemu/{name}.xml"), &status.replace("120", &(pid * 10).to_string()));
        }
    }

    #[test]
    fn the_kernel_knows_the_taps_devices_and_threads_of_a_guest() {
        let tree = CapturedTree::with_files(&[("proc/8/comm", "qemu-nbd\n"), ("proc/8/cmdline", "qemu-nbd\0-c\0")]);
        add_guest(&tree);
        let (outcome, out) = tree.read(&mut *stateless(INFO, read));
        assert_eq!(outcome, Ok(()));
        let [guest] = &out.guest.guest[..] else { panic!("{:?}", out.guest.guest) };
        assert_eq!((guest.name.get(), guest.accelerator.get(), guest.task.start), (Some("web1"), Some("kvm"), 77));
        let cpus: Vec<_> =
            out.guest.guest_cpu.iter().map(|cpu| (cpu.thread.tid, cpu.number.get(), cpu.cpus.get())).collect();
        assert_eq!(cpus, [(10, Some(1.0), Some("2-3"))]);
        let disk = &out.guest.guest_disk[0];
        assert_eq!((disk.host_device.get(), disk.limit_operations.get()), (Some("dm-3"), Some(90.0)));
        let taps: Vec<_> = out.guest.guest_nic.iter().map(|nic| (&*nic.card.name, nic.interface.get())).collect();
        assert_eq!(taps, [("net0", Some("vnet0")), ("net1", Some("tap0"))]);
    }

    /// Starts a stopped guest of two CPUs, whose threads have no names, with a disk and a monitor.
    fn start_qemu(folder: &Path) -> Reaped {
        let image = folder.join("a,b.img");
        fs::write(&image, vec![0; 1 << 20]).unwrap();
        let escaped = |path: &Path| path.display().to_string().replace(',', ",,");
        let drive = format!("file={},format=raw,if=none,id=d0,cache=none,throttling.iops-total=100", escaped(&image));
        let mut qemu = Command::new("qemu-system-x86_64");
        qemu.args(["-name", "guest=wsl,,a", "-S", "-nodefaults", "-display", "none", "-accel", "tcg"]);
        qemu.args(["-smp", "2", "-m", "64", "-object", "iothread,id=io1", "-drive", &drive]);
        qemu.args(["-device", "virtio-blk-pci,drive=d0,id=disk0,iothread=io1", "-device", "virtio-balloon-pci"]);
        qemu.args(["-qmp", &format!("unix:{},server=on,wait=off", escaped(&folder.join("qmp.sock")))]);
        Reaped::spawn(qemu.stdout(Stdio::null()).stderr(Stdio::null()))
    }

    /// Reads the guest until `is_ready` accepts the result.
    fn read_until(pid: u32, what: &str, is_ready: impl Fn(&Snapshot) -> bool) -> Snapshot {
        wait_for(what, || {
            let mut out = Snapshot::default();
            read(&Root::live(), &mut out).unwrap();
            let _ = statistics::read(&Root::live(), &mut out);
            out.guest.guest.retain(|guest| guest.task.pid == pid);
            out.guest.guest_cpu.retain(|cpu| cpu.thread.pid == pid);
            out.guest.guest_disk.retain(|disk| disk.disk.task.pid == pid);
            out.guest.guest_disk_io.retain(|disk| disk.disk.task.pid == pid);
            is_ready(&out).then_some(out)
        })
    }

    fn read_of_monitor(qemu: &Reaped) -> Snapshot {
        // Another test may be querying the monitor at the same moment.
        let is_answered = |out: &Snapshot| {
            let has_memory = out.guest.guest.iter().any(|guest| guest.memory_now.get().is_some());
            has_memory && out.guest.guest_cpu.len() == 2 && !out.guest.guest_disk_io.is_empty()
        };
        read_until(qemu.pid(), "the monitor of QEMU answers", is_answered)
    }

    /// Reads a guest with everything that only QEMU's monitor reports. Returns `None` and skips the test if QEMU is not
    /// installed.
    pub(crate) fn monitored_guest() -> Option<Snapshot> {
        if !has_program("qemu-system-x86_64") {
            skip("qemu-system-x86_64 is not installed");
            return None;
        }
        let folder = whyslow_testing::folder();
        Some(read_of_monitor(&start_qemu(folder.path())))
    }

    #[test]
    fn a_real_qemu_is_a_guest() {
        if !has_program("qemu-system-x86_64") {
            return skip("qemu-system-x86_64 is not installed");
        }
        let folder = whyslow_testing::folder();
        let qemu = start_qemu(folder.path());
        let out = read_of_monitor(&qemu);
        let guest = &out.guest.guest[0];
        assert_eq!(
            (guest.name.get(), guest.accelerator.get(), guest.cpus.get()),
            (Some("wsl,a"), Some("tcg"), Some(2.0))
        );
        assert_eq!(guest.memory_now.get(), Some(67_108_864.0));
        let disk = &out.guest.guest_disk[0];
        let image = folder.path().join("a,b.img");
        assert_eq!((disk.file.get(), disk.cache.get()), (image.to_str(), Some("none")));
        assert_eq!((disk.limit_operations.get(), disk.limit_bytes.get()), (Some(100.0), None));
        assert_eq!(out.guest.guest_disk_io[0].writes.get(), Some(0));
    }

    #[test]
    fn a_monitor_that_has_a_client_is_left_to_it() {
        if !has_program("qemu-system-x86_64") {
            return skip("qemu-system-x86_64 is not installed");
        }
        let folder = whyslow_testing::folder();
        let qemu = start_qemu(folder.path());
        let pid = qemu.pid();
        read_until(pid, "QEMU has its CPUs", |out| out.guest.guest_cpu.len() == 2);
        let mut client = UnixStream::connect(folder.path().join("qmp.sock")).unwrap();
        let out = read_until(pid, "its monitor is in use", |out| out.guest.guest_cpu.is_empty());
        assert_eq!((out.guest.guest_disk_io.len(), out.guest.guest_disk[0].limit_operations.get()), (0, Some(100.0)));
        assert!(
            statistics::read(&Root::live(), &mut Snapshot::default())
                .unwrap_err()
                .why()
                .contains("wsl,a: its monitor is in use")
        );
        // The change of the client is visible once it has disconnected.
        let change = "{'execute':'qmp_capabilities'}{'execute':'block_set_io_throttle','arguments':{'device':'d0','bps':0,'bps_rd':0,'bps_wr':9000,'iops':0,'iops_rd':0,'iops_wr':0}}\n";
        client.write_all(change.as_bytes()).unwrap();
        // The greeting, and one answer per command.
        let answers = BufReader::new(client).lines().take(3).map(Result::unwrap).collect::<Vec<_>>();
        assert!(answers[2].contains("return"), "{answers:?}");
        let limit = |out: &Snapshot| {
            (out.guest.guest_disk[0].limit_operations.get(), out.guest.guest_disk[0].limit_write_bytes.get())
        };
        read_until(pid, "the limit is another one", |out| limit(out) == (None, Some(9000.0)));
    }
}
