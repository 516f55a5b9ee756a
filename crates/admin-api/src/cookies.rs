//! Session cookies: how they are signed, and how long they live.

use std::time::Duration;

use axum::http::HeaderValue;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use gantry_domain::{
    Timestamp, UserId,
    identity::{SESSION_COOKIE, Session},
};
use hmac::{Hmac, KeyInit, Mac};
use rand::Rng;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// However much it is used, a session ends after this time.
const ABSOLUTE_LIFETIME: Duration = Duration::from_hours(7 * 24);

/// Makes and reads session cookies: `<id>.<HMAC-SHA256 of id>`, both base64url. The id is 256 random bits; the
/// database keeps its SHA-256 only.
#[derive(Clone)]
pub struct Cookies {
    secret: SecretString,
    secure: bool,
    /// Time without use after which a session ends.
    ttl: Duration,
}

impl Cookies {
    /// `secret` signs, `secure` adds `Secure`, and `ttl` is the time without use after which a session ends.
    pub fn new(secret: SecretString, secure: bool, ttl: Duration) -> Self {
        Self { secret, secure, ttl }
    }

    fn sign(&self, id: &str) -> Option<Hmac<Sha256>> {
        // HMAC takes keys of any length; the error can't happen, and refusing is the safe way out if it did.
        let mut mac = Hmac::<Sha256>::new_from_slice(self.secret.expose_secret().as_bytes()).ok()?;
        mac.update(b"gantry session\0");
        mac.update(id.as_bytes());
        Some(mac)
    }

    /// The hash under which the session is stored, if the signature holds. Compares in constant time.
    pub fn verify(&self, cookie: &str) -> Option<[u8; 32]> {
        let (id, signature) = cookie.split_once('.')?;
        let signature = BASE64.decode(signature).ok()?;
        self.sign(id)?.verify_slice(&signature).ok()?;
        Some(Sha256::digest(id).into())
    }

    /// Returns a short text that changes with `record`. It is keyed, so that nobody who sees it can find out by trying
    /// what the record contains.
    pub(crate) fn revision(&self, record: &Value) -> String {
        // As in [`Self::sign`].
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(self.secret.expose_secret().as_bytes()) else {
            return String::new();
        };
        mac.update(b"gantry revision\0");
        mac.update(record.to_string().as_bytes());
        BASE64.encode(&mac.finalize().into_bytes()[..12])
    }

    /// Makes a new session. Returns it with the cookie's value.
    pub fn issue(&self, user: UserId, now: Timestamp) -> Option<(Session, String)> {
        let mut random = [0_u8; 32];
        rand::rng().fill_bytes(&mut random);
        let id = BASE64.encode(random);
        let signature = BASE64.encode(self.sign(&id)?.finalize().into_bytes());
        let id_hash = Sha256::digest(&id).into();
        let session = Session {
            id_hash,
            user_id: user,
            created_at: now,
            expires_at: now.plus(self.ttl.min(ABSOLUTE_LIFETIME)),
        };
        Some((session, format!("{id}.{signature}")))
    }

    /// Returns the `Set-Cookie` header for `value`; an empty value takes the cookie away.
    pub fn header(&self, value: &str) -> Option<HeaderValue> {
        let age = if value.is_empty() { 0 } else { ABSOLUTE_LIFETIME.as_secs() };
        let secure = if self.secure { "; Secure" } else { "" };
        let text =
            format!("{SESSION_COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={age}{secure}");
        HeaderValue::from_str(&text).ok()
    }

    /// Returns the new end of a session that is used now.
    pub(crate) fn extended(&self, session: &Session, now: Timestamp) -> Timestamp {
        now.plus(self.ttl).min(session.created_at.plus(ABSOLUTE_LIFETIME))
    }

    /// Returns when a session was used last, if that moved its end to `until`. In its last hours a session has no later
    /// end, so that it may have been used later.
    pub(crate) fn last_use(&self, session: &Session, until: Timestamp) -> Timestamp {
        until.minus(self.ttl).max(session.created_at)
    }

    /// Whether a new end is worth a write: it is more than a tenth of the lifetime later than the stored one.
    pub(crate) fn is_worth_a_write(&self, session: &Session, until: Timestamp) -> bool {
        until.since(session.expires_at) > self.ttl / 10
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cookies(secret: &str) -> Cookies {
        Cookies::new(secret.to_owned().into(), false, Duration::from_hours(8))
    }

    #[test]
    fn only_cookies_signed_with_this_secret_are_believed() {
        let (session, value) = cookies("one").issue(UserId(1), Timestamp(0)).unwrap();
        assert_eq!(cookies("one").verify(&value), Some(session.id_hash));
        assert_eq!(cookies("two").verify(&value), None);
        let (id, signature) = value.split_once('.').unwrap();
        for forged in [format!("{id}x.{signature}"), id.to_owned(), format!("{id}."), String::new()] {
            assert_eq!(cookies("one").verify(&forged), None, "{forged}");
        }
    }

    #[test]
    fn use_extends_a_session_but_not_beyond_a_week() {
        let cookies = cookies("one");
        let hours = |n: i64| Timestamp(n * 3_600_000);
        let (mut session, _) = cookies.issue(UserId(1), hours(0)).unwrap();
        let at = |session: &Session, now| {
            let until = cookies.extended(session, now);
            (until, cookies.is_worth_a_write(session, until))
        };
        assert_eq!(at(&session, Timestamp(60_000)), (Timestamp(8 * 3_600_000 + 60_000), false));
        assert_eq!(at(&session, hours(2)), (hours(10), true));
        assert_eq!(cookies.last_use(&session, hours(10)), hours(2));
        let long = Cookies::new("one".to_owned().into(), false, Duration::from_hours(1000));
        assert_eq!(long.issue(UserId(1), hours(0)).unwrap().0.expires_at, hours(7 * 24));
        session.expires_at = hours(7 * 24 - 4);
        assert_eq!(at(&session, hours(7 * 24 - 4)), (hours(7 * 24), true));
    }
}
