//! `/admin/system`.

use gantry_domain::ErrorCode;
use serde_json::{Value, json};

use super::{
    Doc,
    schema::{
        count, described, flag, formatted, id, line, list, nullable, number, object, one_of, request, text,
    },
};

fn image() -> Vec<(&'static str, Value)> {
    vec![
        ("image", text()),
        ("cached", flag()),
        ("size_mb", nullable(described(number(), "MiB."))),
        ("created", nullable(text())),
    ]
}

pub(crate) fn container_images() -> Doc {
    let engines = object([("vllm", object(image())), ("llamacpp", object(image()))]);
    let of_model = object(image().into_iter().chain([("models", list(id()))]));
    let summary = object([
        ("critical_images_cached", flag()),
        ("total_images_checked", count()),
        ("cached_count", count()),
    ]);
    Doc::new("getContainerImages", "Image cache")
        .about("`offline_ready`: every image that a model which is not archived starts with is there.")
        .ok(object([
            ("offline_mode", flag()),
            ("offline_ready", flag()),
            ("engines", engines),
            ("infrastructure", json!({ "type": "array", "maxItems": 0 })),
            ("models", list(of_model)),
            ("summary", summary),
            ("recommendations", list(text())),
        ]))
        .errors(&[ErrorCode::RuntimeUnavailable])
}

pub(crate) fn load_images() -> Doc {
    Doc::new("loadContainerImages", "Load images from a file")
        .about(
            "`path` names an archive as `docker save` writes it, in one of the folders of `EXPORT_DIRS`. Answers when \
             the images are there, which may take minutes; `/admin/events` tells meanwhile how far it is (`job`).",
        )
        .body(request(&["path"], [("path", line(1000))]))
        .ok(object([("loaded", list(text()))]))
        .errors(&[ErrorCode::NotFound, ErrorCode::PathNotAllowed, ErrorCode::RuntimeUnavailable, ErrorCode::HostUnavailable])
}

pub(crate) fn gpus() -> Doc {
    let process = object([
        ("pid", count()),
        ("mem_mb", count()),
        ("model_id", nullable(id())),
        ("served_name", nullable(text())),
    ]);
    Doc::new("listGpus", "GPUs of the machine")
        .about(
            "Sizes are MiB. A process of a model says of which. What a driver does not tell is `null`. Without GPUs the \
             list is empty.",
        )
        .ok(list(object([
            ("index", count()),
            ("name", text()),
            ("mem_total_mb", nullable(count())),
            ("mem_used_mb", nullable(count())),
            ("compute_capability", nullable(formatted("version"))),
            ("architecture", nullable(text())),
            ("flash_attention_supported", nullable(flag())),
            ("vendor", one_of(&["nvidia", "amd"])),
            ("util_pct", nullable(count())),
            ("temperature_c", nullable(count())),
            ("power_w", nullable(number())),
            ("processes", list(process)),
        ])))
}
