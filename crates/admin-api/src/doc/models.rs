//! `/admin/models` and `/admin/engines/spec`.

use gantry_domain::{
    ErrorCode, diagnosis,
    model::{EngineKind, State, fields, tuned},
};
use serde_json::{Map, Value, json};

use super::{
    Doc,
    schema::{
        anything, count, deleted, described, event, field, flag, formatted, id, json_text, list, map, name,
        named, nullable, number, object, object_but, one_of, query_flag, request, text, time, whole, word,
    },
};

const GATED: &[ErrorCode] =
    &[ErrorCode::PathNotAllowed, ErrorCode::ServedNameConflict, ErrorCode::HostUnavailable];

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    let [vllm, llamacpp] = EngineKind::ALL;
    let mut all = vec![
        ("Engine", one_of(&["vllm", "llamacpp"])),
        ("EngineWord", one_of(&["vllm", "llamacpp", "primary", "secondary"])),
        ("ModelState", one_of(&State::WORDS)),
        ("VllmModel", record(vllm)),
        ("LlamacppModel", record(llamacpp)),
        ("Model", json!({ "oneOf": [named("VllmModel"), named("LlamacppModel")] })),
        ("VllmModelForm", form(vllm, true)),
        ("LlamacppModelForm", form(llamacpp, true)),
        ("VllmModelChange", form(vllm, false)),
        ("LlamacppModelChange", form(llamacpp, false)),
        ("Diagnosis", diagnosis_schema()),
        ("DryRun", dry_run()),
        ("MemoryEstimate", memory()),
        ("BaseDir", base_dir_schema()),
    ];
    all.extend(super::system::folders());
    all
}

fn diagnosis_schema() -> Value {
    object([
        ("detected", flag()),
        ("title", text()),
        ("message", text()),
        (
            "fixes",
            list(object_but(
                &["field", "value"],
                [("text", text()), ("field", text()), ("value", anything())],
            )),
        ),
        ("field", nullable(text())),
        ("severity", one_of(&["error", "warning", "info"])),
        ("error_type", error_type()),
        ("evidence", list(text())),
    ])
}

/// Every signature, and `unknown`.
fn error_type() -> Value {
    let mut names: Vec<&str> = diagnosis::error_types().chain(["unknown"]).collect();
    names.sort_unstable();
    names.dedup();
    one_of(&names)
}

/// A model as answers show it.
fn record(engine: EngineKind) -> Value {
    let rolled_back = object([
        ("reason", nullable(text())),
        ("diagnosis", nullable(named("Diagnosis"))),
        ("task", named("Task")),
        ("settings", map(anything())),
    ]);
    let restart = object([
        ("attempts", described(count(), "Restarts within the last hour that count towards `restart_limit`.")),
        ("last_at", nullable(time())),
        ("next_at", described(nullable(time()), "When the next one is due.")),
        ("given_up", described(flag(), "It stays `failed` until somebody starts it.")),
    ]);
    let identity = [
        ("id", id()),
        ("name", text()),
        ("served_name", text()),
        ("task", named("Task")),
        ("engine_type", super::schema::constant(engine.as_str())),
        ("state", named("ModelState")),
        ("state_reason", nullable(text())),
        ("needs_apply", flag()),
        ("needs_apply_reason", nullable(text())),
        ("rolled_back", nullable(rolled_back)),
        ("diagnosis", nullable(named("Diagnosis"))),
        (
            "restart",
            described(
                nullable(restart),
                "What the gateway does by itself after failures (`restart_policy`). `null`: nothing.",
            ),
        ),
        ("archived", flag()),
        (
            "simulator",
            described(flag(), "The simulator stands in for the engine: what it answers means nothing."),
        ),
        ("hub_token_set", flag()),
        (
            "defaulted",
            described(list(text()), "Fields that are not set: what is shown of them is the default."),
        ),
        ("created_at", time()),
        ("updated_at", time()),
    ];
    let settings = fields::all().filter(|it| it.applies_to(engine)).map(|it| {
        let schema = match it.name {
            "mode" => one_of(&["online", "offline"]),
            _ => nullable(field(it)),
        };
        (it.name, described(schema, it.help))
    });
    object(identity.into_iter().chain(settings))
}

