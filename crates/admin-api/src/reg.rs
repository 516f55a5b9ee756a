//! `/admin/models/registry`: which served name goes where. Managed models are there by themselves; an owner may add
//! engines that run elsewhere.

use std::collections::HashSet;

use axum::{
    Json,
    extract::{Path, State, rejection::PathRejection},
    response::IntoResponse,
};
use gantry_connect::HttpUrl;
use gantry_domain::{
    ApiError, ErrorCode,
    audit::Action,
    host::RouteHealth,
    model::{RESERVED, Task, is_reserved},
    net::MAX_ENGINE_URLS,
};
use gantry_store::{RegistryEntry, Tx};
use http::StatusCode;
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::{
    App,
    app::Parts,
    error::{Outcome, Problem},
    operation::{Fields, Object, Params, deleted, read, typed},
    policy::Caller,
};

/// What an address is, for messages.
const ADDRESS: &str =
    "an address such as http://10.0.0.5:8000 or https://models.example.com/v1, without user and query";

/// The routing table
pub(crate) async fn list(app: State<App>, mut params: Params) -> Outcome<impl IntoResponse> {
    let page = params.page()?;
    params.finish()?;
    let entries = app.store.read().await?.registry().await?;
    let managed = app.engines.live_routes().into_iter().filter(|it| it.engine.is_some()).map(|it| {
        let (healthy, breaker) = health(&app, &it.served_name);
        json!({
            "served_name": it.served_name, "url": it.url, "urls": [it.url], "upstream_model": null, "task": it.task,
            "engine_type": it.engine, "source": "managed", "healthy": healthy, "breaker": breaker,
        })
    });
    let manual = entries.iter().map(|it| view(&app, it));
    Ok(page.of(managed.chain(manual).collect()))
}

/// The fields of an entry that a body gives, except its name.
#[expect(clippy::option_option, reason = "absent, null and a value are three things in a PATCH")]
struct Given {
    urls: Option<Vec<String>>,
    task: Option<Task>,
    upstream_model: Option<Option<String>>,
    api_key: Option<Option<SecretString>>,
}

impl Given {
    fn read(fields: &mut Fields) -> Self {
        let url = fields.given("url", ADDRESS, |it| engine_url(it.as_str()?));
        let several = format!("a list of 1 to {MAX_ENGINE_URLS} different addresses, each {ADDRESS}");
        let urls = fields.given("urls", &several, engine_urls);
        if url.is_some() && urls.is_some() {
            fields.problem("urls", "send `url` or `urls`, not both");
        }
        Self {
            urls: urls.or_else(|| url.map(|it| vec![it])),
            task: fields.optional("task", "generate or embed", typed::<Task>),
            upstream_model: fields.change("upstream_model", &read::named(200), read::name(200)),
            api_key: fields.change("api_key", "a text of 1 to 500 printable characters", |it| {
                let text = it.as_str()?;
                let legal = (1..=500).contains(&text.len()) && text.bytes().all(|it| it.is_ascii_graphic());
                legal.then(|| SecretString::from(text.to_owned()))
            }),
        }
    }
}

/// Add an engine that runs elsewhere, or replace it
///
/// The gateway's internal key is never sent there; it may have an `api_key` of its own. Answers when the engine was
/// probed.
pub(crate) async fn add(app: State<App>, caller: Caller, body: Object) -> Outcome<impl IntoResponse> {
    let mut fields = Fields::new(body);
    let name = fields.required("served_name", &read::named(200), read::name(200));
    let anywhere = fields.has("url") || fields.has("urls");
    let given = Given::read(&mut fields);
    if !anywhere {
        fields.problem("url", format!("`url` is required: {ADDRESS}; or `urls`, a list of such addresses"));
    }
    fields.finish()?;
    let (served_name, urls) = (name.unwrap_or_default(), given.urls.unwrap_or_default());
    if is_reserved(&served_name) {
        return Err(Problem::invalid("served_name", RESERVED));
    }
    let mut tx = app.store.write().await?;
    // If a model and an entry with one name are made at once, the later one is refused. If two requests change an entry
    // at once, the later one keeps the key that the earlier one gave.
    tx.exclusive().await?;
    let managed = tx.models(false).await?;
    if managed.iter().any(|it| it.served_name == served_name || it.adapters().contains(&served_name.as_str()))
    {
        let message = "a managed model, or an adapter of one, has this served name";
        return Err(ApiError::new(ErrorCode::ServedNameConflict, message).with_param("served_name").into());
    }
    let replaced = find(&mut tx, &served_name).await?;
    // A key never goes to another address than the ones that it was given for.
    let kept = replaced.as_ref().filter(|old| given.api_key.is_none() && has_all(old, &urls));
    let new_key = matches!(given.api_key, Some(Some(_)));
    let entry = RegistryEntry {
        sealed_api_key: kept.and_then(|it| it.sealed_api_key.clone()),
        api_key: given.api_key.unwrap_or_else(|| kept?.api_key.clone()),
        served_name,
        urls,
        task: given.task.unwrap_or(Task::Generate),
        upstream_model: given.upstream_model.flatten(),
        created_at: app.clock.now(),
    };
    let view = store(&app, &caller, tx, replaced.as_ref(), (&entry, new_key)).await?;
    let status = if replaced.is_some() { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, view))
}

