//! The per-CPU ring in shared memory: its layout, its writers, its readers. It moves bytes, without a schema.
//!
//! A traced program makes an [`Area`](area::Area) when it starts. A collector [opens](area::control::Program::open) it,
//! [attaches](area::control::Program::attach) to a slot with a ring for each CPU and a shared one, and enables
//! tracepoints. The program [writes](write::write) records; the collector [reads](read::Reader) whole sub-buffers and
//! puts them. Records that find no room are counted; a writer may also wait for room.
//!
//! | module | part | content |
//! |---|---|---|
//! | `layout` | shared memory | the contract: every shared word, its offset, the sizes |
//! | `number` | shared memory | slots, tracepoints, sequence numbers, offsets and timestamps as types of their own |
//! | `area` | shared memory | the program's and the collector's side of an area, and all that lies in it beside the rings |
//! | `offset` | ring | pure: the head, the size of records, the placement of the next one |
//! | `table` | ring | pure: sub-buffers, their sequence numbers and owners |
//! | `view` | ring | one side's mapping of a ring: its header, and what the header's offsets point to |
//! | `write` | ring | a record's way into a ring: a CPU's, in one restartable section; retries, the shared ring, waiting |
//! | `commit` | ring | the shared ring: the papers' reserve and commit |
//! | `read` | ring | the collector's side of both kinds of ring |

pub mod area;
mod commit;
pub mod layout;
pub mod number;
pub mod offset;
pub mod read;
pub mod table;
mod view;
pub mod write;
