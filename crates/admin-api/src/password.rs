//! Password hashing: argon2id, off the runtime, a few at a time.

use std::{borrow::Cow, sync::Arc};

use argon2::{
    Algorithm, Argon2, Params, PasswordHasher, PasswordVerifier, Version, password_hash::phc::PasswordHash,
};
use gantry_domain::{
    ApiError, ErrorCode, Timestamp, UserId,
    schema::{self, Components},
};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::{
    operation::Field,
    turns::{Turn, Turns},
};

/// Memory in KiB, passes and lanes (OWASP's first choice for argon2id).
const PARAMS: (u32, u32, u32) = (19 * 1024, 2, 1);
/// Most passwords that are checked for sign-ins at the same time: each takes 19 MiB and tens of milliseconds of a CPU.
const SIGN_INS: usize = 2;
/// Most passwords that are set at the same time.
const CHANGES: usize = 1;
/// Most passwords that may wait: further ones are refused rather than queued for ever.
const WAITING: usize = 16;
/// Most of these that one caller may set.
const OF_CALLER: usize = 6;

/// The hash that is verified if there is no such user, so that the answer takes as long. Its password was thrown away.
/// It is a constant, because hashing one at start would cost 19 MiB that the allocator keeps.
const DECOY: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$Wgp2aStt/XOyNhHO9CZ2UA$GohPXxmvgozi/H02gfB+dXRSfgy2JtpyMCKRtDFFZDU";

/// Hashes and verifies passwords. Cheap to clone.
#[derive(Clone)]
pub struct Passwords {
    /// Sign-ins have a pool of their own, so that they never wait for users who set passwords.
    sign_ins: Pool,
    changes: Pool,
    callers: Turns,
}

impl Default for Passwords {
    fn default() -> Self {
        Self { sign_ins: Pool::new(SIGN_INS), changes: Pool::new(CHANGES), callers: Turns::new(OF_CALLER) }
    }
}

/// Bounds how many passwords are worked on at the same time, and how many wait.
#[derive(Clone)]
struct Pool {
    running: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

impl Pool {
    fn new(at_once: usize) -> Self {
        let places = |n| Arc::new(Semaphore::new(n));
        Self { running: places(at_once), waiting: places(at_once + WAITING) }
    }

    async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, ApiError> {
        let _queued = self.waiting.try_acquire().map_err(|_| busy("too many passwords at once"))?;
        let running = Arc::clone(&self.running).acquire_owned().await.map_err(|_| ApiError::internal())?;
        // The work goes on, and keeps its memory, even if nobody waits for it any more.
        let work = move || {
            let done = work();
            drop(running);
            done
        };
        tokio::task::spawn_blocking(work).await.map_err(|_| ApiError::internal())
    }
}

fn busy(message: &str) -> ApiError {
    ApiError::new(ErrorCode::TooManyAttempts, message).retry_after(2)
}

fn argon2() -> Option<Argon2<'static>> {
    let (memory, passes, lanes) = PARAMS;
    Some(Argon2::new(Algorithm::Argon2id, Version::V0x13, Params::new(memory, passes, lanes, None).ok()?))
}

fn hash_now(password: &str) -> Option<String> {
    Some(argon2()?.hash_password(password.as_bytes()).ok()?.to_string())
}

impl Passwords {
    /// Waits for the turn of a caller who sets a password, or several passwords one after the other.
    ///
    /// # Errors
    /// 429 when too many of the caller's wait already.
    pub(crate) async fn turn(&self, caller: UserId) -> Result<Turn, ApiError> {
        self.callers.turn(caller).await.ok_or_else(|| busy("you set too many passwords at once"))
    }

    /// Hashes a password and returns the PHC string to store.
    ///
    /// # Errors
    /// 429 when too many are being hashed.
    pub async fn hash(&self, password: &SecretString) -> Result<String, ApiError> {
        let password = password.clone();
        self.changes.run(move || hash_now(password.expose_secret())).await?.ok_or_else(ApiError::internal)
    }

    /// Returns, for a sign-in, whether `password` is the one behind the hash `stored`. Without `stored` (no such user)
    /// the check takes as long, and the answer is no.
    ///
    /// # Errors
    /// 429 when too many are being checked.
    pub async fn verify(&self, password: &SecretString, stored: Option<&str>) -> Result<bool, ApiError> {
        let matches = self.sign_ins.run(compare(password, stored.unwrap_or(DECOY))).await?;
        Ok(matches && stored.is_some())
    }

    /// Returns, for a change, whether `password` is the current one, whose hash is `stored`.
    ///
    /// # Errors
    /// 429 when too many are being hashed.
    pub(crate) async fn is_current(&self, password: &SecretString, stored: &str) -> Result<bool, ApiError> {
        self.changes.run(compare(password, stored)).await
    }
}

/// Returns the comparison as a closure, since it takes its time.
fn compare(password: &SecretString, stored: &str) -> impl FnOnce() -> bool + Send + 'static {
    let (password, stored) = (password.clone(), stored.to_owned());
    move || {
        let (Ok(hash), Some(argon2)) = (PasswordHash::new(&stored), argon2()) else { return false };
        argon2.verify_password(password.expose_secret().as_bytes(), &hash).is_ok()
    }
}

/// Longest password, in characters.
const LONGEST: usize = 256;

/// A password that a user is to get.
pub(crate) struct NewPassword;

impl Field for NewPassword {
    type Value = SecretString;

    fn allowed() -> Cow<'static, str> {
        format!("a password of 8 to {LONGEST} characters").into()
    }

    fn read(value: &Value, _: Timestamp) -> Option<SecretString> {
        let text = value.as_str()?;
        (8..=LONGEST).contains(&text.chars().count()).then(|| text.to_owned().into())
    }

    fn schema(_: &mut Components) -> Value {
        schema::secret(schema::text_of(8, LONGEST))
    }
}

/// A password that is to be compared. A text that is too long for a password is refused, so that nothing long is hashed.
pub(crate) struct GivenPassword;

impl Field for GivenPassword {
    type Value = SecretString;

    fn allowed() -> Cow<'static, str> {
        format!("a text of at most {LONGEST} characters").into()
    }

    fn read(value: &Value, _: Timestamp) -> Option<SecretString> {
        value.as_str().filter(|it| it.chars().count() <= LONGEST).map(|it| SecretString::from(it.to_owned()))
    }

    fn schema(_: &mut Components) -> Value {
        schema::secret(schema::text_of(0, LONGEST))
    }
}

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
