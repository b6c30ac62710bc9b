//! The commands for sessions: recordings that outlive the shell.

mod ask;
mod follow;
mod recorder;
mod start;
mod status;

pub(crate) use ask::{
    AttachProcessOptions, DestroyOptions, EventsOptions, RotateOptions, SnapshotOptions, StopOptions, attach,
    destroy, disable, enable, rotate, snapshot, stop,
};
pub(crate) use follow::follow;
pub(crate) use recorder::run as run_recorder;
pub(crate) use start::{Options as StartOptions, run as start};
pub(crate) use status::{Options as StatusOptions, run as status};
