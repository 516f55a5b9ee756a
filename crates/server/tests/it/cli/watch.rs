//! `--watch`: what is shown is shown again when it changes.

use std::{
    io::{BufRead, BufReader, Lines},
    process::{Child, ChildStdout, Command, Stdio},
};

use gantry_testkit::Database;
use serde_json::{Value, json};

use super::{Ran, Shell};
use crate::support::{column, gateway};

/// A verb that watches, and the lines that it prints.
struct Watching {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Watching {
    fn start(shell: &Shell, args: &[&str]) -> Self {
        let mut command = shell.command(args);
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        self.lines.next().expect("another line").unwrap()
    }

    /// The next document that `wanted` accepts: between two of them there may be others.
    fn json(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let found: Value = serde_json::from_str(&self.line()).unwrap();
            if wanted(&found) {
                return found;
            }
        }
    }

    fn interrupt(self) {
        let sent = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        assert!(sent.unwrap().success());
        Ran::when_ended(self.child).ends(130);
    }
}

#[tokio::test]
async fn a_list_is_shown_again_when_it_changes_until_ctrl_c() {
    let gateway = gateway(Database::Sqlite).await;
    let shell = Shell::of_owner(&gateway);
    std::fs::create_dir(gateway.models_dir().join("big")).unwrap();
    let mut models = Watching::start(&shell, &["models", "ls", "--watch", "-o", "json"]);
    assert_eq!(models.json(|_| true), json!([]));
    let args = ["models", "create", "--served-name", "qwen", "--engine", "vllm", "--path", "big"];
    shell.run(&args).ends(0);
    assert_eq!(column(&models.json(|_| true), "served_name"), ["qwen"]);

    let mut one = Watching::start(&shell, &["models", "show", "qwen", "-w", "--json"]);
    assert_eq!(one.json(|_| true)["max_model_len"], json!(null));
    let mut status = Watching::start(&shell, &["status", "-w", "-o", "json"]);
    assert_eq!(status.json(|_| true)["models"], json!({ "stopped": 1 }));
    let mut table = Watching::start(&shell, &["models", "ls", "-w"]);
    assert!(table.line().starts_with("ID") && table.line().contains("qwen"));

    shell.run(&["models", "set", "qwen", "-s", "max_model_len=4096", "--served-name", "other"]).ends(0);
    let changed = one.json(|it| it["max_model_len"] == 4096);
    assert_eq!(changed["served_name"], "other", "it is followed by its id");
    models.json(|it| it[0]["served_name"] == "other");
    assert_eq!(table.line(), "", "an empty line is between two tables");
    assert!(table.line().starts_with("ID") && table.line().contains("other"));
    shell.run(&["models", "delete", "other", "--yes"]).ends(0);
    assert_eq!(models.json(|it| it == &json!([])), json!([]));
    status.json(|it| it["models"] == json!({}));
    for it in [models, status, table] {
        it.interrupt();
    }
    let gone = Ran::when_ended(one.child).ends(5);
    assert!(gone.err.contains("not_found"), "{}", gone.err);
}

#[tokio::test]
async fn callers_who_may_read_no_events_watch_too() {
    let gateway = gateway(Database::Sqlite).await;
    let owner = Shell::of_owner(&gateway);
    owner.run_with(&["users", "create", "joe"], "joes-password").ends(0);
    let shell = Shell::at(&gateway.url);
    shell.run_with(&["login", "joe"], "joes-password\n").ends(0);
    std::fs::create_dir(gateway.models_dir().join("big")).unwrap();
    let mut models = Watching::start(&shell, &["models", "ls", "-w", "-o", "json"]);
    assert_eq!(models.json(|_| true), json!([]));
    let args = ["models", "create", "--served-name", "qwen", "--engine", "vllm", "--path", "big"];
    owner.run(&args).ends(0);
    assert_eq!(column(&models.json(|it| it != &json!([])), "served_name"), ["qwen"]);
    models.interrupt();
}

#[tokio::test]
async fn jobs_are_watched_and_a_reader_that_left_ends_it() {
    let gateway = gateway(Database::Sqlite).await;
    let shell = Shell::of_owner(&gateway);
    let mut jobs = Watching::start(&shell, &["jobs", "-w", "-o", "json"]);
    assert_eq!(jobs.json(|_| true), json!([]));
    shell.run(&["package", "export", "all", "--no-images"]).ends(0);
    let done = jobs.json(|it| it[0]["status"] == "completed");
    assert_eq!(done[0]["id"], "deploy-1");
    drop(jobs.lines);
    Ran::when_ended(jobs.child).ends(0);
}
