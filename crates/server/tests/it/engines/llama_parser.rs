//! What llama-server's own parser makes of our command lines: the program is taken out of its image and started with a
//! model file that does not exist. Where it complains about that file, it has accepted every argument.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use gantry_domain::{
    Role,
    model::{EngineKind, ModelDraft},
};
use gantry_testkit::docker_cli;
use serde_json::json;

use super::{image, records};

/// llama-server, out of its image.
struct Parser {
    root: tempfile::TempDir,
}

impl Parser {
    fn of(image: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let container = docker_cli(&["create", image]);
        let mut export =
            Command::new("docker").args(["export", &container]).stdout(Stdio::piped()).spawn().unwrap();
        let tar = Command::new("tar")
            .args(["-x", "--no-same-owner", "--exclude=dev", "-C"])
            .arg(root.path())
            .stdin(export.stdout.take().unwrap())
            .status()
            .unwrap();
        assert!(export.wait().unwrap().success() && tar.success());
        docker_cli(&["rm", &container]);
        let models = root.path().join("models/dir");
        fs::create_dir_all(&models).unwrap();
        fs::write(models.join("template.jinja"), "{{ messages[0].content }}").unwrap();
        Self { root }
    }

    /// What it says to these arguments; it ends by itself, since there is no model.
    fn says(&self, args: &[String]) -> String {
        let root = self.root.path();
        let loader = ["lib64/ld-linux-x86-64.so.2", "lib/ld-linux-aarch64.so.1"].map(|it| root.join(it));
        let loader = loader.iter().find(|it| it.exists()).expect("the image's loader");
        let folders = ["lib", "usr/lib"].iter().flat_map(|it| {
            ["x86_64-linux-gnu", "aarch64-linux-gnu"]
                .map(|arch| root.join(it).join(arch).display().to_string())
        });
        let libraries: Vec<String> = folders.chain([root.join("app").display().to_string()]).collect();
        let program = ["app/llama-server", "llama-server"].map(|it| root.join(it));
        let program = program.iter().find(|it| it.exists()).expect("llama-server");
        // Arguments that it should have refused may make it a server.
        let output = Command::new("timeout")
            .arg("20")
            .arg(loader)
            .args(["--library-path", &libraries.join(":")])
            .arg(program)
            .args(args)
            .env_clear()
            .current_dir(root)
            .output()
            .unwrap();
        String::from_utf8_lossy(&[output.stderr, output.stdout].concat()).into_owned()
    }

    /// The arguments of a container, as they are read on this machine.
    fn reads(&self, args: &[String]) -> Result<(), String> {
        let here: Vec<String> = args.iter().map(|it| self.here(it)).collect();
        let said = self.says(&here);
        if said.contains("loading model '") { Ok(()) } else { Err(said) }
    }

    fn here(&self, word: &str) -> String {
        match word {
            // The port of the engine may be taken here.
            "8000" => "0".to_owned(),
            "0.0.0.0" => "127.0.0.1".to_owned(),
            _ => word.replace("/models/", &format!("{}/models/", Path::new(self.root.path()).display())),
        }
    }
}

#[test]
fn llama_server_accepts_the_command_line_of_any_valid_record() {
    let Some(image) = image("GANTRY_TEST_LLAMA_IMAGE", "engines: command lines for llama.cpp") else {
        return;
    };
    let parser = Parser::of(&image);
    // The check can fail.
    let wrong = parser.reads(&["--model".to_owned(), "/models/m.gguf".to_owned(), "--mlock".to_owned()]);
    assert!(wrong.unwrap_err().contains("invalid argument: --mlock"));
    let lines = records::command_lines(EngineKind::Llamacpp, 200);
    std::thread::scope(|scope| {
        for part in lines.chunks(50) {
            let parser = &parser;
            scope.spawn(move || {
                for line in part {
                    parser.reads(line).unwrap_or_else(|said| panic!("{line:?}\n{said}"));
                }
            });
        }
    });
}

/// Whatever spelling of an option of ours the parser accepts, the record does not.
#[test]
fn llama_server_accepts_no_spelling_of_our_options_that_a_record_may_carry() {
    let Some(image) = image("GANTRY_TEST_LLAMA_IMAGE", "engines: hostile arguments for llama.cpp") else {
        return;
    };
    let parser = Parser::of(&image);
    // Each of these, taken over, would lead past the gateway; the parser itself says how they may be written.
    let help = parser.says(&["--help".to_owned()]);
    let ours = [
        "--host",
        "--port",
        "--api-key",
        "--api-key-file",
        "--model",
        "--model-url",
        "--hf-repo",
        "--hf-file",
        "--hf-token",
        "--docker-repo",
        "--alias",
        "--offline",
        "--ssl-key-file",
        "--ssl-cert-file",
        "--api-prefix",
        "--models-dir",
        "--mmproj-url",
        "--spec-draft-hf",
        "--rpc",
        "--path",
        "--gpt-oss-20b-default",
    ];
    let mut spellings = 0;
    for option in ours {
        let aliases = help
            .lines()
            .filter(|it| it.starts_with('-'))
            .map(|it| {
                it.split("  ").map(str::trim).filter(|it| it.starts_with('-')).collect::<Vec<_>>().join(" ")
            })
            .map(|it| {
                it.split([',', ' ']).map(str::to_owned).filter(|it| it.starts_with('-')).collect::<Vec<_>>()
            })
            .find(|it| it.iter().any(|it| it == option))
            .unwrap_or_else(|| panic!("{option} is not in the help"));
        for alias in aliases {
            let underscores = format!("--{}", alias.trim_start_matches('-').replace('-', "_"));
            for word in [alias.clone(), underscores, format!("{alias}=x"), alias.to_ascii_uppercase()] {
                spellings += 1;
                let args = |it: &str| vec![it.to_owned(), "x".to_owned()];
                // Without a model it would become a router, and stay.
                let start = ["--model", "/nowhere.gguf", "--port", "0"].map(str::to_owned);
                let said = parser.says(&[&start[..], &args(&word)].concat());
                let accepted = !said.contains("error: invalid argument: ");
                let body = json!({
                    "served_name": "m", "engine_type": "llamacpp", "local_path": "m.gguf", "extra_args": args(&word),
                });
                let kept = ModelDraft::create(body.as_object().unwrap(), Role::Owner).is_ok();
                assert!(!(accepted && kept), "{word} sets {option}, and a record may carry it");
            }
        }
    }
    println!("{spellings} spellings");
}
