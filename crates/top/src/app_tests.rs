//! Tests of the whole screen: every key, sizes, hostile names.

use crate::app::{App, Event, OpenFile, Request, ScreenOptions, Step};
use crate::keys::KEYS;
use crate::testing::{HOSTILE, diagnosis, key, line, live, press, sample, screen, task};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use whyslow_model::window::Window;
use whyslow_show::escape::is_deceptive;

#[test]
fn who_waits_for_what_is_on_the_first_screen() {
    let screen = screen(&mut live(4), 80, 24);
    assert_eq!(screen[0], " db-1  live, every 1 s, 01:00:03  numbers over 3 s");
    assert_eq!(screen[1], "Watching: the first diagnosis takes a few seconds.");
    assert!(
        screen[2].starts_with("CPU") && screen[2].ends_with(" stalled 25 % of the time, 50 % busy"),
        "{}",
        screen[2]
    );
    assert!(screen[3].ends_with(" stalled 0 % of the time, 3 GiB of 8 GiB available"), "{}", screen[3]);
    assert!(screen[4].ends_with(" stalled 100 % of the time, 400 KiB/s read, 400 KiB/s written"), "{}", screen[4]);
    assert!(screen[5].ends_with(" 1 Mbit/s in, 2 Mbit/s out"), "{}", screen[5]);
    assert_eq!(screen[6], "1 Processes (4)");
    // Waits half of the time for a CPU, and is blocked at each sample.
    let postgres = "     42 postgres          150 %    50 % a commit of the journal           1 MiB";
    assert_eq!(screen[8], postgres);
    assert!(screen[9].contains("worker") && screen[9].contains(" 50 %    20 % a CPU"), "{}", screen[9]);
    assert!(screen[23].starts_with("Enter details"), "{}", screen[23]);
}

#[test]
fn a_wide_and_high_screen_has_all_tables() {
    let screen = screen(&mut live(4), 200, 60);
    for title in
        ["1 Processes (4)", "2 Groups (2)", "3 Disks (1)", "4 Interfaces (2)", "5 Connections (1)", "6 CPUs (2)"]
    {
        line(&screen, &[title]);
    }
    // Four requests in flight, 20 ms each; 99 % within 9 ms in the device.
    let sda = line(&screen, &["sda", "/srv"]);
    assert!(sda.contains("     4    20 ms  9.04 ms     100/s     100/s  400 KiB/s  400 KiB/s"), "{sda}");
    let group = line(&screen, &["/db.slice", "400 KiB/s"]);
    assert!(group.contains("400 KiB/s    8 KiB/s"), "{group}");
    let eth0 = line(&screen, &["eth0"]);
    assert!(eth0.contains("1 Mbit/s    2 Mbit/s   1 Gbit/s      100/s     200/s      5/s"), "{eth0}");
    line(&screen, &["10.0.0.2:40000", "42 postgres", "1 Mbit/s", "100 kbit/s", "2 ms", "3 %", "peer's receive window"]);
}

#[test]
fn nothing_breaks_at_any_size_before_or_after_the_first_sample() {
    for samples in [0, 1, 2, 12] {
        for keys in ["", "d", "?", "1\n", "2\n", "3\n", "4\n", "5\n", "6\n", "7", "t", "H", "tHG"] {
            let mut app = live(samples);
            for letter in keys.chars() {
                app.handle(key(if letter == '\n' { KeyCode::Enter } else { KeyCode::Char(letter) }));
            }
            for (width, height) in [(1, 1), (2, 3), (20, 5), (33, 9), (80, 24), (132, 43), (200, 60), (500, 2)] {
                screen(&mut app, width, height);
            }
        }
    }
}

