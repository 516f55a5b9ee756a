//! `gantry package export`, `import` and `restore`, and `gantry jobs`: what a gateway does with packages.

use std::fs;

use axum::{
    Json, Router,
    http::{HeaderMap, HeaderValue, Uri, header::SET_COOKIE},
};
use gantry_testkit::{Database, Gateway, Options};
use serde_json::{Value, json};

use super::{Shell, with_engine};
use crate::support::{gateway, start};

/// A gateway with a model of an engine that is a program, and 8 MiB of weights.
async fn with_weights() -> (Gateway, tempfile::TempDir, Shell) {
    let (gateway, home) = with_engine().await;
    fs::write(gateway.models_dir().join("m.gguf"), vec![7; 8 << 20]).unwrap();
    let shell = Shell::of_owner(&gateway);
    shell.make(&["qwen"]);
    (gateway, home, shell)
}

#[tokio::test]
async fn a_package_is_exported_verified_and_imported_from_the_shell() {
    let (gateway, _home, shell) = with_weights().await;
    let exports = gateway.data_dir().join("exports");
    let estimate = shell.run(&["package", "export", "all", "--models", "--estimate"]).ends(0).out;
    assert!(estimate.contains("8.0 MiB") && estimate.contains("needed, 1.2 times that"), "{estimate}");
    assert!(!exports.join("all").exists());

    let done = shell.run(&["package", "export", "all", "--models", "--part-size", "4M"]).ends(0);
    assert!(done.out.starts_with("deploy-1 is completed") && done.out.contains("qwen"), "{}", done.out);
    assert!(done.err.contains("copying 1 files of weights"), "each step is a line: {}", done.err);
    assert!(exports.join("all/parts/000002").is_file());
    let dir = exports.join("all");
    shell.run(&["package", "verify", dir.to_str().unwrap()]).ends(0);
    let one = shell.run(&["package", "export", "--model", "qwen", "one", "--json"]).ends(0).json();
    assert_eq!((&one["status"], &one["job_type"]), (&json!("completed"), &json!("model_export")), "{one}");
    assert!(exports.join("one/models/m.gguf").is_file());
    let delta =
        shell.run(&["package", "export", "delta", "--models", "--since", "all", "--json"]).ends(0).json();
    assert!(delta["artifacts"]["base_id"].is_string(), "{delta}");

    // What a newcomer types first.
    let tip = shell.run(&["export", "all"]).ends(2).err;
    assert!(tip.contains("package export"), "{tip}");
    let wrong = shell.run(&["package", "export", "../elsewhere"]).ends(6).err;
    assert!(wrong.contains("EXPORT_DIRS"), "{wrong}");
    let both = shell.run(&["package", "export", "--model", "qwen", "x", "--no-database"]).ends(2).err;
    assert!(both.contains("cannot be used with"), "{both}");
    shell.run(&["package", "export", "--model", "other", "x"]).ends(5);

    // The other side: nothing is there.
    let (other, _home) = with_engine().await;
    fs::remove_file(other.models_dir().join("m.gguf")).unwrap();
    gantry_testkit::copy(&dir, &other.data_dir().join("exports/all"));
    let shell = Shell::of_owner(&other);
    let plan = shell.run(&["package", "import", "all", "--dry-run"]).ends(0).out;
    assert!(plan.contains("qwen") && plan.contains("1, 8.0 MiB"), "{plan}");
    let refused = shell.run(&["package", "import", "all"]).ends(2);
    assert!(refused.err.contains("--yes") && refused.out.contains("new models"), "{}", refused.err);
    assert!(!other.models_dir().join("m.gguf").exists(), "nothing is done before somebody agreed");
    let done = shell.run(&["package", "import", "all", "--yes"]).ends(0).out;
    assert!(done.contains("deploy-1 is completed"), "{done}");
    assert_eq!(fs::read(other.models_dir().join("m.gguf")).unwrap(), vec![7; 8 << 20]);
    let taken = shell.run(&["package", "import", "all", "--model", "qwen", "--yes"]).ends(1);
    assert!(taken.err.contains("--rename"), "{}", taken.err);
    let args = ["package", "import", "all", "--model", "qwen", "--rename", "--yes", "--json"];
    assert_eq!(shell.run(&args).ends(0).json()["served_name"], "qwen-IMPORTED");
    let args = ["package", "import", "all", "--model", "model-1.json", "--as", "third", "--yes"];
    let made = shell.run(&args).ends(0);
    assert!(
        made.out.contains("third is imported") && made.err.contains("gantry models start third"),
        "{}",
        made.err
    );
    let unknown = shell.run(&["package", "import", "all", "--model", "nobody"]).ends(5).err;
    assert!(unknown.contains("it has: qwen"), "{unknown}");
    shell.run(&["package", "import", "gone", "--yes"]).ends(5);
}

