//! Engines that are processes, as an operator sees them: in `/proc`.

use std::{
    fs,
    process::{Child, Command, ExitStatus},
    time::{Duration, Instant},
};

/// Returns every process of every engine of a gateway, the supervisors too. They are found by a mark in their
/// environment.
pub fn engine_processes(instance: &str) -> Vec<i64> {
    let mark = format!("GANTRY_ENGINE_INSTANCE={instance}/");
    let marked = |pid: &i64| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|it| *it == 0).any(|it| it.starts_with(mark.as_bytes()))
    };
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|it| it.file_name().to_str()?.parse().ok()).filter(marked).collect()
}

/// Returns whether the process is alive; a zombie is not.
pub fn lives(pid: i64) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// Runs `kill -9`; the process may have ended already.
pub fn kill_process(pid: i64) {
    let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).output();
}

/// Waits until the program has ended. Returns `None` if that takes longer than `limit`. Blocking.
pub(crate) fn ends_within(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let deadline = Instant::now() + limit;
    loop {
        let ended = child.try_wait().unwrap();
        if ended.is_some() || Instant::now() >= deadline {
            return ended;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
