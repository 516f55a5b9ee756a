//! The local door of a gateway that runs: programs of the same user, and of root, may ask it which settings are in force.
//! `gantry doctor` does, so that it needs no settings of its own beside a service or a container.
//!
//! A Unix socket with an abstract name made of the port: there is no file to find or to clean up, the kernel says who
//! asks, and like the port it belongs to a network namespace. Secrets never go through it.

use std::{fs, io, net::SocketAddr, os::unix::fs::MetadataExt, path::Path, path::PathBuf, time::Duration};

use gantry_cli::doctor::Limits;
use gantry_settings::{Entry, Origin};
use rustix::process::getuid;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream},
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::engine_runtime;

/// Longest exchange. The other side is on this machine.
const PATIENCE: Duration = Duration::from_secs(2);
/// After a failed `accept`, as when all descriptors are taken.
const PAUSE: Duration = Duration::from_secs(1);
/// More than all settings together ever have, in bytes.
const LONGEST: u64 = 1 << 20;

/// A setting that was given to the gateway.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Given {
    pub(crate) name: String,
    /// As it was written; `None` for a secret.
    pub(crate) text: Option<String>,
}

/// What a gateway says of itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Told {
    pub(crate) pid: u32,
    pub(crate) version: String,
    /// Where it is reached.
    pub(crate) listen: SocketAddr,
    /// Absolute, as its own file system has it.
    pub(crate) data_dir: PathBuf,
    /// Device and inode of the lock file in it: whoever asks may see another file system.
    lock: (u64, u64),
    /// What relative paths among the settings are relative to.
    pub(crate) working_dir: PathBuf,
    /// `PATH`, where it looks for engines.
    pub(crate) path: String,
    /// `docker` or `process`.
    pub(crate) runtime: String,
    pub(crate) limits: Limits,
    /// Settings that are not their defaults.
    pub(crate) given: Vec<Given>,
}

impl Told {
    /// # Errors
    /// The lock file or the working directory is gone.
    pub(crate) fn new(
        entries: &[Entry],
        listen: SocketAddr,
        data_dir: &Path,
        runtime: &str,
    ) -> io::Result<Self> {
        let given = entries.iter().filter(|it| it.origin != Origin::Default);
        Ok(Self {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            listen,
            data_dir: data_dir.to_owned(),
            lock: lock_of(data_dir)?,
            working_dir: std::env::current_dir()?,
            path: engine_runtime::search_path(),
            runtime: runtime.to_owned(),
            limits: Limits::own(),
            given: given.map(|it| Given { name: it.name.clone(), text: it.text.clone() }).collect(),
        })
    }

    /// Whether its data directory is the one that this program sees under the same path.
    pub(crate) fn shares_files(&self) -> bool {
        lock_of(&self.data_dir).is_ok_and(|it| it == self.lock)
    }

    /// Whether a setting is in force whose value is not told.
    pub(crate) fn hides(&self, name: &str) -> bool {
        self.given.iter().any(|it| it.name == name && it.text.is_none())
    }
}

fn lock_of(data_dir: &Path) -> io::Result<(u64, u64)> {
    let meta = fs::metadata(data_dir.join("lock"))?;
    Ok((meta.dev(), meta.ino()))
}

/// A leading zero byte makes the name abstract (`unix(7)`).
fn name(port: u16) -> String {
    format!("\0gantry/{port}")
}

/// Answers until `stop`. Without a door everything else works: a name that is taken is no reason to end.
pub(crate) async fn serve(told: io::Result<Told>, stop: CancellationToken) {
    let open = told.and_then(|told| {
        let text = serde_json::to_vec(&told)?;
        Ok((UnixListener::bind(name(told.listen.port()))?, text))
    });
    let (listener, text) = match open {
        Ok(open) => open,
        Err(error) => {
            warn!(%error, "`gantry doctor` can't ask this gateway for its settings");
            return stop.cancelled().await;
        }
    };
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => return,
        };
        let Ok((mut stream, _)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        // What they may know they could also read in our files.
        if stream.peer_cred().is_ok_and(|it| it.uid() == 0 || it.uid() == getuid().as_raw()) {
            let _ = timeout(PATIENCE, stream.write_all(&text)).await;
        }
    }
}

/// What came of asking at a port of this machine.
#[derive(Debug)]
pub(crate) enum Answer {
    /// No gateway has a door there.
    Nobody,
    /// It is another user's, who has this id.
    Refused(u32),
    /// Also the id of its user.
    Told(Box<Told>, u32),
}

pub(crate) async fn ask(port: u16) -> Answer {
    let told = async {
        let stream = UnixStream::connect(name(port)).await?;
        let (uid, own) = (stream.peer_cred()?.uid(), getuid().as_raw());
        // Anybody may take the name. Whoever is neither this user nor root is believed by root only.
        if own != 0 && uid != own && uid != 0 {
            return Ok(Answer::Refused(uid));
        }
        let mut text = Vec::new();
        stream.take(LONGEST).read_to_end(&mut text).await?;
        let told = serde_json::from_slice(&text);
        Ok::<_, io::Error>(told.map_or(Answer::Refused(uid), |told| Answer::Told(Box::new(told), uid)))
    };
    timeout(PATIENCE, told).await.ok().and_then(Result::ok).unwrap_or(Answer::Nobody)
}

/// Ports of the gateways that run on this machine, as the kernel lists their doors (`proc_net(5)`).
pub(crate) fn ports() -> Vec<u16> {
    let sockets = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let port = |line: &str| line.rsplit_once(" @gantry/")?.1.trim().parse().ok();
    let mut ports: Vec<u16> = sockets.lines().filter_map(port).collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}