#[tokio::test]
async fn jobs_are_listed_shown_and_cancelled() {
    let (gateway, _home, shell) = with_weights().await;
    let empty = shell.run(&["jobs"]).ends(0);
    assert!(empty.err.contains("there was no job yet"), "{}", empty.err);
    shell.run(&["package", "export", "all", "--no-database"]).ends(0);
    let list = shell.run(&["jobs", "list"]).ends(0).out;
    assert!(list.contains("deploy-1") && list.contains("completed") && list.contains("100 %"), "{list}");
    let shown = shell.run(&["job", "show", "1"]).ends(0).out;
    assert!(shown.contains("deploy-1 export") && shown.contains("package"), "{shown}");
    assert_eq!(shell.run(&["jobs", "show", "deploy-1", "--json"]).ends(0).json()["status"], "completed");
    shell.run(&["jobs", "follow", "1"]).ends(0);
    let late = shell.run(&["jobs", "cancel", "1"]).ends(7).err;
    assert!(late.contains("it is completed"), "{late}");
    shell.run(&["jobs", "show", "99"]).ends(5);

    // A file that takes some seconds to read, and no room.
    fs::File::create(gateway.models_dir().join("m.gguf")).unwrap().set_len(16 << 30).unwrap();
    let mut export = shell.command(&["package", "export", "large", "--models"]);
    let export = export.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let child = export.spawn().unwrap();
    let runs = async || {
        let list = shell.run(&["jobs", "--json"]).ends(0).json();
        (list[0]["id"] == "deploy-2" && list[0]["status"] == "running").then_some(())
    };
    gantry_testkit::eventually("the export runs", gantry_testkit::PATIENCE, runs).await;
    let second = shell.run(&["package", "export", "another"]).ends(7).err;
    assert!(second.contains("another deployment job runs"), "{second}");
    let cancelled = shell.run(&["jobs", "cancel", "2"]).ends(0).out;
    assert!(cancelled.contains("is cancelled"), "{cancelled}");
    let ran = super::Ran::of(child.wait_with_output().unwrap()).ends(1);
    assert!(ran.err.contains("deploy-2 is cancelled"), "{}", ran.err);
    assert!(!gateway.data_dir().join("exports/large").exists());
}

#[tokio::test]
async fn ctrl_c_leaves_the_job_to_the_gateway_and_says_so() {
    let (gateway, _home, shell) = with_weights().await;
    fs::File::create(gateway.models_dir().join("m.gguf")).unwrap().set_len(1 << 30).unwrap();
    let mut export = shell.command(&["package", "export", "large", "--models"]);
    let export = export.stdin(std::process::Stdio::null()).stderr(std::process::Stdio::piped());
    let mut child = export.spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().unwrap()));
    assert!(lines.any(|it| it.unwrap().contains("copying")), "it runs");
    let sent = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.unwrap().success());
    let said: Vec<String> = lines.map(Result::unwrap).collect();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let said = said.join("\n");
    assert!(said.contains("deploy-1 goes on") && said.contains("gantry jobs cancel deploy-1"), "{said}");
    shell.run(&["jobs", "follow", "1"]).ends(0);
}

