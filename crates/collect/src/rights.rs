//! The rights of a recorder: it looks at hostile programs with no more of them than it needs.
//!
//! Rights belong to threads, and a thread starts with those of the one that starts it. A program that is executed (the command, the
//! guardian) has its own again, by its user.

use rustix::thread::{CapabilitySet, capabilities, set_capabilities, set_no_new_privs};

/// The capabilities that a recorder needs, each with its purpose.
const NEEDED: CapabilitySet = CapabilitySet::from_bits_retain(
    // Programs: their descriptors, maps and pages.
    CapabilitySet::SYS_PTRACE.bits()
        // Their mapped files through /proc/PID/map_files, from Linux 5.9 on.
        | CapabilitySet::CHECKPOINT_RESTORE.bits()
        // Files of others that are read; directories of others in which recordings lie; the tracer's files.
        | CapabilitySet::DAC_OVERRIDE.bits()
        | CapabilitySet::DAC_READ_SEARCH.bits()
        // Giving a recording to who called sudo.
        | CapabilitySet::CHOWN.bits()
        | CapabilitySet::FOWNER.bits()
        // Signals to a command that runs as another user.
        | CapabilitySet::KILL.bits()
        // CPUs and priorities; locked memory; limits.
        | CapabilitySet::SYS_NICE.bits()
        | CapabilitySet::IPC_LOCK.bits()
        | CapabilitySet::SYS_RESOURCE.bits()
        // Names of the kernel's functions.
        | CapabilitySet::SYSLOG.bits(),
);

/// The capability that is needed until recording begins: to mount a private tracefs.
const UNTIL_IT_RECORDS: CapabilitySet = CapabilitySet::SYS_ADMIN;

/// Gives up all rights that no recorder needs, for this thread and those that it will start. To be called before there are others.
pub fn keep_needed_rights() {
    keep(NEEDED.union(UNTIL_IT_RECORDS));
}

/// Gives up what a thread does not need any more that records, and lets no program that it executes gain rights.
pub(crate) fn confine() {
    keep(NEEDED);
    // Linux has it since 3.5.
    let _ = set_no_new_privs(true);
}

/// Gives up all rights but these. It is a second wall: where it can't be built, the first stands all the same.
fn keep(needed: CapabilitySet) {
    if let Ok(mut sets) = capabilities(None) {
        sets.effective &= needed;
        sets.permitted &= needed;
        let _ = set_capabilities(None, sets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_records_has_few_rights_and_others_keep_theirs() {
        let before = capabilities(None).unwrap();
        let confined = std::thread::spawn(|| {
            confine();
            (capabilities(None).unwrap(), rustix::thread::no_new_privs().unwrap())
        });
        let (sets, no_new_privs) = confined.join().unwrap();
        assert!(NEEDED.contains(sets.permitted) && NEEDED.contains(sets.effective) && no_new_privs);
        assert_eq!(sets.permitted, before.permitted & NEEDED);
        assert_eq!(capabilities(None).unwrap().permitted, before.permitted);
    }
}
