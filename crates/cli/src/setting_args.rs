//! The settings as flags of the command line.

use clap::{Arg, Command};
use gantry_settings::Settings;

/// Returns a flag for each setting, and for each file that may hold a secret, made from the settings table.
pub(crate) fn listed_settings() -> Vec<Arg> {
    let arg = |name: &str, help: String| {
        let flag = name.to_lowercase().replace('_', "-");
        Arg::new(name.to_owned()).long(flag).value_name("VALUE").help(help).help_heading("Settings")
    };
    // Accepted, but hidden in the help, to keep it short.
    let files = Settings::file_names();
    let files = files.iter().map(|name| arg(name, format!("File that holds {name}")).hide(true));
    let all = Settings::about().into_iter().map(|(name, doc, default)| {
        let default = if default.is_empty() { String::new() } else { format!(" [default: {default}]") };
        arg(&name, format!("{}{default}", doc.trim_end_matches('.')))
    });
    all.chain(files).collect()
}

/// Returns the same flags, hidden, for verbs whose help does not list them: there are some eighty.
pub(crate) fn setting_args() -> Vec<Arg> {
    listed_settings().into_iter().map(|it| it.hide(true)).collect()
}

/// Adds the settings to a verb, and says in its help where they are listed.
pub(crate) fn reads_settings(command: Command) -> Command {
    let more = "Takes every setting as a flag: `gantry serve --help` lists them.";
    let help = command.get_after_help().map_or_else(|| more.to_owned(), |it| format!("{it} {more}"));
    command.after_help(help).args(setting_args())
}
