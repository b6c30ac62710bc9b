//! Quantities as people read them.

/// Returns a size in the unit that fits: KiB, MiB or GiB.
pub fn bytes(bytes: u64) -> String {
    match bytes {
        0..0x10_0000 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        0x10_0000..0x4000_0000 => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.2} GiB", bytes as f64 / 1_073_741_824.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_the_unit_that_fits() {
        let sizes = [0, 1024, 0x10_0000, 3 << 29].map(bytes);
        assert_eq!(sizes, ["0.0 KiB", "1.0 KiB", "1.0 MiB", "1.50 GiB"]);
    }
}
