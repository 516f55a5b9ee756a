//! Verbs that work on the database and the settings, without asking a gateway: which settings they take, a backup that is
//! restored, and a lost password.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use gantry_testkit::{Client, Database, Gateway, Options, PATIENCE, eventually};
use serde_json::{Value, json};

use super::{Ran, Shell};
use crate::support::{gateway, start};

/// The flags with which an offline verb finds the gateway's data.
pub(super) fn settings_of(gateway: &Gateway) -> Vec<String> {
    let mut flags = vec!["--data-dir".to_owned(), gateway.data_dir().display().to_string()];
    flags.extend(gateway.database_url().into_iter().flat_map(|it| ["--database-url".to_owned(), it]));
    flags
}

pub(super) fn words(flags: &[String]) -> Vec<&str> {
    flags.iter().map(String::as_str).collect()
}

#[test]
fn settings_before_the_verb_count_as_those_behind_it() {
    let shell = Shell::at("http://127.0.0.1:1");
    let value = |args: &[&str], name: &str| {
        let rows = shell.run(args).ends(0).json();
        let row = rows.as_array().unwrap().iter().find(|it| it["name"] == name).unwrap().clone();
        (row["value"].as_str().unwrap().to_owned(), row["source"].as_str().unwrap().to_owned())
    };
    let flag = |text: &str| (text.to_owned(), "flag".to_owned());
    let before = ["--data-dir", "/before", "settings", "--json"];
    assert_eq!(value(&before, "DATA_DIR"), flag("/before"));
    let both =
        ["--data-dir", "/before", "--stop-timeout-sec", "7", "settings", "--json", "--data-dir", "/behind"];
    assert_eq!(value(&both, "DATA_DIR"), flag("/behind"));
    assert_eq!(value(&both, "STOP_TIMEOUT_SEC"), flag("7"));

    // Verbs below others, which would answer about another database.
    let missing = format!("sqlite://{}", shell.home.path().join("none.db").display());
    for verb in [["audit", "verify"], ["supervisor", "show"], ["owner", "reset-password"]] {
        let said =
            shell.run(&[&["--database-url", "postgres://x:y@127.0.0.1:1/z"], &verb[..]].concat()).ends(1).err;
        assert!(said.contains("can't open the database"), "{verb:?}: {said}");
    }
    let said = shell.run(&["--database-url", &missing, "audit", "verify"]).ends(1).err;
    assert!(said.contains("none.db"), "{said}");
    // A gateway that is asked has its own.
    for verb in [&["models", "list"][..], &["usage", "top"], &["audit", "list"], &["login", "me"]] {
        let said = shell.run(&[&["--gateway-listen", "127.0.0.1:2"], verb].concat()).ends(2).err;
        assert!(said.contains("--gateway-listen") && said.contains("--url"), "{verb:?}: {said}");
    }
    // In front of `serve` it is the address that counts: this one is refused before anything is made.
    let said = shell.run(&["--gateway-listen", "nonsense", "serve"]).ends(1).err;
    assert!(said.contains("GATEWAY_LISTEN (from flag)"), "{said}");
}

/// Every file below a folder, with its mode.
fn files(dir: &Path) -> Vec<(PathBuf, u32)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        if entry.path().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.push((entry.path(), entry.metadata().unwrap().permissions().mode() & 0o777));
        }
    }
    found
}

