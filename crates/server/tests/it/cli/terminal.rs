//! What differs at a terminal: colours, width, a password that is not shown, the live view. `script` makes the terminal.

use std::{
    io::{Read, Write},
    process::{Command, Stdio},
    time::Duration,
};

use gantry_testkit::{Database, Managed, Options, docker, docker_cli, eventually, simulated, skip};
use reqwest::{Method, header::HeaderValue};
use serde_json::{Value, json};

use super::{Shell, obeyed};
use crate::support::{GANTRY, gateway, start};

/// Longest time until a program at a terminal shows the next text.
const SHOWN: Duration = gantry_testkit::PATIENCE;
/// Longest time until it ends then. An image of 512 MiB may have to be packed and loaded first.
const ENDS: Duration = Duration::from_mins(3);

/// Runs `args` at a terminal of 60 columns; see [`at_terminal_of`].
pub(super) async fn at_terminal(
    shell: &Shell,
    args: &str,
    keys: &[(&str, &str)],
    env: &[(&str, &str)],
) -> Option<(String, bool)> {
    at_terminal_of(60, shell, args, keys, env).await
}

/// Runs `args` at a terminal with `columns` columns, sends `keys` one by one, each when its text has been shown, and
/// returns what was shown in the end. `run COMMAND` is no key but something for a shell to do, for which `$terminal`
/// is the terminal and `$program` the id of the program's process.
pub(super) async fn at_terminal_of(
    columns: usize,
    shell: &Shell,
    args: &str,
    keys: &[(&str, &str)],
    env: &[(&str, &str)],
) -> Option<(String, bool)> {
    if Command::new("script").arg("--version").output().is_err() {
        skip("cli: at a terminal", "there is no `script`");
        return None;
    }
    let line = format!(
        "tty >terminal; stty cols {columns} rows 20; sh -c 'echo $$ >program; exec '\\''{GANTRY}'\\'' {args}'; \
         code=$?; stty -a; exit $code"
    );
    let mut child = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", shell.home.path())
        .env("GANTRY_URL", &shell.url)
        .env("SHELL", "/bin/sh")
        .env("TERM", "xterm")
        .envs(env.iter().copied())
        .current_dir(shell.home.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let shown = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let sink = std::sync::Arc::clone(&shown);
    let reader = std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(n @ 1..) = output.read(&mut bytes) {
            sink.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..n]));
        }
    });
    for (text, keys) in keys {
        let there = async || shown.lock().unwrap().contains(text).then_some(());
        eventually(&format!("`{text}` is shown"), SHOWN, there).await;
        if let Some(task) = keys.strip_prefix("run ") {
            let task = format!("terminal=$(cat terminal) program=$(cat program); {task}");
            let done = Command::new("sh").args(["-c", &task]).current_dir(shell.home.path()).status();
            assert!(done.unwrap().success(), "{task}");
            continue;
        }
        input.write_all(keys.as_bytes()).unwrap();
        input.flush().unwrap();
    }
    let ended = async || child.try_wait().unwrap();
    let status = eventually("the program ends", ENDS, ended).await;
    drop(input);
    reader.join().unwrap();
    let shown = shown.lock().unwrap().clone();
    Some((shown, status.success()))
}

#[tokio::test]
async fn a_password_is_asked_for_and_not_shown() {
    let gateway = gateway(Database::Sqlite).await;
    let shell = Shell::at(&gateway.url);
    let keys = [("User name: ", "owner\n"), ("Password: ", "wrong\u{15}owner-passwordd\u{7f}\n")];
    let Some((shown, well)) = at_terminal(&shell, "login", &keys, &[]).await else { return };
    assert!(well && shown.contains("signed in to"), "{shown}");
    assert!(!shown.contains("owner-password"), "{shown}");
    assert!(shown.contains(" echo") && shown.contains(" icanon"), "the terminal is as before: {shown}");
    shell.run(&["models", "list"]).ends(0);

    let keys = [("Password: ", "abc\u{3}")];
    let Some((shown, well)) = at_terminal(&shell, "login owner", &keys, &[]).await else { return };
    assert!(!well && shown.contains(" echo"), "{shown}");
}

