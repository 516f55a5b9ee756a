//! The end of the log of a model's run before the current one. A container takes its log with it; why an engine died at
//! night must still be readable after supervision has started the next one.

use std::{
    fs, io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::{Duration, UNIX_EPOCH},
};

use gantry_domain::{
    ApiError, LogWindow, ModelId, Timestamp,
    model::{Model, lifecycle::InstanceId},
};
use tokio::{task::spawn_blocking, time::timeout};
use tracing::warn;

use crate::Control;

/// Folder below the data directory.
const FOLDER: &str = "previous-logs";
/// Most lines that are kept.
const LINES: usize = 5000;
/// Most bytes that are kept.
const BYTES: usize = 1 << 20;
/// Longest time that the next start waits for the log.
const PATIENCE: Duration = Duration::from_secs(5);

/// The end of a log, and when its engine was removed.
#[derive(Debug, Clone)]
pub struct PreviousLog {
    pub text: String,
    pub until: Timestamp,
}

fn path(control: &Control, model: ModelId) -> PathBuf {
    control.config.data_dir.join(FOLDER).join(format!("{}.log", model.0))
}

impl Control {
    /// Returns the end of the log of the run before the current one; `None` if there was none, or if another gateway
    /// supervised it.
    ///
    /// # Errors
    /// The file can't be read.
    pub async fn previous_log(&self, model: ModelId) -> Result<Option<PreviousLog>, ApiError> {
        let path = path(self, model);
        let read = spawn_blocking(move || -> io::Result<_> {
            let text = match fs::read(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                read => String::from_utf8_lossy(&read?).into_owned(),
            };
            let until = fs::metadata(&path)?.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
            let until = Timestamp(i64::try_from(until.as_millis()).unwrap_or(i64::MAX));
            Ok(Some(PreviousLog { text, until }))
        });
        read.await.map_err(|_| ApiError::internal())?.map_err(|error| {
            warn!(model = model.0, %error, "the log of the run before can't be read");
            ApiError::internal()
        })
    }
}

/// Keeps the log of an engine that is about to be removed, in place of the one before. It is no reason not to start:
/// errors are only logged.
pub(crate) async fn keep(control: &Control, model: ModelId, engine: &InstanceId) {
    let log = control.runtime.logs(engine, LogWindow::last(LINES));
    let text = match timeout(PATIENCE, log).await {
        Ok(Ok(text)) => text,
        Ok(Err(error)) => return warn!(model = model.0, %error, "the log of the run that ended is not kept"),
        Err(_) => {
            return warn!(model = model.0, "the log of the run that ended is not kept: it takes too long");
        }
    };
    let path = path(control, model);
    let stored = spawn_blocking(move || store(&path, end_of(&text)));
    if let Ok(Err(error)) = stored.await {
        warn!(model = model.0, %error, "the log of the run that ended is not kept");
    }
}

/// Keeps the log of an engine that ended and was not removed, such as one that failed, before the next one takes its place.
pub(crate) async fn keep_leftover(control: &Control, model: &Model) {
    if let Ok(Some(left)) = control.runtime.find(&model.instance_name()).await {
        keep(control, model.id, &left.instance.id).await;
    }
}

/// Removes what is kept of a model whose record is gone.
pub(crate) async fn forget(control: &Control, model: ModelId) {
    let path = path(control, model);
    // There is none if the model never ran twice.
    let _ = spawn_blocking(move || fs::remove_file(path)).await;
}

/// Returns the last [`BYTES`] of a log, from the begin of a line.
fn end_of(text: &str) -> &str {
    let from = text.ceil_char_boundary(text.len().saturating_sub(BYTES));
    let end = &text[from..];
    if from == 0 { end } else { end.split_once('\n').map_or(end, |(_, rest)| rest) }
}

fn store(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    // Renamed, so that it is never read half written.
    let part = path.with_extension("part");
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part)?;
    io::Write::write_all(&mut file, text.as_bytes())?;
    fs::rename(part, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_log_is_cut_at_a_line() {
        let line = "ä long line\n";
        let text = line.repeat(BYTES / line.len() * 2);
        let end = end_of(&text);
        assert!(end.len() <= BYTES && end.len() + line.len() >= BYTES - line.len());
        assert!(end.starts_with(line) && text.ends_with(end));
        assert_eq!(end_of("short"), "short");
        // One line that is longer than all that is kept.
        assert_eq!(end_of(&"x".repeat(2 * BYTES)).len(), BYTES);
    }
}
