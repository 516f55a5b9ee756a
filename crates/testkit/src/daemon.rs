//! A Docker engine that only one test uses.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use tempfile::TempDir;

use crate::{
    AirGap, PATIENCE, eventually,
    faults::{must, root_with, run},
    process::ends_within,
};

/// A Docker engine that only this test uses, in a network namespace of its own: what happens to it, and to the host's
/// packet filter, affects no other test. Gateways reach its containers from inside that namespace, see
/// [`Daemon::wrapper`].
pub struct Daemon {
    dir: TempDir,
    namespace: String,
    /// Whether the namespace was made for this engine.
    own_namespace: bool,
    live_restore: bool,
    child: Child,
}

impl Daemon {
    /// Starts the engine with the simulator's images, made from `program`. Returns `None`, and notes that the test was
    /// skipped, where it can't run.
    pub async fn start(program: &str, test: &str, live_restore: bool) -> Option<Self> {
        if !root_with(test, &["dockerd", "docker", "ip", "nsenter", "iptables"]) {
            return None;
        }
        // The path of a socket must be short, so the folder's name is.
        let dir = TempDir::with_prefix("gd").unwrap();
        let namespace = format!("gantry-test-{}-{live_restore}", std::process::id());
        must(&["ip", "netns", "add", &namespace]);
        must(&["ip", "-n", &namespace, "link", "set", "lo", "up"]);
        let child = spawn(&dir, &namespace, live_restore);
        let mut daemon = Self { dir, namespace, own_namespace: true, live_restore, child };
        daemon.answers().await;
        crate::docker::make_images(program, Some(&daemon.host()));
        Some(daemon)
    }

    /// Starts an engine without any image behind an air gap. Returns `None`, and notes that the test was skipped, where it
    /// can't run.
    pub async fn start_behind(gap: &AirGap, test: &str) -> Option<Self> {
        if !root_with(test, &["dockerd", "docker", "iptables"]) {
            return None;
        }
        let (dir, namespace) = (TempDir::with_prefix("gd").unwrap(), gap.namespace().to_owned());
        let child = spawn(&dir, &namespace, false);
        let mut daemon = Self { dir, namespace, own_namespace: false, live_restore: false, child };
        daemon.answers().await;
        Some(daemon)
    }

    /// Returns the address in the form of `DOCKER_HOST`.
    pub fn host(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// Returns the path of the engine's socket.
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("s")
    }

    /// Returns the words to start a gateway with, so that the ports of this engine's containers are on its loopback. A
    /// listening socket that the test hands to the gateway stays in the test's namespace.
    pub fn wrapper(&self) -> Vec<String> {
        vec!["nsenter".to_owned(), format!("--net=/run/netns/{}", self.namespace)]
    }

    /// Runs `docker …` on this engine; it must succeed.
    pub fn docker(&self, args: &[&str]) -> String {
        must(&[&["docker", "-H", &self.host()], args].concat())
    }

    /// Copies an image from the engine that all tests share.
    pub fn take(&self, image: &str) {
        must(&["sh", "-c", "docker save \"$1\" | docker -H \"$0\" load", &self.host(), image]);
    }

    /// Sends a signal to the engine, such as `STOP`.
    pub fn signal(&self, signal: &str) {
        must(&["kill", &format!("-{signal}"), &self.child.id().to_string()]);
    }

    /// Sends SIGKILL. Containers keep running.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends SIGTERM, as when the machine is shut down: the engine ends its containers first.
    pub fn terminate(&mut self) {
        self.signal("TERM");
        ends_within(&mut self.child, PATIENCE).expect("dockerd ends after SIGTERM");
    }

