//! Images that engines start from.

use std::path::PathBuf;

use futures_util::future::BoxFuture;
use gantry_domain::{ApiError, audit::AuditEntry, model::EngineKind};

/// The images that engines start from.
pub trait Images: Send + Sync + 'static {
    /// Returns what a start of a model uses: an image, or the name of a program. `engine` is the model's engine, and
    /// `wished` is its `engine_image`.
    fn image_of(&self, engine: EngineKind, wished: Option<&str>) -> String;
    /// An image as the container runtime knows it; `None` if it is not there.
    fn image(&self, reference: &str) -> BoxFuture<'static, Result<Option<Image>, ApiError>>;
    /// Loads the images of an archive and returns their references. `path` is what the request calls it. The load is a
    /// job, which goes on if the returned future is dropped; `did` makes its row of the audit log.
    fn load_images(
        &self,
        archive: PathBuf,
        path: String,
        did: LoadedImages,
    ) -> BoxFuture<'static, Result<Vec<String>, ApiError>>;
}

/// Makes the row of the audit log for images that were loaded, from their references.
pub type LoadedImages = Box<dyn FnOnce(&[String]) -> AuditEntry + Send>;

/// An image on the machine of the container runtime.
#[derive(Debug, Clone)]
pub struct Image {
    pub size_bytes: i64,
    /// RFC 3339.
    pub created: Option<String>,
    /// Gantry's engine simulator, not a real engine.
    pub simulator: bool,
}
