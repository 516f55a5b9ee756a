//! The engines' own command lines: flag tables with the versions that know each flag.
//!
//! The engines are strict about flags and change them between releases. A gateway easily gets that wrong, so the
//! simulator refuses exactly the flags that the simulated release refuses.

pub(crate) mod llama;
pub(crate) mod llama_flags;
pub(crate) mod vllm;
pub(crate) mod vllm_flags;

use std::collections::HashMap;

use crate::flavour::Version;

/// The process environment, passed in so that tests can choose it.
pub type Env = HashMap<String, String>;

/// Exit code and output of a program that ends before it serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Exit {
    pub(crate) fn failure(code: i32, stderr: impl Into<String>) -> Self {
        Self { code, stdout: String::new(), stderr: stderr.into() }
    }

    pub(crate) fn success(stdout: impl Into<String>) -> Self {
        Self { code: 0, stdout: stdout.into(), stderr: String::new() }
    }
}

/// The kind of value that may follow a flag.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value {
    /// The flag takes no value.
    Switch,
    /// The flag takes no value; `--no-…` is the opposite (vLLM).
    Toggle,
    Text,
    Int,
    Float,
    /// An integer that may be written `4k` or `8K` (vLLM).
    Size,
    Choice(&'static [&'static str]),
    /// One or more words (vLLM).
    Texts,
    Ints,
}

/// One flag and the versions that know it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flag {
    pub names: &'static [&'static str],
    pub value: Value,
    pub since: Version,
    /// First version without it.
    pub until: Option<Version>,
    /// The engine's message when the flag still parses after `until` (llama.cpp).
    pub removed: Option<&'static str>,
    pub env: Option<&'static str>,
    /// Help text; printed under the error message by llama-server.
    pub help: &'static str,
}

impl Flag {
    pub(crate) const fn new(names: &'static [&'static str], value: Value) -> Self {
        Self { names, value, since: Version(0, 0, 0), until: None, removed: None, env: None, help: "" }
    }

    pub(crate) const fn since(mut self, version: Version) -> Self {
        self.since = version;
        self
    }

    pub(crate) const fn until(mut self, version: Version) -> Self {
        self.until = Some(version);
        self
    }

    pub(crate) const fn removed(mut self, text: &'static str) -> Self {
        self.removed = Some(text);
        self
    }

    pub(crate) const fn env(mut self, name: &'static str) -> Self {
        self.env = Some(name);
        self
    }

    pub(crate) const fn help(mut self, text: &'static str) -> Self {
        self.help = text;
        self
    }

    /// Returns the name under which the flag's values are stored.
    pub(crate) fn key(&self) -> &'static str {
        self.names.iter().find(|name| name.starts_with("--")).or(self.names.first()).copied().unwrap_or("")
    }

    pub(crate) fn in_force(&self, version: Version) -> bool {
        self.since <= version && self.until.is_none_or(|end| version < end)
    }
}

/// The values given, by [`Flag::key`].
#[derive(Debug, Default, Clone)]
pub(crate) struct Given {
    values: HashMap<&'static str, Vec<String>>,
}

impl Given {
    pub(crate) fn set(&mut self, key: &'static str, values: Vec<String>) {
        self.values.insert(key, values);
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    /// Whether a switch or toggle is on.
    pub(crate) fn on(&self, key: &str) -> bool {
        self.one(key).is_some_and(|value| value != "false")
    }

    pub(crate) fn one(&self, key: &str) -> Option<&str> {
        self.values.get(key)?.last().map(String::as_str)
    }

    pub(crate) fn all(&self, key: &str) -> &[String] {
        self.values.get(key).map_or(&[], Vec::as_slice)
    }

    /// Returns a number that the parser has already checked.
    pub(crate) fn number<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        self.one(key)?.parse().ok()
    }
}