#[test]
fn hostile_names_reach_no_cell_of_the_screen() {
    let mut app = live(4);
    press(&mut app, "H");
    for keys in ["", "/evil\n"] {
        for letter in keys.chars() {
            app.handle(key(if letter == '\n' { KeyCode::Enter } else { KeyCode::Char(letter) }));
        }
        for enter in [false, true] {
            if enter {
                app.handle(key(KeyCode::Enter));
                app.handle(Event::Files(task(66), Ok(vec![OpenFile { name: HOSTILE.into(), count: 2 }])));
                app.handle(Event::Message(HOSTILE.to_owned()));
            }
            for (width, height) in [(20, 5), (80, 24), (200, 60)] {
                let screen = screen(&mut app, width, height);
                assert!(!screen.iter().any(|line| line.contains(is_deceptive)), "{screen:?}");
            }
            if enter {
                app.handle(key(KeyCode::Esc));
            }
        }
    }
    let screen = screen(&mut app, 80, 24);
    // Escaped and cut to its column; the cells that follow still start in their own columns.
    line(&screen, &[r"66 \x1b[2J\u{202e…"]);
}

#[test]
fn every_key_of_the_help_does_something_and_the_help_has_them_all() {
    let mut app = live(4);
    press(&mut app, "?");
    let help = screen(&mut app, 120, 60);
    for binding in KEYS.iter().filter(|binding| !binding.help.is_empty()) {
        line(&help, &[binding.shown, binding.help]);
    }
    press(&mut app, "?");
    let before = screen(&mut app, 120, 60);
    for (keys, shown) in
        [("d", "first diagnosis"), ("?", "Keys"), ("/", "Filter: _"), ("t", "3 processes"), ("H", "worker/51")]
    {
        let mut app = live(4);
        press(&mut app, keys);
        let after = screen(&mut app, 120, 60);
        assert_ne!(after, before, "{keys}");
        if keys != "t" {
            line(&after, &[shown]);
        }
    }
}

#[test]
fn pages_are_left_by_esc_and_scroll_no_further_than_their_end() {
    let mut app = live(4);
    let tables = screen(&mut app, 80, 24);
    app.handle(key(KeyCode::Enter));
    let details = screen(&mut app, 80, 24);
    line(&details, &["Process 42 postgres"]);
    line(&details, &["waits for", "a commit of the journal"]);
    line(&details, &["ready, waiting for a CPU", "50 %"]);
    line(&details, &["blocked", "100 %"]);
    app.handle(key(KeyCode::End));
    let end = screen(&mut app, 80, 24);
    assert!(end.iter().any(|line| line.contains("10.0.0.1:5432->10.0.0.2:40000")), "{end:?}");
    app.handle(key(KeyCode::PageDown));
    assert_eq!(screen(&mut app, 80, 24), end);
    app.handle(key(KeyCode::Home));
    assert_eq!(screen(&mut app, 80, 24), details);
    app.handle(key(KeyCode::Esc));
    assert_eq!(screen(&mut app, 80, 24), tables);
}

#[test]
fn details_of_a_disk_have_its_stack_its_users_and_its_times() {
    let mut app = live(4);
    press(&mut app, "3");
    app.handle(key(KeyCode::Enter));
    let details = screen(&mut app, 100, 70);
    line(&details, &["Disk sda ACME disk"]);
    line(&details, &["sda1  partition on sda", "ext4 on /srv"]);
    // 100 requests per second, which together spend 1 s in the queue and 1 s in the device.
    line(&details, &["42 postgres", "read", "100/s", "400 KiB/s", "2 in flight, each 20 ms"]);
    line(&details, &["Time in the queue: median 2.98 ms"]);
    line(&details, &["from  8.39 ms", "█ 3"]);
}

#[test]
fn the_other_things_have_details_too() {
    for (keys, heading, detail) in [
        ("2", "Control group /db.slice", "42 postgres"),
        ("4", "Interface eth0", "10.0.0.1:5432->10.0.0.2:40000"),
        ("5", "Connection 10.0.0.1:5432->10.0.0.2:40000", "peer's receive window, 50 % of the time"),
        ("6", "CPU 0", "500/s  24 nvme0q1"),
    ] {
        let mut app = live(4);
        press(&mut app, keys);
        app.handle(key(KeyCode::Enter));
        let details = screen(&mut app, 100, 70);
        line(&details, &[heading]);
        line(&details, &[detail]);
    }
}

