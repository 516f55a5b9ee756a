//! `models`, without and with containers.

use gantry_testkit::{Database, Options, sim_llamacpp, sim_vllm, simulator};
use serde_json::json;

use super::{Ran, Shell};
use crate::support::{GANTRY, column, gateway, start};

#[tokio::test]
async fn records_are_made_from_options_and_from_records() {
    let gateway = gateway(Database::Sqlite).await;
    let shell = Shell::of_owner(&gateway);
    std::fs::create_dir(gateway.models_dir().join("big")).unwrap();
    let args = ["models", "create", "--served-name", "org/big", "--engine", "vllm", "--path", "big"];
    let fields = [
        "-s",
        "tensor_parallel_size=2",
        "-s",
        "enforce_eager=true",
        "-s",
        "extra_args=--disable-log-stats,--max-log-len=5",
    ];
    let made = shell.run(&[&args[..], &fields, &["--json"]].concat()).ends(0).json();
    assert_eq!(made["tensor_parallel_size"], 2, "{made}");
    assert_eq!(
        (&made["enforce_eager"], &made["extra_args"]),
        (&json!(true), &json!(["--disable-log-stats", "--max-log-len=5"]))
    );

    // What is shown can be made again, under another name.
    let record = shell.run(&["models", "show", "org/big", "--json"]).ends(0).out;
    let copy =
        shell.run_with(&["models", "create", "--file", "-", "--served-name", "copy", "--json"], &record);
    let copy = copy.ends(0).json();
    assert_eq!(copy["extra_args"], made["extra_args"]);
    shell.run_with(&["models", "create", "--file", "-"], &record).ends(7);
    shell.run_with(&["models", "create", "--file", "-"], "{").ends(2);

    let changed = shell.run(&[
        "models",
        "set",
        "copy",
        "-s",
        "tensor_parallel_size=",
        "-s",
        "max_model_len=4096",
        "--json",
    ]);
    let changed = changed.ends(0).json();
    assert_eq!((&changed["tensor_parallel_size"], &changed["max_model_len"]), (&json!(null), &json!(4096)));
    shell.run(&["models", "set", "copy"]).ends(2);

    // In a file `null` unsets, as the API has it; what it does not name stays.
    let fields = r#"{"max_model_len":null,"name":"Copy of it","gpu_memory_utilization":0.5}"#;
    let changed = shell.run_with(&["models", "set", "copy", "-f", "-", "--json"], fields).ends(0).json();
    assert_eq!((&changed["name"], &changed["max_model_len"]), (&json!("Copy of it"), &json!(null)));
    assert_eq!(changed["extra_args"], made["extra_args"]);
    let record = shell.run(&["models", "show", "copy", "--json"]).ends(0).out;
    let again = shell.run_with(&["models", "set", "copy", "-f", "-", "--json"], &record).ends(0).json();
    assert_eq!(again["gpu_memory_utilization"], json!(0.5));
    let shown = shell.run(&["models", "show", &made["id"].to_string()]).ends(0).out;
    assert!(shown.contains("org/big") && shown.contains("--disable-log-stats,--max-log-len=5"), "{shown}");
    let listed = shell.run(&["models", "list", "--json"]).ends(0).json();
    assert_eq!(column(&listed, "served_name"), ["org/big", "copy"]);

    let asked = shell.run(&["models", "delete", "copy"]).ends(2);
    assert!(asked.err.contains("--yes"), "{}", asked.err);
    shell.run(&["models", "delete", "copy", "--yes"]).ends(0);
    for verb in ["show", "start", "stop", "apply", "test", "logs", "dry-run"] {
        let ran = shell.run(&["models", verb, "copy"]).ends(5);
        assert!(ran.err.contains("there is no model `copy`"), "{}", ran.err);
    }
    shell.run(&["models", "test", "org/big"]).ends(7);
}

