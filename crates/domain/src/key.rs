//! API keys: token format, scopes and the record.

use std::fmt;

use rand::Rng;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

use crate::{
    KeyId, OrgId, Timestamp, UserId,
    limit::{LimitMode, Limits},
    model::Task,
    net::IpList,
    words,
};

/// What a token is for. Its first four characters show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// An API key, for `/v1`.
    Key,
    /// A person's token for the admin API: see [`crate::account_token`].
    Account,
    /// A one-time link with which a user sets their own password.
    PasswordLink,
}

impl TokenKind {
    /// Returns the first characters of each token of this kind.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Key => "gty_",
            Self::Account => "gta_",
            Self::PasswordLink => "gtl_",
        }
    }
}

/// Length of the prefix, for all kinds.
const PREFIX_CHARS: usize = 4;
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const RANDOM_CHARS: usize = 40;
const CHECK_CHARS: usize = 6;
/// Length of [`Token`] in characters: prefix, 40 random (238 bits), 6 of checksum.
pub const TOKEN_CHARS: usize = PREFIX_CHARS + RANDOM_CHARS + CHECK_CHARS;
/// Characters of a token that lists show.
pub const SHOWN_CHARS: usize = 12;

/// A new secret bearer token: the prefix of its kind, 40 base62, and 6 base62 of the CRC-32 of what stands before them, so
/// that secret scanners can tell a real one from a lookalike. Shown once; only [`hash`] is kept.
pub struct Token(SecretString);

impl Token {
    /// Makes a new token. `rng` must be cryptographically secure.
    pub fn generate(kind: TokenKind, rng: &mut impl Rng) -> Self {
        let mut text = String::with_capacity(TOKEN_CHARS);
        text.push_str(kind.prefix());
        while text.len() < PREFIX_CHARS + RANDOM_CHARS {
            // Rejecting 248..256 keeps every character equally likely.
            let byte = (rng.next_u32() & 0xff) as usize;
            if byte < 248 {
                text.push(char::from(BASE62[byte % 62]));
            }
        }
        text.push_str(&checksum(&text));
        Self(text.into())
    }

    /// Returns the whole token.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// Returns the first [`SHOWN_CHARS`] characters, by which people recognise a key.
    pub fn shown(&self) -> &str {
        &self.expose()[..SHOWN_CHARS]
    }

    /// Returns the [`hash`] that is stored.
    pub fn hash(&self) -> [u8; 32] {
        hash(self.expose().as_bytes())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Returns the hash under which the store keeps a token. A plain SHA-256 suffices for a secret of 238 random bits.
pub fn hash(token: &[u8]) -> [u8; 32] {
    Sha256::digest(token).into()
}

/// Whether `text` has the form of a token of this kind, checksum included. It does not look up whether the token
/// exists.
pub fn is_well_formed(kind: TokenKind, text: &str) -> bool {
    text.len() == TOKEN_CHARS
        && text.is_ascii()
        && text.starts_with(kind.prefix())
        && text[TOKEN_CHARS - CHECK_CHARS..] == checksum(&text[..TOKEN_CHARS - CHECK_CHARS])
}

fn checksum(text: &str) -> String {
    let mut crc = crc32fast::hash(text.as_bytes());
    let mut digits = [b'0'; CHECK_CHARS];
    for digit in digits.iter_mut().rev() {
        *digit = BASE62[(crc % 62) as usize];
        crc /= 62;
    }
    digits.iter().copied().map(char::from).collect()
}

words! {
    /// What a key may call; see [`crate::endpoint::Endpoint::scope`].
    pub enum Scope {
        /// Chats, and what is built on them.
        Chat = "chat",
        /// Completions of a plain prompt.
        Completions = "completions",
        /// Embeddings, reranking and scores.
        Embeddings = "embeddings",
    }
}

impl Scope {
    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A non-empty set of [`Scope`]s; written as `chat,completions,embeddings`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Scopes(u8);

/// Why scopes can't be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum InvalidScopes {
    /// This word is not a scope.
    #[error("`{0}` is not a scope; allowed are chat, completions and embeddings")]
    Unknown(String),
    /// There is no scope.
    #[error("at least one of chat, completions and embeddings is needed")]
    Empty,
}

impl Scopes {
    /// Every scope.
    pub const ALL: Self = Self(0b111);

    /// Reads scopes separated by commas.
    ///
    /// # Errors
    /// There is an unknown word, or no scope at all.
    pub fn parse(text: &str) -> Result<Self, InvalidScopes> {
        let mut bits = 0;
        for word in text.split(',').map(str::trim).filter(|it| !it.is_empty()) {
            bits |= Scope::parse(word).ok_or_else(|| InvalidScopes::Unknown(word.to_owned()))?.bit();
        }
        if bits == 0 { Err(InvalidScopes::Empty) } else { Ok(Self(bits)) }
    }

    /// Returns whether the set has this scope.
    pub fn allows(self, scope: Scope) -> bool {
        self.0 & scope.bit() != 0
    }

    /// Whether these scopes allow any call to a model of this task.
    pub fn fit(self, task: Task) -> bool {
        match task {
            Task::Generate => self.allows(Scope::Chat) || self.allows(Scope::Completions),
            Task::Embed => self.allows(Scope::Embeddings),
        }
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = Scope::ALL.into_iter().filter(|it| self.allows(*it)).map(Scope::as_str).collect();
        f.write_str(&words.join(","))
    }
}

/// The settings of a key that an administrator chooses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySettings {
    /// Name of 0–100 characters, shown to people.
    pub name: String,
    pub scopes: Scopes,
    /// Served names that the key may call; `None` allows all.
    pub models: Option<Vec<String>>,
    /// An empty list allows all addresses.
    pub ip_allowlist: IpList,
    pub expires_at: Option<Timestamp>,
    pub limits: Limits,
    /// What happens when the key's own limits are reached. It does not soften the organisation's limits.
    pub limit_mode: LimitMode,
}

impl Default for KeySettings {
    fn default() -> Self {
        Self {
            name: String::new(),
            scopes: Scopes::ALL,
            models: None,
            ip_allowlist: IpList::default(),
            expires_at: None,
            limits: Limits::default(),
            limit_mode: LimitMode::default(),
        }
    }
}

/// A stored key, with the facts about its owner that affect it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    pub id: KeyId,
    /// First [`SHOWN_CHARS`] characters of the token.
    pub prefix: String,
    pub token_hash: [u8; 32],
    pub settings: KeySettings,
    pub org_id: OrgId,
    pub org_name: String,
    pub org_limits: Limits,
    /// `None` for a key that belongs to the organisation itself.
    pub user_id: Option<UserId>,
    pub username: Option<String>,
    /// The user's limits, if the key has a user.
    pub user_limits: Limits,
    /// Served names that the user may call; `None` allows all.
    pub user_models: Option<Vec<String>>,
    /// Whether the organisation and the user (if there is one) are both enabled.
    pub holder_enabled: bool,
    pub created_at: Timestamp,
    pub last_used_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
}

