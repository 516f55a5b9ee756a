//! Reads arguments from the words of an engine's command line.

use super::Unknown;

/// The words of a command line; of several equal arguments, the last counts.
#[derive(Clone, Copy)]
pub(super) struct Words<'a>(pub(super) &'a [String]);

impl<'a> Words<'a> {
    pub(super) fn position(self, names: &[&str]) -> Option<usize> {
        self.0.iter().rposition(|word| {
            names.contains(&word.as_str()) || word.split_once('=').is_some_and(|it| names.contains(&it.0))
        })
    }

    pub(super) fn count(self, names: &[&str]) -> usize {
        let is = |word: &&String| names.contains(&word.split('=').next().unwrap_or_default());
        self.0.iter().filter(is).count()
    }

    pub(super) fn has(self, names: &[&str]) -> bool {
        self.position(names).is_some()
    }

    pub(super) fn last(self, names: &[&str]) -> Option<&'a str> {
        let at = self.position(names)?;
        let word = self.0.get(at)?;
        if names.contains(&word.as_str()) {
            return self.0.get(at + 1).map(String::as_str);
        }
        word.split_once('=').map(|it| it.1)
    }

    /// Reads a whole number that is not negative; vLLM also takes `8k` (thousands) and `8K` (1024).
    pub(super) fn number(self, names: &[&str]) -> Result<Option<u64>, Unknown> {
        let Some(text) = self.last(names) else { return Ok(None) };
        let (digits, unit) = match text.char_indices().last() {
            Some((at, 'k')) => (&text[..at], 1000),
            Some((at, 'K')) => (&text[..at], 1024),
            Some((at, 'm')) => (&text[..at], 1_000_000),
            Some((at, 'M')) => (&text[..at], 1 << 20),
            _ => (text, 1),
        };
        let number = digits.parse::<u64>().ok().and_then(|it| it.checked_mul(unit));
        number.map(Some).ok_or_else(|| odd(names, text))
    }

    pub(super) fn float(self, names: &[&str]) -> Result<Option<f64>, Unknown> {
        let Some(text) = self.last(names) else { return Ok(None) };
        let number = text.parse::<f64>().ok().filter(|it| it.is_finite() && *it >= 0.0);
        number.map(Some).ok_or_else(|| odd(names, text))
    }
}

/// Writes an option with dashes: vLLM accepts `--max_model_len` for `--max-model-len` (`vllm/utils/argparse_utils.py`,
/// `FlexibleArgumentParser`).
pub(super) fn dashed(word: &str) -> String {
    if !word.starts_with("--") {
        return word.to_owned();
    }
    match word.split_once('=') {
        Some((name, value)) => format!("{}={value}", name.replace('_', "-")),
        None => word.replace('_', "-"),
    }
}

/// Returns the error about an argument whose effect on memory is unknown.
pub(super) fn odd(names: &[&str], text: &str) -> Unknown {
    Unknown::because(format!("what `{} {text}` means for memory is unknown", names.first().unwrap_or(&"")))
}
