//! Counts the elements of the array `tokens` in the outermost object of an answer while it passes: llama-server's
//! `/tokenize` answers `{"tokens":[876,{"id":198,"piece":[195]}]}` without their number.

use crate::response::json_strings::JsonStrings;

/// Longest key that matters, and one byte more.
const MAX_WORD: usize = 7;

/// Where the array is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Array {
    #[default]
    Unseen,
    /// What comes next is its value.
    Awaited,
    Open,
    Ended,
}

/// Fed with the answer piece by piece, wherever frames end.
#[derive(Debug, Default)]
pub(crate) struct ArrayLength {
    strings: JsonStrings<MAX_WORD>,
    /// Objects and arrays that are open.
    depth: usize,
    array: Array,
    /// An element has begun since the last comma or the opening bracket.
    begun: bool,
    n: i64,
}

impl ArrayLength {
    /// Returns the number of elements, once the array has ended.
    pub(crate) fn found(&self) -> Option<i64> {
        (self.array == Array::Ended).then_some(self.n)
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        if self.array == Array::Ended {
            return;
        }
        for &byte in bytes {
            if self.strings.between(byte) {
                self.between(byte);
            }
        }
    }

    fn between(&mut self, byte: u8) {
        let directly = self.array == Array::Open && self.depth == 2;
        if directly && !byte.is_ascii_whitespace() && !matches!(byte, b',' | b']') {
            self.begun = true;
        }
        match byte {
            b':' if self.depth == 1 && self.array == Array::Unseen && self.strings.word() == b"tokens" => {
                self.array = Array::Awaited;
            }
            b'[' | b'{' => {
                self.depth += 1;
                if byte == b'[' && self.array == Array::Awaited {
                    self.array = Array::Open;
                }
                self.no_array();
            }
            b']' | b'}' => {
                if directly && byte == b']' {
                    self.n += i64::from(self.begun);
                    self.array = Array::Ended;
                }
                self.depth = self.depth.saturating_sub(1);
            }
            b',' if directly => self.n += i64::from(std::mem::take(&mut self.begun)),
            b'"' | b',' => self.no_array(),
            _ => {}
        }
    }

    /// Notes that the expected array is something else.
    fn no_array(&mut self) {
        if self.array == Array::Awaited {
            self.array = Array::Unseen;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_outermost_array_counts_and_frames_may_end_anywhere() {
        for (body, n) in [
            (r#"{"tokens":[876,880]}"#, Some(2)),
            (r#"{"tokens":[ ]}"#, Some(0)),
            (r#"{"tokens" : [ 7 ] , "x":[1,2]}"#, Some(1)),
            (
                r#"{"tokens":[{"id":198,"piece":[195,1]},{"id":1,"piece":"a,\"],"}, {"id":2,"piece":"b"}]}"#,
                Some(3),
            ),
            (r#"{"x":{"tokens":[1]},"y":"\"tokens\":[1,2]"}"#, None),
            (r#"{"tokens":null,"x":[1,2]}"#, None),
            (r#"{"tokens":[1,2"#, None),
        ] {
            for cut in 0..=body.len() {
                let mut elements = ArrayLength::default();
                let (a, b) = body.as_bytes().split_at(cut);
                elements.feed(a);
                elements.feed(b);
                assert_eq!(elements.found(), n, "{body} cut at {cut}");
            }
        }
    }
}
