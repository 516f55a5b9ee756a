//! Tab in a shell: names that the gateway knows, fields, and nothing at all where nobody answers.

use std::process::Command;

use serde_json::json;

use super::{Shell, with_engine};
use crate::support::GANTRY;

/// What bash offers for the last word of a line, by the script that is installed there.
fn offered(shell: &Shell, line: &[&str]) -> Vec<String> {
    let script = shell.home.path().join("completions.bash");
    std::fs::write(&script, shell.run(&["completions", "bash"]).ends(0).out).unwrap();
    let bin = shell.home.path().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let _ = std::os::unix::fs::symlink(GANTRY, bin.join("gantry"));
    let ask = "source completions.bash; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); COMP_TYPE=9; \
               _clap_complete_gantry gantry \"${COMP_WORDS[COMP_CWORD]}\" ''; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let mut command = Command::new("bash");
    command.args(["-c", ask, "bash", "gantry"]).args(line).current_dir(shell.home.path()).env_clear();
    let path = format!("{}:{}", bin.display(), std::env::var_os("PATH").unwrap().to_str().unwrap());
    command.env("PATH", path).env("HOME", shell.home.path()).env("GANTRY_URL", &shell.url);
    let output = command.output().unwrap();
    let words = String::from_utf8(output.stdout).unwrap();
    words.lines().filter(|it| !it.is_empty()).map(|it| it.trim().to_owned()).collect()
}

#[tokio::test]
async fn names_of_the_gateway_and_fields_are_offered() {
    let (gateway, _engine) = with_engine().await;
    let shell = Shell::of_owner(&gateway);
    shell.make(&["qwen", "quiet", "other"]);
    shell.run(&["keys", "create", "laptop"]).ends(0);
    shell.run(&["keys", "create", "$(reboot)"]).ends(0);
    shell.run(&["orgs", "create", "Analysts"]).ends(0);
    for (line, words) in [
        (&["models", "start", "q"][..], &["quiet", "qwen"][..]),
        (&["models", "stop", "other", "qw"], &["qwen"]),
        (&["chat", "ot"], &["other"]),
        (&["keys", "revoke", ""], &["laptop"]),
        (&["usage", "top", "--org", "An"], &["Analysts"]),
        (&["models", "set", "qwen", "--set", "context_s"], &["context_size="]),
        (&["models", "create", "--engine", "vllm", "-s", "ctx"], &[]),
        (&["models", "sta"], &["start"]),
    ] {
        let found = offered(&shell, line);
        let found: Vec<_> = found.iter().filter(|it| !it.starts_with('-')).collect();
        assert_eq!(found, words.iter().collect::<Vec<_>>(), "{line:?}");
    }
    // Entries of the registry, and folders and files of models, which are looked up when they are asked for.
    let far = json!({ "served_name": "quartz", "url": "http://127.0.0.1:9" });
    gateway.owner().await.post("/admin/models/registry", &far).await.expect(201);
    let folder = gateway.models_dir().join("org/big");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("big.gguf"), "GGUF").unwrap();
    for (line, words) in [
        (&["registry", "remove", "q"][..], &["quartz"][..]),
        (&["registry", "set", ""], &["quartz"]),
        (&["models", "create", "--path", "m."], &["m.gguf"]),
        (&["models", "dry-run", "--path", "or"], &["org", "org/big", "org/big/big.gguf"]),
        (&["models", "inspect", "org/big/"], &["org/big/big.gguf"]),
        (&["models", "inspect", "../"], &[]),
    ] {
        // A machine that is busy may not answer a Tab in time.
        let what = format!("{line:?} offers {words:?}");
        gantry_testkit::eventually(&what, gantry_testkit::PATIENCE, async || {
            let found = offered(&shell, line);
            let found: Vec<_> = found.iter().filter(|it| !it.starts_with('-')).collect();
            (found == words.iter().collect::<Vec<_>>()).then_some(())
        })
        .await;
    }
    // A caller who is not signed in gets no names and no error.
    let stranger = Shell::at(&gateway.url);
    assert!(!offered(&stranger, &["models", "start", ""]).contains(&"qwen".to_owned()));
}

#[test]
fn without_a_gateway_a_tab_does_nothing() {
    let shell = Shell::at("http://127.0.0.1:1");
    assert_eq!(offered(&shell, &["models", "start", "q"]), [""; 0]);
    assert_eq!(offered(&shell, &["models", "dry"]), ["dry-run"]);
}
