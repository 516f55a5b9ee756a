//! The command line of `gantry`: every verb with its help, and the code of the verbs that talk to a gateway over its
//! public API. The server crate runs what needs the gateway's own parts (`serve`, the database for `doctor`).

mod apply;
mod audit;
mod chat;
mod complete;
mod context;
mod cx;
mod database;
pub mod doctor;
pub mod egress;
mod events;
mod exit;
mod gateway_options;
mod groups;
mod help;
mod http;
mod images;
mod jobs;
mod keys;
mod limits;
mod local;
mod models;
mod named;
mod options;
mod orgs;
mod output;
mod output_form;
mod own;
mod package;
mod private_file;
mod progress;
mod registry;
mod resolve;
mod session;
mod setting_args;
mod several;
mod sign_in;
mod status;
mod streams;
mod target;
mod terminal;
mod text;
mod times;
mod tokens;
mod top;
mod tree;
mod upstreams;
mod usage;
mod users;
mod watch;

use clap::ArgMatches;

use crate::{
    cx::Cx,
    exit::{Failure, Outcome},
    http::{Client, Login},
    output::Out,
    output_form::Form,
    session::Sessions,
    target::Target,
};
pub use crate::{
    exit::Exit,
    gateway_options::arranged,
    help::page,
    streams::{is_reader_gone, tell},
    text::harmless,
    tree::{command, tip},
};

/// Answers a shell that asks for completions. Returns `false` if no shell asks and the arguments are a normal command.
///
/// # Errors
/// The shell is not known, or standard output can't be written.
pub fn completed(args: &[String]) -> Result<bool, std::io::Error> {
    complete::completed(command, args)
}

/// Verbs that take `-o name`. The others print more than names when they do something, such as the token of a new key.
const SHOWING: [&str; 7] = ["list", "show", "files", "fields", "upstreams", "jobs", "images"];

/// Runs a verb that needs nothing but the API, and returns its exit code. Errors are printed on standard error.
pub fn run(verb: &str, matches: &ArgMatches) -> Exit {
    // The options of a group are on its own verbs.
    let (mut name, mut leaf) = (verb, matches);
    while let Some((sub_name, sub)) = leaf.subcommand() {
        (name, leaf) = (sub_name, sub);
    }
    let form = Form::of(leaf);
    let out = Out::new(form, options::has(leaf, "utc"));
    let done = if form == Form::Name && !SHOWING.contains(&name) {
        let which = if name == verb { verb.to_owned() } else { format!("{verb} {name}") };
        Err(Failure::Usage(format!(
            "`-o name` is for verbs that list or show records, not for `gantry {which}`"
        )))
    } else {
        perform(verb, matches, leaf, out.clone())
    };
    match done {
        Ok(()) => Exit::Done,
        Err(failure) => {
            out.complain(&failure);
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
        Out::new(Form::Text, false).complain(&failure);
        failure.exit()
    })
}

/// Asks at the terminal whether to go on, unless `yes`.
///
/// # Errors
/// The answer was no, or there is no terminal; the reason is printed on standard error.
pub fn confirmed(yes: bool, question: &str) -> Result<(), Exit> {
    terminal::agreed(yes, question).map_err(|failure| {
        Out::new(Form::Text, false).complain(&failure);
        failure.exit()
    })
}

/// Returns the address of the gateway that the command line or the environment names; `None` if they name none.
///
/// # Errors
/// They can't be used; the reason is printed on standard error.
pub fn named_gateway(matches: &ArgMatches) -> Result<Option<String>, Exit> {
    Target::given(matches).map(|it| it.map(|it| it.gateway.url())).map_err(|failure| {
        Out::new(Form::Text, false).complain(&failure);
        failure.exit()
    })
}

fn perform(verb: &str, matches: &ArgMatches, leaf: &ArgMatches, out: Out) -> Outcome<()> {
    match verb {
        "completions" => return local::completions(matches, &out),
        "man" => return local::man(command(), matches, &out),
        "exit-codes" => return out.raw(Exit::list().as_bytes()),
        "context" => return context::run(matches, &out),
        "package" if !package::asks_gateway(matches) => return package::run_here(matches, &out),
        _ => {}
    }
    let target = Target::of(leaf)?;
    let sessions = Sessions::of_user()?;
    let login = if verb == "login" { Login::Nobody } else { target.login(leaf, &sessions)? };
    let key = target.key();
    let client = Client::new(target.gateway, login).telling(&out);
    let cx = Cx { client, out, sessions, key };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Failed(format!("can't start: {error}")))?;
    let done = runtime.block_on(async {
        match verb {
            "login" => sign_in::login(&cx, matches).await,
            "logout" => sign_in::logout(&cx).await,
            "passwd" => sign_in::passwd(&cx).await,
            "apply" => apply::run(&cx, matches).await,
            "audit" => audit::run(&cx, matches).await,
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
            "package" => package::run(&cx, matches).await,
            "jobs" => jobs::run(&cx, matches).await,
            "top" => top::run(&cx, matches).await,
            "openapi" => local::openapi(&cx).await,
            "chat" => chat::run(&cx, matches).await,
            "status" => status::run(&cx, matches).await,
            "version" => status::version(&cx).await,
            other => Err(Failure::Usage(format!("there is no verb `{other}`"))),
        }
    });
    // A read from a terminal can't be cancelled, so the exit does not wait for it.
    runtime.shutdown_background();
    done.map_err(|failure| failure.naming(flags(verb)))
}

/// Returns the fields of the API, each with the flag of this verb that has another name.
fn flags(verb: &str) -> &'static [(&'static str, &'static str)] {
    match verb {
        "audit" | "usage" => &[("from", "--since"), ("to", "--until")],
        "keys" | "tokens" => &[("expires_at", "--expires")],
        _ => &[],
    }
}
