//! The user's choices, and the keys that change them.

use crate::figures::{Figures, PeakFigures};
use crate::threads::SortKey;

/// A key that is pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PressedKey {
    /// A key that types a character.
    Char(char),
    /// The key that ends a line.
    Enter,
    /// The key that leaves a page.
    Escape,
    /// The key that removes a character.
    Backspace,
    /// The key with the arrow up.
    Up,
    /// The key with the arrow down.
    Down,
    /// The key for a page up.
    PageUp,
    /// The key for a page down.
    PageDown,
}

/// An effect that a key requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The view is to end.
    Quit,
    /// Count only events and waits that meet this condition; all if it is empty.
    Filter(String),
    /// Take a snapshot, or complete the chunk.
    Snapshot,
    /// Forget the waits and counts so far.
    Clear,
    /// Explain the worst wait of the thread with this id, which began at this time and took so long.
    Explain {
        /// The id of the thread.
        tid: i32,
        /// The time of the wake-up in nanoseconds since 1970.
        at_ns: i64,
        /// The length of the wait in nanoseconds.
        length_ns: i64,
    },
}

/// The page that is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ScreenPage {
    /// The page with the figures.
    #[default]
    Figures,
    /// The keys, with their effects.
    Help,
    /// A text, such as an explanation, from its first shown line on.
    Text { title: String, lines: Vec<String>, first: usize },
}

/// The choices of the user.
#[derive(Clone, Debug, Default)]
pub struct WatchView {
    pub(crate) page: ScreenPage,
    /// The order of the threads.
    pub sort: SortKey,
    /// The id of the selected thread; the first is selected if it is not there.
    pub(crate) selected: Option<i32>,
    /// The condition while it is typed.
    pub(crate) typed: Option<String>,
    /// The condition that is applied.
    pub condition: String,
    /// A line about the last action.
    pub notice: String,
}

/// Lines of a text that a page up or down passes over.
const PAGE: usize = 10;
/// Maximum length of a condition, in characters.
const TYPED_MAX: usize = 500;

impl WatchView {
    /// Creates a view of the figures with this condition, which is empty if there is none.
    pub fn of(condition: &str) -> Self {
        Self { condition: condition.to_owned(), ..Self::default() }
    }

    /// Shows a text until the user leaves it.
    pub fn show_text(&mut self, title: &str, text: &str) {
        let lines = text.lines().map(ToOwned::to_owned).collect();
        self.page = ScreenPage::Text { title: title.to_owned(), lines, first: 0 };
    }

    /// Applies a key. Returns the effect that it requests, if any.
    pub fn press(&mut self, key: PressedKey, figures: &Figures) -> Option<Action> {
        if let Some(typed) = &mut self.typed {
            match key {
                PressedKey::Char(character) if typed.chars().count() < TYPED_MAX => typed.push(character),
                PressedKey::Backspace => _ = typed.pop(),
                PressedKey::Escape => self.typed = None,
                PressedKey::Enter => return self.typed.take().map(Action::Filter),
                _ => {}
            }
            return None;
        }
        match &mut self.page {
            ScreenPage::Figures => self.press_on_figures(key, figures),
            ScreenPage::Help => {
                self.page = ScreenPage::Figures;
                None
            }
            ScreenPage::Text { lines, first, .. } => {
                let last = lines.len().saturating_sub(1);
                match key {
                    PressedKey::Up | PressedKey::Char('k') => *first = first.saturating_sub(1),
                    PressedKey::Down | PressedKey::Char('j') => *first = (*first + 1).min(last),
                    PressedKey::PageUp => *first = first.saturating_sub(PAGE),
                    PressedKey::PageDown | PressedKey::Char(' ') => *first = (*first + PAGE).min(last),
                    _ => self.page = ScreenPage::Figures,
                }
                None
            }
        }
    }

    fn press_on_figures(&mut self, key: PressedKey, figures: &Figures) -> Option<Action> {
        self.notice.clear();
        match key {
            PressedKey::Char('q') => return Some(Action::Quit),
            PressedKey::Char('?' | 'h') => self.page = ScreenPage::Help,
            PressedKey::Char('s') => self.sort = self.sort.next(),
            PressedKey::Char('w' | '/') => self.typed = Some(self.condition.clone()),
            PressedKey::Char('t') => return Some(Action::Snapshot),
            PressedKey::Char('c') => return Some(Action::Clear),
            PressedKey::Up | PressedKey::Char('k') => self.select(figures, -1),
            PressedKey::Down | PressedKey::Char('j') => self.select(figures, 1),
            PressedKey::PageUp => self.select(figures, -(PAGE as isize)),
            PressedKey::PageDown => self.select(figures, PAGE as isize),
            PressedKey::Enter | PressedKey::Char('e') => return self.explain(figures),
            _ => {}
        }
        None
    }

    /// Returns the index of the selected thread.
    pub(crate) fn selected_in(&self, figures: &Figures) -> usize {
        let is_selected = |tid: i32| Some(tid) == self.selected;
        figures.threads.iter().position(|thread| is_selected(thread.tid)).unwrap_or(0)
    }

    fn select(&mut self, figures: &Figures, by: isize) {
        let last = figures.threads.len().saturating_sub(1);
        let next = self.selected_in(figures).saturating_add_signed(by).min(last);
        self.selected = figures.threads.get(next).map(|thread| thread.tid);
    }

    fn explain(&mut self, figures: &Figures) -> Option<Action> {
        let thread = figures.threads.get(self.selected_in(figures));
        let peak = thread.and_then(|thread| Some((thread.tid, thread.worst.as_ref()?)));
        if peak.is_none() {
            self.notice = "there is no wait to explain".to_owned();
        }
        let (tid, &PeakFigures { at_ns, length_ns, .. }) = peak?;
        Some(Action::Explain { tid, at_ns, length_ns })
    }
}
