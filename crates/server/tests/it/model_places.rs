//! Which files and which images a model record may name.

use std::os::unix::fs::symlink;

use gantry_testkit::{Database, Options};
use serde_json::json;

use crate::{
    models::{create, llamacpp, vllm, with},
    support::{assert_invalid, column},
    team::{Team, id, make_model},
};

#[tokio::test]
async fn images_come_from_the_operators_list() {
    let list = "ghcr.io/me/*, registry:5000/team/vllm";
    let team = Team::with(Options::default().env("ENGINE_IMAGE_ALLOWLIST", list)).await;
    let path = format!("/admin/models/{}", make_model(&team.owner, "m").await);
    for (image, allowed) in [
        ("vllm/vllm-openai:v0.1", true),
        ("vllm/vllm-openai@sha256:0000000000000000000000000000000000000000000000000000000000000000", true),
        ("ghcr.io/ggml-org/llama.cpp:server", true),
        ("localhost/gantry-engine-sim-vllm:0.32.0", true),
        ("localhost/gantry-engine-sim-vllm:latest", false),
        ("localhost/gantry-engine-sim-evil:0.32.0", false),
        ("gantry/engine-sim-vllm:0.32.0", false),
        ("ghcr.io/me/anything:1", true),
        ("registry:5000/team/vllm", true),
        (
            "registry:5000/team/vllm:2@sha256:0000000000000000000000000000000000000000000000000000000000000000",
            true,
        ),
        ("vllm/vllm-openai-evil:v0.1", false),
        ("evil/vllm/vllm-openai:1", false),
        ("ghcr.io/meevil/x", false),
        ("ghcr.io/me", false),
        ("registry:5001/team/vllm", false),
        ("registry:5000/team/vllm/x", false),
        ("gantry/engine-simulator", false),
        ("vllm/vllm-openai:1 --privileged", false),
        ("vllm/vllm-openai:1\nx", false),
        ("vllm/vllm-openai:$(id)", false),
        ("--privileged", false),
        ("", false),
    ] {
        let answer = team.owner.patch(&path, &json!({ "engine_image": image })).await;
        if allowed {
            assert_eq!((answer.status, &answer.json["engine_image"]), (200, &json!(image)), "{image}");
        } else {
            assert_eq!(answer.status, 422, "{image}: {}", answer.text);
            assert_invalid(&answer, &["engine_image"]);
        }
    }
}

/// Paths that are refused: they leave the base directory, or may seem to, in words, and through the links that the test makes.
const LEAVING: &[&str] = &[
    "/",
    "/etc/passwd",
    "//etc/passwd",
    "/models",
    "/models/../etc",
    "..",
    "../",
    "../x",
    "../models/m",
    "../../../../etc/shadow",
    "a/..",
    "a/../..",
    "a/../../b",
    "a/../b",
    ".",
    "./",
    "./a",
    "a/.",
    "a/./b",
    "a//b",
    "m/../../x",
    "",
    "-rf",
    "--model=x",
    "a\0b",
    "a\nb",
    "a\rb",
    "\u{7f}",
    "a\u{9b}b",
    "file:///etc/passwd",
    "http://h/x",
    "out",
    "out/",
    "out/secret",
    "etc/passwd",
    "chain/secret",
    "up/data/gantry.db",
    "in/escape/passwd",
];
/// Those that stay, in another spelling than the only one.
const PLAIN: &[&str] = &[".", "./", "./a", "a/.", "a/./b", "a//b", "file:///etc/passwd", "http://h/x"];
/// Those of them that only the links show.
const LINKS: &[&str] =
    &["out", "out/", "out/secret", "etc/passwd", "chain/secret", "up/data/gantry.db", "in/escape/passwd"];
const STAYING: &[&str] =
    &["m", "m/", "a b/ü.gguf", "not/there/yet", "..a", "a..b/c", "in/x", "%2e%2e/x", "..\\x", "~/x"];

