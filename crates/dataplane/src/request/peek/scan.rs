//! The JSON grammar (RFC 8259) over borrowed text. Strings are skipped with SIMD search; nothing is built.

use std::{borrow::Cow, ops::Range};

use gantry_domain::{ApiError, ErrorCode};

/// Deepest nesting that is accepted, including the outermost object.
pub const MAX_DEPTH: u32 = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JsonKind {
    Object,
    Array,
    String,
    Number,
    /// `true`, `false` or `null`.
    Literal,
}

/// Where a value lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Value {
    pub kind: JsonKind,
    /// The value's place; that of a string includes its quotes.
    pub span: Range<usize>,
    /// Number of elements of an array; 0 for other values.
    pub n_elements: u32,
    /// It is an array, and a number is among its elements.
    pub has_numbers: bool,
}

/// The context of a value, which decides whether engines fetch what it contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueContext {
    /// No engine fetches what stands here.
    Inert,
    /// May hold parts of messages.
    Content,
    /// The address of a picture, a film or a sound, or an object with it under `url`.
    Media,
    /// An object with an address or with data.
    Source,
    /// A text that may be an address.
    Address,
    /// What an engine loads as a tensor.
    Tensor,
}

impl ValueContext {
    /// Returns the context of the value under `key`.
    fn below(self, key: &str) -> Self {
        match self {
            // The arguments and descriptions of tools are for the tools alone.
            Self::Content => match key {
                "image_url" | "video_url" | "audio_url" | "file_url" => Self::Media,
                "image_embeds" | "audio_embeds" | "video_embeds" => Self::Tensor,
                "source" | "file" | "input_audio" | "input_image" | "input_video" => Self::Source,
                "input" | "arguments" | "parameters" | "input_schema" | "metadata" => Self::Inert,
                _ => Self::Content,
            },
            Self::Media | Self::Source if key == "url" => Self::Media,
            Self::Source => Self::Address,
            Self::Media | Self::Inert | Self::Address | Self::Tensor => Self::Inert,
        }
    }

    /// Returns the context of the value under an outermost `key`.
    fn outermost(key: &str) -> Self {
        let inert =
            ["tools", "functions", "metadata", "response_format", "json_schema", "structured_outputs"];
        match key {
            "prompt_embeds" => Self::Tensor,
            _ if inert.contains(&key) => Self::Inert,
            _ => Self::Content,
        }
    }
}

/// A string that an engine may take for an address to fetch.
pub(super) struct MaybeAddress {
    /// Its place, quotes included.
    pub span: Range<usize>,
    /// Only an address may stand there; otherwise it counts if it looks like one.
    pub is_named: bool,
}

pub(super) struct Scanner<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    /// What an engine may fetch.
    pub media: Vec<MaybeAddress>,
    /// There is something that an engine would load as a tensor.
    pub tensors: bool,
}

