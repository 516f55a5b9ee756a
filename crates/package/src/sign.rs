//! Signature of a package: Ed25519 over the manifest alone, in minisign's format (<https://jedisct1.github.io/minisign/>), so
//! that `minisign -V -p KEY.pub -m manifest.json` checks it too. The manifest has the SHA-256 of every other file.
//!
//! The crate `minisign` reads keys and signatures leniently. What it is given here was checked before: each line has its one
//! length, and there is nothing else in the file.

use std::{
    fmt,
    io::{self, Cursor, Read},
    path::Path,
};

use minisign::{ErrorKind, KeyPair, PublicKeyBox, SecretKeyBox, SignatureBox};
use secrecy::{ExposeSecret, SecretString};

use crate::{
    manifest::SIGNATURE,
    package::{Package, open_file},
};

/// Largest file with a signature or a key that is read, in bytes.
pub const LARGEST_FILE: usize = 4096;
/// Longest id of a package that a signature names, in bytes: a UUID has 36.
const LONGEST_ID: usize = 100;
/// Length of a signature, in characters of Base64: two for the algorithm, 8 for the key's id, 64 for the signature.
const SIGNATURE_LENGTH: usize = 100;
/// Length of the signature over the comment, in characters of Base64.
const COMMENT_SIGNATURE_LENGTH: usize = 88;
/// Length of a public key, in characters of Base64.
const PUBLIC_LENGTH: usize = 56;
/// Length of a secret key, in characters of Base64.
const SECRET_LENGTH: usize = 212;
/// Begin of a secret key that a password protects: the algorithms `Ed`, `Sc` and `B2` in Base64.
const LOCKED: &str = "RWRTY0Iy";
/// Begin of a secret key without a password.
const OPEN: &str = "RWQAAEIy";

/// Number of a key pair. It tells keys apart, and proves nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyId(u64);

impl KeyId {
    fn new(bytes: &[u8]) -> Self {
        Self(bytes.try_into().map_or(0, u64::from_le_bytes))
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016X}", self.0)
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why the origin of a package is not proven.
#[derive(Debug, thiserror::Error)]
pub enum SignatureError {
    #[error("the package is not signed: it has no `{SIGNATURE}`")]
    Missing,
    #[error("`{SIGNATURE}` can't be read: {0}")]
    Unreadable(#[from] io::Error),
    #[error("the manifest can't be read once more: {0}")]
    Manifest(io::Error),
    #[error("`{SIGNATURE}` is no signature in minisign's format: {0}")]
    Malformed(&'static str),
    #[error("`{SIGNATURE}` was made with the key {found}, and the given key is {wanted}")]
    OtherKey { found: KeyId, wanted: KeyId },
    #[error("`{SIGNATURE}` is not the signature of this manifest: one of the two was changed or forged")]
    Wrong,
}

/// Why a key can't be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("it is no public key in minisign's format")]
    NotPublic,
    #[error("it is a secret key; the public key has the ending `.pub`")]
    Secret,
    #[error("it is no secret key in minisign's format")]
    NotSecret,
    #[error("the key is damaged")]
    Damaged,
    #[error("a password protects the key")]
    Locked,
    #[error("the password of the key is another one")]
    Password,
    #[error("the id of the package is longer than {LONGEST_ID} bytes or has control characters")]
    Id,
    #[error("{0}")]
    Failed(minisign::PError),
}

/// A public key: it verifies signatures.
#[derive(Clone)]
pub struct PublicKey(minisign::PublicKey);

impl PublicKey {
    /// Reads the key from the text of its file, or from the 56 characters that its file has in the second line.
    ///
    /// # Errors
    /// The text is something else.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let text = text.trim();
        if second_line(text).is_some_and(|it| it.len() == SECRET_LENGTH) {
            return Err(KeyError::Secret);
        }
        let key = second_line(text).unwrap_or(text);
        if key.len() != PUBLIC_LENGTH {
            return Err(KeyError::NotPublic);
        }
        let key = minisign::PublicKey::from_base64(key).map_err(|_| KeyError::NotPublic)?;
        if key.to_bytes().starts_with(b"Ed") { Ok(Self(key)) } else { Err(KeyError::NotPublic) }
    }

