//! `login` and `logout`.

use std::{
    fs::File,
    io::{self, IsTerminal, Read},
    time::Duration,
};

use clap::{Arg, ArgMatches, Command};
use http::header::SET_COOKIE;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use crate::{
    cx::Cx,
    exit::{Failure, Outcome, Refusal},
    gateway_options::connected,
    http::{Answer, Client, Login},
    options::{option, text},
    terminal,
    text::{cell, clean},
};

const PASSWORD: &str = "GANTRY_PASSWORD";
const NEW_PASSWORD: &str = "GANTRY_NEW_PASSWORD";
/// Longest wait for the gateway to end a session that is no longer needed.
const FAREWELL: Duration = Duration::from_secs(5);

pub(crate) fn login_command() -> Command {
    let login = Command::new("login").about("Signs in and keeps the session for the other verbs");
    let login =
        login.arg(Arg::new("USERNAME").help("User name; without it you are asked at the terminal")).arg(
            option(
                "token-file",
                "FILE",
                "Reads a token from this file (`-`: standard input) and keeps it instead of a session",
            )
            .conflicts_with("USERNAME"),
        );
    let login = login.arg(password_file().conflicts_with("token-file"));
    connected(login).after_help(
        "The password comes from GANTRY_PASSWORD, or from standard input if that is not a terminal; otherwise you are \
         asked for it, and it is not shown. The session is kept in ~/.config/gantry/session.json (XDG_CONFIG_HOME), which \
         only you can read, one for each address and context; an earlier session there is ended. Scripts should use a \
         token instead (`gantry tokens create`), in GANTRY_TOKEN or kept with --token-file.",
    )
}

pub(crate) fn logout_command() -> Command {
    connected(Command::new("logout").about("Ends the session, here and on the gateway"))
}

pub(crate) async fn login(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    if let Some(file) = text(matches, "token-file") {
        return keep_token(cx, file).await;
    }
    let username = match text(matches, "USERNAME") {
        Some(name) => name.to_owned(),
        None if io::stdin().is_terminal() => terminal::ask("User name: ")?,
        None => return Err(Failure::Usage("give a user name: `gantry login USERNAME`".to_owned())),
    };
    let password = match password_in_file(matches)? {
        Some(password) => password,
        None => password(PASSWORD, "Password: ")?,
    };
    let body = json!({ "username": username, "password": password.expose_secret() });
    let answer = match cx.client.post("/auth/login", Some(&body)).await {
        Err(Failure::Refused(refusal)) if refusal.status == 401 => return Err(no_owner(cx, refusal).await),
        other => other?,
    };
    let session = Login::Session(session(&answer)?);
    let url = cx.client.gateway.url();
    match cx.sessions.keep(&cx.key, &username, &session) {
        Ok(before) => end_before(cx, before, &session).await,
        Err(failure) => {
            end(cx, session).await;
            return Err(failure);
        }
    }
    let user = &answer.json["user"];
    cx.out.either(&json!({ "url": url, "user": user }), || {
        let (name, role) = (clean(&username), cell(&user["role"]));
        cx.out.line(&format!("signed in to {url} as {name} ({role})"))
    })
}

/// Whether a password is there without one being typed, or can be asked for.
pub(crate) fn has_password() -> bool {
    std::env::var_os(PASSWORD).is_some() || io::stdin().is_terminal()
}

/// Signs in as a user whose session has ended, keeps the new session, and returns a client with it.
pub(crate) async fn again(cx: &Cx, username: &str) -> Outcome<Client> {
    let password = password(PASSWORD, "Password: ")?;
    let body = json!({ "username": username, "password": password.expose_secret() });
    let client = Client::new(cx.client.gateway.clone(), Login::Nobody);
    let session = Login::Session(session(&client.post("/auth/login", Some(&body)).await?)?);
    cx.sessions.keep(&cx.key, username, &session)?;
    Ok(Client::new(cx.client.gateway.clone(), session))
}