type Step<T> = Result<T, ApiError>;

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, bytes: text.as_bytes(), at: 0, media: Vec::new(), tensors: false }
    }

    /// Consumes the opening brace, and returns its place.
    pub(super) fn object_start(&mut self) -> Step<usize> {
        self.space();
        let at = self.at;
        self.expect(b'{', "it does not begin with `{`")?;
        Ok(at)
    }

    /// Returns the next member of the object that is being read, or `None` behind its end. `first` starts as true;
    /// `depth` is that of the object.
    pub(super) fn member(&mut self, first: &mut bool, depth: u32) -> Step<Option<(Cow<'a, str>, Value)>> {
        self.space();
        if self.peek() == Some(b'}') {
            // A comma before it was consumed below together with the key that has to follow it.
            self.at += 1;
            return Ok(None);
        }
        if !*first {
            self.expect(b',', "a comma is missing")?;
            self.space();
        }
        *first = false;
        let start = self.at;
        self.expect(b'"', "a key is missing")?;
        self.string_rest()?;
        let key = string(&self.text[start..self.at]).ok_or_else(|| bad_json("a key has a bad escape"))?;
        self.space();
        self.expect(b':', "a colon is missing")?;
        let value = self.value(depth, ValueContext::outermost(&key))?;
        Ok(Some((key, value)))
    }

    /// Checks that nothing but white space follows.
    pub(super) fn end(&mut self) -> Step<()> {
        self.space();
        if self.at == self.bytes.len() { Ok(()) } else { Err(bad_json("something follows its end")) }
    }

    /// Reads a value; `depth` is that of the container around it.
    fn value(&mut self, depth: u32, context: ValueContext) -> Step<Value> {
        self.space();
        let start = self.at;
        // `null` is not a tensor: it refers to what the engine has seen before.
        self.tensors |= context == ValueContext::Tensor && self.peek() != Some(b'n');
        let (mut n_elements, mut has_numbers) = (0, false);
        let kind = match self.peek() {
            Some(b'"') => {
                self.at += 1;
                self.string_rest()?;
                if matches!(context, ValueContext::Media | ValueContext::Address) {
                    let is_named = context == ValueContext::Media;
                    self.media.push(MaybeAddress { span: start..self.at, is_named });
                }
                JsonKind::String
            }
            Some(b'{') => {
                self.object(deeper(depth)?, context)?;
                JsonKind::Object
            }
            Some(b'[') => {
                (n_elements, has_numbers) = self.array(deeper(depth)?, context)?;
                JsonKind::Array
            }
            Some(b't') => self.literal("true")?,
            Some(b'f') => self.literal("false")?,
            Some(b'n') => self.literal("null")?,
            Some(b'-' | b'0'..=b'9') => {
                self.number()?;
                JsonKind::Number
            }
            Some(_) => return Err(bad_json("a value is expected")),
            None => return Err(bad_json("it ends early")),
        };
        Ok(Value { kind, span: start..self.at, n_elements, has_numbers })
    }

    fn object(&mut self, depth: u32, context: ValueContext) -> Step<()> {
        self.at += 1;
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.space();
            let start = self.at;
            self.expect(b'"', "a key is missing")?;
            self.string_rest()?;
            let below = match context {
                ValueContext::Inert => ValueContext::Inert,
                // Engines know no key with a lone surrogate.
                _ => {
                    string(&self.text[start..self.at]).map_or(ValueContext::Inert, |key| context.below(&key))
                }
            };
            self.space();
            self.expect(b':', "a colon is missing")?;
            self.value(depth, below)?;
            self.space();
            match self.take() {
                Some(b',') => {}
                Some(b'}') => return Ok(()),
                _ => return Err(bad_json("an object does not end")),
            }
        }
    }

    /// Returns how many elements it has, and whether one of them is a number.
    fn array(&mut self, depth: u32, context: ValueContext) -> Step<(u32, bool)> {
        self.at += 1;
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok((0, false));
        }
        let (mut n, mut has_numbers) = (0_u32, false);
        loop {
            has_numbers |= self.value(depth, context)?.kind == JsonKind::Number;
            n = n.saturating_add(1);
            self.space();
            match self.take() {
                Some(b',') => {}
                Some(b']') => return Ok((n, has_numbers)),
                _ => return Err(bad_json("an array does not end")),
            }
        }
    }

    /// Reads a string from behind its opening quote to behind its closing one.
    fn string_rest(&mut self) -> Step<()> {
        loop {
            let rest = &self.bytes[self.at..];
            let Some(found) = memchr::memchr2(b'"', b'\\', rest) else {
                return Err(bad_json("a string does not end"));
            };
            self.at += found + 1;
            if rest[found] == b'"' {
                return Ok(());
            }
            match self.take() {
                Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {}
                Some(b'u') => {
                    let hex = self.bytes.get(self.at..self.at + 4);
                    if !hex.is_some_and(|it| it.iter().all(u8::is_ascii_hexdigit)) {
                        return Err(bad_json("a string has a bad escape"));
                    }
                    self.at += 4;
                }
                _ => return Err(bad_json("a string has a bad escape")),
            }
        }
    }

    fn number(&mut self) -> Step<()> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        // No digit may follow a leading zero; the caller refuses what follows.
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Step<()> {
        let n = self.bytes[self.at..].iter().take_while(|it| it.is_ascii_digit()).count();
        self.at += n;
        if n == 0 { Err(bad_json("a number is malformed")) } else { Ok(()) }
    }

    fn literal(&mut self, word: &str) -> Step<JsonKind> {
        if !self.bytes[self.at..].starts_with(word.as_bytes()) {
            return Err(bad_json("a value is expected"));
        }
        self.at += word.len();
        Ok(JsonKind::Literal)
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn take(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn expect(&mut self, byte: u8, problem: &str) -> Step<()> {
        if self.take() == Some(byte) { Ok(()) } else { Err(bad_json(problem)) }
    }
}

fn deeper(depth: u32) -> Step<u32> {
    if depth < MAX_DEPTH {
        return Ok(depth + 1);
    }
    let message = format!("the body is nested more than {MAX_DEPTH} deep");
    Err(ApiError::new(ErrorCode::ParameterNotAllowed, message))
}

/// Returns the text of a checked string literal, quotes included; `None` for a lone surrogate.
pub(super) fn string(literal: &str) -> Option<Cow<'_, str>> {
    let inner = literal.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        serde_json::from_str(literal).ok().map(Cow::Owned)
    } else {
        Some(Cow::Borrowed(inner))
    }
}

pub(super) fn bad_json(what: &str) -> ApiError {
    ApiError::new(ErrorCode::InvalidJson, format!("the body is not a JSON object: {what}"))
}
