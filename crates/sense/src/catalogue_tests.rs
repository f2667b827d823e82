//! Every metric has a reader: each is read from a captured machine that has one of everything, from this machine under load, or
//! from structures as the kernel could fill them. No content of a file makes any source panic.

use crate::cgroup::live_tests::TestGroup;
use crate::net::conntrack;
use crate::testing::{
    CapturedTree, Damage, LoopDevice, NetnsPair, any_damage, has_bpf, own_tid, reclaim_a_group, run, wait_until_state,
    within,
};
use crate::{INVENTORY, Root, Sampler, task, tcp_info};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::thread;
use whyslow_model::catalogue::{EachFamily, Family, families};
use whyslow_model::snapshot::{ReadOutcome, Snapshot};
use whyslow_model::value::Value;

/// The database of dpkg.
const STATUS: &str = "var/lib/dpkg/status";

pub(crate) const MACHINE: &str = include_str!("../tests/fixtures/machine.txt");

/// Families that the recorder writes.
const OF_RECORDINGS: [&str; 3] = ["finding", "judgement", "sample"];

/// Metrics that only network cards have, depending on the driver (ethtool(8)): the test machine may have none.
const OF_NETWORK_CARDS: [&str; 17] = [
    "driver_counter.count",
    "link.bus",
    "link.channels",
    "link.channels_max",
    "link.numa_node",
    "link.offloads",
    "link.tx_channels",
    "link.coalesce_adaptive_rx",
    "link.coalesce_rx",
    "link.coalesce_rx_frames",
    "link.coalesce_tx",
    "link.duplex",
    "link.ring_rx",
    "link.ring_rx_max",
    "link.ring_tx",
    "link.ring_tx_max",
    "link.speed",
];

/// Metrics that only root can read, of devices that this kernel may not support: device mapper, bridges, VLANs, bonds.
const OF_SOME_KERNELS: [&str; 8] =
    ["link.bond_mode", "link.master", "link.vlan", "mapped.chunk", "mapped.stripes", "mapped.target", "path", "volume"];

/// Metrics of guests whose balloon driver reports them.
const OF_BALLOON_DRIVERS: [&str; 2] = ["guest_memory.swapped_in", "guest_memory.usable"];

/// The metrics for which some row had a value.
#[derive(Default)]
struct Produced(BTreeSet<String>);

impl EachFamily for Produced {
    fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
        for (column, metric) in F::INFO.metrics.iter().enumerate() {
            let has_value = |row: &F| match row.value(column) {
                Some(Value::Counter(counter)) => counter.get().is_some(),
                Some(Value::Gauge(gauge)) => gauge.get().is_some(),
                Some(Value::State(state)) => state.get().is_some(),
                Some(Value::Histogram(histogram)) => histogram.count().is_some(),
                None => false,
            };
            if rows.iter().any(has_value) {
                self.0.insert(format!("{}.{}", F::INFO.name, metric.name));
            }
        }
    }
}

/// Returns the metrics of the catalogue: the family, `FAMILY.METRIC`, and whether only the output of other tools has it.
fn metrics() -> impl Iterator<Item = (&'static str, String, bool)> {
    families().into_iter().flat_map(|family| {
        family.metrics.iter().map(move |metric| {
            let only_captures = family.only_captures || metric.only_captures;
            (family.name, format!("{}.{}", family.name, metric.name), only_captures)
        })
    })
}

impl Produced {
    fn add(&mut self, mut snapshot: Snapshot) {
        snapshot.each_family(self);
    }

    /// Lists the metrics of the catalogue that are missing, apart from those that have no reader here.
    fn missing(&self) -> Vec<String> {
        let elsewhere: Vec<&str> =
            [&OF_RECORDINGS[..], &OF_NETWORK_CARDS, &OF_SOME_KERNELS, &OF_BALLOON_DRIVERS].concat();
        let expected = metrics().filter(|(_, _, only_captures)| !only_captures);
        let expected =
            expected.filter(|(family, name, _)| !elsewhere.contains(family) && !elsewhere.contains(&&**name));
        expected.map(|(_, name, _)| name).filter(|name| !self.0.contains(name)).collect()
    }
}

