//! `login` and `logout`: where the session is kept, and what is said without one.

use std::os::unix::fs::PermissionsExt;

use gantry_testkit::Database;

use super::Shell;
use crate::support::gateway;

#[tokio::test]
async fn a_session_is_kept_for_its_user_alone_and_ends_with_logout() {
    let gateway = gateway(Database::Sqlite).await;
    let shell = Shell::at(&gateway.url);
    let refused = shell.run(&["models", "list"]).ends(4);
    assert!(refused.err.contains("run `gantry login`") && refused.out.is_empty(), "{}", refused.err);

    let said = shell.run_with(&["login", "owner"], "owner-password\n").ends(0);
    assert!(said.out.contains("as owner (owner)"), "{}", said.out);
    let file = shell.home.path().join(".config/gantry/session.json");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let kept = std::fs::read_to_string(&file).unwrap();
    assert!(kept.contains("svc_session=") && !kept.contains("owner-password"), "{kept}");
    let cookie = kept.split("svc_session=").nth(1).unwrap().split('"').next().unwrap().to_owned();
    for args in [vec!["models", "list"], vec!["login", "owner", "--json"], vec!["logout", "--json"]] {
        let ran = shell.run_with(&args, "owner-password").ends(0);
        assert!(!ran.out.contains(&cookie) && !ran.err.contains(&cookie), "a cookie is never printed");
    }
    shell.run(&["models", "list"]).ends(4);
    assert!(!std::fs::read_to_string(&file).unwrap().contains("svc_session"));
    shell.run(&["logout"]).ends(0);
}

/// A shell of somebody who has the file with this one's session.
fn copy_of(shell: &Shell, url: &str) -> Shell {
    let other = Shell::at(url);
    let file = ".config/gantry/session.json";
    std::fs::create_dir_all(other.home.path().join(".config/gantry")).unwrap();
    std::fs::copy(shell.home.path().join(file), other.home.path().join(file)).unwrap();
    other
}

#[tokio::test]
async fn an_ended_session_is_gone_for_the_command_line_too() {
    let gateway = gateway(Database::Sqlite).await;
    let shell = Shell::of_owner(&gateway);
    // The session is that of the file, so that the gateway ends it behind the shell's back.
    let other = copy_of(&shell, &gateway.url);
    other.run(&["logout"]).ends(0);
    let ran = shell.run(&["keys", "list"]).ends(4);
    assert!(ran.err.contains("session has ended") && ran.err.contains("gantry login"), "{}", ran.err);
    // Also then it ends well, and nothing is left.
    shell.run(&["logout"]).ends(0);
}

#[tokio::test]
async fn signing_in_again_ends_the_session_before() {
    let gateway = gateway(Database::Sqlite).await;
    let shell = Shell::of_owner(&gateway);
    // A second client with the old cookie.
    let other = copy_of(&shell, &gateway.url);
    other.run(&["keys", "list"]).ends(0);
    shell.run_with(&["login", "owner"], "wrong-password").ends(4);
    other.run(&["keys", "list"]).ends(0);
    shell.run_with(&["login", "owner"], "owner-password").ends(0);
    other.run(&["keys", "list"]).ends(4);
    shell.run(&["keys", "list"]).ends(0);
}

#[tokio::test]
async fn what_a_crash_left_beside_the_session_keeps_nobody_from_signing_in() {
    let gateway = gateway(Database::Sqlite).await;
    let shell = Shell::at(&gateway.url);
    // As programs before this one named it, and as this one does.
    let script = "cd .config/gantry && touch session.json.$$ session.json.new && exec \"$0\" login owner";
    std::fs::create_dir_all(shell.home.path().join(".config/gantry")).unwrap();
    let mut command = std::process::Command::new("sh");
    command.args(["-c", script, crate::support::GANTRY]).current_dir(shell.home.path());
    command.env("HOME", shell.home.path()).env("GANTRY_URL", &gateway.url);
    let ran = super::Ran::of(command.env("GANTRY_PASSWORD", "owner-password").output().unwrap()).ends(0);
    assert!(ran.out.contains("signed in"), "{}", ran.out);
    shell.run(&["keys", "list"]).ends(0);
}

#[tokio::test]
async fn who_is_refused_is_told_why() {
    let gateway = gateway(Database::Sqlite).await;
    let shell = Shell::at(&gateway.url);
    let ran = shell.run_with(&["login", "owner"], "wrong-password\n").ends(4);
    assert!(ran.err.contains("the user name or the password is wrong"), "{}", ran.err);
    let ran = shell.run(&["login", "owner"]).ends(2);
    assert!(ran.err.contains("GANTRY_PASSWORD"), "{}", ran.err);
    let mut command = shell.command(&["login", "owner", "--json"]);
    let ran = super::Ran::of(command.env("GANTRY_PASSWORD", "owner-password").output().unwrap()).ends(0);
    assert_eq!(ran.json()["user"]["role"], "owner");

    // A role that may not.
    shell.run_with(&["users", "create", "joe"], "joes-password\n").ends(0);
    shell.run_with(&["login", "joe"], "joes-password\n").ends(0);
    let ran = shell.run(&["models", "show", "1", "--json"]).ends(4);
    assert!(ran.out.is_empty(), "{}", ran.out);
    assert_eq!((&ran.error()["error"]["code"], &ran.error()["exit_code"]), (&"forbidden".into(), &4.into()));
    shell.run(&["keys", "list", "--own"]).ends(0);
}

#[test]
fn an_address_without_a_gateway_is_named() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let shell = Shell::at(&url);
    let ran = shell.run(&["models", "list"]).ends(3);
    assert!(ran.err.contains(&url) && ran.err.contains("connection refused"), "{}", ran.err);
    let ran = shell.run(&["models", "list", "--url", "http://no-such-host.invalid"]).ends(3);
    assert!(ran.err.contains("can't be resolved"), "{}", ran.err);
    for wrong in ["localhost:8084", "ftp://a", "http://a@b"] {
        let ran = shell.run(&["models", "list", "--url", wrong]).ends(2);
        assert!(ran.err.contains("is not the address of a gateway"), "{}", ran.err);
    }
    shell.run(&["modles"]).ends(2);
    shell.run(&["models", "start"]).ends(2);
}
