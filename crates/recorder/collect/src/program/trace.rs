//! A program's trace: its directory in a recording, and its metadata.

use crate::directory::{Directory, USER, append, overwrite};
use crate::error::Error;
use crate::number::ProgramNumber;
use crate::options::UserEvents;
use crate::output::Output;
use crate::unanswered::{Lack, Unanswered};
use sordino_ctf::write::{StreamClass, preamble, stream_class};
use sordino_ctf::{ClockDescription, Environment, Uuid};
use sordino_dirfd::Dir;
use sordino_event::{Cpu, Pid, Ticks, functions};
use sordino_filter::condition::{Condition, Context};
use sordino_inspect::clock::TraceClock;
use sordino_inspect::discover::Identity;
use sordino_inspect::dump::ExecutableMapping;
use sordino_inspect::quota::CpuQuotas;
use sordino_intake::Declared;
use sordino_ring::number::PointId;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Name of a trace's metadata file.
pub(crate) const METADATA: &str = "metadata";
/// Name of the stream whose losses are the unanswered hits.
pub(crate) const UNANSWERED: &str = "unanswered";
/// The maximum number of files in a trace's environment.
const FILES_MAX: usize = 1024;
/// Upper limit for the size of a metadata file, in bytes.
pub(crate) const MOST_METADATA: u64 = 256 << 20;

/// The data of a program that its trace needs, kept after the program has ended.
#[derive(Clone, Debug)]
pub struct ProgramTrace {
    /// The program's number in the session.
    pub number: ProgramNumber,
    /// The id of the process.
    pub pid: i32,
    /// The name and file of the process.
    pub identity: Identity,
    pub(super) quotas: CpuQuotas,
    /// The files that it had mapped when the session attached, if the session may record functions.
    pub(super) files: Arc<[ExecutableMapping]>,
    /// True if it has declared functions; the environment has the files then.
    pub(super) has_functions: bool,
    /// Address of the futex word by which it wakes the collector, if it does.
    pub(super) wake_up: Option<u64>,
    /// The time at which the session attached, in ticks of the trace's clock, if the program ran before. Earlier hits
    /// are not recorded.
    pub(super) taken_up: Option<Ticks>,
    /// The tracepoints, in ascending order of their ids.
    pub(super) tracepoints: Arc<Vec<Declared>>,
    /// Unanswered hits since the trace began, or since the session began if it is in memory.
    pub lack: Option<Lack>,
    /// The directory; `None` while the trace is in memory only.
    pub(super) place: Option<TracePlace>,
}

#[derive(Clone, Debug)]
pub(super) struct TracePlace {
    recording: Arc<Dir>,
    /// Path of the trace's directory, relative to the recording. The directory is opened only when needed, because a
    /// chunk may include any number of ended programs.
    name: String,
    uuid: Uuid,
    /// The clock as it is in the metadata.
    clock: ClockDescription,
    /// True if the metadata declares the stream of unanswered hits.
    declares_unanswered: bool,
}

impl TracePlace {
    /// Applies `change` to the trace's directory, for its metadata.
    fn metadata<T>(&self, change: impl FnOnce(&Dir) -> io::Result<T>) -> Result<T, Error> {
        let changed = self.recording.dir(&self.name).and_then(|dir| change(&dir));
        changed.map_err(Error::output(self.recording.path().join(&self.name).join(METADATA)))
    }

    fn append(&self, declarations: &str) -> Result<(), Error> {
        self.metadata(|dir| append(dir, METADATA, declarations))
    }

    /// Replaces the beginning of the metadata.
    fn change_preamble(&self, before: &str, after: String) -> Result<(), Error> {
        match self.metadata(|dir| overwrite(dir, METADATA, before, &after)) {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => self.metadata(|dir| {
                let text = dir.read_text(METADATA, MOST_METADATA)?;
                let declarations = text.strip_prefix(before).ok_or(io::ErrorKind::InvalidData)?;
                dir.replace(METADATA, (after + declarations).as_bytes())
            }),
        }
    }
}

/// Returns true if some of the tracepoints are about functions.
pub(super) fn has_functions(tracepoints: &[Declared]) -> bool {
    tracepoints.iter().any(|known| known.schema.provider == functions::PROVIDER)
}

