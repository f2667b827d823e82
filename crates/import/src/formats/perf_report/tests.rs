use super::*;
use crate::shell_session::ShellSession;
use crate::testing::{fixture, read_text, row_of, window_of};

/// Shares of a program, in per cent: own, in the kernel, spinning, reclaiming, in its hottest function.
fn shares(text: &str, program: &str) -> [f64; 5] {
    let window = window_of(text);
    let programs = window.newest::<Profile>();
    let row = programs.values().find(|row| &*row.program == program).unwrap_or_else(|| panic!("{program}"));
    [row.share, row.kernel, row.spinning, row.reclaim, row.function_share]
        .map(|share| share.get().map_or(f64::NAN, |share| (share * 10_000.0).round() / 100.0))
}

fn words(text: &str, of: impl Fn(&Profile) -> Option<&str>) -> Option<String> {
    of(window_of(text).the::<Profile>().expect("one program")).map(str::to_owned)
}

#[test]
fn a_lock_and_the_function_that_takes_it_in_every_layout() {
    // With 0.13 % in _raw_spin_lock itself.
    let expected = [99.84, 97.98, 17.54, 0.0, 69.23];
    for file in ["perf-report-children.txt", "layouts/perf-report-screen.txt"] {
        let text = fixture(file);
        assert_eq!(shares(&text, "queue-worker"), expected, "{file}");
        assert_eq!(words(&text, |p| p.spinning_in.get()).as_deref(), Some("futex_wake"), "{file}");
        assert_eq!(words(&text, |p| p.function.get()).as_deref(), Some("futex_wake"), "{file}");
    }
    // Call graphs in shares of the caller.
    let text = fixture("layouts/perf-report-fractal.txt");
    assert_eq!(shares(&text, "queue-worker"), [91.12, 91.12, 17.41, 0.0, 69.23]);
    assert_eq!(words(&text, |p| p.spinning_in.get()).as_deref(), Some("futex_wake"));
    let text = fixture("layouts/perf-report-n.txt");
    assert_eq!(shares(&text, "queue-worker"), [96.8, 95.37, 17.41, 0.0, 69.23]);
    assert_eq!(words(&text, |p| p.spinning_in.get()), None, "no call graph");
}

#[test]
fn each_chain_of_a_flat_call_graph_has_its_share_above_it() {
    let text = "
# Children      Self  Command  Shared Object      Symbol
    40.00%    30.00%  app      [kernel.kallsyms]  [k] _raw_spin_lock
           12.00%
                main
                futex_wake
                _raw_spin_lock

           18.00%
                main
                inode_add
                _raw_spin_lock
";
    assert_eq!(words(text, |p| p.spinning_in.get()).as_deref(), Some("inode_add"));
}

#[test]
fn reclaim_is_found_in_the_callers_of_many_small_functions() {
    let text = fixture("perf-report-no-children.txt");
    let [.., reclaim, _] = shares(&text, "report-scan");
    // 64.87 % by the children of try_to_free_mem_cgroup_pages; this list ends at one per cent.
    assert!((40.0..=64.87).contains(&reclaim), "{reclaim}");
    let whose = words(&text, |p| p.reclaim_for.get());
    assert_eq!(whose.as_deref(), Some("its control group, which is at its memory limit"));
}

#[test]
fn programs_without_functions_and_functions_without_programs() {
    let text = fixture("layouts/perf-report-comm-dso.txt");
    let [share, kernel, spinning, ..] = shares(&text, "queue-worker");
    assert_eq!((share, kernel), (50.76, 49.52));
    assert!(spinning.is_nan(), "no symbols");
    let [_, kernel, ..] = shares(&text, "kworker");
    assert_eq!(kernel, 0.41, "workers are one program");
    let [_, kernel, spinning, _, function] = shares(&fixture("layouts/perf-top.txt"), ALL_PROGRAMS);
    assert_eq!((spinning, function), (3.56, 32.75));
    assert_eq!(kernel, 50.7, "as its header says: rows are cut off");
}

#[test]
fn what_does_not_measure_cpu_time_is_left_out() {
    let text = fixture("layouts/perf-report-n.txt");
    for event in ["page-faults", "sched:sched_switch", "cycles:u", "cpu/stalled-cycles/", "LLC-load-misses"] {
        let captures = read_text(&text.replace("cpu-clock:ppp", event)).unwrap();
        assert!(captures.iter().all(|c| c.window.newest::<Profile>().is_empty()), "{event}");
    }
    for event in ["cycles", "cycles:P", "cpu_core/cycles/P", "cycles:ppp", "cpu-clock:pppH"] {
        assert!(is_cpu_time(event), "{event}");
    }
}

