//! What differs at a terminal: colours, width, a password that is not shown, the live view. `script` makes the terminal.

use std::{
    io::{Read, Write},
    process::{Command, Stdio},
    time::Duration,
};

use gantry_testkit::{Database, eventually, skip};

use super::Shell;
use crate::support::{GANTRY, gateway};

/// Runs `args` at a terminal of 60 columns, sends `keys` one by one, each when its text has been shown, and gives what
/// was shown in the end.
async fn at_terminal(
    shell: &Shell,
    args: &str,
    keys: &[(&str, &str)],
    env: &[(&str, &str)],
) -> Option<(String, bool)> {
    if Command::new("script").arg("--version").output().is_err() {
        skip("cli: at a terminal", "there is no `script`");
        return None;
    }
    let line = format!("stty cols 60 rows 20; '{GANTRY}' {args}; code=$?; stty -a; exit $code");
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
        eventually(&format!("`{text}` is shown"), Duration::from_secs(30), there).await;
        input.write_all(keys.as_bytes()).unwrap();
        input.flush().unwrap();
    }
    let ended = async || child.try_wait().unwrap();
    let status = eventually("the program ends", Duration::from_secs(30), ended).await;
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
