//! A session's recordings: numbered, finished by another thread, and for one that writes to disk, begun anew when it is time.

use super::bell::Bell;
use super::control::{Control, Reply};
use super::prepare::chunk;
use super::programs::summarise;
use super::writer::{Done, Whom, Writer};
use super::{Nobody, Outlet, Session, Sink};
use crate::Error;
use crate::directory::Directory;
use crate::kernel::page_file;
use crate::options::Options;
use crate::recover::recover;
use crate::series::{Kind, Series};
use crate::summary::{State, Summary};
use sordino_event::Cpu;
use std::time::Instant;

impl Outlet {
    /// For a session; what a recorder that was killed left unfinished is finished.
    pub(super) fn of(options: &Options, bell: &Bell) -> Result<Option<Self>, Error> {
        let Some(session) = &options.session else { return Ok(None) };
        let kind = if options.geometry.overwrite { Kind::Snapshot } else { Kind::Chunk };
        let series = Series::open(&options.output, kind)?;
        let mut writer = Writer::start(bell.clone())?;
        for directory in series.finished().filter(|directory| is_unfinished(directory)).cloned() {
            let job = move || recover(&directory, &mut Nobody).map(|summary| (directory, summary));
            writer.give(Box::new(job), None);
        }
        let control = Control::listen(&session.runtime, bell.clone())?;
        let (notes, rotated) = (Vec::new(), Instant::now());
        Ok(Some(Self { series, writer, control, notes, triggers: 0, rotated, last_snapshot: true }))
    }

    /// Takes up what the writer has done.
    pub(super) fn take(&mut self, done: Vec<Done>, options: &Options) {
        let Some(session) = &options.session else { return };
        for Done { result, whom } in done {
            let reply = match result {
                Ok((directory, _)) => {
                    // Those that were recovered were there before, and what is shown to who follows is none.
                    let is_ours = directory.path().parent() == Some(self.series.path());
                    if is_ours && self.series.finished().all(|known| known.path() != directory.path()) {
                        self.series.finish(directory.clone(), session.keep);
                    }
                    Reply::Written { directory: directory.path().to_owned() }
                }
                Err(error) => {
                    self.notes.push(error.to_string());
                    Reply::Refused { reason: error.to_string() }
                }
            };
            // Who asked may be gone.
            _ = whom.map(|whom| whom.send(reply));
        }
    }

    /// Waits until all is written.
    pub(super) fn finish(mut self, last: Option<Directory>, options: &Options) {
        let done = self.writer.finish();
        self.take(done, options);
        if let (Some(last), Some(session)) = (last, &options.session) {
            self.series.finish(last, session.keep);
        }
    }
}

/// Whether its recorder was killed.
fn is_unfinished(directory: &Directory) -> bool {
    Summary::read(directory).is_ok_and(|summary| summary.state == State::Recording)
}

impl Session<'_> {
    /// What the writer has done since the last look.
    pub(super) fn finish_chunks(&mut self) {
        if let Some(outlet) = &mut self.outlet {
            let done = outlet.writer.done();
            outlet.take(done, self.options);
        }
    }

    /// Goes on in another chunk when this one is large or old enough.
    pub(super) fn rotate_if_due(&mut self) -> Result<(), Error> {
        let (Some(session), Some(outlet)) = (&self.options.session, &self.outlet) else { return Ok(()) };
        let is_old = session.rotation.every.is_some_and(|every| outlet.rotated.elapsed() >= every);
        let is_large = session.rotation.size.is_some_and(|size| self.chunk_bytes() >= size);
        if is_old || is_large { self.rotate(None) } else { Ok(()) }
    }

    /// Bytes of the chunk on disk.
    fn chunk_bytes(&self) -> u64 {
        let Sink::Chunk(chunk) = &self.sink else { return 0 };
        crate::series::size(chunk.directory.path())
    }

    /// Goes on in another chunk; `whom` is told when the one before is complete.
    ///
    /// # Errors
    /// Why it goes on in the same one.
    pub(super) fn rotate(&mut self, whom: Option<Whom>) -> Result<(), Error> {
        let (Some(outlet), Sink::Chunk(_)) = (&mut self.outlet, &self.sink) else { return Ok(()) };
        outlet.rotated = Instant::now();
        let directory = outlet.series.next()?;
        let next = chunk(directory.clone(), &self.template, &self.clock, self.kernel.as_ref());
        let next = next.and_then(|next| next.announce().map(|()| next));
        let next = next.inspect_err(|_| directory.remove(false))?;
        let Sink::Chunk(mut before) = std::mem::replace(&mut self.sink, Sink::Chunk(Box::new(next))) else {
            return Ok(());
        };
        for program in &mut self.programs {
            match program.go_on_in(&directory, &self.clock) {
                Ok((trace, outputs)) => {
                    let ends = self.collector.rotate(program.number(), outputs);
                    let notes = std::mem::take(&mut program.notes);
                    before.add(summarise(&trace, notes, ends, &before.directory), trace);
                }
                // Its events go on into the chunk before, until it ends.
                Err(error) => before.summary.notes.push(error.to_string()),
            }
        }
        let kernel = self.kernel.as_mut().map_or(Ok(Vec::new()), |kernel| {
            let raw = directory.raw();
            let file = |cpu: Cpu| page_file(&raw, cpu).map(|file| (cpu, file)).map_err(Error::output(&raw));
            let next = self.options.cpus.as_slice().iter().map(|&cpu| file(Cpu(cpu)));
            kernel.empty(next.collect::<Result<_, _>>()?)
        });
        if let Err(error) = self.leave_chunk(&before.directory) {
            self.tell(error.to_string());
        }
        let rest = self.rest(kernel);
        let clock = self.clock.clone();
        let job = Box::new(move || before.finish(&clock, rest, &mut Nobody));
        if let Some(outlet) = &mut self.outlet {
            outlet.writer.give(job, whom);
        }
        Ok(())
    }
}