#[tokio::test]
async fn a_password_that_is_set_is_asked_for_twice() {
    let gateway = gateway(Database::Sqlite).await;
    let shell = Shell::of_owner(&gateway);
    let keys =
        [("Password of the new user: ", "joes-password\n"), ("The same once more: ", "joes-pasword\n")];
    let Some((shown, well)) = at_terminal(&shell, "users create joe", &keys, &[]).await else { return };
    assert!(!well && shown.contains("the two passwords differ"), "{shown}");
    assert_eq!(shell.run(&["users", "list", "--search", "joe", "--json"]).ends(0).json(), json!([]));
    let keys =
        [("Password of the new user: ", "joes-password\n"), ("The same once more: ", "joes-password\n")];
    let Some((shown, well)) = at_terminal(&shell, "users create joe", &keys, &[]).await else { return };
    assert!(well && !shown.contains("joes-password"), "{shown}");
    gateway.sign_in("joe", "joes-password").await;
}

#[tokio::test]
async fn tables_fit_and_colours_can_be_turned_off() {
    let gateway = gateway(Database::Sqlite).await;
    let shell = Shell::of_owner(&gateway);
    shell.run(&["orgs", "create", "long name ".repeat(9).trim()]).ends(0);
    let Some((shown, _)) = at_terminal(&shell, "orgs list", &[], &[("NO_COLOR", "1")]).await else { return };
    let table: Vec<_> = shown.lines().take(3).map(|it| it.trim_end_matches('\r')).collect();
    assert!(table[0].starts_with("ID  NAME") && !shown.contains('\u{1b}'), "{shown}");
    assert!(table.iter().all(|it| it.chars().count() <= 60) && table[2].contains('…'), "{shown}");
    let Some((shown, _)) = at_terminal(&shell, "orgs list", &[], &[]).await else { return };
    assert!(shown.contains("\u{1b}[1m"), "{shown}");
}

/// As people read it: `1 234`.
fn count(value: &Value) -> String {
    let digits = value.as_i64().unwrap().to_string();
    let groups: Vec<_> =
        digits.as_bytes().rchunks(3).rev().map(|it| std::str::from_utf8(it).unwrap()).collect();
    groups.join("\u{202f}")
}

