//! State of the screen: takes events, returns requests, draws frames.

use crate::detail::{self, Files};
use crate::entity::EntityId;
use crate::header;
use crate::help;
use crate::history::History;
use crate::keys::{self, Action};
use crate::panel::{Context, Panel};
use crate::past::{Moment, Past};
use crate::table::{Drawn, Row, TableView};
use crate::text::{Canvas, Line, bold, dim, plain};
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::Rect;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use whyslow_documents::diagnosis::Diagnosis;
use whyslow_model::catalogue::MachineInfo;
use whyslow_model::human;
use whyslow_model::key::TaskKey;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::topology::Topology;
use whyslow_model::window::Window;
use whyslow_show::clock::ZonedClock;
use whyslow_show::text::{self, TextStyle};

/// Time over which numbers are averaged, in seconds. The same as for a diagnosis.
const AVERAGED: f64 = 10.0;

/// Source and appearance of a screen.
#[derive(Clone, Copy, Debug)]
pub struct ScreenOptions {
    /// Sampling interval of the live machine; `None` for a recording.
    pub interval: Option<Duration>,
    /// Whether to use colour.
    pub colour: bool,
    /// Whether times are in UTC instead of the local zone.
    pub utc: bool,
}

/// Input of the screen.
#[derive(Debug)]
pub enum Event {
    /// A key was pressed.
    Key(KeyEvent),
    /// The size of the terminal changed.
    Resized,
    /// The live machine was sampled.
    Sample(Box<Snapshot>),
    /// Sampling restarted. Counters do not continue from earlier samples.
    Restarted,
    /// A position in a recording: a window that ends there, and a window of the preceding minutes for the sparklines.
    Recorded(Box<Window>, Box<Window>),
    /// The newest diagnosis.
    Diagnosed(Box<Diagnosis>),
    /// The requested open files of a process, or why they cannot be read.
    Files(TaskKey, Result<Vec<OpenFile>, String>),
    /// A message for the user.
    Message(String),
    /// The program must end.
    End,
}

/// A file that a process has open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenFile {
    /// Target of the file descriptors.
    pub name: String,
    /// Number of file descriptors that refer to this file.
    pub count: usize,
}

/// A step through a recording, by a number of samples, minutes or episodes. Negative numbers step back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Steps by samples.
    Sample(i32),
    /// Steps by minutes.
    Minute(i32),
    /// Steps by episodes, to the worst moment of each.
    Episode(i32),
}

/// A request from the screen to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Moves to another position in the recording.
    Step(Step),
    /// Reads the open files of a process.
    Files(TaskKey),
}

/// A page that covers the tables.
#[derive(Clone, Debug, PartialEq)]
enum Page {
    Help,
    Diagnosis,
    Details(EntityId),
}

/// The state of the screen.
pub struct App {
    options: ScreenOptions,
    clock: ZonedClock,
    /// The newest state of the live machine, or a position in a recording.
    newest: Moment,
    past: Past,
    /// The moment shown while the screen is paused, and the samples up to the pause.
    paused: Option<(Moment, Past)>,
    /// The last step alone; `None` if numbers are averaged.
    last_step: Option<Window>,
    topology: Topology,
    panel: Panel,
    views: Vec<TableView>,
    /// Computed when first drawn after a change.
    tables: BTreeMap<Panel, Vec<Row>>,
    /// The pages above the tables, topmost last, each with the number of lines that it is scrolled by.
    pages: Vec<(Page, usize)>,
    page_lines: Option<Vec<Line>>,
    files: Files,
    /// True while letters go into the filter.
    edits_filter: bool,
    is_averaged: bool,
    shows_threads: bool,
    is_tree: bool,
    message: Option<String>,
    /// Rows of the last frame: the distance of Page Up and Page Down.
    page_height: usize,
    is_over: bool,
    is_garbled: bool,
    is_suspended: bool,
}

impl App {
    /// Creates a screen without data.
    pub fn new(options: ScreenOptions) -> Self {
        Self {
            options,
            clock: ZonedClock::new(options.utc),
            newest: Moment::default(),
            past: Past::default(),
            paused: None,
            last_step: None,
            topology: Topology::default(),
            panel: Panel::Processes,
            views: Panel::ALL.iter().map(|panel| TableView::sorted_by(panel.sorted_by())).collect(),
            tables: BTreeMap::new(),
            pages: Vec::new(),
            page_lines: None,
            files: None,
            edits_filter: false,
            is_averaged: true,
            shows_threads: false,
            is_tree: false,
            message: None,
            page_height: 1,
            is_over: false,
            is_garbled: false,
            is_suspended: false,
        }
    }