/// A model as requests make it or change it. `null` unsets a setting.
fn form(engine: EngineKind, new: bool) -> Value {
    let token = json!({
        "type": ["string", "null"], "format": "password", "maxLength": 500, "pattern": "^[!-~]*$",
        "description": "Access token of the model hub. Never shown. An empty text leaves it as it is.",
    });
    let served = "What clients send in `model`; unique among models that are not archived. May also be sent as \
                  `served_model_name`.";
    let identity = [
        ("name", described(name(200), "For people; without it, the served name.")),
        ("served_name", described(name(200), served)),
        ("task", named("Task")),
        ("engine_type", one_of(&[engine.as_str(), engine.rank()])),
        ("hub_token", token),
        ("archived", flag()),
    ];
    let settings = fields::all()
        .filter(|it| it.applies_to(engine))
        .map(|it| (it.name, described(nullable(field(it)), it.help)));
    let wishes = [
        (
            "force",
            described(flag(), "Files that are named and not there are no reason to refuse: they come later."),
        ),
        (
            "profile",
            described(
                nullable(one_of(&[tuned::PROFILE])),
                "Sets better values than the defaults, where nothing is set; see docs/reference/defaults.md.",
            ),
        ),
    ];
    // `engine_type` decides which of the two forms it is; without it, the files do.
    let required: &[&str] = if new && engine == EngineKind::Vllm { &["engine_type"] } else { &[] };
    request(required, identity.into_iter().chain(wishes).chain(settings))
}

fn create_form() -> Value {
    json!({ "oneOf": [named("VllmModelForm"), named("LlamacppModelForm")] })
}

/// The record decides which of the two forms it is.
fn change_form() -> Value {
    json!({ "anyOf": [named("VllmModelChange"), named("LlamacppModelChange")] })
}

fn dry_run() -> Value {
    let warning = object([
        ("severity", one_of(&["error", "warning", "info"])),
        ("category", text()),
        ("title", text()),
        ("message", text()),
        ("fix", nullable(text())),
        ("field", nullable(text())),
        (
            "set",
            described(
                json!({ "type": ["object", "null"] }),
                "Values that help, as a change request takes them.",
            ),
        ),
    ]);
    object([
        ("command", list(text())),
        ("command_str", text()),
        ("valid", flag()),
        ("env", map(text())),
        ("image", text()),
        ("image_cached", nullable(flag())),
        ("engine_version", text()),
        ("simulator", flag()),
        ("vram_estimate_gb", nullable(number())),
        ("vram_estimate", nullable(named("MemoryEstimate"))),
        ("warnings", list(warning)),
    ])
}

fn memory() -> Value {
    described(
        object([
            ("weights_gb", number()),
            ("kv_cache_gb", number()),
            ("overhead_gb", number()),
            ("total_gb", number()),
            ("per_gpu_gb", list(number())),
            ("fits", nullable(flag())),
            ("available_gb", nullable(number())),
            ("gpu_indexes", list(count())),
            ("compute_gb", number()),
            ("weights_by_type_gb", map(number())),
            ("host_ram_gb", number()),
            ("host_ram_available_gb", nullable(number())),
            ("max_context_that_fits", nullable(count())),
            (
                "layers_on_gpus",
                described(
                    nullable(count()),
                    "Where the engine chooses and not all of them fit; the others stay in RAM.",
                ),
            ),
            ("notes", list(text())),
        ]),
        "Sizes are GiB; see docs/memory-estimate.md.",
    )
}

fn base_dir_schema() -> Value {
    object([
        ("base_dir", text()),
        ("free_bytes", nullable(count())),
        ("total_bytes", nullable(count())),
        ("source", one_of(&["database", "settings"])),
        ("settings_base_dir", text()),
    ])
}

pub(crate) fn list_models() -> Doc {
    Doc::new("listModels", "List models")
        .paged()
        .query("archived", query_flag(), "Archived ones too.")
        .list(named("Model"))
}

pub(crate) fn create() -> Doc {
    Doc::new("createModel", "Create a model")
        .about(
            "Nothing is started. Needs a `local_path`, or a `repo_id` in online mode. `engine_type`, `task`, `pooling` and \
             `served_name` that are left out are filled in from the files. A file that is named and not there is 422, \
             unless `force` is true. Some settings can be set by owners only; docs/model-fields.md marks them.",
        )
        .body(create_form())
        .created(named("Model"))
        .errors(GATED)
}

pub(crate) fn show() -> Doc {
    Doc::new("getModel", "One model").ok(named("Model"))
}

pub(crate) fn change() -> Doc {
    Doc::new("changeModel", "Change a model")
        .about(
            "What runs goes on as it is until the model is applied; its served name can't be changed meanwhile. \
             `null` unsets a setting.",
        )
        .body(change_form())
        .ok(named("Model"))
        .errors(GATED)
        .errors(&[ErrorCode::InvalidState])
}

pub(crate) fn delete() -> Doc {
    Doc::new("deleteModel", "Delete a model")
        .about(
            "Nobody sees it any more at once; the answer waits for its engine to end, for 15 s at most. Only the record \
             is deleted: files stay.",
        )
        .ok(deleted(id()))
}

pub(crate) fn base_dir() -> Doc {
    Doc::new("getModelsBaseDir", "The models base directory")
        .about(
            "`source` is `database` when an owner chose it, which wins over the setting `MODELS_DIR` \
             (`settings_base_dir`).",
        )
        .ok(named("BaseDir"))
}

