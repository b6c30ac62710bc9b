//! Where the collector's threads run.

use crate::options::Options;
use crate::threads;
use sordino_sched::{CpuList, Policy, allow_prompt_sleep, set_affinity, set_policy};

/// The CPU and the priority that a collector's thread has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    pub(crate) cpu: Option<u32>,
    pub(crate) priority: Option<u8>,
}

impl Place {
    /// What the user wants for the collector.
    pub(crate) fn of(options: &Options) -> Self {
        Self { cpu: options.collector_cpu, priority: options.collector_priority }
    }

    /// Takes the calling thread there; what is in the way, if something is.
    pub(crate) fn take(self) -> Result<(), String> {
        allow_prompt_sleep();
        if let Some(cpu) = self.cpu {
            set_affinity(&CpuList::new([cpu])).map_err(|error| format!("can't run on CPU {cpu}: {error}"))?;
            threads::stay();
        }
        if let Some(priority) = self.priority {
            set_policy(Policy::Fifo(priority)).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}
