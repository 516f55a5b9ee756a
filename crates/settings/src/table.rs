//! The settings table.

use std::{
    net::SocketAddr,
    num::{NonZeroU32, NonZeroUsize},
    path::PathBuf,
    time::Duration,
};

use gantry_domain::{
    limit::LimitMode,
    net::{IpList, SubnetRange},
};

use crate::{
    images::{ImageName, ImagePatterns},
    load::{Origin, SettingsError, Sources},
    otel::{OtlpEndpoint, Pairs, SecretPairs, Share, TracesSampler},
    service_url::{DatabaseUrl, RedisUrl},
    value::{
        CommandWords, ContainerRuntime, HostNames, Hosts, LogFormat, Origins, Paths, RestoreDrill, Secret,
        UserIds, Value, Wait,
    },
};

/// One setting as `gantry settings` and the reference page show it.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Name of the environment variable.
    pub name: String,
    pub group: &'static str,
    pub doc: &'static str,
    pub default: &'static str,
    pub allowed: &'static str,
    /// The value in force; `***` for secrets.
    pub value: String,
    /// The value as it was written; `None` where that would reveal a secret.
    pub text: Option<String>,
    pub origin: Origin,
}

impl Entry {
    /// Returns it as an object; secrets are masked.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "name": self.name, "group": self.group, "doc": self.doc, "allowed": self.allowed, "default": self.default,
            "value": self.value, "source": self.origin.to_string(),
        })
    }
}

