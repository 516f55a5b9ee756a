//! `/v1/models/running` and `/v1/models/{model_name}/constraints`: what the chat page offers, and the limits of its
//! form. For people who are signed in, of any role; keys have `/v1/models` for themselves.

use axum::{
    Json,
    extract::{Path, State, rejection::PathRejection},
};
use gantry_domain::{
    ApiError, ErrorCode,
    host::RouteHealth,
    model::{EngineKind, Model, Task},
    schema, view,
};
use gantry_inspect::chat::{self, ChatFacts};
use serde_json::{Value, json};

use crate::{
    App,
    caller::Caller,
    error::{Outcome, Problem},
    operation::{Listed, Operation, Page, Query},
    ports::LiveRoute,
};

/// llama-server's context unless the record says otherwise: the specification's default of `context_size`, which is
/// always on the command line.
const LLAMA_CONTEXT: i64 = 8192;
/// Context in tokens that is shown for a model that does not run and whose record and files do not state it. The true
/// context is known only when the model runs; this one is small enough to be true of nearly all models.
const UNKNOWN_CONTEXT: i64 = 4096;
/// Most tokens of an answer, unless the model's `request_defaults` say otherwise.
const ANSWER: i64 = 512;

view! {
    /// One entry of the list.
    #[derive(Debug)]
    pub(crate) struct RunningModel {
        served_model_name: String,
        task: Task,
        /// `null`: it was entered by hand.
        engine_type: Option<EngineKind>,
        state: &'static str as schema::constant("running"),
    }
}

pub(crate) const RUNNING: Operation = Operation::new("listRunningModels", "Models that can be called now").about(
    "The list contains managed models and those of the registry that the user may call and whose engine is healthy: it runs, \
     its breaker is closed, and it is not silent while requests wait. The list is for people; keys have `/v1/models`.",
);

pub(crate) async fn running(
    app: State<App>,
    caller: Caller,
    Query(page): Query<Page>,
) -> Outcome<Listed<RunningModel>> {
    let healthy = |name: &str| app.data_plane.route_health(name).is_some_and(RouteHealth::is_ok);
    let allowed = |name: &str| may_call(&caller, name);
    let routes = app.data_plane.live_routes().into_iter();
    let routes = routes.filter(|it| healthy(&it.served_name) && allowed(&it.served_name));
    let entry = |it: LiveRoute| RunningModel {
        served_model_name: it.served_name,
        task: it.task,
        engine_type: it.engine,
        // Only a model that runs has a route.
        state: "running",
    };
    Ok(page.of(routes.map(entry).collect()))
}

/// Whether an administrator allows this name to the user.
fn may_call(caller: &Caller, name: &str) -> bool {
    caller.user.models.as_ref().is_none_or(|names| names.iter().any(|it| it == name))
}

view! {
    /// Answer of `constraints`. Lengths are in tokens.
    #[derive(Debug)]
    pub(crate) struct Constraints {
        served_model_name: String,
        /// `null`: it was entered by hand.
        engine_type: Option<EngineKind>,
        task: Task,
        /// The context of llama.cpp; `null` for all others, which have `max_model_len`.
        context_size: Option<i64>,
        /// `null` for an engine that was entered by hand and does not report it.
        max_model_len: Option<i64>,
        max_tokens_default: i64 as schema::whole(1, i64::MAX),
        request_defaults: Option<Value> as json!({ "type": ["object", "null"] }),
        supports_streaming: bool,
        supports_system_prompt: bool,
        /// Pictures may be part of a message. `null` if the model's files do not tell, and for an engine that was entered by
        /// hand.
        supports_vision: Option<bool>,
    }
}

pub(crate) const CONSTRAINTS: Operation = Operation::new("getModelConstraints", "Limits of one model")
    .about(
        "All lengths are in tokens. The context is what the engine reports while it runs, else what the record or the \
         model's files say; for an engine that was entered by hand, it is what the engine reports. The name may contain \
         slashes.",
    )
    .errors(&[ErrorCode::ModelNotFound]);