#[tokio::test]
async fn the_live_view_shows_what_the_gateway_counts_at_any_width() {
    const N: i64 = 12;
    let gateway = start(Options::processes()).await;
    let owner = gateway.owner().await;
    let shell = Shell::of_owner(&gateway);
    let model = Managed::run(&owner, &simulated("vllm", "busy", &[])).await;
    let fault = [("CRASH_AT_START", "1")];
    let broken = Managed::create(&owner, &simulated("vllm", "broken", &fault)).await;
    let (_, client) = owner.new_key(&json!({})).await;
    for _ in 0..N {
        client.chat("busy").await.expect(200);
    }
    let told = async |path: &str| owner.get(path).await.expect(200);
    let sums = eventually("all requests are in the sums", gantry_testkit::PATIENCE, async || {
        let sums = told("/admin/usage/aggregate?group_by=model").await;
        (sums[0]["requests"] == N).then(|| sums[0].clone())
    });
    let sums = sums.await;

    // Where there is no terminal it is printed once; what the engine counts is what was metered.
    // The engine notes the end of a request after its client has the answer.
    let of = |seen: &Value| {
        seen["metrics"].as_array().unwrap().iter().find(|it| it["model_id"] == model.id).unwrap().clone()
    };
    let seen = eventually("the engine answers and rests", gantry_testkit::PATIENCE, async || {
        let seen = shell.run(&["top", "--json"]).ends(0).json();
        (of(&seen)["requests_running"].as_f64() == Some(0.0)).then_some(seen)
    });
    let seen = seen.await;
    let busy = of(&seen);
    let rounded = |name: &str| busy[name].as_f64().unwrap().round() as i64;
    assert_eq!(sums["prompt_tokens"], rounded("prompt_tokens_total"), "{busy}\n{sums}");
    assert_eq!(sums["completion_tokens"], rounded("generation_tokens_total"), "{busy}\n{sums}");
    assert!(seen["throughput"]["req_per_sec"].as_f64().unwrap() > 0.0, "{}", seen["throughput"]);
    let out = shell.run(&["top"]).ends(0).out;
    let line = out.lines().find(|it| it.starts_with("busy")).unwrap();
    let cells: Vec<_> = line.split("  ").map(str::trim).filter(|it| !it.is_empty()).collect();
    let prompt = count(&sums["prompt_tokens"]);
    let generated = count(&sums["completion_tokens"]);
    assert_eq!(cells[..3], ["busy", "vllm", "running"], "{out}");
    assert!(
        cells.contains(&prompt.as_str()) && cells.contains(&generated.as_str()),
        "{prompt} {generated}: {out}"
    );
    assert!(!out.contains('\u{1b}'), "{out:?}");
    let listed = shell.run(&["usage", "top"]).ends(0).out;
    assert!(listed.lines().nth(1).unwrap().contains(&generated), "{listed}");

    // On 60 columns what matters less is left out, on 30 nearly all; never is a line wider than the terminal.
    broken.command(&owner, "start").await;
    broken.reaches(&owner, "failed").await;
    for (columns, there, gone) in [(60, "GENER", "ENGINE"), (30, "STATE", "PROMPT"), (120, "TTFT P95", "…")]
    {
        let (keys, env) = ([("MODEL", "q")], [("NO_COLOR", "1")]);
        let Some((shown, _)) = at_terminal_of(columns, &shell, "top", &keys, &env).await else { return };
        let (_, screen) = shown.split_once("\u{1b}[?1049h").unwrap();
        let (screen, _) = screen.split_once("\u{1b}[?1049l").unwrap();
        let last = screen.rsplit("\u{1b}[H").next().unwrap();
        // The terminal itself makes a line end of two.
        let bare = |it: &str| {
            ["\u{1b}[K", "\u{1b}[J", "\u{1b}[?25h", "\r"]
                .iter()
                .fold(it.to_owned(), |text, code| text.replace(code, ""))
        };
        let lines: Vec<String> = last.split('\n').map(bare).collect();
        assert!(lines.iter().all(|it| it.chars().count() <= columns), "{columns}: {lines:#?}");
        let head = lines.iter().find(|it| it.starts_with("MODEL")).unwrap();
        assert!(head.contains(there) && !head.contains(gone), "{columns}: {lines:#?}");
        assert!(lines.iter().any(|it| it.starts_with("broken: ")), "why it failed: {lines:#?}");
    }
}

#[tokio::test]
async fn the_live_view_follows_the_size_of_the_terminal() {
    let gateway = gateway(Database::Sqlite).await;
    let shell = Shell::of_owner(&gateway);
    let wide = "requests now   latency";
    let (keys, env) = ([("MODEL", "run stty -F $terminal cols 130"), (wide, "q")], [("NO_COLOR", "1")]);
    let Some((shown, well)) = at_terminal_of(24, &shell, "top", &keys, &env).await else { return };
    assert!(well, "{shown}");
    let last = shown.rsplit("\u{1b}[H").next().unwrap();
    let summary = last.lines().find(|it| it.contains(wide)).unwrap();
    assert!(summary.contains("requests/s"), "on one line now: {last}");
}

#[tokio::test]
async fn the_live_view_ends_with_q_and_leaves_the_terminal_as_it_was() {
    let gateway = gateway(Database::Sqlite).await;
    let shell = Shell::of_owner(&gateway);
    for (key, ends_well) in [("q", true), ("\u{3}", false)] {
        let Some((shown, well)) = at_terminal(&shell, "top", &[("q ends", key)], &[]).await else { return };
        assert_eq!(well, ends_well, "{shown}");
        let (screen, after) = shown.split_once("\u{1b}[?1049l").expect("the screen is given back");
        assert!(screen.contains("\u{1b}[?1049h") && screen.contains("MODEL"), "{screen}");
        assert!(
            [" echo", " icanon"].iter().all(|it| after.contains(it)) && !after.contains("-isig"),
            "{after}"
        );
    }
}

