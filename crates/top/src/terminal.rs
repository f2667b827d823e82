//! Connects the screen to a terminal. Restores the terminal however the program ends.

use crate::app::{App, Event, Request, ScreenOptions};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, KeyEventKind};
use ratatui::crossterm::execute;
use ratatui::crossterm::style::force_color_output;
use ratatui::crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use std::io::{self, BufWriter, IsTerminal, Stdout};
use std::panic::{self, PanicHookInfo};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Size of the output buffer, large enough to write a whole frame at once.
const BUFFER: usize = 64 << 10;

/// Returns true if there is a terminal to draw on and to read keys from.
pub fn is_possible() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    io::stdin().is_terminal() && io::stdout().is_terminal() && !is_dumb
}

/// Shows the screen until the user or an [`Event::End`] ends it. Sends keys through `keys`, to arrive as events, and passes the
/// screen's requests to `request`.
///
/// # Errors
/// Fails if the terminal cannot be set up or written to.
pub fn run(
    options: ScreenOptions,
    events: &Receiver<Event>,
    keys: Sender<Event>,
    mut request: impl FnMut(Request),
) -> io::Result<()> {
    let mut app = App::new(options);
    if options.colour {
        // `--color always` overrides NO_COLOR.
        force_color_output(true);
    }
    let mut screen = Screen::open()?;
    screen.terminal.draw(|frame| app.draw(frame))?;
    thread::Builder::new().name("keys".into()).spawn(move || read_keys(&keys))?;
    while let Ok(event) = events.recv() {
        // Events that have arrived in the meantime share one frame.
        for event in std::iter::once(event).chain(events.try_iter()) {
            if let Some(asked) = app.handle(event) {
                request(asked);
            }
        }
        if app.is_over() {
            break;
        }
        if app.take_suspended() {
            screen.suspend()?;
        } else if app.take_garbled() {
            screen.clear()?;
        }
        screen.terminal.draw(|frame| app.draw(frame))?;
    }
    Ok(())
}

/// Forwards keys until the receiver or the terminal is gone.
fn read_keys(events: &Sender<Event>) {
    loop {
        let event = match event::read() {
            Ok(event::Event::Key(key)) if key.kind != KeyEventKind::Release => Event::Key(key),
            Ok(event::Event::Resize(..)) => Event::Resized,
            Ok(_) => continue,
            Err(_) => Event::End,
        };
        let is_end = matches!(event, Event::End);
        if events.send(event).is_err() || is_end {
            return;
        }
    }
}

type PanicHook = Arc<dyn Fn(&PanicHookInfo<'_>) + Send + Sync>;

/// The terminal in raw mode, on its alternate screen.
struct Screen {
    terminal: Terminal<CrosstermBackend<BufWriter<Stdout>>>,
    /// Panic messages of other threads, printed when the screen is closed.
    said: Arc<Mutex<Vec<String>>>,
    hook: PanicHook,
}

impl Screen {
    fn open() -> io::Result<Self> {
        let said = Arc::<Mutex<Vec<String>>>::default();
        let hook: PanicHook = panic::take_hook().into();
        let (before, later) = (hook.clone(), said.clone());
        let drawing = thread::current().id();
        // A message on the alternate screen would garble it and then vanish with it.
        panic::set_hook(Box::new(move |info| {
            if thread::current().id() == drawing {
                restore();
                before(info);
            } else {
                later.lock().unwrap_or_else(PoisonError::into_inner).push(info.to_string());
            }
        }));
        let out = BufWriter::with_capacity(BUFFER, io::stdout());
        let terminal = take().and_then(|()| Terminal::new(CrosstermBackend::new(out))).inspect_err(|_| restore())?;
        Ok(Self { terminal, said, hook })
    }

    /// Stops the program like the terminal does for Ctrl-Z outside raw mode: stops all processes of the job, so that the shell
    /// notices. Returns when the job is continued.
    fn suspend(&mut self) -> io::Result<()> {
        restore();
        let job = Pid::from_raw(0);
        kill(job, Signal::SIGTSTP)?;
        take()?;
        self.clear()
    }

    /// Clears the terminal, so that the next frame is drawn in full. `Terminal::clear` would first query the cursor position, and
    /// the thread that reads keys would receive the answer.
    fn clear(&mut self) -> io::Result<()> {
        execute!(io::stdout(), Clear(ClearType::All))?;
        // Both buffers are blank afterwards, because this resets the one that was drawn last.
        self.terminal.swap_buffers();
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // On a panic, the hook has already restored the terminal. Doing it again would put the cursor back to where it was at the
        // start.
        if !thread::panicking() {
            restore();
            let hook = self.hook.clone();
            panic::set_hook(Box::new(move |info| hook(info)));
        }
        for message in self.said.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            eprintln!("{message}");
        }
    }
}

/// Puts the terminal into raw mode, on its alternate screen.
fn take() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen)
}

/// Restores the terminal. Ignores errors, because nothing can be done about them now.
fn restore() {
    let _ = disable_raw_mode();
    let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
}
