//! A server that means ill: whatever it answers, a terminal obeys none of it, and JSON stays JSON.

use std::process::Stdio;

use axum::{
    Json, Router,
    http::{HeaderMap, HeaderValue, Uri, header::SET_COOKIE},
};
use serde_json::{Value, json};

use super::{Ran, Shell, obeyed};

/// Clears the screen in three ways, and turns the direction of what follows in two.
const EVIL: &str = "\u{1b}[2J\u{9b}2J\u{7f}\u{202e}\u{2066}";

/// Every field that any verb prints, and as few that lead it as there must be.
fn record() -> Value {
    const FIELDS: &str = "id name username role org_name org_id served_name engine_type task state state_reason detail \
        timeout_sec test_type latency_ms user_count key_count prefix scopes models status username_hint token image \
        size_mb created created_at updated_at last_used_at last_login_at group model_name key_prefix endpoint status_code \
        outcome requests errors prompt_tokens completion_tokens total_tokens p50_ms p95_ms ttft_ms ts samples rows \
        rollup_rows_sum checked_from checked_to active_requests latency_p50_ms latency_p95_ms index limit_mode \
        ip_allowlist rpm_limit path command_str image_cached engine_version logs needs_apply_reason message title fix \
        severity quant_type total_size_mb from to reason recommended_engine";
    let mut record: Value = FIELDS.split_whitespace().map(|it| (it.to_owned(), Value::from(EVIL))).collect();
    let nested = json!({
        "success": true,
        "ok": false,
        "user": record,
        "spool": { "written": EVIL, "shipped": EVIL },
        "mismatches": [record],
        "budget": { "day": { "pct": EVIL }, "month": { "pct": EVIL } },
        "effective_limits": record,
        "warnings": [record],
        "loaded": [EVIL],
        "engines": { EVIL: record },
        "recommendations": [EVIL],
        "engine_recommendation": record,
        "gguf_groups": [record],
        "has_gguf": true,
        "safetensor_info": { EVIL: EVIL },
        "diagnosis": { "title": EVIL, "message": EVIL, "field": EVIL, "fixes": [{ "text": EVIL, "field": EVIL, "value": EVIL }] },
        "processes": [],
        "valid": true,
    });
    record.as_object_mut().unwrap().extend(nested.as_object().unwrap().clone());
    record
}

/// Returns the record with an id that the command line accepts.
fn seven() -> Value {
    let mut record = record();
    record["id"] = 7.into();
    record
}

async fn answer(uri: Uri) -> (HeaderMap, Json<Value>) {
    let mut headers = HeaderMap::new();
    let path = uri.path();
    let body = match path.trim_start_matches("/admin/") {
        "orgs/lookup" | "users/lookup" => json!([{ "id": 7, "name": "seven", "username": "seven" }]),
        "orgs" if uri.query().is_some() => json!([seven(), record()]),
        "users" | "keys" | "models" if uri.query().is_some() => json!([record()]),
        "models/metrics" | "system/gpus" | "usage" | "usage/aggregate" | "usage/series" => json!([record()]),
        // A request to somewhere else would not be made at all.
        path if path.starts_with("models/") => seven(),
        "/auth/login" => {
            headers.insert(SET_COOKIE, HeaderValue::from_static("svc_session=x; HttpOnly"));
            record()
        }
        _ => record(),
    };
    (headers, Json(body))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn no_answer_commands_the_terminal() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let shell = Shell::at(&format!("http://{}", listener.local_addr().unwrap()));
    #[expect(clippy::disallowed_methods, reason = "tests have no supervisor")]
    drop(tokio::spawn(async { axum::serve(listener, Router::new().fallback(answer)).await }));
    for (line, code) in [
        ("login ada", 0),
        ("users list", 0),
        ("users create eve", 0),
        ("users set seven --disable", 0),
        ("users delete 7 --yes", 0),
        ("orgs list", 0),
        ("orgs create new", 0),
        ("orgs show seven", 0),
        ("orgs delete seven --yes", 0),
        ("keys list", 0),
        ("keys create ci", 0),
        ("keys revoke 7", 0),
        ("models list", 0),
        ("models show 7", 0),
        ("models create --served-name x --engine vllm", 0),
        ("models set 7 --name x", 0),
        ("models start 7", 0),
        ("models start 7 --wait --timeout 1", 8),
        ("models test 7", 0),
        ("models dry-run 7", 0),
        ("models inspect x", 0),
        ("models logs 7 --diagnose", 0),
        ("models delete 7 --yes", 0),
        ("usage list", 0),
        ("usage top", 0),
        ("usage series", 0),
        ("usage latency", 0),
        ("usage integrity", 1),
        ("images", 0),
        ("images load x", 0),
        ("top --once", 0),
        ("openapi", 0),
    ] {
        for json in [false, true] {
            let mut args: Vec<_> = line.split(' ').collect();
            args.extend(json.then_some("--json"));
            let mut command = shell.command(&args);
            command.env("GANTRY_PASSWORD", "password").env("GANTRY_NEW_PASSWORD", "password");
            let ran = Ran::of(command.stdin(Stdio::null()).output().unwrap());
            assert_eq!(ran.code, Some(code), "{args:?}: {}", ran.err);
            for text in [&ran.out, &ran.err] {
                assert!(!text.contains(obeyed), "{args:?}: {text:?}");
            }
            if json && code != 8 {
                ran.json();
            }
        }
    }
}
