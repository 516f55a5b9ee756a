//! The bytes of a dump as lines and tokens, with the number of the line. Memory is bounded whatever the dump holds.

use std::{
    fmt,
    io::{self, BufRead, BufReader, Read},
};

/// Longest line, value or row, in bytes. A dump with more in one row can be neither written nor read.
pub(crate) const ROW_LIMIT: usize = 64 << 20;
/// Longest statement without data, in bytes.
pub(crate) const STATEMENT_LIMIT: usize = 1 << 20;
/// Bytes that are read from the source at once.
const READ_AHEAD: usize = 256 << 10;
/// Capacity above which a buffer is given back after the row that needed it.
pub(crate) const KEPT_CAPACITY: usize = 1 << 20;

/// Why a dump can't be used.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// The source failed.
    #[error("the dump can't be read: {0}")]
    Io(#[from] io::Error),
    /// The dump holds something that is not accepted. Lines count from 1.
    #[error("line {line}: {why}")]
    Refused { line: u64, why: String },
}

/// One token of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Token {
    /// A keyword or a name without quotes, in lower case.
    Word(String),
    /// A name in double quotes.
    Quoted(String),
    /// A string literal.
    Text(String),
    /// An unsigned number, as it stands.
    Number(String),
    Symbol(char),
}

impl Token {
    pub(crate) fn is(&self, word: &str) -> bool {
        matches!(self, Self::Word(it) if it == word)
    }

    pub(crate) fn is_symbol(&self, symbol: char) -> bool {
        *self == Self::Symbol(symbol)
    }

    /// Returns the name, if the token can be one.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Word(it) | Self::Quoted(it) => Some(it),
            _ => None,
        }
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(it) | Self::Number(it) => write!(f, "`{}`", shown(it)),
            Self::Quoted(it) => write!(f, "`\"{}\"`", shown(it)),
            Self::Text(_) => f.write_str("a text"),
            Self::Symbol(it) => write!(f, "`{it}`"),
        }
    }
}

/// Returns the beginning of a text from a dump for a message.
pub(crate) fn shown(text: &str) -> String {
    let mut short: String = text.chars().take(60).flat_map(char::escape_debug).collect();
    if text.chars().nth(60).is_some() {
        short.push('…');
    }
    short
}

/// Splits a dump into what its grammar is made of.
pub(crate) struct Lexer<R> {
    from: BufReader<R>,
    /// Number of the line that is read.
    line: u64,
    /// Whether nothing of the line was read yet.
    at_start: bool,
}

impl<R: Read> Lexer<R> {
    pub(crate) fn new(from: R) -> Self {
        Self { from: BufReader::with_capacity(READ_AHEAD, from), line: 1, at_start: true }
    }

    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    pub(crate) fn refused(&self, why: impl Into<String>) -> DumpError {
        DumpError::Refused { line: self.line, why: why.into() }
    }

    /// Returns whether the next byte is the first one of its line.
    pub(crate) fn is_at_start(&self) -> bool {
        self.at_start
    }

    /// Returns what comes next without taking it: as many bytes as the source gives at once.
    pub(crate) fn beginning(&mut self) -> &[u8] {
        // A source that failed does so again when it is read.
        self.from.fill_buf().unwrap_or_default()
    }

