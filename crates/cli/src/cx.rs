//! What every verb needs that talks to a gateway.

use crate::{http::Client, output::Out, session::Sessions};

/// Context of the command that is running.
pub(crate) struct Cx {
    pub(crate) client: Client,
    pub(crate) out: Out,
    pub(crate) sessions: Sessions,
    /// Name under which the login is stored.
    pub(crate) key: String,
}
