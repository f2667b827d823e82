//! Test data: a machine with hostile names, and its screen as text.

use crate::app::{App, Event, Request, ScreenOptions};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::time::Duration;
use whyslow_documents::diagnosis::{Diagnosis, NotCleared, Origin, TimeSpan, Verdict};
use whyslow_model::catalogue::*;
use whyslow_model::histogram::Histogram;
use whyslow_model::key::{LinkKey, MachineKey, NetKey, OperationKey, PerCpu, RequesterKey, SocketKey, TaskKey};
use whyslow_model::snapshot::Snapshot;

pub(crate) const SECOND: u64 = 1_000_000_000;
/// Clears the screen, reverses the text direction, breaks the line, and has letters that are two columns wide.
pub(crate) const HOSTILE: &str = "\u{1b}[2J\u{202e}evil\n日本";

pub(crate) fn task(pid: u32) -> TaskKey {
    TaskKey { pid, tid: pid, start: u64::from(pid) }
}

pub(crate) fn net(name: &str) -> NetKey {
    NetKey { ns: "".into(), name: name.into() }
}

pub(crate) fn socket() -> SocketKey {
    let [local, remote] = ["10.0.0.1:5432", "10.0.0.2:40000"].map(|address| address.parse().unwrap());
    SocketKey { ns: "".into(), local, remote, inode: 7 }
}

/// Builds a sample of the machine after `t` seconds. `postgres` (42) uses half a CPU, waits for a CPU as long, and is blocked by
/// the journal of sda at each sample. `worker` (50) has two threads.
pub(crate) fn sample(t: u64) -> Snapshot {
    let mut s = Snapshot { boot_ns: (100 + t) * SECOND, wall_ns: 3_600 * 1_000_000_000, ..Snapshot::default() };
    s.wall_ns += (t * SECOND) as i64;
    s.kernel.machine.push(MachineInfo { name: "db-1".into(), processors: 2.0.into(), ..MachineInfo::new(MachineKey) });
    for cpu in 0..2 {
        s.processor.cpu.push(Cpu {
            user: (t * SECOND / 4).into(),
            system: (t * SECOND / 4).into(),
            idle: (t * SECOND / 2).into(),
            iowait: 0_u64.into(),
            ..Cpu::new(cpu)
        });
    }
    let pressure = Pressure {
        cpu_some: (t * SECOND / 4).into(),
        memory_some: 0_u64.into(),
        io_some: (t * SECOND).into(),
        ..Pressure::new(MachineKey)
    };
    s.processor.pressure.push(pressure);
    s.processor.irq.push(Irq {
        count: (t * 500).into(),
        device: "nvme0q1".into(),
        ..Irq::new(PerCpu { name: "24".into(), cpu: 0 })
    });
    s.memory.meminfo.push(Meminfo {
        mem_total: (8_u64 << 30).into(),
        mem_available: (3_u64 << 30).into(),
        ..Meminfo::new(MachineKey)
    });
    disks(&mut s, t);
    network(&mut s, t);
    tasks(&mut s, t);
    // I/O to the volume also goes to the disk below it.
    for device in ["sda", "dm-0"] {
        let link = LinkKey { upper: "/db.slice".into(), lower: device.into() };
        s.cgroup.group_io.push(GroupIo {
            read_bytes: (t * 409_600).into(),
            write_bytes: (t * 8192).into(),
            ..GroupIo::new(link)
        });
    }
    for path in ["/db.slice", "/web.slice"] {
        s.cgroup.group.push(Group {
            cpu_usage: (t * SECOND / 2).into(),
            psi_io_some: (t * SECOND / 10).into(),
            memory: (1_u64 << 30).into(),
            ..Group::new(path.into())
        });
    }
    s.sort();
    s
}

fn disks(s: &mut Snapshot, t: u64) {
    for device in ["sda", "sda1"] {
        s.block.disk.push(Disk {
            reads: (t * 100).into(),
            writes: (t * 100).into(),
            read_bytes: (t * 4096 * 100).into(),
            write_bytes: (t * 4096 * 100).into(),
            // 200 requests per second, 20 ms each: four in flight.
            read_time: (t * 2 * SECOND).into(),
            write_time: (t * 2 * SECOND).into(),
            weighted_time: (t * 4 * SECOND).into(),
            busy_time: (t * SECOND).into(),
            ..Disk::new(device.into())
        });
    }
    for (upper, lower, kind) in [("sda1", "sda", "partition"), ("dm-0", "sda1", "dm")] {
        let link = LinkKey { upper: upper.into(), lower: lower.into() };
        s.block.layer.push(Layer { kind: kind.into(), ..Layer::new(link) });
    }
    s.block.mount.push(Mount { device: "sda1".into(), kind: "ext4".into(), ..Mount::new("/srv".into()) });
    s.block.queue.push(Queue { scheduler: "none".into(), model: "ACME disk".into(), ..Queue::new("sda".into()) });
    let on = OperationKey { device: "sda".into(), operation: "read".into() };
    let times = |ns: u64| Histogram::from_values(std::iter::repeat_n(ns, usize::try_from(t).unwrap()));
    s.block.request.push(whyslow_model::catalogue::Request {
        queue_time: times(3_000_000),
        device_time: times(9_000_000),
        ..whyslow_model::catalogue::Request::new(on.clone())
    });
    let user = RequesterKey { on, task: task(42), cgroup: "/db.slice".into() };
    s.block.requester.push(Requester {
        command: "postgres".into(),
        requests: (t * 100).into(),
        bytes: (t * 409_600).into(),
        queue_time: (t * SECOND).into(),
        device_time: (t * SECOND).into(),
        ..Requester::new(user)
    });
}