    /// Returns the next byte without taking it.
    pub(crate) fn peek(&mut self) -> Result<Option<u8>, DumpError> {
        let next = loop {
            match self.from.fill_buf() {
                Ok(bytes) => break bytes.first().copied(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        };
        if next == Some(0) { Err(self.refused("a NUL byte")) } else { Ok(next) }
    }

    fn bump(&mut self, byte: u8) {
        self.from.consume(1);
        self.at_start = byte == b'\n';
        self.line += u64::from(self.at_start);
    }

    /// Takes blanks and line ends.
    pub(crate) fn skip_blanks(&mut self) -> Result<(), DumpError> {
        while let Some(byte @ (b' ' | b'\t' | b'\n')) = self.peek()? {
            self.bump(byte);
        }
        Ok(())
    }

    /// Reads the rest of the line into `line`, without its end. Returns the number of the line; `None` if the source
    /// ends here.
    ///
    /// # Errors
    /// The line is cut off or too long, or it is not UTF-8 text.
    pub(crate) fn rest_of_line(&mut self, line: &mut String) -> Result<Option<u64>, DumpError> {
        let mut bytes = std::mem::take(line).into_bytes();
        bytes.clear();
        bytes.shrink_to(KEPT_CAPACITY);
        let limit = ROW_LIMIT as u64 + 1;
        let read = (&mut self.from).take(limit).read_until(b'\n', &mut bytes)?;
        if read == 0 {
            return Ok(None);
        }
        if bytes.pop_if(|last| *last == b'\n').is_none() {
            let long = bytes.len() > ROW_LIMIT;
            return Err(self.refused(if long {
                format!("a line of more than {} MiB", ROW_LIMIT >> 20)
            } else {
                "the dump ends within a line: it is cut off".to_owned()
            }));
        }
        *line = self.text(bytes)?;
        let number = self.line;
        self.line += 1;
        self.at_start = true;
        Ok(Some(number))
    }

    fn text(&self, bytes: Vec<u8>) -> Result<String, DumpError> {
        if bytes.contains(&0) {
            return Err(self.refused("a NUL byte"));
        }
        String::from_utf8(bytes).map_err(|_| self.refused("bytes that are not UTF-8 text"))
    }

    /// Reads a statement without its semicolon, from where it begins.
    ///
    /// # Errors
    /// It is longer than [`STATEMENT_LIMIT`], or it ends with the source.
    pub(crate) fn statement(&mut self) -> Result<Vec<Token>, DumpError> {
        let mut left = STATEMENT_LIMIT;
        let mut tokens = Vec::new();
        loop {
            match self.token(&mut left)? {
                Token::Symbol(';') => return Ok(tokens),
                token => tokens.push(token),
            }
        }
    }

    /// Reads one token, which may be `left` bytes long, and takes its length off.
    ///
    /// # Errors
    /// There is none, or it is longer or unknown.
    pub(crate) fn token(&mut self, left: &mut usize) -> Result<Token, DumpError> {
        self.skip_blanks()?;
        let first =
            self.peek()?.ok_or_else(|| self.refused("the dump ends within a statement: it is cut off"))?;
        self.take(first, left)?;
        match first {
            b'\'' => Ok(Token::Text(self.quoted(b'\'', left)?)),
            b'"' => Ok(Token::Quoted(self.quoted(b'"', left)?)),
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                let word = self.run(first, left, |it| it.is_ascii_alphanumeric() || it == b'_')?;
                match self.peek()? {
                    Some(b'\'' | b'$') => {
                        Err(self.refused(format!("`{}` in front of a quote", shown(&word))))
                    }
                    _ => Ok(Token::Word(word.to_ascii_lowercase())),
                }
            }
            b'0'..=b'9' => {
                let number = self.run(first, left, |it| it.is_ascii_alphanumeric() || it == b'.')?;
                Ok(Token::Number(number))
            }
            b'-' if self.peek()? == Some(b'-') => Err(self.refused("a comment within a statement")),
            b'/' if self.peek()? == Some(b'*') => Err(self.refused("a comment of the form `/* */`")),
            b'(' | b')' | b',' | b';' | b'.' | b':' | b'=' | b'<' | b'>' | b'[' | b']' | b'+' | b'-'
            | b'*' | b'/' => Ok(Token::Symbol(char::from(first))),
            other => Err(self.refused(format!("`{}` in a statement", char::from(other).escape_debug()))),
        }
    }

    fn take(&mut self, byte: u8, left: &mut usize) -> Result<(), DumpError> {
        *left = left.checked_sub(1).ok_or_else(|| self.refused("a statement or a value that is too long"))?;
        self.bump(byte);
        Ok(())
    }

    fn run(&mut self, first: u8, left: &mut usize, fits: impl Fn(u8) -> bool) -> Result<String, DumpError> {
        let mut run = String::from(char::from(first));
        while let Some(byte) = self.peek()?.filter(|it| fits(*it)) {
            self.take(byte, left)?;
            run.push(char::from(byte));
        }
        Ok(run)
    }

    /// Reads a literal after its first quote; two quotes within it stand for one.
    fn quoted(&mut self, quote: u8, left: &mut usize) -> Result<String, DumpError> {
        let mut bytes = Vec::new();
        loop {
            let limit = *left as u64 + 1;
            let start = bytes.len();
            let read = (&mut self.from).take(limit).read_until(quote, &mut bytes)?;
            self.line += bytes[start..].split(|it| *it == b'\n').count() as u64 - 1;
            self.at_start = false;
            if bytes.len() == start || bytes.last() != Some(&quote) {
                let long = read > *left;
                return Err(self.refused(if long {
                    "a value that is too long"
                } else {
                    "the dump ends within a text: it is cut off"
                }));
            }
            *left = left.saturating_sub(read);
            if self.peek()? != Some(quote) {
                bytes.pop();
                return self.text(bytes);
            }
            self.take(quote, left)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Result<Vec<Token>, String> {
        Lexer::new(text.as_bytes()).statement().map_err(|it| it.to_string())
    }

    #[test]
    fn a_statement_is_cut_into_its_tokens() {
        let found = tokens("Set a.\"B\"\"c\" = 'it''s\n', 12;").unwrap();
        let text = |it: &str| it.to_owned();
        let expected = [
            Token::Word(text("set")),
            Token::Word(text("a")),
            Token::Symbol('.'),
            Token::Quoted(text("B\"c")),
            Token::Symbol('='),
            Token::Text(text("it's\n")),
            Token::Symbol(','),
            Token::Number(text("12")),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_no_dump_of_ours_has_is_refused_with_its_line() {
        for (text, line, why) in [
            ("a\n$$;", 2, "`$`"),
            ("a\n\n\\! x;", 3, "`\\\\`"),
            ("E'x';", 1, "in front of a quote"),
            ("'a\nb\n", 3, "cut off"),
            ("a /* x */;", 1, "comment"),
            ("a -- x\n;", 1, "comment"),
            ("a\n`id`;", 2, "`"),
            ("a", 1, "cut off"),
            ("'\0';", 1, "NUL"),
        ] {
            let error = tokens(text).unwrap_err();
            assert!(error.starts_with(&format!("line {line}: ")) && error.contains(why), "{text:?}: {error}");
        }
        let long = format!("'{}';", "x".repeat(STATEMENT_LIMIT));
        assert!(tokens(&long).unwrap_err().contains("too long"));
    }
}