#[test]
fn every_metric_has_a_reader() {
    if !has_bpf() {
        return;
    }
    let Some(load) = Load::new() else { return };
    let mut produced = Produced::default();
    let Some(guest) = task::monitored_guest() else { return };
    produced.add(guest);
    let tree = CapturedTree::of_text(MACHINE);
    // Block device characteristics: 7200 revolutions per minute.
    tree.write("sys/devices/pci/0:0:1:0/vpd_pgb1", "\0\u{31}\0\u{3c}\u{1c}\u{20}");
    tree.write("sys/devices/pci/0:0:1:0/wwid", "naa.5000C500A1B2C3D4\n");
    tree.write("sys/devices/pci/0:0:1:0/device_busy", "0\n");
    for count in ["iodone_cnt", "ioerr_cnt", "iotmo_cnt"] {
        tree.write(&format!("sys/devices/pci/0:0:1:0/{count}"), "0x1f\n");
    }
    tree.write("sys/class/scsi_host/host0/state", "running\n");
    tree.write("sys/devices/system/cpu/online", "0-3\n");
    tree.write("proc/7/status", "Name:\tdb\nVmSize:\t8 kB\nCpus_allowed_list:\t2\n");
    let mut captured = Sampler::new(tree.root());
    assert!(captured.ask(INVENTORY));
    // This machine may have only one NUMA node.
    assert!(captured.ask("proc/numa_maps"));
    tree.write("sys/devices/system/node/node1/cpulist", "2-3\n");
    tree.write(
        "proc/7/stat",
        "7 (db) D 1 7 7 0 -1 0 11 0 3 0 150 50 1 2 20 0 2 0 900 8192 99999 0 0 0 0 0 0 0 0 0 0 0 0 0 17 1 0 0 4\n",
    );
    tree.write("proc/7/numa_maps", "7f2e40000000 default anon=512 dirty=512 N0=500 N1=12 kernelpagesize_kB=4\n");
    task::add_guest(&tree);
    let bond = "Bonding Mode: IEEE 802.3ad\nCurrently Active Slave: eth1\n802.3ad info\n\tAggregator ID: 1\n";
    let port = "Slave Interface: eth1\nMII Status: up\nSpeed: 1000 Mbps\nDuplex: full\nLink Failure Count: 1\nAggregator ID: 1\n";
    tree.write("proc/net/bonding/bond0", &format!("{bond}\n{port}"));
    produced.add(captured.sample());
    // The wait reason of a thread is read once it has run.
    tree.write("proc/7/task/8/schedstat", "200 40 8\n");
    tree.write(STATUS, "Package: bash\nStatus: install ok installed\nVersion: 5.2\n");
    produced.add(captured.sample());
    // Structures in which every byte is 1.
    let mut ones = task::read_records(&[1; 1024]);
    ones.net.connection.push(tcp_info(&[1; 248]));
    ones.net.namespace_conntrack.extend(conntrack::of_namespace(&tree.root(), &"shop".into()));
    produced.add(ones);

    let mut live = Sampler::new(Root::live());
    let on_demand: Vec<_> = live.sources().map(|source| source.name).collect();
    assert!(on_demand.into_iter().all(|source| live.ask(source)));
    // Not everything appears in every sample.
    for _ in 0..20 {
        load.run();
        produced.add(live.sample());
        if produced.missing().is_empty() {
            break;
        }
    }
    assert_eq!(produced.missing(), Vec::<String>::new(), "read by none");
    let unexpected = metrics().filter(|(_, name, only_captures)| *only_captures && produced.0.contains(name));
    assert_eq!(
        unexpected.map(|(_, name, _)| name).collect::<Vec<_>>(),
        Vec::<String>::new(),
        "declared as captures only"
    );
}

