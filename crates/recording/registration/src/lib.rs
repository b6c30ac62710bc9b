//! The registration protocol: how a traced program finds recorders and registers with them.
//!
//! This is the contract between `probe`, the program's side, and `intake`, the recorder's. `docs/registration.md`
//! describes it step by step, with the bytes of each packet. Everything here is a constant or a pure function; the
//! system calls are made on each side.
//!
//! | file | content |
//! |---|---|
//! | `packet` | the packet of a registration, its version, and the recorder's reply |
//! | `prepared` | the request for an area that the recorder has prepared; any packet |
//! | `address` | the address of a recorder's socket, and the value of `SORDINO_SESSION` |
//! | `directories` | the directories of sessions: where recorders make them and programs search for them |
//! | `environment` | the names of the environment variables that both sides use |
//! | `times` | time limits and other bounds |
//! | `trust` | the rules of trust: owners and modes of directories, users, tokens |
//!
//! ```
//! use sordino_registration::RegistrationPacket;
//!
//! let packet = RegistrationPacket { inode: 4711, descriptor: Some(3), token: None };
//! assert_eq!(RegistrationPacket::decode(packet.encode().as_bytes()), Ok(packet));
//! ```
//!
//! Real-time: but for [`private_name`] and [`RecorderAddress::to_bytes`], which are for the recorder, nothing here
//! allocates, locks, makes a system call or panics. It may run in a fork's child.
#![forbid(unsafe_code)]

mod address;
mod directories;
pub mod environment;
mod packet;
mod prepared;
mod times;
pub mod trust;

pub use address::{MAX_ADDRESS, RecorderAddress, Socket, Token, private_name};
pub use directories::{
    LoginDirectory, MAX_SESSION_NAME, RuntimeBase, SESSIONS, SOCKET, SocketPath, chosen, is_runtime_dir,
    is_session_name, searched,
};
pub use packet::{
    BUFFER_SIZE, Encoded, MAX_PACKET, PacketError, RecorderReply, RegistrationPacket, VERSION, WENT_ON,
};
pub use prepared::{
    AnyPacket, AreaSizes, NO_PREPARED_AREA, PREPARED_AREA, PREPARED_AREA_TIME, PreparedAreaRequest,
};
pub use times::{ANSWER_TIME, MAX_ENTRIES, MAX_RECORDERS, PACKET_TIME, Patience};
