//! The supervisor of one engine: `gantry engine-shim`, a small process between the gateway and the engine.
//!
//! It is needed because the engine must outlive the gateway, and only a parent learns a process's exit code. It is the
//! engine's parent for the engine's whole life. It keeps the engine's output in files of bounded size, notes how the
//! engine ended, and, as the reaper of all its descendants, leaves none behind. It holds a lock while it lives. If it
//! is killed itself, the kernel ends the engine with it.
//!
//! On SIGTERM it asks the engine to end. On SIGQUIT it kills the engine now.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Write},
    os::unix::process::{CommandExt, ExitStatusExt as _},
    path::PathBuf,
    process::{Command, ExitStatus, Stdio},
    time::Duration,
};

use gantry_domain::{Clock, engine::Place};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitOptions, getpid, getppid, getrlimit, kill_process, kill_process_group,
    set_child_subreaper, set_parent_process_death_signal, setrlimit, setsid, wait,
};
use tokio::{
    signal::unix::{Signal as Signals, SignalKind, signal},
    time::{Instant, sleep, timeout},
};

use super::{
    output::Log,
    port,
    record::{Dir, Exit, State},
    system,
};

/// The argument after the program's name that makes it a supervisor.
pub const VERB: &str = "engine-shim";
/// Line that is printed once the engine is started.
pub(super) const STARTED: &str = "started";

/// Most ports that are tried. Another one is tried if the port was taken before the engine listened.
const PORT_ATTEMPTS: usize = 3;
/// An engine that ends later than this is assumed to have had its port.
const BINDS_WITHIN: Duration = Duration::from_mins(2);
/// Time that processes which the engine left running get to end: first after an end of its own; second after a stop,
/// when one of them may be the engine proper behind a script.
const REST_GRACE: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(10)];
const OUTPUT_GRACE: Duration = Duration::from_secs(1);

/// Runs the supervisor with the words after [`VERB`]; the result is the process's exit code.
///
/// Must be called on the program's first thread: the engine ends when the thread that started it does.
pub fn supervise(words: Vec<OsString>) -> i32 {
    let mut words = words.into_iter();
    let first = words.next().unwrap_or_default();
    let outcome = match first.to_str() {
        Some("exec") => Err(become_engine(words)),
        Some("run") => run(words),
        _ => Err(io::Error::other("this program is started by the gateway only")),
    };
    match outcome {
        Ok(()) => 0,
        Err(error) => {
            // Standard error goes to the engine's log, where this is the last line.
            let _ = writeln!(io::stderr(), "gantry: {error}");
            if error.kind() == io::ErrorKind::PermissionDenied { 126 } else { 127 }
        }
    }
}

/// Runs the command `run DIR ID memlock|- PROGRAM ARGUMENT…`.
fn run(mut words: impl Iterator<Item = OsString>) -> io::Result<()> {
    let mut next = || words.next().ok_or(io::ErrorKind::InvalidInput);
    let (dir, id, memlock) = (Dir(PathBuf::from(next()?)), next()?, next()?);
    let id = id.into_string().map_err(|_| io::ErrorKind::InvalidInput)?;
    // A new session keeps the gateway's terminal and its signals away. This fails if we lead a group already, which
    // does no harm.
    let _ = setsid();
    set_child_subreaper(Some(getpid()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let told = runtime.block_on(async {
        let mut shim = Shim::new(dir, &id, memlock, words.collect())?;
        shim.live().await
    });
    if let Err(error) = &told {
        say(&format!("failed: {error}"));
    }
    told
}

/// Sends a line to the gateway, which may be gone.
fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
    let _ = io::stdout().flush();
}

/// Runs the command `exec PARENT memlock|- PROGRAM ARGUMENT…`: the last step before the engine, in the process that
/// becomes it.
fn become_engine(mut words: impl Iterator<Item = OsString>) -> io::Error {
    let (parent, memlock) = (words.next(), words.next());
    let Some(program) = words.next() else { return io::ErrorKind::InvalidInput.into() };
    // The engine must not outlive its supervisor: its exit would be unknown, and its log unbounded.
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return error.into();
    }
    let supervisor = getppid().map(|it| it.as_raw_pid().to_string());
    if supervisor.map(OsString::from) != parent {
        return io::Error::other("the supervisor is gone");
    }
    if memlock.is_some_and(|it| it == "memlock") {
        let hard = getrlimit(Resource::Memlock).maximum;
        // Containers get no limit at all, so that is tried first. Only root may go above the hard limit.
        let wished = [Rlimit { current: None, maximum: None }, Rlimit { current: hard, maximum: hard }];
        let _ = wished.into_iter().any(|it| setrlimit(Resource::Memlock, it).is_ok());
    }
    let error = Command::new(&program).args(words).exec();
    io::Error::new(error.kind(), format!("can't start `{}`: {error}", program.display()))
}

