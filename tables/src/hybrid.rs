//! The encoding of small numbers in Parquet: run lengths for repeated ones, and packed bits for others.
//!
//! It is described at <https://github.com/apache/parquet-format/blob/master/Encodings.md#RLE>.

/// Number of values that are packed together.
const GROUP: usize = 8;

/// Returns the number of bits of the indexes of this number of names, which is at least 1.
pub(crate) fn index_width(names: usize) -> u32 {
    let last = names.saturating_sub(1);
    (usize::BITS - last.leading_zeros()).max(1)
}

/// Appends values, each of at most `width` bits, of which there are 1 to 32.
pub(crate) fn encode(values: &[u32], width: u32, out: &mut Vec<u8>) {
    let (mut packed, mut at) = (0, 0);
    while let Some(value) = values.get(at) {
        let run = values[at..].iter().take_while(|next| *next == value).count();
        if run < GROUP {
            at = (at + GROUP).min(values.len());
            continue;
        }
        pack(&values[packed..at], width, out);
        put_varint((run as u64) << 1, out);
        out.extend_from_slice(&value.to_le_bytes()[..width.div_ceil(8) as usize]);
        at += run;
        packed = at;
    }
    pack(&values[packed..], width, out);
}

/// Appends the bits of the values, in whole groups.
fn pack(values: &[u32], width: u32, out: &mut Vec<u8>) {
    if values.is_empty() {
        return;
    }
    let groups = values.len().div_ceil(GROUP);
    put_varint((groups as u64) << 1 | 1, out);
    let rest = groups * GROUP - values.len();
    let (mut bits, mut filled) = (0_u64, 0);
    for value in values.iter().chain(std::iter::repeat_n(&0, rest)) {
        bits |= u64::from(*value) << filled;
        filled += width;
        if filled >= u32::BITS {
            out.extend_from_slice(&(bits as u32).to_le_bytes());
            bits >>= u32::BITS;
            filled -= u32::BITS;
        }
    }
    out.extend_from_slice(&bits.to_le_bytes()[..(filled / 8) as usize]);
}

/// Levels that are 0 or 1.
#[derive(Default)]
pub(crate) struct BitLevels {
    /// The levels in whole words.
    words: Vec<u8>,
    /// The levels behind the last whole word.
    last: u64,
    length: usize,
    ones: usize,
}

impl BitLevels {
    /// Returns the number of levels.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Returns the number of levels that are 1.
    pub(crate) fn ones(&self) -> usize {
        self.ones
    }

    /// Appends a level a number of times.
    #[inline]
    pub(crate) fn push(&mut self, level: bool, mut count: usize) {
        self.ones += if level { count } else { 0 };
        while count > 0 {
            let filled = self.length % 64;
            let taken = count.min(64 - filled);
            if level {
                self.last |= (u64::MAX >> (64 - taken)) << filled;
            }
            self.length += taken;
            count -= taken;
            if self.length.is_multiple_of(64) {
                self.words.extend_from_slice(&self.last.to_le_bytes());
                self.last = 0;
            }
        }
    }

    /// Appends the encoded levels: one run if they are all the same, and bits otherwise.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let length = self.length as u64;
        if self.ones == 0 || self.ones == self.length {
            put_varint(length << 1, out);
            out.push(u8::from(self.ones > 0));
            return;
        }
        put_varint(length.div_ceil(GROUP as u64) << 1 | 1, out);
        out.extend_from_slice(&self.words);
        out.extend_from_slice(&self.last.to_le_bytes()[..(self.length % 64).div_ceil(GROUP)]);
    }
}

/// Appends a number, seven bits a byte.
fn put_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of packed bits in the description of the format.
    #[test]
    fn values_that_differ_are_packed_from_the_lowest_bit() {
        let mut out = Vec::new();
        encode(&[0, 1, 2, 3, 4, 5, 6, 7], 3, &mut out);
        assert_eq!(out, [0b11, 0b1000_1000, 0b1100_0110, 0b1111_1010]);
    }

    #[test]
    fn values_that_repeat_are_a_run() {
        let mut out = Vec::new();
        encode(&[0x1ff; 100], 9, &mut out);
        assert_eq!(out, [0xc8, 0x01, 0xff, 0x01]);
    }

    #[test]
    fn a_run_between_packed_values_ends_their_group() {
        let mut out = Vec::new();
        let values = [[3, 1].repeat(4), [1].repeat(15), vec![2, 3]].concat();
        encode(&values, 2, &mut out);
        assert_eq!(out, [0b11, 0b0111_0111, 0b0111_0111, 30, 1, 0b11, 0b1110, 0]);
    }

    #[test]
    fn levels_that_differ_are_bits_and_others_a_run() {
        let encoded = |levels: &[(bool, usize)]| {
            let mut bits = BitLevels::default();
            levels.iter().for_each(|(level, count)| bits.push(*level, *count));
            let mut out = Vec::new();
            bits.encode(&mut out);
            out
        };
        assert_eq!(encoded(&[(true, 70), (true, 0), (true, 1)]), [142, 1, 1]);
        assert_eq!(encoded(&[(false, 3)]), [6, 0]);
        let mut mixed = vec![19, 0b1111_1110, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        mixed.extend([0b0001_0001]);
        assert_eq!(encoded(&[(false, 1), (true, 64), (false, 3), (true, 1), (false, 1)]), mixed);
    }

    #[test]
    fn an_index_has_the_bits_of_the_last_name() {
        for (names, width) in [(0, 1), (1, 1), (2, 1), (3, 2), (256, 8), (257, 9)] {
            assert_eq!(index_width(names), width, "{names} names");
        }
    }
}
