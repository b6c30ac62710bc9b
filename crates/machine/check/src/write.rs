//! Output formats of a report.

mod html;
mod junit;
mod text;

use sordino_event::text::escape_markup as escape;

pub use html::html;
pub use junit::junit;
pub use text::{step as step_text, summary as summary_text};
