//! `/auth`, `/admin/bootstrap-owner` and `/readyz`.

use gantry_domain::ErrorCode;
use serde_json::Value;

use super::{
    Doc,
    schema::{constant, done, id, name, named, object, one_of, request, secret, text, text_of},
};

const ROLES: &[&str] = &["user", "org_admin", "admin", "owner"];

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        ("Role", one_of(ROLES)),
        ("Me", object([("id", id()), ("username", text()), ("role", named("Role")), ("org_id", id())])),
    ]
}

/// What `password::acceptable` takes.
pub(super) fn new_password() -> Value {
    secret(text_of(8, 256))
}

pub(crate) fn ready() -> Doc {
    let body = |status: &[&str]| {
        let checks = ["database", "container_runtime", "supervision", "catalog", "usage_spool"];
        let checks = object(checks.map(|it| (it, text())));
        object([("status", one_of(status)), ("runtime", one_of(&["docker", "process"])), ("checks", checks)])
    };
    // Said by the data plane, which asks nobody any more.
    let ending = object([("status", constant("shutting_down")), ("checks", object([]))]);
    Doc::new("getReadiness", "Readiness")
        .about(
            "A container runtime that does not answer degrades the gateway, and so does it if no gateway supervises \
             the models, or if keys, sessions or models can't be read from the database (`catalog`: as they were when \
             they were read last, for rows that are damaged: without them); inference goes on. `runtime` says what runs the engines. Each check says `ok` or what is wrong. \
             The runtime is asked at most every 2 s, for all who want to know, and waited for at most 1 s; what is wrong \
             with it in detail is in the log, and in the capabilities of the system.",
        )
        .ok(body(&["ready", "degraded"]))
        .answer(
            503,
            "It can't serve: the database is away, usage can't be recorded, or it is shutting down.",
            serde_json::json!({ "anyOf": [body(&["unavailable", "shutting_down"]), ending] }),
        )
}

pub(crate) fn bootstrap() -> Doc {
    Doc::new("bootstrapOwner", "Create the first owner")
        .about(
            "Once. From another machine, and through a proxy, it also needs the set-up token that the gateway printed \
             at start.",
        )
        .body(request(
            &["username", "password", "org_name"],
            [
                ("username", name(64)),
                ("password", new_password()),
                ("org_name", name(100)),
                ("setup_token", super::schema::nullable(secret(text()))),
            ],
        ))
        .created(object([("status", constant("ok")), ("owner_id", id()), ("org_id", id())]))
        .errors(&[
            ErrorCode::AlreadyBootstrapped,
            ErrorCode::NameConflict,
            ErrorCode::SetupTokenRequired,
            ErrorCode::TooManyAttempts,
        ])
}

pub(crate) fn login() -> Doc {
    Doc::new("signIn", "Sign in")
        .about(
            "Sets the session cookie. A user has at most 50 sessions: one more ends the one that was unused longest. \
             The answer to a wrong name and to a wrong password is the same and takes as long.",
        )
        .body(request(
            &["username", "password"],
            [("username", text()), ("password", secret(text_of(0, 256)))],
        ))
        .ok(object([("status", constant("ok")), ("user", named("Me"))]))
        .errors(&[ErrorCode::InvalidCredentials, ErrorCode::TooManyAttempts])
}

pub(crate) fn logout() -> Doc {
    Doc::new("signOut", "Sign out").about("Ends this session at once, everywhere.").ok(done())
}

pub(crate) fn me() -> Doc {
    Doc::new("getMe", "Who am I").ok(object([("user", named("Me"))]))
}

pub(crate) fn change_password() -> Doc {
    Doc::new("changeOwnPassword", "Change the own password")
        .about("Ends all sessions of the user; the answer sets the cookie of a new one.")
        .body(request(
            &["current_password", "new_password"],
            [("current_password", secret(text_of(0, 256))), ("new_password", new_password())],
        ))
        .ok(done())
        .errors(&[ErrorCode::InvalidCredentials, ErrorCode::TooManyAttempts])
}
