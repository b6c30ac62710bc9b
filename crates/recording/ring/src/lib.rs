//! The per-CPU ring in shared memory: its layout, its writers, its readers. It moves bytes and knows no schema.
//!
//! A traced program makes an [`Area`](area::Area) when it starts. A collector [opens](control::Program::open) it,
//! [attaches](control::Program::attach) to a slot with a ring for each CPU and a shared one, and enables tracepoints.
//! The program [writes](write::write) records; the collector [reads](read::Reader) whole sub-buffers and puts them.
//! Records that find no room are counted; a writer may also wait for room.
//!
//! | file | content |
//! |---|---|
//! | `layout` | the contract: every shared word, its offset, the sizes |
//! | `offset` | pure: the head, the size of records, the placement of the next one |
//! | `table` | pure: sub-buffers, their sequence numbers and owners |
//! | `number` | slots, tracepoints, sequence numbers, offsets and timestamps as types of their own |
//! | `enable` | pure: the enable word of a tracepoint |
//! | `condition` | pure: the place of the code that decides about a hit |
//! | `pending` | hits before the recorders' answers |
//! | `annotations` | the annotations of threads |
//! | `slots` | a program's view of its area at a hit |
//! | `view` | one side's mapping of a ring: its header, and what the header's offsets point to |
//! | `write` | a record's way into a ring: a CPU's, in one restartable section; retries, the shared ring, waiting |
//! | `commit` | the shared ring: the papers' reserve and commit |
//! | `read` | the collector's side of both |
//! | `area`, `control` | the program's and the collector's side of an area |
//! | `map` | the system calls |

pub mod annotations;
pub mod area;
mod commit;
pub mod condition;
pub mod control;
pub mod enable;
pub mod layout;
pub mod map;
pub mod number;
pub mod offset;
pub mod pending;
pub mod read;
pub mod slots;
pub mod table;
mod view;
pub mod write;
