//! `/admin/orgs` and `/admin/users`.

use gantry_domain::ErrorCode;
use gantry_store::{OrgColumn, UserColumn};
use serde_json::{Value, json};

use super::{
    Doc,
    account::new_password,
    keys::{limits_form, limits_view},
    schema::{
        count, deleted, described, flag, id, id_of, line, list, name, named, nullable, object, request, text,
        text_of, time,
    },
};
use crate::extract::MAX_SEARCH;

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        (
            "Organisation",
            object(
                [
                    ("id", id()),
                    ("name", text()),
                    ("enabled", flag()),
                    ("user_count", count()),
                    ("key_count", count()),
                    ("created_at", time()),
                ]
                .into_iter()
                .chain(limits_view()),
            ),
        ),
        (
            "User",
            object(
                [
                    ("id", id()),
                    ("username", text()),
                    ("role", named("Role")),
                    ("org_id", id()),
                    ("org_name", text()),
                    ("enabled", flag()),
                    ("created_at", time()),
                    ("last_login_at", nullable(time())),
                    ("models", nullable(list(text()))),
                ]
                .into_iter()
                .chain(limits_view()),
            ),
        ),
    ]
}

pub(crate) fn list_orgs() -> Doc {
    Doc::new("listOrganisations", "List organisations")
        .paged()
        .sorted(&OrgColumn::WORDS, "id")
        .query("q", text_of(0, MAX_SEARCH), "Part of the name.")
        .list(named("Organisation"))
}

pub(crate) fn lookup_orgs() -> Doc {
    Doc::new("lookUpOrganisations", "Organisations for select inputs")
        .paged()
        .query("q", text_of(0, MAX_SEARCH), "Part of the name.")
        .list(object([("id", id()), ("name", text())]))
}

pub(crate) fn create_org() -> Doc {
    Doc::new("createOrganisation", "Create an organisation")
        .about("Its limits cap those of its keys.")
        .body(request(&["name"], [("name", name(100))].into_iter().chain(limits_form())))
        .created(named("Organisation"))
        .errors(&[ErrorCode::NameConflict])
}

pub(crate) fn change_org() -> Doc {
    Doc::new("changeOrganisation", "Change an organisation")
        .about("Disabling it ends the sessions and keys of all its users at once. Its limits cap those of its keys.")
        .body(request(
            &[],
            [("name", name(100)), ("enabled", flag())].into_iter().chain(limits_form()),
        ))
        .ok(named("Organisation"))
        .errors(&[ErrorCode::NameConflict, ErrorCode::LastOwner])
}

pub(crate) fn delete_org() -> Doc {
    Doc::new("deleteOrganisation", "Delete an organisation")
        .about("With its users, sessions and keys. Its usage stays.")
        .ok(deleted(id()))
        .errors(&[ErrorCode::LastOwner])
}

/// Limits and models of a user, as requests set them.
fn bounds() -> Vec<(&'static str, Value)> {
    let models = json!({ "type": ["array", "null"], "minItems": 1, "maxItems": 1000, "items": line(200) });
    let models = described(models, "Served names that the user's keys and sessions may call; `null` is all.");
    [("models", models)].into_iter().chain(limits_form()).collect()
}

pub(crate) fn list_users() -> Doc {
    Doc::new("listUsers", "List users")
        .paged()
        .sorted(&UserColumn::WORDS, "id")
        .query("q", text_of(0, MAX_SEARCH), "Part of the name.")
        .query("org_id", id_of("orgs"), "Only those of this organisation.")
        .query("role", named("Role"), "Only those with this role.")
        .list(named("User"))
}

pub(crate) fn lookup_users() -> Doc {
    Doc::new("lookUpUsers", "Users for select inputs")
        .paged()
        .query("q", text_of(0, MAX_SEARCH), "Part of the name.")
        .list(object([("id", id()), ("username", text()), ("org_id", id())]))
}

pub(crate) fn create_user() -> Doc {
    Doc::new("createUser", "Create a user")
        .about(
            "Nobody may give a higher role than their own. Without `org_id`, in one's own organisation. An organisation has at \
             most `ORG_USERS_MAX` users (409 `invalid_state`). Limits and models bind all keys and sessions of the user \
             together, those that the user makes too. Keys of the organisation, which count for no user, are bound by the \
             organisation's limits only.",
        )
        .body(request(
            &["username", "password"],
            [
                ("username", name(64)),
                ("password", new_password()),
                ("role", nullable(named("Role"))),
                ("org_id", nullable(id_of("orgs"))),
                ("enabled", nullable(flag())),
            ]
            .into_iter()
            .chain(bounds()),
        ))
        .created(named("User"))
        .errors(&[ErrorCode::NameConflict, ErrorCode::TooManyAttempts])
}

pub(crate) fn change_user() -> Doc {
    Doc::new("changeUser", "Change a user")
        .about(
            "A new password or role, another organisation, or disabling ends the user's sessions at once. Limits and models \
             bind all keys and sessions of the user together; an org admin sets them for users with the role `user`.",
        )
        .body(request(
            &[],
            [
                ("username", name(64)),
                ("password", new_password()),
                ("role", named("Role")),
                ("org_id", id_of("orgs")),
                ("enabled", flag()),
            ]
            .into_iter()
            .chain(bounds()),
        ))
        .ok(named("User"))
        .errors(&[ErrorCode::NameConflict, ErrorCode::LastOwner, ErrorCode::TooManyAttempts])
}

pub(crate) fn delete_user() -> Doc {
    Doc::new("deleteUser", "Delete a user")
        .about("With his sessions and keys. His usage stays.")
        .ok(deleted(id()))
        .errors(&[ErrorCode::LastOwner])
}
