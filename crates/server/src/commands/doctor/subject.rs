//! What `doctor` looks at: the gateway that runs on this machine, with the settings that it reports, else a gateway
//! that would be started here.

use std::{env, path::Path};

use gantry_cli::doctor::{self, Check, Limits};
use gantry_settings::{Entry, Origin, Settings, Sources};
use rustix::process::getuid;

use super::reachable;
use crate::{
    account::{self, Account, Refused},
    door::{self, Answer, Told},
};

/// Advice for a running gateway without a local door: older versions have none.
const SAY_SETTINGS: &str = "give its settings here too, such as `env DATA_DIR=… MODELS_DIR=… gantry doctor`; `make run` has its own \
                            (scripts/run.sh), a service those of its unit (/etc/gantry/gantry.env)";

pub(crate) struct Subject {
    pub(crate) settings: Settings,
    /// The running gateway, if `settings` are its settings.
    pub(crate) running: Option<Box<Told>>,
    /// Whether the paths in the settings lead to the same folders and programs for this program as for the gateway.
    pub(crate) shares_files: bool,
    pub(crate) url: String,
    /// Checks that were made while the settings were found.
    pub(crate) checks: Vec<Check>,
    /// Advice for the case that the running gateway has another data directory than `settings`; `None` if the data
    /// directory is known or the checks already mention it.
    pub(crate) if_other: Option<&'static str>,
    /// Whether root gave up its rights for those of the user of the gateway.
    pub(crate) was_root: bool,
}

impl Subject {
    pub(crate) fn limits(&self) -> Limits {
        self.running.as_ref().map_or_else(Limits::own, |it| it.limits)
    }

    /// Returns whether the gateway has this setting but does not reveal its value.
    pub(crate) fn hides(&self, name: &str) -> bool {
        self.running.as_ref().is_some_and(|it| it.hides(name))
    }

    /// Asks the gateway at `url`, else at the address that the settings of this shell name. Root has the rights of the user of
    /// the gateway from then on, so this must run before the process has other threads.
    ///
    /// # Errors
    /// This is root, and others can change the files that the settings name.
    pub(crate) async fn find(
        settings: Settings,
        entries: &[Entry],
        url: Option<String>,
    ) -> Result<Self, Refused> {
        let is_named = url.is_some();
        let url = url.unwrap_or_else(|| format!("http://{}", reachable(settings.listening.gateway_listen)));
        let n_given = entries.iter().filter(|it| it.origin != Origin::Default).count();
        let own = Check::ok("settings", format!("{} are readable, {n_given} of them given", entries.len()));
        let mut subject = Self {
            settings,
            running: None,
            shares_files: true,
            url,
            checks: vec![own],
            if_other: Some(SAY_SETTINGS),
            was_root: false,
        };
        let answer = if let Some(port) = doctor::local_port(&subject.url) {
            door::ask(port, &subject.settings.data.data_dir).await
        } else {
            let check = elsewhere(&subject.url);
            subject.checks.push(check);
            Answer::Nobody
        };
        // A command that names a gateway does not mean the settings file of this machine's service.
        let of_shell = |it: &&Entry| !is_named || it.origin != Origin::SystemFile;
        let entries: Vec<&Entry> = entries.iter().filter(of_shell).collect();
        match answer {
            Answer::Nobody => {}
            Answer::Refused(uid) => {
                subject.if_other = None;
                subject.checks.push(refused(uid));
            }
            Answer::Told(told, uid) => subject.take(told, uid, &entries)?,
        }
        // The files of a gateway in a container are not those of these names.
        if subject.shares_files
            && let Some(account) = account::of(&subject.settings)?
        {
            subject.become_user(&account)?;
        }
        Ok(subject)
    }

    /// Gives up root's rights.
    fn become_user(&mut self, account: &Account) -> Result<(), Refused> {
        account.enter()?;
        self.was_root = true;
        let found = format!("root works with the rights of {} here, as the gateway does", account.name());
        self.checks.push(Check::ok("user", found));
        Ok(())
    }

