//! The rules of trust, as functions of the facts that the kernel reports about a file or a connection.
//!
//! A program trusts a directory if only root and its own user can have written to it: else any user could make every
//! program wait. A recorder accepts programs of its own user, and root's accepts those of all users. Neither trusts
//! what the other sends about itself.

use crate::address::Token;

/// The bits of `st_mode` that let the group and others write: `S_IWGRP` and `S_IWOTH`. The group's bit is also set if
/// an access control list lets more users write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// The reason not to trust a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distrust {
    /// The directory belongs to this user, who is neither root nor the program's.
    Owner(u32),
    /// The directory has this mode, which lets others write there, sticky or not.
    Mode(u32),
}

/// Returns no error if only root and `user` can have written to a directory with this owner and mode, which `fstat` of
/// the open directory returned. Every directory on the path has to be vetted, from one on that only root or the user
/// can have made. A user who names a directory by `SORDINO_RUNTIME_DIR` vouches for those above it.
///
/// # Errors
/// [`Distrust`] with the owner or the mode that is wrong.
pub const fn vet_directory(owner: u32, mode: u32, user: u32) -> Result<(), Distrust> {
    if owner != 0 && owner != user {
        return Err(Distrust::Owner(owner));
    }
    if mode & WRITABLE_BY_OTHERS != 0 { Err(Distrust::Mode(mode & 0o7777)) } else { Ok(()) }
}

/// Returns true if a recorder of the user `recorder` accepts programs of the user `program`, whom the kernel reports
/// for the connection (`SO_PEERCRED`).
pub const fn may_register(program: u32, recorder: u32) -> bool {
    recorder == 0 || program == recorder
}

/// Returns true if a packet with the token `sent` is accepted on a socket that expects the token `own`; a socket in a
/// session's directory expects none.
pub fn is_token_right(own: Option<Token>, sent: Option<Token>) -> bool {
    own == sent
}

/// Returns true if a recorder accepts a descriptor that comes with a packet. It does so only on a private socket, where
/// its own programs register, and never as root: root can open `/proc/PID/fd` itself, and closing another user's
/// descriptor may take for ever (FUSE).
pub const fn takes_descriptors(is_private: bool, recorder: u32) -> bool {
    is_private && recorder != 0
}

/// Returns true if a program of the user `program` uses an area that a recorder of the user `recorder` has prepared,
/// whom the kernel reports for the connection. Whoever made a file can write to it for ever: only root, and the
/// recorder that started the program, if they have the same user, could do so in any case.
pub const fn uses_prepared_area(recorder: u32, program: u32, has_started_it: bool) -> bool {
    recorder == 0 || has_started_it && recorder == program
}

/// Returns true if a recorder of the user `recorder` prepares areas for programs of the user `program` that would [use
/// them](uses_prepared_area). A program keeps the memory, whatever becomes of the recorder, so strangers get none.
pub const fn offers_prepared_area(program: u32, recorder: u32, is_private: bool) -> bool {
    program == recorder && (is_private || recorder == 0)
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

    #[test]
    fn an_area_comes_from_root_or_the_recorder_that_started_the_program() {
        for (recorder, program, started, used) in [
            (0, 0, false, true),
            (0, 1000, false, true),
            (1000, 1000, true, true),
            (1000, 1000, false, false),
            (1000, 0, true, false),
            (1001, 1000, true, false),
        ] {
            assert_eq!(
                uses_prepared_area(recorder, program, started),
                used,
                "{recorder} {program} {started}"
            );
        }
        for recorder in [0, 1000] {
            for program in [0, 1000, 1001] {
                for is_private in [true, false] {
                    let is_offered = offers_prepared_area(program, recorder, is_private);
                    let is_used = uses_prepared_area(recorder, program, is_private);
                    assert_eq!(
                        is_offered,
                        program == recorder && is_used,
                        "{program} {recorder} {is_private}"
                    );
                }
            }
        }
    }
}
