//! Secrets in rows are encrypted with a key that is not in the database. The cipher is ChaCha20-Poly1305 of the crate
//! `ring`, which TLS uses anyway.
//!
//! A secret is stored as `gantry-sealed:1:<key id>:<base64url of nonce, ciphertext and tag>`. The nonce is random, 96
//! bits: with a few thousand secrets no nonce occurs twice. The column is authenticated too, so that a secret that was
//! sealed for one column can't be opened in another. Values stored before encryption existed are plain text and are
//! read as such; [`crate::Store::reseal`] seals them.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use gantry_domain::hex::hex;
use ring::{
    aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    digest,
    rand::{SecureRandom, SystemRandom},
};
use secrecy::{ExposeSecret, SecretString};

use crate::{StoreError, StoreResult};

const PREFIX: &str = "gantry-sealed:1:";
/// Number of digits of a key: 256 bits in hexadecimal.
const DIGITS: usize = 64;

/// The keys of this gateway: the first one seals, all of them open.
#[derive(Default)]
pub struct Seal(Vec<SealKey>);

struct SealKey {
    /// The first 8 hexadecimal digits of the key's SHA-256. They say which key a value needs, and nothing about the
    /// key.
    id: String,
    key: LessSafeKey,
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|it| &it.id)).finish()
    }
}

/// Why keys can't be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("key number {0} is not of 64 hexadecimal digits")]
pub struct InvalidKey(usize);

/// Where a secret is stored.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SecretPlace {
    HubToken,
    ApiKey,
    Shared,
}

impl SecretPlace {
    fn name(self) -> &'static str {
        match self {
            Self::HubToken => "models.hub_token",
            Self::ApiKey => "registry.api_key",
            Self::Shared => "meta.secret",
        }
    }
}

/// A stored secret, as far as this gateway can read it.
pub(crate) enum Opened {
    Clear(SecretString),
    /// The stored text. It needs a key that this gateway does not have.
    Sealed(String),
}

impl Opened {
    /// Returns the secret, or the stored text if the secret can't be read.
    pub(crate) fn parts(self) -> (Option<SecretString>, Option<String>) {
        match self {
            Self::Clear(secret) => (Some(secret), None),
            Self::Sealed(stored) => (None, Some(stored)),
        }
    }
}

impl Seal {
    /// Reads keys of 64 hexadecimal digits, separated by commas, blanks or line ends. The first key is the one that
    /// seals.
    ///
    /// # Errors
    /// One of them has another form, or there is none.
    pub fn parse(text: &SecretString) -> Result<Self, InvalidKey> {
        let words = text.expose_secret().split([',', ' ', '\n', '\r', '\t']).filter(|it| !it.is_empty());
        let keys: Vec<SealKey> = words
            .enumerate()
            .map(|(at, word)| SealKey::parse(word).ok_or(InvalidKey(at + 1)))
            .collect::<Result<_, _>>()?;
        if keys.is_empty() { Err(InvalidKey(1)) } else { Ok(Self(keys)) }
    }

    /// Returns the id of the key that seals.
    pub fn id(&self) -> Option<&str> {
        self.0.first().map(|it| it.id.as_str())
    }

    /// Returns the text to store for a secret. Without a key (tools that write no secrets) the secret stays in clear.
    pub(crate) fn close(&self, place: SecretPlace, secret: &SecretString) -> StoreResult<String> {
        let Some(SealKey { id, key }) = self.0.first() else { return Ok(secret.expose_secret().to_owned()) };
        let failed = |_| StoreError::Seal;
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).map_err(failed)?;
        let mut sealed = secret.expose_secret().as_bytes().to_vec();
        let aad = Aad::from(place.name());
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut sealed)
            .map_err(failed)?;
        Ok(format!("{PREFIX}{id}:{}", BASE64.encode([&nonce[..], &sealed].concat())))
    }

    pub(crate) fn open(&self, place: SecretPlace, stored: String) -> Opened {
        if !stored.starts_with(PREFIX) {
            return Opened::Clear(stored.into());
        }
        match self.opened(place, &stored) {
            Some(secret) => Opened::Clear(secret),
            None => Opened::Sealed(stored),
        }
    }

    fn opened(&self, place: SecretPlace, stored: &str) -> Option<SecretString> {
        let (id, sealed) = stored.strip_prefix(PREFIX)?.split_once(':')?;
        let mut sealed = BASE64.decode(sealed).ok()?;
        let (nonce, _) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let key = &self.0.iter().find(|it| it.id == id)?.key;
        let clear = key.open_within(nonce, Aad::from(place.name()), &mut sealed, NONCE_LEN..).ok()?;
        Some(String::from_utf8(clear.to_vec()).ok()?.into())
    }

    /// Returns whether the value is sealed with the key that seals now.
    pub(crate) fn is_current(&self, stored: &str) -> bool {
        key_of(stored).is_some_and(|id| Some(id) == self.id())
    }
}

