//! Ids as types of their own, so that the compiler distinguishes them.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// A logical CPU, by the kernel's number.
    Cpu(u32)
}
id! {
    /// A process: the kernel's thread group, in the pid namespace of the recorder.
    Pid(i32)
}
id! {
    /// A thread (the papers' LWP). 0 is the idle thread of any CPU.
    Tid(i32)
}
