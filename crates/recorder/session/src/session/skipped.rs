//! Programs that are not recorded, and the reasons: each is named once, and no user's programs fill the notes.

use sordino_collect::unanswered::SkippedPrograms;
use sordino_event::text::count;
use sordino_intake::is_trusted;
use sordino_ring::area::control::FileId;
use std::collections::BTreeMap;

/// Maximum number of notes: over days there may be any number of programs.
const MOST: usize = 200;
/// Maximum number of notes on programs of one user, except root and the recorder's own.
const MOST_OF_A_USER: usize = 20;
/// Maximum number of users whose further programs are counted.
const MOST_USERS: usize = 32;

/// The programs that are not recorded, with the reasons.
#[derive(Debug, Default)]
pub(super) struct Skipped {
    notes: Vec<SkippedProgram>,
    /// The number of programs without a note, by user.
    more: BTreeMap<u32, u64>,
}

#[derive(Debug)]
struct SkippedProgram {
    /// The process, and its area if that is known.
    who: (i32, Option<FileId>),
    user: u32,
    name: String,
    reason: String,
}

impl SkippedProgram {
    /// The user, the name and the reason, which are equal for programs that share a note.
    fn kind(&self) -> (u32, &str, &str) {
        (self.user, &self.name, &self.reason)
    }
}

impl Skipped {
    /// Notes the reason for skipping a program. A program is examined several times, and the last reason replaces
    /// earlier ones. `name` is called only for a program without a note, so that repeated refusals cost little.
    pub(super) fn add(
        &mut self,
        who: (i32, Option<FileId>),
        user: u32,
        reason: String,
        name: impl FnOnce() -> String,
    ) {
        let known = self.notes.iter().position(|other| other.who == who);
        if known.is_some_and(|known| self.notes[known].reason == reason) {
            return;
        }
        let of_user = self.notes.iter().filter(|other| other.user == user).count();
        if known.is_none() && !is_trusted(user) && of_user >= MOST_OF_A_USER {
            if self.more.len() < MOST_USERS || self.more.contains_key(&user) {
                *self.more.entry(user).or_default() += 1;
            }
            return;
        }
        let skip = SkippedProgram { who, user, name: name(), reason };
        // A process that makes up areas is noted once.
        let is_same = |other: &SkippedProgram| other.who.0 == who.0 && other.kind() == skip.kind();
        self.notes.retain(|other| other.who != who && !is_same(other));
        self.notes.push(skip);
        self.notes.drain(..self.notes.len().saturating_sub(MOST));
    }

    /// Removes the notes on a program that is recorded after all: it may have been examined before its area was
    /// complete.
    pub(super) fn forget(&mut self, pid: i32, id: FileId) {
        self.notes.retain(|skip| skip.who.1 != Some(id) && skip.who != (pid, None));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.notes.is_empty() && self.more.is_empty()
    }

    /// Returns the programs by user, name and reason, without those that are only counted.
    pub(super) fn programs(&self) -> Vec<SkippedPrograms> {
        let mut all: Vec<SkippedPrograms> = Vec::new();
        for skip in &self.notes {
            let is_same =
                |other: &&mut SkippedPrograms| (other.user, &*other.name, &*other.reason) == skip.kind();
            match all.iter_mut().find(is_same) {
                Some(known) => known.pids.push(skip.who.0),
                None => all.push(SkippedPrograms {
                    user: skip.user,
                    name: skip.name.clone(),
                    reason: skip.reason.clone(),
                    pids: vec![skip.who.0],
                }),
            }
        }
        all
    }

    pub(super) fn notes(&self) -> impl Iterator<Item = String> {
        let more = self
            .more
            .iter()
            .map(|(user, times)| format!("skipped programs of user {user} {}", count(times, "more time")));
        self.programs().into_iter().map(|programs| programs.to_string()).chain(more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> String {
        "p".to_owned()
    }

    #[test]
    fn a_user_who_makes_up_programs_does_not_hide_notes_on_others() {
        let (mut skipped, user) = (Skipped::default(), rustix::process::geteuid().as_raw() + 1);
        skipped.add((20_000, None), 0, "honest".to_owned(), name);
        for pid in 0..10_000 {
            skipped.add((pid, None), user, format!("{pid}"), name);
        }
        let notes: Vec<String> = skipped.notes().collect();
        assert_eq!(notes.len(), 1 + MOST_OF_A_USER + 1);
        assert_eq!(notes[0], "skipped p (20000) of user 0: honest");
        assert_eq!(notes[MOST_OF_A_USER + 1], format!("skipped programs of user {user} 9980 more times"));
    }

    #[test]
    fn programs_of_one_kind_share_a_line() {
        let mut skipped = Skipped::default();
        (0..5).for_each(|pid| skipped.add((pid, None), 0, "too many".to_owned(), name));
        (5..7).for_each(|pid| skipped.add((pid, None), 0, "too many".to_owned(), String::new));
        skipped.add((7, None), 0, "other".to_owned(), name);
        let expected = [
            "skipped p of user 0, 5 programs: too many",
            "skipped 2 programs of user 0 that have ended: too many",
            "skipped p (7) of user 0: other",
        ];
        assert_eq!(skipped.notes().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_last_reason_stands_until_the_program_is_recorded() {
        let (mut skipped, id) = (Skipped::default(), FileId { device: 1, inode: 2 });
        for reason in ["one", "other", "other"] {
            skipped.add((5, Some(id)), 0, reason.to_owned(), String::new);
        }
        // The same reason for another area of the same process counts once.
        skipped.add((5, Some(FileId { device: 1, inode: 3 })), 0, "other".to_owned(), String::new);
        assert_eq!(
            skipped.notes().collect::<Vec<_>>(),
            ["skipped a program of user 0 that has ended: other"]
        );
        skipped.forget(5, FileId { device: 1, inode: 3 });
        assert_eq!(skipped.notes().count(), 0);
    }
}
