//! The groups of verbs in the help of the program.

use std::fmt::Write;

use clap::Command;

/// Headings, and the verbs below each.
pub(crate) const GROUPS: [(&str, &[&str]); 3] = [
    (
        "Models and what is asked of them",
        &[
            "models",
            "apply",
            "chat",
            "status",
            "top",
            "usage",
            "limits",
            "upstreams",
            "registry",
            "images",
            "jobs",
            "package",
        ],
    ),
    ("People and access", &["login", "logout", "passwd", "context", "users", "orgs", "keys", "tokens"]),
    (
        "The gateway itself, on its machine",
        &[
            "serve",
            "doctor",
            "settings",
            "egress",
            "owner",
            "secrets",
            "supervisor",
            "audit",
            "backup",
            "restore",
            "upgrade",
            "db",
        ],
    ),
];
/// Verbs that are only named.
pub(crate) const OTHERS: [&str; 7] =
    ["completions", "engine-sim", "exit-codes", "help", "man", "openapi", "version"];

/// Replaces the one long list of verbs in the help of the program.
pub(crate) fn grouped(command: Command) -> Command {
    const WIDTH: usize = 11;
    let mut text = String::new();
    for (heading, verbs) in GROUPS {
        // Writing to a String can't fail.
        let _ = writeln!(text, "{heading}:");
        for verb in verbs {
            let about = command.find_subcommand(verb).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {verb:<WIDTH$} {about}");
        }
        text.push('\n');
    }
    let _ = writeln!(text, "Others: {}", OTHERS.join(", "));
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{text}\nOptions:\n{{options}}{{after-help}}"
    ))
}
