//! Settings that only the kernel's command line can make.

use crate::{Machine, ShieldRequest};
use flate2::read::GzDecoder;
use serde::Serialize;
use sordino_proc::machine::kernel_release_below;
use sordino_sched::CpuList;
use std::fs::{self, File};
use std::io::Read;

/// A parameter of the kernel's command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Parameter {
    /// The parameter as it is to be written.
    pub text: String,
    /// Purpose of the parameter.
    pub why: &'static str,
    /// State of the parameter on the running kernel.
    pub state: ParameterState,
}

/// State of a parameter on the running kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ParameterState {
    /// In force for all requested CPUs.
    InForce,
    /// Not in force, but supported by the kernel.
    Absent,
    /// Not supported: the kernel was built without this option.
    NotBuilt(&'static str),
}

/// The running kernel's configuration, as far as it is known.
#[derive(Clone, Debug, Default)]
pub struct KernelConfig {
    /// The kernel's command line.
    pub command_line: String,
    /// Build configuration; `None` if it cannot be read.
    pub config: Option<String>,
    /// CPUs without a tick while one thread runs, as the kernel reports them; `None` if the kernel does not support
    /// that.
    pub nohz_full: Option<CpuList>,
    /// CPUs with a thread that executes RCU callbacks for them. Since Linux 5.17, all CPUs have one if any is
    /// offloaded.
    pub callers: CpuList,
}

impl KernelConfig {
    /// Reads the running kernel's configuration.
    pub fn read(machine: &Machine) -> Self {
        let text = |path: &str| fs::read_to_string(machine.file(path)).ok();
        let release = kernel_release_below(&machine.root);
        // The kernel prints `(null)` if no CPU is set.
        let nohz_full =
            text("sys/devices/system/cpu/nohz_full").map(|list| list.trim().parse().unwrap_or_default());
        let callers = machine.tasks.iter().filter_map(|task| {
            let (prefix, cpu) = task.name.split_once('/')?;
            ["rcuop", "rcuos", "rcuob"].contains(&prefix).then(|| cpu.parse().ok())?
        });
        Self {
            command_line: text("proc/cmdline").unwrap_or_default(),
            config: text(&format!("boot/config-{release}"))
                .or_else(|| unpack(machine.file("proc/config.gz"))),
            nohz_full,
            callers: CpuList::new(callers),
        }
    }

    /// Value of a parameter; the last occurrence counts.
    fn value(&self, name: &str) -> Option<&str> {
        let mut values = self
            .command_line
            .split_whitespace()
            .filter_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        values.next_back()
    }

    /// A parameter's list of CPUs, in which `N` stands for the last one of `online`. Empty if the parameter is missing
    /// or invalid.
    fn list(&self, name: &str, online: &CpuList) -> CpuList {
        let last = online.as_slice().last().copied().unwrap_or_default().to_string();
        match self.value(name) {
            Some("all") => online.clone(),
            // `N` is the last CPU: admin-guide/kernel-parameters.rst.
            Some(list) => list.replace('N', &last).parse().unwrap_or_default(),
            None => CpuList::default(),
        }
    }

    /// CPUs whose RCU callbacks run elsewhere: the requested ones that have a thread for it.
    fn offloaded(&self, online: &CpuList) -> CpuList {
        let without_tick = self.nohz_full.clone().unwrap_or_default();
        let requested = self.list("rcu_nocbs", online);
        CpuList::new([requested, without_tick].iter().flat_map(CpuList::as_slice).copied())
            .intersection(&self.callers)
    }

    fn lacks(&self, option: &str) -> bool {
        self.config.as_ref().is_some_and(|config| !config.lines().any(|line| line == format!("{option}=y")))
    }
}

