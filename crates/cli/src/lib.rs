//! The command line of `gantry`: every verb with its help, and the code of the verbs that talk to a gateway over its
//! public API. The server crate runs what needs the gateway's own parts (`serve`, the database for `doctor`).

mod args;
mod chat;
mod complete;
mod context;
pub mod doctor;
mod events;
mod exit;
mod help;
mod http;
mod images;
mod keys;
mod limits;
mod local;
mod log;
mod models;
mod named;
mod orgs;
mod out;
mod own;
mod people;
mod private_file;
mod progress;
mod registry;
mod session;
mod several;
mod sign_in;
mod status;
mod target;
mod terminal;
mod times;
mod tokens;
mod top;
mod upstreams;
mod usage;
mod users;

use clap::ArgMatches;
use gantry_domain::{Role, Timestamp};

pub use crate::{
    args::{command, tip},
    complete::completed,
    exit::Exit,
    help::page,
    out::harmless,
};
use crate::{
    exit::{Failure, Outcome},
    http::{Client, Login},
    out::Out,
    session::Sessions,
    target::Target,
};

/// Context of the command that is running.
struct Cx {
    client: Client,
    out: Out,
    sessions: Sessions,
    /// Name under which the login is stored.
    key: String,
}

/// Runs a verb that needs nothing but the API, and returns its exit code. Errors are printed on standard error.
pub fn run(verb: &str, matches: &ArgMatches) -> Exit {
    // The options of a group are on its own verbs.
    let mut leaf = matches;
    while let Some((_, sub)) = leaf.subcommand() {
        leaf = sub;
    }
    let flag = |name| leaf.try_get_one::<bool>(name).ok().flatten().copied().unwrap_or(false);
    let out = Out::new(flag("json"), flag("utc"));
    match perform(verb, matches, leaf, out.clone()) {
        Ok(()) => Exit::Done,
        Err(failure) => {
            complain(&failure, &out);
            failure.exit()
        }
    }
}

/// Reads a new password from `GANTRY_NEW_PASSWORD`, from standard input if that is not a terminal, or asks for it.
///
/// # Errors
/// No password was given; the reason is printed on standard error.
pub fn new_password(prompt: &str) -> Result<secrecy::SecretString, Exit> {
    sign_in::new_password(prompt).map_err(|failure| {
        complain(&failure, &Out::new(false, false));
        failure.exit()
    })
}

/// Returns the address of the gateway that the command line or the environment names; `None` if they name none.
///
/// # Errors
/// They can't be used; the reason is printed on standard error.
pub fn named_gateway(matches: &ArgMatches) -> Result<Option<String>, Exit> {
    Target::given(matches).map(|it| it.map(|it| it.place.url())).map_err(|failure| {
        complain(&failure, &Out::new(false, false));
        failure.exit()
    })
}

fn complain(failure: &Failure, out: &Out) {
    use std::io::Write;
    let text = match failure {
        Failure::Closed | Failure::Told(_) => String::new(),
        failure if out.json => format!("{}\n", harmless(&failure.json().to_string())),
        failure => out::clean_lines(&failure.words()),
    };
    // Ignored: if standard error fails, the failure can't be reported anywhere.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

fn perform(verb: &str, matches: &ArgMatches, leaf: &ArgMatches, out: Out) -> Outcome<()> {
    match verb {
        "completions" => return local::completions(matches, &out),
        "man" => return local::man(matches, &out),
        "exit-codes" => return out.raw(Exit::list().as_bytes()),
        "context" => return context::run(matches, &out),
        _ => {}
    }
    let target = Target::of(leaf)?;
    let sessions = Sessions::of_user()?;
    let login = if verb == "login" { Login::Nobody } else { target.login(leaf, &sessions)? };
    let key = target.key();
    let cx = Cx { client: Client::new(target.place, login), out, sessions, key };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Failed(format!("can't start: {error}")))?;
    let done = runtime.block_on(async {
        match verb {
            "login" => sign_in::login(&cx, matches).await,
            "logout" => sign_in::logout(&cx).await,
            "passwd" => sign_in::passwd(&cx).await,
            "audit" => log::run(&cx, matches).await,
            "registry" => registry::run(&cx, matches).await,
            "upstreams" => upstreams::run(&cx).await,
            "models" => models::run(&cx, matches).await,
            "keys" => keys::run(&cx, matches).await,
            "orgs" => orgs::run(&cx, matches).await,
            "users" => users::run(&cx, matches).await,
            "tokens" => tokens::run(&cx, matches).await,
            "usage" => usage::run(&cx, matches).await,
            "limits" => own::limits(&cx).await,
            "images" => images::run(&cx, matches).await,
            "top" => top::run(&cx, matches).await,
            "openapi" => local::openapi(&cx).await,
            "chat" => chat::run(&cx, matches).await,
            "status" => status::run(&cx).await,
            "version" => status::version(&cx).await,
            other => Err(Failure::Usage(format!("there is no verb `{other}`"))),
        }
    });
    // A read from a terminal can't be cancelled, so the exit does not wait for it.
    runtime.shutdown_background();
    done
}

/// Words that `--role` takes.
fn roles() -> [&'static str; 4] {
    [Role::User, Role::OrgAdmin, Role::Admin, Role::Owner].map(Role::as_str)
}

fn now() -> Timestamp {
    gantry_domain::Clock::default().now()
}