/// Activity for every source to observe.
struct Load {
    netns: NetnsPair,
    disk: LoopDevice,
    _full: FullTmpfs,
    listener: TcpListener,
    receiver: UdpSocket,
    /// A connection whose data is never read, and one that is never accepted, with its listening socket.
    _idle: (TcpStream, TcpStream, TcpStream, TcpListener),
    /// Connections that take up most local ports.
    _many: Vec<TcpStream>,
    /// A control group that has written to a disk, if cgroup version 1 is mounted.
    _writing: Option<(TestGroup, tempfile::NamedTempFile)>,
}

impl Load {
    /// Returns `None` and skips the test if that is not possible here.
    fn new() -> Option<Self> {
        if !reclaim_a_group() {
            return None;
        }
        let (netns, disk) = (NetnsPair::new()?, LoopDevice::new("/tmp", 1 << 20)?);
        let shaper =
            format!("tc -n {} qdisc add dev veth0 root handle 1: tbf rate 50mbit burst 32k latency 100ms", netns.a);
        assert!(run(&shaper), "{shaper}");
        let listen = || within(&netns.b, || TcpListener::bind("10.203.0.2:0").unwrap());
        let (listener, backlogged) = (listen(), listen());
        let receiver = within(&netns.b, || UdpSocket::bind("10.203.0.2:0").unwrap());
        let connect = |to: &TcpListener| {
            let mut client = within(&netns.a, || TcpStream::connect(to.local_addr().unwrap()).unwrap());
            client.write_all(&[7; 1000]).unwrap();
            client
        };
        let server = backlogged.local_addr().unwrap();
        let many = within(&netns.a, || {
            fs::write("/proc/sys/net/ipv4/ip_local_port_range", "40000 40149").unwrap();
            (0..100).map(|_| TcpStream::connect(server).unwrap()).collect()
        });
        let idle = (connect(&listener), listener.accept().unwrap().0, connect(&backlogged), backlogged);
        let writing = TestGroup::new("blkio", &whyslow_testing::name("writing")).map(|mut group| {
            let file = whyslow_testing::file_in("/var/tmp");
            let (path, limit) = (file.path().display(), group.directory.join("blkio.throttle.write_bps_device"));
            // Until some group has a limit on a disk, the kernel does not count the groups' I/O on it.
            let counted = format!("echo $(stat -c %Hd:%Ld {path}) 1000000000 >{}", limit.display());
            let writes = format!("while :; do dd if=/dev/zero of={path} bs=4k count=1 oflag=direct; sleep 0.2; done");
            group.run(&format!("{counted}; {writes}"));
            (group, file)
        });
        let full = FullTmpfs::new();
        Some(Self { netns, disk, _full: full, listener, receiver, _idle: idle, _many: many, _writing: writing })
    }

    fn run(&self) {
        self.use_network();
        self.use_disk();
        wait_for_one_lock();
        write_one_file();
        reclaim_a_group();
        for _ in 0..5 {
            assert!(Command::new("true").status().unwrap().success());
        }
        let mut log = OpenOptions::new().write(true).open("/dev/kmsg").unwrap();
        log.write_all(b"<6>whyslow tests its readers\n").unwrap();
    }

    /// Opens a connection that stays until the next sample and one that ends, and sends datagrams that are never received.
    fn use_network(&self) {
        let to = self.listener.local_addr().unwrap();
        let mut client = within(&self.netns.a, || TcpStream::connect(to).unwrap());
        let mut server = self.listener.accept().unwrap().0;
        server.write_all(&[7; 1000]).unwrap();
        client.read_exact(&mut [0; 1000]).unwrap();
        let sender = within(&self.netns.a, || UdpSocket::bind("10.203.0.1:0").unwrap());
        sender.send_to(&[7; 100], self.receiver.local_addr().unwrap()).unwrap();
        sender.send_to(&[7; 100], "10.203.0.2:9").unwrap();
    }