struct Shim {
    dir: Dir,
    memlock: OsString,
    words: Vec<OsString>,
    clock: Clock,
    terminate: Signals,
    kill: Signals,
    child: Signals,
    /// Signals that are caught so that they don't end the supervisor.
    _others: [Signals; 2],
    asked: Asked,
    /// Held as long as the supervisor lives.
    _lock: File,
}

/// The gateway's last request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Asked {
    Nothing,
    Stop,
    Kill,
}

/// One run of the engine.
struct Engine {
    pid: Pid,
    port: u16,
    output: std::thread::JoinHandle<()>,
    since: Instant,
}

impl Shim {
    fn new(dir: Dir, id: &str, memlock: OsString, words: Vec<OsString>) -> io::Result<Self> {
        let lock = dir.hold()?;
        // The gateway may have given up this start and begun another.
        if dir.record()?.is_none_or(|it| it.id != id) {
            return Err(io::Error::other("this start was given up"));
        }
        Ok(Self {
            dir,
            memlock,
            words,
            clock: Clock::default(),
            terminate: signal(SignalKind::terminate())?,
            kill: signal(SignalKind::quit())?,
            child: signal(SignalKind::child())?,
            _others: [signal(SignalKind::interrupt())?, signal(SignalKind::hangup())?],
            asked: Asked::Nothing,
            _lock: lock,
        })
    }

    async fn live(&mut self) -> io::Result<()> {
        let kills = system::out_of_memory_kills();
        let mut attempt = 1;
        loop {
            let engine = self.start()?;
            let state = State {
                pid: getpid().as_raw_pid(),
                engine_pid: engine.pid.as_raw_pid(),
                port: engine.port,
                started_at: self.clock.now(),
                exit: None,
                boot: system::boot_id(),
            };
            if let Err(error) = self.dir.write_state(&state) {
                // Without its state the engine could not be found again.
                self.asked = Asked::Kill;
                self.end_rest(engine.pid).await;
                return Err(error);
            }
            if attempt == 1 {
                say(STARTED);
            }
            let status = self.watch(engine.pid).await;
            self.end_rest(engine.pid).await;
            self.drain(engine.output).await;
            let again = self.asked == Asked::Nothing
                && attempt < PORT_ATTEMPTS
                && !status.success()
                && engine.since.elapsed() < BINDS_WITHIN
                && !port::is_free(engine.port)?;
            if again {
                attempt += 1;
                let note =
                    format!("gantry: port {} was taken by another program, trying another\n", engine.port);
                Log::new(&self.dir).write(note.as_bytes());
                continue;
            }
            let killed = status.signal() == Some(Signal::KILL.as_raw());
            let exit = Exit {
                code: code(status),
                out_of_memory: killed && self.asked != Asked::Kill && system::out_of_memory_kills() > kills,
                at: self.clock.now(),
            };
            return self.dir.write_end(&state, exit);
        }
    }

    fn start(&self) -> io::Result<Engine> {
        let port = port::choose()?;
        let (reader, writer) = io::pipe()?;
        // This running program, even if its file was replaced or removed.
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0("gantry")
            .args([VERB, "exec", &getpid().as_raw_pid().to_string()])
            .arg(&self.memlock)
            .args(with_port(&self.words, port))
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(writer.try_clone()?)
            .stderr(writer);
        // The child is not awaited: `reap` collects every child.
        let pid = Pid::from_child(&command.spawn()?);
        let log = Log::new(&self.dir);
        let output = std::thread::Builder::new().name("output".to_owned()).spawn(move || log.copy(reader))?;
        Ok(Engine { pid, port, output, since: Instant::now() })
    }