#[tokio::test]
async fn the_database_of_a_gateway_that_runs_is_replaced_and_its_sessions_end() {
    for database in Database::all("cli: package restore") {
        let gateway = gateway(database).await;
        let owner = gateway.owner().await;
        let shell = Shell::of_owner(&gateway);
        shell.run(&["package", "export", "p", "--no-images"]).ends(0);
        owner.post("/admin/orgs", &json!({ "name": "Later" })).await.expect(201);
        let seen = shell.run(&["package", "restore", "p", "--dry-run", "--json"]).ends(0).json();
        assert_eq!((&seen["valid"], &seen["kind"]), (&json!(true), &json!("gantry")), "{seen}");
        let refused = shell.run(&["package", "restore", "p"]).ends(2).err;
        assert!(refused.contains("--yes"), "{refused}");
        let refused = shell.run(&["package", "restore", "p", "--yes"]).ends(1).err;
        assert!(refused.contains("relation already exists"), "{refused}");

        let args = ["package", "restore", "p", "--drop-existing", "--yes"];
        let done =
            super::Ran::of(shell.command(&args).env("GANTRY_PASSWORD", "owner-password").output().unwrap());
        let done = done.ends(0);
        assert!(
            done.out.contains("is completed") && done.err.contains("signing in again as owner"),
            "{}",
            done.err
        );
        assert_eq!(owner.get("/auth/me").await.status, 401, "other sessions have ended");
        let orgs = shell.run(&["orgs", "list"]).ends(0).out;
        assert!(!orgs.contains("Later"), "{orgs}");
        let kept = fs::read_dir(gateway.data_dir().join("exports/p/db/pre_restore_backup")).unwrap().count();
        assert_eq!(kept, 1, "the database as it was");
        // Without a password: the end of the session says that the database is replaced.
        let done = shell.run(&args).ends(0);
        assert!(done.out.contains("is completed") && done.err.contains("sign in again"), "{}", done.err);
        shell.run(&["jobs"]).ends(4);
    }
}

#[tokio::test]
async fn a_damaged_dump_is_refused_before_anything_is_asked() {
    let gateway = start(Options::default()).await;
    let shell = Shell::of_owner(&gateway);
    shell.run(&["package", "export", "p", "--no-images"]).ends(0);
    let dump = gateway.data_dir().join("exports/p/db/dump.sql");
    let text = fs::read_to_string(&dump).unwrap();
    fs::write(&dump, text.replacen("COPY public.users", "DROP TABLE users; COPY public.users", 1)).unwrap();
    let refused = shell.run(&["package", "restore", "p", "--drop-existing", "--yes"]).ends(1).err;
    assert!(refused.contains("the dump can't be restored") && refused.contains("line"), "{refused}");
    assert_eq!(
        shell.run(&["jobs", "--json"]).ends(0).json().as_array().unwrap().len(),
        1,
        "no restore began"
    );
}

/// A request that was let in just before the swap reads the job as it is after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_restore_whose_end_is_seen_ends_the_session_as_well() {
    async fn answer(uri: Uri) -> (HeaderMap, Json<Value>) {
        let job =
            |status| json!({ "id": "deploy-1", "job_type": "db_restore", "status": status, "logs": [] });
        let mut headers = HeaderMap::new();
        let body = match uri.path() {
            "/admin/deployment/check-database-dump" => json!({ "valid": true, "tables": {} }),
            "/admin/deployment/restore-database" => job("running"),
            "/admin/deployment/jobs/deploy-1" => job("completed"),
            "/auth/login" => {
                headers.insert(SET_COOKIE, HeaderValue::from_static("svc_session=x; HttpOnly"));
                json!({})
            }
            _ => json!({ "user": { "username": "owner" } }),
        };
        (headers, Json(body))
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let shell = Shell::at(&format!("http://{}", listener.local_addr().unwrap()));
    #[expect(clippy::disallowed_methods, reason = "tests have no supervisor")]
    drop(tokio::spawn(async { axum::serve(listener, Router::new().fallback(answer)).await }));
    shell.run_with(&["login", "owner"], "owner-password\n").ends(0);
    let done = shell.run(&["package", "restore", "p", "--yes"]).ends(0);
    assert!(done.out.contains("is completed") && done.err.contains("sign in again"), "{}", done.err);
}
