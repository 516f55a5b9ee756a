//! `orgs`, `users` and `keys`.

use gantry_domain::Role;
use gantry_store::{NewUser, Store};
use gantry_testkit::{Database, now};
use serde_json::json;

use super::Shell;
use crate::support::{column, gateway};

#[tokio::test]
async fn organisations_users_and_keys_are_made_listed_and_revoked() {
    for database in Database::one("cli: organisations_users_and_keys_are_made_listed_and_revoked") {
        let gateway = gateway(database).await;
        let shell = Shell::of_owner(&gateway);
        let org = shell.run(&["orgs", "create", "Analysts", "--json"]).ends(0).json();
        let again = shell.run(&["orgs", "create", "Analysts"]).ends(7);
        assert!(again.err.contains("name_conflict"), "{}", again.err);
        let args = ["users", "create", "joe", "--role", "org_admin", "--org", "analysts", "--json"];
        let joe = shell.run_with(&args, "joes-password").ends(0).json();
        assert_eq!((&joe["org_id"], &joe["role"]), (&org["id"], &"org_admin".into()));
        let short = shell.run_with(&["users", "create", "eve"], "short").ends(6);
        assert!(short.err.contains("  password  "), "{}", short.err);
        let listed = shell.run(&["users", "list", "--org", "Analysts"]).ends(0).out;
        assert!(listed.contains("joe") && !listed.contains("owner\n"), "{listed}");
        let roles = shell.run(&["users", "list", "--role", "org_admin", "--json"]).ends(0).json();
        assert_eq!(column(&roles, "username"), ["joe"]);
        shell.run(&["users", "list", "--org", "Nobody"]).ends(5);

        // The token alone is on standard output, so that a script can keep it.
        let made = shell
            .run(&["keys", "create", "ci", "--user", "joe", "--scopes", "chat", "--expires", "30d"])
            .ends(0);
        let token = made.out.trim();
        assert!(token.starts_with("gty_") && made.out.lines().count() == 1, "{}", made.out);
        let holder = gateway.client().with_key(token);
        assert_eq!(holder.get("/v1/models").await.status, 200);
        let keys = shell.run(&["keys", "list", "--user", "joe", "--json"]).ends(0).json();
        assert_eq!((&keys[0]["name"], &keys[0]["scopes"]), (&"ci".into(), &"chat".into()));
        assert!(keys[0]["expires_at"].is_string(), "{keys}");
        shell.run(&["keys", "revoke", &token[..12]]).ends(0);
        assert_eq!(holder.get("/v1/models").await.status, 401);
        let listed = shell.run(&["keys", "list"]).ends(0).out;
        assert!(listed.lines().any(|it| it.contains("ci") && it.contains("revoked")), "{listed}");
        shell.run(&["keys", "revoke", "99999"]).ends(5);
        let bad = shell.run(&["keys", "create", "--scopes", "nonsense", "--from", "nowhere"]).ends(6);
        assert!(bad.err.contains("  scopes") && bad.err.contains("  ip_allowlist"), "{}", bad.err);
    }
}

#[tokio::test]
async fn a_user_is_invited_by_a_link_and_gets_another_for_a_forgotten_password() {
    let gateway = gateway(Database::Sqlite).await;
    let shell = Shell::of_owner(&gateway);
    let begin = format!("{}/ui/welcome#gtl_", gateway.url);
    let made = shell.run(&["users", "create", "ida", "--invite", "--hours", "24"]).ends(0);
    // The link alone is on standard output.
    assert!(made.out.starts_with(&begin) && made.out.lines().count() == 1, "{}", made.out);
    assert!(made.err.contains("ida, user in"), "{}", made.err);
    let used = async |token: &str, password: &str| {
        let body = json!({ "token": token, "password": password });
        gateway.client().post("/auth/password-link", &body).await.expect(200)
    };
    used(made.out.trim().split_once('#').unwrap().1, "first-password").await;
    gateway.sign_in("ida", "first-password").await;

    let link = shell.run(&["users", "password-link", "ida", "--json"]).ends(0).json();
    assert!(link["url"].as_str().unwrap().starts_with(&begin), "{link}");
    used(link["token"].as_str().unwrap(), "second-password").await;
    gateway.sign_in("ida", "second-password").await;
    let invited = shell.run(&["users", "create", "eve", "--invite", "--json"]).ends(0).json();
    assert_eq!((&invited["username"], &invited["role"]), (&json!("eve"), &json!("user")));
    used(invited["password_link"]["token"].as_str().unwrap(), "eves-password").await;
    shell.run(&["users", "create", "off", "--invite", "--disabled"]).ends(2);
    shell.run(&["users", "create", "off", "--hours", "24"]).ends(2);
    shell.run(&["users", "password-link", "nobody"]).ends(5);
}

