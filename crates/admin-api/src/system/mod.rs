//! `/admin/system`: the machine, the container runtime and what they hold.

pub(crate) mod gpus;
pub(crate) mod host;
pub(crate) mod images;
pub(crate) mod settings;
