use super::*;
use crate::incident::Incident;
use crate::testing::{fixture, row_of};
use std::sync::Arc;
use whyslow_model::catalogue::Meminfo;

/// Returns the files of each tree, with their contents on one line. Leaves out the machine's name, which comes from a
/// prompt.
fn trees(text: &str, strict: bool) -> Result<Vec<Vec<(String, String)>>, Refusal> {
    let mut incident = Incident::new(strict, Arc::default());
    incident.add("x", text.as_bytes())?;
    let contents = incident.done()?;
    let files = |tree: &crate::ProcTree| {
        let mut files = Vec::new();
        collect(&tree.path, &tree.path, &mut files);
        files.retain(|(name, _)| name != "proc/sys/kernel/hostname");
        files.sort();
        files
    };
    Ok(contents.trees.iter().map(files).collect())
}

fn collect(root: &std::path::Path, folder: &std::path::Path, into: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(root, &path, into);
        } else {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            into.push((name, std::fs::read_to_string(&path).unwrap().trim_end().replace('\n', "|")));
        }
    }
}

/// Returns the files of the only tree of a text.
fn files(text: &str) -> Vec<(String, String)> {
    let mut all = trees(text, true).unwrap_or_else(|refusal| panic!("{refusal}"));
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

fn content(files: &[(String, String)], path: &str) -> String {
    files.iter().find(|(name, _)| name == path).map_or("none", |(_, content)| content).to_owned()
}

#[test]
fn lines_of_grep_with_the_names_of_files() {
    let found = files(&fixture("proc-sys-grep.txt"));
    assert_eq!(found.len(), 52);
    assert_eq!(content(&found, "sys/block/vda/queue/scheduler"), "none [mq-deadline] kyber bfq");
    assert_eq!(content(&found, "sys/block/vda/queue/nr_requests"), "256");
    assert_eq!(content(&found, "proc/sys/net/ipv4/tcp_rmem"), "4096\t131072\t33554432");
    // This file is read as text by a format.
    assert_eq!(content(&found, "proc/meminfo"), "none");
}

#[test]
fn headings_of_tail_and_files_at_prompts() {
    let found = files(&fixture("proc-sys-tail.txt"));
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    let queue = ["nr_requests", "read_ahead_kb", "rotational", "scheduler"].map(|f| format!("sys/block/vda/queue/{f}"));
    assert_eq!(names[..2], ["proc/loadavg", "proc/sys/vm/dirty_ratio"]);
    assert_eq!(names[2..], queue);
    let found = files(&fixture("proc-sys-cat.txt"));
    assert_eq!(content(&found, "sys/block/vda/queue/nr_requests"), "256");
    assert_eq!(content(&found, "sys/block/vda/queue/read_ahead_kb"), "8192");
    assert_eq!(content(&found, "proc/sys/vm/dirty_ratio"), "20");
    assert_eq!(content(&found, "sys/block/vda/queue/rotational"), "1");
    assert_eq!(content(&found, "proc/stat"), "none");
}

#[test]
fn bus_addresses_are_part_of_the_name() {
    for (line, path, value) in [
        ("/sys/bus/pci/devices/0000:00:1f.2/irq:16", "/sys/bus/pci/devices/0000:00:1f.2/irq", "16"),
        ("/sys/devices/pci0000:00/0000:00:1f.2/x:1:2", "/sys/devices/pci0000:00/0000:00:1f.2/x", "1:2"),
        (
            "/sys/class/scsi_device/2:0:0:1/device/state:running",
            "/sys/class/scsi_device/2:0:0:1/device/state",
            "running",
        ),
        ("/sys/block/sda/dev:8:0", "/sys/block/sda/dev", "8:0"),
        ("/sys/block/sda/dev: 8:0", "/sys/block/sda/dev", "8:0"),
        ("/proc/sys/vm/swappiness = 60", "/proc/sys/vm/swappiness", "60"),
        ("/proc/net/dev:  eth0: 1", "/proc/net/dev", "  eth0: 1"),
    ] {
        assert_eq!(
            named_line(line).map(|(path, value)| (path, value.trim_start_matches(' '))),
            Some((path, value.trim_start()))
        );
    }
    for line in [
        "/sys/block/sda:",
        "/sys/block/sda/x: Permission denied",
        "/sys/../etc/shadow:x",
        "/etc/passwd:root:x",
        "see /sys/block/sda/dev:8",
    ] {
        assert_eq!(named_line(line), None, "{line}");
    }
}

#[test]
fn a_file_that_comes_twice_is_in_two_trees() {
    let text = "/sys/a:1\n/sys/b:2\n\nThen I changed it:\n\n/sys/a:3\n/sys/c:4\n";
    let of = |files: &[(&str, &str)]| files.iter().map(|(n, c)| ((*n).to_owned(), (*c).to_owned())).collect::<Vec<_>>();
    let found = trees(text, true).unwrap_or_default();
    assert_eq!(found, [of(&[("sys/a", "1"), ("sys/b", "2")]), of(&[("sys/a", "3"), ("sys/c", "4")])]);
}

#[test]
fn names_below_the_folder_of_the_prompt() {
    let of = |text: &str| trees(text, true).unwrap_or_else(|refusal| panic!("{refusal}"));
    let folder = "sys/fs/cgroup/app";
    let one = |name: &str, content: &str| (format!("{folder}/{name}"), content.to_owned());
    let expected = [vec![one("cpu.max", "50000 100000"), one("memory.max", "1073741824")]];
    for text in [
        "# cd /sys/fs/cgroup/app\n# cat memory.max cpu.max\n1073741824\n50000 100000\n",
        "root@web:/sys/fs/cgroup/app# cat memory.max cpu.max\n1073741824\n50000 100000\n",
        "$ cd /sys/fs/cgroup/app && head memory.max cpu.max\n==> memory.max <==\n1073741824\n\n==> cpu.max <==\n50000 100000\n",
        "# cd /sys/fs/cgroup; cd app; grep . memory.max cpu.max\nmemory.max:1073741824\ncpu.max:50000 100000\n",
    ] {
        assert_eq!(of(text), expected, "{text}");
    }
    let several = "# cd /sys/fs/cgroup/app\n# cat memory.max memory.events io.pressure\nmax\nlow 0\nhigh 3\nmax 0\noom 0\n\
        some avg10=0.00 avg60=0.00 avg300=0.00 total=5\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=4\n";
    let files = of(several).concat();
    let names: Vec<&str> = files.iter().map(|(name, _)| name.rsplit('/').next().unwrap()).collect();
    assert_eq!(names, ["io.pressure", "memory.events", "memory.max"]);
    assert!(files[1].1.starts_with("low 0") && files[0].1.starts_with("some avg10"));
    let container = "$ cat /sys/fs/cgroup/cpu.max\n50000 100000\n$ cat /sys/fs/cgroup/memory/memory.failcnt\n12\n";
    let names: Vec<String> = of(container).concat().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["sys/fs/cgroup/container/cpu.max", "sys/fs/cgroup/memory/container/memory.failcnt"]);
    let unnamed = of("It says\n\nnr_periods 1000\nnr_throttled 900\nthrottled_time 123\n\nevery time.\n").concat();
    assert_eq!(unnamed.len(), 1);
    assert_eq!(unnamed[0].0, "sys/fs/cgroup/cpu/container/cpu.stat");
    let unknown = of("# cd ../app\n# cat pids.current pids.max pids.events\n9\n9\nmax 4\n").concat();
    let names: Vec<&str> = unknown.iter().map(|(name, _)| &**name).collect();
    let own = ["pids.current", "pids.events", "pids.max"].map(|name| format!("sys/fs/cgroup/container/{name}"));
    assert_eq!(names, own, "no other file has these names");
    // Outside of /proc and /sys other names are meaningless.
    assert!(trees("# cd /etc/x\n# cat queue_depth weight\n1\n2\n", false).unwrap_or_default().is_empty());
}

