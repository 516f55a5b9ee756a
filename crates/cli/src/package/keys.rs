//! `package key` and `package sign`.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use clap::{ArgMatches, Command};
use gantry_package::{
    manifest::SIGNATURE,
    sign::{self, KeyError, LARGEST_FILE, PublicKey, SecretKey},
};
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;

use super::{dir, json, open};
use crate::{
    exit::{Failure, Outcome},
    options::{flag, has, option, text},
    output::Out,
    terminal,
    text::clean,
};

/// Name of the secret key's file if only a folder was given.
const KEY_FILE: &str = "package.key";
const PASSWORD_FILE: &str = "password-file";

pub(super) fn key_command() -> Command {
    Command::new("key")
        .about("Makes a key pair to sign packages with")
        .args([
            option("out", "PATH", "File for the secret key, or a folder: then it is package.key there; the public key gets \
                the ending .pub")
            .required(true),
            option(PASSWORD_FILE, "FILE", "Reads the password of the secret key from this file"),
            flag("no-password", "The secret key has no password: anyone who can read the file can sign")
                .conflicts_with(PASSWORD_FILE),
            json(),
        ])
        .after_help(
            "The keys are those of minisign. A file that is there already is never overwritten. Without --password-file and \
             --no-password you are asked for a password at the terminal. Keep the secret key apart from the packages; the \
             public key goes to those who verify them, by a way that they trust.",
        )
}

pub(super) fn sign_command() -> Command {
    Command::new("sign")
        .about("Signs a package, so that others can verify who made it")
        .args([
            dir(),
            option("key", "FILE", "The secret key").required(true),
            option(PASSWORD_FILE, "FILE", "Reads the password of the secret key from this file"),
            json(),
        ])
        .after_help(
            "What is signed is the manifest, which has the SHA-256 of every file; `minisign -V -p KEY.pub -m manifest.json` \
             verifies it too. An earlier signature is replaced.",
        )
}

pub(super) fn key(matches: &ArgMatches, out: &Out) -> Outcome<()> {
    let given = PathBuf::from(text(matches, "out").unwrap_or_default());
    let secret_file = if given.is_dir() { given.join(KEY_FILE) } else { given };
    let mut public_file = secret_file.clone().into_os_string();
    public_file.push(".pub");
    let public_file = PathBuf::from(public_file);
    // Checked before somebody thinks of a password.
    for file in [&secret_file, &public_file] {
        if file.symlink_metadata().is_ok() {
            return Err(Failure::Failed(format!("{} is there already; no key was made", file.display())));
        }
    }
    let password = match text(matches, PASSWORD_FILE) {
        Some(file) => Some(password_from(file)?),
        None if has(matches, "no-password") => None,
        None => Some(new_password()?),
    };
    let files = sign::generate(password.as_ref()).map_err(|error| Failure::Failed(error.to_string()))?;
    make(&secret_file, files.secret.expose_secret(), 0o600)?;
    make(&public_file, &files.public, 0o644).inspect_err(|_| drop(fs::remove_file(&secret_file)))?;
    let id = files.id.to_string();
    let public = files.public.lines().nth(1).unwrap_or_default();
    let (secret_file, public_file) = (secret_file.display().to_string(), public_file.display().to_string());
    let value = json!({
        "key_id": id, "public_key": public, "public_key_file": public_file, "secret_key_file": secret_file,
    });
    out.either(&value, || {
        out.pairs(&[
            ("key", id.clone()),
            ("secret key", secret_file.clone()),
            ("public key", public_file.clone()),
            ("", public.to_owned()),
        ])
    })
}

pub(super) fn sign(matches: &ArgMatches, out: &Out) -> Outcome<()> {
    let package = open(text(matches, "DIR").unwrap_or_default(), &[])?;
    let file = text(matches, "key").unwrap_or_default();
    let key = secret_key(file, text(matches, PASSWORD_FILE))?;
    let at = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let id = &package.manifest().id;
    let failed = |error: &dyn std::fmt::Display| Failure::Failed(format!("can't sign: {error}"));
    let manifest = package.manifest_text().map_err(|error| failed(&error))?;
    let signature = sign::sign(&manifest[..], id, &at, &key).map_err(|error| failed(&error))?;
    let file = package.dir().join(SIGNATURE);
    replace(package.dir(), &file, &signature)
        .map_err(|error| Failure::Failed(format!("can't write {}: {error}", file.display())))?;
    let value = json!({ "package": id, "key_id": key.id().to_string(), "signed_at": at });
    out.either(&value, || out.line(&format!("signed: package {}, by {}", clean(id), key.id())))
}

