//! The simulated model: counts tokens, makes text, JSON and vectors, all from the input alone, so
//! that the same request gets the same answer in every process.

use serde_json::{Map, Value, json};

/// Context that the model was trained for, in tokens. It is also the context when the command line sets none.
pub const TRAINED_CONTEXT: u32 = 131_072;

/// Length of the vectors that the model makes.
pub(crate) const DIMENSIONS: usize = 64;

/// Fewest tokens after which an answer ends by itself; the longest have twice as many. Shorter answers have the length
/// that was asked for, so that tests know it.
const SHORTEST: u32 = 2048;

/// The first words of every answer, which tell readers that it is simulated.
const OPENING: &[&str] = &["This", " is", " simulated", " text", ":"];

const WORDS: &[&str] = &[
    " the", " a", " river", " stone", " light", " slow", " green", " under", " north", " paper", " cloud",
    " small", " bright", " early", " wind", " over", " glass", " field", " turns", " keeps", " finds",
    " moves", " opens", " holds", " after", " before", " near", " and", " then", " while", " quiet", " road",
    " water", " house", " tree", " morning", " between", " every", " other", " long", " round", " deep",
    " copper", " silver", " garden", " bridge", " winter", " summer", " letter", " number", " simple",
    " steady", " open", " clear", " warm", " with", ".", ",",
];

/// FNV-1a hash: small, and the same on every machine and in every version of Rust.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Pseudo-random numbers (splitmix64) from a seed.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Returns the number of tokens in a text: one per word, and one more for each further eight bytes of a long word.
pub(crate) fn count(text: &str) -> u32 {
    text.split_whitespace().map(|word| word.len().div_ceil(8) as u32).sum()
}

/// Returns the ids of the tokens of a text.
pub(crate) fn ids(text: &str) -> Vec<u32> {
    let pieces = text.split_whitespace().flat_map(|word| word.as_bytes().chunks(8));
    pieces.map(|piece| 256 + (hash(piece) % 30_000) as u32).collect()
}

/// Returns `n` tokens of text that follow `prompt`. Different values of `index` give different answers to one prompt.
pub(crate) fn generate(prompt: &str, index: usize, n: u32) -> Vec<String> {
    let mut numbers = Numbers(hash(prompt.as_bytes()).wrapping_add(index as u64));
    let words = std::iter::repeat_with(|| WORDS[(numbers.next() % WORDS.len() as u64) as usize]);
    OPENING.iter().copied().chain(words).take(n as usize).map(str::to_owned).collect()
}

/// Returns the number of tokens after which the answer to `prompt` ends by itself, as a model's does.
pub(crate) fn own_length(prompt: &str, index: usize) -> u32 {
    let mut numbers = Numbers(hash(prompt.as_bytes()).wrapping_add(index as u64));
    SHORTEST + (numbers.next() % u64::from(SHORTEST)) as u32
}

/// Cuts `text` into the tokens it would be generated in.
pub(crate) fn split(text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    characters.chunks(4).map(|piece| piece.iter().collect()).collect()
}

/// Ends `pieces` before the first occurrence of one of `stops`; returns the stop text that was found.
pub(crate) fn cut(pieces: &mut Vec<String>, stops: &[String]) -> Option<String> {
    let whole = pieces.concat();
    let found = stops
        .iter()
        .filter(|stop| !stop.is_empty())
        .filter_map(|stop| Some((whole.find(stop.as_str())?, stop)));
    let (end, stop) = found.min_by_key(|(at, _)| *at)?;
    let mut length = 0;
    let mut kept = Vec::new();
    for piece in pieces.iter() {
        if length >= end {
            break;
        }
        kept.push(piece.get(..(end - length).min(piece.len())).unwrap_or(piece).to_owned());
        length += piece.len();
    }
    *pieces = kept;
    Some(stop.clone())
}

/// Returns made-up log-probabilities of one token: the token itself and others.
pub(crate) fn alternatives(token: &str, n: usize) -> Vec<(String, f64)> {
    let seed = hash(token.as_bytes());
    (0..n)
        .map(|i| {
            let other = if i == 0 { token.to_owned() } else { format!("{token}{i}") };
            (other, -0.1 - i as f64 - (seed % 100) as f64 / 1000.0)
        })
        .collect()
}

