//! `GET` and `PUT /admin/models/base-dir`: where model files lie. What is chosen here is stored and wins over
//! `MODELS_DIR`; it counts for the next start, preview and inspection. Containers that run keep their mount.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
};

use axum::{Json, extract::State};
use gantry_domain::{
    ApiError, ErrorCode, Timestamp,
    audit::Action,
    schema::{Components, formatted, one_of},
    view,
};
use serde_json::{Value, json};

use super::files;
use crate::{
    App,
    caller::Caller,
    error::{Outcome, Problem},
    operation::{Body, Field, Operation, form},
};

view! {
    #[derive(Debug)]
    pub(crate) struct BaseDirView: "BaseDir" {
        base_dir: String,
        free_bytes: Option<u64>,
        total_bytes: Option<u64>,
        source: &'static str as one_of(&["database", "settings"]),
        /// The directory of the setting `MODELS_DIR`.
        settings_base_dir: String,
    }
}

pub(crate) const SHOW: Operation = Operation::new("getModelsBaseDir", "The models base directory").about(
    "`source` is `database` when an owner chose it, which wins over the setting `MODELS_DIR` (`settings_base_dir`).",
);

pub(crate) async fn show(app: State<App>) -> Outcome<Json<BaseDirView>> {
    view(&app).await
}

form! {
    pub(crate) struct Choice {
        base_dir: required AbsolutePath,
    }
}

/// A path from the root of the file system. Whether a text is one is checked with the directory itself.
pub(crate) struct AbsolutePath;

impl Field for AbsolutePath {
    type Value = PathBuf;

    fn allowed() -> Cow<'static, str> {
        "the absolute path of a directory".into()
    }

    fn read(value: &Value, _: Timestamp) -> Option<PathBuf> {
        value.as_str().filter(|it| !it.is_empty() && it.len() <= 4096).map(PathBuf::from)
    }

    fn schema(_: &mut Components) -> Value {
        formatted("absolute-path")
    }
}

pub(crate) const CHANGE: Operation = Operation::new("changeModelsBaseDir", "Choose the models base directory")
    .about(
        "`base_dir` is the absolute path of a directory that exists. Choosing that of `MODELS_DIR` takes the choice back.",
    )
    .errors(&[ErrorCode::PathNotAllowed, ErrorCode::HostUnavailable]);

pub(crate) async fn change(
    app: State<App>,
    caller: Caller,
    Body(Choice { base_dir: wanted }): Body<Choice>,
) -> Outcome<Json<BaseDirView>> {
    let dir = app.files.disk.look(move || directory(&wanted)).await??;
    app.files.models_dir_rules.check(&dir).map_err(|why| {
        let message = format!("`base_dir` can't be {}: {why}", dir.display());
        ApiError::new(ErrorCode::PathNotAllowed, message).with_param("base_dir")
    })?;
    let text = dir.to_str().ok_or_else(|| Problem::invalid("base_dir", "`base_dir` must be UTF-8"))?;
    let chosen = (dir != app.files.models_dir_rules.configured).then_some(text);

    let mut tx = app.store.write().await?;
    // If two changes come at once, the later one in the database is the later one in memory, too.
    tx.exclusive().await?;
    // Another gateway may have changed it a moment ago.
    let old = tx.models_dir().await?.unwrap_or_else(|| app.files.models_dir_rules.configured.clone());
    tx.set_models_dir(chosen).await?;
    let shown = |dir: &Path| json!({ "base_dir": dir.display().to_string() });
    let entry = caller.did(Action::BaseDirChange, "base_dir").changed(&shown(&old), &shown(&dir));
    tx.audit(&entry, app.clock.now()).await?;
    let before = app.files.models_dir.set(&dir);
    if let Err(error) = tx.commit().await {
        app.files.models_dir.set(&before);
        return Err(error.into());
    }
    tracing::info!(user = caller.user.id.0, from = %before.display(), to = %dir.display(), "models base directory");
    view(&app).await
}

/// The directory without links, which can be read.
fn directory(wanted: &Path) -> Outcome<PathBuf> {
    if !wanted.is_absolute() {
        return Err(Problem::invalid("base_dir", "`base_dir` must be an absolute path"));
    }
    let unusable = || Problem::invalid("base_dir", "`base_dir` is not a directory that the gateway can read");
    let dir = wanted.canonicalize().map_err(|_| unusable())?;
    std::fs::read_dir(&dir).map_err(|_| unusable())?;
    Ok(dir)
}

async fn view(app: &App) -> Outcome<Json<BaseDirView>> {
    let dir = app.files.models_dir.get();
    let configured = &app.files.models_dir_rules.configured;
    let (shown, chosen) = (dir.display().to_string(), *dir != **configured);
    let space = app.files.disk.look(move || files::space(&dir)).await;
    let (free_bytes, total_bytes) = space.ok().flatten().unzip();
    Ok(Json(BaseDirView {
        base_dir: shown,
        free_bytes,
        total_bytes,
        source: if chosen { "database" } else { "settings" },
        settings_base_dir: configured.display().to_string(),
    }))
}
