//! `login` and `logout`.

use std::{
    io::{self, IsTerminal, Read},
    time::Duration,
};

use clap::{Arg, ArgMatches, Command};
use http::header::SET_COOKIE;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use crate::{
    Cx,
    args::{connected, text},
    exit::{Failure, Outcome},
    http::{Answer, Client},
    out::{cell, clean},
    terminal,
    users::NEW_PASSWORD,
};

/// How long the gateway may take to end a session that nobody needs any more.
const FAREWELL: Duration = Duration::from_secs(5);

pub(crate) fn login_command() -> Command {
    let login = Command::new("login").about("Signs in and keeps the session for the verbs that follow");
    let login = login.arg(Arg::new("USERNAME").help("Asked for at the terminal if it is left out"));
    connected(login).after_help(
        "The password is asked for without showing it, or taken from GANTRY_PASSWORD, or read from standard input where that is \
         no terminal. The session is kept in ~/.config/gantry/session.json (XDG_CONFIG_HOME), readable for you alone, one for \
         each address. The session \
         that was kept for the address before is ended.",
    )
}

pub(crate) fn logout_command() -> Command {
    connected(Command::new("logout").about("Ends the session, here and on the gateway"))
}

pub(crate) async fn login(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    let username = match text(matches, "USERNAME") {
        Some(name) => name.to_owned(),
        None if io::stdin().is_terminal() => terminal::ask("User name: ")?,
        None => return Err(Failure::Usage("say who signs in: `gantry login USERNAME`".to_owned())),
    };
    let password = password("GANTRY_PASSWORD", "Password: ")?;
    let body = json!({ "username": username, "password": password.expose_secret() });
    let answer = cx.client.post("/auth/login", Some(&body)).await?;
    let session = session(&answer)?;
    let url = cx.client.place.url();
    match cx.sessions.keep(&url, &username, &session) {
        Ok(Some(before)) if before.expose_secret() != session.expose_secret() => end(cx, before).await,
        Ok(_) => {}
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

/// The session that an answer gives.
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
        "Both passwords are asked for without showing them, or taken from GANTRY_PASSWORD and GANTRY_NEW_PASSWORD, or read from \
         standard input where that is no terminal: the old one on the first line, the new one on the second. An owner who lost \
         his uses `gantry owner reset-password`, anybody else asks an admin (`gantry users set NAME --password`).",
    )
}

/// Changes the own password, and keeps the session that comes of it.
pub(crate) async fn passwd(cx: &Cx) -> Outcome<()> {
    let me = cx.client.get("/auth/me").await?.json;
    let username = me["user"]["username"].as_str().unwrap_or_default().to_owned();
    let (current, new) = both_passwords()?;
    let body = json!({ "current_password": current.expose_secret(), "new_password": new.expose_secret() });
    let answer = cx.client.post("/auth/password", Some(&body)).await?;
    let url = cx.client.place.url();
    cx.sessions.keep(&url, &username, &session(&answer)?)?;
    cx.out.either(&answer.json, || {
        let name = clean(&username);
        cx.out.line(&format!("the password of {name} is changed; other sessions are ended"))
    })
}

/// The current password and the new one.
fn both_passwords() -> Outcome<(SecretString, SecretString)> {
    let given = |name| std::env::var_os(name).is_some();
    let (old, new) = ("GANTRY_PASSWORD", NEW_PASSWORD);
    if given(old) || given(new) || io::stdin().is_terminal() {
        return Ok((password(old, "Current password: ")?, password(new, "New password: ")?));
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

/// Ends a session that nobody has any more, if the gateway answers soon; it would hold until it expires.
async fn end(cx: &Cx, session: SecretString) {
    let client = Client::new(cx.client.place.clone(), Some(session));
    let _ = tokio::time::timeout(FAREWELL, client.post("/auth/logout", None)).await;
}

pub(crate) async fn logout(cx: &Cx) -> Outcome<()> {
    let url = cx.client.place.url();
    let ended = match cx.client.cookie {
        None => Ok(()),
        Some(_) => cx.client.post("/auth/logout", None).await.map(drop),
    };
    // Also where the gateway is away: whoever says this wants to have nothing left here.
    if let Some(session) = &cx.client.cookie {
        cx.sessions.forget(&url, session)?;
    }
    match ended {
        Err(Failure::Refused(it)) if it.status == 401 => {}
        other => other?,
    }
    let text = if cx.client.cookie.is_some() { "signed out of" } else { "there was no session for" };
    cx.out.either(&json!({ "url": url, "user": Value::Null }), || cx.out.line(&format!("{text} {url}")))
}

/// From the variable, from standard input where that is no terminal, else asked for.
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
