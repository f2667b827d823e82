use super::*;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;
use std::path::PathBuf;
use whyslow_model::catalogue::System;

/// Member of an archive: its path, the kind of entry, its contents.
type ArchiveMember<'m> = (&'m str, u8, &'m [u8]);

fn tar_of(members: &[ArchiveMember<'_>]) -> Vec<u8> {
    let mut all = Vec::new();
    for (name, kind, contents) in members {
        let mut block = [0_u8; archive::BLOCK];
        block[..name.len()].copy_from_slice(name.as_bytes());
        block[124..135].copy_from_slice(format!("{:011o}", contents.len()).as_bytes());
        block[156] = *kind;
        block[257..263].copy_from_slice(b"ustar\0");
        block[148..156].fill(b' ');
        let sum: u64 = block.iter().map(|b| u64::from(*b)).sum();
        block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        all.extend_from_slice(&block);
        all.extend_from_slice(contents);
        all.resize(all.len().next_multiple_of(archive::BLOCK), 0);
    }
    all.resize(all.len() + 2 * archive::BLOCK, 0);
    all
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

fn gathered(bytes: &[u8]) -> Result<IncidentContents, Refusal> {
    let mut incident = Incident::new(true, Arc::default());
    incident.add("x.tar", bytes)?;
    incident.done()
}

fn files(gathered: &IncidentContents) -> Vec<&str> {
    gathered.captures.iter().flat_map(|c| &c.files).map(String::as_str).collect()
}

const LOG: &[u8] = b"[    2.000000] I/O error, dev sda, sector 1\n";
const STAT: &[u8] = b"cpu  1 2 3 4 5 6 7 8 9 10\n";

#[test]
fn the_known_files_of_an_archive_are_read_compressed_or_not() {
    let long = format!("sos/{}/dmesg", "folder/".repeat(15));
    let pax = format!("{} path={long}\n", long.len() + 10);
    let members: [ArchiveMember<'_>; 6] = [
        ("sos/", b'5', b""),
        ("sos/var/log/messages", b'0', LOG),
        ("sos/etc/passwd", b'0', b"root:x:0:0"),
        ("PaxHeaders/x", b'x', pax.as_bytes()),
        ("sos/short", b'0', LOG),
        ("sos/proc/stat", b'0', STAT),
    ];
    let tar = tar_of(&members);
    for bytes in [tar.clone(), gzip(&tar)] {
        let all = gathered(&bytes).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(files(&all), [format!("x.tar/{long}").as_str(), "x.tar/sos/var/log/messages"]);
        let trees: Vec<&ProcTree> = all.trees.iter().collect();
        assert_eq!((trees.len(), trees[0].name.as_str()), (1, "x.tar/sos"));
        assert_eq!(std::fs::read(trees[0].path.join("proc/stat")).unwrap(), STAT);
    }
}

#[test]
fn a_copy_of_proc_is_known_by_what_stands_in_it() {
    let copy = tar_of(&[("c/stat", b'0', STAT), ("c/meminfo", b'0', b"MemTotal: 1 kB\n"), ("c/net/dev", b'0', b"x")]);
    let all = gathered(&copy).unwrap_or_else(|e| panic!("{e}"));
    let tree = all.trees.iter().next().unwrap();
    assert!(tree.path.join("proc/net/dev").is_file());
    let alone =
        tar_of(&[("c/meminfo", b'0', b"MemTotal:  8167848 kB\nMemFree: 1409696 kB\nMemAvailable: 5407848 kB\n")]);
    let all = gathered(&alone).unwrap_or_else(|e| panic!("{e}"));
    assert!(all.trees.is_empty());
    assert_eq!(files(&all), ["x.tar/c/meminfo"]);
}

#[test]
fn the_files_of_a_supportconfig_are_read_by_section() {
    let folder = whyslow_testing::folder();
    let own = folder.path().join("scc_web_250603_1011");
    std::fs::create_dir(&own).unwrap();
    let rule = "=".repeat(77);
    let section =
        |kind: &str, name: &str, content: &str| format!("#==[ {kind} ]===================#\n# {name}\n{content}\n");
    let vmstat = "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st
 1  0      0 500000  10000 800000    0    0     5    10  100  200  2  1 97  0  0
 3  1      0 490000  10000 800000    0    0     0  2000  900 1800 20 10 60 10  0
 2  0      0 480000  10000 800000    0    0     0  1000  800 1600 10 10 75  5  0
";
    let environment = format!("{rule}\n        Supportutils - Supportconfig\n        Script Version: 3.2.8\n{rule}\n")
        + &section("Command", "/usr/bin/vmstat 1 3", vmstat)
        + &section("Configuration File", "/etc/fstab", "/dev/sda1 / ext4 defaults 0 1");
    std::fs::write(own.join("basic-environment.txt"), environment).unwrap();
    let memory = "MemTotal:       16000000 kB\nMemFree:         1000000 kB\nMemAvailable:    9000000 kB\nBuffers:          100000 kB\n";
    let proc = section("Configuration File", "/proc/meminfo", memory)
        + &section("Configuration File", "/proc/sys/vm/swappiness", "60");
    std::fs::write(own.join("proc.txt"), proc).unwrap();
    let mut incident = Incident::new(true, Arc::default());
    incident.add_folder(folder.path()).unwrap();
    let contents = incident.done().unwrap();
    let windows: Vec<_> = contents.captures.iter().map(|capture| &capture.window).collect();
    let of = |interrupts: f64| {
        windows.iter().any(|w| w.change::<System>().is_some_and(|s| s.rate(|s| s.interrupts) == Some(interrupts)))
    };
    assert!(of(850.0), "{windows:?}");
    let memory = windows.iter().flat_map(|w| w.snapshots()).flat_map(|s| &s.memory.meminfo);
    assert!(memory.map(|m| m.mem_available.get()).any(|available| available == Some(9_000_000.0 * 1024.0)));
    let notes: Vec<_> = windows
        .iter()
        .flat_map(|w| w.snapshots())
        .flat_map(|s| &s.sources)
        .filter(|s| s.tells.contains("left out"))
        .collect();
    assert!(notes.is_empty(), "{notes:?}");
    assert!(!contents.trees.is_empty(), "vm.swappiness");
}

#[test]
fn hostile_archives_lead_nowhere() {
    let hostile: [ArchiveMember<'_>; 6] = [
        ("../../tmp/dmesg", b'0', LOG),
        ("a/proc/../../../stat", b'0', STAT),
        ("a/proc/link", b'2', b""),
        ("a/proc/device", b'3', b""),
        ("a/proc/stat", b'0', STAT),
        ("a/proc/stat/below", b'0', STAT),
    ];
    let all = gathered(&tar_of(&hostile)).unwrap_or_else(|e| panic!("{e}"));
    assert!(all.captures.is_empty());
    let tree = all.trees.iter().next().unwrap().path.clone();
    assert_eq!(
        folder::files(&tree, &ReadMonitor::default(), |_| true)
            .unwrap()
            .0
            .into_iter()
            .map(|f| f.inside)
            .collect::<Vec<_>>(),
        ["proc/stat"]
    );
    drop(all);
    assert!(!tree.exists(), "what was unpacked is removed");
}

#[test]
fn of_a_damaged_archive_what_stands_before_the_damage_is_read() {
    let mut tar = tar_of(&[("sos/dmesg", b'0', LOG), ("sos/kern.log", b'0', LOG)]);
    tar[2 * archive::BLOCK] ^= 1;
    let all = gathered(&tar).unwrap_or_else(|e| panic!("{e}"));
    let notes: Vec<&str> = all.captures[0].window.snapshots()[0].sources.iter().map(|s| &*s.tells).collect();
    assert_eq!(notes, ["x.tar: the rest of the archive"]);
    assert_eq!(files(&all), ["x.tar", "x.tar/sos/dmesg"]);
}

#[test]
fn what_is_packed_in_a_way_not_known_is_refused() {
    for bytes in [b"BZh91AY".as_slice(), b"PK\x03\x04"] {
        let refusal = gathered(bytes).err().expect("it cannot be read");
        assert_eq!(&*refusal.file, "x.tar");
        assert!(refusal.found.contains("unpack it first"), "{refusal}");
    }
}

#[test]
fn an_archive_that_cannot_be_read_does_not_keep_others_from_being_read() {
    let good = gzip(&tar_of(&[("sos/dmesg", b'0', LOG)]));
    let truncated = &good[..5];
    let broken: [&[u8]; 4] = [b"\x1f\x8bgarbage that is no gzip", truncated, b"\xfd7zXZ\0 and no more", b"BZh91AY"];
    for (number, bytes) in broken.into_iter().enumerate() {
        let read = |with_good: bool| {
            let mut incident = Incident::new(false, Arc::default());
            incident.add("broken", bytes)?;
            if with_good {
                incident.add("good", &*good)?;
            }
            incident.done()
        };
        let all = read(true).unwrap_or_else(|e| panic!("{number}: {e}"));
        assert_eq!(files(&all), ["good/sos/dmesg"], "{number}");
        let skipped: Vec<&str> = all.skipped.iter().map(|refusal| &*refusal.file).collect();
        assert_eq!(skipped, ["broken"], "{number}: {:?}", all.skipped);
        let refusal = read(false).err().expect("nothing can be read");
        assert_eq!((&*refusal.file, refusal.found.is_empty()), ("broken", false), "{number}: {refusal}");
    }
}

#[test]
fn a_folder_that_cannot_be_read_or_has_too_much_does_not_keep_others_from_being_read() {
    let folder = whyslow_testing::folder();
    (0..20).for_each(|n| std::fs::write(folder.path().join(format!("messages-{n:02}")), LOG).unwrap());
    let mut incident = Incident::new(false, little(1 << 20, 10));
    incident.add_folder(Path::new("/nonexistent/wsl")).unwrap();
    incident.add_folder(folder.path()).unwrap();
    let all = incident.done().unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(all.skipped.len(), 1, "{:?}", all.skipped);
    let read = files(&all).iter().filter(|file| file.contains("messages-")).count();
    assert_eq!(read, 10);
    let sources = all.captures.iter().flat_map(|c| c.window.snapshots()).flat_map(|s| &s.sources);
    assert!(sources.clone().any(|s| s.tells.contains("the rest of the folder")), "{:?}", sources.collect::<Vec<_>>());
}

#[test]
fn a_compressed_log_is_no_archive() {
    let all = gathered(&gzip(LOG)).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(files(&all), ["x.tar"]);
}

#[test]
fn a_folder_is_read_like_an_archive_and_links_are_not_followed() {
    let folder = whyslow_testing::folder();
    let put = |path: &str, bytes: &[u8]| {
        let path: PathBuf = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    };
    put("var/log/messages", LOG);
    put("etc/shadow", b"secret");
    std::os::unix::fs::symlink("/proc/kmsg", folder.path().join("dmesg")).unwrap();
    std::os::unix::fs::symlink(folder.path(), folder.path().join("circle")).unwrap();
    let mut incident = Incident::new(true, Arc::default());
    incident.add_folder(folder.path()).unwrap();
    let all = incident.done().unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(files(&all), [format!("{}/var/log/messages", folder.path().display())]);
}

#[test]
fn reading_ends_when_it_is_to_stop() {
    let monitor = Arc::new(ReadMonitor::default());
    monitor.stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let refusal = Incident::new(true, monitor).add("x", LOG).unwrap_err();
    assert!(refusal.found.contains("interrupted"));
}

fn little(unpacked: u64, members: u64) -> Arc<ReadMonitor> {
    Arc::new(ReadMonitor::within(monitor::ReadLimits { unpacked, members, cpu_ns: u64::MAX }))
}

/// Reads bytes as `x` within limits. Returns the error message if that fails.
fn fails(bytes: &[u8], monitor: &Arc<ReadMonitor>) -> String {
    let mut incident = Incident::new(true, Arc::clone(monitor));
    let read = incident.add("x", bytes).and_then(|()| incident.done().map(|_| ()));
    read.err().map(|refusal| refusal.to_string()).unwrap_or_default()
}

#[test]
fn what_unfolds_to_more_than_is_read_is_an_error_however_it_is_packed() {
    let flood = LOG.repeat(30_000);
    let packed = gzip(&flood);
    let inside = tar_of(&[("sos/var/log/messages-1.gz", b'0', &packed)]);
    let twice = gzip(&inside);
    for (what, bytes) in [("gzip", &packed), ("gzip in tar", &inside), ("gzip in tar in gzip", &twice)] {
        let said = fails(bytes, &little(1 << 20, 10));
        assert!(said.contains("x") && said.contains("more than 1 MiB unpacked"), "{what}: {said}");
        assert_eq!(fails(bytes, &Arc::default()), "", "{what}");
    }
}

#[test]
fn more_files_than_are_looked_at_are_an_error() {
    let files: Vec<(String, &[u8])> = (0..20).map(|n| (format!("sos/var/log/messages-{n}"), LOG)).collect();
    let files: Vec<ArchiveMember<'_>> = files.iter().map(|(name, text)| (name.as_str(), b'0', *text)).collect();
    let said = fails(&tar_of(&files), &little(1 << 20, 10));
    assert!(said.contains("more than 10 files"), "{said}");
    let folder = whyslow_testing::folder();
    (0..20).for_each(|n| std::fs::write(folder.path().join(n.to_string()), b"").unwrap());
    let refusal = Incident::new(true, little(1 << 20, 10)).add_folder(folder.path()).unwrap_err();
    assert!(refusal.to_string().contains("more than 10 files"), "{refusal}");
}

#[test]
fn more_cpu_time_than_is_taken_is_an_error() {
    let monitor = Arc::new(ReadMonitor::within(monitor::ReadLimits { cpu_ns: 0, ..monitor::ReadLimits::default() }));
    let said = fails(LOG, &monitor);
    assert!(said.contains("CPU time") && said.contains("give"), "{said}");
}

#[test]
fn folders_that_are_made_count_as_files() {
    let deep = |n: usize| format!("sos/proc/net/{n}/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q");
    let files: Vec<String> = (0..1500).map(deep).collect();
    let files: Vec<ArchiveMember<'_>> = files.iter().map(|name| (name.as_str(), b'0', b"x".as_slice())).collect();
    let said = fails(&tar_of(&files), &Arc::default());
    assert!(said.contains("more than 20000 files"), "{said}");
}
