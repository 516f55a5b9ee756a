//! The audit log: one row for every change and none for what is refused, what rows say and never say, and the verifier.

use std::process::Command;

use gantry_admin_api::routes::routes;
use gantry_testkit::{Client, Database, Gateway, Options};
use serde_json::{Value, json};

use crate::{
    matrix::{self, Names, TABLE},
    support::{GANTRY, assert_invalid, column, start},
    team::{PASSWORD, Team, id, make_key, make_user},
};

/// Routes with a body or a changing method that write no row when they succeed, and why.
const UNAUDITED: &[(&str, &str, &str)] = &[
    ("POST", "/admin/models/dry-run", "changes nothing"),
    ("POST", "/admin/upstreams/refresh-health", "asks engines, changes nothing"),
    ("POST", "/admin/models/{id}/dry-run", "changes nothing"),
    ("POST", "/admin/models/{id}/test", "changes nothing"),
    ("POST", "/v1/chat/sessions", "chats are private"),
    ("DELETE", "/v1/chat/sessions", "chats are private"),
    ("PATCH", "/v1/chat/sessions/{id}", "chats are private"),
    ("DELETE", "/v1/chat/sessions/{id}", "chats are private"),
    ("POST", "/v1/chat/sessions/{id}/messages", "chats are private"),
    ("POST", "/v1/chat/sessions/{id}/completions", "chats are private"),
    ("DELETE", "/v1/chat/sessions/{id}/completions/current", "chats are private"),
];

/// Routes that can't succeed in this story; their rows are looked at elsewhere.
const ELSEWHERE: &[(&str, &str)] = &[
    // There is an owner already: `the_first_owner_is_in_the_log_however_he_came`.
    ("POST", "/admin/bootstrap-owner"),
    // Needs a link: `password_links`.
    ("POST", "/auth/password-link"),
    // Needs a container runtime: `docker_images`.
    ("POST", "/admin/system/container-images/load"),
    // They need a package: `deployment`.
    ("POST", "/admin/deployment/export"),
    ("POST", "/admin/deployment/export-model/{id}"),
    ("POST", "/admin/deployment/estimate-size"),
    ("POST", "/admin/deployment/import-model"),
    ("POST", "/admin/deployment/import"),
    ("POST", "/admin/deployment/check-database-dump"),
    ("POST", "/admin/deployment/restore-database"),
    ("DELETE", "/admin/deployment/jobs/{id}"),
];

async fn count(owner: &Client) -> i64 {
    let answer = owner.get("/admin/audit?limit=1").await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.header("x-total-count").unwrap().parse().unwrap()
}

async fn newest(owner: &Client) -> Value {
    owner.get("/admin/audit?limit=1").await.expect(200)[0].clone()
}

