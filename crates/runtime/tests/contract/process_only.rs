//! Checks what only processes can show: what survives the end of a gateway or supervisor, what is left behind, and what
//! an engine sees of the gateway.

use std::{fs, net::TcpListener, process::Command, time::Duration};

use futures_util::StreamExt;
use gantry_domain::{LogWindow, engine::EngineAddress, model::lifecycle::InstanceStatus};
use gantry_runtime::{ImageProbe, Runtime, RuntimeError};

use crate::{
    engine::skip,
    machine::{Behaviour, Machine, Named, PATIENCE, poll},
    processes::lives,
};

const GRACE: Duration = Duration::from_mins(1);

/// Waits until the engine has printed this many lines, and returns them.
async fn printed(m: &Machine, named: &Named, lines: usize) -> Vec<String> {
    let id = m.found(named).await.instance.id;
    poll(async || {
        let text = m.runtime.logs(&id, LogWindow::last(1000)).await.unwrap();
        let all: Vec<String> = text.lines().map(str::to_owned).collect();
        (all.len() >= lines).then_some(all)
    })
    .await
}

async fn gone(pid: i64) {
    poll(async || (!lives(pid)).then_some(())).await;
}

#[tokio::test]
async fn an_engine_outlives_the_gateway_and_is_found_by_the_next() {
    let m = Machine::process();
    let a = m.name();
    let id = m.start_generation(&a, 5, Behaviour::Prints(&["up"])).await.unwrap();
    assert_eq!(printed(&m, &a, 1).await, ["up"]);
    let before = m.found(&a).await;
    // The gateway after a restart: only the directory is left of the first.
    let next = m.processes().seen_by(m.owner.clone());
    assert_eq!(next.find(&a.name).await.unwrap().as_ref(), Some(&before));
    assert_eq!(next.list().await.unwrap(), [before]);
    let mut events = next.events().await.unwrap();
    m.kill(&a).await;
    let hint = tokio::time::timeout(GRACE, events.next()).await;
    assert_eq!(hint.expect("the end of an adopted engine is told"), Some(a.model));
    let ended = next.find(&a.name).await.unwrap().unwrap();
    assert_eq!(ended.instance.status, InstanceStatus::Exited { code: 137, out_of_memory: false });
    assert_eq!(next.logs(&id, LogWindow::last(10)).await.unwrap(), "up\n");
}

#[tokio::test]
async fn what_somebody_else_puts_among_the_engines_keeps_none_from_being_listed_or_stopped() {
    let m = Machine::process();
    let a = m.name();
    let id = m.start(&a, Behaviour::Serves).await.unwrap();
    // Directories in place of files, which can't be read as files.
    for name in ["aaa", "zzz"] {
        fs::create_dir_all(m.processes().run_dir().join(name).join("instance.json")).unwrap();
    }
    assert_eq!(m.runtime.list().await.unwrap(), [m.found(&a).await]);
    let pid = m.processes().state(&a.name)["engine_pid"].as_i64().unwrap();
    m.runtime.stop(&id, GRACE).await.unwrap();
    gone(pid).await;
    m.runtime.remove(&id).await.unwrap();
    assert_eq!(m.runtime.list().await.unwrap(), []);
}

#[tokio::test]
async fn a_stop_ends_all_that_the_engine_started() {
    let m = Machine::process();
    let a = m.name();
    // In its group, out of its group, and one that has left its parent, its session and its environment.
    // The trap comes first, because the stop may come as soon as the last line is printed.
    let script = "trap 'exit 4' TERM; sleep 1000 & echo $!; setsid sleep 1000 & echo $!; \
                  setsid env -i sh -c 'sleep 1000 & echo $!' ; while :; do sleep 0.05; done";
    let id = m.start(&a, Behaviour::Shell(script)).await.unwrap();
    let pids: Vec<i64> = printed(&m, &a, 3).await.iter().map(|it| it.parse().unwrap()).collect();
    assert!(pids.iter().all(|it| lives(*it)), "{pids:?}");
    m.runtime.stop(&id, GRACE).await.unwrap();
    assert_eq!(m.ended(&a).await, (4, false));
    assert_eq!(pids.iter().filter(|it| lives(**it)).count(), 0, "{pids:?}");
}

