//! The whole terminal, for a view that is drawn again and again. Its state is restored when the screen is dropped, and
//! before a panic prints its message.

use super::{cells, has_colors, is_terminal, is_utf8};
use crossterm::cursor::Show;
use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use crossterm::execute;
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::stdio::stdin;
use sordino_watch::{PressedKey, TerminalSupport};
use std::env;
use std::io::{self, IsTerminal, Stdout};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time for which keys that have arrived are read; with a time of 0, the library reads none.
const GLANCE: Duration = Duration::from_millis(1);

/// True while a view has the terminal.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// The terminal while a view has it.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

/// An input of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// A key of the view.
    Key(PressedKey),
    /// Ctrl-C, a signal that ends the process, or a terminal that is gone.
    End,
}

impl Screen {
    /// Gets the terminal for a view.
    ///
    /// # Errors
    /// Standard input or output is no terminal, or one that can't be drawn on; `instead` is the remedy.
    pub fn open(instead: &str) -> io::Result<Self> {
        let is_dumb = env::var_os("TERM").is_none_or(|name| name.is_empty() || name == "dumb");
        let reason = match (is_terminal() && io::stdin().is_terminal(), is_dumb) {
            (true, false) => None,
            (true, true) => Some("TERM names no terminal that can be drawn on"),
            (false, _) => Some("standard input or output is no terminal"),
        };
        if let Some(reason) = reason {
            return Err(io::Error::other(format!("{reason}: {instead}")));
        }
        let (before, own) = (std::panic::take_hook(), std::thread::current().id());
        std::panic::set_hook(Box::new(move |panic| {
            // The view survives a panic of another thread.
            if std::thread::current().id() == own {
                restore();
            }
            before(panic);
        }));
        enable_raw_mode()?;
        IS_TAKEN.store(true, Ordering::Relaxed);
        // The library's own function requests the cursor's position from the terminal, and fails without a reply.
        let opened = execute!(cells(), EnterAlternateScreen, Clear(ClearType::All))
            .and_then(|()| Terminal::new(CrosstermBackend::new(cells())));
        match opened {
            Ok(terminal) => Ok(Self { terminal }),
            Err(error) => {
                restore();
                Err(error)
            }
        }
    }

    /// Returns the means of the terminal.
    pub fn support() -> TerminalSupport {
        TerminalSupport { has_colors: has_colors(), is_utf8: is_utf8() }
    }

    /// Draws the cells that `write` fills, on the whole terminal at its present size.
    pub fn draw(&mut self, write: impl FnOnce(Rect, &mut Buffer)) -> io::Result<()> {
        self.terminal.draw(|frame| {
            let area = frame.area();
            write(area, frame.buffer_mut());
        })?;
        Ok(())
    }

    /// Waits for an input, until `stop` is readable or this time is over; returns early if the terminal's size changes.
    pub fn wait(&self, stop: BorrowedFd<'_>, longest: Duration) -> io::Result<Vec<Input>> {
        match inputs(stop, longest) {
            // The terminal was hung up while it was read.
            Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => Ok(vec![Input::End]),
            inputs => inputs,
        }
    }
}

fn inputs(stop: BorrowedFd<'_>, longest: Duration) -> io::Result<Vec<Input>> {
    let input = stdin();
    let mut inputs = Vec::new();
    // Keys that arrived together are read at once, before the descriptor is waited for.
    if !event::poll(GLANCE)? {
        let mut ready = [PollFd::new(&stop, PollFlags::IN), PollFd::new(&input, PollFlags::IN)];
        let longest = Timespec::try_from(longest).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        match poll(&mut ready, Some(&longest)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_gone = ready[1].revents().intersects(PollFlags::HUP | PollFlags::ERR);
        if is_gone || !ready[0].revents().is_empty() {
            return Ok(vec![Input::End]);
        }
    }
    while event::poll(GLANCE)? {
        inputs.extend(input_of(&event::read()?));
    }
    Ok(inputs)
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the terminal, once: a second time would move the cursor over a panic's message. A failure is ignored, as
/// nothing could show it.
fn restore() {
    if !IS_TAKEN.swap(false, Ordering::Relaxed) {
        return;
    }
    let _ = execute!(cells(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

fn input_of(event: &Event) -> Option<Input> {
    let Event::Key(key) = event else { return None };
    if key.kind == KeyEventKind::Release {
        return None;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return (key.code == KeyCode::Char('c')).then_some(Input::End);
    }
    let key = match key.code {
        KeyCode::Char(character) => PressedKey::Char(character),
        KeyCode::Enter => PressedKey::Enter,
        KeyCode::Esc => PressedKey::Escape,
        KeyCode::Backspace => PressedKey::Backspace,
        KeyCode::Up => PressedKey::Up,
        KeyCode::Down => PressedKey::Down,
        KeyCode::PageUp => PressedKey::PageUp,
        KeyCode::PageDown => PressedKey::PageDown,
        _ => return None,
    };
    Some(Input::Key(key))
}
