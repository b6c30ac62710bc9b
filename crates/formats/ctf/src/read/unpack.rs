//! Metadata files: plain text, or text that LTTng has cut into packets.

use super::types::Endianness;
use crate::Problem;

const MAGIC: u32 = 0x75d1_1d57;

/// The size of the header of a metadata packet: magic, UUID, checksum, content and packet size in bits, then one byte
/// each of compression, encryption and checksum scheme and of the format's major and minor version.
const HEADER: usize = 37;

/// Returns the text in a metadata file. An error has the offset of the packet and its problem.
pub(super) fn text(bytes: &[u8]) -> Result<String, (usize, Problem)> {
    let text = match bytes.first_chunk().map(|magic| u32::from_le_bytes(*magic)) {
        Some(MAGIC) => packets(bytes, Endianness::Little)?,
        Some(magic) if magic.swap_bytes() == MAGIC => packets(bytes, Endianness::Big)?,
        // A JSON text sequence starts with a record separator.
        _ if bytes.first() == Some(&0x1e) => return Err((0, Problem::Json)),
        _ => bytes.to_vec(),
    };
    Ok(String::from_utf8(text).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

fn packets(bytes: &[u8], order: Endianness) -> Result<Vec<u8>, (usize, Problem)> {
    let mut text = Vec::new();
    let mut uuid = None;
    let mut offset = 0;
    while let Some(rest) = bytes.get(offset..).filter(|rest| !rest.is_empty()) {
        let (content, length) = packet(rest, order, &mut uuid).map_err(|problem| (offset, problem))?;
        text.extend_from_slice(content);
        offset += length;
    }
    Ok(text)
}

/// Returns the text of the packet at the start of `rest`, and the packet's length.
fn packet<'a>(
    rest: &'a [u8],
    order: Endianness,
    known: &mut Option<&'a [u8]>,
) -> Result<(&'a [u8], usize), Problem> {
    let short = Problem::Sizes { content: 0, packet: 0, left: rest.len() };
    let header = rest.get(..HEADER).ok_or(short)?;
    let word = |at: usize| {
        let bytes = header[at..].first_chunk().copied().unwrap_or_default();
        match order {
            Endianness::Little => u32::from_le_bytes(bytes),
            Endianness::Big => u32::from_be_bytes(bytes),
        }
    };
    let (magic, uuid, content, packet) = (word(0), &header[4..20], word(24), word(28));
    let [compression, encryption, checksum, major, minor] = *header[32..].first_chunk().unwrap_or(&[0; 5]);
    if magic != MAGIC {
        return Err(Problem::Attribute { name: "magic".to_owned(), value: format!("{magic:#x}") });
    }
    if (major, minor) != (1, 8) {
        return Err(Problem::Version { major: major.into(), minor: minor.into() });
    }
    if let Some(scheme) = [compression, encryption, checksum].into_iter().find(|scheme| *scheme != 0) {
        return Err(Problem::Scheme(scheme));
    }
    if *known.get_or_insert(uuid) != uuid {
        return Err(Problem::OtherUuid);
    }
    let (content_bytes, packet_bytes) = (content as usize / 8, packet as usize / 8);
    if packet_bytes < content_bytes || packet_bytes > rest.len() {
        return Err(Problem::Sizes { content, packet, left: rest.len() });
    }
    let text = rest.get(HEADER..content_bytes).ok_or(Problem::Sizes { content, packet, left: rest.len() })?;
    Ok((text, packet_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(text: &str, padding: usize, big: bool) -> Vec<u8> {
        let word = |value: u32| if big { value.to_be_bytes() } else { value.to_le_bytes() };
        let content = (HEADER + text.len()) as u32 * 8;
        let mut bytes = word(MAGIC).to_vec();
        bytes.extend([9; 16]);
        bytes.extend(word(0));
        bytes.extend(word(content));
        bytes.extend(word(content + padding as u32 * 8));
        bytes.extend([0, 0, 0, 1, 8]);
        bytes.extend(text.as_bytes());
        bytes.extend(vec![0; padding]);
        bytes
    }

    #[test]
    fn packets_are_put_together() {
        for big in [false, true] {
            let bytes = [packet("tra", 5, big), packet("", 0, big), packet("ce", 1, big)].concat();
            assert_eq!(text(&bytes).unwrap(), "trace");
        }
        assert_eq!(text(b"plain \xff").unwrap(), "plain \u{fffd}");
        assert_eq!(text(b"").unwrap(), "");
    }

    #[test]
    fn a_packet_that_contradicts_itself_is_refused() {
        let first = packet("trace", 0, false);
        let broken = |at: usize, byte: u8| {
            let mut second = first.clone();
            second[at] = byte;
            text(&[first.clone(), second].concat()).unwrap_err()
        };
        assert_eq!(first.len(), 42);
        assert_eq!(
            broken(0, 0),
            (42, Problem::Attribute { name: "magic".into(), value: "0x75d11d00".into() })
        );
        assert_eq!(broken(4, 8), (42, Problem::OtherUuid));
        assert_eq!(broken(33, 1), (42, Problem::Scheme(1)));
        assert_eq!(broken(36, 9), (42, Problem::Version { major: 1, minor: 9 }));
        // A content of 40 bytes becomes 294, then 36: larger than the packet, smaller than the header.
        assert_eq!(broken(25, 9), (42, Problem::Sizes { content: 2384, packet: 336, left: 42 }));
        assert_eq!(broken(25, 0), (42, Problem::Sizes { content: 80, packet: 336, left: 42 }));
        assert_eq!(broken(29, 2), (42, Problem::Sizes { content: 336, packet: 592, left: 42 }));
        assert_eq!(text(&first[..30]).unwrap_err(), (0, Problem::Sizes { content: 0, packet: 0, left: 30 }));
        assert_eq!(text(b"\x1e{}").unwrap_err(), (0, Problem::Json));
    }
}