#[tokio::test]
async fn what_an_engine_that_dies_leaves_running_is_ended_too() {
    let m = Machine::process();
    let a = m.name();
    m.start(&a, Behaviour::Shell("(trap '' TERM; while :; do sleep 0.05; done) & echo $!; exit 3"))
        .await
        .unwrap();
    assert_eq!(m.ended(&a).await, (3, false));
    let worker: i64 = printed(&m, &a, 1).await[0].parse().unwrap();
    assert!(!lives(worker), "it is gone before the end is known");
}

#[tokio::test]
async fn an_engine_does_not_outlive_its_supervisor() {
    let m = Machine::process();
    let a = m.name();
    m.start(&a, Behaviour::Shell("setsid sleep 1000 & echo $$ $!; while :; do sleep 0.05; done"))
        .await
        .unwrap();
    let line = printed(&m, &a, 1).await.remove(0);
    let pids: Vec<i64> = line.split(' ').map(|it| it.parse().unwrap()).collect();
    m.processes().kill_supervisor(&a.name);
    gone(pids[0]).await;
    // The look that finds it dead clears up after it.
    assert_eq!(m.ended(&a).await, (137, false));
    gone(pids[1]).await;
}

#[tokio::test]
async fn what_cleared_its_environment_does_not_outlive_its_supervisor_either() {
    let m = Machine::process();
    let (a, b) = (m.name(), m.name());
    let script = "env -i sh -c 'trap \"\" TERM HUP; echo $$; while :; do sleep 0.05; done'";
    m.start(&a, Behaviour::Shell(script)).await.unwrap();
    m.start(&b, Behaviour::Shell("env -i sh -c 'echo $$; while :; do sleep 0.05; done'")).await.unwrap();
    let [worker, other]: [i64; 2] =
        [printed(&m, &a, 1).await[0].parse().unwrap(), printed(&m, &b, 1).await[0].parse().unwrap()];
    m.processes().kill_supervisor(&a.name);
    gone(m.processes().state(&a.name)["engine_pid"].as_i64().unwrap()).await;
    assert_eq!(m.ended(&a).await, (137, false));
    gone(worker).await;
    assert!(lives(other), "it is another engine's");
    m.processes().kill_supervisor(&b.name);
    assert_eq!(m.ended(&b).await, (137, false));
    gone(other).await;
}

/// A file system in memory in place of the run directory; `None` without the right to mount one.
struct FullDisk<'a>(&'a Machine);

impl<'a> FullDisk<'a> {
    fn of(m: &'a Machine) -> Option<Self> {
        let dir = m.processes().run_dir();
        let options = ["-t", "tmpfs", "-o", "size=256k,mode=700", "tmpfs"];
        let mounted = Command::new("mount").args(options).arg(&dir).output();
        if mounted.is_ok_and(|it| it.status.success()) {
            return Some(Self(m));
        }
        skip("runtime::process_only on a full disk", "nothing can be mounted");
        None
    }

    fn fill(&self) {
        let filler = self.0.processes().run_dir().join(".filler");
        let _ = Command::new("dd")
            .args(["if=/dev/zero", "bs=4096"])
            .arg(format!("of={}", filler.display()))
            .output();
    }
}

impl Drop for FullDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.processes().run_dir()).output();
    }
}

#[tokio::test]
async fn on_a_full_disk_it_is_known_how_an_engine_ended() {
    let m = Machine::process();
    let Some(disk) = FullDisk::of(&m) else { return };
    let a = m.name();
    let id = m
        .start(&a, Behaviour::Shell("trap 'exit 3' TERM; echo up; while :; do sleep 0.05; done"))
        .await
        .unwrap();
    printed(&m, &a, 1).await;
    disk.fill();
    m.runtime.stop(&id, GRACE).await.unwrap();
    assert_eq!(m.ended(&a).await, (3, false));
    // The gateway knows it after a restart too.
    let next = m.processes().seen_by(m.owner.clone());
    let found = next.find(&a.name).await.unwrap().unwrap();
    assert_eq!(found.instance.status, InstanceStatus::Exited { code: 3, out_of_memory: false });
}

