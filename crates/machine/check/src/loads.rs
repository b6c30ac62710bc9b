//! Load as rteval generates it, kept away from the measured CPUs.

use sordino_proc::SystemFiles;
use sordino_sched::CpuList;
use std::path::Path;

/// A program that loads the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Many threads that send to each other: load for the scheduler.
    Hackbench,
    /// A compilation of the kernel: load from processes, files and memory.
    Compile,
    /// stress-ng: timers, page faults, context switches, calculation.
    StressNg,
}

/// CPUs of one NUMA node that have a load of their own. Its memory is that node's, because it is first touched there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadNode {
    /// The node; `None` on a machine without nodes.
    pub node: Option<u32>,
    /// CPUs of the node that are loaded.
    pub cpus: CpuList,
}

/// Returns the CPUs for the load while `measured` are measured: all other CPUs, except for those that share a core with
/// a measured one, if any are left then. The second value are notes for the report.
pub fn places(sources: &SystemFiles, online: &CpuList, measured: &CpuList) -> (Vec<LoadNode>, Vec<String>) {
    let mut notes = Vec::new();
    let others = online.without(measured);
    let siblings = siblings(sources, measured);
    let apart = others.without(&siblings);
    let cpus = if apart.is_empty() { &others } else { &apart };
    let shared = cpus.intersection(&siblings);
    if !shared.is_empty() {
        notes.push(format!(
            "the load on CPU {shared} shares cores with what is measured: no other CPU is left"
        ));
    }
    let nodes = sources.numbered("sys/devices/system/node", "node");
    let node = |number: u32| {
        let list = sources.text(&format!("sys/devices/system/node/node{number}/cpulist"))?;
        let place = LoadNode { node: Some(number), cpus: list.parse::<CpuList>().ok()?.intersection(cpus) };
        (!place.cpus.is_empty()).then_some(place)
    };
    let mut places: Vec<LoadNode> = nodes.into_iter().filter_map(node).collect();
    if places.is_empty() && !cpus.is_empty() {
        places.push(LoadNode { node: None, cpus: cpus.clone() });
    }
    (places, notes)
}

/// CPUs that share a core with one of `cpus` and do not belong to `cpus`.
fn siblings(sources: &SystemFiles, cpus: &CpuList) -> CpuList {
    let of = |cpu: &u32| {
        let text = sources.text(&format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"))?;
        text.parse::<CpuList>().ok()
    };
    let all = cpus.as_slice().iter().filter_map(of);
    CpuList::new(all.flat_map(|list| list.as_slice().to_vec())).without(cpus)
}

impl Load {
    /// Name of the load on the command line (`--load`).
    pub fn name(self) -> &'static str {
        match self {
            Self::Hackbench => "hackbench",
            Self::Compile => "compile",
            Self::StressNg => "stress-ng",
        }
    }

    /// Returns the programs that the load needs, and the Debian packages that contain them.
    pub fn needs(self) -> (&'static [&'static str], &'static str) {
        match self {
            Self::Hackbench => (&["hackbench"], "rt-tests"),
            Self::Compile => (
                &["make", "gcc", "flex", "bison", "bc"],
                "linux-source gcc make flex bison bc libelf-dev libssl-dev xz-utils",
            ),
            Self::StressNg => (&["stress-ng"], "stress-ng"),
        }
    }

    /// Returns the command that loads `cpus` CPUs, to be started again whenever it ends. A compilation reads the
    /// kernel's sources at `source` and writes only to `build`.
    pub fn command(self, cpus: usize, source: &Path, build: &Path) -> Vec<String> {
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        let cpus = cpus.max(1);
        match self {
            // 40 processes a group, as in rteval.
            Self::Hackbench => {
                words(&["hackbench", "-P", "-g", &cpus.to_string(), "-l", "1000", "-s", "1000"])
            }
            Self::Compile => {
                // allmodconfig compiles as much as any configuration; `clean` leaves the next run as much to compile.
                let script = format!(
                    "build=$2; set -- make -s -C \"$1\" O=\"$2\"; test -e \"$build/.config\" || \"$@\" allmodconfig; \
                     \"$@\" clean; exec \"$@\" -k -j{} vmlinux",
                    2 * cpus
                );
                let paths = [source, build].map(|path| path.display().to_string());
                [words(&["sh", "-c", &script, "sh"]), paths.to_vec()].concat()
            }
            Self::StressNg => {
                let count = cpus.to_string();
                words(&[
                    "stress-ng",
                    "--quiet",
                    "--cpu",
                    &count,
                    "--vm",
                    "1",
                    "--vm-bytes",
                    "64M",
                    "--switch",
                    &count,
                    "--timer",
                    "1",
                    "--timeout",
                    "60s",
                ])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::tree;

    fn list(text: &str) -> CpuList {
        text.parse().unwrap()
    }

    #[test]
    fn the_load_keeps_off_measured_cpus_and_their_cores_and_is_one_for_each_node() {
        let directory = tempfile::tempdir().unwrap();
        let sources = tree(
            directory.path(),
            &[
                ("sys/devices/system/node/node0/cpulist", "0-3\n"),
                ("sys/devices/system/node/node1/cpulist", "4-7\n"),
                ("sys/devices/system/cpu/cpu2/topology/thread_siblings_list", "2,6\n"),
            ],
        );
        let (found, notes) = places(&sources, &list("0-7"), &list("2"));
        let expected = [
            LoadNode { node: Some(0), cpus: list("0-1,3") },
            LoadNode { node: Some(1), cpus: list("4-5,7") },
        ];
        assert_eq!((found.as_slice(), notes.len()), (&expected[..], 0));
    }

    #[test]
    fn the_other_half_of_a_core_is_used_if_only_that_is_left_and_noted() {
        let directory = tempfile::tempdir().unwrap();
        let sources =
            tree(directory.path(), &[("sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "0-1\n")]);
        let (found, notes) = places(&sources, &list("0-1"), &list("1"));
        assert_eq!(found, [LoadNode { node: None, cpus: list("0") }]);
        assert_eq!(notes.len(), 1);
        assert_eq!(places(&sources, &list("0-1"), &list("0-1")).0, []);
    }
}
