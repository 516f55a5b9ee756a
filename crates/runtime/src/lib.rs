//! The container runtime: makes, finds, stops and reads the containers that the engines run in.
//!
//! [`Runtime`] is what the reconciler talks to. There are two for production: [`docker`], and [`process`] for machines
//! without a container engine. [`Fake`] is the one for simulations and tests. The trait reports what is there and
//! executes commands. Deciding what should happen is [`gantry_domain::model::lifecycle`]'s work; remembering anything
//! is the database's.

mod docker;
mod error;
mod fake;
mod gate;
mod gpus;
mod log_lines;
mod no_statistics;
mod process;
mod runtime;

pub use docker::{DEFAULT_HOST, Docker, docker};
pub use error::{RuntimeError, RuntimeResult};
pub use fake::{Action, Fake, Script};
pub use gate::{Gate, Open};
pub use gpus::host_gpus;
pub use process::{
    Process, ProcessOptions, Program, Programs, VERB as SUPERVISOR_VERB, boot_id, engine_of, process,
    supervise,
};
pub use runtime::{ContainerSpec, Found, ImageInfo, ImageProbe, Owner, Progress, Runtime, RuntimeInfo};
