//! SHA-256 whose state can be written down, so that hashing goes on after a restart where it stopped.

use std::io::{self, Write};

use sha2::{
    Digest, Sha256,
    digest::common::hazmat::{SerializableState, SerializedState},
};

use crate::checksums::{Sha256Sum, hex};

/// A SHA-256 in the making.
#[derive(Debug, Clone, Default)]
pub struct Hasher(Sha256);

impl Hasher {
    /// Adds bytes.
    pub fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// Returns the sum.
    pub fn finish(self) -> Sha256Sum {
        Sha256Sum(self.0.finalize().into())
    }

    /// Returns the state as hexadecimal digits.
    pub fn state(&self) -> String {
        hex(&self.0.serialize())
    }

    /// Returns the hasher of a text that [`Self::state`] made; `None` for another text.
    pub fn resume(state: &str) -> Option<Self> {
        let mut bytes = SerializedState::<Sha256>::default();
        if state.len() != 2 * bytes.len() || !state.is_ascii() {
            return None;
        }
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(state.get(2 * at..2 * at + 2)?, 16).ok()?;
        }
        Sha256::deserialize(&bytes).ok().map(Self)
    }
}

/// A writer that hashes what goes through it.
#[derive(Debug)]
pub(crate) struct Hashed<T> {
    inner: T,
    hasher: Hasher,
}

impl<T> Hashed<T> {
    pub(crate) fn new(inner: T) -> Self {
        Self { inner, hasher: Hasher::default() }
    }

    /// Returns the sum of all that went through.
    pub(crate) fn finish(self) -> Sha256Sum {
        self.hasher.finish()
    }
}

impl<T: Write> Write for Hashed<T> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let n = self.inner.write(buffer)?;
        self.hasher.update(&buffer[..n]);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashing_goes_on_from_a_state_that_was_written_down() {
        let text: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        let mut whole = Hasher::default();
        whole.update(&text);
        let whole = whole.finish();
        for cut in [0, 1, 63, 64, 65, 70_000] {
            let mut first = Hasher::default();
            first.update(&text[..cut]);
            let mut second = Hasher::resume(&first.state()).unwrap();
            second.update(&text[cut..]);
            assert_eq!(second.finish(), whole, "{cut}");
        }
        assert!(Hasher::resume("00").is_none() && Hasher::resume(&"g".repeat(210)).is_none());
    }
}
