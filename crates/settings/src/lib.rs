//! Defines every setting of the gateway in one place: name, type, default and what it does. Loading, `gantry settings`,
//! the reference page and the example file are made from this table.
//!
//! A value comes from a flag (`--gateway-listen`), else the environment (`GATEWAY_LISTEN`), else a `.env` file, else
//! the default. Secrets may also be given as a file (`SESSION_SECRET_FILE`), in each of these ways.

mod choice;
mod define;
mod images;
mod load;
mod otel;
mod sections;
mod service_url;
mod table;
mod value;

pub use choice::{ContainerRuntime, LogFormat, RestoreDrill};
pub use images::{ImageName, ImagePatterns};
pub use load::{Origin, SYSTEM_FILE, SYSTEM_FILE_VARIABLE, SettingsError, Sources};
pub use otel::{OtlpEndpoint, Pairs, SecretPairs, Share, TracesSampler};
pub use service_url::{DatabaseUrl, RedisUrl};
pub use table::{
    Data, Engines, Entry, German, Limits, Listening, Logging, Settings, SignIn, Supervision, Tracing,
};
pub use value::{
    BootstrapPassword, CommandWords, HostNames, Hosts, Origins, Paths, Secret, UserIds, Value, Wait, Words,
};

/// Checks the values together, for combinations that are wrong or dangerous.
impl Settings {
    /// # Errors
    /// Error with the name of the setting and what to do.
    pub fn check(&self) -> Result<(), SettingsError> {
        let refuse =
            |name: &'static str, why: &str| Err(SettingsError::Refused { name, why: why.to_owned() });
        if self.sign_in.gateway_dev_allow_all_keys
            && !self.listening.gateway_listen.ip().is_loopback()
            && !self.sign_in.gateway_dev_allow_remote
        {
            return refuse(
                "GATEWAY_DEV_ALLOW_ALL_KEYS",
                "lets anybody in, and GATEWAY_LISTEN is not a loopback address; \
                 set GATEWAY_DEV_ALLOW_REMOTE=true too if that is what you want",
            );
        }
        if self.sign_in.admin_bootstrap_username.is_some() != self.sign_in.admin_bootstrap_password.is_some()
        {
            return refuse("ADMIN_BOOTSTRAP_USERNAME", "needs ADMIN_BOOTSTRAP_PASSWORD, and the reverse");
        }
        if self.listening.gateway_listen == self.listening.metrics_listen
            && self.listening.gateway_listen.port() != 0
        {
            return refuse("METRICS_LISTEN", "must differ from GATEWAY_LISTEN");
        }
        if self.listening.request_body_memory_bytes < self.listening.request_max_body_bytes {
            return refuse("REQUEST_BODY_MEMORY_BYTES", "must be at least REQUEST_MAX_BODY_BYTES");
        }
        Ok(())
    }

    /// Returns the address of the database; without `DATABASE_URL` a SQLite file in the data directory.
    pub fn database(&self) -> DatabaseUrl {
        self.data
            .database_url
            .clone()
            .unwrap_or_else(|| DatabaseUrl::sqlite(&self.data.data_dir.join("gantry.db")))
    }

    /// Returns the folder of the model files; without `MODELS_DIR` a folder in the data directory.
    pub fn models_dir(&self) -> std::path::PathBuf {
        self.engines.models_dir.clone().unwrap_or_else(|| self.data.data_dir.join("models"))
    }

    /// Returns the folders that deployment packages are written to and read from.
    pub fn export_dirs(&self) -> Vec<std::path::PathBuf> {
        match self.engines.export_dirs.0.as_slice() {
            [] => vec![self.data.data_dir.join("exports")],
            dirs => dirs.to_vec(),
        }
    }

    /// Returns the folder in which engines cache what they fetch from the hub.
    pub fn hub_cache_dir(&self) -> std::path::PathBuf {
        self.engines.hub_cache_dir.clone().unwrap_or_else(|| self.data.data_dir.join("hub-cache"))
    }
}
