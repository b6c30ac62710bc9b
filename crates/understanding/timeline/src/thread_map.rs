//! A map by thread.

use foldhash::fast::RandomState;
use indexmap::IndexMap;
use sordino_event::Tid;

/// A map by thread. A recording may name as many threads as the kernel has ids, and millions of large values are not
/// copied when this map grows, nor does it have room for twice as many.
pub type ThreadMap<T> = IndexMap<Tid, T, RandomState>;
