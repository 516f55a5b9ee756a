//! Separates the strings of passing JSON from what stands between them, byte by byte, wherever frames end. The JSON is
//! not checked: it is an engine's answer, and its readers look for a few members only.

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Position {
    #[default]
    Between,
    String,
    /// Behind a backslash in a string.
    Escape,
}

/// Where the next byte stands, and what the last string was. At most `MAX_WORD` bytes of a string are kept: one more
/// than the longest word that matters, so that a longer string is not mistaken for that word.
#[derive(Debug, Default)]
pub(crate) struct JsonStrings<const MAX_WORD: usize> {
    position: Position,
    word: Vec<u8>,
    length: u64,
}

impl<const MAX_WORD: usize> JsonStrings<MAX_WORD> {
    /// Takes the next byte. Returns true if it stands between strings; a quote that begins a string does, and one that
    /// ends it does not.
    pub(crate) fn between(&mut self, byte: u8) -> bool {
        match (self.position, byte) {
            (Position::Between, b'"') => {
                self.position = Position::String;
                self.word.clear();
                self.length = 0;
                return true;
            }
            (Position::Between, _) => return true,
            (Position::String, b'"') => self.position = Position::Between,
            (Position::String, b'\\') => {
                self.position = Position::Escape;
                self.keep(byte);
            }
            (Position::String | Position::Escape, _) => {
                self.position = Position::String;
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
