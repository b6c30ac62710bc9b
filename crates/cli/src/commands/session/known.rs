//! The known facts about a session.

use super::place::{Life, Place};
use sordino_session::Status;

/// A session and, if its recorder replies, its status.
pub(crate) struct Known {
    pub(super) place: Place,
    pub(super) life: Life,
    pub(super) status: Option<Status>,
    /// The reason why a running recorder did not reply.
    pub(super) silent: Option<String>,
}
