//! `/admin/keys` and `/auth/keys`.

use gantry_domain::{ErrorCode, key::KeyStatus, limit::Limits};
use gantry_store::KeyColumn;
use serde_json::{Value, json};

use super::{
    Doc,
    schema::{
        count, deleted, described, flag, formatted, id, id_of, line, list, name_or_nothing, named, nullable,
        object, one_of, request, secret, text, text_of, time, whole, word,
    },
};
use crate::{extract::MAX_SEARCH, keys::MAX_OWN_MODELS};

const SCOPES: &[&str] = &["chat", "completions", "embeddings"];
/// Words with commas between, blanks around them ignored.
const SCOPE_WORDS: &str =
    r"^[ ,]*(chat|completions|embeddings) *(,[ ,]*((chat|completions|embeddings) *)?)*$";

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    let budget = nullable(object([
        ("limit", whole(1, i64::MAX)),
        ("used", nullable(described(count(), "`null` where it is not counted: of keys that can't be used."))),
        ("pct", nullable(described(count(), "Of the limit; `null` like `used`."))),
        ("warning", described(flag(), "It is nearly used up.")),
    ]));
    vec![
        ("Key", object(view())),
        ("NewKey", object(view().into_iter().chain([("token", token())]))),
        ("Limits", object(limits(|_| whole(1, i64::MAX)))),
        ("LimitMode", one_of(&["enforce", "shadow"])),
        ("Budgets", object([("day", budget.clone()), ("month", budget)])),
    ]
}

/// Each limit, with the schema that `of` makes of its largest value; `null` is no limit.
fn limits(of: impl Fn(i64) -> Value) -> Vec<(&'static str, Value)> {
    Limits::default().fields_mut().into_iter().map(|(name, max, _)| (name, nullable(of(max)))).collect()
}

/// Limits as answers show them.
pub(super) fn limits_view() -> Vec<(&'static str, Value)> {
    let mut fields = limits(|max| whole(1, max));
    fields.push(("budget", nullable(named("Budgets"))));
    fields
}

/// Limits as requests set them: a field that is absent stays, `null` takes the limit away.
pub(super) fn limits_form() -> Vec<(&'static str, Value)> {
    limits(|max| whole(1, max))
}

fn view() -> Vec<(&'static str, Value)> {
    let mut fields = vec![
        ("id", id()),
        ("name", text()),
        ("prefix", described(text(), "The first characters of the token.")),
        ("scopes", word("^(chat|completions|embeddings)(,(completions|embeddings))*$")),
        ("models", nullable(list(text()))),
        ("org_id", id()),
        ("org_name", text()),
        ("user_id", nullable(id())),
        ("username", nullable(text())),
        ("ip_allowlist", list(text())),
        ("expires_at", nullable(time())),
        ("created_at", time()),
        ("last_used_at", nullable(time())),
        ("revoked_at", nullable(time())),
        ("status", one_of(&KeyStatus::WORDS)),
        ("limit_mode", named("LimitMode")),
        (
            "effective_limits",
            described(named("Limits"), "What is in force, with defaults, the user's and the organisation's."),
        ),
    ];
    fields.extend(limits_view());
    fields
}

fn token() -> Value {
    described(secret(word("^gty_[0-9A-Za-z]{46}$")), "Shown in this answer only.")
}

/// Returns the fields that both forms have.
fn settings(max_models: usize) -> Vec<(&'static str, Value)> {
    let mut fields = changes(max_models);
    if let Some((_, scopes)) = fields.iter_mut().find(|(name, _)| *name == "scopes") {
        *scopes = nullable(scopes.take());
    }
    fields
}

/// Returns the fields for a key that exists; its scopes can be changed, but not taken back.
fn changes(max_models: usize) -> Vec<(&'static str, Value)> {
    let scopes = json!({
        "anyOf": [
            word(SCOPE_WORDS),
            { "type": "array", "minItems": 1, "maxItems": 1000, "items": one_of(SCOPES) },
        ],
        "description": "What it may call; without it a new key may call everything.",
    });
    let addresses = json!({
        "anyOf": [
            formatted("ip-ranges"),
            { "type": "array", "maxItems": 1000, "items": formatted("ip-range") },
            { "type": "null" },
        ],
        "description": "IP addresses and CIDR ranges that it may be used from. `null` or `[]`: from everywhere.",
    });
    let models =
        json!({ "type": ["array", "null"], "minItems": 1, "maxItems": max_models, "items": line(200) });
    let mut fields = vec![
        ("name", nullable(name_or_nothing(100))),
        ("scopes", scopes),
        ("models", described(models, "Served names that it may call; `null` is all.")),
        ("ip_allowlist", addresses),
        ("expires_at", described(nullable(time()), "In the future.")),
        ("limit_mode", nullable(named("LimitMode"))),
    ];
    fields.extend(limits_form());
    fields
}

fn sort(doc: Doc) -> Doc {
    doc.paged()
        .sorted(&KeyColumn::WORDS, "id")
        .query("q", text_of(0, MAX_SEARCH), "Part of the name or of the prefix.")
        .query("status", one_of(&KeyStatus::WORDS), "Only those that are so now.")
}

pub(crate) fn list_own() -> Doc {
    sort(Doc::new("listOwnKeys", "List the own keys")).list(named("Key"))
}

pub(crate) fn create_own() -> Doc {
    Doc::new("createOwnKey", "Create a key for oneself")
        .about(
            "The token is shown in this answer only. At most 100 keys, where revoked ones do not \
             count, and 200 new ones within 24 hours, where they do.",
        )
        .body(request(&[], settings(MAX_OWN_MODELS)))
        .created(named("NewKey"))
        .errors(&[ErrorCode::InvalidState])
}

pub(crate) fn revoke_own() -> Doc {
    Doc::new("revokeOwnKey", "Revoke an own key").about("It stops working at once.").ok(deleted(id()))
}

pub(crate) fn list_all() -> Doc {
    sort(Doc::new("listKeys", "List keys"))
        .query("org_id", id_of("orgs"), "Only those of this organisation.")
        .query("user_id", id_of("users"), "Only those of this user.")
        .list(named("Key"))
}

pub(crate) fn create() -> Doc {
    let holder = [("org_id", nullable(id_of("orgs"))), ("user_id", nullable(id_of("users")))];
    Doc::new("createKey", "Create a key")
        .about(
            "For a user (`user_id`), or for an organisation as a whole (`org_id`). Without both the key belongs to the \
             organisation of whoever makes it, and not to that person: its usage counts for no user (`user_id` of the answer \
             is `null`). Give your own `user_id`, or use `POST /auth/keys`, for a key of your own. Nobody may make one for a \
             user of a higher role than their own. The token is shown in this answer only.",
        )
        .body(request(&[], settings(1000).into_iter().chain(holder)))
        .created(named("NewKey"))
        .errors(&[ErrorCode::InvalidState])
}

pub(crate) fn change() -> Doc {
    Doc::new("changeKey", "Change a key")
        .about(
            "Everything but its token and its holder. A field that is left out stays as it is. A revoked key can't be \
             changed, nor that of a user of a higher role than one's own.",
        )
        .body(request(&[], changes(1000)))
        .ok(named("Key"))
}

pub(crate) fn revoke() -> Doc {
    Doc::new("revokeKey", "Revoke a key")
        .about(
            "It stops working at once and stays in the list. Nobody may revoke that of a user of a higher role than his \
             own.",
        )
        .ok(deleted(id()))
}
