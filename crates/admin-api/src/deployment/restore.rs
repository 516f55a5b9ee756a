//! `/admin/deployment/check-database-dump` and `restore-database`.

use std::{
    fs::File,
    io::BufReader,
    path::{Path, PathBuf},
};

use axum::{Json, extract::State};
use gantry_domain::{
    ApiError, ErrorCode, Timestamp,
    audit::Action,
    deployment::RestoreRequest,
    schema::{Rfc3339, count, map},
    view,
};
use gantry_package::contents::DUMP;
use gantry_store::{DumpReport, check_dump};
use serde_json::{Map, Value, json};

use super::{DeploymentJob, folder};
use crate::{
    App,
    caller::Caller,
    error::{Outcome, Problem},
    operation::{Accepted, Body, Line, Operation, form},
};

form! {
    pub(crate) struct CheckDump {
        /// The package's folder, inside the folders of `EXPORT_DIRS`.
        output_dir: required Line<1000>,
        /// The dump, relative to `output_dir`; `db/dump.sql` if it is left out.
        db_file: optional Line<1000>,
    }
}

view! {
    /// A database dump.
    #[derive(Debug)]
    pub(crate) struct DumpView {
        exists: bool,
        /// Relative to `output_dir`.
        path: String,
        size_bytes: Option<u64>,
        modified_at: Option<Rfc3339>,
        /// Whether it can be restored, as far as can be told without a database: its grammar, its values, and that it is
        /// complete.
        valid: bool,
        /// When it was written, as it says.
        created_at: Option<String>,
        schema_version: Option<i64>,
        /// Who wrote it.
        kind: Option<&'static str>,
        /// Rows by table.
        tables: Map<String, Value> as map(count()),
        problems: Vec<String>,
    }
}

pub(crate) const CHECK: Operation = Operation::new("checkDatabaseDump", "Whether a dump is there and can be restored")
    .about("The whole dump is read, which may take a while. Dumps of Gantry and plain dumps of `pg_dump` are understood.")
    .errors(&[ErrorCode::PathNotAllowed, ErrorCode::NotFound, ErrorCode::HostUnavailable]);

pub(crate) async fn check(app: State<App>, Body(body): Body<CheckDump>) -> Outcome<Json<DumpView>> {
    let dirs = app.files.export_dirs.clone();
    let file = body.db_file.unwrap_or_else(|| DUMP.to_owned());
    let shown = file.clone();
    let (_, path) = app.files.disk.look(move || dump(&dirs, &body.output_dir, &file)).await??;
    // Reading takes as long as the dump is large: longer than other looks at a disk may take.
    let read = tokio::task::spawn_blocking(move || look(&path, shown)).await;
    Ok(Json(read.map_err(|_| Problem(ApiError::internal()))?))
}

/// Returns the package's folder and where its dump is or would be. The dump is inside the folder, with all links followed.
fn dump(dirs: &[PathBuf], output_dir: &str, db_file: &str) -> Result<(PathBuf, PathBuf), Problem> {
    let dir = folder::existing(dirs, output_dir, "output_dir")?;
    let path = folder::new(std::slice::from_ref(&dir), db_file, "db_file")?;
    Ok((dir, path))
}

fn look(path: &Path, shown: String) -> DumpView {
    let mut view = DumpView {
        exists: false,
        path: shown,
        size_bytes: None,
        modified_at: None,
        valid: false,
        created_at: None,
        schema_version: None,
        kind: None,
        tables: Map::new(),
        problems: Vec::new(),
    };
    let found = match path.metadata() {
        Ok(found) if found.is_file() => found,
        Ok(_) => {
            view.problems.push("it is not a file".to_owned());
            return view;
        }
        Err(_) => {
            view.problems.push("there is no such file".to_owned());
            return view;
        }
    };
    view.exists = true;
    view.size_bytes = Some(found.len());
    let modified = found.modified().ok().and_then(|it| it.duration_since(std::time::UNIX_EPOCH).ok());
    view.modified_at = modified.map(|it| Timestamp(it.as_millis() as i64).into());
    match File::open(path) {
        Ok(file) => filled(view, check_dump(BufReader::with_capacity(1 << 20, file))),
        Err(error) => {
            view.problems.push(format!("it can't be read: {}", error.kind()));
            view
        }
    }
}

fn filled(view: DumpView, report: DumpReport) -> DumpView {
    DumpView {
        valid: report.problems.is_empty(),
        created_at: report.header.map(|it| it.created_at),
        schema_version: report.schema_version,
        kind: Some(report.kind.as_str()),
        tables: report.tables.into_iter().map(|(name, rows)| (name, rows.into())).collect(),
        problems: report.problems,
        ..view
    }
}

form! {
    pub(crate) struct Restore {
        /// The package's folder, inside the folders of `EXPORT_DIRS`.
        output_dir: required Line<1000>,
        /// Writes the database as it is into `db/pre_restore_backup` of that folder first, and reads it back; `true` if it is
        /// left out.
        backup_first: optional bool,
        /// What is in the database is replaced and deleted for ever; `false` if it is left out. Without it, a restore into a
        /// database that has users is refused.
        drop_existing: optional bool,
        /// The dump, relative to `output_dir`; `db/dump.sql` if it is left out.
        db_file: optional Line<1000>,
    }
}

pub(crate) const RESTORE: Operation = Operation::new("restoreDatabase", "Replace the database by a dump")
    .about(
        "The dump is read by the gateway itself, into a scratch database, where it is migrated and proven: numbers of rows, foreign \
         keys, sums of tokens, the audit log, and at least one owner. Then it takes the database's place in one transaction: \
         until then the old state is untouched, and after it everybody has to sign in again. Models are brought in line with the \
         restored records. The answer is the job.",
    )
    .errors(&[ErrorCode::PathNotAllowed, ErrorCode::NotFound, ErrorCode::JobRunning, ErrorCode::HostUnavailable]);

pub(crate) async fn restore(
    app: State<App>,
    caller: Caller,
    Body(body): Body<Restore>,
) -> Outcome<Accepted<DeploymentJob>> {
    let dirs = app.files.export_dirs.clone();
    let (output_dir, db_file) =
        (body.output_dir.clone(), body.db_file.clone().unwrap_or_else(|| DUMP.to_owned()));
    let shown = db_file.clone();
    let look = move || {
        let (dir, file) = dump(&dirs, &output_dir, &db_file)?;
        if file.is_file() {
            return Ok::<_, Problem>((dir, file));
        }
        let message = format!("there is no dump `{shown}` in the package's folder");
        Err(Problem(ApiError::new(ErrorCode::NotFound, message).with_param("db_file")))
    };
    let (dir, file) = app.files.disk.look(look).await??;
    let request = RestoreRequest {
        dir,
        file,
        backup_first: body.backup_first.unwrap_or(true),
        drop_existing: body.drop_existing.unwrap_or(false),
    };
    let did = caller.did(Action::DatabaseRestore, &body.output_dir).created(json!({
        "output_dir": body.output_dir, "db_file": body.db_file, "backup_first": request.backup_first,
        "drop_existing": request.drop_existing,
    }));
    let job = app.deployment.restore(request, did).await?;
    Ok(Accepted(DeploymentJob::of(&app, job)))
}
