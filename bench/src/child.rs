//! Child processes of a comparison: binds them to their cores, writes their output to files, and ends them with the
//! comparison.

use std::{
    ffi::OsStr,
    fs::{self, File},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

/// The core of the proxy under test. Nothing else of the comparison runs there.
pub(crate) const PROXY_CORE: usize = 1;
/// The core of the mock engine and the load generator.
pub(crate) const LOAD_CORE: usize = 0;

/// Folders in which programs are looked for. The environment of the caller is not passed on: a `DATABASE_URL` set there
/// would make the benchmark write into that database.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Real-time priority of all parties if requested; any value keeps other programs away.
const PRIORITY: &str = "10";

/// Valgrind is slow.
const STOP_WITHIN: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(5);

/// Whether children are bound to a core and run before all other programs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placement {
    pub(crate) is_pinned: bool,
    pub(crate) is_realtime: bool,
}

impl Placement {
    /// Finds out what this machine allows, and puts this process (the load generator) on its core.
    ///
    /// Returns notes about what the machine does not allow.
    pub(crate) fn take(wants_realtime: bool) -> (Self, Vec<String>) {
        let pid = std::process::id().to_string();
        let mut notes = Vec::new();
        let core = LOAD_CORE.to_string();
        let is_pinned = succeeds("taskset", ["-c", &PROXY_CORE.to_string(), "true"])
            && succeeds("taskset", ["-a", "-c", "-p", &core, &pid]);
        if !is_pinned {
            notes.push("not pinned: `taskset` is missing or there is one core; figures vary more".to_owned());
        }
        let is_realtime = wants_realtime && succeeds("chrt", ["-a", "-f", "-p", PRIORITY, &pid]);
        if wants_realtime && !is_realtime {
            notes.push("not real-time: `chrt` is missing or not allowed".to_owned());
        }
        (Self { is_pinned, is_realtime }, notes)
    }

    /// Returns a command for `program` on `core`. The wrappers replace themselves, so the child's id is the program's.
    pub(crate) fn command(self, core: usize, program: &Path) -> Command {
        let mut words: Vec<String> = Vec::new();
        if self.is_realtime {
            words.extend(["chrt", "-f", PRIORITY].map(str::to_owned));
        }
        if self.is_pinned {
            words.extend(["taskset".to_owned(), "-c".to_owned(), core.to_string()]);
        }
        let mut words = words.into_iter();
        let mut command = match words.next() {
            Some(first) => {
                let mut command = Command::new(first);
                command.args(words).arg(program);
                command
            }
            None => Command::new(program),
        };
        command.env_clear().env("PATH", PATH).stdin(Stdio::null());
        command
    }
}

fn succeeds<const N: usize>(program: &str, args: [&str; N]) -> bool {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|it| it.success())
}

/// A running child; stopped when dropped.
pub(crate) struct Running {
    name: &'static str,
    child: Child,
    log: PathBuf,
    is_reaped: bool,
}

impl Running {
    /// Starts `command` with its output appended to `<name>.log` in `dir`.
    pub(crate) fn start(name: &'static str, command: &mut Command, dir: &Path) -> Result<Self> {
        let log = dir.join(format!("{name}.log"));
        let output = File::options().create(true).append(true).open(&log)?;
        command.stdout(output.try_clone()?).stderr(output);
        let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        Ok(Self { name, child, log, is_reaped: false })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns an error with the end of the child's log if the child has ended.
    pub(crate) fn check(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            self.is_reaped = true;
            bail!("{} ended early ({status}); its log ends with:\n{}", self.name, self.log_end());
        }
        Ok(())
    }

    /// The file of what the child writes.
    pub(crate) fn log_path(&self) -> PathBuf {
        self.log.clone()
    }

    /// Returns the last lines that the child wrote.
    pub(crate) fn log_end(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }

    /// Sends SIGTERM to the child and waits. Kills it if it does not end, which is an error.
    pub(crate) fn stop(mut self) -> Result<()> {
        if self.end().is_none() {
            bail!("{} did not end within {STOP_WITHIN:?} after SIGTERM", self.name);
        }
        Ok(())
    }

    fn end(&mut self) -> Option<ExitStatus> {
        if self.is_reaped {
            return None;
        }
        // The standard library only knows SIGKILL, which would leave nginx's worker behind.
        succeeds("sh", ["-c", "kill -TERM \"$0\"", &self.pid().to_string()]);
        let deadline = Instant::now() + STOP_WITHIN;
        let status = loop {
            match self.child.try_wait() {
                Ok(None) if Instant::now() < deadline => sleep(POLL),
                Ok(status) => break status,
                Err(_) => break None,
            }
        };
        if status.is_none() {
            self.child.kill().ok();
            self.child.wait().ok();
        }
        self.is_reaped = true;
        status
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns loopback addresses that are free now, all different. Another program may take one before it is used.
pub(crate) fn free_addresses<const N: usize>() -> Result<[SocketAddr; N]> {
    let bind = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let listeners: Vec<TcpListener> = (0..N).map(bind).collect::<Result<_, _>>().context("no free port")?;
    let mut addresses = [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)); N];
    for (address, listener) in addresses.iter_mut().zip(&listeners) {
        *address = listener.local_addr()?;
    }
    Ok(addresses)
}

/// Returns the version that `program` prints, on either stream; `unknown` if it does not run.
pub(crate) fn version(program: impl AsRef<OsStr>, arg: &str) -> String {
    let Ok(output) = Command::new(program).arg(arg).stdin(Stdio::null()).output() else {
        return "unknown".to_owned();
    };
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&text).lines().next().unwrap_or("unknown").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: Placement = Placement { is_pinned: false, is_realtime: false };

    #[test]
    fn a_child_ends_when_told_and_its_early_end_is_explained() {
        let dir = tempfile::tempdir().unwrap();
        let mut command = FREE.command(LOAD_CORE, Path::new("sleep"));
        let mut running = Running::start("sleeper", command.arg("60"), dir.path()).unwrap();
        running.check().unwrap();
        running.stop().unwrap();

        let mut command = FREE.command(LOAD_CORE, Path::new("sh"));
        let mut running =
            Running::start("failing", command.args(["-c", "echo no luck; exit 3"]), dir.path()).unwrap();
        let told = (0..1000).find_map(|_| {
            sleep(POLL);
            running.check().err()
        });
        let told = told.unwrap().to_string();
        assert!(told.contains("exit status: 3") && told.contains("no luck"), "{told}");
    }

    #[test]
    fn free_addresses_differ() {
        let [a, b] = free_addresses().unwrap();
        assert_ne!(a, b);
    }
}
