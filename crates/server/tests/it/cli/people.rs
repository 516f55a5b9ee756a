//! `orgs`, `users` and `keys`.

use gantry_testkit::Database;

use super::Shell;
use crate::support::{column, gateway};

#[tokio::test]
async fn organisations_users_and_keys_are_made_listed_and_revoked() {
    for database in Database::all("cli: organisations_users_and_keys_are_made_listed_and_revoked") {
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