#[tokio::test]
async fn a_model_is_made_from_its_file_alone_and_advice_can_be_pasted() {
    let options = Options::default().env("CONTAINER_HOST", "unix:///nonexistent.sock");
    let gateway = start(options).await;
    crate::dry_run::add_fixtures(&gateway.models_dir());
    let shell = Shell::of_owner(&gateway);
    // A slip leaves nothing behind, so that the same line works once it is right.
    let slip = shell.run(&["models", "create", "--path", "tiny-bert-rerank.gguf", "--start"]).ends(6);
    assert!(
        slip.err.contains("there is no `tiny-bert-rerank.gguf`") && slip.err.contains("--force"),
        "{}",
        slip.err
    );
    assert_eq!(shell.run(&["models", "list", "--json"]).ends(0).json(), json!([]));
    let found = shell.run(&["models", "inspect", "tiny-bert-rerank-F16.gguf"]).ends(0).out;
    let line = "gantry models create --engine llamacpp --path tiny-bert-rerank-F16.gguf --task embed -s pooling=rank";
    assert!(found.contains(line), "{found}");
    let made = shell.run(&["models", "create", "--path", "tiny-bert-rerank-F16.gguf"]).ends(0);
    assert!(made.err.contains("not given: engine_type=llamacpp task=embed pooling=rank"), "{}", made.err);
    // The values that are better than the defaults, as a line for this model.
    let paste = "gantry models set tiny-bert-rerank-F16 -s mlock=false";
    assert!(made.err.contains(paste), "{}", made.err);
    let shown = shell.run(&["models", "show", "tiny-bert-rerank-F16"]).ends(0).out;
    assert!(!shown.contains("threads") && shown.contains("pooling"), "{shown}");

    // A user who sets another task gets a warning, and the model does not start by mistake.
    let args = [
        "models",
        "create",
        "--path",
        "tiny-bert-rerank-F16.gguf",
        "--task",
        "generate",
        "--served-name",
        "wrong",
    ];
    let made = shell.run(&args).ends(0);
    let cure = "gantry models set wrong -s task=embed -s pooling=rank";
    assert!(made.err.contains(cure), "{}", made.err);
    let refused = shell.run(&["models", "start", "wrong"]).ends(7);
    assert!(refused.err.contains("for reranking") && refused.err.contains("--force"), "{}", refused.err);
    let again = shell.run(&args).ends(7);
    let path = "gantry models set 2 --task generate --path tiny-bert-rerank-F16.gguf && gantry models start 2 --wait";
    assert!(again.err.contains(path), "{}", again.err);
    // The line that was printed works.
    let words: Vec<&str> = cure.split(' ').skip(1).collect();
    let cured = shell.run(&[&words[..], &["--json"]].concat()).ends(0).json();
    assert_eq!((&cured["task"], &cured["pooling"]), (&json!("embed"), &json!("rank")));

    let tuned = ["models", "create", "--path", "tiny-llama-chat", "--tuned", "--json"];
    assert_eq!(shell.run(&tuned).ends(0).json()["enforce_eager"], false);
}

#[tokio::test]
async fn every_problem_is_printed_with_its_field() {
    let gateway = gateway(Database::Sqlite).await;
    let shell = Shell::of_owner(&gateway);
    let args = ["models", "create", "--engine", "vllm", "-s", "tensor_parallel_size=two", "-s", "no_such=1"];
    let ran = shell.run(&args).ends(6);
    for field in ["served_name", "tensor_parallel_size", "no_such", "local_path"] {
        let line = ran.err.lines().find(|it| it.starts_with(&format!("  {field} ")));
        assert!(line.is_some_and(|it| it.trim().len() > field.len() + 5), "{field}: {}", ran.err);
    }
    let ran = shell.run(&[&args[..], &["--json"]].concat()).ends(6);
    assert!(ran.out.is_empty(), "{}", ran.out);
    let error = ran.error();
    assert_eq!((&error["error"]["code"], &error["exit_code"]), (&"validation_error".into(), &6.into()));
    assert_eq!(error["error"]["details"].as_array().unwrap().len(), 4, "{error}");
    shell.run(&["models", "create", "-s", "nonsense"]).ends(2);
    shell.run(&["models", "create", "--served-name", "x", "--wait"]).ends(2);
}

