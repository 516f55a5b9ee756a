//! What the commands of a page, and the code in its text, must agree with: the command line of `gantry`, the targets of
//! `make`, the scripts of npm, the settings, the routes of the API, and the files of the repository.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::Context;
use gantry_domain::endpoint::Endpoint;
use gantry_settings::Settings;
use serde_json::Value;

use super::shell::{self, Command};

/// Folders at the top whose files the pages name by their path.
const FOLDERS: [&str; 11] =
    [".ci", ".config", "bench", "crates", "deploy", "docs", "fuzz", "scripts", "tests", "ui", "xtask"];
/// Where the gateways of the pages listen.
const GATEWAYS: [&str; 4] = ["127.0.0.1:8084", "127.0.0.1:9084", "localhost:8084", "ai.example.org"];
const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];
/// Options with which curl sends a body.
const BODY: [&str; 7] = ["-d", "--data", "--data-binary", "--data-raw", "--json", "-F", "-T"];
/// Verbs that read their arguments themselves.
const OWN_ARGUMENTS: [&str; 2] = ["engine-sim", "engine-shim"];
/// Variables that other programs and libraries read.
const FOREIGN: [&str; 4] = ["DOCKER_HOST", "HTTPS_PROXY", "HTTP_PROXY", "SSL_CERT_FILE"];

/// What is known of the repository.
pub(crate) struct Facts<'a> {
    root: &'a Path,
    /// Targets of the Makefile.
    targets: BTreeSet<String>,
    /// `ui/package.json`.
    npm: Value,
    settings: Vec<String>,
    /// Method and path of each operation.
    routes: Vec<(String, String)>,
}

impl<'a> Facts<'a> {
    pub(crate) fn read(root: &'a Path) -> anyhow::Result<Self> {
        let read =
            |name: &str| fs::read_to_string(root.join(name)).with_context(|| format!("can't read {name}"));
        let is_target =
            |it: &&str| it.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        let makefile = read("Makefile")?;
        let targets = makefile.lines().filter_map(|it| it.split_once(':')).map(|it| it.0).filter(is_target);
        let paths = gantry_admin_api::doc::document()["paths"].as_object().into_iter().flatten();
        let routes = paths.flat_map(|(path, operations)| {
            let methods = METHODS.into_iter().filter(move |it| operations.get(it.to_lowercase()).is_some());
            methods.map(move |it| (it.to_owned(), path.clone()))
        });
        Ok(Self {
            root,
            targets: targets.map(str::to_owned).collect(),
            npm: serde_json::from_str(&read("ui/package.json")?).context("ui/package.json is no JSON")?,
            settings: [Settings::names(), Settings::file_names()].concat(),
            routes: routes.collect(),
        })
    }

    /// Returns what is wrong with a command; `None` if nothing of it can be compared with anything.
    pub(crate) fn of_command(&self, command: &Command) -> Option<Vec<String>> {
        let words = shell::effective(&command.words);
        let mut compared: Vec<Result<(), String>> = Vec::new();
        match program(words) {
            "gantry" => compared.push(parsed(words)),
            "make" => compared.extend(self.targets(words)),
            "npm" => compared.extend(self.script(words)),
            "curl" => compared.extend(self.request(words)),
            _ => {}
        }
        if matches!(program(words), "gantry" | "") {
            compared.extend(command.assignments.iter().filter_map(|it| self.setting(&it.0)));
        }
        compared.extend(command.words.iter().filter_map(|it| self.file(it)));
        if compared.is_empty() { None } else { Some(compared.into_iter().filter_map(Result::err).collect()) }
    }

    /// Returns what is wrong with code in a text. Commands there may be without their arguments.
    pub(crate) fn of_mention(&self, code: &str) -> Vec<String> {
        let mut compared: Vec<Result<(), String>> = Vec::new();
        if let Some((method, rest)) = code.split_once(' ').filter(|it| METHODS.contains(&it.0)) {
            let path = rest.split_whitespace().next().unwrap_or_default();
            if path.starts_with('/') && !path.contains('…') {
                compared.push(self.route(method, path));
            }
        } else if code.contains(' ') {
            for command in shell::commands(code) {
                let words = shell::effective(&command.words);
                match program(words) {
                    "gantry" => compared.push(known(words)),
                    "make" => compared.extend(self.targets(words)),
                    _ => {}
                }
            }
        } else {
            compared.extend(self.file(code));
        }
        compared.into_iter().filter_map(Result::err).collect()
    }

    fn targets(&self, words: &[String]) -> Vec<Result<(), String>> {
        let named = words.iter().skip(1).filter(|it| !it.starts_with('-') && !it.contains(['=', '…']));
        let look = |it: &String| {
            self.targets
                .contains(it)
                .then_some(())
                .ok_or_else(|| format!("the Makefile has no target `{it}`"))
        };
        named.map(look).collect()
    }

