//! Profiles as text, as folded stacks and as flame graphs, and hostile names in them.

use proptest::prelude::*;
use whyslow_documents::diagnosis::BlindSpot;
use whyslow_documents::profile::{Frame, ProfileKind, ProfiledProcess, SCHEMA, Space, Stack, StackProfile, Totals};
use whyslow_show::escape::is_deceptive;
use whyslow_show::flame::{folded, svg};
use whyslow_show::text::{self, TextStyle};

const PLAIN: TextStyle = TextStyle { width: 80, colour: false, all: false, utc: true };

fn frame(function: Option<&str>, module: Option<&str>, space: Space, inlined: bool) -> Frame {
    Frame { function: function.map(Into::into), module: module.map(Into::into), space, inlined }
}

/// Returns a profile of a program that sums, copies, and calls into a library without symbols.
fn profile() -> StackProfile {
    let user = |name, inlined| frame(Some(name), Some("/usr/bin/toy"), Space::User, inlined);
    let toy = ProfiledProcess { pid: 812, name: "toy".into() };
    let stack = |frames: &[u32], weight| Stack { process: toy.clone(), frames: frames.to_vec(), weight };
    StackProfile {
        schema: SCHEMA.into(),
        kind: ProfileKind::OnCpu,
        process: Some(toy.clone()),
        finding: None,
        seconds: 2.0,
        hz: Some(99),
        cpus: Some(2),
        totals: Totals { programs: 100, cut_short: 20, ..Totals::default() },
        frames: vec![
            user("main", false),
            user("sum", false),
            user("add<int>", true),
            frame(Some("copy_to_user"), None, Space::Kernel, false),
            frame(None, Some("/usr/lib/libc.so.6"), Space::User, false),
            frame(None, None, Space::User, false),
        ],
        stacks: vec![stack(&[0, 1, 2], 60), stack(&[0, 4, 3], 30), stack(&[0, 1], 9), stack(&[5], 1)],
        blind_spots: vec![BlindSpot {
            what: "who called whom, in 20 % of the samples".into(),
            why: "the stacks are cut short".into(),
            remedy: "build with -fno-omit-frame-pointer".into(),
        }],
    }
}

#[test]
fn the_screen_at_80_columns() {
    let expected = "\
on-CPU profile of toy (pid 812), 2 s at 99 Hz
100 samples: 0.51 of 2 CPUs on average

Functions
   self    all
   60 %   60 %  add<int> (inlined)  toy
   30 %   30 %  copy_to_user  kernel
    9 %   69 %  sum  toy
    1 %    1 %  [unknown]
    0 %   99 %  main  toy
    0 %   30 %  [libc.so.6]

Heaviest stacks
   60 %  toy (pid 812), 60 samples
         main → sum → add<int> (inlined)
   30 %  toy (pid 812), 30 samples
         main → [libc.so.6] → copy_to_user
    9 %  toy (pid 812), 9 samples
         main → sum
    1 %  toy (pid 812), 1 sample
         [unknown]

Not seen
  who called whom, in 20 % of the samples: the stacks are cut short → build with
    -fno-omit-frame-pointer
";
    let drawn = text::profile(&profile(), &PLAIN);
    assert_eq!(drawn, expected, "{drawn}");
}

#[test]
fn waits_are_told_in_time() {
    let waits = StackProfile { kind: ProfileKind::OffCpu, hz: None, cpus: None, seconds: 1e-4, ..profile() };
    let drawn = text::profile(&waits, &PLAIN);
    assert!(drawn.contains("100 µs waited: 1.00 threads at any time"), "{drawn}");
    assert!(drawn.contains("toy (pid 812), 60.0 µs"), "{drawn}");
}

#[test]
fn a_profile_without_samples_says_so() {
    let nothing = StackProfile { stacks: Vec::new(), ..profile() };
    assert!(text::profile(&nothing, &PLAIN).contains("Nothing ran"));
    assert_eq!(folded(&nothing), "");
    assert!(svg(&nothing).ends_with("</svg>\n"));
}

