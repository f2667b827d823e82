//! ps(1): a snapshot of processes, whose CPU use is an average over their lifetimes.

use super::task_table::{TaskColumns, TaskKind, read_tasks};
use crate::prelude::*;

pub const FORMAT: Format = Format {
    name: "ps",
    versions: "procps 2 to 4: aux, -ef, -el, -elf, forests, -o with the process and its command; threads by -L, -T, -m",
    shows: "processes and threads, their memory and state; of virtual machines of QEMU, the name and the disks",
    lacks: "current CPU use: C and %CPU are averages over each process's lifetime",
    programs: &[partly_read("ps")],
    files: &["ps"],
    starts: |lines| lines.next_is(|line| TaskColumns::parse(line).is_some()),
    read,
    ..Format::NEW
};

/// Assumed length of a lifetime; no rate depends on it.
const LIFETIME: ReportInterval = ReportInterval { from: 0.0, to: 1.0 };

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let Some(columns) = lines.peek(0).and_then(TaskColumns::parse) else { return Ok(()) };
    lines.skip(1);
    read_tasks(lines, run, LIFETIME, &columns, TaskKind::Unknown)?;
    run.note(
        "current CPU use",
        "ps shows an average over each process's lifetime",
        "add the output of: top -H -b -n 2",
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::{fixture, window_of};
    use whyslow_model::catalogue::{Guest, GuestDisk, Process, Thread};

    #[test]
    fn threads_of_the_process_above_them() {
        let window = window_of(&fixture("cpu-ps-elfm.txt"));
        let threads: Vec<f64> =
            window.changes::<Thread>().iter().map(|t| t.rate(|t| t.cpu_time).unwrap() / 1e9).collect();
        assert_eq!(threads, [0.0, 0.64, 0.64]);
        assert_eq!(window.the::<Process>().unwrap().command.get(), Some("CPU_load_count"));
    }

    #[test]
    fn memory_is_read_by_process() {
        let window = window_of(&fixture("cases/033-oom-mail-client-leak/ps.txt"));
        let largest =
            window.newest::<Process>().into_values().max_by(|a, b| a.rss.get().partial_cmp(&b.rss.get()).unwrap());
        assert_eq!(largest.unwrap().command.get(), Some("evolution"));
    }

    #[test]
    fn threads_with_their_numbers() {
        let text = "UID        PID  PPID   LWP  C NLWP STIME TTY          TIME CMD\n\
            root       812     1   812  0    3 Nov24 ?        00:00:45 /usr/sbin/java -jar x.jar\n\
            root       812     1   901 97    3 Nov24 ?        09:00:00 /usr/sbin/java -jar x.jar\n\
            root       812     1   902  1    3 Nov24 ?        00:00:10 /usr/sbin/java -jar x.jar\n\
            root       950     1   950  2    2 Nov24 ?        00:00:10 sshd: x\n";
        let window = window_of(text);
        let threads = window.changes::<Thread>();
        let busy: Vec<(u32, f64)> =
            threads.iter().map(|t| (t.key().tid, t.rate(|t| t.cpu_time).unwrap() / 1e9)).collect();
        assert_eq!(busy, [(812, 0.0), (901, 0.97), (902, 0.01), (950, 0.02)]);
        let processes = window.changes::<Process>();
        let java = processes.iter().find(|p| p.key().pid == 812).unwrap();
        assert_eq!((java.last().command.get(), java.last().threads.get()), (Some("java"), Some(3.0)));
        assert!((java.rate(|p| p.cpu_time).unwrap() / 1e9 - 0.98).abs() < 1e-6, "their sum");
        let sshd = processes.iter().find(|p| p.key().pid == 950).unwrap();
        assert_eq!(sshd.rate(|p| p.cpu_time), None, "its second thread was cut out");
    }

    /// Captures of a program with one busy thread, whose first thread only waits: procps 4.0 shows the use of the whole process
    /// for it.
    #[test]
    fn a_first_thread_that_may_be_the_whole_process_is_left_out() {
        for (file, parser) in [("layouts/ps-Lf.txt", 0.89), ("layouts/ps-L-o.txt", 0.896)] {
            let window = window_of(&fixture(file));
            let threads = window.changes::<Thread>();
            let busy: Vec<Option<f64>> = threads.iter().map(|t| t.rate(|t| t.cpu_time).map(|ns| ns / 1e9)).collect();
            assert_eq!(busy, [None, Some(parser), Some(0.0)], "{file}");
        }
        let window = window_of(&fixture("layouts/ps-L-o.txt"));
        let threads = window.newest::<Thread>();
        let of: Vec<_> = threads.values().map(|t| (t.command.get(), t.wait_channel.get(), t.processor.get())).collect();
        let expected = [
            (Some("indexer"), Some("futex_do_wait"), Some(1.0)),
            (Some("parser"), None, Some(1.0)),
            (Some("flusher"), Some("hrtimer_nanosleep"), Some(0.0)),
        ];
        assert_eq!(of, expected);
    }

    #[test]
    fn columns_in_any_order() {
        let text = "STAT   PID WCHAN                COMMAND         %CPU                  STARTED\n\
            D    26730 rpc_wait_bit_killabl cp              15.2 Wed Nov 25 14:42:22 2026\n\
            Ss    3223 ep_poll              Web Content      2.2 Wed Nov 25 14:42:22 2026\n";
        let window = window_of(text);
        let processes = window.newest::<Process>();
        let of: Vec<_> = processes.values().map(|p| (p.command.get(), p.state.get(), p.wait_channel.get())).collect();
        let expected =
            [(Some("Web Content"), Some("S"), Some("ep_poll")), (Some("cp"), Some("D"), Some("rpc_wait_bit_killabl"))];
        assert_eq!(of, expected);
        let dated = "%CPU   PID                  STARTED COMMAND\n15.2  3223 Wed Nov 25 14:42:22 2026 [kworker/0:1]\n";
        let window = window_of(dated);
        assert_eq!(window.the::<Process>().unwrap().command.get(), Some("kworker/0:1"));
    }

    #[test]
    fn process_and_command_suffice() {
        let text = "  PID   RSS COMMAND\n 1234 8123456 java -Xmx7g\n   77    2044 sshd\n";
        let window = window_of(text);
        let rows = window.newest::<Process>();
        let of: Vec<_> = rows.values().map(|p| (p.task.pid, p.command.get(), p.rss.get())).collect();
        assert_eq!(of, [(77, Some("sshd"), Some(2044.0 * 1024.0)), (1234, Some("java"), Some(8_123_456.0 * 1024.0))]);
        assert!(crate::testing::read_text("PID FD COMMAND\n1 2 x\n").is_err());
    }

    #[test]
    fn a_forest_is_no_command() {
        let text = "USER       PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND\n\
            root         2  0.0  0.0      0     0 ?        S    Nov24   0:00 [kthreadd]\n\
            root       904 12.0  0.0      8     4 ?        S    Nov24   0:00  |   \\_ /bin/sh -c x\n";
        let window = window_of(text);
        let processes = window.newest::<Process>();
        let names: Vec<_> = processes.values().map(|p| (p.command.get(), p.kernel_thread.get())).collect();
        assert_eq!(names, [(Some("kthreadd"), Some(1.0)), (Some("sh"), Some(0.0))]);
    }

    #[test]
    fn a_process_of_qemu_runs_a_virtual_machine() {
        let text = "UID          PID    PPID  C STIME TTY          TIME CMD\n\
            libvirt+    1201       1 12 Nov24 ?        01:00:00  \\_ /usr/bin/qemu-system-x86_64 -name guest=db,debug-threads=on -S \
            -blockdev {\"driver\":\"file\",\"filename\":\"/srv/db.img\",\"node-name\":\"n\"} \
            -device {\"driver\":\"virtio-blk-pci\",\"drive\":\"n\",\"id\":\"virtio-disk0\",\"serial\":\"DB1\"} -m\n\
            root        1300       1  0 Nov24 ?        00:00:00 qemu-system-x86_64\n";
        let window = window_of(text);
        let disk = window.the::<GuestDisk>().unwrap();
        assert_eq!((disk.file.get(), disk.serial.get(), disk.disk.task.pid), (Some("/srv/db.img"), Some("DB1"), 1201));
        let guest = window.the::<Guest>().unwrap();
        assert_eq!((guest.name.get(), guest.memory.get(), guest.accelerator.get()), (Some("db"), None, None));
    }
}
