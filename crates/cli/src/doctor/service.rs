//! What systemd says about the service of this machine, for a gateway that does not answer. The service's socket accepts
//! connections although the gateway behind it does not start, so a client alone can't tell the two apart.

use std::{
    io::Read,
    net::SocketAddr,
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use super::Check;

const UNIT: &str = "gantry.service";
const SOCKET: &str = "gantry.socket";
/// Longest wait for each of the programs that are asked.
const PATIENCE: Duration = Duration::from_secs(2);
/// Number of lines of the service's log among which the last error is looked for.
const N_LINES: &str = "50";

/// The service of this machine, as systemd knows it.
#[derive(Debug, Clone)]
pub struct Service {
    /// `active`, `activating`, `inactive` or `failed`, for example.
    state: String,
    /// How the last run ended, for example `exit-code`; `success` if it was stopped.
    result: String,
    /// Addresses at which systemd listens for it.
    listens: Vec<SocketAddr>,
    /// What the gateway said last before it ended; `None` if it said nothing or this user may not read the log.
    error: Option<String>,
}

/// Returns the service; `None` if this machine has none. Asks programs of this machine.
pub fn service() -> Option<Service> {
    let unit = asked("systemctl", &["show", UNIT, "--property=LoadState,ActiveState,Result"])?;
    if property(&unit, "LoadState").next() != Some("loaded") {
        return None;
    }
    let one = |name| property(&unit, name).next().unwrap_or_default().to_owned();
    let (state, result) = (one("ActiveState"), one("Result"));
    let socket = asked("systemctl", &["show", SOCKET, "--property=ActiveState,Listen"]).unwrap_or_default();
    let listens = if property(&socket, "ActiveState").next() == Some("active") {
        property(&socket, "Listen").filter_map(|it| it.split(' ').next()?.parse().ok()).collect()
    } else {
        Vec::new()
    };
    let error = if state == "active" {
        None
    } else {
        // The gateway's own lines, not those of systemd about it.
        let from = format!("_SYSTEMD_UNIT={UNIT}");
        let args = [from.as_str(), "--lines", N_LINES, "--output=cat", "--quiet", "--no-pager"];
        asked("journalctl", &args).and_then(|log| last_error(&log))
    };
    Some(Service { state, result, listens, error })
}

impl Service {
    /// Returns whether systemd listens at this port for the service.
    pub(super) fn holds(&self, port: u16) -> bool {
        self.listens.iter().any(|it| it.port() == port)
    }

    /// Returns the check for the case that no gateway answers at `port`.
    pub(super) fn check(&self, port: u16) -> Check {
        let (found, fix) = (self.found(), self.fix(port));
        let means = if self.holds(port) {
            "systemd accepts connections for it, so clients wait for an answer that does not come."
        } else {
            "No gateway serves until it runs."
        };
        match self.state.as_str() {
            "inactive" => Check::warn("service", found, means, &fix),
            _ => Check::fail("service", found, means, &fix),
        }
    }

    /// Returns the state, its reason and what to do, as the end of a sentence.
    pub(crate) fn words(&self, port: u16) -> String {
        format!("{}; fix: {}", self.found(), self.fix(port))
    }

    fn found(&self) -> String {
        let state = match self.state.as_str() {
            "active" => "the service gantry runs".to_owned(),
            "inactive" => "the service gantry is stopped".to_owned(),
            "activating" => "the service gantry has not started yet".to_owned(),
            other => format!("the service gantry is in the state {other}"),
        };
        let result = match self.result.as_str() {
            "" | "success" => String::new(),
            result => format!(" ({result})"),
        };
        let error = self.error.as_ref().map(|it| format!(", its last error: {it}")).unwrap_or_default();
        format!("{state}{result}{error}")
    }

    fn fix(&self, port: u16) -> String {
        if self.state == "active" {
            return match self.listens.first() {
                Some(other) if !self.holds(port) => format!("gantry doctor --url http://{other}"),
                _ => format!("sudo systemctl restart gantry, if it stays silent; {LOG} shows what it does"),
            };
        }
        match &self.error {
            Some(_) => format!("correct that, then: sudo systemctl start gantry ({LOG} shows more)"),
            None => format!("sudo systemctl start gantry; if it ends again: {LOG}"),
        }
    }
}

const LOG: &str = "sudo journalctl -u gantry -n 50";

/// Returns the values of a property in what `systemctl show` printed.
fn property<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    text.lines().filter_map(move |line| line.strip_prefix(name)?.strip_prefix('='))
}

/// Returns the gateway's last complaint with its causes, else its last line.
fn last_error(log: &str) -> Option<String> {
    const COMPLAINT: &str = "gantry: ";
    let lines: Vec<&str> = log.lines().map(str::trim).filter(|it| !it.is_empty()).collect();
    let Some(first) = lines.iter().rposition(|it| it.starts_with(COMPLAINT)) else {
        return lines.last().map(|it| (*it).to_owned());
    };
    let complaint = lines.iter().skip(first).take(1).map(|it| it.trim_start_matches(COMPLAINT));
    let causes = lines.iter().skip(first + 1).copied().take_while(|it| it.starts_with("because: "));
    Some(complaint.chain(causes).collect::<Vec<_>>().join(", "))
}

/// Returns what a program of this machine printed; `None` if it can't be started or takes too long.
fn asked(program: &str, args: &[&str]) -> Option<String> {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut printed = child.stdout.take()?;
    let (done, text) = mpsc::channel();
    let reader = thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error counts.
        let _ = printed.read_to_end(&mut bytes);
        let _ = done.send(bytes);
    });
    let bytes = text.recv_timeout(PATIENCE).ok();
    // It has ended, or it is late.
    let _ = child.kill();
    let _ = child.wait();
    // `doctor` as root gives up its rights later, which only a program with one thread can do.
    let _ = reader.join();
    bytes.map(|it| String::from_utf8_lossy(&it).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_complaint_counts_with_its_causes() {
        let log = "ready\ngantry: can't use MODELS_DIR\n  because: an older one\nstarted\ngantry: can't open the database\n  \
                   because: it is locked\n";
        let last = "can't open the database, because: it is locked";
        assert_eq!(last_error(log).as_deref(), Some(last));
        assert_eq!(last_error("one\nkilled by the watchdog\n").as_deref(), Some("killed by the watchdog"));
        assert_eq!(last_error("\n"), None);
    }
}