#[tokio::test]
async fn paths_stay_below_the_base_directory() {
    for database in Database::one("paths_stay_below_the_base_directory") {
        let team = Team::on(database).await;
        let base = team.gateway.models_dir();
        let outside = base.parent().unwrap().join("outside");
        std::fs::create_dir_all(outside.join("deep")).unwrap();
        std::fs::write(outside.join("secret"), "x").unwrap();
        std::fs::create_dir_all(base.join("m")).unwrap();
        for (link, target) in [
            ("out", outside.to_str().unwrap()),
            ("etc", "/etc"),
            ("chain", "out"),
            ("up", ".."),
            ("in", "m"),
            ("loop", "loop"),
        ] {
            symlink(target, base.join(link)).unwrap();
        }
        symlink("/etc", base.join("m/escape")).unwrap();
        let mut models = Vec::new();
        for body in [vllm("v"), llamacpp("l")] {
            models.push(format!("/admin/models/{}", id(&create(&team.owner, &body).await.expect(201))));
        }
        let (v, l) = (&models[0], &models[1]);
        let before = team.owner.get("/admin/models").await.json;
        let value = |field: &str, path: &str| match field {
            "lora_adapters" => json!({ field: [format!("a={path}")] }),
            _ => json!({ field: path }),
        };
        let fields = ["local_path", "hub_config_path", "chat_template_file", "lora_adapters"];
        let cases = fields.map(|it| (v, it)).into_iter().chain([
            (l, "mmproj"),
            (l, "draft_model_path"),
            (l, "local_path"),
        ]);
        for (model, field) in cases {
            for path in LEAVING {
                let answer = team.owner.patch(model, &value(field, path)).await;
                assert_eq!(answer.status, 422, "{field} = {path:?}: {}", answer.text);
                // The error for a text that is no path differs from the error for a path that leads out of the folder.
                let shapeless = path.is_empty()
                    || path.chars().any(char::is_control)
                    || PLAIN.contains(path)
                    || (field == "lora_adapters" && path.contains('='))
                    // Links are followed only for a record that is right in itself, and this one names no GGUF.
                    || (model == l && field == "local_path" && LINKS.contains(path));
                let code = if shapeless { "validation_error" } else { "path_not_allowed" };
                assert_eq!(answer.code(), code, "{field} = {path:?}: {}", answer.text);
                if let Some(details) = answer.json["error"]["details"].as_array() {
                    assert_eq!(details[0]["code"], code, "{}", answer.text);
                }
                assert_eq!(answer.json["error"]["param"], field, "{path:?}");
                assert!(
                    !answer.text.contains(base.to_str().unwrap()),
                    "no path of the host: {}",
                    answer.text
                );
            }
            for wrong in [json!(7), json!(["a", 1]), json!({ "path": "a" }), json!(true)] {
                assert_eq!(
                    team.owner.patch(model, &json!({ field: wrong })).await.status,
                    422,
                    "{field} = {wrong}"
                );
            }
        }
        assert_eq!(team.owner.get("/admin/models").await.json, before);
        for path in STAYING {
            for field in fields {
                let answer = team.owner.patch(v, &with(value(field, path), "force", json!(true))).await;
                assert_eq!(answer.status, 200, "{field} = {path:?}: {}", answer.text);
            }
        }
        // As the engine sees it inside its container.
        team.owner.patch(l, &json!({ "draft_model_path": "/models/m/draft.gguf" })).await.expect(200);
        let outside = team.owner.patch(l, &json!({ "draft_model_path": "/models/out/secret" })).await;
        assert_eq!((outside.status, outside.code()), (422, "path_not_allowed"), "{outside:?}");
        let mut body = with(vllm("n"), "local_path", json!("out/secret"));
        body["chat_template_file"] = json!("out/secret");
        let answer = create(&team.owner, &body).await;
        assert_eq!((answer.status, answer.code()), (422, "path_not_allowed"), "{answer:?}");
        assert_eq!(column(&answer.json["error"]["details"], "param"), ["local_path", "chat_template_file"]);
    }
}

/// Characters that have no place in a name, a path or an argument; templates have lines.
#[tokio::test]
async fn control_characters_are_refused_in_every_text() {
    let team = Team::with(Options::default()).await;
    let spec = team.owner.get("/admin/engines/spec").await.expect(200);
    let mut fields = 0;
    for (engine, body) in [("vllm", vllm("v")), ("llamacpp", llamacpp("l"))] {
        let model = format!("/admin/models/{}", id(&create(&team.owner, &body).await.expect(201)));
        let applies = |row: &&serde_json::Value| row["engine_type"].is_null() || row["engine_type"] == engine;
        let rows = spec.as_array().unwrap().iter().filter(applies);
        let rows = rows.map(|it| (it["name"].as_str().unwrap(), it["schema"]["type"].as_str().unwrap()));
        for (field, kind) in
            rows.chain([("name", "string"), ("served_name", "string"), ("hub_token", "string")])
        {
            for character in ['\0', '\x1b', '\n', '\r', '\t', '\x7f', '\u{9b}'] {
                let text = format!("a{character}{{{{b}}}}");
                let value = match (field, kind) {
                    (_, "string") => json!(text),
                    ("lora_adapters", _) => json!([format!("a={text}")]),
                    (_, "array") => json!([text]),
                    ("extra_env", _) => json!({ "A": text }),
                    _ => continue,
                };
                fields += 1;
                let answer = team.owner.patch(&model, &json!({ field: value })).await;
                if field == "chat_template" && "\n\r\t".contains(character) {
                    assert_eq!(answer.status, 200, "{character:?}: {}", answer.text);
                } else {
                    assert_eq!(answer.status, 422, "{field} with {character:?}: {}", answer.text);
                    assert_invalid(&answer, &[field]);
                }
            }
        }
    }
    assert!(fields > 200, "{fields}");
}

/// Names that an engine's own parser reads as something else.
#[tokio::test]
async fn names_that_an_engine_would_misread_are_refused() {
    let team = Team::with(Options::default()).await;
    assert_invalid(&create(&team.owner, &vllm("--host=0.0.0.0")).await, &["served_name"]);
    assert_invalid(&create(&team.owner, &llamacpp("two,names")).await, &["served_name"]);
    create(&team.owner, &vllm("two,names")).await.expect(201);
    for repo in ["/etc", "../x", "a/b/c", "a b/c", "a/b:Q4"] {
        let answer = create(&team.owner, &with(vllm("m"), "repo_id", json!(repo))).await;
        assert_invalid(&answer, &["repo_id"]);
    }
}
