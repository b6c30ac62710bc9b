//! Headers and contexts of events. Their values are not shown.

use super::program::{DecodeOp, NO_SLOT, Register};
use std::ops::Range;

/// The operations of a header or a context that fill registers and show nothing.
#[derive(Debug)]
pub(super) struct HiddenProgram {
    pub(super) ops: Range<usize>,
    /// The loads that replace the operations, if these are simple enough.
    pub(super) loads: Option<RegisterLoads>,
}

/// Little-endian integers of whole bytes, each at a fixed distance from the first one in every event in which the first
/// one begins with a byte. They can be read without the single operations.
#[derive(Debug)]
pub(super) struct RegisterLoads {
    /// The alignment of the first in bits, minus 1.
    pub(super) mask: u64,
    /// The size of all of them in bits, including the gaps between them.
    pub(super) bits: u64,
    /// The load of the clock's register.
    pub(super) ticks: Option<RegisterLoad>,
    /// The loads of other registers.
    pub(super) loads: Box<[RegisterLoad]>,
    /// A bit for each register that is filled.
    pub(super) present: u32,
}

/// The read of one register.
#[derive(Clone, Copy, Debug)]
pub(super) struct RegisterLoad {
    /// The distance from the first integer in bytes.
    pub(super) byte: usize,
    /// The size in bits.
    pub(super) bits: u32,
    pub(super) signed: bool,
    pub(super) register: Register,
}

impl HiddenProgram {
    pub(super) fn new(ops: Range<usize>) -> Self {
        Self { ops, loads: None }
    }

    /// Returns true if there is nothing to run.
    pub(super) fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Determines if the operations, among `all` of the stream, are simple. This is known only when all are compiled: a
    /// later field may need the value of one.
    pub(super) fn simplify(&mut self, all: &[DecodeOp]) {
        self.loads = all.get(self.ops.clone()).and_then(RegisterLoads::of);
    }
}

impl RegisterLoads {
    /// Returns the loads that replace `ops`, if these are simple enough.
    fn of(ops: &[DecodeOp]) -> Option<Self> {
        let mask = match ops.first() {
            Some(DecodeOp::Align(mask)) => *mask,
            _ => 0,
        };
        // An alignment does not have the same effect in every event if it is larger than that of the begin.
        let largest = mask | 7;
        let (mut bits, mut ticks, mut loads) = (0_u64, None, Vec::new());
        // An alignment behind the last integer may lead behind the content, which is no fault.
        if let [_, .., DecodeOp::Align(_)] = ops {
            return None;
        }
        for op in ops {
            match op {
                DecodeOp::Align(next) if *next <= largest => bits = (bits + next) & !next,
                DecodeOp::Register(int, register)
                    if int.mask <= largest && int.slot == NO_SLOT && !int.big =>
                {
                    bits = (bits + int.mask) & !int.mask;
                    if !bits.is_multiple_of(8) || !int.bits.is_multiple_of(8) {
                        return None;
                    }
                    let (byte, signed) = ((bits / 8) as usize, int.signed);
                    let load = RegisterLoad { byte, bits: int.bits, signed, register: *register };
                    match register {
                        Register::Nowhere => {}
                        Register::Ticks if ticks.is_none() => ticks = Some(load),
                        // Their values depend on those before.
                        Register::Ticks | Register::Begin | Register::End => return None,
                        _ => loads.push(load),
                    }
                    bits += u64::from(int.bits);
                }
                _ => return None,
            }
        }
        let present = loads.iter().chain(&ticks).fold(0, |bits, load| bits | load.register.bit());
        Some(Self { mask, bits, ticks, loads: loads.into(), present })
    }
}

#[cfg(test)]
mod tests {
    use super::super::decoder::PacketDecoder;
    use super::super::program::Int;
    use super::*;
    use proptest::prelude::*;
    use sordino_event::Event;

    const REGISTERS: [Register; 5] =
        [Register::Ticks, Register::Id, Register::Tid, Register::Cpu, Register::Nowhere];

    fn op() -> impl Strategy<Value = DecodeOp> {
        let mask = prop::sample::select(vec![0_u64, 7, 15, 31, 63]);
        let bits = prop_oneof![4 => (1..=8_u32).prop_map(|bytes| bytes * 8), 1 => 1..=64_u32];
        let register = prop::sample::select(REGISTERS.to_vec());
        let slot = prop::sample::select(vec![NO_SLOT, NO_SLOT, NO_SLOT, 0]);
        let integer = (mask.clone(), bits, any::<bool>(), prop::bool::weighted(0.1), slot, register);
        prop_oneof![
            1 => mask.prop_map(DecodeOp::Align),
            4 => integer.prop_map(|(mask, bits, signed, big, slot, register)| {
                DecodeOp::Register(Int { mask, bits, signed, big, slot }, register)
            }),
        ]
    }

    /// Runs a context that begins at the bit `start`. Returns its success, the place behind it and the registers.
    fn run(
        ops: &[DecodeOp],
        hidden: &HiddenProgram,
        start: u64,
        bytes: &[u8],
    ) -> (bool, Option<u64>, Vec<Option<u64>>) {
        let mut decoder = PacketDecoder::new(1);
        let fill = |room: &mut [u8]| {
            room.copy_from_slice(bytes);
            Ok::<_, ()>(bytes.len())
        };
        decoder.load(bytes.len() as u64, fill).unwrap();
        decoder.position = start;
        let ended = decoder.run_hidden(ops, hidden, &mut Event::default()).is_ok();
        let registers = REGISTERS.map(|register| decoder.registers().get(register).filter(|_| ended));
        (ended, ended.then_some(decoder.position), registers.to_vec())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]
        #[test]
        fn loads_do_what_the_operations_do(
            ops in prop::collection::vec(op(), 0..6),
            start in prop_oneof![(0..16_u64).prop_map(|byte| byte * 8), 0..128_u64],
            bytes in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let mut hidden = HiddenProgram::new(0..ops.len());
            let plain = run(&ops, &hidden, start, &bytes);
            hidden.simplify(&ops);
            prop_assert_eq!(run(&ops, &hidden, start, &bytes), plain);
        }
    }

    #[test]
    fn headers_of_whole_bytes_are_loads() {
        let integer = |bits, register| {
            DecodeOp::Register(Int { mask: 7, bits, signed: false, big: false, slot: NO_SLOT }, register)
        };
        let ops = [
            DecodeOp::Align(63),
            integer(64, Register::Ticks),
            integer(16, Register::Nowhere),
            integer(16, Register::Id),
        ];
        let loads = RegisterLoads::of(&ops).unwrap();
        assert_eq!((loads.mask, loads.bits, loads.loads.len()), (63, 96, 1));
        assert_eq!(loads.ticks.map(|load| load.byte), Some(0));
        assert_eq!(loads.loads.last().map(|load| load.byte), Some(10));
        assert!(RegisterLoads::of(&[integer(32, Register::Ticks), integer(32, Register::Ticks)]).is_none());
        assert!(RegisterLoads::of(&[integer(12, Register::Id)]).is_none());
        assert!(RegisterLoads::of(&[integer(8, Register::Id), DecodeOp::Align(31)]).is_none());
    }
}