    /// Returns the number of the key pair.
    pub fn id(&self) -> KeyId {
        KeyId::new(self.0.keynum())
    }
}

/// Returns the second line of a text of two lines.
fn second_line(text: &str) -> Option<&str> {
    let (_, key) = text.split_once('\n')?;
    Some(key.trim_end())
}

/// A secret key: it makes signatures.
pub struct SecretKey(minisign::SecretKey);

impl SecretKey {
    /// Reads the key from the text of its file. A key without a password ignores `password`.
    ///
    /// # Errors
    /// [`KeyError::Locked`] if a password is needed and none was given; the password is another one; the text is no key.
    pub fn parse(text: &SecretString, password: Option<&SecretString>) -> Result<Self, KeyError> {
        let text = text.expose_secret();
        let key = second_line(text.trim()).filter(|it| it.len() == SECRET_LENGTH);
        let key = key.ok_or(KeyError::NotSecret)?;
        let sealed = SecretKeyBox::from(text.trim().to_owned());
        let opened = if key.starts_with(OPEN) {
            sealed.into_unencrypted_secret_key()
        } else if key.starts_with(LOCKED) {
            let password = password.ok_or(KeyError::Locked)?;
            sealed.into_secret_key(Some(password.expose_secret().to_owned()))
        } else {
            return Err(KeyError::NotSecret);
        };
        opened.map(Self).map_err(|error| match error.kind() {
            ErrorKind::Verify if key.starts_with(LOCKED) => KeyError::Password,
            _ => KeyError::Damaged,
        })
    }

    /// Returns the number of the key pair.
    pub fn id(&self) -> KeyId {
        KeyId::new(self.0.keynum())
    }
}

/// The texts of the two files of a new key pair.
pub struct KeyFiles {
    pub id: KeyId,
    pub public: String,
    pub secret: SecretString,
}

/// Makes a key pair. The password protects the secret key; that takes about a second and 32 MiB.
///
/// # Errors
/// The system gives no random numbers.
pub fn generate(password: Option<&SecretString>) -> Result<KeyFiles, KeyError> {
    let pair = match password {
        Some(it) => KeyPair::generate_encrypted_keypair(Some(it.expose_secret().to_owned())),
        None => KeyPair::generate_unencrypted_keypair(),
    };
    let pair = pair.map_err(KeyError::Failed)?;
    let public: PublicKeyBox = pair.pk.to_box().map_err(KeyError::Failed)?;
    let kind = if password.is_some() { "encrypted" } else { "unencrypted" };
    let secret = pair.sk.to_box(Some(&format!("minisign {kind} secret key"))).map_err(KeyError::Failed)?;
    Ok(KeyFiles {
        id: KeyId::new(pair.pk.keynum()),
        public: public.into_string(),
        secret: secret.into_string().into(),
    })
}

/// Signs the bytes of a manifest, and returns the text of the signature's file. The comment, which the signature proves too,
/// names the package (`id`) and the time (`at`, RFC 3339).
///
/// # Errors
/// The id can't be in a comment, or the system gives no random numbers.
pub fn sign(manifest: impl Read, id: &str, at: &str, key: &SecretKey) -> Result<String, KeyError> {
    if id.len() > LONGEST_ID || id.chars().any(char::is_control) {
        return Err(KeyError::Id);
    }
    let public = minisign::PublicKey::from_secret_key(&key.0).map_err(KeyError::Failed)?;
    let trusted = format!("package {id}, signed {at}");
    let untrusted = "signature of a Gantry package";
    let signed = minisign::sign(Some(&public), &key.0, manifest, Some(&trusted), Some(untrusted));
    Ok(signed.map_err(KeyError::Failed)?.into_string())
}

/// A signature that was read, and not verified yet.
pub struct Signature(SignatureBox);

impl Signature {
    /// Reads the signature of the package in the folder `dir`; `None` if the package is not signed. A link is not followed.
    ///
    /// # Errors
    /// The file can't be read, or is no signature of the present algorithm.
    pub fn read(dir: &Path) -> Result<Option<Self>, SignatureError> {
        let file = match open_file(&dir.join(SIGNATURE)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(SignatureError::Unreadable(error)),
        };
        let mut text = Vec::new();
        file.take(LARGEST_FILE as u64 + 1).read_to_end(&mut text)?;
        Self::parse(&text).map(Some)
    }

