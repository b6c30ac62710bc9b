//! Lists the programs that could be recorded.

use crate::catalogue::{CatalogueReader, Learned};
use serde::Serialize;
use sordino_event::Schema;
use sordino_inspect::discover::{Hidden, Identity, areas, identity};
use sordino_proc::list::pids;
use sordino_ring::area::control::Program;

/// The programs that could be recorded now.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ProgramList {
    /// The programs that are linked with sordino.
    pub programs: Vec<Listed>,
    /// The number of processes that can't be examined and so may be such programs.
    pub hidden: usize,
}

/// A program that is linked with sordino.
#[derive(Clone, Debug, Serialize)]
pub struct Listed {
    /// The id of its process.
    pub pid: i32,
    /// The name of the process.
    pub name: String,
    /// Path of the program's file.
    pub executable: String,
    /// The tracepoints that it has declared.
    #[serde(skip)]
    pub tracepoints: Vec<Schema>,
    /// The sessions that record it, and their recorders' process ids.
    pub recorded_by: Vec<(String, u32)>,
    /// The reason that it can't be recorded.
    pub problem: Option<String>,
    /// Tracepoints that can't be recorded, with the reason.
    pub notes: Vec<String>,
}

/// Examines all processes except this one.
pub fn list() -> ProgramList {
    let mut listing = ProgramList::default();
    for pid in pids().filter(|pid| *pid != std::process::id() as i32) {
        match areas(pid) {
            Ok(found) => {
                for area in found {
                    listing.programs.push(listed(&identity(pid), pid, &Program::open(&area.file)));
                }
            }
            Err(Hidden::Closed) => {
                let identity = identity(pid);
                let problem = Hidden::Closed.to_string();
                listing.programs.push(Listed { problem: Some(problem), ..unknown(&identity, pid) });
            }
            Err(Hidden::NotPermitted) => listing.hidden += 1,
            Err(Hidden::NotItsOwn | Hidden::Ended | Hidden::Io(_)) => {}
        }
    }
    listing
}

fn unknown(identity: &Identity, pid: i32) -> Listed {
    Listed {
        pid,
        name: identity.name.clone(),
        executable: identity.executable.clone(),
        tracepoints: Vec::new(),
        recorded_by: Vec::new(),
        problem: None,
        notes: Vec::new(),
    }
}

fn listed(
    identity: &Identity,
    pid: i32,
    program: &Result<Program, sordino_ring::area::control::Refusal>,
) -> Listed {
    let mut listed = unknown(identity, pid);
    match program {
        Ok(program) => {
            let mut reader = CatalogueReader::default();
            let Learned { tracepoints, notes, .. } = reader.learn(program, usize::MAX);
            listed.tracepoints = tracepoints.into_iter().map(|known| known.schema).collect();
            listed.notes = notes;
            listed.notes.extend(reader.note_unnamed(program.refused()));
            let owners = program.owners().unwrap_or_default();
            listed.recorded_by = owners.into_iter().map(|owner| (owner.name, owner.pid)).collect();
        }
        Err(refusal) => listed.problem = Some(refusal.to_string()),
    }
    listed
}
