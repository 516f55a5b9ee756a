//! `GET /admin/models/local-folders` and `inspect-folder`: what lies below the models base directory, and what it is.

use axum::{Json, extract::State};
use gantry_domain::{ApiError, ErrorCode};
use gantry_inspect::folder::{self, InspectError, Inspection, LocalFolder};

use crate::{
    App,
    error::{Outcome, Problem},
    operation::{Listed, Operation, Page, Query, Required, query},
};

pub(crate) const LIST: Operation = Operation::new("listLocalFolders", "Folders of the models base directory")
    .errors(&[ErrorCode::InvalidState, ErrorCode::NotFound, ErrorCode::HostUnavailable]);

pub(crate) async fn local_folders(app: State<App>, Query(page): Query<Page>) -> Outcome<Listed<LocalFolder>> {
    let base = app.files.models_dir.get();
    let Json(folders) = answer(app.files.disk.look(move || folder::local_folders(&base)).await?)?;
    Ok(page.of(folders))
}

query! {
    pub(crate) struct InspectQuery {
        /// Its path from the models base directory; `.` is the directory itself.
        folder: Required<String>,
    }
}

pub(crate) const INSPECT: Operation =
    Operation::new("inspectFolder", "What a folder, or a single `.gguf` file, holds")
        .about("The answer says which engine suits it, and what is wrong with its files.")
        .errors(&[
            ErrorCode::InvalidState,
            ErrorCode::NotFound,
            ErrorCode::PathNotAllowed,
            ErrorCode::HostUnavailable,
        ]);

pub(crate) async fn inspect_folder(
    app: State<App>,
    Query(InspectQuery { folder: Required(selected) }): Query<InspectQuery>,
) -> Outcome<Json<Inspection>> {
    let base = app.files.models_dir.get();
    let headers = app.files.headers.clone();
    // Headers that were read before are cached, so they take no time.
    answer(app.files.disk.inspect(move || folder::inspect_cached(&base, &selected, &headers.0)).await?)
}

fn answer<T>(read: Result<T, InspectError>) -> Outcome<Json<T>> {
    read.map(Json).map_err(|error| match error {
        InspectError::NotAllowed { .. } => {
            ApiError::new(ErrorCode::PathNotAllowed, error.to_string()).with_param("folder").into()
        }
        InspectError::NotAFolder { .. } => Problem::invalid("folder", error.to_string()),
        InspectError::NotFound { .. } | InspectError::BrokenLink { .. } => {
            ApiError::new(ErrorCode::NotFound, error.to_string()).into()
        }
        error => {
            tracing::warn!(error = &error as &dyn std::error::Error, "a model folder can't be read");
            Problem::new(ErrorCode::InvalidState, error.to_string())
        }
    })
}