    /// Reads a signature from the text of its file.
    ///
    /// # Errors
    /// [`SignatureError::Malformed`], with the reason.
    pub fn parse(text: &[u8]) -> Result<Self, SignatureError> {
        let malformed = |why| Err(SignatureError::Malformed(why));
        if text.len() > LARGEST_FILE {
            return malformed("it has more than 4096 bytes");
        }
        let Ok(text) = str::from_utf8(text) else { return malformed("it is not UTF-8") };
        let text = text.strip_suffix('\n').unwrap_or(text);
        // minisign itself puts tabs into its comments.
        if text.chars().any(|it| it.is_control() && !matches!(it, '\n' | '\t')) {
            return malformed("it has control characters");
        }
        let lines: Vec<&str> = text.split('\n').collect();
        let [untrusted, signature, trusted, comment_signature] = lines[..] else {
            return malformed("it has not four lines");
        };
        if !untrusted.starts_with("untrusted comment: ") || !trusted.starts_with("trusted comment: ") {
            return malformed("its comments are missing");
        }
        let is_whole = signature.len() == SIGNATURE_LENGTH
            && comment_signature.len() == COMMENT_SIGNATURE_LENGTH
            // Without this padding, so many characters would be more bytes.
            && signature.ends_with('=')
            && comment_signature.ends_with("==");
        if !is_whole {
            return malformed("it is cut off or has too much");
        }
        match SignatureBox::from_string(text) {
            Ok(it) if it.is_prehashed() => Ok(Self(it)),
            Ok(_) => malformed("its algorithm is the legacy one, which is not accepted"),
            Err(error) if matches!(error.kind(), ErrorKind::Verify) => {
                malformed("its algorithm is not known")
            }
            Err(_) => malformed("it is damaged"),
        }
    }

    /// Returns which key the signature says it was made with. Before [`Signature::verify`] anybody may have written that.
    pub fn key_id(&self) -> KeyId {
        KeyId::new(self.0.keynum())
    }

    /// Verifies that the holder of the key signed the manifest of a package, as [`Self::verify`] does.
    ///
    /// # Errors
    /// Those of [`Self::verify`]; the manifest can't be read, or was changed since the package was opened.
    pub fn verify_package(&self, package: &Package, key: &PublicKey) -> Result<String, SignatureError> {
        self.verify(&package.manifest_text().map_err(SignatureError::Manifest)?, key)
    }