#[tokio::test]
async fn starts_that_fail_for_a_full_disk_leave_nothing() {
    let m = Machine::process();
    let Some(disk) = FullDisk::of(&m) else { return };
    disk.fill();
    for _ in 0..3 {
        assert!(m.start(&m.name(), Behaviour::Serves).await.is_err());
    }
    let left: Vec<_> =
        fs::read_dir(m.processes().run_dir()).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(left, [".filler"]);
}

#[tokio::test]
async fn a_process_without_a_record_is_ended() {
    let m = Machine::process();
    let (a, b) = (m.name(), m.name());
    m.start(&a, Behaviour::Shell("echo $$; while :; do sleep 0.05; done")).await.unwrap();
    m.start(&b, Behaviour::Prints(&["stays"])).await.unwrap();
    let pid: i64 = printed(&m, &a, 1).await[0].parse().unwrap();
    let supervisor = m.processes().state(&a.name)["pid"].as_i64().unwrap();
    fs::remove_dir_all(m.processes().run_dir().join(&a.name)).unwrap();
    let names: Vec<String> = m.runtime.list().await.unwrap().into_iter().map(|it| it.name).collect();
    assert_eq!(names, std::slice::from_ref(&b.name));
    gone(pid).await;
    gone(supervisor).await;
    assert!(matches!(m.found(&b).await.instance.status, InstanceStatus::Running { .. }));
}

/// The gateway was killed between writing the record and the start.
#[tokio::test]
async fn a_start_that_was_only_noted_down_is_started_over() {
    let m = Machine::process();
    let a = m.name();
    m.start(&a, Behaviour::Serves).await.unwrap();
    let state = m.processes().state(&a.name);
    m.processes().kill_supervisor(&a.name);
    // The engine may be gone before its supervisor.
    for pid in ["engine_pid", "pid"] {
        gone(state[pid].as_i64().unwrap()).await;
    }
    fs::remove_file(m.processes().run_dir().join(&a.name).join("state.json")).unwrap();
    assert_eq!(m.found(&a).await.instance.status, InstanceStatus::Created);
    m.start_generation(&a, 2, Behaviour::Serves).await.unwrap();
    let found = m.found(&a).await;
    assert_eq!(found.instance.generation, 2);
    assert!(matches!(found.instance.status, InstanceStatus::Running { address: Some(_) }), "{found:?}");
}

#[tokio::test]
async fn an_engine_sees_little_of_the_gateways_environment_and_its_key_stands_nowhere_else() {
    let m = Machine::process();
    let a = m.name();
    m.start(&a, Behaviour::Shell("env | sort; echo end; while :; do sleep 0.05; done")).await.unwrap();
    let lines = poll(async || {
        let lines = printed(&m, &a, 1).await;
        lines.contains(&"end".to_owned()).then_some(lines)
    });
    let text = lines.await.join("\n");
    assert!(
        text.contains("VLLM_API_KEY=s3cret-key-of-the-engine") && text.contains("PATH=/usr/bin:/bin"),
        "{text}"
    );
    assert!(!text.contains("s3cret-of-the-gateway"), "{text}");
    let dir = m.processes().run_dir().join(&a.name);
    for file in ["instance.json", "state.json"] {
        let text = fs::read_to_string(dir.join(file)).unwrap();
        assert!(!text.contains("s3cret"), "{text}");
    }
    let state = m.processes().state(&a.name);
    for pid in ["pid", "engine_pid"] {
        let line = fs::read_to_string(format!("/proc/{}/cmdline", state[pid])).unwrap();
        assert!(!line.contains("s3cret"), "{line}");
    }
    assert_eq!(mode(&m.processes().run_dir()), 0o700);
}

fn mode(path: &std::path::Path) -> u32 {
    std::os::unix::fs::PermissionsExt::mode(&fs::metadata(path).unwrap().permissions()) & 0o777
}

