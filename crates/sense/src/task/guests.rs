//! Virtual machines of QEMU: what their command lines say (qemu(1)), and what the kernel knows better: whether KVM runs them, the names
//! of their taps (`iff` in /proc/PID/fdinfo of tun: drivers/net/tun.c), the devices behind their images, and their CPUs' threads.

use super::stat::Stat;
use crate::root::Root;
use crate::source::SourceInfo;
use crate::source_error::SourceError;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use whyslow_model::catalogue::{Guest, GuestCpu, GuestDisk, GuestNic};
use whyslow_model::key::TaskKey;
use whyslow_model::snapshot::Snapshot;
use whyslow_proc::qemu::{self, GuestConfig, NetworkCard, TapName};

pub(super) const INFO: SourceInfo =
    SourceInfo::new("proc/qemu", "virtual machines: their CPUs, disks and network cards").slow();

/// The longest command lines have a hundred disks.
const LONGEST: u64 = 256 << 10;

pub(super) fn read(root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    for pid in root.list("proc").iter().filter_map(|name| name.parse::<u32>().ok()) {
        let command = root.word(&format!("proc/{pid}/comm"));
        // One that ends meanwhile is no guest any more.
        if let Some(process) = command.filter(|name| qemu::may_be_qemu(name)).and_then(|_| QemuProcess::of(root, pid)) {
            process.add_to(out);
        }
    }
    Ok(())
}

struct QemuProcess<'r> {
    root: &'r Root,
    task: TaskKey,
    config: GuestConfig,
    /// Numbers and targets of its open files; none if they may not be read.
    files: Vec<(u32, String)>,
}

impl<'r> QemuProcess<'r> {
    fn of(root: &'r Root, pid: u32) -> Option<Self> {
        let stat = fs::read(root.at(format!("proc/{pid}/stat"))).ok()?;
        let task = TaskKey { pid, tid: pid, start: Stat::parse(&stat)?.0.start };
        let config = qemu::guest(task, &command_line(root, pid)?)?;
        let folder = format!("proc/{pid}/fd");
        let file = |fd: &String| Some((fd.parse().ok()?, root.link(&format!("{folder}/{fd}"))?));
        let mut files: Vec<(u32, String)> = root.list(&folder).iter().filter_map(file).collect();
        files.sort_unstable();
        Some(Self { root, task, config, files })
    }

    fn add_to(self, out: &mut Snapshot) {
        let group = &mut *out.guest;
        group.guest_cpu.extend(self.cpus());
        group.guest_disk.extend(self.config.disks.iter().map(|disk| self.on_host(disk)));
        group.guest_nic.extend(self.cards());
        group.guest.push(self.guest());
    }

    /// Of several accelerators that were given, the one in use.
    fn guest(&self) -> Guest {
        let mut guest = self.config.guest.clone();
        if !self.files.is_empty() {
            let runs_kvm = self.files.iter().any(|(_, target)| target == "anon_inode:kvm-vm");
            guest.accelerator = if runs_kvm { "kvm" } else { "tcg" }.into();
        }
        guest
    }

    /// The threads called `CPU 0/KVM` or `CPU 0/TCG` (accel/*/*-accel-ops.c), as they are with `-name debug-threads=on`, libvirt's default.
    fn cpus(&self) -> Vec<GuestCpu> {
        let pid = self.task.pid;
        let thread = |name: &String| {
            let (tid, folder) = (name.parse().ok()?, format!("proc/{pid}/task/{name}"));
            let stat = fs::read(self.root.at(format!("{folder}/stat"))).ok()?;
            let (stat, command) = Stat::parse(&stat)?;
            let number: u64 = command.strip_prefix("CPU ")?.split_once('/')?.0.parse().ok()?;
            let status = self.root.maybe(&format!("{folder}/status")).unwrap_or_default();
            let affinity = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
            Some(GuestCpu {
                number: number.into(),
                cpus: affinity.map(str::trim).into(),
                ..GuestCpu::new(TaskKey { pid, tid, start: stat.start })
            })
        };
        self.root.list(&format!("proc/{pid}/task")).iter().filter_map(thread).collect()
    }

    fn on_host(&self, disk: &GuestDisk) -> GuestDisk {
        let device = disk.file.get().filter(|file| file.starts_with('/')).and_then(|file| self.device_of(file));
        GuestDisk { host_device: device.into(), ..disk.clone() }
    }

