//! Maps a user id to its owner: some users own thousands of ids for their user namespaces (subuid(5)).

use rustix::process::geteuid;
use std::fs;
use std::ops::Range;

/// The ranges of subordinate user ids, and their owners.
#[derive(Debug, Default)]
pub(super) struct Accounts(Vec<(Range<u32>, u32)>);

impl Accounts {
    /// Reads `/etc/subuid` and `/etc/passwd`; other sources of ranges are not supported.
    pub(super) fn of_this_machine() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        Self::of(&read("/etc/subuid"), &read("/etc/passwd"))
    }

    fn of(subuid: &str, passwd: &str) -> Self {
        let named = |name: &str| {
            let mut fields =
                passwd.lines().map(|line| line.split(':')).find(|line| line.clone().next() == Some(name))?;
            fields.nth(2)?.parse().ok()
        };
        let range = |line: &str| {
            let mut words = line.trim().split(':');
            let (owner, start, count) = (words.next()?, words.next()?, words.next()?);
            let (start, count): (u32, u32) = (start.parse().ok()?, count.parse().ok()?);
            let owner = owner.parse().ok().or_else(|| named(owner)).unwrap_or(start);
            Some((start..start.saturating_add(count), owner))
        };
        Self(subuid.lines().filter_map(range).collect())
    }

    /// Returns the user whose limits apply to a program of `user`: all ids of a user's ranges share that user's limits.
    /// A range of root or of the recorder's user has limits of its own.
    pub(super) fn of_user(&self, user: u32) -> u32 {
        let range = self.0.iter().find(|(range, _)| range.contains(&user) && !is_trusted(user));
        range.map_or(user, |(range, owner)| if is_trusted(*owner) { range.start } else { *owner })
    }
}

/// Returns true for users without limits: those who could stop the recorder anyway.
pub fn is_trusted(user: u32) -> bool {
    user == 0 || user == geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ids_of_a_range_are_their_owners() {
        let passwd = "root:x:0:0::/root:/bin/sh\nanna:x:1501:1501::/home/anna:/bin/sh\n";
        let accounts =
            Accounts::of("anna:100000:65536\n1502:200000:10\nroot:300000:5\nnonsense\nnone:1:x\n", passwd);
        for (user, account) in [
            (100_000, 1501),
            (165_535, 1501),
            (165_536, 165_536),
            (200_009, 1502),
            (300_004, 300_000),
            (1501, 1501),
            (0, 0),
        ] {
            assert_eq!(accounts.of_user(user), account, "{user}");
        }
    }
}
