//! Versions of the format, and the events that each has: `internal/trace/tracev2/events.go` in Go's sources.

/// The versions that can be read, as text.
pub(crate) const KNOWN: &str = "1.22, 1.23 (Go 1.24, too), 1.25 or 1.26";

/// The length of a trace's header in bytes.
pub(crate) const HEADER: usize = 16;

/// A version of the format: the second number of the Go that introduced it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GoVersion(pub(crate) u32);

/// The first version with clock snapshots.
pub(crate) const SNAPSHOTS: GoVersion = GoVersion(25);
/// The first version in which an event ends a generation.
pub(crate) const ENDS: GoVersion = GoVersion(26);

impl GoVersion {
    /// Returns the number in a header, known or not; `None` if it is no header.
    pub(crate) fn in_header(header: &[u8]) -> Option<u32> {
        let number = header.strip_prefix(b"go 1.")?.strip_suffix(b" trace\0\0\0")?;
        std::str::from_utf8(number).ok()?.parse().ok()
    }

    /// Returns the version with this number, if it is known.
    pub(crate) fn known(minor: u32) -> Option<Self> {
        matches!(minor, 22 | 23 | 25 | 26).then_some(Self(minor))
    }

    /// Returns the number of arguments of a timed event, with the time; `None` if the version has no such event.
    pub(crate) fn arguments(self, kind: u8) -> Option<usize> {
        let last = if self < Self(23) { event::USER_LOG } else { event::GO_STATUS_STACK };
        match kind {
            event::PROCS_CHANGE..=event::GO_STATUS_STACK if kind <= last => {
                ARGUMENTS.get(usize::from(kind - event::PROCS_CHANGE)).copied().map(usize::from)
            }
            event::SPAN..=event::STACK_FREE if self >= Self(23) => {
                EXPERIMENTAL.get(usize::from(kind - event::SPAN)).copied().map(usize::from)
            }
            _ => None,
        }
    }
}

/// Returns the remedy for a version that is not known.
pub(crate) fn remedy(minor: u32) -> &'static str {
    if minor < 22 { "build the program with Go 1.22 or later" } else { "a later sordino-go may know it" }
}

/// Numbers of the types of events.
pub(crate) mod event {
    pub(crate) const EVENT_BATCH: u8 = 1;
    pub(crate) const STACKS: u8 = 2;
    pub(crate) const STACK: u8 = 3;
    pub(crate) const STRINGS: u8 = 4;
    pub(crate) const STRING: u8 = 5;
    pub(crate) const CPU_SAMPLES: u8 = 6;
    pub(crate) const FREQUENCY: u8 = 8;
    pub(crate) const PROCS_CHANGE: u8 = 9;
    pub(crate) const GO_CREATE: u8 = 14;
    pub(crate) const GO_CREATE_SYSCALL: u8 = 15;
    pub(crate) const GO_START: u8 = 16;
    pub(crate) const GO_DESTROY: u8 = 17;
    pub(crate) const GO_DESTROY_SYSCALL: u8 = 18;
    pub(crate) const GO_STOP: u8 = 19;
    pub(crate) const GO_BLOCK: u8 = 20;
    pub(crate) const GO_UNBLOCK: u8 = 21;
    pub(crate) const GO_SYSCALL_BEGIN: u8 = 22;
    pub(crate) const GO_SYSCALL_END: u8 = 23;
    pub(crate) const GO_SYSCALL_END_BLOCKED: u8 = 24;
    pub(crate) const GO_STATUS: u8 = 25;
    pub(crate) const USER_LOG: u8 = 44;
    pub(crate) const GO_SWITCH: u8 = 45;
    pub(crate) const GO_SWITCH_DESTROY: u8 = 46;
    pub(crate) const GO_CREATE_BLOCKED: u8 = 47;
    pub(crate) const GO_STATUS_STACK: u8 = 48;
    pub(crate) const EXPERIMENTAL_BATCH: u8 = 49;
    pub(crate) const SYNC: u8 = 50;
    pub(crate) const CLOCK_SNAPSHOT: u8 = 51;
    pub(crate) const END_OF_GENERATION: u8 = 52;
    pub(crate) const SPAN: u8 = 128;
    pub(crate) const STACK_FREE: u8 = 136;
}

/// The greatest number of arguments of a timed event, with the time.
pub(crate) const MAX_ARGUMENTS: usize = 5;

/// Numbers of arguments of the events from `PROCS_CHANGE` to `GO_STATUS_STACK`.
const ARGUMENTS: [u8; 40] = [
    3, 3, 1, 4, 3, // processors
    4, 2, 3, 1, 1, 3, 3, 4, 3, 1, 1, 4, // goroutines
    3, 1, // the world stops
    2, 3, 2, 2, 2, 3, 2, 2, 1, 2, 2, // garbage collection
    2, 5, 3, 4, 4, 5, // annotations
    3, 3, 4, 5, // since 1.23
];

/// Numbers of arguments of the experimental events from `SPAN` to `STACK_FREE`.
const EXPERIMENTAL: [u8; 9] = [4, 4, 2, 3, 3, 2, 3, 3, 2];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_the_events_of_their_time() {
        let [old, new] = [GoVersion(22), GoVersion(26)];
        assert_eq!(old.arguments(event::GO_CREATE), Some(4));
        assert_eq!(old.arguments(event::GO_STATUS), Some(4));
        assert_eq!(old.arguments(event::USER_LOG), Some(5));
        assert_eq!((old.arguments(event::GO_SWITCH), new.arguments(event::GO_SWITCH)), (None, Some(3)));
        assert_eq!((old.arguments(event::SPAN), new.arguments(event::STACK_FREE)), (None, Some(2)));
        for kind in [0, event::EVENT_BATCH, event::FREQUENCY, event::EXPERIMENTAL_BATCH, 127, 137, 255] {
            assert_eq!(new.arguments(kind), None);
        }
    }

    #[test]
    fn a_header_has_a_version() {
        assert_eq!(GoVersion::in_header(b"go 1.26 trace\0\0\0"), Some(26));
        assert_eq!(GoVersion::in_header(b"go 1.5 trace\0\0\0\0"), None);
        assert_eq!(GoVersion::in_header(b"go 1.+6 trace\0\0"), None);
        assert_eq!((GoVersion::known(24), GoVersion::known(26)), (None, Some(GoVersion(26))));
    }
}