#[tokio::test]
async fn a_backup_of_a_gateway_that_runs_serves_elsewhere() {
    let original = gateway(Database::Sqlite).await;
    let owner = original.owner().await;
    owner.post("/admin/orgs", &json!({ "name": "Analysts" })).await.expect(201);
    let (_, client) = owner.new_key(&json!({ "name": "kept" })).await;
    let shell = Shell::of_owner(&original);
    // The folder above it is not there yet, as on a machine that was never backed up.
    let dir = shell.home.path().join("backups/monday");
    let to = dir.to_str().unwrap();
    let flags = settings_of(&original);
    let made = shell.run(&[&["backup", to][..], &words(&flags)].concat()).ends(0);
    assert!(made.out.contains("gantry.db") && made.err.contains("not in it"), "{}{}", made.out, made.err);
    // What came after is not in it: it is of one moment, whatever the write-ahead log still held.
    owner.post("/admin/orgs", &json!({ "name": "Later" })).await.expect(201);
    let all = files(&dir);
    assert!(all.len() >= 4 && all.iter().all(|it| it.1 == 0o600), "{all:?}");
    assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
    let again = shell.run(&[&["backup", to][..], &words(&flags)].concat()).ends(1);
    assert!(again.err.contains("is not empty"), "{}", again.err);

    // On the empty data directory of another one, as docs/backup.md has it.
    let mut restored = start(Options { owner: false, ..Options::default() }).await;
    assert!(restored.terminate());
    fs::remove_dir_all(restored.data_dir()).unwrap();
    gantry_testkit::copy(&dir, &restored.data_dir());
    restored.restart().await;
    let orgs = restored.owner().await.get("/admin/orgs").await.expect(200);
    let names: Vec<_> = orgs.as_array().unwrap().iter().map(|it| it["name"].clone()).collect();
    assert!(names.contains(&json!("Analysts")) && !names.contains(&json!("Later")), "{names:?}");
    assert_eq!(restored.client_of(&client).get("/v1/models").await.status, 200, "the key is there");
    // The session, too: the secret that signs it came along.
    assert_eq!(owner.moved(&restored.url).get("/auth/me").await.status, 200);
    let verified = shell.run(&["audit", "verify", "--data-dir", restored.data_dir().to_str().unwrap()]);
    assert!(verified.ends(0).out.starts_with("OK: "));
}

#[tokio::test]
async fn a_backup_on_postgres_is_a_dump_that_was_read_back() {
    if !Database::all("cli: backup").contains(&Database::Postgres) {
        return;
    }
    let gateway = gateway(Database::Postgres).await;
    let shell = Shell::at(&gateway.url);
    let dir = shell.home.path().join("backup");
    let flags = settings_of(&gateway);
    let ran = shell.run(&[&["backup", dir.to_str().unwrap()][..], &words(&flags)].concat()).ends(0);
    assert!(ran.out.contains("db/dump.sql: the database, read back"), "{}", ran.out);
    assert!(dir.join("secrets/session").is_file());
    assert!(files(&dir).iter().all(|it| it.1 == 0o600), "{:?}", files(&dir));
    let dump = fs::read_to_string(dir.join("db/dump.sql")).unwrap();
    let key = fs::read_to_string(gateway.data_dir().join("secrets/engine-key")).unwrap();
    assert!(dump.contains("COPY public.users") && !dump.contains(key.trim()), "secrets are sealed");
    let password = gateway.database_url().unwrap();
    assert!(!ran.err.contains(&password) && !ran.out.contains(&password), "{}{}", ran.out, ran.err);
}

#[test]
fn what_a_demo_makes_is_in_the_audit_log() {
    let shell = Shell::at("http://127.0.0.1:1");
    let dir = shell.home.path().join("data");
    let settings = ["--data-dir", dir.to_str().unwrap()];
    // Twice: the second start revokes the key of the first.
    for n in [1, 2] {
        let mut command = shell.command(&[&["serve", "--demo"], &settings[..]].concat());
        command.env("CONTAINER_RUNTIME", "process").env("STOP_MODELS_ON_SHUTDOWN", "true");
        command.env("GATEWAY_LISTEN", "127.0.0.1:0").env("METRICS_LISTEN", "127.0.0.1:0");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // It says one or the other within a minute, or ends.
        let said =
            lines.map_while(Result::ok).find(|it| it.starts_with("  Key ") || it.starts_with("  Demo "));
        Command::new("kill").arg(child.id().to_string()).status().unwrap();
        child.wait().unwrap();
        assert!(said.is_some_and(|it| it.contains("gty_")), "start {n}");
    }
    let log = shell.run(&[&["audit", "export"], &settings[..]].concat()).ends(0).out;
    assert!(!log.contains("token"), "{log}");
    let rows: Vec<Value> = log.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert!(rows.iter().all(|it| it["actor_type"] == "settings"), "{log}");
    let actions: Vec<_> = rows.iter().map(|it| it["action"].as_str().unwrap()).collect();
    let first = ["model.create", "model.start", "org.create", "user.create", "key.create"];
    assert_eq!(actions, [&first[..], &["model.start", "key.revoke", "key.create"]].concat(), "{log}");
    assert!(shell.run(&[&["audit", "verify"], &settings[..]].concat()).ends(0).out.starts_with("OK: 8 rows"));
}

