//! `doctor` where folders, files and databases are somebody else's, or another gateway's than the one that runs.

use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt, chown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
};

use gantry_testkit::{Database, Options};
use serde_json::Value;
use sqlx::{Connection, Executor};

use super::{Ran, Shell};
use crate::support::{GANTRY, gateway, start};

/// `nobody` on every Linux.
const NOBODY: u32 = 65_534;
/// `daemon` on every Debian, and `bin` elsewhere: somebody who is neither root nor nobody.
const SOMEBODY: u32 = 1;

fn check<'a>(report: &'a Value, name: &str) -> &'a Value {
    let mut checks = report["checks"].as_array().unwrap().iter();
    checks.find(|it| it["name"] == name).unwrap_or_else(|| panic!("no check `{name}`: {report}"))
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A shell of a user without rights, with the program where that user can run it.
struct Nobody {
    shell: Shell,
    program: PathBuf,
}

impl Nobody {
    fn new() -> Self {
        let shell = Shell::at("http://127.0.0.1:1");
        let program = shell.home.path().join("gantry");
        fs::hard_link(GANTRY, &program).or_else(|_| fs::copy(GANTRY, &program).map(drop)).unwrap();
        mode(shell.home.path(), 0o755);
        Self { shell, program }
    }

    /// A folder in the home, of this user.
    fn folder(&self, name: &str, owner: u32) -> PathBuf {
        let dir = self.shell.home.path().join(name);
        fs::create_dir_all(&dir).unwrap();
        mode(&dir, 0o700);
        chown(&dir, Some(owner), Some(owner)).unwrap();
        dir
    }

    fn run(&self, args: &[&str]) -> Ran {
        let mut command = std::process::Command::new(&self.program);
        command
            .args(args)
            .current_dir(self.shell.home.path())
            .env_clear()
            .env("HOME", self.shell.home.path());
        command.env("PATH", std::env::var_os("PATH").unwrap()).uid(NOBODY).gid(NOBODY);
        Ran::of(command.output().unwrap())
    }

    fn doctor(&self, data_dir: &Path) -> Value {
        self.run(&["doctor", "--json", "--data-dir", data_dir.to_str().unwrap()]).json()
    }
}

#[tokio::test]
async fn the_folder_of_a_gateway_of_another_user_is_left_to_it() {
    if !gantry_testkit::root_with("cli: doctor of another user", &[]) {
        return;
    }
    let nobody = Nobody::new();
    let theirs = nobody.folder("theirs", SOMEBODY);
    let file = theirs.join("gantry.db");
    gantry_store::Store::open(&format!("sqlite://{}", file.display())).await.unwrap().close().await;
    // The folder itself, and one below it that can't even be seen.
    for dir in [theirs.clone(), theirs.join("below")] {
        let report = nobody.doctor(&dir);
        let found = check(&report, "data_dir");
        let fix = found["fix"].as_str().unwrap();
        assert_eq!(found["status"], "fail", "{found}");
        assert!(
            fix.contains("sudo -u ")
                && fix.contains(&format!("env DATA_DIR={} gantry doctor", dir.display())),
            "{fix}"
        );
        assert!(!fix.contains("sudo -u nobody") && !fix.contains("-u root"), "{fix}");
        let all = report.to_string();
        for harm in ["chown", "install -d", &format!("chmod a+rX {}", theirs.display())] {
            assert!(!all.contains(harm), "{harm}: {report}");
        }
        // What nobody can look at is not empty.
        let database = check(&report, "database");
        assert_eq!(database["status"], "fail", "{database}");
        assert!(database["found"].as_str().unwrap().contains("ermission denied"), "{database}");
    }
    let said = nobody.run(&["audit", "verify", "--data-dir", theirs.to_str().unwrap()]).ends(1).err;
    assert!(said.contains("ermission denied") && !said.contains("there is no database"), "{said}");
    // Where nothing is yet, it may be made.
    let fix = check(&nobody.doctor(Path::new("/usr/gantry-data")), "data_dir")["fix"].clone();
    assert!(fix.as_str().unwrap().contains("install -d -m 700"), "{fix}");
}