    fn use_disk(&self) {
        #[repr(align(4096))]
        struct Aligned([u8; 4096]);
        let (disk, mut block) = (self.disk.open_direct(), Aligned([0; 4096]));
        for at in 0..10 {
            disk.write_all_at(&block.0, at * 4096).unwrap();
            disk.read_exact_at(&mut block.0, at * 4096).unwrap();
        }
        disk.sync_all().unwrap();
        fs::read("/bin/true").unwrap();
    }
}

/// Has several threads write one file, so that they wait for its lock in the kernel.
fn write_one_file() {
    let file = tempfile::tempfile().unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..50).for_each(|_| file.write_all_at(&vec![0; 1 << 18], 0).unwrap()));
        }
    });
}

/// Has one thread wait for a lock that another holds.
fn wait_for_one_lock() {
    let lock = Mutex::new(());
    thread::scope(|scope| {
        let held = lock.lock().unwrap();
        let (say, said) = channel();
        let lock = &lock;
        scope.spawn(move || {
            say.send(own_tid()).unwrap();
            drop(lock.lock());
        });
        wait_until_state(&format!("/proc/self/task/{}", said.recv().unwrap()), 'S');
        drop(held);
    });
}

/// A full file system and a file open on it.
struct FullTmpfs {
    folder: tempfile::TempDir,
    _file: File,
}

impl FullTmpfs {
    fn new() -> Self {
        let folder = whyslow_testing::folder();
        let mount = ["-n", "-t", "tmpfs", "-o", "size=64k", "wsl-full"];
        assert!(Command::new("mount").args(mount).arg(folder.path()).status().unwrap().success());
        let mut file = File::create(folder.path().join("file")).unwrap();
        while file.write_all(&[7; 4096]).is_ok() {}
        Self { folder, _file: file }
    }
}

impl Drop for FullTmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-n", "-l"]).arg(self.folder.path()).status();
    }
}

#[derive(Clone, Debug)]
enum Change {
    None,
    Replaced(String),
    Damaged(Damage),
    /// Every number is the largest.
    Huge,
}

impl Change {
    fn apply(self, text: &str) -> String {
        match self {
            Self::None => text.to_owned(),
            Self::Replaced(other) => other,
            Self::Damaged(damage) => damage.apply(text),
            Self::Huge => {
                let words = text.split_inclusive([' ', '\t', '\n', '=']).map(|word| {
                    let number = word.trim_end_matches([' ', '\t', '\n', '=']);
                    let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
                    if is_number { word.replace(number, &u64::MAX.to_string()) } else { word.to_owned() }
                });
                words.collect()
            }
        }
    }
}

/// Files may be truncated, partly overwritten, full of huge numbers, or contain anything.
#[test]
fn no_content_of_files_makes_a_source_panic() {
    let tree = CapturedTree::of_text(MACHINE);
    let files: Vec<(&str, &str)> = CapturedTree::files_in(MACHINE).collect();
    let change = prop_oneof![
        3 => Just(Change::None),
        1 => Just(Change::Huge),
        1 => "\\PC{0,60}".prop_map(Change::Replaced),
        3 => any_damage().prop_map(Change::Damaged),
    ];
    let changes = prop::collection::vec(change, files.len());
    let outcome = TestRunner::new(Config::with_cases(256)).run(&changes, |changes| {
        for ((path, text), change) in files.iter().zip(changes) {
            tree.write(path, &change.apply(text));
        }
        let mut sampler = Sampler::new(tree.root());
        assert!(sampler.ask(INVENTORY));
        for _ in 0..2 {
            let reports = sampler.sample().sources.into_iter();
            let panicked =
                |outcome: &ReadOutcome| matches!(outcome, ReadOutcome::Failed(why) if why.starts_with("panicked"));
            let panics: Vec<_> = reports.filter(|report| panicked(&report.outcome)).collect();
            prop_assert!(panics.is_empty(), "{panics:?}");
        }
        Ok::<(), TestCaseError>(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}
