//! `registry` and `upstreams`.

use gantry_testkit::Database;
use serde_json::json;

use super::Shell;
use crate::{simulator::Simulator, support::gateway};

#[tokio::test]
async fn engines_elsewhere_are_added_listed_changed_and_removed() {
    let gateway = gateway(Database::Sqlite).await;
    let (shell, owner) = (Shell::of_owner(&gateway), gateway.owner().await);
    let (one, two) = (Simulator::start("--api-key right").await, Simulator::start("--api-key right").await);
    let (one, two) = (&*one.url(), &*two.url());
    let run = |line: &[&str]| shell.run(line);

    // The name there is another one, and the key is missing: both are said, one after the other.
    let added = run(&["registry", "add", "org/far", one]).ends(0);
    assert!(added.out.contains("not served yet") && added.err.contains("refuses the key"), "{}", added.err);
    let key = ["--api-key-file", "-"];
    let set = |more: &[&str]| {
        shell.run_with(&[&["registry", "set", "org/far"][..], more, &key].concat(), "right\n")
    };
    let keyed = set(&[]).ends(0);
    assert!(keyed.err.contains("does not serve `org/far`: it lists `m`"), "{}", keyed.err);
    let named = run(&["registry", "set", "org/far", "--upstream-model", "m"]).ends(0);
    assert!(named.out.contains("org/far is served by") && named.err.is_empty(), "{}", named.err);
    assert_eq!(owner.chat("org/far").await.status, 200);

    let refused = run(&["registry", "set", "org/far", "--address", one, "--address", two]).ends(6);
    assert!(refused.err.contains("api_key"), "{}", refused.err);
    set(&["--address", one, "--address", two]).ends(0);
    let listed = run(&["registry", "list", "--json"]).ends(0).json();
    assert_eq!((&listed[0]["urls"], &listed[0]["upstream_model"]), (&json!([one, two]), &json!("m")));
    let table = run(&["registry", "list"]).ends(0).out;
    assert!(table.contains("org/far") && table.contains(two), "{table}");
    let upstreams = run(&["upstreams"]).ends(0).out;
    assert_eq!(upstreams.lines().filter(|it| it.contains("registry")).count(), 2, "{upstreams}");

    run(&["registry", "set", "org/far"]).ends(2);
    run(&["registry", "set", "nobody", "--task", "embed"]).ends(5);
    run(&["registry", "add", "org/far", "ftp://x"]).ends(6);
    run(&["registry", "add", "org/far"]).ends(2);
    run(&["registry", "add", "org/far", one, "--api-key-file", "no/such/file"]).ends(2);
    run(&["registry", "remove", "org/far"]).ends(0);
    run(&["registry", "remove", "org/far"]).ends(5);
    assert_eq!(run(&["registry", "list", "--json"]).ends(0).json(), json!([]));
}