    /// Simulates a power cut: everything ends at once, and what is kept in memory is gone.
    pub fn power_cut(&mut self) {
        let pids = self.docker(&["ps", "-q"]);
        let containers = pids.lines().map(|it| self.docker(&["inspect", "--format", "{{.State.Pid}}", it]));
        let mut all: Vec<String> = containers.collect();
        self.kill();
        // The command lines of its containerd and shims contain its directory.
        let dir = self.path();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.parse::<u32>().is_ok() && String::from_utf8_lossy(&line).contains(&dir) {
                all.push(name);
            }
        }
        for pid in all {
            let _ = run(&["kill", "-KILL", &pid]);
        }
    }

    /// Starts the engine as after a reboot: the run directory is empty. Call it after [`Daemon::terminate`] or
    /// [`Daemon::power_cut`].
    pub async fn boot(&mut self) {
        let exec = self.dir.path().join("exec");
        Self::unmount(&exec);
        fs::remove_dir_all(&exec).unwrap();
        let _ = fs::remove_file(self.socket());
        self.restart().await;
    }

    /// Unmounts everything that is mounted below `dir`.
    fn unmount(dir: &Path) {
        let script = "grep -o \"$0[^ ]*\" /proc/mounts | sort -r | xargs -r umount -l";
        let _ = run(&["sh", "-c", script, &dir.display().to_string()]);
    }

    /// Starts the engine again after [`Daemon::kill`].
    pub async fn restart(&mut self) {
        let _ = fs::remove_file(self.dir.path().join("pid"));
        self.child = spawn(&self.dir, &self.namespace, self.live_restore);
        self.answers().await;
    }

    /// Waits until the engine answers. On a busy machine its containerd may miss its start timeout; then the engine is
    /// started again.
    async fn answers(&mut self) {
        let host = self.host();
        for attempt in 1.. {
            let up = eventually("dockerd answers", PATIENCE, async || {
                if run(&["docker", "-H", &host, "version"]).status.success() {
                    return Some(true);
                }
                self.child.try_wait().unwrap().map(|_| false)
            });
            if up.await {
                return;
            }
            let log = fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
            assert!(attempt < 3, "dockerd does not start:\n{log}");
            let _ = fs::remove_file(self.dir.path().join("pid"));
            self.child = spawn(&self.dir, &self.namespace, self.live_restore);
        }
    }
}

fn spawn(dir: &TempDir, namespace: &str, live_restore: bool) -> Child {
    let path = |name: &str| dir.path().join(name).display().to_string();
    let log = fs::OpenOptions::new().create(true).append(true).open(path("log")).unwrap();
    let mut dockerd = Command::new("nsenter");
    dockerd.arg(format!("--net=/run/netns/{namespace}")).arg("dockerd");
    dockerd.args(["--bip", "10.213.7.1/24", "--log-level", "warn", "--shutdown-timeout", "2"]);
    dockerd.args(["-H", &format!("unix://{}", path("s")), "--data-root", &path("data")]);
    dockerd.args(["--exec-root", &path("exec"), "--pidfile", &path("pid")]);
    if live_restore {
        dockerd.arg("--live-restore");
    }
    dockerd.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
            eprintln!("--- log of dockerd ---\n{log}");
        }
        let _ = run(&["kill", "-CONT", &self.child.id().to_string()]);
        // With live-restore the containers would outlive the engine.
        let script = "timeout 20 docker -H \"$0\" ps -aq | xargs -r timeout 20 docker -H \"$0\" rm -f";
        let _ = run(&["sh", "-c", script, &self.host()]);
        let _ = run(&["kill", "-TERM", &self.child.id().to_string()]);
        if ends_within(&mut self.child, PATIENCE).is_none() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
        // A daemon that was killed leaves its containerd behind.
        if let Ok(pid) = fs::read_to_string(self.dir.path().join("exec/containerd/containerd.pid")) {
            let _ = run(&["kill", "-KILL", pid.trim()]);
        }
        Self::unmount(self.dir.path());
        if self.own_namespace {
            let _ = run(&["ip", "netns", "delete", &self.namespace]);
        }
    }
}

impl Daemon {
    fn path(&self) -> String {
        self.dir.path().display().to_string()
    }
}
