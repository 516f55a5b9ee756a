//! Separates the strings of passing JSON from what stands between them, byte by byte, wherever frames end. The JSON is
//! not checked: it is an engine's answer, and its readers look for a few members only.

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Between,
    String,
    /// Behind a backslash in a string.
    Escape,
}

/// Where the next byte stands, and what the last string was. At most `MAX_WORD` bytes of a string are kept: one more
/// than the longest word that matters, so that a longer string is not mistaken for that word.
#[derive(Debug, Default)]
pub(crate) struct Strings<const MAX_WORD: usize> {
    place: Place,
    word: Vec<u8>,
    length: u64,
}

impl<const MAX_WORD: usize> Strings<MAX_WORD> {
    /// Takes the next byte. Returns true if it stands between strings; a quote that begins a string does, and one that
    /// ends it does not.
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

    /// Returns the beginning of the last string, with escapes as they were written.
    pub(crate) fn word(&self) -> &[u8] {
        &self.word
    }

    /// Returns the bytes of the last string, without the backslashes of escapes.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }
}
