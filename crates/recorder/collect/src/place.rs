//! The CPU and priority of the collector's threads.

use crate::options::RecordingOptions;
use sordino_inspect::threads;
use sordino_sched::{CpuList, Policy, allow_prompt_sleep, set_affinity, set_policy};

/// The CPU and the priority of a collector's thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct CollectorPlace {
    /// The CPU that the thread runs on; any if there is none.
    pub cpu: Option<u32>,
    pub(crate) priority: Option<u8>,
}

impl CollectorPlace {
    /// Returns the settings for the collector that the user chose.
    pub fn of(options: &RecordingOptions) -> Self {
        Self { cpu: options.collector_cpu, priority: options.collector_priority }
    }

    /// Applies the settings to the calling thread. Fails with a description of the setting that could not be applied.
    pub fn take(self) -> Result<(), String> {
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