#[tokio::test]
async fn a_record_has_no_say_in_what_is_run() {
    let m = Machine::process();
    let a = m.name();
    let mut launch = m.launch_of(&a, Behaviour::Exits(0));
    launch.entrypoint = Some(vec!["/no/such/program".to_owned()]);
    m.runtime.launch(&m.spec(&a, 1, &launch)).await.unwrap();
    assert_eq!(m.ended(&a).await, (0, false));
    launch.env.push(("LD_PRELOAD".to_owned(), "/x.so".into()));
    let refused = m.runtime.launch(&m.spec(&a, 2, &launch)).await.unwrap_err();
    assert!(refused.to_string().contains("`LD_PRELOAD`"), "{refused}");
    launch.image = "absent:1".to_owned();
    launch.env.pop();
    let missing = RuntimeError::ProgramMissing { program: "absent:1".to_owned() };
    assert_eq!(m.runtime.launch(&m.spec(&a, 3, &launch)).await, Err(missing.clone()));
    assert_eq!(m.runtime.image("absent:1").await, Ok(None));
    let pull = m.runtime.pull("absent:1", GRACE, Box::new(|_, _| {})).await;
    assert_eq!(pull, Err(missing));
}

/// The engine finds its port taken, ends, and gets another port, but not for ever.
#[tokio::test]
async fn a_port_that_is_taken_meanwhile_is_replaced() {
    let m = Machine::process();
    for (limit, code) in [(1, 0), (9, 1)] {
        let a = m.name();
        // Waits until the test holds its port, as often as `limit` says; after that the script ends with success.
        let script = "n=$(cat count 2>/dev/null || echo 0); n=$((n+1)); echo $n > count; echo \"port $2\"; \
                      [ $n -gt LIMIT ] && exit 0; while [ ! -e taken-$2 ]; do sleep 0.02; done; exit 1";
        let mut launch = m.launch_of(&a, Behaviour::Shell("x"));
        let words = ["-c", &script.replace("LIMIT", &limit.to_string()), "--port", "--port", "$PORT"];
        launch.args = words.map(str::to_owned).into();
        m.runtime.launch(&m.spec(&a, 1, &launch)).await.unwrap();
        let dir = m.processes().run_dir().join(&a.name);
        let mut held = Vec::new();
        let ended = poll(async || match m.found(&a).await.instance.status {
            InstanceStatus::Exited { code, .. } => Some(code),
            InstanceStatus::Running { address: Some(EngineAddress { port, .. }) }
                if !dir.join(format!("taken-{port}")).exists() =>
            {
                held.push(TcpListener::bind(("127.0.0.1", port)).ok());
                fs::write(dir.join(format!("taken-{port}")), "").unwrap();
                None
            }
            _ => None,
        });
        assert_eq!(ended.await, code);
        let lines = printed(&m, &a, 1).await;
        let tries: Vec<_> = lines.iter().filter(|it| it.starts_with("port ")).collect();
        assert_eq!(tries.len(), if limit == 1 { 2 } else { 3 }, "{lines:?}");
        assert!(tries[0] != tries[1], "{lines:?}");
    }
}

#[tokio::test]
async fn lines_are_followed_as_they_come_and_the_last_one_is_not_lost() {
    let m = Machine::process();
    let a = m.name();
    let script = "echo first; while [ ! -e go ]; do sleep 0.02; done; echo second; printf 'no line end' >&2";
    let id = m.start(&a, Behaviour::Shell(script)).await.unwrap();
    printed(&m, &a, 1).await;
    let mut lines = m.runtime.follow_logs(&id, LogWindow::last(10)).await.unwrap();
    assert_eq!(lines.next().await.as_deref(), Some("first"));
    fs::write(m.processes().run_dir().join(&a.name).join("go"), "").unwrap();
    let rest = tokio::time::timeout(GRACE, lines.collect::<Vec<_>>()).await;
    assert_eq!(rest.expect("it ends with the engine"), ["second", "no line end"]);
}

#[tokio::test]
async fn a_program_that_cannot_be_run_is_an_exit_that_the_logs_explain() {
    let m = Machine::process();
    let a = m.name();
    let mut launch = m.launch_of(&a, Behaviour::Exits(0));
    launch.image = crate::processes::Processes::SIMULATOR.to_owned();
    // The program can be found, but its interpreter does not exist.
    fs::write(m.processes().dir.path().join("simulator"), "#!/no/such/interpreter\n").unwrap();
    let id = m.runtime.launch(&m.spec(&a, 1, &launch)).await.unwrap();
    assert_eq!(m.ended(&a).await, (127, false));
    let text = m.runtime.logs(&id, LogWindow::last(10)).await.unwrap();
    assert!(text.contains("can't start"), "{text}");
}

