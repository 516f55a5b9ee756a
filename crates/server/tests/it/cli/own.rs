//! What a user without a role to manage anything does: their own keys, usage and limits, and the models they may call.

use gantry_testkit::Database;
use serde_json::json;

use super::{Shell, with_engine};
use crate::support::{column, gateway};

/// A shell of `joe`, who manages nobody.
fn joe(owner: &Shell) -> Shell {
    owner.run_with(&["users", "create", "joe"], "joes-password\n").ends(0);
    let shell = Shell::at(&owner.url);
    shell.run_with(&["login", "joe"], "joes-password\n").ends(0);
    shell
}

#[tokio::test]
async fn a_user_works_without_saying_that_it_is_their_own() {
    let (gateway, _engine) = with_engine().await;
    let owner = Shell::of_owner(&gateway);
    owner.make(&["qwen"]);
    owner.run(&["models", "start", "qwen", "--wait", "--timeout", "300"]).ends(0);
    let shell = joe(&owner);
    let models = shell.run(&["models", "list", "--json"]).ends(0).json();
    assert_eq!((&models[0]["served_name"], &models[0]["callable"]), (&json!("qwen"), &json!(true)));
    shell.run(&["keys", "create", "laptop", "--rpm", "60"]).ends(0);
    assert_eq!(column(&shell.run(&["keys", "list", "--json"]).ends(0).json(), "username"), ["joe"]);
    shell.run(&["chat", "qwen", "hello", "--max-tokens", "4"]).ends(0);
    owner.run(&["chat", "qwen", "hello", "--max-tokens", "4"]).ends(0);
    let metered = async || {
        let all = owner.run(&["usage", "top", "--by", "user", "--json"]).ends(0);
        (all.json().as_array().unwrap().len() == 2).then_some(())
    };
    gantry_testkit::eventually("both are metered", gantry_testkit::PATIENCE, metered).await;
    for line in ["usage --json", "usage top --json", "usage series --json"] {
        let rows = shell.run(&line.split(' ').collect::<Vec<_>>()).ends(0).json();
        assert_eq!(
            column(&rows, "requests").iter().filter_map(|it| it.as_i64()).sum::<i64>(),
            1,
            "{line}: {rows}"
        );
    }
    assert_eq!(shell.run(&["usage", "list", "--json"]).ends(0).json().as_array().unwrap().len(), 1);
    let own = owner.run(&["usage", "list", "--own", "--json"]).ends(0).json();
    assert_eq!(own.as_array().unwrap().len(), 1, "{own}");
    let limits = shell.run(&["limits"]).ends(0).out;
    let line = limits.lines().find(|it| it.starts_with("key laptop")).unwrap();
    assert!(line.contains("requests/min") && line.contains("60"), "{limits}");
    shell.run(&["keys", "revoke", "laptop"]).ends(0);
    // What is not theirs stays so, and says where their own is.
    let refused = shell.run(&["users", "list"]).ends(4).err;
    assert!(refused.contains("forbidden"), "{refused}");
    let refused = shell.run(&["usage", "latency"]).ends(4).err;
    assert!(refused.contains("/auth/usage"), "{refused}");
}

#[tokio::test]
async fn without_any_limit_that_is_said() {
    let gateway = gateway(Database::Sqlite).await;
    let shell = Shell::of_owner(&gateway);
    assert_eq!(shell.run(&["limits"]).ends(0).out, "without limit\n");
    assert!(shell.run(&["limits", "--json"]).ends(0).json()["user"].is_object());
}
