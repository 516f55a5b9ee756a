//! `/auth`, `/admin/bootstrap-owner` and `/readyz`.

use gantry_domain::{ErrorCode, limit::Limits, runtime};
use serde_json::Value;

use super::{
    Doc,
    schema::{
        constant, count, described, done, flag, id, list, name, named, nullable, object, one_of, request,
        secret, text, text_of,
    },
};

const ROLES: &[&str] = &["user", "org_admin", "admin", "owner"];

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        ("Role", one_of(ROLES)),
        ("Standing", standing()),
        ("Me", object([("id", id()), ("username", text()), ("role", named("Role")), ("org_id", id())])),
    ]
}

/// What is left of each limit.
fn standing() -> Value {
    let used = object([
        ("limit", count()),
        ("used", count()),
        ("remaining", count()),
        (
            "reset_sec",
            described(
                nullable(count()),
                "Until nothing of it is used; `null` for what runs at the same time.",
            ),
        ),
    ]);
    object(Limits::default().fields_mut().map(|(name, _, _)| (name, nullable(used.clone()))))
}

pub(crate) fn limits() -> Doc {
    let key = object([
        ("id", id()),
        ("name", text()),
        ("prefix", text()),
        ("limit_mode", named("LimitMode")),
        ("limits", named("Standing")),
    ]);
    Doc::new("getOwnLimits", "Own limits")
        .about(
            "What is allowed, used and left, of the keys that one can use now, of oneself, and of one's organisation; `null` \
             is without limit. A request must fit into all of them. `user` binds all sessions together, and the keys too as \
             far as an administrator limited the user. As this gateway knows it: rates of others come in within a second or so.",
        )
        .ok(object([("user", named("Standing")), ("org", named("Standing")), ("keys", list(key))]))
}

pub(crate) fn models() -> Doc {
    let states = ["stopped", "starting", "loading", "running", "stopping", "failed"];
    Doc::new("listOwnModels", "Models that one may call")
        .about("By served name; those that do not run just now, too. A key may be for fewer of them.")
        .paged()
        .list(object([
            ("served_name", text()),
            ("task", named("Task")),
            ("engine_type", described(nullable(one_of(&["vllm", "llamacpp"])), "`null`: it runs elsewhere.")),
            ("state", described(nullable(one_of(&states)), "`null`: it runs elsewhere.")),
            ("callable", described(flag(), "Requests are served now.")),
        ]))
}

/// What `password::acceptable` takes.
pub(super) fn new_password() -> Value {
    secret(text_of(8, 256))
}

pub(crate) fn ready() -> Doc {
    let body = |status: &[&str]| {
        let checks = ["database", "container_runtime", "supervision", "catalog", "usage_spool"];
        let checks = object(checks.map(|it| (it, text())));
        object([("status", one_of(status)), ("runtime", one_of(&runtime::NAMES)), ("checks", checks)])
    };
    // This answer comes from the data plane, which asks nobody any more.
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
            "Once. It needs the set-up token that the gateway printed at start. Only a program of the gateway's own user \
             or of root on the same machine does without: it must call a loopback address or `localhost` directly. The \
             machine's command line has `gantry owner create`.",
        )
        .body(request(
            &["username", "password", "org_name"],
            [
                ("username", name(64)),
                ("password", new_password()),
                ("org_name", name(100)),
                ("setup_token", nullable(secret(text()))),
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

pub(crate) fn setup() -> Doc {
    Doc::new("getSetup", "Is there an owner?")
        .about(
            "Without an owner nobody can sign in. `needs_setup_token` says whether you need the set-up token to make the first \
             one; it is false once there is an owner.",
        )
        .ok(object([("has_owner", flag()), ("needs_setup_token", flag())]))
}

pub(crate) fn login() -> Doc {
    Doc::new("signIn", "Sign in")
        .about(
            "Sets the session cookie. A user has at most 50 sessions, and the users of an organisation at most 5000 together: \
             one more ends the one that was unused longest. A user can sign in 100 times at once, and then once in 6 s. \
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
