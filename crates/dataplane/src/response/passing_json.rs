//! Reads JSON that passes, byte by byte, wherever frames end, and says what stands where. The JSON is not checked: it is
//! an engine's answer, and what reads it looks for a few members only.

/// What a byte ended or began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token {
    /// The last string was the key of a member; see [`PassingJson::word`].
    Key,
    /// The last string was a value; see [`PassingJson::word`] and [`PassingJson::length`].
    String,
    /// A number, `true`, `false` or `null` has ended.
    Bare,
    OpensObject,
    OpensArray,
    /// An object or an array has ended.
    Closes,
}

/// Where the next byte stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Position {
    #[default]
    Between,
    String,
    /// Behind a backslash in a string.
    Escape,
}

/// Position in the text, and what the last string was. At most `MAX_WORD` bytes of a string are kept: one more than the
/// longest word that matters, so that a longer string is not mistaken for that word.
#[derive(Debug, Default)]
pub(crate) struct PassingJson<const MAX_WORD: usize> {
    position: Position,
    /// Objects and arrays that are open.
    depth: usize,
    /// [`Token::String`] or [`Token::Bare`], if that stands directly before the next byte. A string is a key if a colon
    /// follows.
    value: Option<Token>,
    word: Vec<u8>,
    length: u64,
}

/// At most two tokens: a value, and the end of what it stands in. The number is how many objects and arrays are open
/// around the token; the object or array that opens or closes is one of them.
pub(crate) type Tokens = std::iter::Flatten<std::array::IntoIter<Option<(Token, usize)>, 2>>;

impl<const MAX_WORD: usize> PassingJson<MAX_WORD> {
    /// Takes the next byte.
    pub(crate) fn step(&mut self, byte: u8) -> Tokens {
        let tokens = if self.position == Position::Between {
            self.between(byte)
        } else {
            self.in_string(byte);
            [None, None]
        };
        tokens.into_iter().flatten()
    }

    fn between(&mut self, byte: u8) -> [Option<(Token, usize)>; 2] {
        match byte {
            b'"' => {
                self.position = Position::String;
                self.word.clear();
                self.length = 0;
                [None, None]
            }
            b':' => {
                self.value = None;
                [Some((Token::Key, self.depth)), None]
            }
            b',' => [self.value_ends(), None],
            b'{' => [Some(self.opens(Token::OpensObject)), None],
            b'[' => [Some(self.opens(Token::OpensArray)), None],
            b'}' | b']' => {
                let value = self.value_ends();
                let closes = (Token::Closes, self.depth);
                self.depth = self.depth.saturating_sub(1);
                [value, Some(closes)]
            }
            _ => {
                if !byte.is_ascii_whitespace() {
                    self.value = Some(Token::Bare);
                }
                [None, None]
            }
        }
    }

    fn in_string(&mut self, byte: u8) {
        match (self.position, byte) {
            (Position::String, b'"') => {
                self.position = Position::Between;
                self.value = Some(Token::String);
            }
            (Position::String, b'\\') => {
                self.position = Position::Escape;
                self.keep(byte);
            }
            _ => {
                self.position = Position::String;
                self.length += 1;
                self.keep(byte);
            }
        }
    }

    fn opens(&mut self, token: Token) -> (Token, usize) {
        self.value = None;
        self.depth += 1;
        (token, self.depth)
    }

    fn value_ends(&mut self) -> Option<(Token, usize)> {
        self.value.take().map(|it| (it, self.depth))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_comes_with_its_depth() {
        let text = r#" {"a" : "b\"," , "c":[1, true,{}, "long word"],"d":{"e":null}} "#;
        let mut json = PassingJson::<4>::default();
        let mut tokens = Vec::new();
        for byte in text.bytes() {
            for (token, depth) in json.step(byte) {
                let word = match token {
                    Token::Key | Token::String => String::from_utf8_lossy(json.word()).into_owned(),
                    other => format!("{other:?}"),
                };
                tokens.push(format!("{depth} {word}"));
            }
        }
        let wanted = [
            "1 OpensObject",
            "1 a",
            "1 b\\\",",
            "1 c",
            "2 OpensArray",
            "2 Bare",
            "2 Bare",
            "3 OpensObject",
            "3 Closes",
            "2 long",
            "2 Closes",
            "1 d",
            "2 OpensObject",
            "2 e",
            "2 Bare",
            "2 Closes",
            "1 Closes",
        ];
        assert_eq!(tokens, wanted);
    }
}
