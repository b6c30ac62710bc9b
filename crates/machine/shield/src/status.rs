//! Status of the shield.

use crate::{Change, Error, KNOBS, Machine, Shield, Store};
use serde::Serialize;

/// State of the shield and of its settings.
#[derive(Clone, Debug)]
pub struct ShieldStatus {
    /// The shield; `None` if none is up.
    pub shield: Option<Shield>,
    /// Settings that differ from the shield's: another program has changed them, or they are new.
    pub drift: Vec<Drift>,
    /// Disturbances that remain on its CPUs in any case.
    pub stays: Vec<String>,
    /// Number of threads in the shield's control group.
    pub members: usize,
    /// The work that a process has not finished, if no shield is up.
    pub unfinished: Option<Unfinished>,
}

/// A setting that differs from the shield's.
#[derive(Clone, Debug, Serialize)]
pub struct Drift {
    /// Name of the knob.
    pub knob: &'static str,
    /// Change that would restore the shield's setting.
    #[serde(flatten)]
    pub change: Change,
}

/// The work of a process that has not raised or lowered its shield to the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unfinished {
    /// A process died in the middle; [`Store::down`] and [`Store::up`] undo its changes.
    Left,
    /// Another process raises or lowers a shield at this moment.
    Busy,
}

impl Store {
    /// Returns the state of the shield, and what it has set that is otherwise now. Changes nothing.
    ///
    /// # Errors
    /// If the shield's description or the machine's state can't be read.
    pub fn status(&self) -> Result<ShieldStatus, Error> {
        let (shield, unfinished) = self.seen()?;
        let mut status =
            ShieldStatus { shield: None, drift: Vec::new(), stays: Vec::new(), members: 0, unfinished };
        if let Some(shield) = shield {
            status.look(shield)?;
        }
        Ok(status)
    }

    /// Returns the shield that is up, or else whether one is unfinished.
    fn seen(&self) -> Result<(Option<Shield>, Option<Unfinished>), Error> {
        if let Some(shield) = self.shield()? {
            return Ok((Some(shield), None));
        }
        if !self.is_unfinished() {
            return Ok((None, None));
        }
        if self.is_locked() {
            return Ok((None, Some(Unfinished::Busy)));
        }
        // Another process may have finished its work before its lock was looked at.
        let shield = self.shield()?;
        let is_left = shield.is_none() && self.is_unfinished();
        Ok((shield, is_left.then_some(Unfinished::Left)))
    }
}

impl ShieldStatus {
    fn look(&mut self, shield: Shield) -> Result<(), Error> {
        let machine = Machine::read()?;
        let mut request = shield.request.clone();
        // Hotplug was done once, when the shield was raised.
        request.hotplug = false;
        for knob in KNOBS.iter().filter(|knob| !knob.is_left_out(&request)) {
            let plan = knob.plan(&machine, &request)?;
            let is_new = |change: &Change| {
                change.to.is_some()
                    && !shield.refused.iter().any(|refused| refused.place == change.place.to_string())
            };
            let changes = plan.changes.into_iter().filter(is_new);
            self.drift.extend(changes.map(|change| Drift { knob: knob.name, change }));
            self.stays.extend(plan.stays);
        }
        self.stays
            .extend(shield.refused.iter().map(|refused| format!("{}: {}", refused.what, refused.reason)));
        self.members = shield.members();
        self.shield = Some(shield);
        Ok(())
    }
}
