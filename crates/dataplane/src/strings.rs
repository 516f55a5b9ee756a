//! Tells what stands in strings of passing JSON from what stands between them, byte by byte, wherever frames end. Nothing
//! is judged: what comes is an engine's answer, and who reads it looks for a few members only.

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Between,
    String,
    /// Behind a backslash in a string.
    Escape,
}

/// Where the next byte stands, and what the last string was. Of a string no more than `MAX_WORD` bytes are kept: one more
/// than the longest that matters, so that no longer one is taken for it.
#[derive(Debug, Default)]
pub(crate) struct Strings<const MAX_WORD: usize> {
    place: Place,
    word: Vec<u8>,
    length: u64,
}

impl<const MAX_WORD: usize> Strings<MAX_WORD> {
    /// Takes the next byte. True if it stands between strings; a quote that begins one does, and one that ends it does
    /// not.
    pub(crate) fn between(&mut self, byte: u8) -> bool {
        match (self.place, byte) {
            (Place::Between, b'"') => {
                self.place = Place::String;
                self.word.clear();
                self.length = 0;
                return true;
            }
            (Place::Between, _) => return true,
            (Place::String, b'"') => self.place = Place::Between,
            (Place::String, b'\\') => {
                self.place = Place::Escape;
                self.keep(byte);
            }
            (Place::String | Place::Escape, _) => {
                self.place = Place::String;
                self.length += 1;
                self.keep(byte);
            }
        }
        false
    }

    fn keep(&mut self, byte: u8) {
        if self.word.len() < MAX_WORD {
            self.word.push(byte);
        }
    }

    /// Beginning of the last string, escapes as they were written.
    pub(crate) fn word(&self) -> &[u8] {
        &self.word
    }

    /// Bytes of the last string, an escape's backslash not counted.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }
}
