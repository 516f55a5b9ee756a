//! `/admin/models`: what makes and changes models, commands and previews.

use gantry_domain::{
    ErrorCode,
    model::{EngineKind, fields, tuned},
};
use serde_json::{Value, json};

use super::{
    Doc,
    schema::{
        count, deleted, described, field, flag, id, list, map, name, named, nullable, number, object, one_of,
        query_flag, request, text,
    },
};

const GATED: &[ErrorCode] =
    &[ErrorCode::PathNotAllowed, ErrorCode::ServedNameConflict, ErrorCode::HostUnavailable];

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    let [vllm, llamacpp] = EngineKind::ALL;
    vec![
        ("EngineWord", one_of(&["vllm", "llamacpp", "primary", "secondary"])),
        ("VllmModelForm", form(vllm, true)),
        ("LlamacppModelForm", form(llamacpp, true)),
        ("VllmModelChange", form(vllm, false)),
        ("LlamacppModelChange", form(llamacpp, false)),
        ("DryRun", dry_run()),
        ("MemoryEstimate", memory()),
    ]
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
