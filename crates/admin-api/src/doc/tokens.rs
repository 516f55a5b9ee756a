//! `/auth/tokens` and `/admin/tokens`.

use gantry_domain::{ErrorCode, account_token::EVERY_AREA};
use serde_json::{Value, json};

use super::{
    Doc,
    schema::{
        deleted, described, id, id_of, name, named, nullable, object, one_of, request, secret, text, time,
        word,
    },
};
use crate::policy::AREAS;

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    let token = described(secret(word("^gta_[0-9A-Za-z]{46}$")), "Shown in this answer only.");
    vec![("Token", object(view())), ("NewToken", object(view().into_iter().chain([("token", token)])))]
}

fn view() -> Vec<(&'static str, Value)> {
    vec![
        ("id", id()),
        ("name", text()),
        ("prefix", described(text(), "The first characters of the token.")),
        ("scopes", text()),
        ("user_id", id()),
        ("username", text()),
        ("org_id", id()),
        ("created_at", time()),
        ("expires_at", time()),
        ("last_used_at", described(nullable(time()), "Written every 10 seconds.")),
        ("status", one_of(&["active", "expired", "holder_disabled"])),
    ]
}

fn scopes() -> Value {
    let areas = [AREAS, &[EVERY_AREA]].concat();
    let words: Vec<String> =
        areas.iter().flat_map(|area| ["read", "write"].map(|right| format!("{area}:{right}"))).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let one = words.join("|").replace(EVERY_AREA, "[*]");
    let schema = json!({ "anyOf": [
        word(&format!("^[ ,]*({one}) *(,[ ,]*(({one}) *)?)*$")),
        { "type": "array", "minItems": 1, "maxItems": 1000, "items": one_of(&words) },
    ] });
    described(
        schema,
        "What it may do, as `area:read` (`GET`) or `area:write` (every method); `*` is every area. Each operation says which \
         scope it needs.",
    )
}

pub(crate) fn list_own() -> Doc {
    Doc::new("listOwnTokens", "List the own tokens").paged().list(named("Token"))
}

pub(crate) fn create_own() -> Doc {
    let expires = described(
        nullable(time()),
        "In the future, at most 366 days from now; without it, 90 days from now. Every token expires.",
    );
    Doc::new("createOwnToken", "Create a token for the admin API")
        .about(
            "For scripts, so that they need nobody's password: sent as `Authorization: Bearer gta_…` to `/admin` and \
             `/auth`. It acts as its user, with the role that the user has at that moment, where its scopes reach. It can't \
             sign in, change the password, make tokens or call `/v1`. Disabling or deleting its user ends it for good. At \
             most 50 tokens that have not expired. The token is shown in this answer only.",
        )
        .body(request(
            &["name", "scopes"],
            [("name", name(100)), ("scopes", scopes()), ("expires_at", expires)],
        ))
        .created(named("NewToken"))
        .errors(&[ErrorCode::InvalidState])
}

pub(crate) fn revoke_own() -> Doc {
    Doc::new("revokeOwnToken", "Revoke an own token")
        .about("It stops working at once, and is gone from the list.")
        .ok(deleted(id()))
}

pub(crate) fn list_all() -> Doc {
    Doc::new("listTokens", "List tokens of users")
        .paged()
        .query("org_id", id_of("orgs"), "Only those of users of this organisation.")
        .query("user_id", id_of("users"), "Only those of this user.")
        .list(named("Token"))
}

pub(crate) fn revoke() -> Doc {
    Doc::new("revokeToken", "Revoke a token of a user")
        .about(
            "It stops working at once, and is gone from the list. Nobody may revoke that of a user of a higher role than \
             their own.",
        )
        .ok(deleted(id()))
}
