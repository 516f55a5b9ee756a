//! `gantry backup`: everything that a restore needs, in one folder, also beside a gateway that runs.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, ensure};
use clap::ArgMatches;
use gantry_control::deployment::BACKUP_DATABASE;
use gantry_domain::Clock;
use gantry_package::contents::DUMP;
use gantry_settings::Settings;
use gantry_store::{DumpSecrets, Store};

use crate::{account, dump_file, instance_id, sealing, secrets::private_dir};

/// Folder of the secrets, in a backup as in a data directory.
pub(crate) const SECRETS: &str = "secrets";

pub(crate) fn run(
    matches: &ArgMatches,
    load: impl FnOnce(&ArgMatches) -> anyhow::Result<Settings>,
) -> anyhow::Result<ExitCode> {
    let to = matches.get_one::<PathBuf>("DIR").context("say into which folder")?;
    let settings = load(matches)?;
    let data = &settings.data.data_dir;
    ensure!(
        data.try_exists().with_context(|| format!("can't look at DATA_DIR ({})", data.display()))?,
        "there is no DATA_DIR {}: run this with the settings of the gateway, as its user",
        data.display()
    );
    if let Some(account) = account::of(&settings)? {
        account.make_folder(to).with_context(|| format!("can't create the folder {}", to.display()))?;
    }
    account::enter(&settings)?;
    make(to)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut lines = vec![runtime.block_on(database(&settings, to))?];
    lines.extend(copy_files(data, to)?);
    fs::File::open(to).and_then(|it| it.sync_all()).with_context(|| to.display().to_string())?;
    writeln!(io::stdout(), "{}", lines.join("\n")).context("can't write the output")?;
    gantry_cli::tell(&format!(
        "not in it: models, hub cache, exports, the settings (environment, .env{}), and usage in {} that is not in the \
         database yet: stop the gateway first if the last seconds matter\n\
         `gantry restore {}` restores it; with --dry-run it proves that it can\n",
        // Without SECRETS_KEY, the hub tokens and keys in the backup can't be decrypted.
        if settings.data.secrets_key.is_some() {
            "; with SECRETS_KEY, which opens hub tokens and keys"
        } else {
            ""
        },
        data.join("spool").display(),
        to.display()
    ));
    Ok(ExitCode::SUCCESS)
}

/// Copies the database, and returns a line that says where the copy is.
async fn database(settings: &Settings, to: &Path) -> anyhow::Result<String> {
    let url = settings.database();
    if url.expose().starts_with("sqlite://") {
        let copy = to.join(BACKUP_DATABASE);
        let version = gantry_store::back_up(url.expose(), &copy).await.context("can't copy the database")?;
        return Ok(format!("{}: the database, schema version {version}", copy.display()));
    }
    let store = Store::open_to_read(url.expose()).await.context("can't open the database")?;
    let store = store.with_seal(sealing::existing(settings, &settings.data.data_dir)?);
    let (path, now) = (to.join(DUMP), Clock::default().now());
    let dump = async |to: &mut (dyn Write + Send)| store.dump(DumpSecrets::Sealed, now, to).await;
    let proof = dump_file::write(&path, dump).await;
    store.close().await;
    let proof = proof?;
    let rows: u64 = proof.rows.values().sum();
    Ok(format!("{}: the database, read back and compared; rows: {rows}", path.display()))
}

/// Copies the secrets and the files with ids, and returns a line for each.
fn copy_files(data: &Path, to: &Path) -> anyhow::Result<Vec<String>> {
    let mut lines = Vec::new();
    for name in secrets(&data.join(SECRETS))? {
        private_dir(&to.join(SECRETS))?;
        let name = Path::new(SECRETS).join(name);
        copy(&data.join(&name), &to.join(&name))?;
        lines.push(format!("{}: a secret", to.join(&name).display()));
    }
    for name in instance_id::FILES {
        match copy(&data.join(name), &to.join(name)) {
            Err(error) if is_missing(&error) => {}
            done => {
                done?;
                lines.push(format!("{}: which engines belong to this gateway", to.join(name).display()));
            }
        }
    }
    Ok(lines)
}

/// Makes the folder of the backup. A folder with files in it is refused, so that a backup never overwrites them or
/// mixes with them.
fn make(dir: &Path) -> anyhow::Result<()> {
    private_dir(dir)?;
    let mut entries = fs::read_dir(dir).with_context(|| format!("can't read {}", dir.display()))?;
    ensure!(entries.next().is_none(), "{} is not empty: a backup needs a folder of its own", dir.display());
    Ok(())
}

/// Returns the files in the folder of secrets. A gateway whose settings give every secret has none.
pub(crate) fn secrets(dir: &Path) -> anyhow::Result<Vec<std::ffi::OsString>> {
    let said = || format!("can't read {}", dir.display());
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(said)?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.with_context(said)?;
        // A `.part` file was left half-written by a crash and is no secret.
        let is_part = entry.path().extension().is_some_and(|it| it == "part");
        if entry.file_type().with_context(said)?.is_file() && !is_part {
            names.push(entry.file_name());
        }
    }
    names.sort();
    Ok(names)
}

pub(crate) fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let bytes = fs::read(from).with_context(|| format!("can't read {}", from.display()))?;
    let said = || format!("can't write {}", to.display());
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to).with_context(said)?;
    file.write_all(&bytes).and_then(|()| file.sync_all()).with_context(said)
}

fn is_missing(error: &anyhow::Error) -> bool {
    error.root_cause().downcast_ref::<io::Error>().is_some_and(|it| it.kind() == io::ErrorKind::NotFound)
}