    /// Returns true if the user or the program has ended the screen.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns true, once, if the screen must be cleared because another program has written to it.
    pub fn take_garbled(&mut self) -> bool {
        std::mem::take(&mut self.is_garbled)
    }

    /// Returns true, once, if the program must stop (Ctrl-Z) until it is continued.
    pub fn take_suspended(&mut self) -> bool {
        std::mem::take(&mut self.is_suspended)
    }

    /// Handles an event. A later event answers the request that this returns.
    pub fn handle(&mut self, event: Event) -> Option<Request> {
        match event {
            Event::Key(key) => return self.press(key),
            Event::Resized => {}
            Event::Sample(sample) => self.add(*sample),
            Event::Restarted => {
                // The history continues.
                self.newest.window = Window::default();
                self.past.begin_anew();
                self.newest_changed();
            }
            Event::Recorded(window, before) => {
                self.newest.window = *window;
                self.newest.history = History::from_window(&before);
                self.changed();
            }
            Event::Diagnosed(diagnosis) => {
                let diagnosis = Arc::<Diagnosis>::from(diagnosis);
                self.past.add_diagnosis(diagnosis.clone());
                self.newest.diagnosis = Some(diagnosis);
                if self.paused.is_none() {
                    self.page_lines = None;
                }
            }
            Event::Files(task, files) => {
                self.files = Some((task, files));
                self.page_lines = None;
            }
            Event::Message(text) => self.message = Some(text),
            Event::End => self.is_over = true,
        }
        None
    }

    /// Adds a sample of the live machine.
    fn add(&mut self, sample: Snapshot) {
        self.past.add(sample.clone());
        self.newest.add(sample, self.averaged());
        self.newest_changed();
    }

    /// Returns the averaging time for the live machine, in seconds.
    fn averaged(&self) -> f64 {
        self.options.interval.map_or(AVERAGED, |interval| AVERAGED.max(1.5 * interval.as_secs_f64()))
    }

    /// Returns the moment on screen.
    fn shown(&self) -> &Moment {
        self.paused.as_ref().map_or(&self.newest, |(moment, _)| moment)
    }

    fn newest_changed(&mut self) {
        if self.paused.is_none() {
            self.changed();
        }
    }

    /// Recomputes what is derived from the window.
    fn changed(&mut self) {
        let window = &self.shown().window;
        let topology = Topology::from_window(window);
        let newest = window.snapshots().last_chunk::<2>().filter(|_| !self.is_averaged);
        let last_step = newest.map(|two| Window::new(two.to_vec()));
        (self.topology, self.last_step) = (topology, last_step);
        self.tables.clear();
        self.page_lines = None;
    }