/// Returns the failure for a refused sign-in. If there is no owner yet, it says how to make one.
async fn no_owner(cx: &Cx, mut refusal: Box<Refusal>) -> Failure {
    let setup = cx.client.get("/auth/setup").await;
    if setup.is_ok_and(|it| it.json["has_owner"] == false) {
        "this gateway has no owner yet, so nobody can sign in: open the set-up link that it printed when it started, or run \
         `gantry owner create NAME` on its machine"
            .clone_into(&mut refusal.message);
    }
    Failure::Refused(refusal)
}

/// Stores a token after the gateway has accepted it.
async fn keep_token(cx: &Cx, file: &str) -> Outcome<()> {
    let wrong = |error: io::Error| Failure::Usage(format!("can't read {}: {error}", clean(file)));
    let mut token = String::new();
    if file == "-" {
        io::stdin().lock().take(4096).read_to_string(&mut token).map_err(wrong)?;
    } else {
        token = std::fs::read_to_string(file).map_err(wrong)?;
    }
    let token = Login::Bearer(token.trim().to_owned().into());
    let client = Client::new(cx.client.gateway.clone(), token.clone());
    // Any token may make this request, whatever its scopes.
    let user = client.get("/auth/me").await?.json["user"].clone();
    let username = user["username"].as_str().unwrap_or_default();
    let before = cx.sessions.keep(&cx.key, username, &token)?;
    end_before(cx, before, &token).await;
    let url = cx.client.gateway.url();
    cx.out.either(&json!({ "url": url, "user": user }), || {
        cx.out.line(&format!(
            "the token for {url} is kept: it acts as {} ({})",
            clean(username),
            cell(&user["role"])
        ))
    })
}

/// Ends the session that a new login replaced. A token stays valid, because it may be in use elsewhere.
async fn end_before(cx: &Cx, before: Login, now: &Login) {
    let same = match (&before, now) {
        (Login::Session(it), Login::Session(now)) => it.expose_secret() == now.expose_secret(),
        (Login::Session(_), _) => false,
        _ => true,
    };
    if !same {
        end(cx, before).await;
    }
}

/// Returns the session from an answer's cookies.
fn session(answer: &Answer) -> Outcome<SecretString> {
    let cookies = answer.headers.get_all(SET_COOKIE).iter().filter_map(|it| it.to_str().ok());
    let session = cookies.filter_map(|it| it.split(';').next()).find(|it| it.starts_with("svc_session="));
    let session = session.ok_or_else(|| {
        Failure::Failed(
            "the gateway accepted the password but gave no session; is this a Gantry gateway?".to_owned(),
        )
    })?;
    Ok(session.trim().to_owned().into())
}

pub(crate) fn passwd_command() -> Command {
    connected(Command::new("passwd").about("Changes your own password; ends your other sessions")).after_help(
        "The passwords come from GANTRY_PASSWORD and GANTRY_NEW_PASSWORD, or from standard input if that is not a terminal \
         (the old one on the first line, the new one on the second); otherwise you are asked for them. Owners who lost \
         their password use `gantry owner reset-password`, others ask an admin for a link (`gantry users password-link NAME`).",
    )
}

/// Changes the user's own password, and stores the new session.
pub(crate) async fn passwd(cx: &Cx) -> Outcome<()> {
    let me = cx.client.get("/auth/me").await?.json;
    let username = me["user"]["username"].as_str().unwrap_or_default().to_owned();
    let (current, new) = both_passwords()?;
    let body = json!({ "current_password": current.expose_secret(), "new_password": new.expose_secret() });
    let answer = cx.client.post("/auth/password", Some(&body)).await?;
    cx.sessions.keep(&cx.key, &username, &Login::Session(session(&answer)?))?;
    cx.out.either(&answer.json, || {
        let name = clean(&username);
        cx.out.line(&format!("the password of {name} is changed; other sessions are ended"))
    })
}

/// Returns the current password and the new one.
fn both_passwords() -> Outcome<(SecretString, SecretString)> {
    let given = |name| std::env::var_os(name).is_some();
    let old = PASSWORD;
    if given(old) || given(NEW_PASSWORD) || io::stdin().is_terminal() {
        return Ok((password(old, "Current password: ")?, new_password("New password: ")?));
    }
    let text = password(old, "")?;
    match text.expose_secret().split_once('\n') {
        Some((current, new)) if !new.contains('\n') => {
            let line = |it: &str| SecretString::from(it.trim_end_matches('\r').to_owned());
            Ok((line(current), line(new)))
        }
        _ => Err(Failure::Usage(
            "the current password belongs on the first line, the new one on the second".to_owned(),
        )),
    }
}

