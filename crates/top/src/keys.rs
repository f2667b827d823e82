//! Key bindings: one table that drives both the actions and the help.

use crate::app::Step;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Effect of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    Panel(usize),
    NextPanel,
    PreviousPanel,
    Open,
    Back,
    Diagnosis,
    Filter,
    NextSort,
    PreviousSort,
    Reverse,
    Tree,
    Threads,
    Average,
    Pause,
    Step(Step),
    Help,
    Redraw,
    Suspend,
    Quit,
}

/// The keys for an action, and how the help presents them.
pub(crate) struct KeyBinding {
    keys: &'static [KeyCode],
    pub(crate) action: Action,
    pub(crate) shown: &'static str,
    pub(crate) help: &'static str,
}

macro_rules! keys {
    ($($($key:expr),+ => $action:expr, $shown:literal, $help:literal;)+) => {
        /// All key bindings, in the order of the help. A binding with an empty help text is covered by the entry above it.
        pub(crate) const KEYS: &[KeyBinding] = &[ $( KeyBinding {
            keys: &[ $( $key ),+ ], action: $action, shown: $shown, help: $help,
        } ),+ ];
    };
}

use Action::{Average, Back, Diagnosis, Filter, Open, Panel, Pause, Quit, Reverse, Threads, Tree};
use KeyCode::{Char, Down, End, Enter, Esc, Home, Left, PageDown, PageUp, Right, Tab, Up};

keys! {
    Up, Char('k') => Action::Up, "↑ ↓  k j", "select a row, or scroll";
    Down, Char('j') => Action::Down, "", "";
    PageUp => Action::PageUp, "PgUp PgDn", "a page up or down";
    PageDown => Action::PageDown, "", "";
    Home, Char('g') => Action::First, "Home End  g G", "the first or last row";
    End, Char('G') => Action::Last, "", "";
    Tab => Action::NextPanel, "Tab  Shift-Tab", "the next or previous table";
    KeyCode::BackTab => Action::PreviousPanel, "", "";
    Char('1') => Panel(0), "1 … 7", "processes, groups, disks, interfaces, connections, CPUs, memory";
    Char('2') => Panel(1), "", "";
    Char('3') => Panel(2), "", "";
    Char('4') => Panel(3), "", "";
    Char('5') => Panel(4), "", "";
    Char('6') => Panel(5), "", "";
    Char('7') => Panel(6), "", "";
    Enter => Open, "Enter", "details of the selected row";
    Esc => Back, "Esc", "back; clears the filter";
    Char('d') => Diagnosis, "d", "the whole diagnosis: evidence, effects, what was ruled out";
    Char('/') => Filter, "/", "only rows that contain a word, or have this PID";
    Char('s') => Action::NextSort, "s S", "sort by the next or previous column";
    Char('S') => Action::PreviousSort, "", "";
    Char('r') => Reverse, "r", "reverse the order";
    Char('t') => Tree, "t", "processes by control group";
    Char('H') => Threads, "H", "threads below their processes";
    Char('w') => Average, "w", "numbers over the last seconds, or since the last sample only";
    Char(' ') => Pause, "Space", "pause, and go on with the newest sample";
    Left, Char('h') => Action::Step(Step::Sample(-1)), "← →  h l", "the sample before or after; of the live machine those that are kept, paused";
    Right, Char('l') => Action::Step(Step::Sample(1)), "", "";
    Char('[') => Action::Step(Step::Minute(-1)), "[ ]", "a minute back or on";
    Char(']') => Action::Step(Step::Minute(1)), "", "";
    Char('{') => Action::Step(Step::Episode(-1)), "{ }", "in a recording: the episode before or after";
    Char('}') => Action::Step(Step::Episode(1)), "", "";
    Char('?') => Action::Help, "?", "this help";
    Char('q') => Quit, "q  Ctrl-C", "quit; Ctrl-Z stops the program until fg";
}

/// Returns the action bound to a key; `None` if the key is not bound.
pub(crate) fn action(key: KeyEvent) -> Option<Action> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            Char('c') => Some(Quit),
            Char('l') => Some(Action::Redraw),
            Char('z') => Some(Action::Suspend),
            _ => None,
        };
    }
    KEYS.iter().find(|binding| binding.keys.contains(&key.code)).map(|binding| binding.action)
}