#[test]
fn pressure_files_are_told_apart_by_their_first_lines() {
    let of = |text: &str| {
        let files = trees(text, true).unwrap_or_else(|refusal| panic!("{refusal}")).concat();
        let named = |(name, content): (String, String)| {
            (
                name.rsplit('/').next().unwrap().to_owned(),
                content.split("total=").map(|part| part[..1].to_owned()).skip(1).collect::<String>(),
            )
        };
        files.into_iter().map(named).collect::<Vec<_>>()
    };
    let line = |kind: &str, total: u32| format!("{kind} avg10=0.00 avg60=0.00 avg300=0.00 total={total}\n");
    let both = |from: u32| line("some", from) + &line("full", from + 1);
    let files = |named: &[(&str, &str)]| {
        named.iter().map(|(name, totals)| ((*name).to_owned(), (*totals).to_owned())).collect::<Vec<_>>()
    };
    for (command, content, expected) in [
        ("cat /proc/pressure/cpu /proc/pressure/io", both(1) + &both(3), files(&[("cpu", "12"), ("io", "34")])),
        ("cat /proc/pressure/{io,memory}", both(1) + &both(3), files(&[("io", "12"), ("memory", "34")])),
        (
            "cat /proc/pressure/*",
            both(1) + &both(3) + &line("full", 5) + &both(6),
            files(&[("cpu", "12"), ("io", "34"), ("irq", "5"), ("memory", "67")]),
        ),
        (
            "cat /proc/pressure/*",
            line("some", 1) + &both(2) + &both(4),
            files(&[("cpu", "1"), ("io", "23"), ("memory", "45")]),
        ),
    ] {
        assert_eq!(of(&format!("# {command}\n{content}# uptime\n")), expected, "{command}");
    }
}

