//! The kernel's tracers that measure by themselves, such as `hwlat`.

use crate::{Error, Instance, Tracefs};

impl Tracefs {
    /// The tracers that this kernel was built with.
    ///
    /// # Errors
    /// If the kernel's list can't be read.
    pub fn tracers(&self) -> Result<Vec<String>, Error> {
        let text = self.root.read("available_tracers")?;
        Ok(text.split_whitespace().map(str::to_owned).collect())
    }
}

impl Instance {
    /// Runs this tracer from now on; `nop` is none. `hwlat` runs in one instance at a time.
    ///
    /// # Errors
    /// If the kernel has no such tracer, or another instance runs it.
    pub fn set_tracer(&self, name: &str) -> Result<(), Error> {
        self.dir.set("current_tracer", name)
    }

    /// What it recorded, as the kernel prints it.
    ///
    /// # Errors
    /// If it can't be read.
    pub fn text(&self) -> Result<String, Error> {
        self.dir.read("trace")
    }
}