#[test]
fn the_filter_takes_letters_until_enter_and_esc_clears_it() {
    let mut app = live(4);
    press(&mut app, "/WORq");
    line(&screen(&mut app, 80, 24), &["Filter: worq_"]);
    line(&screen(&mut app, 80, 24), &["Nothing matches the filter"]);
    app.handle(key(KeyCode::Backspace));
    app.handle(key(KeyCode::Enter));
    let filtered = screen(&mut app, 80, 24);
    line(&filtered, &["50 worker"]);
    assert!(!filtered.iter().any(|line| line.contains("postgres")), "{filtered:?}");
    line(&filtered, &["[wor]"]);
    app.handle(key(KeyCode::Esc));
    line(&screen(&mut app, 80, 24), &["42 postgres"]);
    press(&mut app, "/42");
    let by_number = screen(&mut app, 80, 24);
    line(&by_number, &["42 postgres"]);
    assert!(!by_number.iter().any(|line| line.contains("worker")), "{by_number:?}");
}

#[test]
fn rows_are_sorted_by_another_column_and_reversed() {
    let first = |app: &mut App| screen(app, 80, 24)[8].clone();
    let mut app = live(4);
    assert!(first(&mut app).contains("postgres"));
    press(&mut app, "S");
    let screen_by_name = screen(&mut app, 80, 24);
    assert!(screen_by_name[7].contains("NAME▼"), "{}", screen_by_name[7]);
    // An escape sorts before letters.
    assert!(first(&mut app).contains(r"\x1b"), "{}", first(&mut app));
    press(&mut app, "r");
    assert!(first(&mut app).contains("worker"), "{}", first(&mut app));
    press(&mut app, "S");
    assert!(first(&mut app).contains("     7 idle"), "the lowest PID: {}", first(&mut app));
}

#[test]
fn a_tree_has_processes_below_their_control_group_with_sums() {
    let mut app = live(4);
    press(&mut app, "t");
    let tree = screen(&mut app, 100, 24);
    let at =
        |word: &str| tree.iter().position(|line| line.contains(word)).unwrap_or_else(|| panic!("{word}: {tree:?}"));
    assert!(at("/db.slice") < at("postgres") && at("postgres") < at("/web.slice") && at("/web.slice") < at("worker"));
    // 20 % and 10 %.
    line(&tree, &["/web.slice", "50 %    30 % 2 processes"]);
}

#[test]
fn a_paused_screen_stands_still_and_goes_on_with_what_came_meanwhile() {
    let mut app = live(4);
    press(&mut app, " ");
    let paused = screen(&mut app, 80, 24);
    line(&paused, &["PAUSED at 01:00:03"]);
    app.handle(Event::Sample(Box::new(sample(4))));
    assert_eq!(screen(&mut app, 80, 24), paused);
    press(&mut app, " ");
    line(&screen(&mut app, 80, 24), &["01:00:04  numbers over 4 s"]);
}

#[test]
fn numbers_are_over_the_last_sample_only_where_that_is_asked_for() {
    let mut app = live(20);
    line(&screen(&mut app, 80, 24), &["numbers over 10 s"]);
    press(&mut app, "w");
    line(&screen(&mut app, 80, 24), &["numbers over 1 s"]);
    line(&screen(&mut app, 80, 24), &["42 postgres", "150 %"]);
}

#[test]
fn the_live_screen_steps_through_the_samples_it_has_kept_and_is_paused_then() {
    let mut app = live(3);
    app.handle(Event::Diagnosed(Box::new(diagnosis("the first"))));
    for t in 3..20 {
        app.handle(Event::Sample(Box::new(sample(t))));
    }
    app.handle(Event::Diagnosed(Box::new(diagnosis("the second"))));
    assert_eq!(press(&mut app, "l"), None);
    line(&screen(&mut app, 80, 24), &["This is the newest sample."]);
    app.handle(key(KeyCode::Left));
    let back = screen(&mut app, 80, 24);
    line(&back, &["PAUSED at 01:00:18  numbers over 10 s"]);
    line(&back, &["Undetermined: no cause was found, but the first."]);
    line(&back, &["42 postgres", "150 %"]);
    app.handle(Event::Sample(Box::new(sample(20))));
    app.handle(Event::Diagnosed(Box::new(diagnosis("the third"))));
    assert_eq!(screen(&mut app, 80, 24), back);
    press(&mut app, "l");
    let on = screen(&mut app, 80, 24);
    line(&on, &["PAUSED at 01:00:19  numbers over 10 s"]);
    line(&on, &["but the second."]);
    line(&on, &["← → time  Space go on"]);
    for (keys, shown) in [
        ("l", "the newest sample before the pause"),
        ("[", "PAUSED at 01:00:00"),
        ("h", "No earlier sample is kept"),
        ("]", "PAUSED at 01:00:19"),
        ("{", "whyslow top --at TIME"),
        (" ", "live, every 1 s, 01:00:20"),
    ] {
        assert_eq!(press(&mut app, keys), None, "{keys}");
        line(&screen(&mut app, 80, 24), &[shown]);
    }
    line(&screen(&mut app, 80, 24), &["but the third."]);
    app.handle(Event::Restarted);
    press(&mut app, "h");
    assert!(!screen(&mut app, 80, 24)[0].contains("PAUSED"), "counters do not go on");
}

