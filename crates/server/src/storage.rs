//! Opens what the gateway keeps: its folders, its secrets, and the database with its first owner.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use gantry_admin_api::{
    Cookies,
    bootstrap::{FirstOwner, create_owner},
    password::Passwords,
};
use gantry_control::base_dir;
use gantry_domain::{
    Clock, ModelsDir,
    audit::{Actor, Origin},
    models_dir::ModelsDirRules,
};
use gantry_settings::{Entry, Settings};
use gantry_store::Store;
use secrecy::SecretString;
use tracing::{info, warn};

use crate::{
    before_upgrade, data_dir,
    database_wait::patiently,
    instance_id, sealing,
    secrets::{self, private_dir},
};

/// What the gateway keeps, and what is made from its secrets.
pub(crate) struct Storage {
    pub(crate) clock: Clock,
    pub(crate) data_dir: PathBuf,
    pub(crate) models_dir: ModelsDir,
    pub(crate) models_dir_rules: ModelsDirRules,
    pub(crate) hub_cache_dir: PathBuf,
    pub(crate) store: Store,
    /// Id of this database; the label of our containers.
    pub(crate) instance: String,
    /// Id of the data directory.
    pub(crate) home: String,
    pub(crate) passwords: Passwords,
    pub(crate) cookies: Cookies,
    pub(crate) internal_key: SecretString,
    /// The settings as people may see them.
    pub(crate) settings: Vec<Entry>,
    _locks: (data_dir::Lock, Option<data_dir::Lock>),
}

impl Storage {
    /// Opens everything. `entries` are the settings as people may see them.
    pub(crate) async fn open(settings: &Settings, entries: &[Entry]) -> anyhow::Result<Self> {
        let clock = Clock::default();
        let data_dir = std::path::absolute(&settings.data.data_dir).context("DATA_DIR can't be resolved")?;
        let lock = data_dir::lock(&data_dir)?;
        if let Some(dir) = settings.engines.models_dir.as_ref().filter(|it| !it.exists()) {
            tracing::warn!(dir = %dir.display(), "MODELS_DIR names a folder that is not there: an empty one is made");
        }
        let configured = folder(&settings.models_dir(), "MODELS_DIR")?;
        if settings.engines.export_dirs.0.is_empty() {
            // Make the default export folder, so that there is a place to put archives of images into.
            for dir in settings.export_dirs() {
                private_dir(&dir)?;
            }
        }
        let hub_cache_dir =
            std::path::absolute(settings.hub_cache_dir()).context("HUB_CACHE_DIR can't be resolved")?;
        let secret = |name, given: &Option<gantry_settings::Secret>| {
            let given = given.as_ref().map(|it| &it.0);
            secrets::load_or_make(&data_dir.join("secrets"), name, given)
        };
        let cookies = Cookies::new(
            secret("session", &settings.sign_in.session_secret)?,
            settings.sign_in.session_cookie_secure,
            Duration::from_hours(u64::from(settings.sign_in.session_ttl_hours.get())),
        );
        let internal_key = secret("engine-key", &settings.engines.internal_engine_api_key)?;
        let (store, database_lock) = database(settings, &data_dir).await?;
        let home = instance_id::of_data_dir(&data_dir)?;
        let instance = instance_id::of_database(&store, &data_dir, &home).await?;
        let internal_key = match &settings.engines.internal_engine_api_key {
            Some(_) => internal_key,
            None => instance_id::engine_key(&store, internal_key).await?,
        };
        let models_dir_rules = ModelsDirRules {
            data_dir: data_dir.canonicalize().context("DATA_DIR can't be resolved")?,
            configured,
            roots: settings.engines.models_roots.0.iter().map(|it| base_dir::real(it)).collect(),
            homes: base_dir::homes(),
        };
        let models_dir = ModelsDir::new(&base_dir::load(&store, &models_dir_rules).await?);
        let passwords = Passwords::default();
        bootstrap(settings, &store, &passwords, &clock).await?;
        Ok(Self {
            clock,
            data_dir,
            models_dir,
            models_dir_rules,
            hub_cache_dir,
            store,
            instance,
            home,
            passwords,
            cookies,
            internal_key,
            settings: entries.to_vec(),
            _locks: (lock, database_lock),
        })
    }
}

/// Opens the database and what is encrypted in it. A file is locked.
async fn database(settings: &Settings, data_dir: &Path) -> anyhow::Result<(Store, Option<data_dir::Lock>)> {
    let database = settings.database();
    let file = database.expose().strip_prefix("sqlite://").map(Path::new);
    // Without a path there is nothing to lock, and the address is refused below.
    let lock = file.filter(|it| !it.as_os_str().is_empty()).map(data_dir::lock_database).transpose()?;
    let seal = sealing::load(settings, data_dir)?;
    before_upgrade::back_up(settings, data_dir).await?;
    let (url, patience) = (database.expose(), settings.data.database_wait_sec.0);
    let store = patiently(url, patience, || Store::open(url)).await;
    let store = match file {
        Some(file) => store.with_context(|| data_dir::describe_database(file)),
        None => store.map_err(anyhow::Error::new),
    };
    let store = store.context("can't open the database")?.with_seal(seal);
    sealing::at_start(&store).await?;
    // What a restore left that was killed takes space, and is of no use.
    if let Err(error) = store.remove_scratch(data_dir).await {
        warn!(
            error = &error as &dyn std::error::Error,
            "what an interrupted restore left could not be removed"
        );
    }
    Ok((store, lock))
}

/// Makes the owner that the settings name, if there is no owner yet.
async fn bootstrap(
    settings: &Settings,
    store: &Store,
    passwords: &Passwords,
    clock: &Clock,
) -> anyhow::Result<()> {
    let (Some(name), Some(password)) =
        (&settings.sign_in.admin_bootstrap_username, &settings.sign_in.admin_bootstrap_password)
    else {
        return Ok(());
    };
    if store.read().await?.any_owner().await? {
        info!(
            "ADMIN_BOOTSTRAP_PASSWORD is not used: there is an owner already; `gantry owner reset-password` sets a lost \
             password"
        );
        return Ok(());
    }
    let first = FirstOwner { username: name, password: &password.0, org_name: "Default" };
    let by = (Actor::Settings, Origin::default());
    let made = create_owner(store, passwords, first, by, clock.now()).await;
    match made {
        Ok(Some(_)) => info!(username = name, "the owner of ADMIN_BOOTSTRAP_USERNAME is made"),
        Ok(None) => {}
        Err(problem) => anyhow::bail!("ADMIN_BOOTSTRAP_USERNAME: {}", problem.0.message),
    }
    Ok(())
}

fn folder(path: &Path, name: &'static str) -> anyhow::Result<PathBuf> {
    std::fs::create_dir_all(path)
        .with_context(|| format!("can't create the folder {} ({name})", path.display()))?;
    path.canonicalize().with_context(|| format!("can't use the folder {} ({name})", path.display()))
}