words! {
    /// Whether a key works, and if not, why. A revoked key stays revoked, even if it has expired as well.
    pub enum KeyStatus {
        /// The key works.
        Active = "active",
        /// Its `expires_at` has passed.
        Expired = "expired",
        /// It was revoked.
        Revoked = "revoked",
        /// Its organisation or its user is disabled.
        HolderDisabled = "holder_disabled",
    }
}

impl ApiKey {
    /// Returns the served names that the key may call, by its own list and by its user's; `None` allows all.
    pub fn callable(&self) -> Option<Vec<String>> {
        match (self.settings.models.as_ref(), self.user_models.as_ref()) {
            (Some(own), Some(user)) => Some(own.iter().filter(|it| user.contains(it)).cloned().collect()),
            (own, user) => own.or(user).cloned(),
        }
    }

    /// Returns whether the key works at `now`.
    pub fn status(&self, now: Timestamp) -> KeyStatus {
        if self.revoked_at.is_some() {
            KeyStatus::Revoked
        } else if self.settings.expires_at.is_some_and(|at| at <= now) {
            KeyStatus::Expired
        } else if self.holder_enabled {
            KeyStatus::Active
        } else {
            KeyStatus::HolderDisabled
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_well_formed_and_a_typo_is_noticed() {
        for (kind, other) in [(TokenKind::Key, TokenKind::Account), (TokenKind::Account, TokenKind::Key)] {
            let token = Token::generate(kind, &mut rand::rng());
            let text = token.expose();
            assert!(is_well_formed(kind, text) && !is_well_formed(other, text), "{text}");
            let mut typo = text.as_bytes().to_vec();
            typo[10] = if typo[10] == b'a' { b'b' } else { b'a' };
            assert!(!is_well_formed(kind, std::str::from_utf8(&typo).unwrap()));
            assert!(!is_well_formed(kind, &text[..text.len() - 1]) && !is_well_formed(kind, "gty_ü"));
            assert_eq!(format!("{token:?}"), "Token(…)");
        }
    }

    #[test]
    fn the_checksum_is_stable() {
        // Secret scanners match this form: crc32("gty_" + 40 × "0") = 0x…, base62, most significant digit first.
        let body = format!("gty_{}", "0".repeat(40));
        let crc = crc32fast::hash(body.as_bytes());
        let digits = checksum(&body);
        let value = digits
            .bytes()
            .fold(0_u64, |sum, digit| sum * 62 + BASE62.iter().position(|it| *it == digit).unwrap() as u64);
        assert_eq!(value, u64::from(crc));
    }

    #[test]
    fn scopes_are_a_set_in_a_fixed_order() {
        assert_eq!(Scopes::parse("embeddings, chat,chat").unwrap().to_string(), "chat,embeddings");
        assert_eq!(Scopes::parse(" , "), Err(InvalidScopes::Empty));
        assert_eq!(Scopes::parse("chat,root"), Err(InvalidScopes::Unknown("root".into())));
        assert!(!Scopes::parse("chat").unwrap().allows(Scope::Completions));
    }
}