#[test]
fn a_recording_is_stepped_through() {
    let mut app = App::new(ScreenOptions { interval: None, colour: false, utc: true });
    let window = || Box::new(Window::new((0..4).map(sample).collect()));
    app.handle(Event::Recorded(window(), window()));
    line(&screen(&mut app, 80, 24), &["db-1  recorded 1970-01-01 01:00:03  numbers over 3 s"]);
    for (letter, step) in [
        ('h', Step::Sample(-1)),
        ('l', Step::Sample(1)),
        ('[', Step::Minute(-1)),
        (']', Step::Minute(1)),
        ('{', Step::Episode(-1)),
        ('}', Step::Episode(1)),
    ] {
        assert_eq!(app.handle(key(KeyCode::Char(letter))), Some(Request::Step(step)), "{letter}");
    }
    assert_eq!(app.handle(key(KeyCode::Left)), Some(Request::Step(Step::Sample(-1))));
    press(&mut app, " ");
    line(&screen(&mut app, 80, 24), &["A recording cannot be paused"]);
}

#[test]
fn it_ends_by_q_by_ctrl_c_and_by_the_program() {
    let control = |letter| Event::Key(KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL));
    for (keys, end) in [("", key(KeyCode::Char('q'))), ("/x", control('c')), ("?", Event::End)] {
        let mut app = live(2);
        press(&mut app, keys);
        assert!(!app.is_over());
        app.handle(end);
        assert!(app.is_over(), "{keys}");
    }
    let mut app = live(2);
    press(&mut app, "/q");
    assert!(!app.is_over(), "a letter of the filter");
    app.handle(control('l'));
    assert!(app.take_garbled() && !app.take_garbled());
    assert!(!app.take_suspended());
    app.handle(control('z'));
    assert!(app.take_suspended() && !app.take_suspended() && !app.is_over());
}

#[test]
fn files_are_asked_for_when_a_process_is_opened() {
    let mut app = live(4);
    assert_eq!(app.handle(key(KeyCode::Enter)), Some(Request::Files(task(42))));
    let files = vec![OpenFile { name: "socket".into(), count: 3 }, OpenFile { name: "/srv/db/1".into(), count: 1 }];
    app.handle(Event::Files(task(42), Ok(files)));
    app.handle(key(KeyCode::End));
    let details = screen(&mut app, 80, 40);
    line(&details, &["Open files (4)"]);
    line(&details, &["socket  ×3"]);
    app.handle(Event::Files(task(42), Err("the process has ended".into())));
    line(&screen(&mut app, 80, 40), &["the process has ended"]);
}

#[test]
fn a_process_that_ends_leaves_the_screen() {
    let mut app = live(4);
    let mut without = sample(4);
    without.task.process.retain(|process| process.task.pid != 42);
    app.handle(Event::Sample(Box::new(without)));
    assert!(!screen(&mut app, 80, 24).iter().any(|line| line.contains("postgres")));
    app.handle(Event::Sample(Box::new(sample(5))));
    app.handle(Event::Restarted);
    assert!(screen(&mut app, 80, 24).iter().any(|line| line.contains("Processes (0)")), "counters begin anew");
}
