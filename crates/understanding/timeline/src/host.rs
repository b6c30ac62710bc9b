//! The hosts whose events are merged.

use sordino_event::ClassId;

/// A machine from one boot to the next, by its number in a super-trace. Ids of threads and numbers of CPUs are valid on
/// one host only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Host(pub u16);

/// The hosts on which the classes and the sources of a super-trace were recorded.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    /// The number of the last host.
    last: Host,
    /// Indexed by class; empty if all are of one host.
    of_classes: Vec<Host>,
    /// Indexed by source; empty if all are of one host.
    of_sources: Vec<Host>,
}

impl Hosts {
    /// Creates the hosts from 0 to `last`, with that of each class and of each source by its index. A class or a source
    /// that is not listed belongs to host 0; so does one with a host above `last`.
    pub fn new(last: Host, of_classes: Vec<Host>, of_sources: Vec<Host>) -> Self {
        let known = |hosts: Vec<Host>| match last {
            Host(0) => Vec::new(),
            _ => hosts.into_iter().map(|host| if host > last { Host(0) } else { host }).collect(),
        };
        Self { last, of_classes: known(of_classes), of_sources: known(of_sources) }
    }

    /// Returns the number of hosts, at least 1.
    pub fn count(&self) -> usize {
        usize::from(self.last.0) + 1
    }

    /// Returns the host on which events of the class were recorded.
    #[inline]
    pub fn of_class(&self, class: ClassId) -> Host {
        self.of_classes.get(class.index()).copied().unwrap_or_default()
    }

    /// Returns the host of the source with this index.
    pub fn of_source(&self, source: usize) -> Host {
        self.of_sources.get(source).copied().unwrap_or_default()
    }
}