#[tokio::test]
async fn a_number_that_is_the_id_of_one_and_the_name_of_another_changes_neither() {
    let gateway = gateway(Database::Sqlite).await;
    let shell = Shell::of_owner(&gateway);
    let make = |name: &str| {
        let args = ["users", "create", name, "--json"];
        shell.run_with(&args, "some-password").ends(0).json()["id"].to_string()
    };
    let ada = make("ada");
    let number = make(&ada);
    for args in [
        &["users", "set", &ada, "--role", "admin"][..],
        &["users", "delete", &ada, "--yes"],
        &["keys", "list", "--user", &ada],
    ] {
        let refused = shell.run(args).ends(2);
        for way in
            [format!("`id:{ada}`"), format!("`name:{ada}`"), "`ada`".to_owned(), format!("id {number}")]
        {
            assert!(refused.err.contains(&way), "{way}: {}", refused.err);
        }
    }
    let users = shell.run(&["users", "list", "--json"]).ends(0).json();
    assert_eq!(column(&users, "role"), ["owner", "user", "user"]);
    let [by_id, by_name] = ["id", "name"].map(|word| format!("{word}:{ada}"));
    let changed = shell.run(&["users", "set", &by_id, "--role", "admin"]).ends(0).out;
    assert!(changed.contains("ada, admin in"), "{changed}");
    let changed = shell.run(&["users", "set", &by_name, "--role", "org_admin"]).ends(0).out;
    assert!(changed.contains(&format!("user {number} is {ada}, org_admin in")), "{changed}");

    // What only one of them can mean is taken; who goes is named by name.
    let changed = shell.run(&["users", "set", &number, "--disable"]).ends(0).out;
    assert!(changed.contains(&format!("is {ada}, org_admin")), "{changed}");
    make("4711");
    shell.run(&["users", "set", "4711", "--role", "org_admin"]).ends(0);
    let gone = shell.run(&["users", "delete", &number, "--yes"]).ends(0).out;
    assert!(gone.contains(&format!("user {number} ({ada}) is deleted")), "{gone}");
    shell.run(&["users", "set", &ada, "--role", "user"]).ends(0);
    for (wrong, code) in [("id:ada", 2), ("id:4711", 5), ("name:5", 5), ("+1", 5)] {
        shell.run(&["users", "set", wrong, "--enable"]).ends(code);
    }

    let org = shell.run(&["orgs", "create", "1", "--json"]).ends(0).json();
    assert_ne!(org["id"], 1, "the first organisation has this id");
    shell.run(&["orgs", "set", "1", "--disable"]).ends(2);
    let shown = shell.run(&["orgs", "show", "name:1", "--json"]).ends(0).json();
    assert_eq!((&shown["id"], &shown["enabled"]), (&org["id"], &json!(true)));
    let help = shell.run(&["users", "--help"]).ends(0).out;
    assert!(help.contains("`name:12`"), "{help}");
}

#[tokio::test]
async fn lists_are_longer_than_one_answer_and_say_where_they_were_cut_off() {
    const N: usize = 1100;
    let gateway = gateway(Database::Sqlite).await;
    let url = format!("sqlite://{}", gateway.data_dir().join("gantry.db").display());
    let (now, store) = (now(), Store::open(&url).await.unwrap());
    let mut tx = store.write().await.unwrap();
    for n in 0..N {
        let (username, password_hash) = (format!("user-{n}"), "-".to_owned());
        let org_id = tx.insert_org(&format!("org-{n}"), now).await.unwrap().id;
        let user = NewUser { org_id, username, password_hash, role: Role::User, enabled: true };
        tx.insert_user(&user, now).await.unwrap();
    }
    tx.commit().await.unwrap();
    store.close().await;

    let shell = Shell::of_owner(&gateway);
    for (verb, field) in [("users", "username"), ("orgs", "name")] {
        let whole = shell.run(&[verb, "list", "--json"]).ends(0);
        let mut names: Vec<_> = column(&whole.json(), field).into_iter().map(ToString::to_string).collect();
        names.sort();
        names.dedup();
        assert_eq!((names.len(), whole.err.as_str()), (N + 1, ""), "{verb}");
        assert_eq!(shell.run(&[verb, "list"]).ends(0).out.lines().count(), N + 2);
        let found = shell.run(&[verb, "list", "--search", "109", "--limit", "5000", "--json"]).ends(0);
        assert_eq!((found.json().as_array().unwrap().len(), found.err.as_str()), (11, ""));

        let cut = shell.run(&[verb, "list", "--limit", "1050"]).ends(0);
        assert_eq!(cut.out.lines().count(), 1051);
        assert!(cut.err.starts_with(&format!("1050 of {} ", N + 1)), "{}", cut.err);
        let cut = shell.run(&[verb, "list", "--limit", "7", "--json"]).ends(0);
        assert_eq!(cut.json().as_array().unwrap().len(), 7);
        let said = cut.error()["warning"].as_str().unwrap().to_owned();
        assert!(said.starts_with(&format!("7 of {} ", N + 1)), "{said}");
    }
}