macro_rules! settings {
    ($(
        $group:literal $section:ident: $Section:ident {
            $($(#[doc = $doc:literal])+ $name:ident: $kind:ty = $default:literal;)+
        }
    )+) => {
        /// All settings, checked one by one; [`Settings::check`] looks at them together. A part of the gateway gets the
        /// sections that it needs.
        #[derive(Debug, Clone)]
        pub struct Settings { $(#[doc = concat!("Settings of the section \"", $group, "\".")] pub $section: $Section,)+ }

        $(
            #[doc = concat!("Settings of the section \"", $group, "\".")]
            #[derive(Debug, Clone)]
            pub struct $Section { $($(#[doc = $doc])+ pub $name: $kind,)+ }

            impl Default for $Section {
                fn default() -> Self {
                    Self { $($name: <$kind as Value>::parse($default).expect("a test reads all defaults"),)+ }
                }
            }
        )+

        impl Settings {
            /// Names of all settings, as environment variables.
            pub fn names() -> Vec<String> {
                vec![$($(stringify!($name).to_uppercase(),)+)+]
            }

            /// Name, meaning and default of all settings.
            pub fn about() -> Vec<(String, &'static str, &'static str)> {
                vec![$($((stringify!($name).to_uppercase(), concat!($($doc,)+).trim_ascii_start(), $default),)+)+]
            }

            /// `<NAME>_FILE` of those that may be given as files.
            pub fn file_names() -> Vec<String> {
                let all = [$($((stringify!($name), <$kind as Value>::IN_FILE),)+)+];
                all.iter().filter(|(_, it)| *it).map(|(name, _)| name.to_uppercase() + "_FILE").collect()
            }

            /// Reads every setting.
            ///
            /// # Errors
            /// The first setting that is malformed or unknown, with the values that are allowed.
            pub fn load(sources: &Sources) -> Result<(Self, Vec<Entry>), SettingsError> {
                sources.refuse_unknown(&[Self::names(), Self::file_names()].concat())?;
                let mut entries = Vec::new();
                $($(
                    let $name: $kind = {
                        let name = stringify!($name).to_uppercase();
                        let (text, origin) = sources.get(&name, $default, <$kind as Value>::IN_FILE)?;
                        let value = <$kind as Value>::parse(&text).ok_or_else(|| SettingsError::Malformed {
                            name: name.clone(),
                            origin,
                            allowed: <$kind as Value>::ALLOWED,
                        })?;
                        let doc = concat!($($doc,)+).trim_start();
                        let shown = value.show();
                        let text = (!<$kind as Value>::IN_FILE || shown == text).then_some(text);
                        entries.push(Entry {
                            name, group: $group, doc, default: $default,
                            allowed: <$kind as Value>::ALLOWED, value: shown, text, origin,
                        });
                        value
                    };
                )+)+
                Ok((Self { $($section: $Section { $($name,)+ },)+ }, entries))
            }
        }
    };
}

settings! {
    "Listening" listening: Listening {
        /// Address of the API and the web UI.
        gateway_listen: SocketAddr = "127.0.0.1:8084";
        /// Address of the Prometheus metrics.
        metrics_listen: SocketAddr = "127.0.0.1:9084";
        /// Threads that serve inference requests; 0 means one for each CPU, at most 8.
        dataplane_threads: usize = "0";
        /// Host names under which the gateway may be reached, besides IP addresses and `localhost`.
        allowed_hosts: HostNames = "";
        /// Web origins whose pages are trusted like the gateway's own: they may use the whole API, with a session or a
        /// key. `*` lets the pages of every other origin call the inference API with a key, and nothing else: they
        /// never get a session, `/admin` or `/auth`. Without `*`, pages of other origins can't use keys.
        cors_allow_origins: Origins = "";
        /// Reverse proxies whose `X-Forwarded-For` is believed.
        trusted_proxies: IpList = "";
        /// Largest body of an inference request, in bytes.
        request_max_body_bytes: NonZeroUsize = "33554432";
        /// Memory for the bodies of all inference requests that have not reached their engine, in bytes. One key gets
        /// at most half of it, one user with all keys and sessions half of it, and one organisation three quarters. A
        /// request for whose body there is no memory is refused.
        request_body_memory_bytes: NonZeroUsize = "536870912";
        /// Memory that the gateway may have, in bytes; 0: what the machine has, or what its control group (a container, a
        /// service) allows, if that is less. Bodies of inference requests get a quarter of it at most, and the bodies and
        /// the answers of all other requests an eighth each. What does not fit is refused with 503. Engines are not counted.
        memory_max: usize = "0";
        /// Client connections at the same time. 0: as many as the limit of open files (`ulimit -n`) allows if each
        /// needs a connection to an engine too. Beyond that number, the connection without a request that has been
        /// silent the longest is closed.
        connections_max: usize = "0";
        /// Client connections from one address (with IPv6, from one /64) at the same time, at most half of all; 0 means
        /// no limit. Connections from `TRUSTED_PROXIES` and from this machine are not counted. Behind any other proxy
        /// all clients share one address.
        connections_per_address_max: u32 = "4096";
        /// How long a client's connection is kept after an answer, in seconds. Let a proxy drop its connections to the
        /// gateway earlier (nginx does after 60, Caddy after 120): a request that is sent at the moment at which the gateway
        /// closes the connection is lost. While half of `CONNECTIONS_MAX` or more are open, it is 10 seconds at most.
        connection_idle_sec: Duration = "180";
        /// Hosts from which engines may fetch pictures, sounds, films and files that requests refer to; `*` means any.
        /// All other addresses except `data:` are refused, since engines fetch from inside your network.
        media_url_hosts: Hosts = "";
        /// Lets requests carry tensors that engines load: `prompt_embeds`, and parts of messages such as
        /// `image_embeds`. Crafted tensors have run code in vLLM (CVE-2025-62164): set this only if you trust every
        /// client as you trust the engine's operator.
        request_tensors: bool = "false";
        /// Streams of events and of logs that pages and operators may have open at the same time.
        event_streams_max: usize = "256";
        /// How long requests may go on after a signal to stop, in seconds. A second signal cuts them at once.
        drain_timeout_sec: Duration = "30";
        /// Seconds, before that, in which the gateway still serves everything while `/readyz` already answers
        /// `shutting_down`. Choose the time that a load balancer takes to notice.
        shutdown_delay_sec: u32 = "0";
    }
    "Data" data: Data {
        /// Folder for the database, secrets and the usage spool; empty means `~/.local/share/gantry`.
        data_dir: PathBuf = "~/.local/share/gantry";
        /// Database; empty means a SQLite file in the data directory.
        database_url: Option<DatabaseUrl> = "";
        /// Key that secrets in the database are encrypted with, 64 hexadecimal digits; empty: generated once into the
        /// data directory. Several gateways on one Postgres need the same key. Further keys, after a comma, only
        /// decrypt.
        secrets_key: Option<Secret> = "";
        /// Longest wait, at the gateway's start, for a Postgres that does not answer yet, in seconds.
        database_wait_sec: Wait = "60";
        /// Backs the database up before a start of this version changes its schema, into `backups` in the data directory; the
        /// last three such backups are kept. Without the backup the gateway does not start.
        upgrade_backup: bool = "true";
        /// How often the newest backup of this gateway is restored into a scratch file in the data directory and proven. It
        /// is looked for in `backups` in the data directory and in `EXPORT_DIRS`. A drill needs as much room as the
        /// database.
        restore_drill: RestoreDrill = "off";
        /// Days for which single usage rows are kept; 0 means for ever. Sums by hour and day stay for ever.
        usage_retention_days: u32 = "90";
        /// Days for which the audit log is kept; 0 means for ever.
        audit_retention_days: u32 = "365";
    }
    "Limits" limits: Limits {
        /// Requests a minute for each key that has no such limit of its own, and for each user who is signed in; 0
        /// means no limit.
        rate_limit_rpm: u32 = "0";
        /// Tokens a minute for each key that has no such limit of its own, and for each user who is signed in; 0 means
        /// no limit.
        rate_limit_tpm: u32 = "0";
        /// Requests at the same time for each key that has no such limit of its own, and for each user who is signed
        /// in; 0 means no limit.
        max_concurrent_requests: u32 = "0";
        /// `shadow` counts what limits and budgets would refuse, and refuses nothing.
        rate_limit_mode: LimitMode = "enforce";
        /// Redis or Valkey through which several gateways on one database share their limits; empty: each gateway
        /// enforces them by itself.
        redis_url: Option<RedisUrl> = "";
        /// Milliseconds that an exchange with Redis may take; after that each gateway goes on with its share of the
        /// limits.
        redis_timeout_ms: NonZeroU32 = "250";
    }
    "Sign-in" sign_in: SignIn {
        /// Secret that signs session cookies; empty: generated once into the data directory. Changing it ends all
        /// sessions.
        session_secret: Option<Secret> = "";
        /// Marks the session cookie `Secure`. Browsers then drop it on a plain-http origin.
        session_cookie_secure: bool = "false";
        /// Seconds for which browsers shall use `https` only for the gateway's name (`Strict-Transport-Security`); 0
        /// does not send the header. Only for a gateway that is always reached through a proxy with TLS.
        hsts_max_age_sec: u32 = "0";
        /// Hours after which an unused session ends.
        session_ttl_hours: NonZeroU32 = "8";
        /// Users that an organisation may have.
        org_users_max: NonZeroU32 = "1000";
        /// Name of an owner that is created at start when there is none.
        admin_bootstrap_username: Option<String> = "";
        /// Password of that owner, 8 to 256 characters.
        admin_bootstrap_password: Option<BootstrapPassword> = "";
        /// Accepts any API key, or none. For development only.
        gateway_dev_allow_all_keys: bool = "false";
        /// Allows the setting above on an address that is not loopback.
        gateway_dev_allow_remote: bool = "false";
    }
    "Models and engines" engines: Engines {
        /// Models base directory, mounted read-only into every engine; empty means `models` in the data directory. A
        /// directory that an owner chose with `PUT /admin/models/base-dir` wins over this one.
        models_dir: Option<PathBuf> = "";
        /// Directories below which an owner may choose the models base directory; empty means any that is not the
        /// system's or the gateway's own, not hidden (`.ssh`), and not in the home directory of another user.
        models_roots: Paths = "";
        /// Folder in which engines cache what they fetch from the model hub; empty means `hub-cache` in the data
        /// directory.
        hub_cache_dir: Option<PathBuf> = "";
        /// Folders that deployment packages are written to and read from, separated by commas; empty means `exports` in
        /// the data directory.
        export_dirs: Paths = "";
        /// File of the secret key that deployment packages are signed with, as `gantry package key --no-password` makes it;
        /// empty: packages are not signed.
        package_signing_key: Option<PathBuf> = "";
        /// Public key that deployment packages must be signed with to be imported or restored from, as `gantry package key`
        /// prints it; empty: packages without a signature are taken as well.
        package_trusted_key: Option<String> = "";
        /// Address of the model hub, as in `https://hub.example.org`; `http://` is for a mirror in your own network,
        /// since tokens then travel unencrypted. Empty means the public hub, `https://huggingface.co`, which is also
        /// the engines' default. With `OFFLINE_MODE` no hub is asked.
        hub_endpoint: Option<String> = "";
        /// Image of the primary engine, vLLM.
        primary_engine_image: ImageName = "vllm/vllm-openai:v0.32.0";
        /// Image of the secondary engine, llama.cpp.
        secondary_engine_image: ImageName = "ghcr.io/ggml-org/llama.cpp:server-cuda-b11434";
        /// Images (without tag) that models may name in `engine_image`, besides the two above; a trailing `*` matches
        /// any end. The list is checked when the field is sent, and again at each start.
        engine_image_allowlist: ImagePatterns = "";
        /// The gateway never pulls images.
        offline_mode: bool = "false";
        /// The gateway behaves as in offline mode when the image's registry can't be reached.
        offline_mode_auto_detect: bool = "true";
        /// The gateway uses only images that are there already.
        require_image_precache: bool = "false";
        /// Longest time for pulling an image, in seconds.
        image_pull_timeout: Duration = "1800";
        /// Longest time that requests for a model which is being applied wait for its new engine, in seconds; with 0
        /// they fail at once.
        apply_wait_sec: Wait = "300";
        /// Key with which the gateway calls engines; empty: generated once into the data directory.
        internal_engine_api_key: Option<Secret> = "";
        /// What runs the engines: Docker containers, or processes of this machine. `auto`: Docker if it answers when
        /// the gateway starts or if `CONTAINER_HOST` is set, else processes.
        container_runtime: ContainerRuntime = "auto";
        /// Numeric user and group that engines run as in their containers; empty: those of the gateway, so that models
        /// and hub cache need to be readable for the gateway only. `0:0` is for an image that works for root only.
        engine_container_user: Option<UserIds> = "";
        /// Private addresses of the engines' container networks. Each network takes the first 64 that neither a route
        /// of this machine nor another network uses; a gateway has up to two networks.
        engine_networks: SubnetRange = "10.189.0.0/16";
        /// Program that runs as vLLM where engines are processes; empty: `vllm serve` from `PATH`. The simulator runs
        /// only if this is `gantry engine-sim --flavour vllm`.
        primary_engine_command: Option<CommandWords> = "";
        /// Program that runs as llama.cpp's server where engines are processes; empty: `llama-server` from `PATH`. The
        /// simulator runs only if this is `gantry engine-sim --flavour llamacpp`.
        secondary_engine_command: Option<CommandWords> = "";
        /// Address of the container runtime; empty means `DOCKER_HOST` if that is set, else the local socket.
        container_host: Option<String> = "";
        /// File with the GPUs of the container host, as `GET /admin/system/gpus` shows them, for a gateway that can't
        /// see them; empty: the driver is asked.
        gpu_inventory_file: Option<PathBuf> = "";
        /// Longest time in `loading` of a model on vLLM, in seconds.
        primary_startup_timeout_sec: Duration = "600";
        /// Longest time in `loading` of a model on llama.cpp, in seconds.
        secondary_startup_timeout_sec: Duration = "300";
        /// Time that an engine gets to stop by itself, in seconds.
        stop_timeout_sec: Duration = "10";
        /// Stops all models when the gateway stops.
        stop_models_on_shutdown: bool = "false";
    }
    "Supervision" supervision: Supervision {
        /// Interval at which models are compared with their containers, in seconds.
        model_reconcile_sec: Duration = "15";
        /// Interval at which running engines are probed, in seconds.
        health_poll_sec: Duration = "15";
        /// Failures in a row that open an engine's circuit breaker.
        breaker_failures: NonZeroU32 = "5";
        /// Time until an open breaker lets one trial through, in seconds.
        breaker_cooldown_sec: Duration = "30";
        /// Shortest silence, in seconds, after which an engine may count as stalled while requests wait for it. An
        /// engine that is silent for longer than this, and for longer than is usual for it, gets no new requests until
        /// it sends again.
        stall_floor_sec: Duration = "30";
    }
    "Logging" logging: Logging {
        /// Format of the log on standard error.
        log_format: LogFormat = "text";
        /// Writes one line for each request, without any of its content. If false, only requests that ended with a 5xx
        /// have a line.
        access_log: bool = "true";
        /// Log levels, as in `info,gantry_control=debug`.
        rust_log: String = "info";
    }
    "Tracing" tracing: Tracing {
        /// Address of a collector that takes OTLP over HTTP; `/v1/traces` is appended. Without it no spans are made.
        otel_exporter_otlp_endpoint: Option<OtlpEndpoint> = "";
        /// Headers that are sent to the collector, such as its key.
        otel_exporter_otlp_headers: SecretPairs = "";
        /// Name of the gateway in its spans; `gantry`, unless `OTEL_RESOURCE_ATTRIBUTES` names it.
        otel_service_name: Option<String> = "";
        /// Further attributes of the gateway in its spans, as in `deployment.environment.name=prod`.
        otel_resource_attributes: Pairs = "";
        /// Which traces are exported.
        otel_traces_sampler: TracesSampler = "parentbased_always_on";
        /// Share of the traces for `traceidratio`.
        otel_traces_sampler_arg: Share = "1";
        /// Largest number of spans that wait for the collector; more are dropped.
        otel_bsp_max_queue_size: u32 = "8192";
        /// Marks traces that begin at this gateway (W3C Trace Context) as sampled even though no spans are exported.
        trace_sampled: bool = "false";
    }
}

/// The bootstrap password: a secret with the length rules of passwords.
#[derive(Debug, Clone)]
pub struct BootstrapPassword(pub secrecy::SecretString);

impl Value for BootstrapPassword {
    const ALLOWED: &'static str = "a password of 8 to 256 characters";
    const IN_FILE: bool = true;

    fn parse(text: &str) -> Option<Self> {
        (8..=256).contains(&text.chars().count()).then(|| Self(text.to_owned().into()))
    }

    fn show(&self) -> String {
        "***".to_owned()
    }
}