async fn rows(owner: &Client) -> Vec<Value> {
    owner.get("/admin/audit?action=user.change").await.expect(200).as_array().unwrap().clone()
}

#[tokio::test]
async fn an_owner_who_lost_his_password_gets_a_new_one() {
    for database in Database::one("cli: owner reset-password") {
        let gateway = gateway(database).await;
        let before = gateway.owner().await;
        let shell = Shell::at(&gateway.url);
        let flags = settings_of(&gateway);
        let reset = |more: &[&str], input: &str| -> Ran {
            shell.run_with(&[&["owner", "reset-password"], more, &words(&flags)].concat(), input)
        };
        let short = reset(&[], "short\n").ends(1);
        assert!(short.err.contains("8 to 256"), "{}", short.err);
        let other = reset(&["--username", "nobody"], "long-enough-1\n").ends(1);
        assert!(other.err.contains("`nobody`") && other.err.contains("`owner`"), "{}", other.err);
        assert_eq!(before.get("/auth/me").await.status, 200, "nothing was changed yet");

        let done = reset(&[], "a-new-password\n").ends(0);
        assert!(done.out.is_empty() && done.err.contains("owner has a new password"), "{}", done.err);
        let ended = async || (before.get("/auth/me").await.status == 401).then_some(());
        eventually("the old session is ended", PATIENCE, ended).await;
        let refused = json!({ "username": "owner", "password": "owner-password" });
        assert_eq!(gateway.client().post("/auth/login", &refused).await.status, 401);
        let owner = gateway.sign_in("owner", "a-new-password").await;
        let row = rows(&owner).await[0].clone();
        assert_eq!(
            (&row["actor_type"], &row["after"]),
            (&json!("settings"), &json!({ "password_changed": true }))
        );
        assert_eq!(row["user_agent"], "gantry owner reset-password", "{row}");

        // Made by the program: alone on standard output.
        let made = reset(&["--generate", "--username", "OWNER"], "").ends(0);
        let password = made.out.trim().to_owned();
        assert!(password.len() >= 32 && !made.err.contains(&password), "{}", made.err);
        let owner = gateway.sign_in("owner", &password).await;
        assert_eq!(rows(&owner).await.len(), 2);
        let verified = shell.run(&[&["audit", "verify"][..], &words(&flags)].concat()).ends(0).out;
        assert!(verified.starts_with("OK: "), "{verified}");

        // With two of them it must be said which.
        let second = json!({ "username": "second", "password": "second-password", "role": "owner" });
        owner.post("/admin/users", &second).await.expect(201);
        let which = reset(&["--generate"], "").ends(1);
        assert!(which.err.contains("`owner`") && which.err.contains("`second`"), "{}", which.err);
        assert!(which.out.is_empty());
    }
}