/// Reads a public key: the option's text itself, or the file of that name.
pub(super) fn public_key(given: &str) -> Outcome<PublicKey> {
    if let Ok(key) = PublicKey::parse(given) {
        return Ok(key);
    }
    let text = small_file(given, "the public key")?;
    PublicKey::parse(text.expose_secret())
        .map_err(|error| Failure::Usage(format!("{} can't be used for --key: {error}", clean(given))))
}

fn secret_key(file: &str, password_file: Option<&str>) -> Outcome<SecretKey> {
    let sealed = small_file(file, "the secret key")?;
    let refused = |error| match error {
        KeyError::Password => Failure::Failed(format!("can't open {}: {error}", clean(file))),
        _ => Failure::Usage(format!("{} can't be used for --key: {error}", clean(file))),
    };
    match SecretKey::parse(&sealed, None) {
        Err(KeyError::Locked) => {
            let password = match password_file {
                Some(file) => password_from(file)?,
                None => ask(&format!("Password of {}: ", clean(file)), "give --password-file FILE")?,
            };
            SecretKey::parse(&sealed, Some(&password)).map_err(refused)
        }
        other => other.map_err(refused),
    }
}

/// Reads a file of a key or a password. It is kept secret, since it may be a secret key by mistake.
fn small_file(file: &str, what: &str) -> Outcome<SecretString> {
    let wrong = |why: &dyn std::fmt::Display| {
        Failure::Usage(format!("can't read {what} from {}: {why}", clean(file)))
    };
    let mut text = String::new();
    let opened = File::open(file).map_err(|error| wrong(&error))?;
    opened.take(LARGEST_FILE as u64 + 1).read_to_string(&mut text).map_err(|error| wrong(&error))?;
    if text.len() > LARGEST_FILE {
        return Err(wrong(&format!("it has more than {LARGEST_FILE} bytes")));
    }
    Ok(text.into())
}

fn password_from(file: &str) -> Outcome<SecretString> {
    let text = small_file(file, "the password")?;
    not_empty(text.expose_secret().trim_end_matches(['\r', '\n']).to_owned().into())
}

fn new_password() -> Outcome<SecretString> {
    let otherwise = "give --password-file FILE or --no-password";
    let first = not_empty(ask("Password of the new key: ", otherwise)?)?;
    if ask("The same once more: ", otherwise)?.expose_secret() != first.expose_secret() {
        return Err(Failure::Usage("the two passwords differ: no key was made".to_owned()));
    }
    Ok(first)
}

fn not_empty(password: SecretString) -> Outcome<SecretString> {
    if password.expose_secret().is_empty() {
        return Err(Failure::Usage(
            "the password is empty; --no-password makes a key without one".to_owned(),
        ));
    }
    Ok(password)
}

/// Asks for a password. Without a terminal, the error says what to do `otherwise`.
fn ask(prompt: &str, otherwise: &str) -> Outcome<SecretString> {
    if File::open("/dev/tty").is_err() {
        return Err(Failure::Usage(format!("there is no terminal to ask for the password: {otherwise}")));
    }
    terminal::ask_password(prompt)
}

/// Makes a file that must not be there yet.
fn make(path: &Path, text: &str, mode: u32) -> Outcome<()> {
    let done = OpenOptions::new().write(true).create_new(true).mode(mode).open(path).and_then(|mut file| {
        file.write_all(text.as_bytes())
            .and_then(|()| file.sync_all())
            .inspect_err(|_| drop(fs::remove_file(path)))
    });
    done.map_err(|error| Failure::Failed(format!("can't write {}: {error}", path.display())))
}

/// Writes a file of the folder so that it is the old one or the new one at any moment.
fn replace(dir: &Path, path: &Path, text: &str) -> io::Result<()> {
    let part = dir.join(format!("{SIGNATURE}.part"));
    // A crash may have left it. A link is removed, and not followed.
    match fs::remove_file(&part) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&part)?;
    file.write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&part, path))
        .inspect_err(|_| drop(fs::remove_file(&part)))?;
    File::open(dir)?.sync_all()
}
