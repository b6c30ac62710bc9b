//! Raises a shield, and is killed in the middle. usage: raise CPUS MOMENT
//!
//! MOMENT counts from 0. At an even one, a change has been noted and is about to be made; at an odd one, it has been
//! made.

use rustix::process::{Signal, getpid, kill_process};
use sordino_shield::{Change, ChangeObserver, Done, Knob, ShieldLevel, ShieldRequest, Store};

struct Killed {
    left: u64,
}

impl Killed {
    fn moment(&mut self) {
        if self.left == 0 {
            kill_process(getpid(), Signal::KILL).expect("to die");
        }
        self.left -= 1;
    }
}

impl ChangeObserver for Killed {
    fn changing(&mut self, _knob: &Knob, _change: &Change) {
        self.moment();
    }
    fn changed(&mut self, _done: &Done) {
        self.moment();
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let cpus = arguments.next().and_then(|cpus| cpus.parse().ok()).expect("CPUs");
    let left = arguments.next().and_then(|moment| moment.parse().ok()).expect("a moment");
    let request = ShieldRequest { cpus, level: ShieldLevel::Full, hotplug: false };
    Store::default().up(&request, &mut Killed { left }).expect("a shield");
}
