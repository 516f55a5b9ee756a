//! The model hub.

use futures_util::future::BoxFuture;
use gantry_domain::ApiError;
pub use gantry_inspect::hub::HubFile;
use secrecy::SecretString;

/// The model hub.
pub trait Hub: Send + Sync + 'static {
    /// Asks the model hub about the repository `repo_id`, which is `owner/name` or `name`. Takes 10 s at most.
    fn repository(
        &self,
        repo_id: &str,
        token: Option<SecretString>,
    ) -> BoxFuture<'static, Result<HubRepository, ApiError>>;
}

/// A repository of the model hub.
#[derive(Debug, Clone)]
pub struct HubRepository {
    /// `config.json` as it came; `None` if there is none.
    pub config: Option<bytes::Bytes>,
    /// All files; `None` if the hub did not list them.
    pub files: Option<Vec<HubFile>>,
}
