//! The hosts and the clocks of several recordings that are read as one.

use super::OpenRecording;
use crate::clocks::{ClockRelation, RecordingClock};
use crate::gaps::{TraceCoverage, overlaps};
use sordino_timeline::{Host, MergedClocks, is_added};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// One of the recordings that are read together.
#[derive(Clone, Debug)]
pub struct MergedRecording {
    /// The directory of the recording.
    pub path: PathBuf,
    /// The machine of the recording, from one boot to the next.
    pub host: Host,
    /// The name of that machine, if a trace has it.
    pub host_name: Option<String>,
    /// The clock of the recording.
    pub clock: RecordingClock,
    /// The number of classes of the recordings up to this one.
    pub(super) classes: usize,
}

impl OpenRecording {
    /// Returns the directories of the recordings, separated by commas.
    pub fn title(&self) -> String {
        let paths = self.recordings.iter().map(|recording| recording.path.to_string_lossy());
        paths.collect::<Vec<_>>().join(", ")
    }

    /// Returns the number of hosts, from one boot to the next, that were recorded.
    pub fn host_count(&self) -> usize {
        self.hosts.count()
    }

    /// Returns names that distinguish the hosts: those of the machines, or of the recordings' directories if machines
    /// have the same name.
    pub fn host_labels(&self) -> Vec<String> {
        let first = |host| self.recordings.iter().find(move |recording| recording.host == Host(host));
        let hosts: Vec<_> = (0..=u16::MAX).map_while(first).collect();
        let name = |recording: &MergedRecording| recording.host_name.clone().unwrap_or_default();
        let label = |recording: &&MergedRecording| {
            let (own, path) = (name(recording), &recording.path);
            let is_unique = hosts.iter().filter(|other| name(other) == own).count() == 1;
            let directory = || path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
            if is_unique && !own.is_empty() { own } else { directory() }
        };
        hosts.iter().map(label).collect()
    }

    /// Returns the names of events that two recordings of one host contain for the same time, without the events that
    /// recorders add.
    pub fn doubled_events(&self) -> BTreeSet<&str> {
        let names = |covered: &TraceCoverage| {
            let classes = self.classes.iter().map(|(_, class)| class);
            let own = classes.skip(covered.classes.start).take(covered.classes.len());
            own.filter(|class| !is_added(class)).map(|class| &*class.name).collect::<BTreeSet<_>>()
        };
        let both = |(one, other)| names(one).intersection(&names(other)).copied().collect::<Vec<_>>();
        overlaps(&self.covered).flat_map(both).collect()
    }

    /// Returns the clocks of the events' classes.
    pub fn clocks(&self) -> MergedClocks {
        let mut clocks = Vec::new();
        let (mut of_recordings, mut of_classes) = (Vec::new(), Vec::new());
        for (index, recording) in self.recordings.iter().enumerate() {
            let clock = match recording.clock.relation {
                ClockRelation::Same(other) if other < index => of_recordings[other],
                _ => {
                    clocks.push(recording.clock.uncertainty);
                    clocks.len() - 1
                }
            };
            of_recordings.push(clock);
            of_classes.resize(recording.classes, clock);
        }
        MergedClocks::new(of_classes, clocks)
    }
}
