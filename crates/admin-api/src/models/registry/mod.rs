//! `/admin/models/registry`: which served name goes where. Managed models are there by themselves; an owner may add
//! engines that run elsewhere.

mod form;

use axum::{
    Json,
    extract::{FromRequestParts, Path, State},
};
use gantry_domain::{
    ApiError, ErrorCode,
    audit::Action,
    host::{BREAKER_STATES, RouteHealth, SOURCES},
    model::{EngineKind, RESERVED, Task, is_reserved},
    schema::{Components, one_of, text_of},
    view,
};
use gantry_store::{RegistryEntry, Tx};
use http::request;
use serde_json::{Value, json};

use self::form::{ChangedEntry, NewEntry};
use crate::{
    App,
    app::Parts,
    caller::Caller,
    error::{Outcome, Problem},
    operation::{
        Body, Created, Deleted, Doc, Either, Input, Listed, Operation, Page, Query, QueryValue, Required,
        query,
    },
    ports::LiveRoute,
};

view! {
    /// A served name, and where its requests go.
    #[derive(Debug)]
    pub(crate) struct EntryView: "RegistryEntry" {
        served_name: String,
        /// The first of `urls`.
        url: String,
        urls: Vec<String>,
        /// What the model is called there, if not by the served name.
        upstream_model: Option<String>,
        task: Task,
        /// `null`: the engine was entered by hand.
        engine_type: Option<EngineKind>,
        source: &'static str as one_of(SOURCES),
        /// At least one of the addresses is healthy.
        healthy: bool,
        breaker: &'static str as one_of(BREAKER_STATES),
    }
}

impl EntryView {
    /// Returns an entry that was made by hand, as the list has it.
    fn manual(app: &App, entry: &RegistryEntry) -> Self {
        let RegistryEntry { served_name, urls, upstream_model, task, .. } = entry.clone();
        let health = health(app, &served_name);
        Self {
            served_name,
            url: urls.first().cloned().unwrap_or_default(),
            urls,
            upstream_model,
            task,
            engine_type: None,
            source: "manual",
            healthy: health.is_ok(),
            breaker: health.breaker(),
        }
    }

    /// The same for a model of this gateway that runs.
    fn managed(app: &App, route: LiveRoute) -> Self {
        let LiveRoute { served_name, url, task, engine, max_model_len: _ } = route;
        let health = health(app, &served_name);
        Self {
            served_name,
            urls: vec![url.clone()],
            url,
            upstream_model: None,
            task,
            engine_type: engine,
            source: "managed",
            healthy: health.is_ok(),
            breaker: health.breaker(),
        }
    }
}

fn health(app: &App, served_name: &str) -> RouteHealth {
    app.data_plane.route_health(served_name).unwrap_or(RouteHealth::Down)
}

/// The name of an entry, in the path or in the query. A text that no entry can have as its name names nothing, like one
/// that no entry has.
pub(crate) struct EntryName(String);

impl QueryValue for EntryName {
    fn allowed() -> std::borrow::Cow<'static, str> {
        "a served name".into()
    }

    fn parse(text: &str) -> Option<Self> {
        Some(Self(text.to_owned()))
    }

    fn schema(_: &mut Components) -> Value {
        text_of(1, 200)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for EntryName {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut request::Parts, state: &S) -> Outcome<Self> {
        let Path(name) = Path::from_request_parts(parts, state)
            .await
            .map_err(|_| Problem::new(ErrorCode::InvalidRequest, "the path can't be read"))?;
        Ok(Self(name))
    }
}

impl Input for EntryName {
    fn describe(_: &mut Doc) {}
}

pub(crate) const LIST: Operation = Operation::new("listRegistry", "The routing table").about(
    "The list says which served name goes where: it has the managed models that run, and the engines that an owner added.",
);

pub(crate) async fn list(app: State<App>, Query(page): Query<Page>) -> Outcome<Listed<EntryView>> {
    let entries = app.store.read().await?.registry().await?;
    let managed = app.data_plane.live_routes().into_iter().filter(|it| it.engine.is_some());
    let managed = managed.map(|it| EntryView::managed(&app, it));
    let manual = entries.iter().map(|it| EntryView::manual(&app, it));
    Ok(page.of(managed.chain(manual).collect()))
}

pub(crate) const ADD: Operation =
    Operation::new("addRegistryEntry", "Add an engine that runs elsewhere, or replace it")
        .about(
            "The body needs `url` or `urls`. An entry that has this name is replaced. The gateway's internal key is never \
             sent there; the entry may have an `api_key` of its own. The key of a replaced entry stays if none is sent (not \
             even `null`) and no address is new. The answer comes when the engine was probed: 201 for a new entry, 200 for \
             one that was replaced.",
        )
        .errors(&[ErrorCode::ServedNameConflict]);

