//! `/admin/deployment/check-database-dump` and `restore-database`.

use std::{
    fs::{File, Metadata},
    io::{self, BufReader, Read},
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
use gantry_package::{contents::DUMP, manifest::MANIFEST, package::Package, path::PackagePath};
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
        /// The folder of the base package, for a difference: it has most pieces of the dump.
        base_dir: optional Line<1000>,
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
        /// What is wrong with it, though it can be restored: rows that a gateway would leave out.
        warnings: Vec<String>,
    }
}

pub(crate) const CHECK: Operation = Operation::new("checkDatabaseDump", "Whether a dump is there and can be restored")
    .about("The whole dump is read, which may take a while. Dumps of Gantry and plain dumps of `pg_dump` are understood.")
    .errors(&[ErrorCode::PathNotAllowed, ErrorCode::NotFound, ErrorCode::HostUnavailable]);

pub(crate) async fn check(app: State<App>, Body(body): Body<CheckDump>) -> Outcome<Json<DumpView>> {
    let dirs = app.files.export_dirs.clone();
    let place = Place::of(body.output_dir, body.base_dir, body.db_file);
    let shown = place.db_file.clone();
    let found = app.files.disk.look(move || place.find(&dirs)).await??;
    // Reading takes as long as the dump is large: longer than other looks at a disk may take.
    let read = tokio::task::spawn_blocking(move || look(&found, shown)).await;
    Ok(Json(read.map_err(|_| Problem(ApiError::internal()))?))
}

/// Where a request says that a dump is.
struct Place {
    output_dir: String,
    base_dir: Option<String>,
    db_file: String,
}

/// A dump that was looked for.
struct Found {
    dir: PathBuf,
    base: Option<PathBuf>,
    /// Where the file is or would be: inside `dir`, with all links followed.
    file: PathBuf,
    /// The package that has the dump in pieces, and the dump's name in it.
    pieces: Option<(Package, PackagePath)>,
}

impl Place {
    fn of(output_dir: String, base_dir: Option<String>, db_file: Option<String>) -> Self {
        Self { output_dir, base_dir, db_file: db_file.unwrap_or_else(|| DUMP.to_owned()) }
    }

    fn find(&self, dirs: &[PathBuf]) -> Result<Found, Problem> {
        let (dir, base) = folder::places(dirs, &self.output_dir, self.base_dir.as_deref())?;
        let file = folder::new(std::slice::from_ref(&dir), &self.db_file, "db_file")?;
        let pieces = if file.exists() { None } else { pieces(&dir, base.as_deref(), &file)? };
        Ok(Found { dir, base, file, pieces })
    }
}

/// Returns the package of a folder if it has the dump `file` in pieces.
fn pieces(dir: &Path, base: Option<&Path>, file: &Path) -> Result<Option<(Package, PackagePath)>, Problem> {
    let name = file.strip_prefix(dir).ok().and_then(Path::to_str).and_then(|it| PackagePath::new(it).ok());
    let Some(name) = name.filter(|_| dir.join(MANIFEST).exists()) else { return Ok(None) };
    let package = folder::package(dir, base)?;
    if !package.manifest().files.get(&name).is_some_and(|it| it.in_base) {
        return Ok(None);
    }
    match (&package.manifest().base, package.base()) {
        (Some(base), None) => {
            let message = format!("pieces of the dump are in the base package {}: name its folder", base.id);
            Err(Problem::invalid("base_dir", message))
        }
        _ => Ok(Some((package, name))),
    }
}

impl Found {
    /// Returns the size of the dump and when it was changed last, in milliseconds; `None` if there is none.
    fn facts(&self) -> Option<(u64, Option<i64>)> {
        if let Some((package, name)) = &self.pieces {
            return package.manifest().files.get(name).map(|it| (it.size, it.modified_at));
        }
        let found = self.file.metadata().ok().filter(Metadata::is_file)?;
        let modified = found.modified().ok().and_then(|it| it.duration_since(std::time::UNIX_EPOCH).ok());
        Some((found.len(), modified.map(|it| it.as_millis() as i64)))
    }

    fn open(&self) -> io::Result<Box<dyn Read + '_>> {
        Ok(match &self.pieces {
            Some((package, name)) => Box::new(package.content(name)?),
            None => Box::new(File::open(&self.file)?),
        })
    }
}

fn look(found: &Found, shown: String) -> DumpView {
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
        warnings: Vec::new(),
    };
    let Some((size, modified_at)) = found.facts() else {
        let is_there = found.file.exists();
        view.problems.push(if is_there { "it is not a file" } else { "there is no such file" }.to_owned());
        return view;
    };
    view.exists = true;
    view.size_bytes = Some(size);
    view.modified_at = modified_at.map(|it| Timestamp(it).into());
    match found.open() {
        Ok(from) => filled(view, check_dump(BufReader::with_capacity(1 << 20, from))),
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
        warnings: report.warnings,
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
        /// The folder of the base package, for a difference: it has most pieces of the dump.
        base_dir: optional Line<1000>,
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
    let place = Place::of(body.output_dir.clone(), body.base_dir.clone(), body.db_file.clone());
    let look = move || {
        let found = place.find(&dirs)?;
        if found.facts().is_some() {
            return Ok::<_, Problem>(found);
        }
        let message = format!("there is no dump `{}` in the package's folder", place.db_file);
        Err(Problem(ApiError::new(ErrorCode::NotFound, message).with_param("db_file")))
    };
    let Found { dir, base, file, .. } = app.files.disk.look(look).await??;
    let request = RestoreRequest {
        dir,
        base,
        file,
        backup_first: body.backup_first.unwrap_or(true),
        drop_existing: body.drop_existing.unwrap_or(false),
    };
    let did = caller.did(Action::DatabaseRestore, &body.output_dir).created(json!({
        "output_dir": body.output_dir, "base_dir": body.base_dir, "db_file": body.db_file, "backup_first": request.backup_first,
        "drop_existing": request.drop_existing,
    }));
    let job = app.deployment.restore(request, did).await?;
    Ok(Accepted(DeploymentJob::of(&app, job)))
}
