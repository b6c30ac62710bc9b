//! Random identifiers of traces and clocks.

use rustix::rand::{GetRandomFlags, getrandom};
use sordino_ctf::Uuid;

/// Returns a random UUID (version 4 of RFC 9562).
pub fn random() -> Uuid {
    let mut bytes = [0; 16];
    // Fails only on kernels without getrandom, before Linux 3.17; all UUIDs are equal there.
    let _ = getrandom(&mut bytes, GetRandomFlags::empty());
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Uuid(bytes)
}