#[tokio::test]
async fn a_dry_run_and_an_inspection_start_nothing() {
    let gateway = gateway(Database::Sqlite).await;
    let shell = Shell::of_owner(&gateway);
    let args = [
        "models",
        "dry-run",
        "--served-name",
        "x",
        "--engine",
        "vllm",
        "--path",
        "missing",
        "-s",
        "max_model_len=4096",
    ];
    let ran = shell.run(&args).ends(1);
    assert!(
        ran.out.contains("--max-model-len 4096") && ran.out.contains("error: File not found"),
        "{}",
        ran.out
    );
    assert!(ran.err.contains("a start would fail"), "{}", ran.err);
    assert_eq!(shell.run(&[&args[..], &["--json"]].concat()).ends(1).json()["valid"], false);
    assert_eq!(shell.run(&["models", "list", "--json"]).ends(0).json(), json!([]));
    shell.run(&["models", "dry-run"]).ends(2);

    std::fs::create_dir(gateway.models_dir().join("empty")).unwrap();
    let found = shell.run(&["models", "inspect", "empty"]).ends(0).out;
    assert!(found.contains("engine   none"), "{found}");
    // The header of a GGUF file with nothing in it.
    let header = [&b"GGUF\x03\0\0\0"[..], &[0; 16]].concat();
    std::fs::write(gateway.models_dir().join("empty/mmproj-F16.gguf"), header).unwrap();
    let found = shell.run(&["models", "inspect", "empty"]).ends(0).out;
    assert!(found.contains("projector (`mmproj`): empty/mmproj-F16.gguf"), "{found}");
    shell.run(&["models", "inspect", "../.."]).ends(6);
    shell.run(&["models", "inspect", "not-there"]).ends(5);
}

#[tokio::test]
async fn a_repository_of_the_hub_is_looked_at_where_there_is_no_such_path() {
    let hub = crate::hub_config::hub();
    let gateway = start(Options::default().env("HUB_ENDPOINT", &hub.url())).await;
    let shell = Shell::of_owner(&gateway);
    let found = shell.run(&["models", "inspect", "me/model"]).ends(0);
    assert!(found.err.contains("asks the model hub"), "{}", found.err);
    let line = "gantry models create --repo me/model --start --wait";
    assert!(found.out.contains(line) && found.out.contains("LlamaForCausalLM"), "{}", found.out);
    let gguf = shell.run(&["models", "inspect", "me/gguf"]).ends(0).out;
    for part in ["--repo me/gguf:Q4_K_M --start", "me/gguf:Q8_0", "projector (`mmproj`): mmproj-F16.gguf"] {
        assert!(gguf.contains(part), "{part}: {gguf}");
    }
    shell.run(&["models", "inspect", "me/none"]).ends(5);
    // What lies in the models base directory comes first, and neither a file nor a single word is asked for.
    std::fs::create_dir_all(gateway.models_dir().join("me/model")).unwrap();
    let asked = hub.heads().len();
    let here = shell.run(&["models", "inspect", "me/model", "--json"]).ends(0).json();
    assert_eq!(here["path"], "me/model", "{here}");
    shell.run(&["models", "inspect", "me/x.gguf"]).ends(5);
    shell.run(&["models", "inspect", "gpt2"]).ends(5);
    assert_eq!(hub.heads().len(), asked);
}

