//! Starts of a real llama-server that fail because of its image, its container or the machine, and what Gantry says.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

use gantry_testkit::{Foreign, Managed, Options, docker_cli};
use serde_json::json;

use super::{Engine, diagnosed::case, image, llama};

const GOOD: &str = "tiny-llama-F16.gguf";

/// An image that a test made; removed with this value.
struct Image(String);

impl Drop for Image {
    fn drop(&mut self) {
        let _ = Command::new("docker").args(["rmi", "-f", &self.0]).output();
    }
}

/// An image with these files, the first of which an engine's image has as its program.
fn make_image(name: &str, files: &[(&str, Vec<u8>)]) -> Image {
    let name = format!("gantry-test/{name}:{}", std::process::id());
    let dir = tempfile::TempDir::new().unwrap();
    for (path, content) in files {
        let file = dir.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, content).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let import = format!(
        "tar -C '{}' -c . | docker import -c 'ENTRYPOINT [\"/app/llama-server\"]' - {name}",
        dir.path().display()
    );
    let made = Command::new("sh").args(["-c", &import]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Image(name)
}

/// A shell, as most images have one, and the libraries that it needs.
fn shell() -> Vec<(String, Vec<u8>)> {
    let needs = Command::new("ldd").arg("/bin/sh").output().unwrap();
    let needs = String::from_utf8(needs.stdout).unwrap();
    let libraries = needs.split_whitespace().filter(|it| it.starts_with('/'));
    libraries.chain(["/bin/sh"]).map(|it| (it.to_owned(), fs::read(it).unwrap())).collect()
}

/// The head of a program for a processor that this machine does not have.
fn foreign_program() -> Vec<u8> {
    let machine: u16 = if cfg!(target_arch = "x86_64") { 0xB7 } else { 0x3E };
    let mut head = vec![0u8; 64];
    head[..16].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    head[16..18].copy_from_slice(&2u16.to_le_bytes());
    head[18..20].copy_from_slice(&machine.to_le_bytes());
    head[20..24].copy_from_slice(&1u32.to_le_bytes());
    head[52..54].copy_from_slice(&64u16.to_le_bytes());
    head
}

/// Reading from it waits until somebody writes: a disk that hangs.
fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Writes this text for the process that reads from the path.
fn feed(path: &Path, text: &str) {
    let script = "printf %s \"$1\" > \"$2\"";
    let path = path.to_str().unwrap();
    let fed = Command::new("timeout").args(["30", "sh", "-c", script, "-", text, path]).status().unwrap();
    assert!(fed.success(), "nobody reads from {path}");
}

#[tokio::test]
async fn failures_around_a_llamacpp_are_diagnosed() {
    let Some(image) = image("GANTRY_TEST_LLAMA_IMAGE", "engines: failed starts of containers") else {
        return;
    };
    // Declared before the gateway: they go when its containers are gone.
    let empty = make_image("empty", &[("nothing", Vec::new())]);
    let shell = shell();
    let mut files = vec![("app/llama-server", foreign_program())];
    files.extend(shell.iter().map(|(path, content)| (path.as_str(), content.clone())));
    let other_processor = make_image("other-processor", &files);
    let options = Options::containers()
        .env("SECONDARY_ENGINE_IMAGE", &image)
        .env("ENGINE_IMAGE_ALLOWLIST", "gantry-test/*")
        .env("OFFLINE_MODE", "true");
    let engine = Engine::with(options).await;
    let (owner, dir) = (&engine.owner, engine.gateway.models_dir());
    engine.add(&format!("gguf/{GOOD}"));
    fifo(&dir.join("hangs.gguf"));
    fifo(&dir.join("hangs.jinja"));

    let hangs = json!({ "local_path": "hangs.gguf" });
    let hangs_for_long = json!({ "local_path": "hangs.gguf", "startup_timeout_sec": 5 });
    let greedy = json!({
        "context_size": 1_000_000, "chat_template_file": "hangs.jinja",
        "extra_args": ["--override-kv", "llama.context_length=int:1000000", "--no-warmup"],
    });
    let cases = [
        case(
            "image-missing",
            json!({ "engine_image": "gantry-test/none:1" }),
            "image_not_available",
            Some("engine_image"),
        ),
        case("image-empty", json!({ "engine_image": empty.0 }), "entrypoint_missing", Some("engine_image"))
            .cured_by(json!(null)),
        case(
            "image-of-another-processor",
            json!({ "engine_image": other_processor.0 }),
            "image_wrong_platform",
            Some("engine_image"),
        ),
        case(
            "file-missing",
            json!({ "local_path": "nowhere.gguf" }),
            "model_file_not_found",
            Some("local_path"),
        ),
        case("name-taken", json!({}), "container_name_in_use", None),
        case("timeout", hangs_for_long, "startup_timeout", Some("startup_timeout_sec")).offers(json!(10)),
        case("killed", hangs, "killed", None),
        case("out-of-memory", greedy, "host_out_of_memory", Some("context_size")).offers(json!(499_968)),
    ];
    let models = engine.make_all(&cases, &llama("", GOOD)).await;
    let of = |name: &str| &models[cases.iter().position(|it| it.name == name).unwrap()];
    let foreign = Foreign::run(&of("name-taken").container, &[], &image, &["--version"]);
    engine.start_all(&models).await;

    of("killed").reaches(owner, "loading").await;
    docker_cli(&["kill", &of("killed").container]);
    let greedy = of("out-of-memory");
    greedy.reaches(owner, "loading").await;
    docker_cli(&["update", "--memory", "64m", "--memory-swap", "64m", &greedy.container]);
    feed(&dir.join("hangs.jinja"), "{{ messages }}");
    let mut wrong = engine.wrong(&cases, &models, gantry_testkit::PATIENCE).await;
    // Under load Docker itself may miss why the kernel killed it, and then nobody can say.
    let state = greedy.inspect().expect("a failed model keeps its container")["State"].clone();
    if state["ExitCode"] == 137 && state["OOMKilled"] == false {
        println!("Docker did not notice that memory ran out: {state}");
        wrong.retain(|it| !it.starts_with("out-of-memory: (\"killed\""));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    for (case, model) in cases.iter().zip(&models).filter(|it| it.0.cures) {
        case.cure(owner, model).await;
    }
    drop(foreign);

    // Without their folder no model starts.
    fs::rename(&dir, dir.with_extension("away")).unwrap();
    let case = case("no-models-dir", json!({}), "models_dir_missing", None);
    let model = Managed::create(owner, &llama(case.name, GOOD)).await;
    assert_eq!(model.command(owner, "start").await.code(), "model_file_missing");
    case.check(owner, &model, gantry_testkit::PATIENCE).await.unwrap();
}
