//! The connections that the kernel keeps for a socket until they are accepted.

use std::fs;

/// The most that a socket asks for.
pub(crate) const MOST: i32 = 4096;

/// Tells from what was accepted whether there was room for all who came: the kernel does not say how many it keeps.
#[derive(Debug)]
pub(crate) struct Backlog {
    /// The most that the kernel keeps: what the socket asked for, or `net.core.somaxconn`, and one.
    room: usize,
    /// Connections that were accepted since there were none. If they are fewer than `room`, all had room at any time since then.
    accepted: usize,
    was_full: bool,
}

impl Backlog {
    /// That of a socket which asks for [`MOST`].
    pub(crate) fn new() -> Self {
        let limit = fs::read_to_string("/proc/sys/net/core/somaxconn");
        let limit = limit.ok().and_then(|text| text.trim().parse::<usize>().ok()).unwrap_or(usize::MAX);
        Self { room: limit.min(MOST as usize) + 1, accepted: 0, was_full: false }
    }

    /// One was accepted.
    pub(crate) const fn count_accepted(&mut self) {
        self.accepted += 1;
        self.was_full |= self.accepted >= self.room;
    }

    /// There is none left.
    pub(crate) const fn emptied(&mut self) {
        self.accepted = 0;
    }

    /// Returns true if it may have been full since this was last asked.
    pub(crate) const fn take_was_full(&mut self) -> bool {
        std::mem::replace(&mut self.was_full, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_was_full_if_as_many_came_as_it_has_room_for() {
        let mut backlog = Backlog { room: 3, ..Backlog::new() };
        let mut accept = |connections| {
            (0..connections).for_each(|_| backlog.count_accepted());
            backlog.emptied();
            backlog.take_was_full()
        };
        assert_eq!([2, 2, 3, 2].map(&mut accept), [false, false, true, false]);
        assert!(Backlog::new().room > 1);
    }
}