    /// Verifies that the holder of the key signed these bytes of a manifest, and returns the comment that they signed with
    /// it.
    ///
    /// # Errors
    /// Another key signed, or another manifest was signed.
    pub fn verify(&self, manifest: &[u8], key: &PublicKey) -> Result<String, SignatureError> {
        let (found, wanted) = (self.key_id(), key.id());
        if found != wanted {
            return Err(SignatureError::OtherKey { found, wanted });
        }
        let (quiet, output, allow_legacy) = (true, false, false);
        minisign::verify(&key.0, &self.0, Cursor::new(manifest), quiet, output, allow_legacy)
            .and_then(|()| self.0.trusted_comment())
            .map_err(|_| SignatureError::Wrong)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rustix::fs::{FileType, Mode};

    use super::*;

    const MANIFEST: &[u8] = b"{\"id\": 7}\n";
    /// A key, a text and its signature that the program `minisign` made, from the documentation of `minisign-verify`.
    const FOREIGN_KEY: &str = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";
    const FOREIGN: &str = "untrusted comment: signature from minisign secret key\n\
        RUQf6LRCGA9i559r3g7V1qNyJDApGip8MfqcadIgT9CuhV3EMhHoN1mGTkUidF/z7SrlQgXdy8ofjb7bNJJylDOocrCo8KLzZwo=\n\
        trusted comment: timestamp:1556193335\tfile:test\n\
        y/rUw2y8/hOUYjZU71eHp/Wo1KZ40fGy2VJEDl34XMJM+TX48Ss/17u3IvIfbVR1FkZZSNCisQbuQY+bHwhEBg==\n";
    const LEGACY: &str = "untrusted comment: signature from minisign secret key\n\
        RWQf6LRCGA9i59SLOFxz6NxvASXDJeRtuZykwQepbDEGt87ig1BNpWaVWuNrm73YiIiJbq71Wi+dP9eKL8OC351vwIasSSbXxwA=\n\
        trusted comment: timestamp:1555779966\tfile:test\n\
        QtKMXWyYcwdpZAlPF7tE2ENJkRd1ujvKjlj1m9RtHTBnZPa5WKU5uWRs5GoP5M/VqE81QFuMKI5k/SfNQUaOAA==\n";

    fn pair() -> (SecretKey, PublicKey) {
        let files = generate(None).unwrap();
        let keys = (SecretKey::parse(&files.secret, None).unwrap(), PublicKey::parse(&files.public).unwrap());
        assert!(keys.0.id() == files.id && keys.1.id() == files.id);
        keys
    }

    fn signed(secret: &SecretKey) -> String {
        sign(MANIFEST, "0190-ab", "2026-01-02T03:04:05Z", secret).unwrap()
    }

    fn error(text: &str) -> String {
        Signature::parse(text.as_bytes()).err().map_or_else(String::new, |it| it.to_string())
    }

    #[test]
    fn what_was_signed_is_proven_with_package_and_time() {
        let (secret, public) = pair();
        let signature = Signature::parse(signed(&secret).as_bytes()).unwrap();
        assert_eq!(signature.key_id(), public.id());
        let comment = signature.verify(MANIFEST, &public).unwrap();
        assert_eq!(comment, "package 0190-ab, signed 2026-01-02T03:04:05Z");
        assert!(matches!(signature.verify(b"{\"id\": 8}\n", &public), Err(SignatureError::Wrong)));
        let (_, other) = pair();
        let refused = signature.verify(MANIFEST, &other).unwrap_err().to_string();
        assert!(refused.contains(&public.id().to_string()) && refused.contains(&other.id().to_string()));
    }

    #[test]
    fn a_signature_of_the_program_minisign_is_accepted_unless_it_is_a_legacy_one() {
        let key = PublicKey::parse(FOREIGN_KEY).unwrap();
        assert_eq!(key.id().to_string(), "E7620F1842B4E81F");
        let signature = Signature::parse(FOREIGN.as_bytes()).unwrap();
        assert_eq!(signature.verify(b"test", &key).unwrap(), "timestamp:1556193335\tfile:test");
        assert!(error(LEGACY).contains("legacy"), "{}", error(LEGACY));
    }

    #[test]
    fn a_comment_that_was_changed_is_not_accepted() {
        let (secret, public) = pair();
        let text = signed(&secret).replace("0190-ab", "0190-ac");
        let signature = Signature::parse(text.as_bytes()).unwrap();
        assert!(matches!(signature.verify(MANIFEST, &public), Err(SignatureError::Wrong)));
        assert!(matches!(sign(MANIFEST, "a\nb", "now", &secret), Err(KeyError::Id)));
    }

    #[test]
    fn what_is_no_signature_is_refused_with_its_reason() {
        let good = signed(&pair().0);
        let lines: Vec<_> = good.lines().collect();
        let with = |n: usize, line: &str| {
            let mut lines = lines.clone();
            lines[n] = line;
            lines.join("\n")
        };
        let unpadded = format!("{}AA", &lines[3][..86]);
        for (text, why) in [
            (String::new(), "four lines"),
            (lines[..3].join("\n"), "four lines"),
            (format!("{good}more\n"), "four lines"),
            (good.replace('\n', "\r\n"), "control characters"),
            (good.replace("trusted comment: package", "trusted comment: \u{1b}[2J"), "control characters"),
            (good.replace("trusted comment: package", "trusted comment: \u{9b}2J"), "control characters"),
            (format!("{good}{}", " ".repeat(LARGEST_FILE)), "more than 4096 bytes"),
            (with(0, "comment"), "comments are missing"),
            (with(2, "untrusted comment: x"), "comments are missing"),
            (with(1, &lines[1][..96]), "cut off"),
            (with(1, &format!("{}A", &lines[1][..99])), "cut off"),
            (with(3, &unpadded), "cut off"),
            (with(1, &format!("RV{}", &lines[1][2..])), "not known"),
            (with(1, &format!("{}*{}", &lines[1][..50], &lines[1][51..])), "damaged"),
        ] {
            assert!(error(&text).contains(why), "{why}: {} for {text}", error(&text));
        }
        assert!(Signature::parse(&[0xff, 0xfe]).err().unwrap().to_string().contains("UTF-8"));
    }

    #[test]
    fn a_signature_is_a_small_file_of_the_package_or_it_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Signature::read(dir.path()).unwrap().is_none());
        let file = dir.path().join(SIGNATURE);
        std::fs::write(&file, FOREIGN).unwrap();
        assert!(Signature::read(dir.path()).unwrap().is_some());
        let elsewhere = dir.path().join("elsewhere");
        std::fs::rename(&file, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
        assert!(matches!(Signature::read(dir.path()), Err(SignatureError::Unreadable(_))));
        std::fs::remove_file(&file).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &file, FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert!(matches!(Signature::read(dir.path()), Err(SignatureError::Unreadable(_))));
    }