#[tokio::test]
async fn every_change_writes_one_row_and_what_is_refused_none() {
    for database in Database::one("every_change_writes_one_row_and_what_is_refused_none") {
        let dead = Options::default().on(database).env("CONTAINER_HOST", "unix:///nonexistent.sock");
        let team = Team::with(dead).await;
        let mut names = Names::default();
        let mut audited = 0;
        for route in routes() {
            let (method, path) = (route.method.as_str(), route.path);
            if method == "GET" || ELSEWHERE.contains(&(method, path)) {
                continue;
            }
            let row = TABLE.iter().find(|it| (it.0, it.1) == (method, path)).unwrap();
            let unaudited = UNAUDITED.iter().any(|it| (it.0, it.1) == (method, path));
            let target = matrix::fresh(&team, &mut names, method, path, &team.owner).await;
            let mut body = matrix::body(&mut names, method, path, "owner-password");
            if path == "/admin/models/base-dir" {
                body = Some(json!({ "base_dir": team.gateway.models_dir() }));
            }

            let before = count(&team.owner).await;
            // Nobody, somebody of too low a role, an object that is not there, and a body that says nothing.
            let nobody = team.gateway.client();
            if row.2 != "-" {
                assert_eq!(matrix::call(&nobody, method, &target, body.as_ref()).await.status, 401);
            }
            if row.2 != "-" && row.2 != "user" {
                assert_eq!(matrix::call(&team.user, method, &target, body.as_ref()).await.status, 403);
            }
            if path.contains('{') {
                let missing = matrix::filled(path, "999999", "no/such");
                let answer = matrix::call(&team.owner, method, &missing, body.as_ref()).await;
                assert!((400..500).contains(&answer.status), "{method} {path}: {}", answer.text);
            }
            if body.is_some() {
                let bad = json!({ "no_such_field": 1 });
                let answer = matrix::call(&team.owner, method, &target, Some(&bad)).await;
                assert_eq!(answer.status, 422, "{method} {path}: {}", answer.text);
            }
            assert_eq!(count(&team.owner).await, before, "refused: {method} {path}");

            // Signing out and in is done by somebody else, so that the story can go on.
            let extra = i64::from(path == "/auth/logout");
            let client = match path {
                "/auth/logout" => team.gateway.sign_in("uwe", PASSWORD).await,
                "/auth/login" => team.gateway.client(),
                _ => team.owner.clone(),
            };
            let answer = matrix::call(&client, method, &target, body.as_ref()).await;
            if unaudited {
                assert_eq!(count(&team.owner).await, before, "{method} {path}");
                continue;
            }
            assert!(answer.status < 300, "{method} {path}: {}", answer.text);
            assert_eq!(count(&team.owner).await, before + extra + 1, "{method} {path}");
            let row = newest(&team.owner).await;
            assert_eq!(row["request_id"], answer.header("x-request-id").unwrap(), "{method} {path}: {row}");
            assert_eq!(row["ip"], "127.0.0.1", "{row}");
            audited += 1;
        }
        assert!(audited > 20, "{audited}");
        let secrets = team.owner.get("/admin/audit?limit=1000").await.text;
        for secret in [PASSWORD, "owner-password", "argon2"] {
            assert!(!secrets.contains(secret), "{secret}");
        }
        // Only the 12-character prefix of a key may be there.
        let words = secrets.split(|it: char| !it.is_ascii_alphanumeric() && it != '_');
        let whole: Vec<_> = words.filter(|it| it.starts_with("gty_") && it.len() > 12).collect();
        assert!(whole.is_empty(), "{whole:?}");
        assert_verified(&team.gateway, true);
    }
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one story: what is sent, and what of it is kept")]
async fn a_row_says_who_did_what_from_where() {
    for database in Database::one("a_row_says_who_did_what") {
        let options = Options::default().on(database).env("TRUSTED_PROXIES", "127.0.0.1");
        let team = Team::with(options).await;
        let anna = make_user(&team.owner, team.tenant, "anna", "user").await;
        let agent = "x".repeat(300);
        let change = json!({ "role": "org_admin", "password": "another-secret-1", "username": "anna" });
        let request = team
            .admin
            .request(reqwest::Method::PATCH, &format!("/admin/users/{anna}"))
            .header("x-forwarded-for", "203.0.113.9, 198.51.100.7")
            .header("x-request-id", "the-one")
            .header("user-agent", &agent);
        assert_eq!(team.admin.send(request.json(&change)).await.status, 200);
        let row = newest(&team.owner).await;
        assert_eq!(
            (&row["actor"], &row["actor_type"], &row["action"], &row["object_type"], &row["object_id"]),
            (&json!("ada"), &json!("user"), &json!("user.change"), &json!("user"), &json!(anna.to_string()))
        );
        // Only what changed.
        assert_eq!(row["before"], json!({ "role": "user" }));
        assert_eq!(row["after"], json!({ "role": "org_admin", "password_changed": true }));
        assert_eq!((&row["ip"], &row["request_id"]), (&json!("198.51.100.7"), &json!("the-one")));
        assert_eq!(row["user_agent"].as_str().unwrap().len(), 200);

        // Secrets are not there, though they were sent.
        let model = json!({
            "served_name": "m", "engine_type": "vllm", "local_path": "m", "hub_token": "hub-secret-1",
            "extra_env": { "MY_SECRET": "env-secret-1" },
        });
        let model = id(&team.owner.post("/admin/models", &model).await.expect(201));
        assert_eq!(newest(&team.owner).await["after"]["extra_env"], json!({ "MY_SECRET": "***" }));
        let change = json!({ "hub_token": "hub-secret-2", "extra_env": { "MY_SECRET": "env-secret-2" } });
        team.owner.patch(&format!("/admin/models/{model}"), &change).await.expect(200);
        let row = newest(&team.owner).await;
        assert_eq!(row["after"], json!({ "extra_env": { "MY_SECRET": "***" }, "hub_token_given": true }));
        let engine = json!({ "served_name": "e", "url": "http://10.0.0.1:1", "api_key": "reg-secret-1" });
        team.owner.post("/admin/models/registry", &engine).await.expect(201);
        let key = make_key(&team.owner, &json!({ "name": "k" })).await;
        team.owner.delete(&format!("/admin/models/{model}")).await.expect(200);
        let all = team.owner.get("/admin/audit?limit=1000").await.text;
        for secret in
            ["hub-secret", "env-secret", "reg-secret", "another-secret", key["token"].as_str().unwrap()]
        {
            assert!(!all.contains(secret), "{secret}");
        }

        // Sign-ins: who came in, who did not, and no name that nobody has.
        let login = async |name: &str, password: &str| {
            let client = team.gateway.client();
            let status =
                client.post("/auth/login", &json!({ "username": name, "password": password })).await.status;
            (status, newest(&team.owner).await)
        };
        let (status, row) = login("ANNA", "wrong-password").await;
        assert_eq!(
            (status, &row["action"], &row["actor"]),
            (401, &json!("session.login_failed"), &Value::Null)
        );
        assert_eq!((&row["actor_type"], &row["object_id"]), (&json!("anonymous"), &json!(anna.to_string())));
        let (status, row) = login("my-password-typed-here", "x").await;
        assert_eq!((status, &row["object_id"]), (401, &json!("")));
        assert!(!row.to_string().contains("typed-here"), "{row}");
        let (status, row) = login("anna", "another-secret-1").await;
        assert_eq!((status, &row["action"], &row["actor"]), (200, &json!("session.login"), &json!("anna")));

        // Filters.
        for (query, wanted) in [
            ("actor=ada", 2),
            (&*format!("actor={anna}"), 1),
            ("action=session.login_failed", 2),
            (&*format!("object_type=user&object_id={anna}"), 4),
            ("object_type=registry", 1),
            ("object_type=image", 0),
            ("from=2000-01-01T00:00:00Z&to=2000-01-02T00:00:00Z", 0),
            ("action=org.create&from=2000-01-01T00:00:00Z", 1),
        ] {
            let answer = team.admin.get(&format!("/admin/audit?limit=1&{query}")).await;
            assert_eq!(
                answer.header("x-total-count"),
                Some(&*wanted.to_string()),
                "{query}: {}",
                answer.text
            );
            assert_eq!(answer.json.as_array().unwrap().len(), wanted.min(1), "{query}");
        }
        for (query, param) in [
            ("action=no.such", "action"),
            ("object_type=users", "object_type"),
            ("from=x", "from"),
            ("limit=0", "limit"),
            ("sort=at", "sort"),
        ] {
            assert_invalid(&team.owner.get(&format!("/admin/audit?{query}")).await, &[param]);
        }
        let all = team.owner.get("/admin/audit?limit=1000").await.expect(200);
        let seqs: Vec<_> = column(&all, "seq").iter().map(|it| it.as_i64().unwrap()).collect();
        assert_eq!(seqs, (1..=seqs.len() as i64).rev().collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn the_first_owner_is_in_the_log_however_he_came() {
    let by_settings = start(Options::default()).await;
    let first = by_settings.owner().await.get("/admin/audit?action=owner.bootstrap").await.expect(200);
    assert_eq!((&first[0]["seq"], &first[0]["actor_type"]), (&json!(1), &json!("settings")));
    assert_eq!(first[0]["after"]["username"], "owner");

    let gateway = start(Options { owner: false, ..Options::default() }).await;
    let owner = json!({ "username": "eve", "password": PASSWORD, "org_name": "Eden" });
    let client = gateway.client();
    assert_eq!(client.post("/admin/bootstrap-owner", &owner).await.status, 201);
    assert_eq!(client.post("/admin/bootstrap-owner", &owner).await.status, 409);
    let eve = gateway.sign_in("eve", PASSWORD).await;
    let rows = eve.get("/admin/audit").await.expect(200);
    assert_eq!(column(&rows, "action"), ["session.login", "owner.bootstrap"]);
    assert_eq!(
        (&rows[1]["actor_type"], &rows[1]["ip"], &rows[1]["after"]["org_name"]),
        (&json!("anonymous"), &json!("127.0.0.1"), &json!("Eden"))
    );
}

/// `gantry audit …` on the gateway's database; whether it was content, and what it said.
fn audit(gateway: &Gateway, args: &[&str]) -> (bool, String) {
    let mut command = Command::new(GANTRY);
    command.arg("audit").args(args).env_clear().env("DATA_DIR", gateway.data_dir());
    if let Some(url) = gateway.database_url() {
        command.env("DATABASE_URL", url);
    }
    let output = command.current_dir(gateway.data_dir()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.success(), text(&output.stdout) + &text(&output.stderr))
}

#[track_caller]
fn assert_verified(gateway: &Gateway, holds: bool) {
    let (ok, said) = audit(gateway, &["verify"]);
    assert_eq!((ok, said.starts_with("OK: ")), (holds, holds), "{said}");
}

#[tokio::test]
async fn the_verifier_finds_the_first_row_that_does_not_hold() {
    for database in Database::all("the_verifier_finds_the_first_row") {
        let gateway = crate::support::gateway(database).await;
        let owner = gateway.owner().await;
        for n in 0..5 {
            owner.post("/admin/orgs", &json!({ "name": format!("Org \"{n}\" ä") })).await.expect(201);
        }
        // While the gateway runs: bootstrap, sign-in and five organisations.
        let (ok, said) = audit(&gateway, &["verify"]);
        assert!(ok && said.starts_with("OK: 7 rows, 1 to 7, written 20"), "{said}");
        let last = newest(&owner).await["hash"].as_str().unwrap().to_owned();
        assert!(said.contains(&format!("last hash {last}")), "{said}");

        let (ok, lines) = audit(&gateway, &["export"]);
        assert!(ok && lines.lines().count() == 7, "{lines}");
        let file = gateway.data_dir().join("audit.jsonl");
        let of_file = |text: &str| {
            std::fs::write(&file, text).unwrap();
            audit(&gateway, &["verify", "--file", file.to_str().unwrap()])
        };
        assert!(of_file(&lines).0);
        // A part of it holds too; an edit, a hole and a wrong order do not.
        let part: Vec<_> = lines.lines().skip(2).take(4).collect();
        let (ok, said) = of_file(&part.join("\n"));
        assert!(ok && said.starts_with("OK: 4 rows, 3 to 6"), "{said}");
        assert!(said.contains("rows up to 2 are not included"), "{said}");
        let (ok, said) = of_file(&lines.replace("Org \\\"2\\\"", "Org \\\"9\\\""));
        assert!(!ok && said.starts_with("BROKEN: row 5 was changed"), "{said}");
        let hole: Vec<_> = lines.lines().enumerate().filter(|(n, _)| *n != 3).map(|(_, it)| it).collect();
        let (ok, said) = of_file(&hole.join("\n"));
        assert!(!ok && said.starts_with("BROKEN: row 4 is missing"), "{said}");
        let (ok, said) = of_file("{}");
        assert!(!ok && said.contains("line 1 is not a row"), "{said}");

        if let Some(url) = gateway.database_url() {
            let edit = "UPDATE audit SET ip = '10.9.9.9' WHERE seq = 3";
            assert!(Command::new("psql").args([&url, "-qc", edit]).status().unwrap().success());
            let (ok, said) = audit(&gateway, &["verify"]);
            assert!(!ok && said.starts_with("BROKEN: row 3 was changed"), "{said}");
            // A word that no version wrote.
            let edit = "UPDATE audit SET object_type = 'ogre' WHERE seq = 2";
            assert!(Command::new("psql").args([&url, "-qc", edit]).status().unwrap().success());
            let (ok, said) = audit(&gateway, &["verify"]);
            let broken = "BROKEN: row 2 was changed: its object_type is none\nrows before it hold: 1";
            assert!(!ok && said.starts_with(broken), "{said}");
            let (ok, said) = audit(&gateway, &["export"]);
            assert!(!ok && said.contains("row `2` of table `audit` does not decode: object_type"), "{said}");
        }
    }
}