pub(crate) fn change_base_dir() -> Doc {
    Doc::new("changeModelsBaseDir", "Choose the models base directory")
        .about("An absolute path of a directory that exists. Choosing that of `MODELS_DIR` takes the choice back.")
        .body(request(&["base_dir"], [("base_dir", formatted("absolute-path"))]))
        .ok(named("BaseDir"))
        .errors(&[ErrorCode::PathNotAllowed, ErrorCode::HostUnavailable])
}

pub(crate) fn dry_run_unsaved() -> Doc {
    Doc::new("previewModel", "Preview the command of values that are not saved")
        .about("The body is that of a create request. Nothing is stored.")
        .body(create_form())
        .ok(named("DryRun"))
        .errors(&[ErrorCode::PathNotAllowed, ErrorCode::HostUnavailable])
}

pub(crate) fn dry_run_saved() -> Doc {
    Doc::new("previewSavedModel", "Preview a saved model's command")
        .ok(named("DryRun"))
        .errors(&[ErrorCode::HostUnavailable])
}

pub(crate) fn start() -> Doc {
    Doc::new("startModel", "Start a model")
        .about(
            "Records that it should run and returns; `state` then goes through `starting` and `loading` to `running` \
             or `failed`. An image that can't be had is refused at once, and so is a model whose files are for another \
             task.",
        )
        .query("force", query_flag(), "Starts it although its files are for another task.")
        .accepted(named("Model"))
        .errors(&[ErrorCode::InvalidState, ErrorCode::ImageNotAvailable, ErrorCode::ModelFileMissing])
}

pub(crate) fn stop() -> Doc {
    Doc::new("stopModel", "Stop a model")
        .about("The engine gets time to finish; then its container is removed. Stopping a stopped model changes nothing.")
        .ok(named("Model"))
        .accepted(named("Model"))
}

pub(crate) fn apply() -> Doc {
    Doc::new("applyModel", "Apply a model's settings")
        .about(
            "Stops it, if it is active, and starts it with the settings as they are now. Requests that come meanwhile \
             wait for the new engine, those in flight may end first.",
        )
        .query(
            "rollback",
            query_flag(),
            "If these settings do not get ready, the last ones that did are put back and started.",
        )
        .query("force", query_flag(), "Starts it although its files are for another task.")
        .accepted(named("Model"))
        .errors(&[ErrorCode::InvalidState, ErrorCode::ImageNotAvailable, ErrorCode::ModelFileMissing])
}

pub(crate) fn test() -> Doc {
    Doc::new("testModel", "Test a running model")
        .about("Sends one small request straight to the engine. It is not metered.")
        .ok(object([
            ("success", flag()),
            ("test_type", one_of(&["chat", "completion", "embedding", "rerank"])),
            ("request", anything()),
            ("response", anything()),
            ("error", nullable(text())),
            ("latency_ms", count()),
            ("timestamp", time()),
        ]))
        .errors(&[ErrorCode::InvalidState])
}

pub(crate) fn readiness() -> Doc {
    Doc::new("getModelReadiness", "Readiness of a model").ok(object([
        ("status", one_of(&["ready", "loading", "stopped", "error"])),
        ("detail", text()),
        ("state", named("ModelState")),
        ("state_reason", nullable(text())),
        ("elapsed_sec", nullable(count())),
        ("timeout_sec", count()),
    ]))
}

pub(crate) fn logs() -> Doc {
    let log = object_but(
        &["diagnosis", "summary"],
        [
            ("logs", text()),
            ("lines", count()),
            ("truncated", flag()),
            (
                "earlier",
                described(
                    flag(),
                    "It is of an engine that an earlier command started: the last one made none, or none yet.",
                ),
            ),
            ("diagnosis", named("Diagnosis")),
            ("summary", text()),
        ],
    );
    Doc::new("getModelLogs", "The engine's log")
        .about(
            "The last `tail` lines; with `diagnose` also why the model does not run and which field to change; with \
             `follow` a stream of server-sent events, each `{\"line\": …}`, until the session ends.",
        )
        .query("tail", super::schema::defaulted(whole(1, 20_000), 1000), "Lines of the log.")
        .query("since", time(), "Only what was printed then or later, to the second.")
        .query("follow", query_flag(), "Go on, as server-sent events.")
        .query("diagnose", query_flag(), "Say why the model does not run.")
        .ok(log)
        .or("text/event-stream", event(json_text(object([("line", text())]))))
        .errors(&[
            ErrorCode::InvalidState,
            ErrorCode::TooManyStreams,
            ErrorCode::RuntimeUnavailable,
            ErrorCode::StreamsExhausted,
        ])
}