#[tokio::test]
async fn names_that_are_paths_are_nobodys() {
    let m = Machine::process();
    for name in ["..", ".", "", "a/b", "/etc"] {
        assert_eq!(m.runtime.find(name).await, Ok(None), "{name}");
    }
}

/// The program is like a script in front of an engine that starts something else first.
#[tokio::test]
async fn asking_a_program_leaves_nothing_running() {
    let m = Machine::process();
    let (program, pid) = (m.processes().dir.path().join("simulator"), m.processes().dir.path().join("pid"));
    let image = crate::processes::Processes::SIMULATOR;
    let probe = ImageProbe { image, entrypoint: None, args: &["--version"] };
    let write = |end: &str| {
        let script =
            format!("#!/bin/sh\nsleep 1000 &\necho $! > {}\necho \"4.5.6 $1\"\n{end}\n", pid.display());
        fs::write(&program, script).unwrap();
    };
    // `None` if the program did not get that far.
    let started = || {
        let text = fs::read_to_string(&pid).ok().filter(|it| it.ends_with('\n'))?;
        fs::remove_file(&pid).unwrap();
        Some(text.trim().parse().unwrap())
    };
    write("");
    assert_eq!(m.runtime.probe(&probe, PATIENCE).await.as_deref(), Ok("4.5.6 --version\n"));
    gone(started().unwrap()).await;
    // A probe that is given up. On a machine that is too slow for the program to start something by then, the limit is
    // raised.
    write("wait");
    let mut limit = Duration::from_millis(500);
    let left = loop {
        let said = m.runtime.probe(&probe, limit).await;
        assert_eq!(said, Err(RuntimeError::Timeout { action: "ask the image" }));
        if let Some(pid) = started() {
            break pid;
        }
        assert!(limit < PATIENCE, "it never starts anything");
        limit *= 2;
    };
    gone(left).await;
    let absent = ImageProbe { image: "absent:1", ..probe };
    let missing = RuntimeError::ProgramMissing { program: "absent:1".to_owned() };
    assert_eq!(m.runtime.probe(&absent, GRACE).await, Err(missing));
}

#[tokio::test]
async fn archives_of_images_are_refused() {
    let m = Machine::process();
    let archive = futures_util::stream::empty();
    let loaded = m.runtime.load(Box::pin(archive)).await.unwrap_err();
    let saved = m.runtime.save(&[]).await.err().unwrap();
    for error in [loaded, saved] {
        assert!(error.to_string().ends_with("engines are processes here, so images mean nothing"), "{error}");
    }
}

#[tokio::test]
async fn logs_begin_at_a_moment() {
    crate::cases::logs_begin_at_a_moment(&Machine::process()).await;
}

#[tokio::test]
async fn colours_of_a_log_are_kept_for_those_who_want_them() {
    crate::cases::colours_of_a_log_are_kept_for_those_who_want_them(&Machine::process()).await;
}

#[tokio::test]
async fn an_engine_of_an_older_version_is_the_first_instance_of_its_model() {
    let m = Machine::process();
    let a = m.name();
    let id = m.start_generation(&a, 3, Behaviour::Prints(&["up"])).await.unwrap();
    // The engine handles SIGTERM once it has printed its first line.
    poll(async || (m.runtime.logs(&id, LogWindow::last(1)).await.unwrap() == "up\n").then_some(())).await;
    let file = m.processes().run_dir().join(&a.name).join("instance.json");
    let mut record: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(record.as_object_mut().unwrap().remove("number"), Some(0.into()));
    fs::write(&file, record.to_string()).unwrap();
    let found = m.found(&a).await;
    assert_eq!((found.model_id, found.number, &found.instance.id), (a.model, a.number, &id));
    m.runtime.stop(&id, GRACE).await.unwrap();
    assert_eq!(m.ended(&a).await, (0, false));
    m.runtime.remove(&id).await.unwrap();
    assert_eq!(m.runtime.list().await, Ok(vec![]));
}