#[tokio::test]
async fn the_first_owner_is_made_on_the_machine_while_the_gateway_runs() {
    for database in Database::one("cli: owner create") {
        let gateway = start(Options { owner: false, ..Options::default().on(database) }).await;
        let shell = Shell::at(&gateway.url);
        let flags = settings_of(&gateway);
        let create = |more: &[&str], input: &str| -> Ran {
            shell.run_with(&[&["owner", "create"], more, &words(&flags)].concat(), input)
        };
        // Until there is an owner, nobody can sign in, and the error says what to do.
        let refused = shell.run_with(&["login", "ada"], "long-enough-1\n").ends(4);
        assert!(
            refused.err.contains("no owner yet") && refused.err.contains("gantry owner create"),
            "{}",
            refused.err
        );
        let lost = shell.run_with(&[&["owner", "reset-password"][..], &words(&flags)].concat(), "x").ends(1);
        assert!(lost.err.contains("gantry owner create"), "{}", lost.err);

        for (args, input, why) in [
            (&["ada"][..], "short\n", "8 to 256"),
            (&[" ada"], "long-enough-1\n", "`username`"),
            (&["ada", "--org", ""], "long-enough-1\n", "`org_name`"),
            (&["ada", "--password-file", "none"], "", "can't read the password from none"),
        ] {
            let refused = create(args, input).ends(1);
            assert!(refused.err.contains(why), "{}", refused.err);
        }
        create(&[], "long-enough-1\n").ends(2);
        fs::write(shell.home.path().join("password"), "from-a-file-1\n").unwrap();
        let made = create(&["ada", "--org", "Acme", "--password-file", "password"], "").ends(0);
        assert!(made.out.is_empty() && made.err.contains("ada is the owner now"), "{}", made.err);
        assert!(!made.err.contains("from-a-file-1"), "{}", made.err);
        // The gateway knows at once.
        shell.run_with(&["login", "ada"], "from-a-file-1\n").ends(0);
        let owner = gateway.sign_in("ada", "from-a-file-1").await;
        let orgs = owner.get("/admin/orgs").await.expect(200);
        assert_eq!((orgs.as_array().unwrap().len(), &orgs[0]["name"]), (1, &json!("Acme")));
        let rows = owner.get("/admin/audit?action=owner.bootstrap").await.expect(200);
        assert_eq!(
            (&rows[0]["actor_type"], &rows[0]["user_agent"]),
            (&json!("settings"), &json!("gantry owner create"))
        );
        // Once.
        let again = create(&["eve"], "long-enough-1\n").ends(1);
        assert!(again.err.contains("there is an owner already"), "{}", again.err);
        let wrong = shell.run_with(&["login", "ada"], "wrong-password\n").ends(4);
        assert!(wrong.err.contains("the user name or the password is wrong"), "{}", wrong.err);
    }
}

#[test]
fn an_owner_is_not_made_where_there_is_no_database() {
    let shell = Shell::at("http://127.0.0.1:1");
    let dir = shell.home.path().join("data");
    let args = ["owner", "create", "ada", "--data-dir", dir.to_str().unwrap()];
    let refused = shell.run_with(&args, "long-enough-1\n").ends(1);
    assert!(refused.err.contains("`gantry serve`"), "{}", refused.err);
    assert!(!dir.exists(), "nothing was made");
}

#[tokio::test]
async fn a_bootstrap_password_that_is_not_used_is_told() {
    let mut gateway = start(Options::bootstrap()).await;
    assert!(!gateway.log().contains("ADMIN_BOOTSTRAP_PASSWORD is not used"), "{}", gateway.log());
    gateway.set_env("ADMIN_BOOTSTRAP_PASSWORD", "another-password");
    assert!(gateway.terminate());
    gateway.restart().await;
    let told = async || gateway.log().contains("ADMIN_BOOTSTRAP_PASSWORD is not used").then_some(());
    eventually("it says so", PATIENCE, told).await;
    gateway.sign_in("owner", "owner-password").await;
}

#[test]
fn an_empty_export_is_not_called_fine() {
    let shell = Shell::at("http://127.0.0.1:1");
    fs::write(shell.home.path().join("audit.jsonl"), "\n").unwrap();
    let ran = shell.run(&["audit", "verify", "--file", "audit.jsonl"]).ends(1);
    assert!(ran.out.is_empty() && ran.err.contains("no row"), "{}{}", ran.out, ran.err);
}
