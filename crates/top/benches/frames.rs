//! Measures how long the screen takes to handle a sample and to draw a frame: `cargo bench -p whyslow-top`. Reports times without
//! judging them.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::time::{Duration, Instant};
use whyslow_model::catalogue::{Process, ProcessRow};
use whyslow_model::key::TaskKey;
use whyslow_model::snapshot::Snapshot;
use whyslow_top::{App, Event, ScreenOptions};

const SECOND: u64 = 1_000_000_000;
const PROCESSES: u32 = 1000;
const TIMES: u32 = 50;

/// Builds a sample in which one process in ten uses CPU time and does I/O.
fn sample(t: u64) -> Snapshot {
    let mut s = Snapshot { boot_ns: (100 + t) * SECOND, wall_ns: 1, ..Snapshot::default() };
    s.task.process = (1..=PROCESSES)
        .map(|pid| {
            let used = if pid % 10 == 0 { t * SECOND / 50 } else { 0 };
            Process::from(ProcessRow {
                command: format!("process-{pid}").into(),
                state: "S".into(),
                cgroup: format!("/system.slice/unit-{}.service", pid % 50).into(),
                user: used.into(),
                system: used.into(),
                run_delay: used.into(),
                read_bytes: used.into(),
                write_bytes: used.into(),
                rss: u64::from(pid << 12).into(),
                ..ProcessRow::new(TaskKey { pid, tid: pid, start: 1 })
            })
        })
        .collect();
    s
}

fn main() {
    let (width, height) = (200, 60);
    let mut app = App::new(ScreenOptions { interval: Some(Duration::from_secs(1)), colour: true, utc: true });
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a test backend");
    let mut draw = |app: &mut App| {
        let began = Instant::now();
        terminal.draw(|frame| app.draw(frame)).expect("a test backend");
        began.elapsed()
    };
    println!("{PROCESSES} processes, {width}x{height}");
    println!("first frame, without data    {:>8.0?}", draw(&mut app));
    for t in 0..12 {
        let _ = app.handle(Event::Sample(Box::new(sample(t))));
    }
    let samples: Vec<Snapshot> = (12..12 + u64::from(TIMES)).map(sample).collect();
    let [mut taken_in, mut after_sample, mut after_key] = [Duration::ZERO; 3];
    for sample in samples {
        let began = Instant::now();
        let _ = app.handle(Event::Sample(Box::new(sample)));
        taken_in += began.elapsed();
        after_sample += draw(&mut app);
        let _ = app.handle(Event::Key(KeyEvent::new(KeyCode::Down, KeyModifiers::NONE)));
        after_key += draw(&mut app);
    }
    let mean = |all: Duration| all / TIMES;
    println!("a sample taken in            {:>8.0?}", mean(taken_in));
    println!("the frame after a sample     {:>8.0?}", mean(after_sample));
    println!("the frame after a key        {:>8.0?}", mean(after_key));
}
