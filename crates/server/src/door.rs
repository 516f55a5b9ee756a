//! The local door of a running gateway: programs of the same user, and of root, may ask it which settings are in
//! force. `gantry doctor` does so, and therefore needs no settings of its own beside a service or a container.
//!
//! The door is a Unix socket with an abstract name that contains the port. There is no file to find or to clean up,
//! the kernel says which user asks, and like the port it belongs to a network namespace. Secrets never go through it.

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

use gantry_cli::doctor::Limits;
use gantry_connect::sockets;
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

/// Longest time for one exchange. The other side is on this machine, whose CPUs may be busy.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest wait of a program that asks, which has to say soon that a gateway hangs.
const ASKED: Duration = Duration::from_secs(3);
/// Pause after a failed `accept`, for example when all file descriptors are in use.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest answer that is read, in bytes: more than all settings together ever have.
const LONGEST: u64 = 1 << 20;

/// A setting that was given to the gateway.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Given {
    pub(crate) name: String,
    /// The value as it was written; `None` for a secret.
    pub(crate) text: Option<String>,
}

/// What a gateway reports about itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Told {
    pub(crate) pid: u32,
    pub(crate) version: String,
    /// Address at which the gateway listens.
    pub(crate) listen: SocketAddr,
    /// Absolute path of the data directory, in the gateway's own file system.
    pub(crate) data_dir: PathBuf,
    /// Device and inode of the lock file in the data directory. They show whether the program that asks sees the same
    /// file system.
    lock: (u64, u64),
    /// Directory at which relative paths in the settings start.
    pub(crate) working_dir: PathBuf,
    /// The gateway's `PATH`, in which it looks for engines.
    pub(crate) path: String,
    /// `docker` or `process`.
    pub(crate) runtime: String,
    pub(crate) limits: Limits,
    /// Settings that differ from their defaults.
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

    /// Returns whether the gateway's data directory is the one that this program sees under the same path.
    pub(crate) fn shares_files(&self) -> bool {
        lock_of(&self.data_dir).is_ok_and(|it| it == self.lock)
    }

    /// Returns whether the gateway has this setting but does not reveal its value.
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

/// A door that programs find, and what it tells them.
pub(crate) struct Door {
    listener: UnixListener,
    text: Vec<u8>,
}

/// Opens the door, before anybody can know that the gateway runs. A socket name that is already taken does not stop the
/// gateway, because everything else works without a door.
pub(crate) fn open(told: io::Result<Told>) -> Option<Door> {
    let open = told.and_then(|told| {
        let text = serde_json::to_vec(&told)?;
        Ok(Door { listener: UnixListener::bind(name(told.listen.port()))?, text })
    });
    open.inspect_err(|error| warn!(%error, "`gantry doctor` can't ask this gateway for its settings")).ok()
}

/// Answers until `stop`.
pub(crate) async fn serve(door: Option<Door>, stop: CancellationToken) {
    let Some(Door { listener, text }) = door else { return stop.cancelled().await };
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => return,
        };
        let Ok((mut stream, _)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        // Only the gateway's own user and root get an answer; they could read the same facts in the gateway's files.
        if stream.peer_cred().is_ok_and(|it| it.uid() == 0 || it.uid() == getuid().as_raw()) {
            let _ = timeout(PATIENCE, stream.write_all(&text)).await;
        }
    }
}

/// Result of asking for a gateway at a port of this machine.
#[derive(Debug)]
pub(crate) enum Answer {
    /// No gateway has a door there.
    Nobody,
    /// The door belongs to another user, with this id, whom this program does not believe.
    Refused(u32),
    /// The gateway's report, and the id of the user that it runs as.
    Told(Box<Told>, u32),
}

/// Asks the gateway at a port of this machine. `data_dir` is the one in the settings of the program that asks.
pub(crate) async fn ask(port: u16, data_dir: &Path) -> Answer {
    let told = async {
        let stream = UnixStream::connect(name(port)).await?;
        let (uid, own) = (stream.peer_cred()?.uid(), getuid().as_raw());
        // Any local user can bind the name.
        let is_believed = uid == own || uid == 0 || (own == 0 && serves(uid, port, data_dir));
        if !is_believed {
            return Ok(Answer::Refused(uid));
        }
        let mut text = Vec::new();
        stream.take(LONGEST).read_to_end(&mut text).await?;
        let told = serde_json::from_slice(&text);
        Ok::<_, io::Error>(told.map_or(Answer::Refused(uid), |told| Answer::Told(Box::new(told), uid)))
    };
    timeout(ASKED, told).await.ok().and_then(Result::ok).unwrap_or(Answer::Nobody)
}

/// Returns whether root takes a user's door for that of a gateway: if the user owns what listens at the port, or the data
/// directory in root's own settings. The port alone is not enough to ask for, since systemd may have opened it.
fn serves(uid: u32, port: u16, data_dir: &Path) -> bool {
    let listens =
        |ip: IpAddr| sockets::owner(SocketAddr::new(ip, port), None).is_ok_and(|it| it == Some(uid));
    listens(Ipv4Addr::LOCALHOST.into())
        || listens(Ipv6Addr::LOCALHOST.into())
        || fs::metadata(data_dir).is_ok_and(|it| it.uid() == uid)
}

/// Returns the ports of the gateways that run on this machine, from the kernel's list of Unix sockets (`proc_net(5)`).
pub(crate) fn ports() -> Vec<u16> {
    let sockets = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let port = |line: &str| line.rsplit_once(" @gantry/")?.1.trim().parse().ok();
    let mut ports: Vec<u16> = sockets.lines().filter_map(port).collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}