    /// Takes over the settings of the running gateway, unless the settings of this shell name another data directory.
    fn take(&mut self, told: Box<Told>, uid: u32, entries: &[&Entry]) -> Result<(), Refused> {
        if is_other(entries, &told.data_dir) {
            let fix = "leave DATA_DIR out to check the running gateway, or stop it to start this one";
            self.checks.push(doctor::not_in_use(&self.settings.data.data_dir, fix));
            self.if_other = None;
            return Ok(());
        }
        // Before anything that the user said is opened, such as a file that a setting names.
        if getuid().is_root() && uid != 0 {
            self.become_user(&Account::of(uid))?;
        }
        let mut texts: Vec<_> =
            told.given.iter().filter_map(|it| Some((it.name.clone(), it.text.clone()?))).collect();
        texts.push(("DATA_DIR".to_owned(), told.data_dir.to_string_lossy().into_owned()));
        let sources = Sources { flags: texts.into_iter().collect(), ..Sources::default() };
        let settings = match Settings::load(&sources) {
            Ok((settings, _)) => settings,
            Err(error) => {
                let found = format!("those of the running gateway (version {}): {error}", told.version);
                let means = "This program does not know its settings: the checks below are about those of this shell.";
                self.checks.push(Check::warn("settings", found, means, "use the program of that version"));
                self.if_other = None;
                return Ok(());
            }
        };
        let (user, pid, n) = (doctor::user_name(uid), told.pid, told.given.len());
        let found = format!("those of the running gateway (process {pid}, user {user}); {n} of them given");
        // In place of those of this shell.
        self.checks.retain(|it| it.name != "settings");
        self.checks.insert(0, Check::ok("settings", found));
        self.checks.extend(not_in_force(entries, &told));
        self.shares_files = told.shares_files();
        if self.shares_files {
            // Relative paths in its settings start at this directory. If this user may not enter it, they can't be
            // resolved.
            let _ = env::set_current_dir(&told.working_dir);
        } else {
            self.checks.push(Check::warn(
                "file_system",
                format!("its DATA_DIR {} is another folder than the one of that name here", told.data_dir.display()),
                "It runs in a container: its folders, its engines' programs and its SQLite database are not checked.",
                "ask inside: docker exec CONTAINER gantry doctor",
            ));
        }
        self.settings = settings;
        self.running = Some(told);
        self.if_other = None;
        Ok(())
    }
}

/// Returns the check of a gateway that is not asked for its settings, since it does not run on this machine.
fn elsewhere(url: &str) -> Check {
    let found = format!("{url} is not an address of this machine");
    let means = "Only readiness is about that gateway: the other checks are about this machine and the settings of this shell.";
    Check::warn("same_gateway", found, means, "run `gantry doctor` on the machine of that gateway")
}

/// Returns the check of a gateway whose settings are not known, since its door belongs to the user `uid`.
fn refused(uid: u32) -> Check {
    let user = doctor::user_name(uid);
    let (found, fix) = if getuid().is_root() && uid != 0 {
        (
            format!(
                "the user {user} holds the gateway's socket, and owns neither its port nor DATA_DIR: not believed"
            ),
            format!(
                "if the gateway runs as {user}, name its DATA_DIR here; otherwise find the program: ss -xlp | grep gantry/"
            ),
        )
    } else {
        (
            format!(
                "the running gateway belongs to the user {user}: only that user and root get its settings"
            ),
            format!("sudo -u {user} gantry doctor"),
        )
    };
    let means = "The checks below are about the settings of this shell, not about that gateway.";
    Check::warn("same_gateway", found, means, &fix)
}

/// Returns whether the settings of this shell name another data directory than `data_dir`.
fn is_other(entries: &[&Entry], data_dir: &Path) -> bool {
    let given = entries.iter().find(|it| it.name == "DATA_DIR" && it.origin != Origin::Default);
    let Some(given) = given.and_then(|it| it.text.as_ref()) else { return false };
    let real = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path)).ok();
    real(Path::new(given)) != real(data_dir)
}

/// Warns of settings of this shell whose values are not those of the running gateway.
fn not_in_force(entries: &[&Entry], told: &Told) -> Option<Check> {
    let in_force = |name: &str| told.given.iter().find(|it| it.name == name).and_then(|it| it.text.as_ref());
    let other = |it: &&&Entry| {
        it.origin != Origin::Default
            && it.name != "DATA_DIR"
            && it.text.is_some()
            && it.text.as_ref() != in_force(&it.name)
    };
    let names: Vec<_> = entries.iter().filter(other).map(|it| it.name.as_str()).collect();
    (!names.is_empty()).then(|| {
        Check::warn(
            "settings_here",
            format!("{} of this shell: the running gateway has another value", names.join(", ")),
            "The checks are about the running gateway.",
            "restart the gateway with these settings if they are intended for it, otherwise remove them here",
        )
    })
}