#[tokio::test]
async fn limits_and_budgets_are_set_shown_and_taken_away() {
    let gateway = gateway(Database::Sqlite).await;
    let shell = Shell::of_owner(&gateway);
    let args = ["orgs", "create", "Acme", "--rpm", "60", "--tpm", "200k", "--budget-month", "5M", "--json"];
    let org = shell.run(&args).ends(0).json();
    assert_eq!((&org["rpm_limit"], &org["tpm_limit"]), (&json!(60), &json!(200_000)));
    assert_eq!((&org["budget_tokens_month"], &org["budget_tokens_day"]), (&json!(5_000_000), &json!(null)));
    let listed = shell.run(&["orgs", "list"]).ends(0).out;
    let line = listed.lines().find(|it| it.contains("Acme")).unwrap();
    assert!(line.contains("month 0 %") && line.contains("60 requests/min, 200000 tokens/min"), "{line}");

    let made = shell.run(&["keys", "create", "ci", "--org", "Acme", "--rpm", "600", "--max-streams", "2"]);
    let token = made.ends(0).out;
    let key = shell.run(&["keys", "show", &token[..12], "--json"]).ends(0).json();
    assert_eq!((&key["rpm_limit"], &key["max_streams"]), (&json!(600), &json!(2)));
    let shown = shell.run(&["keys", "show", &key["id"].to_string()]).ends(0).out;
    let in_force = shown.lines().find(|it| it.starts_with("limits in force")).unwrap();
    assert!(
        in_force.contains("60 requests/min") && !in_force.contains("600"),
        "the organisation's cap: {shown}"
    );
    let holder = gateway.client().with_key(token.trim());
    let limit =
        async || holder.get("/v1/models").await.header("x-ratelimit-limit-requests").map(str::to_owned);
    assert_eq!(limit().await.as_deref(), Some("60"));

    // What is changed counts at once, and `none` takes it away.
    let args =
        ["orgs", "set", "acme", "--rpm", "none", "--budget-month", "none", "--budget-day", "1G", "--json"];
    let org = shell.run(&args).ends(0).json();
    assert_eq!((&org["rpm_limit"], &org["tpm_limit"]), (&json!(null), &json!(200_000)));
    assert_eq!(org["budget"]["day"]["limit"], 1_000_000_000);
    assert_eq!(limit().await.as_deref(), Some("600"));
    let id = key["id"].to_string();
    let args =
        ["keys", "set", &id, "--rpm", "7", "--limit-mode", "shadow", "--from", "10.0.0.0/8", "--model", "m"];
    let shown = shell.run(&args).ends(0).out;
    for text in ["7 requests/min", "shadow", "10.0.0.0/8"] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    assert_eq!(holder.get("/v1/models").await.status, 403, "not from this address");
    let args = ["keys", "set", &id, "--from-everywhere", "--all-models", "--expires", "never", "--json"];
    let key = shell.run(&args).ends(0).json();
    assert_eq!(
        (&key["models"], &key["ip_allowlist"], &key["rpm_limit"]),
        (&json!(null), &json!([]), &json!(7))
    );
    assert_eq!(holder.get("/v1/models").await.status, 200);

    for bad in [&["orgs", "set", "Acme"][..], &["orgs", "set", "Acme", "--rpm", "0"], &["keys", "set", &id]] {
        shell.run(bad).ends(2);
    }
    shell.run(&["orgs", "set", "Acme", "--rpm", "9G"]).ends(6);
    shell.run(&["orgs", "set", "Nobody", "--rpm", "1"]).ends(5);
    shell.run(&["keys", "show", "gty_nothing"]).ends(5);
}

