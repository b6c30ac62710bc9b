//! Capabilities that operations need, and the advice if one is missing: root is not advised to become root.

use rustix::process::geteuid;
use rustix::thread::{CapabilitySet, capabilities};

/// An operation that needs a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// Inspection of other users' processes.
    Trace,
    /// Access to files that a process has closed but still maps.
    FindClosed,
    /// Real-time priorities, and affinity of other users' threads.
    Schedule,
    /// Locking of any amount of memory.
    LockMemory,
    /// Mounts and kernel settings.
    Administer,
}

impl Right {
    fn capability(self) -> (&'static str, CapabilitySet) {
        match self {
            Self::Trace => ("SYS_PTRACE", CapabilitySet::SYS_PTRACE),
            Self::FindClosed => ("CHECKPOINT_RESTORE", CapabilitySet::CHECKPOINT_RESTORE),
            Self::Schedule => ("SYS_NICE", CapabilitySet::SYS_NICE),
            Self::LockMemory => ("IPC_LOCK", CapabilitySet::IPC_LOCK),
            Self::Administer => ("SYS_ADMIN", CapabilitySet::SYS_ADMIN),
        }
    }

    /// Returns the advice for a thread to which the kernel has denied the operation.
    pub fn remedy(self) -> String {
        let has = capabilities(None).is_ok_and(|sets| sets.effective.contains(self.capability().1));
        self.remedy_for(is_root(), has)
    }

    fn remedy_for(self, is_root: bool, has: bool) -> String {
        let (name, _) = self.capability();
        match (is_root, has) {
            (false, _) => "run as root".to_owned(),
            (true, false) => {
                format!("root lacks CAP_{name} here; a container gets it by --cap-add {name}")
            }
            (true, true) => format!(
                "root has CAP_{name} here and is refused all the same: by a seccomp filter, a security module or a user namespace"
            ),
        }
    }
}

/// Returns true if this process runs as root.
pub fn is_root() -> bool {
    geteuid().is_root()
}

/// Prefix of a command that only root can run: empty for root.
pub fn as_root() -> &'static str {
    if is_root() { "" } else { "as root, " }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_told_which_capability_is_missing_and_others_to_be_root() {
        assert_eq!(Right::Trace.remedy_for(false, false), "run as root");
        assert_eq!(
            Right::Schedule.remedy_for(true, false),
            "root lacks CAP_SYS_NICE here; a container gets it by --cap-add SYS_NICE"
        );
        let refused = Right::Administer.remedy_for(true, true);
        assert!(refused.contains("CAP_SYS_ADMIN") && !refused.contains("as root"), "{refused}");
    }
}