impl ProgramTrace {
    /// Returns a copy of this trace with a directory of its own in a recording.
    pub fn put_in(&self, directory: &Directory, clock: &TraceClock) -> Result<Self, Error> {
        let declarations =
            self.tracepoints.iter().map(Declared::declaration).collect::<Result<String, _>>()?;
        self.put_in_with(directory, clock, &declarations)
    }

    /// Returns the same, given the declarations of its tracepoints.
    pub(super) fn put_in_with(
        &self,
        directory: &Directory,
        clock: &TraceClock,
        declarations: &str,
    ) -> Result<Self, Error> {
        let name = format!("{}-{}-{}", self.number, file_name(&self.identity.name), self.pid);
        let user = directory.part(USER)?;
        user.make_new(&name).map_err(Error::output(user.path().join(&name)))?;
        let (recording, clock_then) = (directory.held(), clock.ctf());
        let place = TracePlace {
            recording,
            name: format!("{USER}/{name}"),
            uuid: sordino_inspect::uuid::random(),
            clock: clock_then,
            declares_unanswered: false,
        };
        let trace = Self { place: Some(place), lack: None, ..self.clone() };
        // Removed on failure, because it is created again when there is room. Without a free descriptor, only an empty
        // directory can be removed, which it is in that case.
        let remove = || user.remove_dir(&name).or_else(|_| user.remove_all(&name));
        trace.write_metadata(clock, declarations).inspect_err(|_| _ = remove())?;
        Ok(trace)
    }

    /// Returns a path for readers of its directory, valid while this value exists.
    pub fn path(&self) -> Option<PathBuf> {
        self.place.as_ref().map(|place| place.recording.proc_path().join(&place.name))
    }

    /// Returns the path of its directory relative to the recording.
    pub fn name(&self) -> &str {
        self.place.as_ref().map_or("", |place| place.name.as_str())
    }

    /// Returns the file for the ring of a CPU, or for the shared ring.
    pub fn output(&self, cpu: Option<Cpu>) -> Option<Output> {
        let place = self.place.as_ref()?;
        let file = cpu.map_or("shared".to_owned(), |cpu| format!("cpu{cpu}"));
        let name = format!("{}/{file}", place.name);
        Some(Output::new(Arc::clone(&place.recording), name, place.uuid, cpu))
    }

    /// Adds unanswered hits to the trace.
    pub fn add_lack(&mut self, lack: Lack) -> Result<(), Error> {
        let lack = self.lack.map_or(lack, |before| before.and(lack));
        self.lack = Some(lack);
        let Some(place) = &mut self.place else { return Ok(()) };
        if !place.declares_unanswered {
            place.append(&stream_class(StreamClass::Unanswered))?;
            place.declares_unanswered = true;
        }
        let name = format!("{}/{UNANSWERED}", place.name);
        let reported = Output::write_unanswered(Arc::clone(&place.recording), name, place.uuid, &lack);
        reported.map_err(Error::output(place.recording.path().join(&place.name).join(UNANSWERED)))
    }

    /// Returns the unanswered hits that the trace lacks.
    pub fn unanswered(&self) -> Unanswered {
        self.lack.map(|lack| lack.unanswered).unwrap_or_default()
    }

    /// Returns the time at which the session attached, in nanoseconds since the epoch, if the program ran before.
    pub fn taken_up_ns(&self) -> Option<i64> {
        let place = self.place.as_ref()?;
        Some(place.clock.time(self.taken_up?).0)
    }

    /// Returns the full name of its tracepoint `id`.
    pub fn tracepoint(&self, id: PointId) -> Option<String> {
        let index = self.tracepoints.binary_search_by_key(&id, |known| known.id).ok()?;
        Some(self.tracepoints[index].schema.full_name())
    }

