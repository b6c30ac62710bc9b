//! The rules whom to trust, as functions of what the kernel says of a file or a connection.
//!
//! A program trusts a directory in which nobody but root and its own user can have put anything: else anybody could
//! have every program wait. A recorder takes programs of its own user, and root's takes those of all. Neither believes
//! what the other says of itself.

use crate::address::Token;

/// Group and others may write: `S_IWGRP` and `S_IWOTH` of `st_mode`. An access control list that lets more users write
/// shows in the group's bit.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// The reason not to trust a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distrust {
    /// It belongs to this user, who is neither root nor the program's.
    Owner(u32),
    /// Its mode lets others write there, be it sticky or not.
    Mode(u32),
}

/// Returns no error if nobody but root and `user` can have put anything into a directory of this owner and mode, as
/// `fstat` of the open directory says. Every directory on the way has to be vetted, from one on that only root or the
/// user can have made; for a directory that `SORDINO_RUNTIME_DIR` names, whoever named it vouches for those above.
///
/// # Errors
/// [`Distrust`] with the owner or the mode that is wrong.
pub const fn vet_directory(owner: u32, mode: u32, user: u32) -> Result<(), Distrust> {
    if owner != 0 && owner != user {
        return Err(Distrust::Owner(owner));
    }
    if mode & WRITABLE_BY_OTHERS != 0 { Err(Distrust::Mode(mode & 0o7777)) } else { Ok(()) }
}

/// Returns true if a recorder of the user `recorder` takes programs of the user `program`, as the kernel says of the
/// connection (`SO_PEERCRED`).
pub const fn may_register(program: u32, recorder: u32) -> bool {
    recorder == 0 || program == recorder
}

/// Returns true if a packet with the token `sent` is accepted on a socket that expects the token `own`; a socket in a
/// session's directory expects none.
pub fn is_token_right(own: Option<Token>, sent: Option<Token>) -> bool {
    own == sent
}

/// Returns true if a recorder takes a descriptor that comes with a packet. It does on a private socket alone, where its
/// own programs register, and never as root: root can open `/proc/PID/fd` itself, and to close a descriptor of somebody
/// else's may take for ever (FUSE).
pub const fn takes_descriptors(is_private: bool, recorder: u32) -> bool {
    is_private && recorder != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_that_nobody_else_can_write_to_are_trusted() {
        for (owner, mode, user) in [(0, 0o40755, 1000), (1000, 0o40700, 1000), (0, 0o40755, 0)] {
            assert_eq!(vet_directory(owner, mode, user), Ok(()));
        }
        assert_eq!(vet_directory(1001, 0o40755, 1000), Err(Distrust::Owner(1001)));
        assert_eq!(vet_directory(1000, 0o40755, 0), Err(Distrust::Owner(1000)));
        assert_eq!(vet_directory(1000, 0o40775, 1000), Err(Distrust::Mode(0o775)));
        assert_eq!(vet_directory(0, 0o41777, 1000), Err(Distrust::Mode(0o1777)));
    }

    #[test]
    fn of_all_modes_those_without_others_write_permission_are_trusted() {
        for mode in 0..=0o7777u32 {
            let writable = [0o020, 0o002].iter().any(|bit| mode & bit == *bit);
            for file_type in [0, 0o40000] {
                assert_eq!(vet_directory(7, file_type | mode, 7).is_err(), writable, "{mode:o}");
            }
            assert_eq!(vet_directory(8, mode, 7), Err(Distrust::Owner(8)));
        }
    }

    #[test]
    fn a_recorder_takes_its_own_user_s_programs_and_root_all() {
        assert!(may_register(1000, 1000) && may_register(1000, 0) && may_register(0, 0));
        assert!(!may_register(1001, 1000) && !may_register(0, 1000) && !may_register(u32::MAX, 1000));
    }

    #[test]
    fn a_token_is_sent_where_one_is_expected_and_only_there() {
        let [token, other] = [Token::new([1, 2]), Token::new([1, 3])];
        assert!(is_token_right(None, None) && is_token_right(Some(token), Some(token)));
        for (own, sent) in [(Some(token), None), (Some(token), Some(other)), (None, Some(token))] {
            assert!(!is_token_right(own, sent));
        }
    }

    #[test]
    fn descriptors_are_taken_from_own_programs_and_not_by_root() {
        assert!(takes_descriptors(true, 1000));
        assert!(
            !takes_descriptors(true, 0) && !takes_descriptors(false, 1000) && !takes_descriptors(false, 0)
        );
    }
}
