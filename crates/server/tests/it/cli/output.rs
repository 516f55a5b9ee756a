//! `-o`: one choice of the form for every verb.

use gantry_testkit::Database;
use serde_json::json;

use super::{Shell, terminal::at_terminal};
use crate::support::gateway;

#[tokio::test]
async fn names_and_json_are_printed_by_every_verb_that_lists_or_shows() {
    let gateway = gateway(Database::Sqlite).await;
    let shell = Shell::of_owner(&gateway);
    std::fs::create_dir(gateway.models_dir().join("big")).unwrap();
    let args = ["models", "create", "--served-name", "qwen", "--name", "Qwen 3", "--engine", "vllm"];
    shell.run(&[&args[..], &["--path", "big"]].concat()).ends(0);
    shell.run(&["orgs", "create", "Analysts"]).ends(0);
    shell.run_with(&["users", "create", "joe", "--org", "Analysts"], "joes-password").ends(0);
    shell.run(&["keys", "create", "ci", "--org", "Analysts"]).ends(0);
    let nameless = shell.run(&["keys", "create", "--user", "joe", "--json"]).ends(0).json();
    let id = nameless["id"].to_string();

    assert_eq!(shell.run(&["models", "ls", "-o", "name"]).ends(0).out, "qwen\n");
    assert_eq!(shell.run(&["models", "show", "qwen", "--output", "name"]).ends(0).out, "qwen\n");
    let users = shell.run(&["-o", "name", "users", "list"]).ends(0).out;
    assert_eq!(sorted(&users), ["joe", "owner"]);
    let orgs = shell.run(&["orgs", "list", "-oname"]).ends(0).out;
    assert!(sorted(&orgs).contains(&"Analysts"), "{orgs}");
    let keys = shell.run(&["keys", "list", "-o", "name"]).ends(0).out;
    assert_eq!(sorted(&keys), [&*id, "ci"], "a key without a name has its id");
    assert_eq!(shell.run(&["registry", "list", "-o", "name"]).ends(0).out, "");
    let rows = shell.run(&["audit", "list", "-o", "name"]).ends(0).out;
    assert!(rows.lines().count() > 1 && rows.lines().all(|it| it.parse::<u64>().is_ok()), "{rows}");

    for verb in [&["models", "ls"][..], &["users", "list"], &["orgs", "show", "Analysts"], &["jobs"]] {
        let [long, short] =
            [&["--json"][..], &["-o", "json"]].map(|it| shell.run(&[verb, it].concat()).ends(0));
        assert_eq!(long.json(), short.json(), "{verb:?}");
        let [plain, wide] =
            [&[] as &[&str], &["-o", "wide"]].map(|it| shell.run(&[verb, it].concat()).ends(0));
        assert_eq!(plain.out, wide.out, "without a terminal, nothing is cut off: {verb:?}");
    }
    let missing = shell.run(&["models", "show", "nobody", "-o", "json"]).ends(5);
    assert_eq!(missing.error()["error"]["code"], json!("not_found"));
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[tokio::test]
async fn a_form_that_does_not_fit_is_refused_before_anything_is_done() {
    let gateway = gateway(Database::Sqlite).await;
    let shell = Shell::of_owner(&gateway);
    let wrong = shell.run(&["models", "ls", "-o", "table"]).ends(2).err;
    assert!(wrong.contains("json, wide, name"), "{wrong}");
    shell.run(&["models", "ls", "-o", "name", "--json"]).ends(2);
    // Its name alone would lose the token.
    let refused = shell.run(&["keys", "create", "ci", "-o", "name"]).ends(2).err;
    assert!(refused.contains("`gantry keys create`"), "{refused}");
    assert_eq!(shell.run(&["keys", "list", "-o", "json"]).ends(0).json(), json!([]));
}

#[tokio::test]
async fn wide_tables_are_not_cut_at_a_terminal() {
    let gateway = gateway(Database::Sqlite).await;
    let shell = Shell::of_owner(&gateway);
    let name = "long name ".repeat(9);
    shell.run(&["orgs", "create", name.trim()]).ends(0);
    let wide = at_terminal(&shell, "orgs list -o wide", &[], &[("NO_COLOR", "1")]).await;
    let Some((shown, _)) = wide else { return };
    assert!(shown.contains(name.trim()), "{shown}");
    let head = shown.lines().next().unwrap();
    assert!(["LIMITS", "CREATED"].iter().all(|it| head.contains(it)), "{shown}");
}