    /// Returns the facts of the process that rules may ask for.
    pub(super) fn context(&self) -> Context<'_> {
        Context { pid: Pid(self.pid), procname: &self.identity.name }
    }

    /// Returns the full names of its tracepoints, each with the condition for hits to request a snapshot.
    pub fn triggers(&self, user: &UserEvents) -> impl Iterator<Item = (String, Condition)> {
        let context = self.context();
        self.tracepoints.iter().map(move |known| {
            let Declared { schema, .. } = known;
            (schema.full_name(), user.choose(schema, &context).trigger)
        })
    }

    pub(super) fn append(&self, declarations: &str) -> Result<(), Error> {
        self.place.as_ref().map_or(Ok(()), |place| place.append(declarations))
    }

    /// Updates the clock in the metadata.
    pub(crate) fn set_clock(&self, clock: &TraceClock) -> Result<(), Error> {
        let Some(place) = &self.place else { return Ok(()) };
        let before = self.preamble(place, clock, &place.clock)?;
        let after = self.preamble(place, clock, &clock.ctf())?;
        place.change_preamble(&before, after)
    }

    /// Adds the files that the program has mapped to the metadata, once it has declared functions.
    pub(super) fn add_files(&mut self, clock: &TraceClock) -> Result<(), Error> {
        if self.has_functions || !has_functions(&self.tracepoints) {
            return Ok(());
        }
        self.change_environment(clock, |trace| trace.has_functions = true)
            .inspect_err(|_| self.has_functions = false)
    }

    /// Adds the files that the program has mapped since. It may have unmapped others, whose functions it has called.
    pub(super) fn add_mapped(
        &mut self,
        mapped: Vec<ExecutableMapping>,
        clock: &TraceClock,
    ) -> Result<(), Error> {
        let mut files = self.files.to_vec();
        let new = mapped.into_iter().filter(|file| !self.files.contains(file));
        files.extend(new.take(FILES_MAX.saturating_sub(files.len())));
        if files.len() == self.files.len() {
            return Ok(());
        }
        let before = Arc::clone(&self.files);
        // On failure, the metadata has the former files, which the next change begins with.
        let changed = self.change_environment(clock, |trace| trace.files = files.into());
        changed.inspect_err(|_| self.files = before)
    }

    /// Changes the environment in the metadata as `change` changes the trace.
    fn change_environment(
        &mut self,
        clock: &TraceClock,
        change: impl FnOnce(&mut Self),
    ) -> Result<(), Error> {
        let preamble = |trace: &Self| {
            let of = |place: &TracePlace| trace.preamble(place, clock, &place.clock);
            trace.place.as_ref().map(of).transpose()
        };
        let before = preamble(self)?;
        change(self);
        let after = preamble(self)?;
        match (&self.place, before.zip(after)) {
            (Some(place), Some((before, after))) => place.change_preamble(&before, after),
            _ => Ok(()),
        }
    }

    /// Returns the trace without its tracepoints, for a program that has ended: a chunk may include any number of
    /// these.
    pub fn without_tracepoints(self) -> Self {
        Self { tracepoints: Arc::default(), ..self }
    }

    fn write_metadata(&self, clock: &TraceClock, declarations: &str) -> Result<(), Error> {
        let Some(place) = &self.place else { return Ok(()) };
        let mut text = self.preamble(place, clock, &clock.ctf())?;
        text += &stream_class(StreamClass::Cpu);
        text += &stream_class(StreamClass::Shared);
        text += declarations;
        place.metadata(|dir| dir.replace(METADATA, text.as_bytes()))
    }

    /// Returns the beginning of the metadata: the program, the host and the clock.
    fn preamble(
        &self,
        place: &TracePlace,
        clock: &TraceClock,
        description: &ClockDescription,
    ) -> Result<String, Error> {
        let mut environment = Environment::default();
        clock.relate(&mut environment);
        environment
            .set("domain", "ust")
            .set("tracer_name", "sordino")
            .set("tracer_version", env!("CARGO_PKG_VERSION"))
            .set("vpid", i64::from(self.pid))
            .set("procname", self.identity.name.as_str())
            .set("executable", self.identity.executable.as_str());
        if self.identity.own_pid != self.pid {
            environment.set("vpid_in_namespace", i64::from(self.identity.own_pid));
        }
        if let Some(futex) = self.wake_up {
            environment.set("wake_up_futex", futex.cast_signed());
        }
        if let Some(ticks) = self.taken_up {
            environment.set("taken_up", ticks.0.cast_signed());
        }
        self.quotas.describe(&mut environment);
        for (number, file) in self.files.iter().filter(|_| self.has_functions).enumerate() {
            environment.set(format!("mapped_file_{number}"), file.to_string().as_str());
        }
        Ok(preamble(place.uuid, &environment, description)?)
    }
}

/// Makes a process's name safe for use in a file name.
fn file_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.+".contains(c) { c } else { '_' };
    let name: String = name.chars().map(plain).collect();
    if name.is_empty() { "unnamed".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_makes_a_file_name() {
        assert_eq!(file_name("npt"), "npt");
        assert_eq!(file_name("../a b/c"), ".._a_b_c");
        assert_eq!(file_name(""), "unnamed");
    }
}