    fn context(&self) -> Context<'_> {
        let Moment { window, history, .. } = self.shown();
        Context {
            window,
            rates: self.last_step.as_ref().unwrap_or(window),
            topology: &self.topology,
            history,
            shows_threads: self.shows_threads,
            is_tree: self.is_tree,
        }
    }

    fn view(&mut self) -> &mut TableView {
        &mut self.views[self.panel as usize]
    }

    fn press(&mut self, key: KeyEvent) -> Option<Request> {
        self.message = None;
        if self.edits_filter && self.edit_filter(key) {
            return None;
        }
        self.act(keys::action(key)?)
    }

    /// Returns true if the key was consumed by the filter.
    fn edit_filter(&mut self, key: KeyEvent) -> bool {
        match key.code {
            _ if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
            KeyCode::Char(letter) => self.view().filter.extend(letter.to_lowercase()),
            KeyCode::Backspace => {
                self.view().filter.pop();
            }
            KeyCode::Enter => self.edits_filter = false,
            KeyCode::Esc => {
                self.edits_filter = false;
                self.view().filter.clear();
            }
            // Arrow keys select among the rows that pass the filter.
            _ => return false,
        }
        true
    }

    fn act(&mut self, action: Action) -> Option<Request> {
        match action {
            Action::Up => self.move_by(-1),
            Action::Down => self.move_by(1),
            Action::PageUp => self.move_by(-self.page()),
            Action::PageDown => self.move_by(self.page()),
            Action::First => self.move_by(isize::MIN),
            Action::Last => self.move_by(isize::MAX),
            Action::Panel(at) => self.show(Panel::ALL[at.min(Panel::ALL.len() - 1)]),
            Action::NextPanel => self.show(Panel::ALL[(self.panel as usize + 1) % Panel::ALL.len()]),
            Action::PreviousPanel => {
                self.show(Panel::ALL[(self.panel as usize + Panel::ALL.len() - 1) % Panel::ALL.len()]);
            }
            Action::Open => return self.open(),
            Action::Back => self.back(),
            Action::Diagnosis => self.toggle(Page::Diagnosis),
            Action::Help => self.toggle(Page::Help),
            Action::Filter => self.edits_filter = self.pages.is_empty(),
            Action::NextSort => self.sort(1),
            Action::PreviousSort => self.sort(-1),
            Action::Reverse => self.view().is_reversed ^= true,
            Action::Tree => {
                self.is_tree ^= true;
                self.show(Panel::Processes);
                self.changed();
            }
            Action::Threads => {
                self.shows_threads ^= true;
                self.show(Panel::Processes);
                self.changed();
            }
            Action::Average => {
                self.is_averaged ^= true;
                self.changed();
            }
            Action::Pause => self.pause(),
            Action::Step(step) => return self.step(step),
            Action::Redraw => self.is_garbled = true,
            Action::Suspend => self.is_suspended = true,
            Action::Quit => self.is_over = true,
        }
        None
    }

    fn page(&self) -> isize {
        isize::try_from(self.page_height.max(1)).unwrap_or(1)
    }

    fn move_by(&mut self, by: isize) {
        if let Some((_, scrolled)) = self.pages.last_mut() {
            // Drawing limits it to the length of the page.
            *scrolled = scrolled.saturating_add_signed(by);
            return;
        }
        self.prepare(self.panel);
        let view = &mut self.views[self.panel as usize];
        let rows = view.list(&self.tables[&self.panel]);
        view.move_by(&rows, by);
    }

    fn show(&mut self, panel: Panel) {
        self.panel = panel;
        self.pages.clear();
        self.page_lines = None;
    }

    fn open(&mut self) -> Option<Request> {
        if !self.pages.is_empty() {
            return None;
        }
        self.prepare(self.panel);
        let view = &self.views[self.panel as usize];
        let rows = view.list(&self.tables[&self.panel]);
        let id = view.selection(&rows)?.id.clone();
        let request = match &id {
            EntityId::Process(task) => Some(Request::Files(*task)),
            EntityId::Memory(_) => return None,
            _ => None,
        };
        self.views[self.panel as usize].selected = Some(id.clone());
        self.pages.push((Page::Details(id), 0));
        self.page_lines = None;
        request
    }

    fn back(&mut self) {
        self.page_lines = None;
        if self.pages.pop().is_none() {
            self.view().filter.clear();
        }
    }

    fn toggle(&mut self, page: Page) {
        self.page_lines = None;
        if self.pages.last().is_some_and(|(shown, _)| *shown == page) {
            self.pages.pop();
        } else {
            self.pages.push((page, 0));
        }
    }

    fn sort(&mut self, by: isize) {
        let columns = self.panel.columns().len();
        let view = self.view();
        view.sort = match view.sort.checked_add_signed(by) {
            Some(next) if next < columns => next,
            // Wraps from the last column to the first and back, and starts at either end if the table is not sorted.
            _ if by > 0 => 0,
            _ => columns - 1,
        };
    }

    fn pause(&mut self) {
        if self.options.interval.is_none() {
            self.message = Some("A recording cannot be paused: ← and → step through it.".to_owned());
            return;
        }
        self.paused = match self.paused {
            Some(_) => None,
            None => Some((self.newest.clone(), self.past.clone())),
        };
        self.changed();
    }

    /// Steps through a recording, or to another sample of the live machine, which pauses the screen.
    fn step(&mut self, step: Step) -> Option<Request> {
        if self.options.interval.is_none() {
            return Some(Request::Step(step));
        }
        let past = self.paused.as_ref().map_or(&self.past, |(_, past)| past);
        let newest = self.shown().window.last().map(|newest| newest.boot_ns);
        let place = newest.and_then(|newest| past.place(newest, step));
        let message = match (place, step) {
            (Some(place), _) => {
                self.paused = Some((past.moment(place, self.averaged()), past.clone()));
                self.changed();
                return None;
            }
            (None, Step::Episode(_)) => "Episodes are found in a recording: whyslow top --at TIME",
            (None, Step::Sample(by) | Step::Minute(by)) if by < 0 => {
                "No earlier sample is kept here. 'whyslow record' keeps them."
            }
            (None, _) if self.paused.is_some() => "This is the newest sample before the pause. Space goes on.",
            (None, _) => "This is the newest sample.",
        };
        self.message = Some(message.to_owned());
        None
    }

    fn prepare(&mut self, panel: Panel) {
        if !self.tables.contains_key(&panel) {
            let rows = panel.rows(&self.context());
            self.tables.insert(panel, rows);
        }
    }

    /// Draws a frame.
    pub fn draw(&mut self, frame: &mut Frame<'_>) {
        let area = frame.area();
        self.draw_on(frame.buffer_mut(), area);
    }

    pub(crate) fn draw_on(&mut self, buffer: &mut Buffer, area: Rect) {
        let heights = Heights::from_height(area.height);
        let mut rest = area;
        let mut take = |height: u16| {
            let top = Rect { height: height.min(rest.height), ..rest };
            rest = Rect { y: rest.y + top.height, height: rest.height - top.height, ..rest };
            top
        };
        let canvas = &mut Canvas::new(buffer, self.options.colour);
        canvas.reversed_line(take(1), 0, &self.title());
        let diagnosis = self.shown().diagnosis.as_ref().map_or_else(
            || header::no_diagnosis(self.options.interval.is_none()),
            |diagnosis| header::brief(diagnosis, area.width, heights.diagnosis, self.options.utc),
        );
        let at = take(u16::try_from(diagnosis.len().min(heights.diagnosis)).unwrap_or(0));
        diagnosis.iter().enumerate().for_each(|(row, line)| canvas.line(at, row, line));
        if heights.resources > 0 {
            let at = take(heights.resources);
            let lines = header::resources(&self.context(), area.width);
            lines.iter().enumerate().for_each(|(row, line)| canvas.line(at, row, line));
        }
        let footer = heights.footer.min(rest.height);
        let body = Rect { height: rest.height - footer, ..rest };
        self.page_height = usize::from(body.height).saturating_sub(2).max(1);
        if self.pages.is_empty() {
            self.draw_tables(canvas, body)
        } else {
            self.draw_page(canvas, body)
        }
        canvas.line(Rect { y: rest.bottom() - footer, height: footer, ..rest }, 0, &self.footer());
    }

    fn title(&self) -> Line {
        let window = &self.shown().window;
        let host = window.the::<MachineInfo>().and_then(|machine| machine.name.get()).unwrap_or("this machine");
        let newest = window.last().filter(|newest| newest.wall_ns != 0);
        let time = newest.map(|newest| self.clock.at(newest.wall_ns, self.options.interval.is_none()));
        let state = match self.options.interval {
            None => "recorded".to_owned(),
            Some(_) if self.paused.is_some() => "PAUSED at".to_owned(),
            Some(interval) => format!("live, every {},", human::quantity(interval.as_secs_f64(), "s")),
        };
        let averaged = self.context().rates.seconds();
        let over = if averaged > 0.0 {
            format!("  numbers over {}", human::quantity(averaged.round().max(averaged.min(1.0)), "s"))
        } else {
            String::new()
        };
        vec![bold(format!(" {host}")), plain(format!("  {state} {}{over} ", time.unwrap_or_default()))]
    }

    fn footer(&self) -> Line {
        if let Some(message) = &self.message {
            return vec![bold(message)];
        }
        let filter = &self.views[self.panel as usize].filter;
        if self.edits_filter {
            return vec![bold(format!("Filter: {filter}_")), dim("  Enter: keep it  Esc: clear it")];
        }
        let keys = match self.pages.last() {
            Some(_) => "Esc back  ↑ ↓ scroll  ? help  q quit".to_owned(),
            None => {
                let time = match (self.options.interval, &self.paused) {
                    (None, _) => "← → time",
                    (Some(_), None) => "Space pause",
                    (Some(_), Some(_)) => "← → time  Space go on",
                };
                format!("Enter details  Tab table  / filter  s sort  t tree  {time}  d diagnosis  ? help  q quit")
            }
        };
        let filtered = if filter.is_empty() { String::new() } else { format!("[{filter}]  ") };
        vec![bold(filtered), dim(keys)]
    }

    /// Gives most of the room to the focused table, then adds as many others as fit.
    fn draw_tables(&mut self, canvas: &mut Canvas<'_>, area: Rect) {
        let others: Vec<Panel> = Panel::ALL.into_iter().filter(|panel| *panel != self.panel).collect();
        let mut left = area.height.saturating_sub(Heights::FOCUSED);
        let mut shown = vec![(self.panel, 0)];
        for panel in others {
            // A title, a head and at least one row.
            if left < 3 {
                break;
            }
            self.prepare(panel);
            let rows = u16::try_from(self.tables[&panel].len()).unwrap_or(u16::MAX);
            if rows == 0 {
                continue;
            }
            let height = (rows.min(Heights::OTHERS) + 2).min(left);
            left -= height;
            shown.push((panel, height));
        }
        self.prepare(self.panel);
        let others: u16 = shown.iter().map(|(_, height)| height).sum();
        shown[0].1 = area.height - others;
        let mut y = area.y;
        for (panel, height) in shown {
            let at = Rect { y, height, ..area };
            y += height;
            self.draw_table(canvas, at, panel);
        }
    }

    fn draw_table(&mut self, canvas: &mut Canvas<'_>, area: Rect, panel: Panel) {
        let is_focused = panel == self.panel;
        let rows = &self.tables[&panel];
        // On a very low screen, rows are worth more than the title.
        let title = u16::from(!is_focused || area.height > 3);
        if title > 0 {
            let key = Panel::ALL.iter().position(|other| *other == panel).map_or(0, |at| at + 1);
            let name = format!("{key} {}", panel.title());
            let count = dim(format!(" ({})", rows.len()));
            canvas.line(area, 0, &[if is_focused { bold(name) } else { plain(name) }, count]);
        }
        let at = Rect { y: area.y + title, height: area.height - title, ..area };
        let drawn = Drawn { columns: panel.columns(), rows, is_focused, none: panel.none() };
        self.views[panel as usize].draw(canvas, at, &drawn);
    }

    fn draw_page(&mut self, canvas: &mut Canvas<'_>, area: Rect) {
        let Some((page, _)) = self.pages.last() else { return };
        let lines = self.page_lines.take().unwrap_or_else(|| match page {
            Page::Help => help::page(),
            Page::Details(id) => detail::page(id, &self.context(), &self.files),
            Page::Diagnosis => self.whole_diagnosis(area.width),
        });
        if let Some((_, scrolled)) = self.pages.last_mut() {
            *scrolled = (*scrolled).min(lines.len().saturating_sub(usize::from(area.height)));
            lines.iter().skip(*scrolled).enumerate().for_each(|(row, line)| canvas.line(area, row, line));
        }
        self.page_lines = Some(lines);
    }

    fn whole_diagnosis(&self, width: u16) -> Vec<Line> {
        let style = TextStyle { width: usize::from(width), colour: false, all: true, utc: self.options.utc };
        self.shown().diagnosis.as_ref().map_or_else(
            || header::no_diagnosis(self.options.interval.is_none()),
            |diagnosis| text::diagnosis_lines(diagnosis, &style),
        )
    }
}

/// Number of lines for each part of the screen.
struct Heights {
    diagnosis: usize,
    resources: u16,
    footer: u16,
}

impl Heights {
    /// Minimum height of the focused table if others are shown with it.
    const FOCUSED: u16 = 11;
    /// Maximum number of rows of an unfocused table.
    const OTHERS: u16 = 8;

    fn from_height(height: u16) -> Self {
        let (diagnosis, resources) = match height {
            0..=7 => (1, 0),
            8..=13 => (2, 0),
            14..=19 => (3, 4),
            20..=29 => (5, 4),
            _ => (8, 4),
        };
        Self { diagnosis, resources, footer: u16::from(height > 5) }
    }
}
