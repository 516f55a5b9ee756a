//! `/admin/models/registry`: which served name goes where. Managed models are there by themselves; an owner may add
//! engines that run elsewhere.

use axum::{
    Json,
    extract::{Path, State, rejection::PathRejection},
    response::IntoResponse,
};
use gantry_domain::{
    ApiError, ErrorCode,
    audit::Action,
    host::RouteHealth,
    model::{RESERVED, Task, is_reserved},
};
use gantry_store::{RegistryEntry, Tx};
use http::StatusCode;
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::{
    App,
    app::Parts,
    error::{Outcome, Problem},
    extract::{Fields, Object, Params, deleted, read, typed},
    policy::Caller,
};

/// The routing table
pub(crate) async fn list(app: State<App>, mut params: Params) -> Outcome<impl IntoResponse> {
    let page = params.page()?;
    params.finish()?;
    let entries = app.store.read().await?.registry().await?;
    let managed = app.engines.managed_routes().into_iter().map(|it| {
        let (healthy, breaker) = health(&app, &it.served_name);
        json!({
            "served_name": it.served_name, "url": it.url, "task": it.task, "engine_type": it.engine,
            "source": "managed", "healthy": healthy, "breaker": breaker,
        })
    });
    let manual = entries.iter().map(|it| view(&app, it));
    Ok(page.of(managed.chain(manual).collect()))
}

/// Add an engine that runs elsewhere, or change it
///
/// The gateway's internal key is never sent there; it may have an `api_key` of its own. Answers when the engine was probed.
pub(crate) async fn add(app: State<App>, caller: Caller, body: Object) -> Outcome<impl IntoResponse> {
    let mut fields = Fields::new(body);
    let name = fields.required("served_name", &read::named(200), read::name(200));
    let url =
        fields.required("url", "an address such as http://10.0.0.5:8000", |it| engine_url(it.as_str()?));
    let task = fields.optional("task", "generate or embed", typed::<Task>).unwrap_or(Task::Generate);
    let api_key = fields.change("api_key", "a text of 1 to 500 printable characters", |it| {
        let text = it.as_str()?;
        let legal = (1..=500).contains(&text.len()) && text.bytes().all(|it| it.is_ascii_graphic());
        legal.then(|| SecretString::from(text.to_owned()))
    });
    fields.finish()?;
    let (served_name, url) = (name.unwrap_or_default(), url.unwrap_or_default());
    if is_reserved(&served_name) {
        return Err(Problem::invalid("served_name", RESERVED));
    }
    let mut tx = app.store.write().await?;
    let managed = tx.models(false).await?;
    if managed.iter().any(|it| it.served_name == served_name || it.adapters().contains(&served_name.as_str()))
    {
        let message = "a managed model, or an adapter of one, has this served name";
        return Err(ApiError::new(ErrorCode::ServedNameConflict, message).with_param("served_name").into());
    }
    let now = app.clock.now();
    let replaced = find(&mut tx, &served_name).await?;
    // Never to another address than the one that it was given for.
    let kept = || replaced.as_ref().filter(|old| old.url == url)?.api_key.clone();
    let api_key = api_key.unwrap_or_else(kept);
    let entry = RegistryEntry { served_name, url, task, api_key, created_at: now };
    tx.upsert_registry(&entry).await?;
    let did = caller.did(Action::RegistryAdd, &entry.served_name);
    let did = match &replaced {
        None => did.created(stored(&entry)),
        Some(old) => did.changed(&stored(old), &stored(&entry)),
    };
    tx.audit(&did, now).await?;
    tx.commit().await?;
    app.refresh.publish().await;
    app.monitor.probe(Some(vec![entry.served_name.clone()])).await;
    let status = if replaced.is_some() { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Json(view(&app, &entry))))
}

/// Remove an engine that runs elsewhere
pub(crate) async fn remove(
    app: State<App>,
    caller: Caller,
    path: Result<Option<Path<String>>, PathRejection>,
    mut params: Params,
) -> Outcome<Json<Value>> {
    let path = path.map_err(|_| Problem::new(ErrorCode::InvalidRequest, "the path can't be read"))?;
    let name = path.map(|Path(name)| name).or_else(|| params.text("served_name"));
    params.finish()?;
    let name = name.ok_or_else(|| Problem::invalid("served_name", "`served_name` is required"))?;
    let mut tx = app.store.write().await?;
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

/// An entry by hand as the list has it.
fn view(app: &App, entry: &RegistryEntry) -> Value {
    let (healthy, breaker) = health(app, &entry.served_name);
    json!({
        "served_name": entry.served_name, "url": entry.url, "task": entry.task, "engine_type": null,
        "source": "manual", "healthy": healthy, "breaker": breaker,
    })
}

fn health(app: &App, served_name: &str) -> (bool, &'static str) {
    let health = app.engines.route_health(served_name).unwrap_or(RouteHealth::Down);
    (health.is_ok(), health.breaker())
}

/// An entry without its key, for the audit log.
fn stored(entry: &RegistryEntry) -> Value {
    json!({
        "served_name": entry.served_name, "url": entry.url, "task": entry.task, "engine_type": null,
        "source": "manual", "api_key_set": entry.api_key.is_some(),
    })
}

/// `http://host[:port]` without user, query or fragment; returns it without a slash at the end.
fn engine_url(text: &str) -> Option<String> {
    let uri: http::Uri = text.parse().ok()?;
    let authority = uri.authority()?;
    let legal = text.len() <= 500
        && uri.scheme_str() == Some("http")
        && !authority.as_str().contains('@')
        && !authority.host().is_empty()
        // What follows the host is a port, if anything does.
        && (authority.port_u16().is_some() || authority.as_str() == authority.host())
        && uri.query().is_none()
        && !text.contains('#')
        && matches!(uri.path(), "" | "/");
    legal.then(|| format!("http://{authority}"))
}