/// Change an engine that runs elsewhere
pub(crate) async fn change(
    app: State<App>,
    caller: Caller,
    path: Result<Path<String>, PathRejection>,
    body: Object,
) -> Outcome<Json<Value>> {
    let Path(name) = path.map_err(|_| unreadable())?;
    let mut fields = Fields::new(body);
    let given = Given::read(&mut fields);
    fields.finish()?;
    let mut tx = app.store.write().await?;
    tx.exclusive().await?;
    let old = find(&mut tx, &name).await?.ok_or_else(|| Parts::not_found("registry entry", &name))?;
    let mut entry = old.clone();
    entry.task = given.task.unwrap_or(entry.task);
    if let Some(urls) = given.urls {
        let has_key = old.api_key.is_some() || old.sealed_api_key.is_some();
        if has_key && given.api_key.is_none() && !has_all(&old, &urls) {
            let message = "send `api_key` too (or `null`): a key goes to no other address than those that it was given for";
            return Err(Problem::invalid("api_key", message));
        }
        entry.urls = urls;
    }
    if let Some(upstream_model) = given.upstream_model {
        entry.upstream_model = upstream_model;
    }
    let new_key = matches!(given.api_key, Some(Some(_)));
    if let Some(api_key) = given.api_key {
        entry.api_key = api_key;
        entry.sealed_api_key = None;
    }
    store(&app, &caller, tx, Some(&old), (&entry, new_key)).await
}

/// Returns whether the entry has all of these addresses: its key may go to them, and to no other address.
fn has_all(entry: &RegistryEntry, urls: &[String]) -> bool {
    urls.iter().all(|it| entry.urls.contains(it))
}

/// Stores an entry, perhaps with a key that was sent with it, puts it into force and has it probed. Returns what the
/// list then says of it.
async fn store(
    app: &App,
    caller: &Caller,
    mut tx: Tx,
    replaced: Option<&RegistryEntry>,
    (entry, new_key): (&RegistryEntry, bool),
) -> Outcome<Json<Value>> {
    tx.upsert_registry(entry).await?;
    let did = caller.did(Action::RegistryAdd, &entry.served_name);
    let did = match replaced {
        None => did.created(stored(entry)),
        Some(old) => {
            let changed = did.changed(&stored(old), &stored(entry));
            // If one key replaces another, the fields above do not show it.
            if new_key { changed.noting("api_key_given", true) } else { changed }
        }
    };
    tx.audit(&did, app.clock.now()).await?;
    tx.commit().await?;
    app.refresh.publish().await;
    app.monitor.probe(Some(vec![entry.served_name.clone()])).await;
    Ok(Json(view(app, entry)))
}

fn unreadable() -> Problem {
    Problem::new(ErrorCode::InvalidRequest, "the path can't be read")
}

/// Remove an engine that runs elsewhere
pub(crate) async fn remove(
    app: State<App>,
    caller: Caller,
    path: Result<Option<Path<String>>, PathRejection>,
    mut params: Params,
) -> Outcome<Json<Value>> {
    let path = path.map_err(|_| unreadable())?;
    let name = path.map(|Path(name)| name).or_else(|| params.text("served_name"));
    params.finish()?;
    let name = name.ok_or_else(|| Problem::invalid("served_name", "`served_name` is required"))?;
    let mut tx = app.store.write().await?;
    tx.exclusive().await?;
    let gone = find(&mut tx, &name).await?.ok_or_else(|| Parts::not_found("registry entry", &name))?;
    if !tx.delete_registry(&name).await? {
        return Err(Parts::not_found("registry entry", name));
    }
    let did = caller.did(Action::RegistryRemove, &name).deleted(stored(&gone));
    tx.audit(&did, app.clock.now()).await?;
    tx.commit().await?;
    app.refresh.publish().await;
    Ok(deleted(name))
}

async fn find(tx: &mut Tx, served_name: &str) -> Outcome<Option<RegistryEntry>> {
    Ok(tx.registry().await?.into_iter().find(|it| it.served_name == served_name))
}

/// Returns an entry that was made by hand, as the list has it.
fn view(app: &App, entry: &RegistryEntry) -> Value {
    let (healthy, breaker) = health(app, &entry.served_name);
    json!({
        "served_name": entry.served_name, "url": entry.urls.first(), "urls": entry.urls,
        "upstream_model": entry.upstream_model, "task": entry.task, "engine_type": null, "source": "manual",
        "healthy": healthy, "breaker": breaker,
    })
}

fn health(app: &App, served_name: &str) -> (bool, &'static str) {
    let health = app.engines.route_health(served_name).unwrap_or(RouteHealth::Down);
    (health.is_ok(), health.breaker())
}

/// An entry without its key, for the audit log.
fn stored(entry: &RegistryEntry) -> Value {
    json!({
        "served_name": entry.served_name, "urls": entry.urls, "upstream_model": entry.upstream_model,
        "task": entry.task, "engine_type": null, "source": "manual",
        "api_key_set": entry.api_key.is_some() || entry.sealed_api_key.is_some(),
    })
}

/// 1 to [`MAX_ENGINE_URLS`] addresses, none of them twice.
fn engine_urls(value: &Value) -> Option<Vec<String>> {
    let list = value.as_array().filter(|it| (1..=MAX_ENGINE_URLS).contains(&it.len()))?;
    let urls: Vec<String> = list.iter().map(|it| engine_url(it.as_str()?)).collect::<Option<_>>()?;
    let distinct: HashSet<&String> = urls.iter().collect();
    (distinct.len() == urls.len()).then_some(urls)
}

/// An [`HttpUrl`] whose base has only plain segments; returns it as it was written, but for a slash at the end.
fn engine_url(text: &str) -> Option<String> {
    let url = HttpUrl::parse(text).filter(|_| text.len() <= 500 && !text.ends_with("//"))?;
    let plain = |it: &str| {
        let legal = |it: u8| it.is_ascii_alphanumeric() || b"-._~".contains(&it);
        !matches!(it, "" | "." | "..") && it.bytes().all(legal)
    };
    let legal = url.base().split('/').skip(1).all(plain);
    legal.then(|| format!("{}://{}{}", url.scheme(), url.authority(), url.base()))
}