/// Returns the id of the key that a stored value needs; `None` for a value in clear.
pub(crate) fn key_of(stored: &str) -> Option<&str> {
    Some(stored.strip_prefix(PREFIX)?.split_once(':')?.0)
}

impl SealKey {
    fn parse(digits: &str) -> Option<Self> {
        if digits.len() != DIGITS || !digits.is_ascii() {
            return None;
        }
        let bytes: Vec<u8> = (0..DIGITS / 2)
            .map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).ok())
            .collect::<Option<_>>()?;
        let hash = digest::digest(&digest::SHA256, &bytes);
        let id = hex(&hash.as_ref()[..4]);
        let key = UnboundKey::new(&CHACHA20_POLY1305, &bytes).ok()?;
        Some(Self { id, key: LessSafeKey::new(key) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seal(digits: &[&str]) -> Seal {
        let text: Vec<String> = digits.iter().map(|it| it.repeat(DIGITS / it.len())).collect();
        Seal::parse(&text.join("\n").into()).unwrap()
    }

    fn opens(seal: &Seal, place: SecretPlace, stored: &str) -> Option<String> {
        let (secret, _) = seal.open(place, stored.to_owned()).parts();
        secret.map(|it| it.expose_secret().to_owned())
    }

    #[test]
    fn what_is_sealed_opens_with_its_key_in_its_place_and_unchanged() {
        let one = seal(&["1"]);
        let stored = one.close(SecretPlace::HubToken, &"hf_secret".to_owned().into()).unwrap();
        assert!(!stored.contains("hf_secret") && one.is_current(&stored), "{stored}");
        assert_ne!(stored, one.close(SecretPlace::HubToken, &"hf_secret".to_owned().into()).unwrap());
        assert_eq!(opens(&one, SecretPlace::HubToken, &stored).as_deref(), Some("hf_secret"));
        assert_eq!(opens(&one, SecretPlace::ApiKey, &stored), None);
        assert_eq!(opens(&seal(&["2"]), SecretPlace::HubToken, &stored), None);
        let both = seal(&["2", "1"]);
        assert_eq!(opens(&both, SecretPlace::HubToken, &stored).as_deref(), Some("hf_secret"));
        assert!(!both.is_current(&stored));
        let last = if stored.ends_with('A') { "B" } else { "A" };
        for broken in [&stored[..stored.len() - 4], &format!("{}{last}", &stored[..stored.len() - 2]), PREFIX]
        {
            assert_eq!(opens(&one, SecretPlace::HubToken, broken), None, "{broken}");
        }
        assert_eq!(opens(&one, SecretPlace::HubToken, "hf_in_clear").as_deref(), Some("hf_in_clear"));
    }

    #[test]
    fn keys_are_64_digits_each() {
        for (text, at) in [("", 1), ("12", 1), ("g", 1)] {
            assert_eq!(Seal::parse(&text.to_owned().into()).unwrap_err(), InvalidKey(at), "{text}");
        }
        let second = format!("{}, {}", "a".repeat(64), "b".repeat(63));
        assert_eq!(Seal::parse(&second.into()).unwrap_err(), InvalidKey(2));
        assert_eq!(format!("{:?}", seal(&["1"])).len(), 12, "ids only");
    }
}
