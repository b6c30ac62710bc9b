//! A thread's `stat`: proc(5).

use std::str::FromStr;

/// Number of the field with the start time of a thread, in clock ticks since boot.
pub const START: usize = 22;

/// Flag of a thread that is exiting: `PF_EXITING` in the kernel's `include/linux/sched.h`.
const EXITING: u32 = 4;
/// Flag of a thread of the kernel: `PF_KTHREAD`.
const KERNEL: u32 = 0x0020_0000;

/// The text of a `stat`: the thread's name, which may contain any text, and numbers.
#[derive(Debug)]
pub struct Stat<'a> {
    /// The name of the thread.
    pub comm: &'a str,
    /// The fields from number 3, the state, on.
    fields: Vec<&'a str>,
}

impl<'a> Stat<'a> {
    /// Parses the text of a `stat`; `None` if it has no name in parentheses.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (head, tail) = text.rsplit_once(')')?;
        Some(Self { comm: head.split_once('(')?.1, fields: tail.split_whitespace().collect() })
    }

    /// Returns the field with this number in proc(5), from 3 on; empty if it does not exist.
    pub fn field(&self, number: usize) -> &'a str {
        self.fields.get(number - 3).copied().unwrap_or_default()
    }

    /// Returns the number in a field; `None` if it does not exist or is none of this type.
    pub fn number<T: FromStr>(&self, number: usize) -> Option<T> {
        self.field(number).parse().ok()
    }

    /// Returns the process that started this one, or took it over.
    pub fn parent(&self) -> Option<i32> {
        self.number(4)
    }

    /// Returns the thread's flags, `PF_` in the kernel's `include/linux/sched.h`.
    pub fn flags(&self) -> Option<u32> {
        self.number(9)
    }

    /// Returns true if this is a thread of the kernel.
    pub fn is_of_kernel(&self) -> bool {
        self.flags().is_some_and(|flags| flags & KERNEL != 0)
    }

    /// Returns true if the thread has ended and is not yet waited for.
    pub fn is_zombie(&self) -> bool {
        matches!(self.field(3), "Z" | "X")
    }

    /// Returns true if the thread has ended or is about to end: it has no descriptors and no memory any more.
    pub fn is_ending(&self) -> bool {
        self.is_zombie() || self.flags().is_some_and(|flags| flags & EXITING != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_is_read_whatever_the_name() {
        let stat =
            Stat::parse("12 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 424242 20").unwrap();
        assert_eq!(
            (stat.comm, stat.field(3), stat.field(22), stat.field(99)),
            ("a) b (c)", "S", "424242", "")
        );
        assert_eq!(
            (stat.parent(), stat.number::<u64>(START), stat.number::<u8>(START)),
            (Some(1), Some(424_242), None)
        );
        assert!(Stat::parse("12 a").is_none());
    }

    #[test]
    fn a_thread_ends_by_its_state_or_its_flags() {
        let is_ending = |state: &str, flags: &str| {
            Stat::parse(&format!("12 (a) {state} 1 2 3 4 5 {flags}")).unwrap().is_ending()
        };
        assert!(is_ending("Z", "0") && is_ending("X", "0") && is_ending("R", "4194308"));
        assert!(!is_ending("R", "4194304") && !is_ending("S", ""));
    }

    #[test]
    fn threads_of_the_kernel_have_their_flag() {
        let is_of_kernel =
            |flags: &str| Stat::parse(&format!("12 (a) S 1 2 3 4 5 {flags}")).unwrap().is_of_kernel();
        assert!(is_of_kernel("2097216") && !is_of_kernel("4194304") && !is_of_kernel(""));
    }
}
