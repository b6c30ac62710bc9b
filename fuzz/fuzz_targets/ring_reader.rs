//! The ring's reader over memory that changes under it: no panic, no unbounded loop, nothing read outside.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../ring_reader/attack.rs"]
mod attack;

fuzz_target!(|input: &[u8]| {
    attack::attack(input);
});
