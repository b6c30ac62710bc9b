//! The recording's notes on missing parts of a dump: each once, and only a few.

use super::build_id::Unknown;
use super::open::{Mapped, Skip};
use sordino_event::text::count;
use std::collections::HashSet;

/// Maximum number of notes of one dump.
const NOTES_MAX: usize = 8;

/// Maximum number of characters of a path in a note.
const PATH_MAX: usize = 200;

/// The parts that a dump lacks, as notes.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    notes: Vec<String>,
    more: usize,
    /// Users who have exceeded their share, and devices that are not read.
    users: HashSet<u32>,
    devices: HashSet<u64>,
}

impl LeftOut {
    /// Notes that a process has more of `what` than a dump includes.
    pub(super) fn too_many(&mut self, pid: i32, user: u32, what: &str, limit: usize) {
        self.add(format!("only {limit} {what} of process {pid} (user {user}) are in it"));
    }

    /// Notes that a user's processes have used up their share of a dump.
    pub(super) fn share_used_up(&mut self, user: u32) {
        if self.users.insert(user) {
            self.add(format!(
                "user {user} has too many processes, threads, mappings or slow files: the rest is left out"
            ));
        }
    }

    /// Notes that a file's build id is unknown. Missing files and missing permissions get no note.
    pub(super) fn unknown(&mut self, mapped: &Mapped, user: u32, why: Unknown) {
        let why = match why {
            Unknown::Skipped(Skip::Nothing) => return,
            Unknown::Skipped(Skip::Replaced) => "another file is at its path now",
            Unknown::Skipped(Skip::Lease) => "somebody holds a lease on it",
            Unknown::Skipped(Skip::Served) => "a program serves its file system",
            Unknown::TooLarge => "its headers or notes are too large",
        };
        self.file(mapped, user, why);
    }

    /// Notes that a file did not answer in time.
    pub(super) fn hung(&mut self, mapped: &Mapped, user: u32) {
        self.devices.insert(mapped.file.device);
        self.file(mapped, user, "its file system does not answer, and is not read any more");
    }

    /// Notes that a file's device did not answer earlier.
    pub(super) fn barred(&mut self, mapped: &Mapped, user: u32) {
        if self.devices.insert(mapped.file.device) {
            self.file(mapped, user, "its file system did not answer earlier");
        }
    }

    fn file(&mut self, mapped: &Mapped, user: u32, why: &str) {
        let path: String = mapped.path.chars().take(PATH_MAX).flat_map(char::escape_debug).collect();
        self.add(format!("no build id of {path} (process {}, user {user}): {why}", mapped.pid));
    }

    /// Adds a note, up to the limit.
    pub(super) fn add(&mut self, what: String) {
        if self.notes.len() < NOTES_MAX {
            self.notes.push(format!("state dump: {what}"));
        } else {
            self.more += 1;
        }
    }

    /// Returns all notes, and the number of those dropped.
    pub(super) fn notes(mut self) -> Vec<String> {
        if self.more > 0 {
            self.notes.push(format!("state dump: {} left out", count(self.more, "more note")));
        }
        self.notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dump::open::InodeId;

    #[test]
    fn notes_are_few_and_hold_no_control_characters() {
        let mut left_out = LeftOut::default();
        let file = InodeId { device: 1, inode: 2 };
        let mapped = Mapped { pid: 3, range: (0, 1), path: "/a\x1b[2J".to_owned() + &"b".repeat(4000), file };
        left_out.unknown(&mapped, 7, Unknown::Skipped(Skip::Nothing));
        left_out.hung(&mapped, 7);
        left_out.barred(&mapped, 7);
        for user in 0..100 {
            left_out.share_used_up(user);
            left_out.share_used_up(user);
        }
        let notes = left_out.notes();
        assert_eq!(notes.len(), NOTES_MAX + 1);
        assert!(notes[0].starts_with("state dump: no build id of /a\\u{1b}[2Jbbb") && notes[0].len() < 400);
        assert_eq!(notes[NOTES_MAX], "state dump: 93 more notes left out");
    }
}