    fn script(&self, words: &[String]) -> Option<Result<(), String>> {
        let name = words.get(2).filter(|_| words[1] == "run")?;
        let is_there = self.npm["scripts"].get(name).is_some();
        Some(is_there.then_some(()).ok_or_else(|| format!("ui/package.json has no script `{name}`")))
    }

    /// Names without an underscore are variables of the script itself.
    fn setting(&self, name: &str) -> Option<Result<(), String>> {
        if !name.contains('_') || name.starts_with("GANTRY_") || FOREIGN.contains(&name) {
            return None;
        }
        let is_there = self.settings.iter().any(|it| it == name);
        Some(is_there.then_some(()).ok_or_else(|| format!("there is no setting `{name}`")))
    }

    /// A file of the repository, by its path or as a unit of systemd.
    fn file(&self, word: &str) -> Option<Result<(), String>> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/');
        let is_unit = word.starts_with("gantry")
            && [".service", ".socket", ".timer"].iter().any(|it| word.ends_with(it) && !word.contains('/'));
        let is_path = word.split_once('/').is_some_and(|it| FOLDERS.contains(&it.0));
        if !word.chars().all(plain) || !(is_unit || is_path) {
            return None;
        }
        let path = if is_unit { format!("deploy/systemd/{word}") } else { word.to_owned() };
        let is_there = self.root.join(&path).exists();
        Some(is_there.then_some(()).ok_or_else(|| format!("there is no `{path}`")))
    }

    /// The request of a curl line, if it goes to a gateway.
    fn request(&self, words: &[String]) -> Option<Result<(), String>> {
        let url = words.iter().find(|it| it.contains("://") || it.starts_with('$') && it.contains('/'))?;
        let address = url.split_once("://").map_or(url.as_str(), |it| it.1);
        let (host, path) = address.split_at(address.find('/')?);
        if !GATEWAYS.contains(&host) && (!host.starts_with('$') || host.starts_with("$(")) {
            return None;
        }
        let named =
            words.iter().position(|it| it == "-X" || it == "--request").and_then(|at| words.get(at + 1));
        let sends = words.iter().any(|it| BODY.contains(&it.as_str()));
        let method = named.map_or(if sends { "POST" } else { "GET" }, String::as_str);
        Some(self.route(method, path))
    }

    fn route(&self, method: &str, path: &str) -> Result<(), String> {
        let path = path.split(['?', '#']).next().unwrap_or(path);
        let is_there = match method {
            "GET" if path == "/" || path == "/metrics" || path.starts_with("/ui/") => true,
            "POST" if Endpoint::asked_for(path).is_some() => true,
            _ => self.routes.iter().any(|it| it.0 == method && is_like(&it.1, path)),
        };
        is_there.then_some(()).ok_or_else(|| format!("the API has no `{method} {path}`"))
    }
}

/// Returns the name of the program, without its folder.
fn program(words: &[String]) -> &str {
    let first = words.first().map_or("", String::as_str);
    first.rsplit('/').next().unwrap_or(first)
}

/// Whether a path is one of a route; `{id}` stands for any part, on either side.
fn is_like(route: &str, path: &str) -> bool {
    let (ours, theirs): (Vec<_>, Vec<_>) = (route.split('/').collect(), path.split('/').collect());
    let alike = |(a, b): (&&str, &&str)| a == b || a.starts_with('{') || b.starts_with('{');
    ours.len() == theirs.len() && ours.iter().zip(&theirs).all(alike)
}

/// Whether `gantry` takes a whole command line.
fn parsed(words: &[String]) -> Result<(), String> {
    if words.get(1).is_some_and(|it| OWN_ARGUMENTS.contains(&it.as_str())) {
        return Ok(());
    }
    match gantry_cli::command().try_get_matches_from(gantry_cli::arranged(words.to_vec())) {
        Err(error) if error.exit_code() != 0 => {
            // What follows the first empty line is a tip, and the usage.
            let text = error.to_string();
            let why = text
                .split("\n\n")
                .next()
                .unwrap_or_default()
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ");
            Err(format!("`{}`: {}", words.join(" "), why.trim_start_matches("error: ")))
        }
        _ => Ok(()),
    }
}

