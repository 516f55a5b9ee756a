//! What a runtime is and can do, as far as the rest of the gateway asks.

/// Name of the runtime whose instances are containers of Docker.
pub const DOCKER: &str = "docker";
/// Name of the runtime whose instances are processes of this machine.
pub const PROCESS: &str = "process";
/// Names of the runtimes that a gateway can use.
pub const NAMES: [&str; 2] = [DOCKER, PROCESS];

/// What a runtime is and can do. It never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each answers a question of its own")]
pub struct Traits {
    /// One of [`NAMES`], as the API shows it.
    pub name: &'static str,
    /// What people call one of its instances: `container`, `process`.
    pub instance: &'static str,
    /// Instances are made from images. Otherwise images mean nothing, and programs of the machine stand in their place.
    pub runs_images: bool,
    /// It fetches an image that is not there from a registry.
    pub pulls_images: bool,
    /// It takes images from archives as `docker save` writes them.
    pub loads_archives: bool,
    /// Its images can be written to such archives.
    pub exports_images: bool,
    /// Engines use the GPUs of this machine with its own drivers, from any vendor. Otherwise the runtime hands GPUs to
    /// them, and only NVIDIA's.
    pub shares_host_gpus: bool,
    /// Engines find files at the paths of this machine and listen on its loopback. Otherwise folders are mounted at
    /// fixed paths, and they listen on a fixed port, which the runtime publishes.
    pub host_paths: bool,
}
