//! `checksums.sha256`: one line for each file of a package, as `sha256sum` writes and `sha256sum -c` reads it. It is for
//! people who have no Gantry at hand; [`crate::verify`] reads the manifest.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::path::PackagePath;

/// A SHA-256, written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sha256Sum(pub [u8; 32]);

/// A text is not a SHA-256: 64 hexadecimal digits, small letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a SHA-256 has 64 hexadecimal digits, small letters")]
pub struct InvalidSum;

impl fmt::Display for Sha256Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
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

/// Returns the text of `checksums.sha256`, sorted by name. A [`PackagePath`] has no character that `sha256sum` escapes.
pub fn checksums<'a>(files: impl IntoIterator<Item = (&'a PackagePath, Sha256Sum)>) -> String {
    let mut files: Vec<_> = files.into_iter().collect();
    files.sort_by_key(|(path, _)| *path);
    let lines: Vec<String> = files.iter().map(|(path, sum)| format!("{sum}  {path}\n")).collect();
    lines.concat()
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