pub(crate) fn events() -> Doc {
    Doc::new("listModelEvents", "The timeline of a model")
        .about("Newest first; `duration_ms` is how long the state before lasted, `null` if there was none.")
        .paged()
        .list(object([
            ("at", time()),
            ("from", named("ModelState")),
            ("to", named("ModelState")),
            ("reason", nullable(text())),
            ("detail", nullable(text())),
            ("duration_ms", nullable(count())),
        ]))
}

pub(crate) fn metrics() -> Doc {
    let share = || nullable(json!({ "type": "number", "minimum": 0, "maximum": 1 }));
    Doc::new("listModelMetrics", "Metrics of all engines")
        .about(
            "Read from each engine's own `/metrics`; its counters and percentiles are over the engine's life. llama.cpp \
             has no histograms: its percentiles are the gateway's, since that started and for the requests that came \
             through it, as `latency_source` says. What nobody knows is `null`.",
        )
        .paged()
        .list(object([
            ("model_id", id()),
            ("served_name", text()),
            ("engine_type", named("Engine")),
            ("state", named("ModelState")),
            ("requests_running", nullable(count())),
            ("requests_waiting", nullable(count())),
            ("kv_cache_usage", share()),
            ("prompt_tokens_total", nullable(count())),
            ("generation_tokens_total", nullable(count())),
            ("ttft_p50_ms", nullable(number())),
            ("ttft_p95_ms", nullable(number())),
            ("latency_p50_ms", nullable(number())),
            ("latency_p95_ms", nullable(number())),
            ("latency_source", nullable(one_of(&["engine", "gateway"]))),
            ("prefix_cache_hit_rate", share()),
            ("error", nullable(text())),
        ]))
}

pub(crate) fn spec() -> Doc {
    let mut row: Map<String, Value> = Map::new();
    for (name, schema) in [
        ("name", text()),
        ("engine_type", nullable(named("Engine"))),
        ("group", text()),
        ("schema", described(json!({ "type": "object" }), "JSON Schema of the value.")),
        ("default", anything()),
        (
            "default_task",
            described(
                nullable(named("Task")),
                "The default is for models with this task only; `null`: for all.",
            ),
        ),
        (
            "engine_default",
            described(
                nullable(text()),
                "What the engine does by itself, in words; `null` without a default.",
            ),
        ),
        (
            "tuned",
            described(
                nullable(object([("value", anything()), ("why", text()), ("task", nullable(named("Task")))])),
                "The value that the profile `tuned` sets, for models with this task only, if one is named.",
            ),
        ),
        ("unit", nullable(text())),
        ("help", text()),
        ("owner_only", flag()),
        ("examples", list(text())),
    ] {
        row.insert(name.to_owned(), schema);
    }
    Doc::new("listModelFields", "Every field of a model with type, bounds, default, unit and help")
        .ok(list(object(row.iter().map(|(name, schema)| (name.as_str(), schema.clone())))))
}

pub(crate) fn local_folders() -> Doc {
    Doc::new("listLocalFolders", "Folders of the models base directory")
        .paged()
        .list(object([
            ("name", text()),
            ("path", text()),
            ("has_gguf", flag()),
            ("has_safetensors", flag()),
            ("size_bytes", count()),
        ]))
        .errors(&[ErrorCode::InvalidState, ErrorCode::NotFound, ErrorCode::HostUnavailable])
}

pub(crate) fn inspect_folder() -> Doc {
    Doc::new("inspectFolder", "What a folder, or a single `.gguf` file, holds")
        .about("Which engine suits it, and what is wrong with its files.")
        .needs("folder", text(), "Its path from the models base directory; `.` is the directory itself.")
        .ok(named("Inspection"))
        .errors(&[ErrorCode::InvalidState, ErrorCode::NotFound, ErrorCode::PathNotAllowed])
        .errors(&[ErrorCode::HostUnavailable])
}

pub(crate) fn hub_config() -> Doc {
    Doc::new("getHubConfig", "What a repository of the model hub is")
        .about(
            "Asks the hub of `HUB_ENDPOINT`, else huggingface.co, and no other. For a gated repository the token of the model `model_id` is \
             sent, or that of the header.",
        )
        .needs("repo_id", formatted("hub-repository"), "`owner/name`, or `name` as of `gpt2`.")
        .query("model_id", id(), "The model whose token is sent.")
        .header("X-Hub-Token", word("^[!-~]{1,500}$"), "A token that no record has yet.")
        .ok(object([
            ("repo_id", text()),
            ("config", anything()),
            ("summary", named("HubSummary")),
            ("engine_recommendation", named("EngineRecommendation")),
            ("files", nullable(object([("gguf", list(text())), ("safetensors", list(text()))]))),
        ]))
        .errors(&[
            ErrorCode::NotFound,
            ErrorCode::HubAccessDenied,
            ErrorCode::BadUpstream,
            ErrorCode::HubUnavailable,
            ErrorCode::UpstreamTimeout,
        ])
}
