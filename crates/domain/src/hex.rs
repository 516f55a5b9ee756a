//! Bytes as hexadecimal text.

use std::fmt::Write as _;

/// Writes bytes in lower-case hexadecimal, two digits each.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a String can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Reads the 64 digits that [`hex`] wrote of a SHA-256, in either case; `None` for any other text.
pub fn unhex(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes();
    let digit = |at: usize| char::from(*digits.get(at)?).to_digit(16);
    let mut hash = [0; 32];
    for (at, byte) in hash.iter_mut().enumerate() {
        *byte = u8::try_from(digit(2 * at)? * 16 + digit(2 * at + 1)?).ok()?;
    }
    (digits.len() == 64).then_some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_reads_as_it_was_written() {
        let hash = std::array::from_fn(|at| at as u8 * 7);
        assert_eq!(unhex(&hex(&hash)), Some(hash));
        for bad in ["", "0", "zz", &"0".repeat(63), &"0".repeat(65), &"g".repeat(64)] {
            assert_eq!(unhex(bad), None, "{bad}");
        }
    }
}