/// Returns a vector of length 1 that depends on the text alone.
pub(crate) fn embed(text: &str) -> Vec<f32> {
    let mut numbers = Numbers(hash(text.as_bytes()));
    let raw: Vec<f64> =
        (0..DIMENSIONS).map(|_| (numbers.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0).collect();
    let norm = raw.iter().map(|x| x * x).sum::<f64>().sqrt();
    raw.iter().map(|x| (x / norm) as f32).collect()
}

/// Returns how well `document` answers `query`, 0 to 1: the share of the query's words in it.
pub(crate) fn relevance(query: &str, document: &str) -> f64 {
    let lower = document.to_lowercase();
    let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
    let found = words.iter().filter(|word| lower.contains(word.as_str())).count();
    // A tie is broken by a hash of the text, so that the order is always the same.
    let noise = (hash(document.as_bytes()) % 1000) as f64 / 10_000.0;
    0.9 * found as f64 / words.len().max(1) as f64 + noise
}

/// Returns the smallest JSON that fits `schema`: required properties only.
pub(crate) fn minimal(schema: &Value) -> Value {
    minimal_at(schema, schema, 0)
}

fn minimal_at(schema: &Value, root: &Value, depth: usize) -> Value {
    // A schema may refer to itself, so the depth is limited.
    if depth > 16 {
        return Value::Null;
    }
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        let found = target.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        return found.map_or(Value::Null, |found| minimal_at(found, root, depth + 1));
    }
    if let Some(value) = schema.get("const") {
        return value.clone();
    }
    if let Some(first) = schema.get("enum").and_then(|values| values.get(0)) {
        return first.clone();
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        if let Some(first) = schema.get(key).and_then(|schemas| schemas.get(0)) {
            return minimal_at(first, root, depth + 1);
        }
    }
    let kind = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str),
        kind => kind.and_then(Value::as_str),
    };
    let least = |key: &str| schema.get(key).and_then(Value::as_u64).unwrap_or(0) as usize;
    match kind {
        Some("string") => json!("x".repeat(least("minLength").min(4096))),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(json!(0)),
        Some("boolean") => json!(true),
        Some("array") => {
            let item = schema.get("items").map_or(Value::Null, |items| minimal_at(items, root, depth + 1));
            Value::Array(vec![item; least("minItems").min(64)])
        }
        Some("null") => Value::Null,
        None if schema.get("properties").is_none() && schema.get("required").is_none() => json!({}),
        _ => {
            let mut object = Map::new();
            let required = schema.get("required").and_then(Value::as_array);
            for name in required.into_iter().flatten().filter_map(Value::as_str) {
                let property =
                    schema.pointer(&format!("/properties/{}", name.replace('~', "~0").replace('/', "~1")));
                let value = property.map_or(Value::Null, |property| minimal_at(property, root, depth + 1));
                object.insert(name.to_owned(), value);
            }
            Value::Object(object)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_prompt_gets_the_same_text() {
        assert_eq!(generate("hello", 0, 20), generate("hello", 0, 20));
        assert_ne!(generate("hello", 0, 20), generate("hello", 1, 20));
        assert_ne!(generate("hello", 0, 20), generate("hallo", 0, 20));
        assert_eq!(generate("hello", 0, 3), ["This", " is", " simulated"]);
    }

    #[test]
    fn answers_end_by_themselves_at_lengths_that_their_prompts_decide() {
        let lengths = ["hello", "hallo", "a", "b"].map(|it| own_length(it, 0));
        assert_eq!(lengths, ["hello", "hallo", "a", "b"].map(|it| own_length(it, 0)));
        assert!(lengths.iter().all(|it| (2048..4096).contains(it)), "{lengths:?}");
        assert!(lengths.iter().any(|it| *it != lengths[0]), "{lengths:?}");
    }

    #[test]
    fn counts_words_and_long_words() {
        assert_eq!((count(""), count("hello world"), count(&"a".repeat(80))), (0, 2, 10));
        assert_eq!(ids("hello world").len(), 2);
    }

    #[test]
    fn text_ends_before_a_stop_word() {
        let mut pieces: Vec<String> = ["one", " two", " three"].map(str::to_owned).to_vec();
        assert_eq!(cut(&mut pieces, &["wo".to_owned(), "th".to_owned()]).as_deref(), Some("wo"));
        assert_eq!(pieces, ["one", " t"]);
        assert_eq!(cut(&mut pieces, &["zzz".to_owned()]), None);
    }

    #[test]
    fn vectors_have_length_one() {
        let vector = embed("hello");
        let norm: f32 = vector.iter().map(|x| x * x).sum();
        assert_eq!(vector.len(), DIMENSIONS);
        assert!((norm - 1.0).abs() < 1e-5);
    }

    #[test]
    fn json_has_the_required_properties_only() {
        let schema = json!({"type": "object", "required": ["unit", "n", "deep", "list"], "properties": {
            "unit": {"type": "string", "enum": ["c", "f"]},
            "n": {"type": "integer", "minimum": 3},
            "deep": {"$ref": "#/$defs/deep"},
            "list": {"type": "array", "minItems": 2, "items": {"type": "boolean"}},
            "other": {"type": "string"}},
            "$defs": {"deep": {"type": "object", "required": ["s"], "properties": {"s": {"type": "string"}}}}});
        assert_eq!(minimal(&schema), json!({"unit": "c", "n": 3, "deep": {"s": ""}, "list": [true, true]}));
        assert_eq!(minimal(&json!({"$ref": "#"})), Value::Null);
    }
}