#[tokio::test]
async fn the_live_view_can_be_left_while_the_gateway_hangs() {
    let mut gateway = gateway(Database::Sqlite).await;
    let shell = Shell::of_owner(&gateway);
    let hang = format!("run kill -STOP {}", gateway.pid());
    for (key, ends_well) in [("q", true), ("\u{3}", false), ("run kill -TERM $program", false)] {
        let keys = [("q ends", hang.as_str()), ("no answer for", key)];
        let ran = at_terminal(&shell, "top", &keys, &[]).await;
        gateway.signal("CONT");
        let Some((shown, well)) = ran else { return };
        assert_eq!(well, ends_well, "{shown}");
        let (_, after) = shown.split_once("\u{1b}[?1049l").expect("the screen is given back");
        assert!(after.contains(" icanon"), "{after}");
    }
    assert!(gateway.terminate());
}

#[tokio::test]
async fn what_strangers_and_key_holders_send_can_not_command_the_operator_s_terminal() {
    const NAME: &str = "\u{1b}[2J\u{9b}2Jé\u{202e}";
    let gateway = gateway(Database::Sqlite).await;
    let shell = Shell::of_owner(&gateway);
    let (_, client) = gateway.owner().await.new_key(&json!({})).await;
    client.chat(NAME).await;
    let listed = eventually("the request is listed", gantry_testkit::PATIENCE, async || {
        let ran = shell.run(&["usage", "list", "--json"]).ends(0);
        (ran.json() != json!([])).then_some(ran)
    });
    let listed = listed.await;
    assert_eq!(listed.json()[0]["model_name"], NAME, "programs get what was sent");
    assert!(!listed.out.contains(obeyed), "{:?}", listed.out);
    let csv = shell.run(&["usage", "export"]).ends(0).out;
    assert!(csv.contains(NAME), "and a file too: {csv:?}");

    let Some((shown, well)) = at_terminal(&shell, "usage export", &[], &[]).await else { return };
    let shown = shown.replace("\r\n", "\n");
    assert!(well && shown.contains("[2J") && shown.contains('é') && shown.starts_with("id,"), "{shown:?}");
    assert!(!shown.contains(obeyed), "{shown:?}");

    let login = gateway.client().request(Method::POST, "/auth/login");
    let login = login.header("user-agent", HeaderValue::from_bytes("\u{9b}2J".as_bytes()).unwrap());
    let login = login.json(&json!({ "username": "owner", "password": "a guess" }));
    assert_eq!(gateway.client().send(login).await.status, 401);
    let dir = gateway.data_dir().display().to_string();
    let ran = at_terminal(&shell, "audit export", &[], &[("DATA_DIR", &dir)]).await;
    let (shown, well) = ran.unwrap();
    let shown = shown.replace("\r\n", "\n");
    assert!(well && shown.contains("session.login_failed") && shown.contains("\\u009b2J"), "{shown:?}");
    assert!(!shown.contains(obeyed), "{shown:?}");
}

#[tokio::test]
async fn loading_an_image_shows_how_far_it_is() {
    const SIZE: u64 = 512 << 20;
    if !docker("cli: images load at a terminal") {
        return;
    }
    let gateway = gateway(Database::Sqlite).await;
    let shell = Shell::of_owner(&gateway);
    let exports = gateway.data_dir().join("exports");
    let (large, name) = (exports.join("zeros"), format!("gantry/large-{}:1", std::process::id()));
    std::fs::File::create(&large).unwrap().set_len(SIZE).unwrap();
    let [layer, archive] = ["layer.tar", "image.tar"].map(|it| exports.join(it).display().to_string());
    let tar = Command::new("tar").args(["-cf", &layer, "-C", exports.to_str().unwrap(), "zeros"]).status();
    assert!(tar.unwrap().success());
    docker_cli(&["import", &layer, &name]);
    docker_cli(&["save", &name, "-o", &archive]);
    docker_cli(&["rmi", &name]);
    std::fs::remove_file(&layer).unwrap();

    let ran = at_terminal(&shell, "images load image.tar", &[], &[]).await;
    docker_cli(&["rmi", &name]);
    let Some((shown, well)) = ran else { return };
    assert!(well && shown.contains(&format!("loaded {name}")), "{shown}");
    let parts: Vec<u32> =
        shown.split("] ").skip(1).filter_map(|it| it.split_once(" %")?.0.trim().parse().ok()).collect();
    assert!(
        !parts.is_empty() && parts.is_sorted() && parts.iter().all(|it| *it <= 100),
        "{parts:?}: {shown}"
    );
}
