//! `usage` and `images`: what is asked of the gateway, and what becomes of the answer.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    thread,
};

use gantry_testkit::Database;
use serde_json::json;

use super::Shell;
use crate::support::gateway;

/// A server that gives each of `answers` once and returns the request lines.
fn scripted(answers: Vec<String>) -> (String, thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let served = thread::spawn(move || {
        answers.iter().map(|body| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
            let first = lines.next().unwrap();
            lines.by_ref().take_while(|it| !it.is_empty()).for_each(|it| {
                assert!(!it.to_lowercase().starts_with("origin:"), "{it}");
            });
            let length = body.len();
            write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
            first
        }).collect()
    });
    (url, served)
}

#[test]
fn the_five_users_with_most_tokens_this_week_take_one_command() {
    let row = |name: &str, tokens: u64| {
        json!({
            "group": name, "group_id": 1, "requests": 1234, "errors": 1, "prompt_tokens": tokens - 7,
            "completion_tokens": 7, "total_tokens": tokens, "p50_ms": 12, "p95_ms": 345,
        })
    };
    let orgs = json!([{ "id": 3, "name": "Other" }, { "id": 7, "name": "Acme & Co" }]);
    let rows = json!([row("ada", 1_234_567), row("joe", 99)]);
    let (url, served) = scripted(vec![orgs.to_string(), rows.to_string()]);
    let shell = Shell::at(&url);
    let args = ["usage", "top", "--by", "user", "--org", "Acme & Co", "--week", "--limit", "5"];
    let out = shell.run(&args).ends(0).out;
    let lines: Vec<_> = out.lines().collect();
    assert!(lines[0].starts_with("USER") && lines[0].contains("TOKENS"), "{out}");
    assert!(lines[1].starts_with("ada") && lines[1].contains("1\u{202f}234\u{202f}567"), "{out}");
    assert!(lines[2].starts_with("joe") && lines.len() == 3, "{out}");
    let asked = served.join().unwrap();
    assert_eq!(asked[0], "GET /admin/orgs/lookup?limit=1000&offset=0 HTTP/1.1");
    let query = "hours=168&org_id=7&group_by=user&sort=-total_tokens&limit=5";
    assert_eq!(asked[1], format!("GET /admin/usage/aggregate?{query} HTTP/1.1"));
}

#[tokio::test]
async fn times_that_exclude_each_other_and_odd_filters_are_refused() {
    let gateway = gateway(Database::Sqlite).await;
    let shell = Shell::of_owner(&gateway);
    shell.run(&["usage", "list", "--week", "--day"]).ends(2);
    shell.run(&["usage", "list", "--hours", "9000"]).ends(2);
    shell.run(&["usage", "top", "--by", "colour"]).ends(2);
    let ran = shell.run(&["usage", "list", "--since", "yesterday"]).ends(6);
    assert!(ran.err.contains("  from"), "{}", ran.err);
    assert_eq!(shell.run(&["usage", "list", "--month", "--json"]).ends(0).json(), json!([]));
    if gateway.owner().await.get("/admin/usage/aggregate").await.status == 200 {
        let args = ["usage", "top", "--by", "user", "--org", "Default", "--week", "--limit", "5", "--json"];
        assert_eq!(shell.run(&args).ends(0).json(), json!([]));
    } else {
        shell.run(&["usage", "top"]).ends(5);
    }
}

#[tokio::test]
async fn images_are_listed_and_a_bad_archive_is_refused() {
    if !gantry_testkit::docker("cli: images") {
        return;
    }
    let gateway = gateway(Database::Sqlite).await;
    let shell = Shell::of_owner(&gateway);
    let out = shell.run(&["images"]).ends(0).out;
    assert!(out.contains("default of vllm") && out.contains("default of llamacpp"), "{out}");
    assert!(shell.run(&["images", "--json"]).ends(0).json()["engines"].is_object());
    let ran = shell.run(&["images", "load", "nothing.tar"]).ends(6);
    assert!(ran.err.contains("EXPORT_DIRS"), "{}", ran.err);
}
