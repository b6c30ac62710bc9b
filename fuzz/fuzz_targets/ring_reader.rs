//! Fuzzes the ring's reader over changing memory: no panic, no unbounded loop, no read outside of the ring.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../ring_reader/attack.rs"]
mod attack;

fuzz_target!(|input: &[u8]| {
    attack::attack(input);
});
