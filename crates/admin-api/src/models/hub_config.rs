//! `GET /admin/models/hub-config`: what a repository of the model hub is, before anything is downloaded.

use axum::{Json, extract::State, http::HeaderMap};
use gantry_domain::{ApiError, ErrorCode, model::check::is_repo_id};
use gantry_inspect::{
    folder::EngineRecommendation,
    hub::{self, HubFiles, Summary},
};
use secrecy::SecretString;
use serde::Serialize;
use serde_json::Value;

use super::find;
use crate::{
    App,
    error::{Outcome, Problem},
    operation::Params,
};

/// Carries a token that no record has yet. A header, because addresses end up in logs.
const TOKEN: &str = "x-hub-token";

/// The answer.
#[derive(Debug, Serialize)]
pub(crate) struct HubConfigView {
    repo_id: String,
    /// `config.json` as it is; `null` if the repository has none, as those of GGUF files.
    config: Option<Value>,
    summary: Summary,
    engine_recommendation: EngineRecommendation,
    /// `null` if the hub did not list them.
    files: Option<HubFiles>,
}

/// What a repository of the model hub is
///
/// Asks the hub of `HUB_ENDPOINT`, else the public one, and no other. For a gated repository, the token of the model
/// `model_id` is sent, or that of the header `X-Hub-Token`.
pub(crate) async fn hub_config(
    app: State<App>,
    headers: HeaderMap,
    mut params: Params,
) -> Outcome<Json<HubConfigView>> {
    let repo_id = params
        .parsed("repo_id", "a name such as owner/name or gpt2", |it| is_repo_id(it).then(|| it.to_owned()))?;
    let model = params.id("model_id")?;
    params.finish()?;
    let repo_id = repo_id.ok_or_else(|| Problem::invalid("repo_id", "`repo_id` is required"))?;
    let token = match (given(&headers)?, model) {
        (Some(token), _) => Some(token),
        (None, Some(id)) => find(&app, id).await?.hub_token,
        (None, None) => None,
    };
    let found = app.engines.hub_repository(&repo_id, token).await?;
    let read = found.config.as_deref().map(hub::read_config).transpose().map_err(|error| {
        // Sign-in pages and errors of proxies are HTML.
        ApiError::new(ErrorCode::BadUpstream, format!("the model hub's config.json can't be used: {error}"))
    })?;
    let files = found.files.map(|it| HubFiles::of(&it));
    let recommendation = hub::recommend(read.as_ref().map(|it| &it.summary), files.as_ref());
    let (config, summary) = read.map(|it| (it.config, it.summary)).unzip();
    Ok(Json(HubConfigView {
        repo_id,
        config,
        summary: summary.unwrap_or_default(),
        engine_recommendation: recommendation,
        files,
    }))
}

fn given(headers: &HeaderMap) -> Outcome<Option<SecretString>> {
    let Some(value) = headers.get(TOKEN) else { return Ok(None) };
    let legal = |it: &&str| (1..=500).contains(&it.len()) && it.bytes().all(|it| it.is_ascii_graphic());
    let text = value.to_str().ok().filter(legal);
    let text = text.ok_or_else(|| Problem::invalid("hub_token", "`X-Hub-Token` is no token"))?;
    Ok(Some(text.to_owned().into()))
}
