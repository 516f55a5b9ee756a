//! Counts the elements of the array `tokens` in the outermost object of an answer while it passes: llama-server's
//! `/tokenize` answers `{"tokens":[876,{"id":198,"piece":[195]}]}` without their number.

use crate::response::passing_json::{PassingJson, Token};

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
    json: PassingJson<MAX_WORD>,
    array: Array,
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
            for (token, depth) in self.json.step(byte) {
                self.take(token, depth);
            }
        }
    }

    fn take(&mut self, token: Token, depth: usize) {
        self.array = match (self.array, token, depth) {
            (Array::Unseen, Token::Key, 1) if self.json.word() == b"tokens" => Array::Awaited,
            (Array::Awaited, Token::OpensArray, _) => Array::Open,
            (Array::Awaited, ..) => Array::Unseen,
            (Array::Open, Token::Closes, 2) => Array::Ended,
            // An element that is itself an object or an array is one level deeper than the array.
            (Array::Open, Token::String | Token::Bare, 2)
            | (Array::Open, Token::OpensObject | Token::OpensArray, 3) => {
                self.n += 1;
                Array::Open
            }
            (array, ..) => array,
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