    #[test]
    fn a_secret_key_opens_with_its_password_only() {
        let password = SecretString::from("correct horse");
        let files = generate(Some(&password)).unwrap();
        let open = |password: Option<&str>| {
            let password = password.map(SecretString::from);
            SecretKey::parse(&files.secret, password.as_ref()).err()
        };
        assert!(matches!(open(None), Some(KeyError::Locked)));
        assert!(matches!(open(Some("wrong horse")), Some(KeyError::Password)));
        assert!(open(Some("correct horse")).is_none());
        assert!(matches!(PublicKey::parse(files.secret.expose_secret()), Err(KeyError::Secret)));
        let public = SecretString::from(files.public);
        assert!(matches!(SecretKey::parse(&public, None), Err(KeyError::NotSecret)));
    }

    #[test]
    fn what_is_no_public_key_is_refused() {
        for bad in [
            "",
            "x",
            "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO",
            "AAQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3",
            "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GF*3",
        ] {
            assert!(matches!(PublicKey::parse(bad), Err(KeyError::NotPublic)), "{bad}");
        }
        assert!(PublicKey::parse(&format!("untrusted comment: x\n{FOREIGN_KEY}\n")).is_ok());
    }

    #[test]
    fn no_changed_bit_of_a_signature_is_accepted_but_in_the_untrusted_comment() {
        let key = PublicKey::parse(FOREIGN_KEY).unwrap();
        let untrusted = FOREIGN.find('\n').unwrap();
        for (at, bit) in (untrusted..FOREIGN.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut text = FOREIGN.as_bytes().to_vec();
            text[at] ^= 1 << bit;
            let accepted = Signature::parse(&text).is_ok_and(|it| it.verify(b"test", &key).is_ok());
            assert!(!accepted, "bit {bit} of byte {at}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn any_text_is_read_without_a_panic(text in any::<Vec<u8>>(), line in "[A-Za-z0-9+/=]{100}", last in "[A-Za-z0-9+/]{86}==") {
            let _ = Signature::parse(&text);
            let _ = PublicKey::parse(&String::from_utf8_lossy(&text));
            let made = format!("untrusted comment: x\n{line}\ntrusted comment: y\n{last}\n");
            let key = PublicKey::parse(FOREIGN_KEY).unwrap();
            if let Ok(it) = Signature::parse(made.as_bytes()) {
                prop_assert!(it.verify(b"test", &key).is_err());
            }
        }
    }
}
