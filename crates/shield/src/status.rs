//! Whether a shield holds.

use crate::plan::check_root;
use crate::restore::Lowered;
use crate::{Change, Error, KNOBS, Machine, Shield, Store};
use serde::Serialize;

/// Whether a shield is up, and holds.
#[derive(Clone, Debug)]
pub struct Status {
    /// The shield; `None` if none is up.
    pub shield: Option<Shield>,
    /// What it had set and is otherwise now: somebody else has changed it, or it is new.
    pub drift: Vec<Drift>,
    /// What stays on its CPUs whatever is done.
    pub stays: Vec<String>,
    /// How many threads run in it.
    pub members: usize,
    /// What a process that died had left.
    pub settled: Settled,
}

/// A value that is no longer as a shield had set it.
#[derive(Clone, Debug, Serialize)]
pub struct Drift {
    /// The knob's name.
    pub knob: &'static str,
    /// What would have to be changed again.
    #[serde(flatten)]
    pub change: Change,
}

/// What was found of a process that died while it raised or lowered a shield.
#[derive(Clone, Debug)]
pub enum Settled {
    /// Nothing.
    Nothing,
    /// It is undone now.
    Undone(Lowered),
    /// It is to be undone by somebody who may.
    Left(String),
    /// It is not dead: somebody works on it just now.
    Busy,
}

impl Store {
    /// Looks whether a shield is up and everything holds that it set. Undoes what a process that died left, if it may.
    ///
    /// # Errors
    /// If what is there can't be read.
    pub fn status(&mut self) -> Result<Status, Error> {
        let mut settled = Settled::Nothing;
        let mut shield = self.shield()?;
        if self.is_unfinished() {
            settled = match check_root().and_then(|()| self.recover()) {
                Err(Error::Busy { .. }) => Settled::Busy,
                Err(error) => Settled::Left(error.to_string()),
                Ok(lowered) => lowered.map_or(Settled::Nothing, Settled::Undone),
            };
            // Another may have raised one before we had the lock.
            shield = self.shield()?;
        }
        let mut status = Status { shield: None, drift: Vec::new(), stays: Vec::new(), members: 0, settled };
        if let Some(shield) = shield {
            status.look(shield)?;
        }
        Ok(status)
    }
}

impl Status {
    fn look(&mut self, shield: Shield) -> Result<(), Error> {
        let machine = Machine::read()?;
        let mut request = shield.request.clone();
        // That was done once.
        request.hotplug = false;
        for knob in KNOBS.iter().filter(|knob| !knob.is_left_out(&request)) {
            let wants = knob.plan(&machine, &request)?;
            let is_new = |change: &Change| {
                change.to.is_some()
                    && !shield.refused.iter().any(|refused| refused.place == change.place.to_string())
            };
            let changes = wants.changes.into_iter().filter(is_new);
            self.drift.extend(changes.map(|change| Drift { knob: knob.name, change }));
            self.stays.extend(wants.stays);
        }
        self.stays
            .extend(shield.refused.iter().map(|refused| format!("{}: {}", refused.what, refused.reason)));
        self.members = shield.members();
        self.shield = Some(shield);
        Ok(())
    }
}