fn network(s: &mut Snapshot, t: u64) {
    for name in ["lo", "eth0"] {
        s.net.interface.push(Interface {
            rx_bytes: (t * 125_000).into(),
            tx_bytes: (t * 250_000).into(),
            rx_packets: (t * 100).into(),
            tx_packets: (t * 200).into(),
            rx_dropped: (t * 5).into(),
            tx_dropped: 0_u64.into(),
            ..Interface::new(net(name))
        });
    }
    s.net.link.push(Link { speed: 1e9.into(), mtu: 1500.0.into(), ..Link::new(net("eth0")) });
    s.net.connection.push(Connection {
        pid: 42.0.into(),
        interface: "eth0".into(),
        bytes_acked: (t * 125_000).into(),
        bytes_received: (t * 12_500).into(),
        rwnd_limited: (t * SECOND / 2).into(),
        rtt: 2e6.into(),
        segments_out: (t * 100).into(),
        retransmits: (t * 3).into(),
        ..Connection::new(socket())
    });
}

fn tasks(s: &mut Snapshot, t: u64) {
    let row = |pid: u32, name: &str, group: &str, busy: u64| ProcessRow {
        command: name.into(),
        state: "S".into(),
        cgroup: group.into(),
        user: (t * SECOND * busy / 100).into(),
        system: 0_u64.into(),
        run_delay: 0_u64.into(),
        rss: (1_u64 << 20).into(),
        threads: 1.0.into(),
        read_bytes: 0_u64.into(),
        write_bytes: 0_u64.into(),
        ..ProcessRow::new(task(pid))
    };
    let postgres = ProcessRow {
        state: "D".into(),
        wait_channel: "jbd2_log_wait_commit".into(),
        run_delay: (t * SECOND / 2).into(),
        ..row(42, "postgres", "/db.slice", 50)
    };
    let worker =
        ProcessRow { run_delay: (t * SECOND / 2).into(), threads: 2.0.into(), ..row(50, "worker", "/web.slice", 20) };
    let all = [postgres, worker, row(66, HOSTILE, "/web.slice", 10), row(7, "idle", "/", 0)];
    s.task.process.extend(all.map(Process::from));
    for tid in [50, 51] {
        s.task.thread.push(Thread {
            command: format!("worker/{tid}").into(),
            state: "R".into(),
            user: (t * SECOND / 10).into(),
            system: 0_u64.into(),
            run_delay: (t * SECOND / 4).into(),
            ..Thread::new(TaskKey { pid: 50, tid, start: 50 })
        });
    }
}

/// Builds a diagnosis without a cause, with `because` as its only text.
pub(crate) fn diagnosis(because: &str) -> Diagnosis {
    Diagnosis {
        not_cleared: vec![NotCleared { id: "cpu".into(), because: because.into(), during: None }],
        ..Diagnosis::new(Verdict::Undetermined, TimeSpan::new(Origin::Live, 10.0, 11))
    }
}

/// Builds the live screen after a number of samples, one per second.
pub(crate) fn live(samples: u64) -> App {
    let mut app = App::new(ScreenOptions { interval: Some(Duration::from_secs(1)), colour: false, utc: true });
    for t in 0..samples {
        app.handle(Event::Sample(Box::new(sample(t))));
    }
    app
}

pub(crate) fn key(code: KeyCode) -> Event {
    Event::Key(KeyEvent::new(code, KeyModifiers::NONE))
}

/// Types letters. Returns the last request.
pub(crate) fn press(app: &mut App, letters: &str) -> Option<Request> {
    letters.chars().filter_map(|letter| app.handle(key(KeyCode::Char(letter)))).last()
}

/// Draws the screen. Returns its lines without trailing blanks.
pub(crate) fn screen(app: &mut App, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| app.draw(frame)).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let cells: Vec<&str> = buffer.content().iter().map(|cell| cell.symbol()).collect();
    cells.chunks(usize::from(width.max(1))).map(|row| row.concat().trim_end().to_owned()).collect()
}

/// Returns the first line that contains all of the words.
pub(crate) fn line<'s>(screen: &'s [String], words: &[&str]) -> &'s str {
    let found = screen.iter().find(|line| words.iter().all(|word| line.contains(word)));
    found.unwrap_or_else(|| panic!("no line with {words:?} in\n{}", screen.join("\n")))
}