pub(crate) async fn add(
    app: State<App>,
    caller: Caller,
    Body(form): Body<NewEntry>,
) -> Outcome<Either<Created<EntryView>, Json<EntryView>>> {
    let NewEntry { served_name, addresses, settings } = form;
    let urls = addresses.0;
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
    let kept = replaced.as_ref().filter(|old| settings.api_key.is_none() && has_all(old, &urls));
    let new_key = matches!(settings.api_key, Some(Some(_)));
    let entry = RegistryEntry {
        sealed_api_key: kept.and_then(|it| it.sealed_api_key.clone()),
        api_key: settings.api_key.unwrap_or_else(|| kept?.api_key.clone()),
        served_name,
        urls,
        task: settings.task.unwrap_or(Task::Generate),
        upstream_model: settings.upstream_model.flatten(),
        created_at: app.clock.now(),
    };
    let view = store(&app, &caller, tx, replaced.as_ref(), (&entry, new_key)).await?;
    Ok(if replaced.is_some() { Either::Second(Json(view)) } else { Either::First(Created(view)) })
}

pub(crate) const CHANGE: Operation =
    Operation::new("changeRegistryEntry", "Change an engine that runs elsewhere").about(
        "A field that is left out stays as it is. The name may contain slashes. If the entry has a key, a new address needs \
         `api_key` too (or `null`): a key goes to no other address than those that it was given for. The answer comes when \
         the engine was probed.",
    );

pub(crate) async fn change(
    app: State<App>,
    caller: Caller,
    EntryName(name): EntryName,
    Body(form): Body<ChangedEntry>,
) -> Outcome<Json<EntryView>> {
    let ChangedEntry { addresses, settings } = form;
    let mut tx = app.store.write().await?;
    tx.exclusive().await?;
    let old = find(&mut tx, &name).await?.ok_or_else(|| Parts::not_found("registry entry", &name))?;
    let mut entry = old.clone();
    entry.task = settings.task.unwrap_or(entry.task);
    if let Some(urls) = addresses.0 {
        let has_key = old.api_key.is_some() || old.sealed_api_key.is_some();
        if has_key && settings.api_key.is_none() && !has_all(&old, &urls) {
            let message = "send `api_key` too (or `null`): a key goes to no other address than those that it was given for";
            return Err(Problem::invalid("api_key", message));
        }
        entry.urls = urls;
    }
    if let Some(upstream_model) = settings.upstream_model {
        entry.upstream_model = upstream_model;
    }
    let new_key = matches!(settings.api_key, Some(Some(_)));
    if let Some(api_key) = settings.api_key {
        entry.api_key = api_key;
        entry.sealed_api_key = None;
    }
    store(&app, &caller, tx, Some(&old), (&entry, new_key)).await.map(Json)
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
) -> Outcome<EntryView> {
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
    app.signals.refresh.publish().await;
    app.monitor.probe(Some(vec![entry.served_name.clone()])).await;
    Ok(EntryView::manual(app, entry))
}

query! {
    pub(crate) struct RemoveQuery {
        /// The name of the entry.
        served_name: Required<EntryName>,
    }
}

pub(crate) const REMOVE_BY_QUERY: Operation =
    Operation::new("removeRegistryEntryByQuery", "Remove an engine that runs elsewhere")
        .about(
            "This does the same as the operation that has the name in the path. It is for names that proxies would change \
             there.",
        )
        .errors(&[ErrorCode::NotFound]);

pub(crate) async fn remove_by_query(
    app: State<App>,
    caller: Caller,
    Query(RemoveQuery { served_name: Required(name) }): Query<RemoveQuery>,
) -> Outcome<Deleted<String>> {
    remove(app, caller, name).await
}

pub(crate) const REMOVE: Operation =
    Operation::new("removeRegistryEntry", "Remove an engine that runs elsewhere")
        .about("The name may contain slashes.");

pub(crate) async fn remove(
    app: State<App>,
    caller: Caller,
    EntryName(name): EntryName,
) -> Outcome<Deleted<String>> {
    let mut tx = app.store.write().await?;
    tx.exclusive().await?;
    let gone = find(&mut tx, &name).await?.ok_or_else(|| Parts::not_found("registry entry", &name))?;
    if !tx.delete_registry(&name).await? {
        return Err(Parts::not_found("registry entry", name));
    }
    let did = caller.did(Action::RegistryRemove, &name).deleted(stored(&gone));
    tx.audit(&did, app.clock.now()).await?;
    tx.commit().await?;
    app.signals.refresh.publish().await;
    Ok(Deleted(name))
}

async fn find(tx: &mut Tx, served_name: &str) -> Outcome<Option<RegistryEntry>> {
    Ok(tx.registry().await?.into_iter().find(|it| it.served_name == served_name))
}

/// An entry without its key, for the audit log.
fn stored(entry: &RegistryEntry) -> Value {
    json!({
        "served_name": entry.served_name, "urls": entry.urls, "upstream_model": entry.upstream_model,
        "task": entry.task, "engine_type": null, "source": "manual",
        "api_key_set": entry.api_key.is_some() || entry.sealed_api_key.is_some(),
    })
}