fn unpack(path: std::path::PathBuf) -> Option<String> {
    let mut text = String::new();
    GzDecoder::new(File::open(path).ok()?).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Returns the parameters that would improve the shield, in the order of writing them.
pub fn parameters(kernel: &KernelConfig, machine: &Machine, request: &ShieldRequest) -> Vec<Parameter> {
    let (cpus, rest) = (&request.cpus, request.rest(machine));
    let covers = |set: &CpuList| cpus.without(set).is_empty();
    let state = |in_force: bool, option: &'static str, lacks: bool| match (in_force, lacks) {
        (true, _) => ParameterState::InForce,
        (false, true) => ParameterState::NotBuilt(option),
        (false, false) => ParameterState::Absent,
    };
    let isolated = kernel.value("isolcpus").and_then(|value| {
        // Flags come before the list: admin-guide/kernel-parameters.rst.
        let (flags, list): (Vec<&str>, Vec<&str>) =
            value.split(',').partition(|word| word.starts_with(|c: char| c.is_alphabetic()));
        flags.contains(&"managed_irq").then(|| list.join(",").parse().ok())?
    });
    let irqaffinity = kernel.list("irqaffinity", &machine.online);
    let no_tick = kernel.nohz_full.as_ref();
    vec![
        Parameter {
            text: format!("nohz_full={cpus}"),
            why: "no tick while one thread runs",
            state: state(no_tick.is_some_and(covers), "CONFIG_NO_HZ_FULL", no_tick.is_none()),
        },
        Parameter {
            text: format!("rcu_nocbs={cpus}"),
            why: "other CPUs call RCU's callbacks",
            state: state(
                covers(&kernel.offloaded(&machine.online)),
                "CONFIG_RCU_NOCB_CPU",
                kernel.lacks("CONFIG_RCU_NOCB_CPU"),
            ),
        },
        Parameter {
            text: format!("isolcpus=managed_irq,{cpus}"),
            why: "interrupts that the kernel manages go elsewhere",
            state: state(
                isolated.as_ref().is_some_and(covers),
                "CONFIG_CPU_ISOLATION",
                kernel.lacks("CONFIG_CPU_ISOLATION"),
            ),
        },
        Parameter {
            text: format!("irqaffinity={rest}"),
            why: "all other interrupts, from the start",
            state: state(!irqaffinity.is_empty() && !irqaffinity.overlaps(cpus), "CONFIG_SMP", false),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cpusets, ShieldLevel};

    fn states(kernel: &KernelConfig) -> Vec<ParameterState> {
        let online = CpuList::new(0..4);
        let machine = Machine { root: "/".into(), online, cpusets: Cpusets::None, tasks: Vec::new() };
        let request =
            ShieldRequest { cpus: "2-3".parse().unwrap(), level: ShieldLevel::Basic, hotplug: false };
        let parameters = parameters(kernel, &machine, &request);
        let texts: Vec<&str> = parameters.iter().map(|parameter| parameter.text.as_str()).collect();
        assert_eq!(texts, ["nohz_full=2-3", "rcu_nocbs=2-3", "isolcpus=managed_irq,2-3", "irqaffinity=0-1"]);
        parameters.into_iter().map(|parameter| parameter.state).collect()
    }

    #[test]
    fn parameters_in_force_are_those_that_the_kernel_applies() {
        use ParameterState::{Absent, InForce, NotBuilt};
        let line = "quiet nohz_full=2-3 rcu_nocbs=2-3 isolcpus=managed_irq,domain,2,3 irqaffinity=0,1";
        let mut kernel = KernelConfig { command_line: line.to_owned(), ..KernelConfig::default() };
        assert_eq!(states(&kernel), [NotBuilt("CONFIG_NO_HZ_FULL"), Absent, InForce, InForce]);
        kernel.nohz_full = Some("1-3".parse().unwrap());
        kernel.callers = "0-3".parse().unwrap();
        assert_eq!(states(&kernel), [InForce, InForce, InForce, InForce]);
        kernel.nohz_full = Some("2".parse().unwrap());
        kernel.config = Some("CONFIG_CPU_ISOLATION=y\n# CONFIG_RCU_NOCB_CPU is not set\n".to_owned());
        kernel.command_line = "isolcpus=2,3 irqaffinity=0-2 rcu_nocbs=1".to_owned();
        assert_eq!(states(&kernel), [Absent, NotBuilt("CONFIG_RCU_NOCB_CPU"), Absent, Absent]);
    }
}
