//! `GET /admin/models/local-folders` and `inspect-folder`: what lies below the models base directory, and what it is.

use axum::{Json, extract::State, response::IntoResponse};
use gantry_domain::{ApiError, ErrorCode};
use gantry_inspect::folder::{self, InspectError, Inspection};

use crate::{
    App,
    error::{Outcome, Problem},
    operation::Params,
};

/// Folders with model files
pub(crate) async fn local_folders(app: State<App>, mut params: Params) -> Outcome<impl IntoResponse> {
    let page = params.page()?;
    params.finish()?;
    let base = app.models_dir.get();
    let Json(folders) = answer(app.disk.look(move || folder::local_folders(&base)).await?)?;
    Ok(page.of(folders))
}

/// What a folder (or a single `.gguf` file) holds, which engine suits it, and what is wrong with its files
pub(crate) async fn inspect_folder(app: State<App>, mut params: Params) -> Outcome<Json<Inspection>> {
    let selected = params.text("folder");
    params.finish()?;
    let selected = selected.ok_or_else(|| Problem::invalid("folder", "`folder` is required"))?;
    let base = app.models_dir.get();
    let headers = app.headers.clone();
    // Headers that were read before are cached, so they take no time.
    answer(app.disk.inspect(move || folder::inspect_cached(&base, &selected, &headers.0)).await?)
}

fn answer<T>(read: Result<T, InspectError>) -> Outcome<Json<T>> {
    read.map(Json).map_err(|error| match error {
        InspectError::NotAllowed { .. } => {
            ApiError::new(ErrorCode::PathNotAllowed, error.to_string()).with_param("folder").into()
        }
        InspectError::NotAFolder { .. } => Problem::invalid("folder", error.to_string()),
        InspectError::NotFound { .. } => ApiError::new(ErrorCode::NotFound, error.to_string()).into(),
        error => {
            tracing::warn!(error = &error as &dyn std::error::Error, "a model folder can't be read");
            Problem::new(ErrorCode::InvalidState, error.to_string())
        }
    })
}
