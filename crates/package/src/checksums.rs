//! `checksums.sha256`: one line for each file of a package, as `sha256sum` writes and `sha256sum -c` reads it. It is for
//! people who have no Gantry at hand; [`crate::verify`] reads the manifest.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A SHA-256, written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sha256Sum(pub [u8; 32]);

/// A text is not a SHA-256: 64 hexadecimal digits, small letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a SHA-256 has 64 hexadecimal digits, small letters")]
pub struct InvalidSum;

impl Sha256Sum {
    /// Returns the sum of a text.
    pub fn of(text: &[u8]) -> Self {
        Self(Sha256::digest(text).into())
    }
}

impl fmt::Display for Sha256Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for Sha256Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Sha256Sum {
    type Err = InvalidSum;

    fn from_str(text: &str) -> Result<Self, InvalidSum> {
        let digits: &[u8; 64] = text.as_bytes().try_into().map_err(|_| InvalidSum)?;
        let mut sum = [0; 32];
        for (byte, pair) in sum.iter_mut().zip(digits.chunks_exact(2)) {
            *byte =
                nibble(pair[0]).zip(nibble(pair[1])).map(|(high, low)| high << 4 | low).ok_or(InvalidSum)?;
        }
        Ok(Self(sum))
    }
}

/// Returns bytes as hexadecimal digits, two for each.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]).collect()
}

/// Returns the value of a hexadecimal digit.
fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

impl TryFrom<String> for Sha256Sum {
    type Error = InvalidSum;

    fn try_from(text: String) -> Result<Self, InvalidSum> {
        text.parse()
    }
}

impl From<Sha256Sum> for String {
    fn from(sum: Sha256Sum) -> Self {
        sum.to_string()
    }
}

/// Returns a line of `checksums.sha256`. The name must have no character that `sha256sum` escapes; that of a
/// [`PackagePath`](crate::path::PackagePath) has none.
pub fn line(name: &str, sum: Sha256Sum) -> String {
    format!("{sum}  {name}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_read_as_it_is_written_and_nothing_else_is() {
        let text = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let sum: Sha256Sum = text.parse().unwrap();
        assert_eq!(sum.to_string(), text);
        for bad in [&text[1..], &text.to_uppercase(), &text.replace('e', "g"), ""] {
            assert_eq!(bad.parse::<Sha256Sum>(), Err(InvalidSum), "{bad}");
        }
    }
}