#[tokio::test]
async fn files_that_another_user_left_in_the_folder_are_told() {
    if !gantry_testkit::root_with("cli: doctor with files of another user", &[]) {
        return;
    }
    let nobody = Nobody::new();
    let own = nobody.folder("own", NOBODY);
    let spool = nobody.folder("own/spool", NOBODY);
    let file = own.join("gantry.db");
    gantry_store::Store::open(&format!("sqlite://{}", file.display())).await.unwrap().close().await;
    chown(&file, Some(NOBODY), Some(NOBODY)).unwrap();
    let healthy = nobody.doctor(&own);
    for name in ["data_dir", "data_files", "database", "database_files"] {
        assert_eq!(check(&healthy, name)["status"], "ok", "{name}: {healthy}");
    }
    // As after `sudo gantry serve`.
    let segment = spool.join("0-1.log");
    fs::write(&segment, "").unwrap();
    mode(&segment, 0o600);
    let log = own.join("gantry.db-wal");
    fs::write(&log, "").unwrap();
    mode(&log, 0o600);
    let report = nobody.doctor(&own);
    for (name, path) in [("data_files", &segment), ("database_files", &log)] {
        let found = check(&report, name);
        assert_eq!(found["status"], "fail", "{report}");
        assert!(found["found"].as_str().unwrap().contains(path.to_str().unwrap()), "{found}");
        let fix = format!("--reference={} {}", own.display(), path.display());
        assert!(found["fix"].as_str().unwrap().contains(&fix), "{found}");
    }
}

#[tokio::test]
async fn another_gateway_than_the_one_that_runs_is_told() {
    let gateway = gateway(Database::Sqlite).await;
    let shell = Shell::at(&gateway.url);
    let report = shell.run(&["doctor", "--json", "--data-dir", "elsewhere"]).json();
    let found = check(&report, "same_gateway");
    assert_eq!(found["status"], "warn", "{report}");
    assert!(found["found"].as_str().unwrap().ends_with("DATA_DIR elsewhere"), "{found}");
    assert!(found["fix"].as_str().unwrap().contains("leave DATA_DIR out"), "{found}");
    assert!(check(&report, "data_dir")["found"].as_str().unwrap().contains("elsewhere"), "{report}");
}

#[tokio::test]
async fn a_gateway_tells_its_settings_to_its_own_user_only() {
    if !gantry_testkit::root_with("cli: doctor beside the gateway of another user", &[]) {
        return;
    }
    let gateway = gateway(Database::Sqlite).await;
    let nobody = Nobody::new();
    let report = nobody.run(&["doctor", "--json", "--url", &gateway.url]).json();
    let found = check(&report, "same_gateway");
    assert_eq!(found["status"], "warn", "{report}");
    assert_eq!(found["fix"], "sudo -u root gantry doctor", "{found}");
    assert!(!report.to_string().contains(gateway.data_dir().to_str().unwrap()), "{report}");
}

#[tokio::test]
async fn a_gateway_that_is_not_ready_says_why() {
    let gateway = start(Options::default().env("SHUTDOWN_DELAY_SEC", "120")).await;
    gateway.signal("TERM");
    let client = gateway.client();
    let leaves = async || (client.get("/readyz").await.status == 503).then_some(());
    gantry_testkit::eventually("it leaves", gantry_testkit::PATIENCE, leaves).await;
    let report = Shell::at(&gateway.url).run(&["doctor", "--json"]).ends(1).json();
    let found = check(&report, "readiness");
    assert_eq!(found["status"], "fail", "{found}");
    let text = found["found"].as_str().unwrap();
    assert!(text.starts_with("shutting_down: ") && text.contains("database ok"), "{text}");
}

#[tokio::test]
async fn a_role_that_may_not_make_tables_is_told() {
    if !Database::all("cli: doctor of a role without CREATE").contains(&Database::Postgres) {
        return;
    }
    let gateway = gateway(Database::Postgres).await;
    let url = gateway.database_url().unwrap();
    let role = format!("gantry_reader_{}", std::process::id());
    let (_, place) = url.split_once('@').unwrap();
    let mut owner = sqlx::PgConnection::connect(&url).await.unwrap();
    let schema: String = sqlx::query_scalar("SELECT current_schema()").fetch_one(&mut owner).await.unwrap();
    let make = format!(
        "CREATE ROLE {role} LOGIN PASSWORD '{role}'; GRANT USAGE ON SCHEMA {schema} TO {role}; GRANT SELECT ON ALL TABLES IN \
         SCHEMA {schema} TO {role}"
    );
    owner.execute(sqlx::AssertSqlSafe(make)).await.unwrap();
    let theirs = format!("postgres://{role}:{role}@{place}");
    let shell = Shell::at("http://127.0.0.1:1");
    let look = || shell.run(&["doctor", "--json", "--database-url", &theirs]).json();
    let complete = look();
    // As an upgrade finds it.
    owner.execute("DELETE FROM _sqlx_migrations WHERE version > 1").await.unwrap();
    let older = look();
    let clean = format!("DROP OWNED BY {role}; DROP ROLE {role}");
    owner.execute(sqlx::AssertSqlSafe(clean)).await.unwrap();
    assert_eq!(check(&complete, "database")["status"], "warn", "{complete}");
    assert_eq!(check(&older, "database")["status"], "fail", "{older}");
    for report in [complete, older] {
        assert!(
            check(&report, "database")["fix"].as_str().unwrap().contains("GRANT CREATE ON SCHEMA"),
            "{report}"
        );
    }
}