#[tokio::test]
async fn organisations_and_users_are_changed_and_deleted() {
    let gateway = gateway(Database::Sqlite).await;
    let shell = Shell::of_owner(&gateway);
    for org in ["Acme", "Globex"] {
        shell.run(&["orgs", "create", org]).ends(0);
    }
    shell.run_with(&["users", "create", "joe", "--org", "Acme"], "joes-password").ends(0);
    let joe = gateway.sign_in("joe", "joes-password").await;
    let token = shell.run(&["keys", "create", "--user", "joe"]).ends(0).out;
    let holder = gateway.client().with_key(token.trim());
    assert_eq!(holder.get("/v1/models").await.status, 200);

    let args = ["users", "set", "joe", "--name", "joseph", "--role", "org_admin", "--org", "Globex"];
    let changed = shell.run(&args).ends(0).out;
    assert!(changed.contains("joseph, org_admin in Globex"), "{changed}");
    assert_eq!(joe.get("/auth/me").await.status, 401, "another role ends the session");
    shell.run_with(&["users", "set", "joseph", "--password"], "another-password").ends(0);
    gateway.sign_in("joseph", "another-password").await;
    assert_eq!(holder.get("/v1/models").await.status, 200, "their keys moved along");
    shell.run(&["users", "set", "joseph", "--disable"]).ends(0);
    assert_eq!(holder.get("/v1/models").await.status, 401);
    let listed = shell.run(&["users", "list", "--org", "Globex"]).ends(0).out;
    assert!(listed.lines().any(|it| it.contains("joseph") && it.contains("no")), "{listed}");
    shell.run(&["users", "set", "joseph", "--enable"]).ends(0);
    shell.run(&["users", "set", "joseph"]).ends(2);
    shell.run(&["users", "set", "joseph", "--enable", "--disable"]).ends(2);

    shell.run(&["orgs", "set", "Globex", "--name", "Globex Ltd", "--disable"]).ends(0);
    assert_eq!(holder.get("/v1/models").await.status, 401);
    let shown = shell.run(&["orgs", "show", "globex ltd", "--json"]).ends(0).json();
    assert_eq!((&shown["enabled"], &shown["user_count"]), (&json!(false), &json!(1)));
    let asked = shell.run(&["orgs", "delete", "Globex Ltd"]).ends(2);
    assert!(asked.err.contains("--yes"), "{}", asked.err);
    shell.run(&["users", "delete", "joseph", "--yes"]).ends(0);
    shell.run(&["users", "delete", "joseph", "--yes"]).ends(5);
    let gone = shell.run(&["orgs", "delete", "Globex Ltd", "--yes"]).ends(0).out;
    assert!(gone.contains("0 users"), "{gone}");
    let orgs = shell.run(&["orgs", "list", "--json"]).ends(0).json();
    assert_eq!(column(&orgs, "name"), ["Default", "Acme"]);
    // The last owner can't go.
    shell.run(&["users", "delete", "owner", "--yes"]).ends(7);
}

#[tokio::test]
async fn a_table_does_not_let_names_command_the_terminal() {
    let gateway = gateway(Database::Sqlite).await;
    let shell = Shell::of_owner(&gateway);
    let body = serde_json::json!({ "served_name": "m", "name": "\u{9b}2J", "engine_type": "vllm", "local_path": "x" });
    let owner = gateway.owner().await;
    let made = owner.post("/admin/models", &body).await;
    let out = shell.run(&["models", "show", "m"]);
    if made.status == 201 {
        assert!(!out.ends(0).out.chars().any(|it| it.is_control() && it != '\n'));
    } else {
        out.ends(5);
    }
}

#[tokio::test]
async fn a_user_has_limits_and_a_password_from_a_file() {
    let gateway = gateway(Database::Sqlite).await;
    let shell = Shell::of_owner(&gateway);
    let file = shell.home.path().join("password");
    std::fs::write(&file, "joes-password\n").unwrap();
    let file = file.to_str().unwrap();
    let made =
        ["users", "create", "joe", "--rpm", "60", "--model", "qwen", "--password-file", file, "--json"];
    let joe = shell.run(&made).ends(0).json();
    assert_eq!((&joe["rpm_limit"], &joe["models"]), (&json!(60), &json!(["qwen"])));
    let shown = shell.run(&["users", "show", "joe"]).ends(0).out;
    assert!(shown.contains("60 requests/min") && shown.contains("qwen"), "{shown}");
    shell.run(&["users", "set", "joe", "--rpm", "none", "--budget-day", "5M", "--all-models"]).ends(0);
    let joe = shell.run(&["users", "show", "joe", "--json"]).ends(0).json();
    assert_eq!(joe["budget_tokens_day"], 5_000_000, "{joe}");
    assert!(joe["rpm_limit"].is_null() && joe["models"].is_null(), "{joe}");
    shell.run(&["users", "show", "nobody"]).ends(5);
    let joes = Shell::at(&gateway.url);
    let signed_in = joes.run(&["login", "joe", "--password-file", file]).ends(0).out;
    assert!(signed_in.contains("as joe"), "{signed_in}");
    joes.run(&["login", "joe", "--password-file", "no/such/file"]).ends(2);
}
