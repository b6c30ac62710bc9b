//! A process that ends with its parent.

use crate::Error;
use rustix::process::{Signal, set_parent_process_death_signal};
use sordino_proc::file::of_process;
use std::os::unix::process::parent_id;

/// Ends this process when its parent, another sordino, ends.
///
/// # Errors
/// The parent has ended before.
pub fn bind() -> Result<(), Error> {
    set_parent_process_death_signal(Some(Signal::TERM)).map_err(std::io::Error::from)?;
    // The parent may have ended before. Of another user's process no more than its name is readable.
    let name = |pid: u32| of_process(pid.cast_signed(), "comm").ok();
    let is_there = name(parent_id()) == name(std::process::id());
    if is_there {
        Ok(())
    } else {
        Err(Error::Unusable("the process that started this loop has ended".to_owned()))
    }
}
