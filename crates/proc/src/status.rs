//! A process's `status`: proc(5).

/// Returns the rest of the line that begins with `name`, such as `Uid:`; empty if there is none.
pub fn line<'a>(status: &'a str, name: &str) -> &'a str {
    status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default()
}

/// The users of a process, by their ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessUsers {
    /// The user who started the process.
    pub real: u32,
    /// The user whose rights the process has.
    pub effective: u32,
}

/// Returns the users of a process; `None` if the text has no line with both.
pub fn users(status: &str) -> Option<ProcessUsers> {
    let mut ids = line(status, "Uid:").split_whitespace().map(str::parse);
    Some(ProcessUsers { real: ids.next()?.ok()?, effective: ids.next()?.ok()? })
}

/// Returns the id in the innermost pid namespace from a line such as `NSpid:`, or `outer` if the kernel does not
/// provide it.
pub fn innermost(status: &str, name: &str, outer: i32) -> i32 {
    line(status, name).split_whitespace().last().and_then(|id| id.parse().ok()).unwrap_or(outer)
}

/// Returns the size of the code that a process has mapped, in KiB; `None` if it has ended. Another size shows that it
/// has mapped or unmapped code; reading it takes no lock of the process's memory.
pub fn code_size(pid: i32) -> Option<u64> {
    code_size_in(&crate::file::of_process(pid, "status").ok()?)
}

fn code_size_in(status: &str) -> Option<u64> {
    let kib = |name| line(status, name).trim().strip_suffix(" kB")?.parse::<u64>().ok();
    kib("VmExe:")?.checked_add(kib("VmLib:")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_that_of_the_innermost_namespace() {
        assert_eq!(innermost("Name:\tx\nNSpid:\t4711\t12\n", "NSpid:", 0), 12);
        assert_eq!(innermost("Name:\tx\n", "NSpid:", 7), 7);
    }

    #[test]
    fn the_users_of_a_process_are_the_real_and_the_effective_one() {
        let expected = ProcessUsers { real: 1000, effective: 0 };
        assert_eq!(users("Name:\tsu\nUid:\t1000\t0\t7\t8\nGid:\t1\t2\t3\t4\n"), Some(expected));
        assert_eq!(["", "Uid:\t1000\n", "Uid:\tx\t0\n"].map(users), [None; 3]);
    }

    #[test]
    fn code_is_the_program_s_and_its_libraries() {
        assert_eq!(code_size_in("VmStk:\t 132 kB\nVmExe:\t    28 kB\nVmLib:\t 1600 kB\n"), Some(1628));
        // A thread of the kernel has no memory.
        assert_eq!(code_size_in("Name:\tx\n"), None);
        assert!(code_size(std::process::id().cast_signed()).unwrap() > 0);
    }
}
