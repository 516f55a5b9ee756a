//! Secrets that the gateway makes for itself once: files of mode 0600 in `DATA_DIR/secrets`.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{ErrorKind, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::Path,
};

use anyhow::Context;
use rand::Rng;
use secrecy::{ExposeSecret, SecretString};

/// Returns 256 random bits in hexadecimal.
pub(crate) fn random() -> SecretString {
    let mut bytes = [0_u8; 32];
    rand::rng().fill_bytes(&mut bytes);
    let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect::<String>().into()
}

/// Makes a directory that only this user can enter.
pub(crate) fn private_dir(path: &Path) -> anyhow::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .with_context(|| format!("can't create the folder {}", path.display()))
}

/// Returns the secret `name`: the value of the setting, else the file in `dir`, else a new secret, which is stored
/// there.
pub(crate) fn load_or_make(
    dir: &Path,
    name: &str,
    given: Option<&SecretString>,
) -> anyhow::Result<SecretString> {
    if let Some(secret) = given {
        return Ok(secret.clone());
    }
    private_dir(dir)?;
    let path = dir.join(name);
    let said = || format!("can't use the secret file {}", path.display());
    // A crash can leave an empty file; complete files only appear by the rename.
    match fs::read_to_string(&path) {
        Ok(text) if text.trim().len() >= 16 => return Ok(text.trim().to_owned().into()),
        Ok(_) => {
            anyhow::bail!("the secret file {} is damaged; remove it to get a new secret", path.display())
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(said),
    }
    let secret = random();
    replace(dir, name, &secret)?;
    Ok(secret)
}

/// Replaces the secret in its file. A crash leaves either the old secret or the new one.
pub(crate) fn replace(dir: &Path, name: &str, secret: &SecretString) -> anyhow::Result<()> {
    let path = dir.join(name);
    let said = || format!("can't use the secret file {}", path.display());
    let part = dir.join(format!("{name}.part"));
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&part)
        .with_context(said)?;
    file.write_all(secret.expose_secret().as_bytes()).and_then(|()| file.sync_all()).with_context(said)?;
    fs::rename(&part, &path).with_context(said)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_secret_is_made_once_and_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("secrets");
        let first = load_or_make(&dir, "session", None).unwrap();
        let again = load_or_make(&dir, "session", None).unwrap();
        assert_eq!(first.expose_secret(), again.expose_secret());
        assert_eq!(first.expose_secret().len(), 64);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&dir.join("session")), mode(&dir)), (0o600, 0o700));
        let given = load_or_make(&dir, "session", Some(&"from the operator".into())).unwrap();
        assert_eq!(given.expose_secret(), "from the operator");
        fs::write(dir.join("session"), "").unwrap();
        assert!(load_or_make(&dir, "session", None).unwrap_err().to_string().contains("damaged"));
    }
}