pub(crate) async fn constraints(
    app: State<App>,
    caller: Caller,
    path: Result<Path<String>, PathRejection>,
) -> Outcome<Json<Constraints>> {
    let path = path.map_err(|_| Problem::new(ErrorCode::InvalidRequest, "the path can't be read"))?.0;
    // The listener hands over only paths that end in `/constraints`.
    let name = path.strip_suffix("/constraints").unwrap_or(&path);
    let none =
        || ApiError::new(ErrorCode::ModelNotFound, "there is no model of this name").with_param("model");
    // As in the list: what the caller may not call does not exist for them.
    if !may_call(&caller, name) {
        return Err(none().into());
    }
    let mut models = app.store.read().await?.models(false).await?;
    let named = |it: &Model| it.served_name == name || it.as_launched().adapters().contains(&name);
    // A model's own name comes first, as in routing.
    let own = models.iter().position(|it| it.served_name == name);
    let Some(at) = own.or_else(|| models.iter().position(named)) else {
        let mut routes = app.data_plane.live_routes().into_iter();
        let route = routes.find(|it| it.served_name == name && it.engine.is_none());
        return Ok(Json(elsewhere(route.ok_or_else(none)?)));
    };
    let model = models.swap_remove(at);
    // The gateway puts the record's `request_defaults` into requests at once; all other settings are as they were when
    // the engine started.
    let defaults =
        model.config.get("request_defaults").filter(|it| it.as_object().is_some_and(|it| !it.is_empty()));
    let defaults = defaults.cloned();
    let model = if model.state().0.is_active() { model.as_launched() } else { model };
    let facts = facts(&app, &model).await?;
    let mut routes = app.data_plane.live_routes().into_iter();
    let reported = routes.find(|it| it.served_name == model.served_name).and_then(|it| it.max_model_len);
    Ok(Json(Constraints {
        served_model_name: name.to_owned(),
        ..of_model(model, defaults, reported, &facts)
    }))
}

/// Returns the limits of an engine that was entered by hand: only what it reports is known.
fn elsewhere(route: LiveRoute) -> Constraints {
    Constraints {
        served_model_name: route.served_name,
        engine_type: None,
        task: route.task,
        context_size: None,
        max_model_len: route.max_model_len,
        max_tokens_default: route.max_model_len.map_or(ANSWER, answer_within),
        request_defaults: None,
        supports_streaming: route.task == Task::Generate,
        supports_system_prompt: true,
        supports_vision: None,
    }
}

/// Returns the default number of tokens of an answer in a context of `max_model_len` tokens.
fn answer_within(max_model_len: i64) -> i64 {
    ANSWER.min(max_model_len / 2).max(1)
}

fn of_model(model: Model, defaults: Option<Value>, reported: Option<i64>, facts: &ChatFacts) -> Constraints {
    let config = &model.config;
    let trained = facts.context_length.and_then(|it| i64::try_from(it).ok());
    let (context_size, max_model_len) = match model.engine {
        EngineKind::Llamacpp => {
            // 0 means "as trained" to llama-server.
            let own = config.int("context_size").unwrap_or(LLAMA_CONTEXT);
            let own = if own > 0 { Some(own) } else { trained };
            let context = reported.or(own);
            (context, context)
        }
        EngineKind::Vllm => (None, reported.or(config.int("max_model_len")).or(trained)),
    };
    let max_model_len = max_model_len.unwrap_or(UNKNOWN_CONTEXT);
    let own_limit = ["max_completion_tokens", "max_tokens", "max_output_tokens"]
        .iter()
        .find_map(|it| defaults.as_ref()?.get(it)?.as_i64().filter(|it| *it > 0));
    Constraints {
        engine_type: Some(model.engine),
        task: model.task,
        context_size,
        max_model_len: Some(max_model_len),
        max_tokens_default: own_limit.unwrap_or_else(|| answer_within(max_model_len)),
        request_defaults: defaults,
        // Vectors come all at once, not as a stream.
        supports_streaming: model.task == Task::Generate,
        // Without a template the gateway or the engine writes the prompt, and both have a place for a system prompt.
        supports_system_prompt: facts.template.as_deref().is_none_or(chat::takes_system_prompt),
        supports_vision: facts.sees,
        served_model_name: model.served_name,
    }
}

/// Whether an argument of the operator's own decides whether the engine takes images.
fn is_about_pictures(word: &str) -> bool {
    let flag = word.split('=').next().unwrap_or(word).replace('_', "-");
    ["--mmproj", "-mm", "--limit-mm-per-prompt", "--language-model-only"].contains(&flag.as_str())
}

/// Reads what files say: those of the template that the record names, else the model's own.
async fn facts(app: &App, model: &Model) -> Outcome<ChatFacts> {
    let (base, headers) = (app.files.models_dir.get(), app.files.headers.clone());
    let (engine, config) = (model.engine, model.config.clone());
    let look = move || {
        let local = config.text("local_path").filter(|_| !config.is_online());
        let mut facts = local.and_then(|it| chat::facts(&base, it, &headers.0).ok()).unwrap_or_default();
        if config.texts("extra_args").any(is_about_pictures) {
            facts.sees = None;
        } else if engine == EngineKind::Llamacpp {
            facts.sees = match config.text("mmproj") {
                Some(path) => chat::projector_sees(&base, path, &headers.0).ok().flatten(),
                // From the hub llama.cpp takes a projector by itself.
                None => (!config.is_online()).then_some(false),
            };
        }
        if let Some(file) = config.text("chat_template_file") {
            facts.template = chat::template_file(&base, file).ok().flatten();
        } else if let Some(template) = config.text("chat_template") {
            facts.template = Some(template.to_owned());
        }
        facts
    };
    app.files.disk.look(look).await
}