#[test]
fn idle_cpus_are_no_program() {
    let named = "    60.00%  swapper  [kernel.kallsyms]  [k] intel_idle\n    \
        30.00%  fio      [kernel.kallsyms]  [k] native_queued_spin_lock_slowpath\n";
    assert_eq!(shares(named, "fio"), [30.0, 30.0, 30.0, 0.0, 30.0]);
    assert_eq!(window_of(named).newest::<Profile>().len(), 1);
    let unnamed = "    60.00%  [kernel]  [k] mwait_idle_with_hints.constprop.0\n    20.00%  [ixgbe]  [k] ixgbe_poll\n";
    assert_eq!(shares(unnamed, ALL_PROGRAMS), [20.0, 20.0, 0.0, 0.0, 20.0]);
}

#[test]
fn columns_that_are_not_known_are_not_guessed() {
    for header in [
        "Overhead  Source:Line",
        "Overhead  Symbol  Command",
        "Overhead",
        "Children  Command",
        "Overhead  Parent symbol",
    ] {
        assert_eq!(TableColumns::parse(header), None, "{header}");
    }
    let all = TableColumns { children: true, numbers: 2, ..TableColumns::UNKNOWN };
    assert_eq!(
        TableColumns::parse("# Children      Self       Samples        Period  Pid:Command  Shared Object  Symbol"),
        Some(all)
    );
    // Shares that add up to more than everything come from several tables, or from other columns.
    let twice = "    60.00%  fio  [kernel]  [k] a\n    70.00%  fio  [kernel]  [k] b\n";
    assert!(read_text(twice).unwrap().iter().all(|c| c.window.newest::<Profile>().is_empty()));
}

#[test]
fn another_tool_s_table_below_is_not_a_call_graph() {
    let text = format!("{}\n  r  b   swpd   free   buff  cache\n", fixture("layouts/perf-report-n.txt"));
    let mut lines = Lines::new("x", text.as_bytes());
    lines.skip(1);
    read(&mut lines, ShellSession::default().context(), &mut ToolRun::new("x", &"x".into())).unwrap();
    assert!(lines.next_is(|line| line.contains("swpd")));
}

#[test]
fn spinning_below_a_call_graph_counts_where_the_list_ends_above_it() {
    let text = "
# Children      Self  Command  Shared Object      Symbol
    60.00%     1.00%  app      [kernel.kallsyms]  [k] do_sys_open
            |
            ---do_sys_open
               |
               |--40.00%--inode_add
               |          _raw_spin_lock
               |          native_queued_spin_lock_slowpath
               |
                --19.00%--may_open
";
    let [_, _, spinning, ..] = shares(text, "app");
    assert_eq!(spinning, 40.0);
    assert_eq!(words(text, |p| p.spinning_in.get()).as_deref(), Some("inode_add"));
}

/// Kernels that map the HPET into programs let them read it there.
#[test]
fn a_slow_clock_is_read_in_the_vdso_too() {
    let share = |text: &str| row_of::<Profile>(text).slow_clock.get().unwrap();
    let rows = |clock: &str| {
        format!(
            "    80.00%  [vdso]    [.] __vdso_gettimeofday\n    10.00%  app       [.] parse\n     4.00%  [kernel]  [k] {clock}\n"
        )
    };
    assert!((share(&rows("read_hpet")) - 0.84).abs() < 1e-9);
    assert_eq!(share(&rows("copy_user")), 0.0);
}

#[test]
fn perf_top_prints_the_kernel_s_share_of_what_it_does_not_list_too() {
    let text = |idle: &str| {
        format!(
            "   PerfTop:    1000 irqs/sec  kernel:90.0%  exact:  0.0% [4000Hz cycles],  (all, 8 CPUs)\n------\n\n    \
             30.00%  [kernel]  [k] copy_user\n    20.00%  [kernel]  [k] {idle}\n     5.00%  app       [.] main\n"
        )
    };
    assert!((row_of::<Profile>(&text("memset")).kernel.get().unwrap() - 0.9).abs() < 1e-9);
    assert!((row_of::<Profile>(&text("intel_idle")).kernel.get().unwrap() - 0.7).abs() < 1e-9);
    let broken = text("memset").replace(" [4000Hz", "\n[4000Hz");
    assert!((row_of::<Profile>(&broken).kernel.get().unwrap() - 0.9).abs() < 1e-9);
}

#[test]
fn a_profile_of_one_cpu_is_not_that_of_the_machine() {
    let text = "# Samples: 39K of event 'cpu-clock:ppp'\n#\n# Overhead  Command  Shared Object      Symbol\n\
        # ........  .......  .................  ......\n#\n    97.98%  fio      [kernel.kallsyms]  [k] futex_wake\n";
    let programs = |text: &str| window_of(text).newest::<Profile>().len();
    assert_eq!(programs(text), 1);
    assert_eq!(programs(&format!("$ perf report --stdio --no-children\n{text}")), 1);
    for command in [
        "$ perf report --stdio -C 3\n",
        "$ perf record -C3 -g; perf report --stdio\n",
        "# cmdline : perf record --cpu=3\n",
    ] {
        assert_eq!(programs(&format!("{command}{text}")), 0, "{command}");
    }
}