/// Ends a session that is no longer stored anywhere, if the gateway answers soon. Otherwise the session stays valid
/// until it expires.
async fn end(cx: &Cx, session: Login) {
    let client = Client::new(cx.client.gateway.clone(), session);
    let _ = tokio::time::timeout(FAREWELL, client.post("/auth/logout", None)).await;
}

pub(crate) async fn logout(cx: &Cx) -> Outcome<()> {
    let (url, login) = (cx.client.gateway.url(), &cx.client.login);
    // The stored session is ended even if a token is used instead of it.
    if let Login::Bearer(_) = login
        && let kept @ Login::Session(_) = cx.sessions.drop(&cx.key)?
    {
        end(cx, kept).await;
    }
    let ended = match login {
        Login::Session(_) => cx.client.post("/auth/logout", None).await.map(drop),
        // A token may be in use elsewhere: `gantry tokens revoke` ends it.
        Login::Bearer(_) | Login::Nobody => Ok(()),
    };
    // Done even if the gateway can't be reached: after a logout, no login may stay on this machine.
    cx.sessions.forget(&cx.key, login)?;
    match ended {
        Err(Failure::Refused(it)) if it.status == 401 => {}
        other => other?,
    }
    let text = match login {
        Login::Session(_) => "signed out of",
        Login::Bearer(_) => "removed the token, which stays valid, for",
        Login::Nobody => "there was no session for",
    };
    cx.out.either(&json!({ "url": url, "user": Value::Null }), || cx.out.line(&format!("{text} {url}")))
}

pub(crate) fn password_file() -> Arg {
    option("password-file", "FILE", "Reads the password from this file")
}

/// Returns the password in the file that [`password_file`] names, if it was given.
pub(crate) fn password_in_file(matches: &ArgMatches) -> Outcome<Option<SecretString>> {
    let Some(file) = text(matches, "password-file") else { return Ok(None) };
    let wrong = |error: io::Error| Failure::Usage(format!("can't read {}: {error}", clean(file)));
    let mut password = String::new();
    File::open(file).and_then(|it| it.take(4096).read_to_string(&mut password)).map_err(wrong)?;
    let password = password.trim_end_matches(['\r', '\n']);
    if password.is_empty() {
        return Err(Failure::Usage(format!("{} has no password", clean(file))));
    }
    Ok(Some(password.to_owned().into()))
}

/// Reads a new password like [`password`], with the variable [`NEW_PASSWORD`]. At a terminal it is asked for twice.
pub(crate) fn new_password(prompt: &str) -> Outcome<SecretString> {
    let first = password(NEW_PASSWORD, prompt)?;
    let asked = std::env::var_os(NEW_PASSWORD).is_none() && io::stdin().is_terminal();
    if asked && terminal::ask_password("The same once more: ")?.expose_secret() != first.expose_secret() {
        return Err(Failure::Usage("the two passwords differ: nothing was changed".to_owned()));
    }
    Ok(first)
}

/// Reads a password from the variable, from standard input if that is not a terminal, or asks for it.
pub(crate) fn password(variable: &str, prompt: &str) -> Outcome<SecretString> {
    if let Some(given) = std::env::var_os(variable) {
        let given = given.into_string().map_err(|_| Failure::Usage(format!("{variable} is not UTF-8")))?;
        return Ok(given.into());
    }
    if io::stdin().is_terminal() {
        return terminal::ask_password(prompt);
    }
    let mut text = String::new();
    let wrong =
        |error: io::Error| Failure::Usage(format!("can't read the password from standard input: {error}"));
    io::stdin().lock().take(4096).read_to_string(&mut text).map_err(wrong)?;
    let text = text.trim_end_matches(['\r', '\n']);
    if text.is_empty() {
        let why = format!("no password: set {variable}, pipe it in, or run this at a terminal");
        return Err(Failure::Usage(why));
    }
    Ok(text.to_owned().into())
}