#[test]
fn files_that_one_line_prints_twice_are_two_copies() {
    let text = "[root@app ~]# cd /sys/fs/cgroup/app; date; cat cpu.stat; free -m; cat cpu.max io.max; sleep 30; date; cat cpu.stat\n\
        Wed Mar 12 10:14:01 CET 2025\nnr_periods 100\nnr_throttled 1\n\
        \x20              total        used        free      shared  buff/cache   available\n\
        Mem:           15906        1234        9000           1        5672       14000\n\
        Swap:              0           0           0\n\
        200000 100000\n8:0 rbps=max wbps=max riops=120 wiops=max\n\
        Wed Mar 12 10:14:31 CET 2025\nnr_periods 400\nnr_throttled 250\n\
        [root@app ~]# uptime\n 10:14:40 up 1 day,  1:00,  1 user,  load average: 1.00, 1.00, 1.00\n";
    let found = trees(text, true).unwrap();
    let of = |at: usize, file: &str| content(&found[at], &format!("sys/fs/cgroup/app/{file}"));
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(
        [of(0, "cpu.stat"), of(1, "cpu.stat")],
        ["nr_periods 100|nr_throttled 1", "nr_periods 400|nr_throttled 250"]
    );
    assert_eq!([of(0, "cpu.max"), of(0, "io.max")], ["200000 100000", "8:0 rbps=max wbps=max riops=120 wiops=max"]);
    assert_eq!(of(1, "cpu.max"), "200000 100000", "a limit is printed once");
}

#[test]
fn a_loop_prints_a_copy_each_time_until_one_cannot_be_printed() {
    let text = "$ while sleep 5; do cat /sys/fs/cgroup/app/memory.current; done\n1000\n2000\n\
        cat: /sys/fs/cgroup/app/memory.current: No such file or directory\n3000\n";
    let found = trees(text, false).unwrap();
    let values: Vec<String> = found.iter().map(|files| content(files, "sys/fs/cgroup/app/memory.current")).collect();
    assert_eq!(values, ["1000", "2000"]);
}

#[test]
fn a_loop_ends_that_prints_a_file_for_a_format_behind_a_margin() {
    let text = "# while true; do cat /proc/meminfo; sleep 1; done\n- MemTotal:       16329156 kB\n\
        - MemFree:         1035944 kB\n- MemAvailable:    2035944 kB\n";
    let memory = row_of::<Meminfo>(text);
    assert_eq!(memory.mem_free.get(), Some(1_035_944.0 * KIB));
}

#[test]
fn values_whose_files_are_not_clear_are_refused() {
    for text in [
        "# cat /sys/block/*/queue/scheduler\n[none]\nnone [bfq]\n",
        "# cat /sys/block/sda/queue/scheduler /sys/block/sdb/queue/scheduler\n[none]\n",
        "# cat /proc/sys/vm/swappiness /proc/stat\n60\ncpu 1 2 3\n",
    ] {
        assert_eq!(trees(text, true).map_err(|refusal| refusal.line), Err(2), "{text}");
    }
}

#[test]
fn lists_of_files_and_hostile_paths_are_no_content() {
    for text in [
        "/sys/block/sda\n/sys/block/sdb\n/sys/block/sdc\n",
        "/sys/../../etc/cron.d/x:1\n",
        "==> /proc/../../tmp/x <==\n1\n",
        "# cat /proc/sys/../../etc/passwd\nroot:x:0:0\n",
        "/sys/block/sda/queue/scheduler\ncat: /sys/block/sda/queue/scheduler: Permission denied\n",
    ] {
        assert!(trees(text, false).unwrap_or_default().is_empty(), "{text}");
    }
}
