//! The per-CPU ring in shared memory: layout, write, read. It moves bytes and knows no schema.
//!
//! A traced program makes an [`Area`](area::Area) when it starts. A collector [opens](control::Program::open) it,
//! [attaches](control::Program::attach): takes a slot and makes rings, one per CPU and a shared one, and enables
//! tracepoints. The program [writes](write::write) records, the collector [reads](read::Reader) whole sub-buffers and
//! gives them back. Records that find no room are counted; a writer may also be told, to try again later.
//!
//! | file | what it holds |
//! |---|---|
//! | `layout` | the contract: every shared word, its offset, the sizes |
//! | `position` | pure arithmetic: where a record goes |
//! | `table` | pure: which sub-buffer a turn uses, and whose it is |
//! | `want` | pure: which sessions want a tracepoint's events |
//! | `condition` | pure: where the code lies that decides about a hit |
//! | `pending` | hits before the recorders' answers |
//! | `value` | what threads say of themselves |
//! | `slots` | what a program sees of its area at a hit |
//! | `write` | a CPU's ring: one restartable section a record |
//! | `commit` | the shared ring: the papers' reserve and commit |
//! | `read` | the collector's side of both |
//! | `area`, `control` | making and taking hold of an area |
//! | `map` | the system calls |

pub mod area;
mod commit;
pub mod condition;
pub mod control;
pub mod layout;
pub mod map;
pub mod pending;
pub mod position;
pub mod read;
pub mod slots;
pub mod table;
pub mod value;
mod view;
pub mod want;
pub mod write;
