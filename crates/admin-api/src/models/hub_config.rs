//! `GET /admin/models/hub-config`: what a repository of the model hub is, before anything is downloaded.

use std::borrow::Cow;

use axum::{
    Json,
    extract::{FromRequestParts, State},
    http::request::Parts,
};
use gantry_domain::{
    ApiError, ErrorCode,
    model::{check::is_repo_id, identity::MAX_TOKEN},
    schema::{Components, anything, formatted, id, word},
    view,
};
use gantry_inspect::{
    folder::EngineRecommendation,
    hub::{self, HubFiles, Summary},
};
use secrecy::SecretString;
use serde_json::Value;

use super::find;
use crate::{
    App,
    error::{Outcome, Problem},
    operation::{Doc, Input, Operation, Param, Query, QueryValue, Required, query},
};

/// Carries a token that no record has yet. A header, because addresses end up in logs.
const TOKEN: &str = "X-Hub-Token";

view! {
    /// What a repository holds.
    #[derive(Debug)]
    pub(crate) struct HubConfigView {
        repo_id: String,
        /// `config.json` as it is; `null` if the repository has none, as those of GGUF files.
        config: Option<Value> as anything(),
        summary: Summary,
        engine_recommendation: EngineRecommendation,
        /// `null` if the hub did not list them.
        files: Option<HubFiles>,
    }
}

query! {
    pub(crate) struct HubQuery {
        /// `owner/name`, or `name` as of `gpt2`.
        repo_id: Required<RepoId>,
        /// The model whose token is sent.
        model_id: Option<RecordId>,
    }
}

/// A repository of the model hub.
struct RepoId(String);

impl QueryValue for RepoId {
    fn allowed() -> Cow<'static, str> {
        "a name such as owner/name or gpt2".into()
    }

    fn parse(text: &str) -> Option<Self> {
        is_repo_id(text).then(|| Self(text.to_owned()))
    }

    fn schema(_: &mut Components) -> Value {
        formatted("hub-repository")
    }
}

/// The id of the model whose token is sent.
struct RecordId(i64);

impl QueryValue for RecordId {
    fn allowed() -> Cow<'static, str> {
        "a positive whole number".into()
    }

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok().filter(|it| *it > 0).map(Self)
    }

    fn schema(_: &mut Components) -> Value {
        id()
    }
}

/// The token of the header [`TOKEN`].
pub(crate) struct GivenToken(Option<SecretString>);

impl<S: Send + Sync> FromRequestParts<S> for GivenToken {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Outcome<Self> {
        let Some(value) = parts.headers.get(TOKEN) else { return Ok(Self(None)) };
        let legal =
            |it: &&str| (1..=MAX_TOKEN).contains(&it.len()) && it.bytes().all(|it| it.is_ascii_graphic());
        let text = value.to_str().ok().filter(legal);
        let text = text.ok_or_else(|| Problem::invalid("hub_token", "`X-Hub-Token` is no token"))?;
        Ok(Self(Some(text.to_owned().into())))
    }
}

impl Input for GivenToken {
    fn describe(doc: &mut Doc) {
        let about = "A token that no record has yet.".to_owned();
        let schema = word(&format!("^[!-~]{{1,{MAX_TOKEN}}}$"));
        doc.params.push(Param { place: "header", name: TOKEN, schema, required: false, about });
    }
}

pub(crate) const HUB_CONFIG: Operation =
    Operation::new("getHubConfig", "What a repository of the model hub is")
        .about(
            "The gateway asks the hub of `HUB_ENDPOINT`, else huggingface.co, and no other. For a gated repository it sends \
             the token of the header, or that of the model `model_id`.",
        )
        .errors(&[
            ErrorCode::NotFound,
            ErrorCode::HubAccessDenied,
            ErrorCode::BadUpstream,
            ErrorCode::HubUnavailable,
            ErrorCode::UpstreamTimeout,
        ]);

pub(crate) async fn hub_config(
    app: State<App>,
    Query(HubQuery { repo_id: Required(RepoId(repo_id)), model_id }): Query<HubQuery>,
    GivenToken(given): GivenToken,
) -> Outcome<Json<HubConfigView>> {
    let token = match (given, model_id) {
        (Some(token), _) => Some(token),
        (None, Some(RecordId(id))) => find(&app, id).await?.hub_token,
        (None, None) => None,
    };
    let found = app.hub.repository(&repo_id, token).await?;
    let read = found.config.as_deref().map(hub::read_config).transpose().map_err(|error| {
        // Sign-in pages and errors of proxies are HTML.
        ApiError::new(ErrorCode::BadUpstream, format!("the model hub's config.json can't be used: {error}"))
    })?;
    let files = found.files.map(|it| HubFiles::of(&repo_id, &it));
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
