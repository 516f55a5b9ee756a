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
    choice::{ContainerRuntime, LogFormat, RestoreDrill},
    define::settings,
    images::{ImageName, ImagePatterns},
    load::{Origin, SettingsError, Sources},
    otel::{OtlpEndpoint, Pairs, SecretPairs, Share, TracesSampler},
    service_url::{DatabaseUrl, RedisUrl},
    value::{
        BootstrapPassword, CommandWords, HostNames, Hosts, Origins, Paths, Secret, UserIds, Value, Wait,
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

/// The texts of a setting, each in English and in German. Pages show the German ones to those who read German.
#[derive(Debug, Clone)]
pub struct German {
    /// Name of the environment variable.
    pub name: String,
    pub group: (&'static str, &'static str),
    pub doc: (&'static str, &'static str),
    pub allowed: (&'static str, &'static str),
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

settings! {
    "Listening", "Verbindungen" listening: Listening {
        /// Address of the API and the web UI.
        #[de = "Adresse der API und der Weboberfläche."]
        gateway_listen: SocketAddr = "127.0.0.1:8084";
        /// Address of the Prometheus metrics.
        #[de = "Adresse der Prometheus-Metriken."]
        metrics_listen: SocketAddr = "127.0.0.1:9084";
        /// Threads that serve inference requests; 0 means one for each CPU, at most 8.
        #[de = "Threads, die Inferenzanfragen bearbeiten; 0 bedeutet einen je CPU, höchstens 8."]
        dataplane_threads: usize = "0";
        /// Host names under which the gateway may be reached, besides IP addresses and `localhost`.
        #[de = "Hostnamen, unter denen das Gateway erreicht werden darf, außer IP-Adressen und `localhost`."]
        allowed_hosts: HostNames = "";
        /// Web origins whose pages are trusted like the gateway's own: they may use the whole API, with a session or a
        /// key. `*` lets the pages of every other origin call the inference API with a key, and nothing else: they
        /// never get a session, `/admin` or `/auth`. Without `*`, pages of other origins can't use keys.
        #[de = "Web-Origins, deren Seiten so vertraut wird wie denen des Gateways: Sie dürfen die ganze API \
                verwenden, mit einer Sitzung oder einem Schlüssel. `*` lässt die Seiten aller anderen Origins die \
                Inferenz-API mit einem Schlüssel aufrufen und sonst nichts: Eine Sitzung, `/admin` oder `/auth` \
                bekommen sie nie. Ohne `*` können Seiten anderer Origins keine Schlüssel verwenden."]
        cors_allow_origins: Origins = "";
        /// Reverse proxies whose `X-Forwarded-For` is believed.
        #[de = "Reverse Proxys, deren `X-Forwarded-For` geglaubt wird."]
        trusted_proxies: IpList = "";
        /// Largest body of an inference request, in bytes.
        #[de = "Größter Body einer Inferenzanfrage, in Bytes."]
        request_max_body_bytes: NonZeroUsize = "33554432";
        /// Memory for the bodies of all inference requests that have not reached their engine, in bytes. One key gets
        /// at most half of it, one user with all keys and sessions half of it, and one organisation three quarters. A
        /// request for whose body there is no memory is refused.
        #[de = "Speicher für die Bodys aller Inferenzanfragen, die ihre Engine noch nicht erreicht haben, in Bytes. \
                Ein Schlüssel bekommt höchstens die Hälfte davon, ein Benutzer mit allen Schlüsseln und Sitzungen \
                ebenfalls die Hälfte, und eine Organisation drei Viertel. Eine Anfrage, für deren Body kein Speicher \
                da ist, wird abgelehnt."]
        request_body_memory_bytes: NonZeroUsize = "536870912";
        /// Memory that the gateway may have, in bytes; 0: what the machine has, or what its control group (a container, a
        /// service) allows, if that is less. Bodies of inference requests get a quarter of it at most, and the bodies and
        /// the answers of all other requests an eighth each. What does not fit is refused with 503. Engines are not counted.
        #[de = "Speicher, den das Gateway haben darf, in Bytes; 0: was die Maschine hat, oder was seine Control \
                Group (ein Container, ein Dienst) erlaubt, wenn das weniger ist. Die Bodys von Inferenzanfragen \
                bekommen davon höchstens ein Viertel, und die Bodys und die Antworten aller anderen Anfragen je ein \
                Achtel. Was nicht hineinpasst, wird mit 503 abgelehnt. Engines werden nicht mitgezählt."]
        memory_max: usize = "0";
        /// Client connections at the same time. 0: as many as the limit of open files (`ulimit -n`) allows if each
        /// needs a connection to an engine too. Beyond that number, the connection without a request that has been
        /// silent the longest is closed.
        #[de = "Gleichzeitige Verbindungen von Clients. 0: so viele, wie die Grenze für offene Dateien (`ulimit -n`) \
                erlaubt, wenn jede auch eine Verbindung zu einer Engine braucht. Darüber hinaus wird die Verbindung \
                ohne Anfrage geschlossen, die am längsten still war."]
        connections_max: usize = "0";
        /// Client connections from one address (with IPv6, from one /64) at the same time, at most half of all; 0 means
        /// no limit. Connections from `TRUSTED_PROXIES` and from this machine are not counted. Behind any other proxy
        /// all clients share one address.
        #[de = "Gleichzeitige Verbindungen von Clients einer Adresse (bei IPv6 eines /64), höchstens die Hälfte \
                aller; 0 bedeutet keine Grenze. Verbindungen aus `TRUSTED_PROXIES` und von dieser Maschine werden \
                nicht gezählt. Hinter jedem anderen Proxy teilen sich alle Clients eine Adresse."]
        connections_per_address_max: u32 = "4096";
        /// How long a client's connection is kept after an answer, in seconds. Let a proxy drop its connections to the
        /// gateway earlier (nginx does after 60, Caddy after 120): a request that is sent at the moment at which the gateway
        /// closes the connection is lost. While half of `CONNECTIONS_MAX` or more are open, it is 10 seconds at most.
        #[de = "Wie lange die Verbindung eines Clients nach einer Antwort gehalten wird, in Sekunden. Lassen Sie \
                einen Proxy seine Verbindungen zum Gateway früher schließen (nginx tut das nach 60, Caddy nach 120): \
                Eine Anfrage, die in dem Augenblick gesendet wird, in dem das Gateway die Verbindung schließt, geht \
                verloren. Solange die Hälfte von `CONNECTIONS_MAX` oder mehr offen ist, sind es höchstens 10 \
                Sekunden."]
        connection_idle_sec: Duration = "180";
        /// Hosts from which engines may fetch pictures, sounds, films and files that requests refer to; `*` means any.
        /// All other addresses except `data:` are refused, since engines fetch from inside your network.
        #[de = "Hosts, von denen Engines Bilder, Töne, Filme und Dateien laden dürfen, auf die Anfragen verweisen; \
                `*` bedeutet alle. Alle anderen Adressen außer `data:` werden abgelehnt, denn Engines laden aus Ihrem \
                Netzwerk heraus."]
        media_url_hosts: Hosts = "";
        /// Lets requests carry tensors that engines load: `prompt_embeds`, and parts of messages such as
        /// `image_embeds`. Crafted tensors have run code in vLLM (CVE-2025-62164): set this only if you trust every
        /// client as you trust the engine's operator.
        #[de = "Lässt Anfragen Tensoren enthalten, die Engines laden: `prompt_embeds` und Teile von Nachrichten wie \
                `image_embeds`. Präparierte Tensoren haben in vLLM schon Code ausgeführt (CVE-2025-62164): Schalten \
                Sie dies nur ein, wenn Sie jedem Client so vertrauen wie dem Betreiber der Engine."]
        request_tensors: bool = "false";
        /// Streams of events and of logs that pages and operators may have open at the same time.
        #[de = "Ströme von Ereignissen und Protokollen, die Seiten und Betreiber gleichzeitig offen haben dürfen."]
        event_streams_max: usize = "256";
        /// How long requests may go on after a signal to stop, in seconds. A second signal cuts them at once.
        #[de = "Wie lange Anfragen nach einem Signal zum Beenden weiterlaufen dürfen, in Sekunden. Ein zweites \
                Signal bricht sie sofort ab."]
        drain_timeout_sec: Duration = "30";
        /// Seconds, before that, in which the gateway still serves everything while `/readyz` already answers
        /// `shutting_down`. Choose the time that a load balancer takes to notice.
        #[de = "Sekunden davor, in denen das Gateway noch alles bedient, während `/readyz` schon `shutting_down` \
                antwortet. Wählen Sie die Zeit, die ein Load Balancer braucht, um es zu bemerken."]
        shutdown_delay_sec: u32 = "0";
    }
    "Data", "Daten" data: Data {
        /// Folder for the database, secrets and the usage spool; empty means `~/.local/share/gantry`.
        #[de = "Ordner für die Datenbank, Geheimnisse und den Zwischenspeicher der Nutzung; leer bedeutet \
                `~/.local/share/gantry`."]
        data_dir: PathBuf = "~/.local/share/gantry";
        /// Database; empty means a SQLite file in the data directory.
        #[de = "Datenbank; leer bedeutet eine SQLite-Datei im Datenordner."]
        database_url: Option<DatabaseUrl> = "";
        /// Key that secrets in the database are encrypted with, 64 hexadecimal digits; empty: generated once into the
        /// data directory. Several gateways on one Postgres need the same key. Further keys, after a comma, only
        /// decrypt.
        #[de = "Schlüssel, mit dem Geheimnisse in der Datenbank verschlüsselt werden, 64 hexadezimale Ziffern; leer: \
                Er wird einmal im Datenordner erzeugt. Mehrere Gateways an einer Postgres-Datenbank brauchen \
                denselben Schlüssel. Weitere Schlüssel, nach einem Komma, entschlüsseln nur."]
        secrets_key: Option<Secret> = "";
        /// Longest wait, at the gateway's start, for a Postgres that does not answer yet, in seconds.
        #[de = "Längste Wartezeit beim Start des Gateways auf eine Postgres-Datenbank, die noch nicht antwortet, in \
                Sekunden."]
        database_wait_sec: Wait = "60";
        /// Backs the database up before a start of this version changes its schema, into `backups` in the data directory; the
        /// last three such backups are kept. Without the backup the gateway does not start.
        #[de = "Sichert die Datenbank, bevor ein Start dieser Version ihr Schema ändert, nach `backups` im \
                Datenordner; die letzten drei solchen Sicherungen werden behalten. Ohne die Sicherung startet das \
                Gateway nicht."]
        upgrade_backup: bool = "true";
        /// How often the newest backup of this gateway is restored into a scratch file in the data directory and proven. It
        /// is looked for in `backups` in the data directory and in `EXPORT_DIRS`. A drill needs as much room as the
        /// database.
        #[de = "Wie oft die neueste Sicherung dieses Gateways zur Probe in eine Hilfsdatei im Datenordner \
                wiederhergestellt und geprüft wird. Gesucht wird sie in `backups` im Datenordner und in \
                `EXPORT_DIRS`. Eine Probe braucht so viel Platz wie die Datenbank."]
        restore_drill: RestoreDrill = "off";
        /// Days for which single usage rows are kept; 0 means for ever. Sums by hour and day stay for ever.
        #[de = "Tage, für die einzelne Zeilen der Nutzung behalten werden; 0 bedeutet für immer. Summen nach Stunde \
                und Tag bleiben für immer."]
        usage_retention_days: u32 = "90";
        /// Days for which the audit log is kept; 0 means for ever.
        #[de = "Tage, für die das Audit-Protokoll behalten wird; 0 bedeutet für immer."]
        audit_retention_days: u32 = "365";
    }
    "Limits", "Grenzen" limits: Limits {
        /// Requests a minute for each key that has no such limit of its own, and for each user who is signed in; 0
        /// means no limit.
        #[de = "Anfragen pro Minute für jeden Schlüssel ohne eigene solche Grenze und für jeden angemeldeten \
                Benutzer; 0 bedeutet keine Grenze."]
        rate_limit_rpm: u32 = "0";
        /// Tokens a minute for each key that has no such limit of its own, and for each user who is signed in; 0 means
        /// no limit.
        #[de = "Tokens pro Minute für jeden Schlüssel ohne eigene solche Grenze und für jeden angemeldeten Benutzer; \
                0 bedeutet keine Grenze."]
        rate_limit_tpm: u32 = "0";
        /// Requests at the same time for each key that has no such limit of its own, and for each user who is signed
        /// in; 0 means no limit.
        #[de = "Gleichzeitige Anfragen für jeden Schlüssel ohne eigene solche Grenze und für jeden angemeldeten \
                Benutzer; 0 bedeutet keine Grenze."]
        max_concurrent_requests: u32 = "0";
        /// `shadow` counts what limits and budgets would refuse, and refuses nothing.
        #[de = "`shadow` zählt, was Grenzen und Budgets ablehnen würden, und lehnt nichts ab."]
        rate_limit_mode: LimitMode = "enforce";
        /// Redis or Valkey through which several gateways on one database share their limits; empty: each gateway
        /// enforces them by itself.
        #[de = "Redis oder Valkey, worüber mehrere Gateways an einer Datenbank ihre Grenzen teilen; leer: Jedes \
                Gateway setzt sie für sich durch."]
        redis_url: Option<RedisUrl> = "";
        /// Milliseconds that an exchange with Redis may take; after that each gateway goes on with its share of the
        /// limits.
        #[de = "Millisekunden, die ein Austausch mit Redis dauern darf; danach macht jedes Gateway mit seinem Anteil \
                an den Grenzen weiter."]
        redis_timeout_ms: NonZeroU32 = "250";
    }
    "Sign-in", "Anmeldung" sign_in: SignIn {
        /// Secret that signs session cookies; empty: generated once into the data directory. Changing it ends all
        /// sessions.
        #[de = "Geheimnis, das Sitzungs-Cookies signiert; leer: Es wird einmal im Datenordner erzeugt. Eine Änderung \
                beendet alle Sitzungen."]
        session_secret: Option<Secret> = "";
        /// Marks the session cookie `Secure`. Browsers then drop it on a plain-http origin.
        #[de = "Markiert das Sitzungs-Cookie als `Secure`. Browser verwerfen es dann auf einem Origin ohne https."]
        session_cookie_secure: bool = "false";
        /// Seconds for which browsers shall use `https` only for the gateway's name (`Strict-Transport-Security`); 0
        /// does not send the header. Only for a gateway that is always reached through a proxy with TLS.
        #[de = "Sekunden, für die Browser für den Namen des Gateways nur `https` verwenden sollen \
                (`Strict-Transport-Security`); 0 sendet den Header nicht. Nur für ein Gateway, das immer über einen \
                Proxy mit TLS erreicht wird."]
        hsts_max_age_sec: u32 = "0";
        /// Hours after which an unused session ends.
        #[de = "Stunden, nach denen eine unbenutzte Sitzung endet."]
        session_ttl_hours: NonZeroU32 = "8";
        /// Users that an organisation may have.
        #[de = "Benutzer, die eine Organisation haben darf."]
        org_users_max: NonZeroU32 = "1000";
        /// Name of an owner that is created at start when there is none.
        #[de = "Name eines Eigentümers, der beim Start angelegt wird, wenn es keinen gibt."]
        admin_bootstrap_username: Option<String> = "";
        /// Password of that owner, 8 to 256 characters.
        #[de = "Passwort dieses Eigentümers, 8 bis 256 Zeichen."]
        admin_bootstrap_password: Option<BootstrapPassword> = "";
        /// Accepts any API key, or none. For development only.
        #[de = "Nimmt jeden API-Schlüssel an, oder keinen. Nur für die Entwicklung."]
        gateway_dev_allow_all_keys: bool = "false";
        /// Allows the setting above on an address that is not loopback.
        #[de = "Erlaubt die vorige Einstellung auf einer Adresse, die keine Loopback-Adresse ist."]
        gateway_dev_allow_remote: bool = "false";
    }
    "Models and engines", "Modelle und Engines" engines: Engines {
        /// Models base directory, mounted read-only into every engine; empty means `models` in the data directory. A
        /// directory that an owner chose with `PUT /admin/models/base-dir` wins over this one.
        #[de = "Modellordner, der in jede Engine nur lesbar eingehängt wird; leer bedeutet `models` im Datenordner. \
                Ein Ordner, den ein Eigentümer mit `PUT /admin/models/base-dir` gewählt hat, geht diesem vor."]
        models_dir: Option<PathBuf> = "";
        /// Directories below which an owner may choose the models base directory; empty means any that is not the
        /// system's or the gateway's own, not hidden (`.ssh`), and not in the home directory of another user.
        #[de = "Ordner, unter denen ein Eigentümer den Modellordner wählen darf; leer bedeutet jeden, der nicht dem \
                System oder dem Gateway gehört, nicht versteckt ist (`.ssh`) und nicht im Home-Verzeichnis eines \
                anderen Benutzers liegt."]
        models_roots: Paths = "";
        /// Folder in which engines cache what they fetch from the model hub; empty means `hub-cache` in the data
        /// directory.
        #[de = "Ordner, in dem Engines behalten, was sie vom Modell-Hub laden; leer bedeutet `hub-cache` im \
                Datenordner."]
        hub_cache_dir: Option<PathBuf> = "";
        /// Folders that deployment packages are written to and read from, separated by commas; empty means `exports` in
        /// the data directory.
        #[de = "Ordner, in die Deployment-Pakete geschrieben und aus denen sie gelesen werden, durch Kommas \
                getrennt; leer bedeutet `exports` im Datenordner."]
        export_dirs: Paths = "";
        /// File of the secret key that deployment packages are signed with, as `gantry package key --no-password` makes it;
        /// empty: packages are not signed.
        #[de = "Datei des geheimen Schlüssels, mit dem Deployment-Pakete signiert werden, wie `gantry package key \
                --no-password` sie erstellt; leer: Pakete werden nicht signiert."]
        package_signing_key: Option<PathBuf> = "";
        /// Public key that deployment packages must be signed with to be imported or restored from, as `gantry package key`
        /// prints it; empty: packages without a signature are taken as well.
        #[de = "Öffentlicher Schlüssel, mit dem Deployment-Pakete signiert sein müssen, um importiert oder zur \
                Wiederherstellung verwendet zu werden, wie `gantry package key` ihn ausgibt; leer: Auch Pakete ohne \
                Signatur werden angenommen."]
        package_trusted_key: Option<String> = "";
        /// Address of the model hub, as in `https://hub.example.org`; `http://` is for a mirror in your own network,
        /// since tokens then travel unencrypted. Empty means the public hub, `https://huggingface.co`, which is also
        /// the engines' default. With `OFFLINE_MODE` no hub is asked.
        #[de = "Adresse des Modell-Hubs, wie `https://hub.example.org`; `http://` ist für einen Spiegel in Ihrem \
                eigenen Netzwerk, denn Tokens werden dann unverschlüsselt übertragen. Leer bedeutet den öffentlichen \
                Hub, `https://huggingface.co`, der auch die Vorgabe der Engines ist. Mit `OFFLINE_MODE` wird kein Hub \
                gefragt."]
        hub_endpoint: Option<String> = "";
        /// Image of the primary engine, vLLM.
        #[de = "Image der ersten Engine, vLLM."]
        primary_engine_image: ImageName = "vllm/vllm-openai:v0.32.0";
        /// Image of the secondary engine, llama.cpp.
        #[de = "Image der zweiten Engine, llama.cpp."]
        secondary_engine_image: ImageName = "ghcr.io/ggml-org/llama.cpp:server-cuda-b11434";
        /// Images (without tag) that models may name in `engine_image`, besides the two above; a trailing `*` matches
        /// any end. The list is checked when the field is sent, and again at each start.
        #[de = "Images (ohne Tag), die Modelle in `engine_image` nennen dürfen, außer den beiden vorigen; ein `*` am \
                Ende steht für jedes Ende. Die Liste wird geprüft, wenn das Feld gesendet wird, und bei jedem Start \
                erneut."]
        engine_image_allowlist: ImagePatterns = "";
        /// The gateway never pulls images.
        #[de = "Das Gateway lädt nie Images."]
        offline_mode: bool = "false";
        /// The gateway behaves as in offline mode when the image's registry can't be reached.
        #[de = "Das Gateway verhält sich wie im Offline-Modus, wenn die Registry des Images nicht erreichbar ist."]
        offline_mode_auto_detect: bool = "true";
        /// The gateway uses only images that are there already.
        #[de = "Das Gateway verwendet nur Images, die schon vorhanden sind."]
        require_image_precache: bool = "false";
        /// Longest time for pulling an image, in seconds.
        #[de = "Längste Zeit für das Laden eines Images, in Sekunden."]
        image_pull_timeout: Duration = "1800";
        /// Longest time that requests for a model which is being applied wait for its new engine, in seconds; with 0
        /// they fail at once.
        #[de = "Längste Zeit, die Anfragen an ein Modell, dessen Änderungen gerade angewendet werden, auf seine neue \
                Engine warten, in Sekunden; mit 0 schlagen sie sofort fehl."]
        apply_wait_sec: Wait = "300";
        /// Key with which the gateway calls engines; empty: generated once into the data directory.
        #[de = "Schlüssel, mit dem das Gateway Engines aufruft; leer: Er wird einmal im Datenordner erzeugt."]
        internal_engine_api_key: Option<Secret> = "";
        /// What runs the engines: Docker containers, or processes of this machine. `auto`: Docker if it answers when
        /// the gateway starts or if `CONTAINER_HOST` is set, else processes.
        #[de = "Was die Engines ausführt: Docker-Container oder Prozesse dieser Maschine. `auto`: Docker, wenn es \
                beim Start des Gateways antwortet oder wenn `CONTAINER_HOST` gesetzt ist, sonst Prozesse."]
        container_runtime: ContainerRuntime = "auto";
        /// Numeric user and group that engines run as in their containers; empty: those of the gateway, so that models
        /// and hub cache need to be readable for the gateway only. `0:0` is for an image that works for root only.
        #[de = "Benutzer und Gruppe als Zahlen, als die Engines in ihren Containern laufen; leer: die des Gateways, \
                sodass Modelle und Hub-Cache nur für das Gateway lesbar sein müssen. `0:0` ist für ein Image, das nur \
                als root läuft."]
        engine_container_user: Option<UserIds> = "";
        /// Private addresses of the engines' container networks. Each network takes the first 64 that neither a route
        /// of this machine nor another network uses; a gateway has up to two networks.
        #[de = "Private Adressen der Container-Netzwerke der Engines. Jedes Netzwerk nimmt die ersten 64, die weder \
                eine Route dieser Maschine noch ein anderes Netzwerk verwendet; ein Gateway hat bis zu zwei \
                Netzwerke."]
        engine_networks: SubnetRange = "10.189.0.0/16";
        /// Program that runs as vLLM where engines are processes; empty: `vllm serve` from `PATH`. The simulator runs
        /// only if this is `gantry engine-sim --flavour vllm`.
        #[de = "Programm, das als vLLM läuft, wo Engines Prozesse sind; leer: `vllm serve` aus `PATH`. Der Simulator \
                läuft nur, wenn dies `gantry engine-sim --flavour vllm` ist."]
        primary_engine_command: Option<CommandWords> = "";
        /// Program that runs as llama.cpp's server where engines are processes; empty: `llama-server` from `PATH`. The
        /// simulator runs only if this is `gantry engine-sim --flavour llamacpp`.
        #[de = "Programm, das als Server von llama.cpp läuft, wo Engines Prozesse sind; leer: `llama-server` aus \
                `PATH`. Der Simulator läuft nur, wenn dies `gantry engine-sim --flavour llamacpp` ist."]
        secondary_engine_command: Option<CommandWords> = "";
        /// Address of the container runtime; empty means `DOCKER_HOST` if that is set, else the local socket.
        #[de = "Adresse der Container-Laufzeit; leer bedeutet `DOCKER_HOST`, wenn das gesetzt ist, sonst den lokalen \
                Socket."]
        container_host: Option<String> = "";
        /// File with the GPUs of the container host, as `GET /admin/system/gpus` shows them, for a gateway that can't
        /// see them; empty: the driver is asked.
        #[de = "Datei mit den GPUs des Container-Hosts, wie `GET /admin/system/gpus` sie zeigt, für ein Gateway, das \
                sie nicht sehen kann; leer: Der Treiber wird gefragt."]
        gpu_inventory_file: Option<PathBuf> = "";
        /// Longest time in `loading` of a model on vLLM, in seconds.
        #[de = "Längste Zeit eines Modells auf vLLM im Zustand `loading`, in Sekunden."]
        primary_startup_timeout_sec: Duration = "600";
        /// Longest time in `loading` of a model on llama.cpp, in seconds.
        #[de = "Längste Zeit eines Modells auf llama.cpp im Zustand `loading`, in Sekunden."]
        secondary_startup_timeout_sec: Duration = "300";
        /// Time that an engine gets to stop by itself, in seconds.
        #[de = "Zeit, die eine Engine bekommt, um von selbst zu enden, in Sekunden."]
        stop_timeout_sec: Duration = "10";
        /// Stops all models when the gateway stops.
        #[de = "Stoppt alle Modelle, wenn das Gateway endet."]
        stop_models_on_shutdown: bool = "false";
    }
    "Supervision", "Überwachung" supervision: Supervision {
        /// Interval at which models are compared with their containers, in seconds.
        #[de = "Abstand, in dem Modelle mit ihren Containern verglichen werden, in Sekunden."]
        model_reconcile_sec: Duration = "15";
        /// Interval at which running engines are probed, in seconds.
        #[de = "Abstand, in dem laufende Engines geprüft werden, in Sekunden."]
        health_poll_sec: Duration = "15";
        /// Failures in a row that open an engine's circuit breaker.
        #[de = "Fehler nacheinander, nach denen sich der Breaker einer Engine öffnet."]
        breaker_failures: NonZeroU32 = "5";
        /// Time until an open breaker lets one trial through, in seconds.
        #[de = "Zeit, bis ein offener Breaker einen Versuch durchlässt, in Sekunden."]
        breaker_cooldown_sec: Duration = "30";
        /// Shortest silence, in seconds, after which an engine may count as stalled while requests wait for it. An
        /// engine that is silent for longer than this, and for longer than is usual for it, gets no new requests until
        /// it sends again.
        #[de = "Kürzeste Stille, in Sekunden, nach der eine Engine als festgefahren gelten kann, während Anfragen \
                auf sie warten. Eine Engine, die länger als dies und länger als für sie üblich still ist, bekommt \
                keine neuen Anfragen, bis sie wieder sendet."]
        stall_floor_sec: Duration = "30";
    }
    "Logging", "Protokoll" logging: Logging {
        /// Format of the log on standard error.
        #[de = "Format des Protokolls auf der Standardfehlerausgabe."]
        log_format: LogFormat = "text";
        /// Writes one line for each request, without any of its content. If false, only requests that ended with a 5xx
        /// have a line.
        #[de = "Schreibt eine Zeile für jede Anfrage, ohne etwas von ihrem Inhalt. Ist die Einstellung aus, haben nur \
                Anfragen eine Zeile, die mit 5xx endeten."]
        access_log: bool = "true";
        /// Log levels, as in `info,gantry_control=debug`.
        #[de = "Stufen des Protokolls, wie `info,gantry_control=debug`."]
        rust_log: String = "info";
    }
    "Tracing", "Tracing" tracing: Tracing {
        /// Address of a collector that takes OTLP over HTTP; `/v1/traces` is appended. Without it no spans are made.
        #[de = "Adresse eines Collectors, der OTLP über HTTP annimmt; `/v1/traces` wird angehängt. Ohne sie werden \
                keine Spans erstellt."]
        otel_exporter_otlp_endpoint: Option<OtlpEndpoint> = "";
        /// Headers that are sent to the collector, such as its key.
        #[de = "Header, die an den Collector gesendet werden, etwa sein Schlüssel."]
        otel_exporter_otlp_headers: SecretPairs = "";
        /// Name of the gateway in its spans; `gantry`, unless `OTEL_RESOURCE_ATTRIBUTES` names it.
        #[de = "Name des Gateways in seinen Spans; `gantry`, wenn `OTEL_RESOURCE_ATTRIBUTES` ihn nicht nennt."]
        otel_service_name: Option<String> = "";
        /// Further attributes of the gateway in its spans, as in `deployment.environment.name=prod`.
        #[de = "Weitere Attribute des Gateways in seinen Spans, wie `deployment.environment.name=prod`."]
        otel_resource_attributes: Pairs = "";
        /// Which traces are exported.
        #[de = "Welche Traces exportiert werden."]
        otel_traces_sampler: TracesSampler = "parentbased_always_on";
        /// Share of the traces for `traceidratio`.
        #[de = "Anteil der Traces für `traceidratio`."]
        otel_traces_sampler_arg: Share = "1";
        /// Largest number of spans that wait for the collector; more are dropped.
        #[de = "Größte Anzahl von Spans, die auf den Collector warten; weitere werden verworfen."]
        otel_bsp_max_queue_size: u32 = "8192";
        /// Marks traces that begin at this gateway (W3C Trace Context) as sampled even though no spans are exported.
        #[de = "Markiert Traces, die an diesem Gateway beginnen (W3C Trace Context), als erfasst, auch wenn keine \
                Spans exportiert werden."]
        trace_sampled: bool = "false";
    }
}
