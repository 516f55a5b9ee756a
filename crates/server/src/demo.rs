//! `gantry serve --demo`: a model through the real lifecycle, with a real key, so that a newcomer has an answer in a
//! minute: a simulated one, or a file. Does nothing to an installation that has models of its own.

use std::{net::SocketAddr, time::Duration};

use anyhow::Context;
use gantry_admin_api::App;
use gantry_domain::{
    KeyId, ModelId, OrgId, Role, UserId,
    audit::{Action, Actor, AuditEntry, Origin},
    image,
    key::{KeySettings, Token, TokenKind},
    model::{Model, ModelDraft, Phase, State, Wanted},
};
use gantry_sim::Flavour;
use gantry_store::{NewKey, NewUser, Tx};
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{outlet::say, secrets};

/// Served name of the simulated model, and name of the organisation and user that own the key.
const NAME: &str = "demo";
/// Name of the image in earlier versions of the gateway. A registry could serve an image of this name.
const OLD_REPOSITORY: &str = "gantry/engine-sim-vllm";
/// Keys in `meta`: the user, the key and the model of a file that were made here.
const USER_NOTE: &str = "demo_user";
const KEY_NOTE: &str = "demo_key";
const FILE_NOTE: &str = "demo_file_model";
const KEY_LIFETIME: Duration = Duration::from_hours(24);
/// Longest wait for the demo model. A simulated model is up within seconds, and so is that of a small file.
const PATIENCE: Duration = Duration::from_mins(1);
/// The smallest models answer it rightly, if the temperature is 0.
const QUESTION: &str = "What is the capital of France? Answer in one sentence.";

/// What a demo serves.
#[derive(Debug, Clone)]
pub(crate) enum Demo {
    /// A simulated model.
    Simulated,
    /// A GGUF file, by llama.cpp. The path is one for a model's `local_path`.
    File(String),
}

/// Shows the demo. `docker_host` is the Docker host on which the simulator's image is made if it is missing, in the
/// form of `DOCKER_HOST`.
pub(crate) async fn run(
    app: App,
    demo: Demo,
    addr: SocketAddr,
    docker_host: Option<String>,
    stop: CancellationToken,
) {
    tokio::select! {
        () = stop.cancelled() => return,
        result = show(&app, &demo, addr, docker_host.as_deref()) => if let Err(error) = result {
            warn!("the demo model could not be started: {error:#}");
            say(&format!("  Demo        not running: {error:#}"));
        },
    }
    stop.cancelled().await;
}

