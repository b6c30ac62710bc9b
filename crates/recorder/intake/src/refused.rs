//! Refused connections to a session's socket: counted for each user, with one note each.

use sordino_inspect::discover::identity;
use std::collections::HashMap;

/// Maximum number of pairs of user and reason that are counted separately.
const MOST_USERS: usize = 32;

/// The reason for refusing a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Offence {
    /// The recorder accepts no programs of this user.
    User,
    /// The packet lacks the token that the recorder's own programs inherit.
    Token,
    /// The packet is not valid.
    Nonsense,
    /// The packet has another version of the protocol. Versions are not told apart, as the sender chooses them.
    Version,
    /// No packet arrived in time.
    Silence,
}

/// Refused connections with their counts.
#[derive(Debug, Default)]
pub(crate) struct RefusedPrograms {
    known: HashMap<(u32, Offence), (First, u64)>,
    others: u64,
}

/// A user's first process that was refused.
#[derive(Debug)]
struct First {
    pid: i32,
    name: String,
}

impl RefusedPrograms {
    pub(crate) fn add(&mut self, user: u32, pid: i32, offence: Offence) {
        let is_known = self.known.contains_key(&(user, offence));
        if !is_known && self.known.len() >= MOST_USERS {
            self.others = self.others.saturating_add(1);
            return;
        }
        let first = || (First { pid, name: identity(pid).name }, 0);
        let (_, count) = self.known.entry((user, offence)).or_insert_with(first);
        *count = count.saturating_add(1);
    }

    /// Returns one note for each user and reason.
    pub(crate) fn notes(&self) -> impl Iterator<Item = String> {
        let mut known: Vec<_> = self.known.iter().collect();
        known.sort_by_key(|((user, offence), _)| (*user, *offence as u8));
        let notes = known.into_iter().map(|((user, offence), (First { pid, name }, count))| {
            let why = match offence {
                Offence::User => "another user's",
                Offence::Token => "without the token of the recorded command",
                Offence::Nonsense => "no packet of a program",
                Offence::Version => "another version of the registration protocol: rebuild the program",
                Offence::Silence => "nothing was sent",
            };
            let name = if name.is_empty() { "ended" } else { name };
            format!("refused {count} connections of user {user}: {why} (the first: process {pid}, {name})")
        });
        let others =
            (self.others > 0).then(|| format!("refused {} connections of further users", self.others));
        notes.chain(others).collect::<Vec<_>>().into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_refused_connections_is_a_few_notes() {
        let mut refused = RefusedPrograms::default();
        for user in 0..1000 {
            (0..5).for_each(|_| refused.add(user, i32::MAX, Offence::Token));
        }
        let notes: Vec<String> = refused.notes().collect();
        assert_eq!(notes.len(), MOST_USERS + 1);
        assert!(notes[0].contains("refused 5 connections of user 0: without the token"), "{}", notes[0]);
        assert!(notes[MOST_USERS].contains("4840 connections of further users"), "{}", notes[MOST_USERS]);
    }
}
