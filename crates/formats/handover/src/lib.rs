//! Recordings for other tools: exports to files, Perfetto's page on the loopback address, installed programs.
//!
//! A viewer that runs in a browser gets a trace by HTTP. Each program and each user of the machine can connect to the
//! loopback address, and each page that the browser has open can send requests there. Therefore three rules hold. Every
//! request needs the server's token in its path. Its host has to be the loopback address itself: a name that an
//! attacker's server resolves to it is refused. Only one other origin, the viewer's public page, may read an answer.
//!
//! | module | purpose |
//! |---|---|
//! | `policy` | the answer to each request: a pure function |
//! | `page` | the addresses of a viewer's page with a trace, and the part of the trace that it shows |
//! | `request` | the head of a request, parsed |
//! | `response` | the heads of responses, and the files that they send |
//! | `server` | the socket: connections, each with one request |
//! | `fetch` | a copy of Perfetto's page in the user's cache |
//! | `browser` | the desktop's browser |
//! | `program` | an installed program that shows a trace |
//! | `output` | the output of an export: a file, a directory, standard output |
//! | `summary` | the items of an export in numbers |
//! | `error` | the errors of a handover |
//!
//! Everything here allocates and blocks; the answers run in threads of their own.
#![forbid(unsafe_code)]

mod browser;
mod error;
mod fetch;
mod output;
mod page;
mod policy;
mod program;
mod request;
mod response;
mod server;
mod summary;

pub use browser::{Redirection, open_browser};
pub use error::HandoverError;
pub use fetch::{fetch_page, fetched_page};
pub use output::{ExportParts, ExportStream};
pub use page::{PUBLIC_PAGE, PUBLIC_PORT, Shown};
pub use policy::{AccessRules, Answer, HttpRefusal, Method, PageRequest};
pub use program::show_in;
pub use response::ServedFiles;
pub use server::{Server, open_page};
pub use summary::ExportedItems;
