//! What vLLM's own parser, and the bounds of its configuration, make of our command lines. Thousands are read in one
//! process of Python (`vllm_parse.py`): importing vLLM takes longer than all of them.

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use gantry_domain::{
    Role,
    model::{EngineKind, ModelDraft},
};
use gantry_testkit::skip;
use serde_json::{Value, json};

use super::{image, records};

const SCRIPT: &str = include_str!("vllm_parse.py");

/// Python with vLLM: of the environment in `GANTRY_VLLM_VENV` (see scripts/vllm-env.sh), else of the image.
#[expect(clippy::disallowed_methods, reason = "a setting of the tests, not of the gateway")]
fn python(test: &str, models: &Path) -> Option<Command> {
    let venv = std::env::var("GANTRY_VLLM_VENV").ok().map(|it| Path::new(&it).join("bin/python"));
    let mut command = match venv.filter(|it| it.exists()) {
        Some(python) => Command::new(python),
        None if std::env::var_os("GANTRY_TEST_VLLM_IMAGE").is_none() => {
            skip(test, "neither GANTRY_VLLM_VENV nor GANTRY_TEST_VLLM_IMAGE is set");
            return None;
        }
        None => {
            let image = image("GANTRY_TEST_VLLM_IMAGE", test)?;
            let mount = format!("{0}:{0}:ro", models.display());
            let mut docker = Command::new("docker");
            docker.args([
                "run",
                "--rm",
                "-i",
                "--network",
                "none",
                "-v",
                &mount,
                "--entrypoint",
                "sh",
                &image,
                "-c",
            ]);
            docker.args(["exec $(command -v /opt/vllm/bin/python || command -v python3) \"$@\"", "sh"]);
            docker
        }
    };
    command.args(["-c", SCRIPT]);
    for (name, value) in [
        ("VLLM_LOGGING_LEVEL", "ERROR"),
        ("VLLM_NO_USAGE_STATS", "1"),
        ("HF_HUB_OFFLINE", "1"),
        ("VLLM_CPU_KVCACHE_SPACE", "1"),
    ] {
        command.env(name, value);
    }
    Some(command)
}

/// The judgement about each line; `None` where there is no vLLM.
fn judged(test: &str, models: &Path, lines: &[Vec<String>]) -> Option<Vec<Value>> {
    let mut child = python(test, models)?
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let here = format!("{}/", models.display());
    let input: Vec<String> = lines
        .iter()
        .map(|line| {
            json!(line.iter().map(|it| it.replace("/models/", &here)).collect::<Vec<_>>()).to_string()
        })
        .collect();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all((input.join("\n") + "\n").as_bytes()));
    let output = child.wait_with_output().unwrap();
    drop(writer.join());
    let said = String::from_utf8_lossy(&output.stderr);
    let judged: Vec<Value> =
        String::from_utf8_lossy(&output.stdout).lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert_eq!(judged.len(), lines.len(), "{said}");
    Some(judged)
}

#[test]
fn vllm_accepts_the_command_line_of_any_valid_record() {
    let models = tempfile::tempdir().unwrap();
    let template = models.path().join(records::TEMPLATE);
    fs::create_dir_all(template.parent().unwrap()).unwrap();
    fs::write(template, "{{ messages[0].content }}").unwrap();
    let mut lines = records::command_lines(EngineKind::Vllm, 3000);
    // The check can fail: an option and a value that this version refuses.
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    lines.push(words("m --swap-space 4"));
    lines.push(words("m --gpu-memory-utilization 1.5"));
    let Some(mut judged) = judged("engines: command lines for vLLM", models.path(), &lines) else { return };
    for _ in 0..2 {
        assert!(judged.pop().unwrap()["error"].is_array());
    }
    for (line, judged) in lines.iter().zip(&judged) {
        assert_eq!(judged["error"], Value::Null, "{line:?}");
        assert_eq!(judged["owned"]["host"], "'0.0.0.0'", "{line:?}");
        assert_eq!(judged["owned"]["port"], "8000", "{line:?}");
    }
}

/// Whatever spelling of an option of ours the parser accepts, the record does not.
#[test]
fn vllm_accepts_no_spelling_of_our_options_that_a_record_may_carry() {
    let options = [
        "--host",
        "--port",
        "--api-key",
        "--model",
        "--served-model-name",
        "--uds",
        "--root-path",
        "--hf-token",
        "--grpc",
        "--headless",
        "--ssl-keyfile",
        "--ssl-certfile",
        "--config",
        "--ssl-ca-certs",
    ];
    let mut extras = vec![Vec::new()];
    for option in options {
        // Every beginning of it, and every way to write that.
        for end in 3..=option.len() {
            let flag = &option[..end];
            for flag in
                [flag.to_owned(), flag.replace('-', "_").replacen("__", "--", 1), flag[1..].to_owned()]
            {
                extras.push(vec![flag.clone()]);
                extras.push(vec![flag.clone(), "1234".to_owned()]);
                extras.push(vec![format!("{flag}=1234")]);
                extras.push(vec![format!("{flag}.a"), "1234".to_owned()]);
                extras.push(vec!["--enforce-eager".to_owned(), flag, "1234".to_owned()]);
            }
        }
    }
    let record = |extra: &[String]| {
        let body = json!({"served_name": "m", "engine_type": "vllm", "local_path": "m", "extra_args": extra});
        ModelDraft::create(body.as_object().unwrap(), Role::Owner)
    };
    let start = records::arguments(record(&[]).unwrap(), &[]);
    let lines: Vec<Vec<String>> = extras.iter().map(|it| start.iter().chain(it).cloned().collect()).collect();
    let nowhere = Path::new("/nonexistent");
    let Some(judged) = judged("engines: hostile arguments for vLLM", nowhere, &lines) else { return };
    let untouched = &judged[0]["owned"];
    assert!(untouched.is_object(), "{}", judged[0]);
    let mut taken_over = 0;
    for (extra, judged) in extras.iter().zip(&judged) {
        if judged["owned"].is_object() && judged["owned"] != *untouched {
            taken_over += 1;
            assert!(record(extra).is_err(), "{extra:?} makes it {judged}, and a record may carry it");
        }
    }
    println!("{} spellings, {taken_over} of which vLLM accepts", extras.len());
    assert!(taken_over > 50, "the check has lost its teeth");
}
