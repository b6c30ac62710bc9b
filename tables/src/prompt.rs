//! The prompt, for queries one after the other.

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor};
use sordino_command::failure::Failure;
use sordino_terminal::remark;
use std::path::PathBuf;

/// Maximum number of lines in the history.
const LINES: usize = 1000;

/// A prompt with the history of earlier sessions.
pub(crate) struct Prompt {
    editor: Editor<(), FileHistory>,
    history: Option<PathBuf>,
}

impl Prompt {
    /// Opens the prompt, and reads the history.
    pub(crate) fn open() -> Result<Self, Failure> {
        let config = Config::builder().max_history_size(LINES)?.auto_add_history(false).build();
        let mut editor = Editor::with_config(config)?;
        let history = history();
        if let Some(path) = history.as_ref().filter(|path| path.exists()) {
            editor.load_history(path)?;
        }
        Ok(Self { editor, history })
    }

    /// Reads the next statement, up to its semicolon. `None` at the end.
    pub(crate) fn statement(&mut self) -> Result<Option<String>, Failure> {
        let mut statement = String::new();
        loop {
            let prompt = if statement.is_empty() { "sordino> " } else { "      -> " };
            match self.editor.readline(prompt) {
                Ok(line) if statement.is_empty() && line.trim().is_empty() => {}
                Ok(line) if statement.is_empty() && matches!(line.trim(), "quit" | "exit" | "\\q") => {
                    return Ok(None);
                }
                Ok(line) => {
                    statement += &line;
                    if line.trim_end().ends_with(';') {
                        self.editor.add_history_entry(&*statement)?;
                        return Ok(Some(statement));
                    }
                    statement.push('\n');
                }
                Err(ReadlineError::Interrupted) => statement.clear(),
                Err(ReadlineError::Eof) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Writes the history for the next session.
    pub(crate) fn close(mut self) {
        let Some(path) = self.history else { return };
        let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        if let Err(error) = made.map_err(ReadlineError::from).and_then(|()| self.editor.save_history(&path)) {
            remark(&format!("can't write {}: {error}", path.display()));
        }
    }
}

/// Returns the file of the history, by the rules for directories of freedesktop.org.
fn history() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let state = state.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state")))?;
    Some(state.join("sordino/sql_history"))
}