    /// Waits until the engine's own process has ended, and passes signals on meanwhile.
    async fn watch(&mut self, engine: Pid) -> ExitStatus {
        loop {
            if let Reaped { engine: Some(status), .. } = reap(engine) {
                return status;
            }
            tokio::select! {
                _ = self.child.recv() => {}
                _ = self.terminate.recv() => {
                    self.asked = self.asked.max(Asked::Stop);
                    // The signal goes only to the engine's own process, as with a container engine: the engine tells
                    // its workers in its own way. Processes that it leaves, or to which a shell in front of it passed
                    // nothing on, are asked afterwards.
                    let _ = kill_process(engine, Signal::TERM);
                }
                _ = self.kill.recv() => {
                    self.asked = Asked::Kill;
                    let _ = kill_process_group(engine, Signal::KILL);
                }
            }
        }
    }

    /// Ends all processes that the engine started and left: as their reaper, we are their parent by now.
    async fn end_rest(&mut self, engine: Pid) {
        let deadline = Instant::now() + REST_GRACE[usize::from(self.asked == Asked::Stop)];
        let mut asked = false;
        while reap(engine).any_left {
            let kill = self.asked == Asked::Kill || Instant::now() >= deadline;
            if kill || !asked {
                let signal = if kill { Signal::KILL } else { Signal::TERM };
                // The group gets the signal first, so that its processes start no others afterwards.
                let _ = kill_process_group(engine, signal);
                for child in system::children().into_iter().filter_map(Pid::from_raw) {
                    let _ = kill_process(child, signal);
                }
                asked = true;
            }
            tokio::select! {
                _ = self.child.recv() => {}
                _ = self.kill.recv() => self.asked = Asked::Kill,
                () = sleep(Duration::from_millis(20)) => {}
            }
        }
    }

    /// Waits until the output is copied: the last lines must be in the log before the end is noted.
    async fn drain(&self, output: std::thread::JoinHandle<()>) {
        let done = async {
            while !output.is_finished() {
                sleep(Duration::from_millis(5)).await;
            }
        };
        // Another process may still hold the pipe. It is not awaited any longer than this.
        let _ = timeout(OUTPUT_GRACE, done).await;
    }
}

/// Which of our children have ended.
struct Reaped {
    /// The engine's own process, if it was among those that had ended.
    engine: Option<ExitStatus>,
    any_left: bool,
}

/// Collects every child that has ended.
fn reap(engine: Pid) -> Reaped {
    let mut reaped = Reaped { engine: None, any_left: true };
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == engine => {
                reaped.engine = Some(ExitStatus::from_raw(status.as_raw()));
                return reaped;
            }
            Ok(Some(_)) => {}
            Ok(None) => return reaped,
            Err(_) => {
                reaped.any_left = false;
                return reaped;
            }
        }
    }
}

/// Returns the exit code as a shell shows it.
fn code(status: ExitStatus) -> i64 {
    let signal = || status.signal().map(|it| 128 + i64::from(it));
    status.code().map(i64::from).or_else(signal).unwrap_or_default()
}

/// Puts the port where the command has the placeholder for it, and nowhere else: other words are the operator's.
fn with_port(words: &[OsString], port: u16) -> Vec<OsString> {
    let mut words = words.to_vec();
    let place = words.windows(2).position(|it| it[0] == "--port" && it[1] == Place::CHOSEN_PORT);
    if let Some(place) = place {
        words[place + 1] = port.to_string().into();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_gateways_own_port_is_filled_in() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert_eq!(
            with_port(&words("x --alias $PORT --port $PORT --port $PORT"), 7),
            words("x --alias $PORT --port 7 --port $PORT")
        );
        assert_eq!(with_port(&words("x --port"), 7), words("x --port"));
    }
}
