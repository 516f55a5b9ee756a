//! What Docker's errors mean, and how much of their text may be shown.

use std::{error::Error as StdError, io, path::Path};

use bollard::errors::Error;
use secrecy::{ExposeSecret, SecretString};

use crate::RuntimeError;

/// Longest message of the engine that is passed on, in characters.
const MAX_DETAIL: usize = 300;

/// Refusals that another attempt may get around.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Retry {
    /// The random host port was taken by the time the container started.
    AnotherPort,
    /// The engine may not raise the limit on locked memory (rootless engines).
    WithoutMemlock,
    /// The network that existed a moment before was removed, or there are two of its name now.
    AnotherNetwork,
}

impl Retry {
    pub(super) fn from_text(text: &str) -> Option<Self> {
        let clash = ["port is already allocated", "address already in use", "failed to set up port"];
        if text.contains("error setting rlimit") || text.contains("setting rlimits") {
            return Some(Self::WithoutMemlock);
        }
        if text.contains("network ") && (text.contains("not found") || text.contains("is ambiguous")) {
            return Some(Self::AnotherNetwork);
        }
        clash.iter().any(|it| text.contains(it)).then_some(Self::AnotherPort)
    }
}

/// Returns the HTTP status, if the engine answered at all.
pub(super) fn status(error: &Error) -> Option<u16> {
    match error {
        Error::DockerResponseServerError { status_code, .. } => Some(*status_code),
        _ => None,
    }
}

/// Returns the engine's own message.
pub(super) fn message(error: &Error) -> &str {
    match error {
        Error::DockerResponseServerError { message, .. } => message,
        Error::DockerStreamError { error } => error,
        _ => "",
    }
}

/// Translates an error; `host` is the engine's address.
pub(super) fn meaning(action: &'static str, host: &str, error: &Error) -> RuntimeError {
    match error {
        Error::DockerResponseServerError { message, .. } | Error::DockerStreamError { error: message } => {
            refusal(action, message)
        }
        Error::RequestTimeoutError => RuntimeError::Timeout { action },
        Error::SocketNotFoundError(_) => {
            RuntimeError::Unreachable { detail: format!("there is no socket at `{host}`") }
        }
        // Nothing is shown of an answer that can't be read: it may hold the environment of a container.
        Error::JsonDataError { .. } | Error::JsonSerdeError { .. } | Error::APIVersionParseError {} => {
            RuntimeError::Refused { action, detail: "its answer could not be read".to_owned() }
        }
        other => unreachable(host, other),
    }
}

fn refusal(action: &'static str, message: &str) -> RuntimeError {
    let detail = one_line(message);
    if message.contains("could not select device driver") || message.contains("nvidia-container-cli") {
        return RuntimeError::GpuUnavailable { detail };
    }
    RuntimeError::Refused { action, detail }
}

fn unreachable(host: &str, error: &Error) -> RuntimeError {
    let cause = io_kind(error);
    let detail = match cause {
        Some(io::ErrorKind::PermissionDenied) => {
            return RuntimeError::PermissionDenied {
                detail: format!(
                    "the gateway's user may not use `{host}`; add it to the group `docker`, or set `DOCKER_HOST` to a rootless engine"
                ),
            };
        }
        Some(io::ErrorKind::NotFound) => format!("there is no socket at `{host}`"),
        Some(io::ErrorKind::ConnectionRefused) => format!("nothing listens at `{host}`"),
        _ => format!("the connection to `{host}` failed or broke off"),
    };
    RuntimeError::Unreachable { detail }
}

/// Returns the first input/output error in the chain of causes.
fn io_kind(error: &Error) -> Option<io::ErrorKind> {
    let mut next: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Some(error.kind());
        }
        next = match error.downcast_ref::<Error>() {
            // These are transparent or have no source: step inside by hand.
            Some(Error::IOError { err }) => return Some(err.kind()),
            Some(Error::HyperLegacyError { err }) => Some(err),
            Some(Error::HyperResponseError { err }) => Some(err),
            _ => error.source(),
        };
    }
    None
}

/// Returns a message on one line of bounded length, without the paths of the host that engines like to name.
pub(super) fn one_line(message: &str) -> String {
    let line: Vec<&str> =
        message.split_whitespace().map(|it| if is_host_path(it) { "…" } else { it }).collect();
    let line = line.join(" ");
    match line.char_indices().nth(MAX_DETAIL) {
        Some(_) => line.chars().take(MAX_DETAIL - 1).chain(['…']).collect(),
        None => line,
    }
}

/// Whether a word looks like a path of the host or of the engine's own store. Paths in images (`/app/llama-server`) are
/// what makes a message useful, so they are kept.
fn is_host_path(word: &str) -> bool {
    let word = word.trim_start_matches(|it: char| !it.is_alphanumeric() && it != '/');
    let roots = ["/var/", "/run/", "/home/", "/root/", "/tmp/", "/host_mnt/"];
    let stores = ["/overlay2/", "/containerd/", "/containers/"];
    roots.iter().any(|it| word.starts_with(it))
        || (word.contains('/') && stores.iter().any(|it| word.contains(it)))
}

/// Private parts of messages that only the caller of a launch knows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Private<'a> {
    pub(super) secrets: &'a [(String, SecretString)],
    /// Directories of the host, with the words that stand for them.
    pub(super) dirs: [(&'a Path, &'static str); 2],
}

impl Private<'_> {
    /// Removes them from the engine's message. This comes before the message is shortened: half a secret is a secret
    /// too.
    pub(super) fn redact(&self, error: Error) -> Error {
        match error {
            Error::DockerResponseServerError { status_code, message } => {
                Error::DockerResponseServerError { status_code, message: self.clean(message) }
            }
            Error::DockerStreamError { error } => Error::DockerStreamError { error: self.clean(error) },
            other => other,
        }
    }

    fn clean(&self, mut message: String) -> String {
        // Shorter values ("1", "on") are switches; hiding them would garble the message.
        for (_, secret) in self.secrets.iter().filter(|(_, it)| it.expose_secret().len() > 4) {
            message = message.replace(secret.expose_secret(), "***");
        }
        for (dir, role) in self.dirs.iter().filter(|(dir, _)| dir.components().count() > 1) {
            message = message.replace(&*dir.to_string_lossy(), role);
        }
        message
    }
}

#[cfg(test)]
mod tests;
