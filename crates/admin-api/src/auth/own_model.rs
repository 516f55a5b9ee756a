//! What users see of the models that they may call.

use gantry_domain::{
    model::{EngineKind, State as ModelState, Task},
    view,
};

use crate::server_events::messages;

view! {
    /// One served name.
    #[derive(Debug, Clone, PartialEq)]
    pub(crate) struct OwnModel {
        pub(crate) served_name: String,
        pub(crate) task: Task,
        /// `null`: the engine runs elsewhere.
        pub(crate) engine_type: Option<EngineKind>,
        /// `null`: the engine runs elsewhere, and nobody here starts or stops it.
        pub(crate) state: Option<ModelState>,
        /// Requests are served now.
        pub(crate) callable: bool,
    }
}

messages! {
    OwnEvent: "OwnEvent";
    /// All models that the user may call: at first, and whenever one of them changed.
    Models(Vec<OwnModel>) = "models";
}
