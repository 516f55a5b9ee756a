//! Password hashing: argon2id, off the runtime, a few at a time.

use std::sync::Arc;

use argon2::{
    Algorithm, Argon2, Params, PasswordHasher, PasswordVerifier, Version, password_hash::phc::PasswordHash,
};
use gantry_domain::{ApiError, ErrorCode};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use tokio::sync::Semaphore;

/// Memory in KiB, passes and lanes (OWASP's first choice for argon2id).
const PARAMS: (u32, u32, u32) = (19 * 1024, 2, 1);
/// Hashes at the same time: each takes 19 MiB and tens of milliseconds of a CPU.
const AT_ONCE: usize = 2;
/// Hashes that may wait: beyond, sign-ins are refused rather than queued for ever.
const WAITING: usize = 16;

/// Verified when there is no such user, so that the answer takes as long. Its password was thrown away. A constant,
/// because hashing one at start would cost 19 MiB that the allocator keeps.
const DECOY: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$Wgp2aStt/XOyNhHO9CZ2UA$GohPXxmvgozi/H02gfB+dXRSfgy2JtpyMCKRtDFFZDU";

/// Hashes and verifies passwords. Cheap to clone.
#[derive(Clone)]
pub struct Passwords {
    running: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

impl Default for Passwords {
    fn default() -> Self {
        Self {
            running: Arc::new(Semaphore::new(AT_ONCE)),
            waiting: Arc::new(Semaphore::new(AT_ONCE + WAITING)),
        }
    }
}

fn argon2() -> Option<Argon2<'static>> {
    let (memory, passes, lanes) = PARAMS;
    Some(Argon2::new(Algorithm::Argon2id, Version::V0x13, Params::new(memory, passes, lanes, None).ok()?))
}

fn hash_now(password: &str) -> Option<String> {
    Some(argon2()?.hash_password(password.as_bytes()).ok()?.to_string())
}

impl Passwords {
    /// The PHC string to store.
    ///
    /// # Errors
    /// 429 when too many are being hashed.
    pub async fn hash(&self, password: &SecretString) -> Result<String, ApiError> {
        let password = password.clone();
        self.run(move || hash_now(password.expose_secret())).await?.ok_or_else(ApiError::internal)
    }

    /// Whether `password` is the one behind `stored`; without `stored` (no such user) it takes as long and is not.
    ///
    /// # Errors
    /// 429 when too many are being hashed.
    pub async fn verify(&self, password: &SecretString, stored: Option<&str>) -> Result<bool, ApiError> {
        let known = stored.is_some();
        let (password, stored) = (password.clone(), stored.unwrap_or(DECOY).to_owned());
        let matches = self.run(move || {
            let hash = PasswordHash::new(&stored).ok()?;
            let argon2 = argon2()?;
            Some(argon2.verify_password(password.expose_secret().as_bytes(), &hash).is_ok())
        });
        Ok(matches.await?.unwrap_or(false) && known)
    }

    async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, ApiError> {
        let busy = || ApiError::new(ErrorCode::TooManyAttempts, "too many sign-ins at once").retry_after(2);
        let _queued = self.waiting.try_acquire().map_err(|_| busy())?;
        let _running = self.running.acquire().await.map_err(|_| ApiError::internal())?;
        tokio::task::spawn_blocking(work).await.map_err(|_| ApiError::internal())
    }
}

/// Characters of the longest password.
const LONGEST: usize = 256;

/// Whether a new password is acceptable: 8 to 256 characters, whatever they are.
pub(crate) fn acceptable(value: &Value) -> Option<SecretString> {
    let text = value.as_str()?;
    (8..=LONGEST).contains(&text.chars().count()).then(|| text.to_owned().into())
}

/// For messages.
pub(crate) const ACCEPTABLE: &str = "a password of 8 to 256 characters";

/// A password to be compared. What no password can be is refused, so that nothing long is hashed.
pub(crate) fn given(value: &Value) -> Option<SecretString> {
    value.as_str().filter(|it| it.chars().count() <= LONGEST).map(|it| SecretString::from(it.to_owned()))
}

/// For messages.
pub(crate) const GIVEN: &str = "a text of at most 256 characters";

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_hash_is_argon2id_and_verifies_only_its_password() {
        let passwords = Passwords::default();
        let stored = passwords.hash(&"correct horse".into()).await.unwrap();
        assert!(stored.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{stored}");
        assert!(passwords.verify(&"correct horse".into(), Some(&stored)).await.unwrap());
        assert!(!passwords.verify(&"correct house".into(), Some(&stored)).await.unwrap());
        assert!(!passwords.verify(&"correct horse".into(), None).await.unwrap());
    }

    /// A decoy that is quicker to verify would tell which users there are.
    #[test]
    fn the_decoy_costs_as_much_as_a_real_hash() {
        let parameters = |hash: &str| hash.rsplitn(3, '$').last().map(str::to_owned);
        assert_eq!(parameters(DECOY), parameters(&hash_now("x").unwrap()));
        assert!(PasswordHash::new(DECOY).is_ok());
    }
}