#[test]
fn a_deep_stack_shows_its_ends_unless_all_is_asked_for() {
    let mut deep = profile();
    deep.frames = (0..40).map(|n| frame(Some(&format!("f{n}")), None, Space::User, false)).collect();
    deep.stacks =
        vec![Stack { process: ProfiledProcess { pid: 1, name: "deep".into() }, frames: (0..40).collect(), weight: 1 }];
    let drawn = text::profile(&deep, &PLAIN);
    assert!(drawn.contains("f0 → f1 → f2 → (28 more) → f31 → "), "{drawn}");
    assert!(text::profile(&deep, &TextStyle { all: true, ..PLAIN }).contains("f20 → f21"));
}

#[test]
fn folded_lines_are_what_flame_graph_tools_read() {
    assert_eq!(
        folded(&profile()),
        "toy;[unknown] 1\n\
         toy;main;[libc.so.6];copy_to_user_[k] 30\n\
         toy;main;sum 9\n\
         toy;main;sum;add<int>_[i] 60\n"
    );
}

#[test]
fn processes_of_one_name_fold_into_one_line() {
    let mut workers = profile();
    workers.stacks[3].process.pid = 813;
    workers.stacks.push(Stack {
        process: ProfiledProcess { pid: 814, name: "toy".into() },
        frames: vec![5],
        weight: 4,
    });
    assert!(folded(&workers).starts_with("toy;[unknown] 5\n"));
}

#[test]
fn a_flame_graph_is_as_wide_as_its_weights() {
    let drawn = svg(&profile());
    // 1200 pixels minus two margins are the total; main has 99 of 100.
    assert!(drawn.contains("<title>all\n100 samples, 100 %</title><rect class=\"p\" x=\"10.00\""), "{drawn}");
    assert!(drawn.contains("<title>main\ntoy\n99 samples, 99 %</title>"), "{drawn}");
    assert!(drawn.contains("width=\"1180.00\"") && drawn.contains("width=\"1168.20\""), "{drawn}");
    assert!(drawn.contains("<title>add&lt;int&gt;\ninlined, toy\n60 samples, 60 %</title><rect class=\"i"), "{drawn}");
    assert!(drawn.contains("Not seen: who called whom"), "{drawn}");
}

#[test]
fn what_is_too_narrow_to_be_seen_is_left_out() {
    let mut wide = profile();
    wide.stacks[0].weight = 10_000_000;
    assert!(!svg(&wide).contains("[unknown]"));
}

proptest! {
    #[test]
    fn hostile_names_are_text_everywhere(name in ".*", module in ".*", process in ".*") {
        let mut hostile = profile();
        hostile.frames[0] = frame(Some(&name), Some(&module), Space::User, false);
        hostile.frames[4].module = Some(module);
        hostile.stacks[0].process.name = process;
        let lines = folded(&hostile);
        prop_assert!(!lines.contains(|c| c != '\n' && is_deceptive(c)));
        for line in lines.lines() {
            let (stack, weight) = line.rsplit_once(' ').unwrap();
            prop_assert!(weight.parse::<u64>().is_ok());
            prop_assert!(stack.split(';').count() <= 4, "{}", line);
        }
        let drawn = svg(&hostile);
        let body = &drawn[drawn.find("<g id=\"graph\"").unwrap()..drawn.find("<script>").unwrap()];
        prop_assert!(!body.contains(|c| c != '\n' && is_deceptive(c)));
        prop_assert_eq!(body.matches('<').count(), body.matches('>').count());
        // A frame is a group with title, rectangle and text; the groups' own tags come on top.
        let blocks = body.matches("<g class=\"block\">").count();
        prop_assert_eq!(body.matches('<').count(), blocks * 7 + 2);
        let screen = text::profile(&hostile, &PLAIN);
        prop_assert!(!screen.contains(|c| c != '\n' && is_deceptive(c)));
    }
}