/// Whether `gantry` has the verbs and the long options of a command that may be without its arguments.
fn known(words: &[String]) -> Result<(), String> {
    // `help` is in the tree only once that is built.
    if words.get(1).is_some_and(|it| it == "help" || OWN_ARGUMENTS.contains(&it.as_str())) {
        return Ok(());
    }
    let words = gantry_cli::arranged(words.to_vec());
    let tree = gantry_cli::command();
    let (mut place, mut path) = (&tree, vec![&tree]);
    let mut rest = words.iter().skip(1).peekable();
    while let Some(verb) = rest.peek().and_then(|it| place.find_subcommand(it)) {
        place = verb;
        path.push(verb);
        rest.next();
    }
    let is_verb =
        |it: &&&String| it.chars().all(|c| c.is_ascii_lowercase() || c == '-') && !it.starts_with('-');
    if let Some(word) = rest.peek().filter(is_verb)
        && place.has_subcommands()
        && place.get_positionals().next().is_none()
    {
        return Err(format!("`{}`: there is no verb `{word}`", words.join(" ")));
    }
    let has = |long: &str| {
        path.iter().flat_map(|it| it.get_arguments()).any(|it| {
            it.get_long() == Some(long) || it.get_all_aliases().is_some_and(|it| it.contains(&long))
        })
    };
    let longs = rest.filter_map(|it| it.strip_prefix("--")).map(|it| it.split('=').next().unwrap_or(it));
    let plain = |it: &&str| !it.is_empty() && it.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    match longs.filter(plain).find(|it| !matches!(*it, "help" | "version") && !has(it)) {
        Some(long) => Err(format!("`{}`: there is no option `--{long}`", words.join(" "))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is wrong with one line of a script; `None` if nothing of it can be compared.
    fn line(text: &str) -> Option<String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let facts = Facts::read(&root).unwrap();
        let commands = shell::commands(text);
        facts.of_command(commands.last().unwrap()).map(|it| it.join(", "))
    }

    fn mention(code: &str) -> String {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        Facts::read(&root).unwrap().of_mention(code).join(", ")
    }

    #[test]
    fn what_works_passes() {
        for text in [
            "gantry models create --path qwen3-8b-q4_k_m.gguf --served-name qwen --start --wait",
            "sudo gantry owner create ada   # the first owner",
            "docker exec CONTAINER gantry doctor",
            "gantry --url http://127.0.0.1:8084 models list",
            "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 gantry serve",
            "OFFLINE_MODE=true",
            "make run ARGS=--simulator",
            "npm run build",
            "curl -b jar -X POST $B/admin/models/1/start",
            "curl -b jar \"$B/admin/models/1/logs?diagnose=true\"",
            "curl https://ai.example.org/v1/chat/completions -d '{}'",
            "curl http://127.0.0.1:9084/metrics",
            "install -m 644 deploy/systemd/gantry.service /etc/systemd/system/",
            "sudo systemctl restart gantry.service",
        ] {
            assert_eq!(line(text).as_deref(), Some(""), "{text}");
        }
    }

    #[test]
    fn what_does_not_work_is_named() {
        for (text, expected) in [
            ("gantry models create --pth a.gguf", "--pth"),
            ("gantry keys creat laptop", "creat"),
            ("sudo gantry backup", "DIR"),
            ("OFFLINE_MOD=true", "there is no setting `OFFLINE_MOD`"),
            ("make rum", "the Makefile has no target `rum`"),
            ("npm run bild", "has no script `bild`"),
            ("curl $B/admin/models/1/start", "the API has no `GET /admin/models/1/start`"),
            (
                "install -m 644 deploy/systemd/gantry.servise /tmp",
                "there is no `deploy/systemd/gantry.servise`",
            ),
            (
                "sudo systemctl start gantry-backups.timer",
                "there is no `deploy/systemd/gantry-backups.timer`",
            ),
        ] {
            let found = line(text).unwrap();
            assert!(found.contains(expected), "{text}: {found}");
        }
    }

    #[test]
    fn what_is_of_others_is_not_compared() {
        for text in [
            "sudo ufw allow 443/tcp",
            "B=http://127.0.0.1:8084",
            "curl https://example.com/x",
            "llm -m qwen 'Hello'",
        ] {
            assert_eq!(line(text), None, "{text}");
        }
    }

    #[test]
    fn code_in_a_text_may_lack_its_arguments() {
        for code in [
            "gantry models set",
            "sudo gantry doctor --json",
            "gantry engine-sim image",
            "POST /admin/models/{id}/start",
            "GET /admin/usage…",
            "xtask/src/tidy.rs",
            "make check",
        ] {
            assert_eq!(mention(code), "", "{code}");
        }
        for code in [
            "gantry models sett",
            "gantry doctor --jso",
            "POST /admin/models/{id}/stat",
            "xtask/src/tidi.rs",
            "make chek",
        ] {
            assert_ne!(mention(code), "", "{code}");
        }
    }
}