    /// The block device that this is, or that the file is on, as the process sees it: libvirt gives each a /dev of its own. File systems
    /// on several devices, and those on the network, have none.
    fn device_of(&self, file: &str) -> Option<String> {
        let seen_by = |root: String| fs::metadata(self.root.at(format!("{root}{file}"))).ok();
        let meta = seen_by(format!("proc/{}/root", self.task.pid)).or_else(|| seen_by(".".into()))?;
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
        for card in &self.config.cards {
            rows.push(GuestNic { interface: given(card).into(), ..card.row.clone() });
        }
        // Taps without a card so far belong to those whose names are not given, in the order in which they were opened.
        let is_taken = |name: &String| rows.iter().any(|row| row.interface.get() == Some(name));
        let mut taps: VecDeque<String> = self
            .files
            .iter()
            .filter(|(_, target)| target == "/dev/net/tun")
            .filter_map(|(fd, _)| self.tap(*fd))
            .collect();
        taps.retain(|name| !is_taken(name));
        for (row, card) in rows.iter_mut().zip(&self.config.cards) {
            if card.tap == Some(TapName::Unknown) {
                row.interface = taps.pop_front().into();
            }
        }
        rows
    }

    fn tap(&self, fd: u32) -> Option<String> {
        let text = self.root.maybe(&format!("proc/{}/fdinfo/{fd}", self.task.pid))?;
        text.lines().find_map(|line| line.strip_prefix("iff:")).map(|name| name.trim().to_owned())
    }
}

fn command_line(root: &Root, pid: u32) -> Option<Vec<String>> {
    let mut bytes = Vec::new();
    let file = File::open(root.at(format!("proc/{pid}/cmdline"))).ok()?;
    file.take(LONGEST).read_to_end(&mut bytes).ok()?;
    Some(bytes.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::source::stateless;
    use crate::testing::{CapturedTree, Reaped, has_program, skip, wait_for};
    use std::process::{Command, Stdio};

    const STAT: &str =
        "9 (qemu-kvm) S 1 9 9 0 -1 0 1 0 0 0 1 1 0 0 20 0 1 0 77 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 17 1 0 0 0 0 0\n";

    /// A guest with one of everything.
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
    }

    #[test]
    fn the_kernel_knows_the_taps_devices_and_threads_of_a_guest() {
        let tree = CapturedTree::of(&[("proc/8/comm", "qemu-nbd\n"), ("proc/8/cmdline", "qemu-nbd\0-c\0")]);
        add_guest(&tree);
        let (outcome, out) = tree.read(&mut *stateless(INFO, read));
        assert_eq!(outcome, Ok(()));
        let [guest] = &out.guest.guest[..] else { panic!("{:?}", out.guest.guest) };
        assert_eq!((guest.name.get(), guest.accelerator.get(), guest.task.start), (Some("web1"), Some("kvm"), 77));
        let cpus: Vec<_> =
            out.guest.guest_cpu.iter().map(|cpu| (cpu.thread.tid, cpu.number.get(), cpu.cpus.get())).collect();
        assert_eq!(cpus, [(10, Some(1.0), Some("2-3"))]);
        assert_eq!(out.guest.guest_disk[0].host_device.get(), Some("dm-3"));
        let taps: Vec<_> = out.guest.guest_nic.iter().map(|nic| (&*nic.card.name, nic.interface.get())).collect();
        assert_eq!(taps, [("net0", Some("vnet0")), ("net1", Some("tap0"))]);
    }

    #[test]
    fn a_real_qemu_is_a_guest() {
        if !has_program("qemu-system-x86_64") {
            return skip("qemu-system-x86_64 is not installed");
        }
        let folder = whyslow_testing::folder();
        let image = folder.path().join("a,b.img");
        fs::write(&image, vec![0; 1 << 20]).unwrap();
        let drive =
            format!("file={},format=raw,if=none,id=d0,cache=none", image.display().to_string().replace(',', ",,"));
        let mut qemu = Command::new("qemu-system-x86_64");
        qemu.args(["-name", "guest=wsl,,a,debug-threads=on", "-S", "-nodefaults", "-display", "none", "-accel", "tcg"]);
        qemu.args(["-smp", "2", "-m", "64", "-object", "iothread,id=io1", "-drive", &drive]);
        qemu.args(["-device", "virtio-blk-pci,drive=d0,id=disk0,iothread=io1"]);
        let qemu = Reaped::spawn(qemu.stdout(Stdio::null()).stderr(Stdio::null()));
        let out = wait_for("QEMU has its CPUs", || {
            let mut out = Snapshot::default();
            read(&Root::live(), &mut out).unwrap();
            (out.guest.guest_cpu.iter().filter(|cpu| cpu.thread.pid == qemu.pid()).count() == 2).then_some(out)
        });
        let guest = out.guest.guest.iter().find(|guest| guest.task.pid == qemu.pid()).unwrap();
        assert_eq!(
            (guest.name.get(), guest.accelerator.get(), guest.cpus.get()),
            (Some("wsl,a"), Some("tcg"), Some(2.0))
        );
        let disk = out.guest.guest_disk.iter().find(|disk| disk.disk.task == guest.task).unwrap();
        assert_eq!((disk.file.get(), disk.cache.get()), (image.to_str(), Some("none")));
    }
}