#[tokio::test]
async fn a_model_is_started_watched_used_and_stopped() {
    if !simulator(GANTRY, "cli: a model is started") {
        return;
    }
    let gateway = start(Options::containers()).await;
    let shell = Shell::of_owner(&gateway);
    let image = format!("engine_image={}", sim_vllm());
    let args =
        ["models", "create", "--served-name", "sim", "--engine", "vllm", "--path", "simulated", "-s", &image];
    let made = shell
        .run(&[&args[..], &["-s", "device=cpu", "--start", "--wait", "--timeout", "120"]].concat())
        .ends(0);
    assert!(made.out.starts_with("sim is running (after "), "{}", made.out);
    let again = shell.run(&["models", "start", "sim"]).ends(0);
    assert_eq!(again.out, "sim is already running\n");
    let tested = shell.run(&["models", "test", "sim"]).ends(0).out;
    assert!(tested.starts_with("sim answers ("), "{tested}");
    assert_eq!(shell.run(&["models", "test", "sim", "--json"]).ends(0).json()["success"], true);

    let (_, client) = gateway.owner().await.new_key(&json!({ "name": "cli" })).await;
    client.chat("sim").await.expect(200);
    let seen = gantry_testkit::eventually("usage is listed", gantry_testkit::PATIENCE, async || {
        let out = shell.run(&["usage", "list", "--model", "sim", "--hours", "1"]).ends(0).out;
        out.contains("/v1/chat/completions").then_some(out)
    });
    assert!(seen.await.contains(" 200  ok"));
    let top = shell.run(&["top", "--once"]).ends(0).out;
    assert!(top.lines().any(|it| it.starts_with("sim ") && it.contains("running")), "{top}");
    let top = shell.run(&["top", "--json"]).ends(0).json();
    assert_eq!(top["metrics"][0]["state"], "running", "{top}");
    let log = shell.run(&["models", "logs", "sim", "--tail", "5"]).ends(0).out;
    assert!((1..=5).contains(&log.lines().count()), "{log}");

    // A follower whose reader has seen enough goes, though the engine has nothing more to say.
    let script = "\"$0\" models logs sim -f | head -1; echo \"${PIPESTATUS[0]}\"";
    let mut follow = std::process::Command::new("bash");
    follow.args(["-c", script, GANTRY]).env("HOME", shell.home.path()).env("GANTRY_URL", &gateway.url);
    let mut child = follow.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let told = gantry_testkit::eventually("head ends the follower", gantry_testkit::PATIENCE, async || {
        child.try_wait().unwrap()
    });
    assert!(told.await.success());

    let changed = shell.run(&["models", "set", "sim", "-s", "max_model_len=2048"]).ends(0);
    assert!(changed.err.contains("gantry models apply"), "{}", changed.err);
    shell.run(&["models", "apply", "sim", "--wait"]).ends(0);
    let stopped = shell.run(&["models", "stop", "sim", "--wait", "--json"]).ends(0).json();
    assert_eq!(stopped["state"], "stopped");
}

#[tokio::test]
async fn a_start_that_fails_says_why_and_what_to_change() {
    if !simulator(GANTRY, "cli: a start that fails") {
        return;
    }
    let gateway = start(Options::containers()).await;
    let shell = Shell::of_owner(&gateway);
    let image = format!("engine_image={}", sim_llamacpp());
    let base = [
        "models",
        "create",
        "--engine",
        "llamacpp",
        "--path",
        "simulated.gguf",
        "-s",
        &image,
        "-s",
        "device=cpu",
    ];
    let failing = [
        "--served-name",
        "bad",
        "-s",
        "extra_env=GANTRY_SIM_CRASH_AT_START=1,GANTRY_SIM_CRASH_LOG=unsupported-arch",
    ];
    shell.run(&[&base[..], &failing].concat()).ends(0);
    let ran = shell.run(&["models", "start", "bad", "--wait"]).ends(1);
    assert!(
        ran.err.contains("gantry: bad failed: ") && ran.err.contains("last lines of the log:"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("  fix: "), "{}", ran.err);
    let listed = shell.run(&["models", "list"]).ends(0).out;
    assert!(listed.lines().any(|it| it.contains("bad") && it.contains("failed")), "{listed}");
    let diagnosed = shell.run(&["models", "logs", "bad", "--diagnose", "--json"]).ends(0).json();
    assert_eq!(diagnosed["diagnosis"]["detected"], true, "{diagnosed}");
    let ran: Ran = shell.run(&["models", "start", "bad", "--wait", "--json"]).ends(1);
    assert_eq!(ran.json()["state"], "failed");

    let slow = ["--served-name", "slow", "-s", "extra_env=GANTRY_SIM_LOAD_SECONDS=600"];
    shell.run(&[&base[..], &slow].concat()).ends(0);
    let ran = shell.run(&["models", "start", "slow", "--wait", "--timeout", "2"]).ends(8);
    assert!(ran.err.contains("the gateway goes on with it"), "{}", ran.err);
    // What it sees is said meanwhile.
    assert!(ran.err.contains("slow: starting") || ran.err.contains("slow: loading"), "{}", ran.err);
    shell.run(&["models", "stop", "slow", "--wait"]).ends(0);
}
