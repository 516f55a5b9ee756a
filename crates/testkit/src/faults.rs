//! Parts of the machine that faults are injected into: a Postgres of its own, a disk that is full.
//! All of them need root, so everything here can skip a test.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::Instant,
};

use tempfile::TempDir;

use crate::{PATIENCE, PORTS, free_port, skip};

pub(crate) fn run(words: &[&str]) -> Output {
    Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output().expect(words[0])
}

/// Runs the command and returns its output; fails the test if the command fails.
pub(crate) fn must(words: &[&str]) -> String {
    let output = run(words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Returns whether this is root and `programs` are installed; skips `test` otherwise.
pub fn root_with(test: &str, programs: &[&str]) -> bool {
    let uid = must(&["id", "-u"]);
    if uid != "0" {
        return skip(test, "it takes root");
    }
    let missing = programs.iter().find(|it| {
        let found = Command::new("sh").args(["-c", "command -v \"$0\"", it]).output();
        !found.is_ok_and(|it| it.status.success())
    });
    missing.is_none_or(|it| skip(test, &format!("there is no `{it}`")))
}

/// Returns the words to start a program with, so that Docker's usual socket is this one, or none, whatever this machine has at
/// `/var/run/docker.sock`. All else below `/run` is hidden. `at` is a file that the words may make. Needs root: see
/// [`root_with`], with `unshare`.
pub fn docker_at_its_place(socket: Option<&Path>, at: &Path) -> Vec<String> {
    let script = "set -e; if [ -n \"$1\" ]; then : >\"$0\"; mount --bind \"$1\" \"$0\"; fi; mount -t tmpfs tmpfs /run; \
                  if [ -n \"$1\" ]; then ln -s \"$0\" /run/docker.sock; fi; shift; exec \"$@\"";
    let socket = socket.map(|it| it.display().to_string()).unwrap_or_default();
    let words = ["unshare", "--mount", "sh", "-c", script, &at.display().to_string(), &socket];
    words.map(str::to_owned).to_vec()
}

/// A Postgres server that only this test uses.
pub struct Postgres {
    dir: TempDir,
    bin: PathBuf,
    port: u16,
    /// The words that its programs are started with.
    wrapper: Vec<String>,
}

impl Postgres {
    /// Starts the server. Returns `None`, and notes that the test was skipped, where it can't run.
    pub fn start(test: &str) -> Option<Self> {
        Self::start_with(Vec::new(), test)
    }

    /// Starts the server with these words before its programs, such as those of [`crate::AirGap::wrapper`]: only what is behind
    /// that gap too reaches it.
    pub fn start_with(wrapper: Vec<String>, test: &str) -> Option<Self> {
        if !root_with(test, &["runuser"]) {
            return None;
        }
        let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let bin = versions.map(|it| it.path().join("bin")).find(|it| it.join("initdb").is_file());
        let Some(bin) = bin else {
            skip(test, "there is no `initdb`");
            return None;
        };
        let dir = TempDir::new().unwrap();
        must(&["chown", "postgres", &dir.path().display().to_string()]);
        let mut it = Self { dir, bin, port: free_port(), wrapper };
        it.command("initdb", &["-U", "postgres", "-A", "trust", "--no-sync"]);
        // Another program may take its port before it does.
        let (mut ports, begun) = (1, Instant::now());
        while !it.comes_up() {
            let log = fs::read_to_string(it.dir.path().join("log")).unwrap_or_default();
            assert!(
                ports < PORTS && begun.elapsed() < PATIENCE,
                "Postgres comes up on none of {ports} ports: {log}"
            );
            (it.port, ports) = (free_port(), ports + 1);
        }
        Some(it)
    }

    /// Returns the server's address, for `DATABASE_URL`.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Returns the server's address on loopback.
    pub fn addr(&self) -> std::net::SocketAddr {
        std::net::SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// Runs statements as the superuser, each by itself in one session; returns what they printed.
    pub fn sql(&self, statements: &str) -> String {
        let script = "printf %s \"$1\" | psql \"$0\" -XAtq -v ON_ERROR_STOP=1";
        must(&["sh", "-c", script, &self.url(), statements])
    }

    /// Locks every table until the returned value is dropped, so that no other connection can even read.
    pub fn lock_all(&self) -> impl Drop {
        let tables =
            self.sql("SELECT string_agg(tablename, ', ') FROM pg_tables WHERE schemaname = 'public'");
        self.lock(&tables)
    }

    /// Locks these tables in the same way.
    pub fn lock(&self, tables: &str) -> impl Drop + use<> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut psql = Command::new("psql");
            psql.args([&self.url(), "-XAtq", "-v", "ON_ERROR_STOP=1"]).stderr(Stdio::null());
            let mut locks = Locks(psql.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
            // It gives up long before Postgres looks for a deadlock with a transaction that has locked one of the
            // tables.
            let text = format!(
                "SET lock_timeout = '200ms'; BEGIN; LOCK TABLE {tables} IN ACCESS EXCLUSIVE MODE; SELECT 'locked';\n"
            );
            locks.0.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
            let mut said = String::new();
            BufReader::new(locks.0.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
            if said.trim() == "locked" {
                return locks;
            }
            assert!(Instant::now() < deadline, "somebody keeps {tables}");
        }
    }

    /// Returns how many connections wait for a lock with a statement that contains this text.
    pub fn waiting(&self, statement: &str) -> usize {
        let sql = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%{statement}%'"
        );
        self.sql(&sql).parse().unwrap()
    }

    /// Starts the server again after [`Postgres::down`].
    pub fn up(&self) {
        assert!(self.comes_up(), "Postgres does not come up");
    }

    fn comes_up(&self) -> bool {
        let socket = self.dir.path().display();
        let options = format!("-p {} -k {socket} -c listen_addresses=127.0.0.1 -c fsync=off", self.port);
        let (log, limit) = (format!("{socket}/log"), PATIENCE.as_secs().to_string());
        self.runs("pg_ctl", &["-w", "-t", &limit, "-s", "-l", &log, "start", "-o", &options])
    }

    /// Stops the server as in a crash: it closes no connection in an orderly way.
    pub fn down(&self) {
        self.command("pg_ctl", &["-w", "-s", "-m", "immediate", "stop"]);
    }

    fn command(&self, program: &str, args: &[&str]) {
        assert!(self.runs(program, args), "{program} {args:?}");
    }

    /// Returns whether the program ended well.
    fn runs(&self, program: &str, args: &[&str]) -> bool {
        let data = self.dir.path().join("data");
        let mut words = self.wrapper.iter().map(String::as_str).chain(["runuser", "-u", "postgres", "--"]);
        let mut command = Command::new(words.next().unwrap_or_default());
        command.current_dir("/").args(words).arg(self.bin.join(program)).arg("-D").arg(data);
        // The output is not read: the server keeps it open.
        let done =
            command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        done.unwrap().success()
    }
}

struct Locks(Child);

impl Drop for Locks {
    fn drop(&mut self) {
        // The end of its input ends psql, and its session with it.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let data = self.dir.path().join("data").display().to_string();
        let pg_ctl = self.bin.join("pg_ctl").display().to_string();
        let _ = Command::new("runuser")
            .current_dir("/")
            .args(["-u", "postgres", "--", &pg_ctl, "-D", &data, "-m", "immediate", "-s", "stop"])
            .output();
    }
}

/// A file system in memory that is easily filled.
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts a file system of `size` (as `mount -o size=`) at `dir`, which is created if needed. Needs root: see
    /// [`root_with`].
    pub fn mount(dir: &Path, size: &str) -> Self {
        fs::create_dir_all(dir).unwrap();
        let at = dir.display().to_string();
        must(&["mount", "-t", "tmpfs", "-o", &format!("size={size},mode=700"), "tmpfs", &at]);
        Self(dir.to_owned())
    }

    /// Returns where it is mounted.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Uses up all the room that is left.
    pub fn fill(&self) {
        let filler = self.0.join("filler").display().to_string();
        // The command ends when there is no room.
        let _ =
            run(&["dd", "if=/dev/zero", &format!("of={filler}"), "bs=4096", "conv=notrunc", "oflag=append"]);
    }

    /// Makes the file system read-only. No process may have a file open for writing.
    pub fn read_only(&self) {
        self.remount("ro");
    }

    /// Changes options of the mount.
    pub fn remount(&self, options: &str) {
        must(&["mount", "-o", &format!("remount,{options}"), &self.0.display().to_string()]);
    }

    /// Frees the room that [`SmallDisk::fill`] used up.
    pub fn clear(&self) {
        fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = run(&["umount", "-l", &self.0.display().to_string()]);
    }
}

/// A disk that is pulled out and plugged in again. What it holds stays.
pub struct LooseDisk {
    content: PathBuf,
    at: PathBuf,
}

impl LooseDisk {
    /// Plugs the disk with the content of the folder `content` in at `at`. Both are created if needed. Needs root: see
    /// [`root_with`].
    pub fn plugged(content: &Path, at: &Path) -> Self {
        for dir in [content, at] {
            fs::create_dir_all(dir).unwrap();
        }
        let it = Self { content: content.to_owned(), at: at.to_owned() };
        it.plug();
        it
    }

    /// Returns where it is plugged in.
    pub fn path(&self) -> &Path {
        &self.at
    }

    /// Plugs it in.
    pub fn plug(&self) {
        must(&["mount", "--bind", &self.content.display().to_string(), &self.at.display().to_string()]);
    }

    /// Takes it away while it is used. Its place is an empty folder then.
    pub fn pull(&self) {
        must(&["umount", "-l", &self.at.display().to_string()]);
    }
}

impl Drop for LooseDisk {
    fn drop(&mut self) {
        let _ = run(&["umount", "-l", &self.at.display().to_string()]);
    }
}

/// A control group that gives its programs little of a CPU, while all other programs have all of it.
pub struct SlowCpu {
    dir: PathBuf,
    v2: bool,
}

impl SlowCpu {
    /// Creates the group. Returns `None`, and notes that the test was skipped, where that can't be done. Needs root:
    /// see [`root_with`].
    pub fn new(test: &str) -> Option<Self> {
        if !root_with(test, &[]) {
            return None;
        }
        let name = format!("gantry-test-{}", std::process::id());
        for (root, v2) in [("/sys/fs/cgroup/cpu", false), ("/sys/fs/cgroup", true)] {
            let dir = Path::new(root).join(&name);
            let file = if v2 { "cpu.max" } else { "cpu.cfs_quota_us" };
            if fs::create_dir(&dir).is_ok() && dir.join(file).exists() {
                return Some(Self { dir, v2 });
            }
            let _ = fs::remove_dir(&dir);
        }
        skip(test, "there is no control group of CPUs");
        None
    }

    /// Returns the words to start a program with so that it is in the group.
    pub fn wrapper(&self) -> Vec<String> {
        let script = "echo $$ > \"$0\" && exec \"$@\"";
        let file = self.dir.join("cgroup.procs").display().to_string();
        ["sh", "-c", script, &file].map(str::to_owned).to_vec()
    }

    /// Limits the group to `n` hundredths of one CPU.
    pub fn percent(&self, n: u32) {
        let quota = n * 1000;
        let (file, text) = if self.v2 {
            ("cpu.max", format!("{quota} 100000"))
        } else {
            ("cpu.cfs_quota_us", quota.to_string())
        };
        fs::write(self.dir.join(file), text).unwrap();
    }

    /// Gives the group all of the CPU again.
    pub fn release(&self) {
        let (file, text) = if self.v2 { ("cpu.max", "max 100000") } else { ("cpu.cfs_quota_us", "-1") };
        fs::write(self.dir.join(file), text).unwrap();
    }
}

impl Drop for SlowCpu {
    fn drop(&mut self) {
        self.release();
        let _ = fs::remove_dir(&self.dir);
    }
}
