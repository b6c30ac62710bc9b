//! Results of scenarios in a virtual machine with another kernel. `make test-vm` runs `tests/vm/scenarios/NAME.sh`
//! there, then the module `NAME` here, which reads the directory `$VM_RESULTS`.

mod check;
mod hotplug;
mod npt;
mod realtime;
mod shield;

use sordino_tests::verified::StormLanes;
use sordino_tests::{CompletedRecording, EndedProcess, RecordedEvent};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Number of lanes of a storm, as in `storms.c`.
const LANES: usize = 1024;

/// Returns the directory of the results of the scenario `name`.
fn results_of(name: &str) -> PathBuf {
    let all = std::env::var_os("VM_RESULTS").expect("VM_RESULTS: run it with make test-vm");
    PathBuf::from(all).join(name)
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn number<T: std::str::FromStr<Err: std::fmt::Debug>>(path: &Path) -> T {
    text(path).trim().parse().unwrap_or_else(|error| panic!("{}: {error:?}", path.display()))
}

/// A storm that was recorded by `begin` and `end` of `tests/vm/recording.sh`.
#[derive(Debug)]
struct Storm {
    seed: u64,
    /// Number of hits of each lane.
    hits: BTreeMap<u32, u64>,
    recording: CompletedRecording,
}

impl Storm {
    fn of(directory: &Path) -> Self {
        let ended = EndedProcess {
            status: number(&directory.join("status")),
            output: text(&directory.join("output")),
            errors: text(&directory.join("errors")),
        };
        assert_eq!(ended.status, 0, "{}", ended.errors);
        let shared = fs::read(directory.join("shared")).unwrap();
        let words: Vec<u64> =
            shared.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect();
        let mut hits = BTreeMap::new();
        for (lane, counts) in (0..).zip(words[..2 * LANES].chunks_exact(2)) {
            assert_eq!(counts[0], counts[1], "lane {lane}: a hit that has not returned");
            if counts[0] > 0 {
                hits.insert(lane, counts[0]);
            }
        }
        let recording = CompletedRecording::of(ended, directory.join("trace"));
        let notes = recording.notes();
        // An emulated processor promises no constant cycle counter, and has little time.
        let expected = ["stamped with CLOCK_MONOTONIC", "its rings could not be made present (timed out)"];
        let is_expected = |note: &&str| expected.iter().any(|text| note.starts_with(text));
        assert_eq!(notes.lines().find(|note| !is_expected(note)), None);
        Self { seed: number(&directory.join("seed")), hits, recording }
    }

    /// Checks that no record is torn, doubled or misplaced, and that missing ones are counted as lost in their place.
    fn verify(&self) {
        let (recording, mut lanes) = (&self.recording, StormLanes::new(self.seed));
        let overwrites = recording.summary["overwrite"] == true;
        lanes.read(&recording.path.join("user"), overwrites);
        let (read, lost) = (lanes.count(), recording.lost());
        let missing = lanes.missing(&self.hits, &self.hits);
        eprintln!("{}: {read} read, {lost} lost, {missing} missing", recording.path.display());
        assert_eq!(recording.user_events(), read);
        if overwrites {
            assert!(missing >= lost && recording.sum("overwritten") > 10, "the rings were not overwritten");
        } else {
            assert_eq!((missing, lanes.lost), (lost, lost));
        }
    }

    /// Returns the number of the storm's own events on `cpu`, or in the shared ring; `None` if it has no such ring.
    fn events(&self, cpu: Option<u32>) -> Option<u64> {
        let streams = self.recording.programs()[0]["streams"].as_array()?;
        let stream = streams.iter().find(|stream| stream["cpu"].as_u64() == cpu.map(u64::from))?;
        stream["events"].as_u64()
    }

    /// Returns the kernel's events in order of time.
    fn kernel(&self) -> Vec<RecordedEvent> {
        let mut events = self.recording.events_of_kernel();
        events.retain(|event| !event.name.contains("_statedump_") && event.name != "sordino_steal");
        events.sort_by_key(|event| event.time);
        assert_eq!(events.len() as u64, self.recording.kernel_events(), "the recorder's count");
        events
    }
}
