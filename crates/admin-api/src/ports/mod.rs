//! What the admin API asks of the rest of the gateway, one trait for each subject. The server implements them on top of
//! the control plane and the data plane.

mod checks;
mod data_plane;
mod deployment;
mod engines;
mod hub;
mod images;
mod monitor;

pub use checks::Checks;
pub use data_plane::{Allowances, BodyParts, DataPlane, Inference, LimitHolder, LiveRoute, Spent};
pub use deployment::{AfterImport, Deployment, ImportJob};
pub use engines::{Drift, EngineLog, Engines, Live, LogStream, Preview, PreviousLog, TestReport, TestType};
pub use hub::{Hub, HubFile, HubRepository};
pub use images::{Image, Images, LoadedImages};
pub use monitor::{MachineView, Monitor, SpoolReport};