async fn show(app: &App, demo: &Demo, addr: SocketAddr, docker_host: Option<&str>) -> anyhow::Result<()> {
    let mut phases = app.signals.phases.subscribe();
    let mut tx = app.store.write().await?;
    let mut entries = Vec::new();
    let Some(model) = demo_model(&mut tx, app, demo, &mut entries).await? else {
        info!("there are models already, so no demo model is created");
        return Ok(());
    };
    let token = demo_key(&mut tx, app, &model.served_name, &mut entries).await?;
    // Audit rows are written last, because the lock order requires it.
    for entry in &entries {
        tx.audit(entry, app.clock.now()).await?;
    }
    tx.commit().await?;
    if matches!(demo, Demo::Simulated) {
        make_image(app, docker_host).await?;
    }
    app.signals.refresh.publish().await;
    let _ = app.signals.wake.try_send(model.id);

    let waiting = async {
        loop {
            let current =
                app.store.read().await?.model(model.id).await?.context("the demo model was deleted")?;
            match current.state() {
                (State::Running, _) => return Ok(()),
                (State::Failed, reason) => anyhow::bail!("{}", reason.unwrap_or_default()),
                _ => next_phase(&mut phases, model.id).await,
            }
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.context("the demo model did not start in time")??;
    let (token, name, what) = (token.expose(), &model.served_name, app.config.runtime.instance);
    let engine = if app.engines.is_simulated(&model) {
        "a simulator, not a real engine"
    } else {
        "llama.cpp, a real engine"
    };
    say(&format!(
        "  Model       `{name}` runs: {engine} ({what} {})\n  \
         Try         curl http://{addr}/v1/chat/completions -H 'Authorization: Bearer {token}' \
         -H 'Content-Type: application/json' -d '{{\"model\":\"{name}\",\"temperature\":0,\
         \"messages\":[{{\"role\":\"user\",\"content\":\"{QUESTION}\"}}]}}'\n  \
         Key         {token}   (for `{name}` only, ends in 24 hours)",
        model.instance_name(),
    ));
    Ok(())
}

/// Makes the simulator's image from this program, if engines are containers and the image is missing. The image can't
/// be pulled from anywhere.
async fn make_image(app: &App, docker_host: Option<&str>) -> anyhow::Result<()> {
    let image = Flavour::Vllm.default_tag();
    if !app.config.runtime.runs_images || app.engine_images.image(&image).await.is_ok_and(|it| it.is_some()) {
        return Ok(());
    }
    let program = std::env::current_exe().context("this program does not know its own file")?;
    gantry_sim::load_image(&program, &image, Flavour::Vllm, docker_host)
        .await
        .with_context(|| format!("the simulator's image {image} could not be made"))?;
    info!(image, "made the simulator's image");
    Ok(())
}

/// Returns when something happened to the model, or a second has passed.
async fn next_phase(phases: &mut tokio::sync::broadcast::Receiver<(ModelId, Phase)>, id: ModelId) {
    let seen = async {
        loop {
            match phases.recv().await {
                Ok((it, _)) if it == id => return,
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(1), seen).await;
}

/// Returns a row of the audit log for a change that `gantry serve --demo` made.
fn did(action: Action, object_id: impl std::fmt::Display) -> AuditEntry {
    let origin = Origin { user_agent: Some("gantry serve --demo".to_owned()), ..Origin::default() };
    AuditEntry::new(Actor::Settings, origin, action, object_id)
}

/// Returns the demo model after commanding it to run. Makes it if there is no model but those of demos; returns `None`
/// if there are only other models.
async fn demo_model(
    tx: &mut Tx,
    app: &App,
    demo: &Demo,
    log: &mut Vec<AuditEntry>,
) -> anyhow::Result<Option<Model>> {
    let models = tx.models(true).await?;
    let file_model = noted(tx, FILE_NOTE).await?;
    let others = models.iter().any(|it| !is_simulated(it) && Some(it.id.0) != file_model);
    let found = match demo {
        Demo::Simulated => simulated_model(tx, app, &models, others, log).await?,
        Demo::File(path) => file_model_of(tx, app, &models, others, path, log).await?,
    };
    let Some(model) = found else { return Ok(None) };
    log.push(did(Action::ModelStart, model.id).noting("served_name", model.served_name.as_str()));
    // A model whose record says running is started too: its engine may have ended together with an earlier gateway
    // process.
    tx.command(model.id, Wanted::Running, None, app.clock.now()).await.map_err(Into::into)
}

/// Whether it is the simulated model of a demo, or of an earlier version's.
fn is_simulated(model: &Model) -> bool {
    let ours = |it: &str| [image::SIMULATORS.vllm, OLD_REPOSITORY].contains(&image::repository(it));
    model.served_name == NAME && model.config.text("engine_image").is_some_and(ours)
}

/// Returns the simulated model, which is made if it is missing and there are no `others`.
async fn simulated_model(
    tx: &mut Tx,
    app: &App,
    models: &[Model],
    others: bool,
    log: &mut Vec<AuditEntry>,
) -> anyhow::Result<Option<Model>> {
    let current = Flavour::Vllm.default_tag();
    match models.iter().find(|it| !it.archived && is_simulated(it)) {
        Some(model) if model.config.text("engine_image") == Some(current.as_str()) => Ok(Some(model.clone())),
        // Made by an earlier version of the gateway.
        Some(model) => {
            let body = json!({ "engine_image": current }).as_object().cloned().unwrap_or_default();
            let draft = ModelDraft::change(model, &body, Role::Owner)
                .map_err(|problems| anyhow::anyhow!("the demo model is not valid: {problems:?}"))?;
            log.push(did(Action::ModelChange, model.id).noting("served_name", NAME));
            let changed = tx.update_model(model.id, &draft, app.clock.now()).await?;
            changed.context("the demo model was deleted").map(Some)
        }
        None if others => Ok(None),
        None => {
            let body = json!({
                "name": "Demo (simulated)", "served_name": NAME, "engine_type": "vllm", "local_path": "simulated",
                "engine_image": current, "enable_auto_tool_choice": true, "tool_call_parser": "hermes",
            });
            new_model(tx, app, &body, log).await.map(Some)
        }
    }
}

/// Returns the model of a file, which is made if it is missing and there are no `others`. Its served name is the
/// beginning of the file's name.
async fn file_model_of(
    tx: &mut Tx,
    app: &App,
    models: &[Model],
    others: bool,
    path: &str,
    log: &mut Vec<AuditEntry>,
) -> anyhow::Result<Option<Model>> {
    let same = |it: &&Model| !it.archived && it.config.text("local_path") == Some(path);
    if let Some(model) = models.iter().find(same) {
        return Ok(Some(model.clone()));
    }
    if others {
        return Ok(None);
    }
    let file = path.rsplit('/').next().unwrap_or(path);
    let name = file.split('.').next().unwrap_or(file);
    let body = json!({ "name": name, "served_name": name, "engine_type": "llamacpp", "local_path": path });
    let model = new_model(tx, app, &body, log).await?;
    tx.meta_set(FILE_NOTE, &model.id.to_string()).await?;
    Ok(Some(model))
}

async fn new_model(tx: &mut Tx, app: &App, body: &Value, log: &mut Vec<AuditEntry>) -> anyhow::Result<Model> {
    let fields = body.as_object().cloned().unwrap_or_default();
    let draft = ModelDraft::create(&fields, Role::Owner)
        .map_err(|problems| anyhow::anyhow!("the demo model is not valid: {problems:?}"))?;
    let model = tx.insert_model(&draft, app.clock.now()).await?;
    log.push(did(Action::ModelCreate, model.id).created(body.clone()));
    Ok(model)
}

/// Makes a new key for the demo model and revokes the key of the previous start.
async fn demo_key(
    tx: &mut Tx,
    app: &App,
    served_name: &str,
    log: &mut Vec<AuditEntry>,
) -> anyhow::Result<Token> {
    let now = app.clock.now();
    let (org_id, user_id) = demo_user(tx, app, log).await?;
    if let Some(old) = noted(tx, KEY_NOTE).await?
        && let Some(key) = tx.revoke_key(KeyId(old), now).await?
        && key.revoked_at == Some(now)
    {
        log.push(did(Action::KeyRevoke, key.id).noting("prefix", key.prefix.as_str()));
    }
    let token = Token::generate(TokenKind::Key, &mut rand::rng());
    let settings = KeySettings {
        name: "demo key".to_owned(),
        models: Some(vec![served_name.to_owned()]),
        expires_at: Some(now.plus(KEY_LIFETIME)),
        ..KeySettings::default()
    };
    let (prefix, token_hash) = (token.shown().to_owned(), token.hash());
    let new = NewKey { settings, prefix, token_hash, org_id, user_id: Some(user_id) };
    let key = tx.insert_key(&new, now).await?;
    log.push(did(Action::KeyCreate, key.id).created(json!({
        "id": key.id, "prefix": key.prefix, "name": key.settings.name, "models": key.settings.models, "org_id": org_id,
        "user_id": user_id, "username": NAME, "expires_at": key.settings.expires_at.map(gantry_domain::Timestamp::rfc3339),
    })));
    tx.meta_set(KEY_NOTE, &key.id.to_string()).await?;
    Ok(token)
}

/// Returns the id that is stored in `meta` under a name.
async fn noted(tx: &mut Tx, note: &str) -> anyhow::Result<Option<i64>> {
    Ok(tx.meta_get(note).await?.and_then(|it| it.parse().ok()))
}

/// Returns the demo user and its organisation, and makes them if needed. Nobody can sign in as this user, because its
/// random password is thrown away. If its name is taken already, a number is added to it.
async fn demo_user(tx: &mut Tx, app: &App, log: &mut Vec<AuditEntry>) -> anyhow::Result<(OrgId, UserId)> {
    if let Some(id) = noted(tx, USER_NOTE).await?
        && let Some(user) = tx.user(UserId(id)).await?
    {
        return Ok((user.org_id, user.id));
    }
    let hash = app
        .accounts
        .passwords
        .hash(&secrets::random())
        .await
        .map_err(|error| anyhow::anyhow!(error.message))?;
    let orgs = tx.org_lookup(None, None).await?;
    let mut n = 1;
    let (username, org_name) = loop {
        let end = if n == 1 { String::new() } else { format!("-{n}") };
        let (username, org_name) = (format!("{NAME}{end}"), format!("Demo{end}"));
        let org_taken = orgs.iter().any(|it| it.1.eq_ignore_ascii_case(&org_name));
        if !org_taken && tx.user_by_name(&username).await?.is_none() {
            break (username, org_name);
        }
        n += 1;
    };
    let org = tx.insert_org(&org_name, app.clock.now()).await?;
    let user = NewUser { org_id: org.id, username, password_hash: hash, role: Role::User, enabled: true };
    let user = tx.insert_user(&user, app.clock.now()).await?;
    log.push(did(Action::OrgCreate, org.id).created(json!({ "id": org.id, "name": org.name })));
    log.push(did(Action::UserCreate, user.id).created(json!({
        "id": user.id, "username": user.username, "role": user.role, "org_id": org.id, "org_name": org.name,
    })));
    tx.meta_set(USER_NOTE, &user.id.to_string()).await?;
    Ok((org.id, user.id))
}
