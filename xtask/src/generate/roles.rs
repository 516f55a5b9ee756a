//! Generates `docs/roles.md`, which says who may call what, from the route table.

use std::{collections::BTreeMap, fmt::Write};

use gantry_admin_api::{
    policy::{Access, area, right_of},
    routes::{Route, routes},
};
use gantry_domain::Role;

const INTRO: &str = "You want to give people and scripts the rights that they need: `gantry users set NAME --role ROLE` gives a role, \
[a token](#tokens-for-scripts) is for a script, and [the tables](#requests) say who may call what.\n\n\
Every user has one role. Each role has all rights of the roles before it in this list.\n\n\
| Role | For | Sees |\n|---|---|---|\n\
| `user` | people who call models | what belongs to them |\n\
| `org_admin` | people who manage the users of one organisation | their organisation |\n\
| `admin` | people who run models for everybody | everything |\n\
| `owner` | people who may decide what runs on the host (images, extra arguments, base directory) | everything |\n\n\
Nobody can give a role above their own, or change a user with a higher role, or a key or a token of such a user. Objects that you may not see answer 404; actions that you may not perform answer 403. Some fields of a model can be set by owners only: [model fields](model-fields.md). The `scopes` and `models` of an API key, \
and those of its user, say what the key may call under `/v1`.\n\n\
**Limits of a user** (`gantry users set NAME --rpm 60 --model qwen`, or `PATCH /admin/users/{id}`: the fields of [limits](limits.md), and `models`) bind all keys and sessions of \
the user together, also the keys that the user makes. An org admin sets them for users with the role `user`, admins and owners \
for everybody they may change.\n\n\
**Invitations and forgotten passwords**: who may set a user's password may also make a one-time link with which the user \
sets it (`gantry users create NAME --invite`, `gantry users password-link NAME`, or under Users in the UI; \
`POST /admin/users/{id}/password-link`). It works for 72 hours, or for `hours`, at most 168, and signs the user in. A user has \
one link at a time; it ends when the user gets another password, role or organisation, or is disabled. A user made without a \
password can't sign in before.\n\n\
**Sessions**: everybody sees under Profile where they are signed in, and can end one session or all others \
(`GET /auth/sessions`, `DELETE /auth/sessions/{id}`, `DELETE /auth/sessions`).\n\n\
**Keys**: `gantry keys create NAME` makes a key for yourself, with `--user` for that user, and with `--org` for the organisation: \
its usage counts for no user. Over HTTP these are `POST /auth/keys`, and `POST /admin/keys` with and without `user_id`.\n\n\
## Tokens for scripts\n\n\
`gantry tokens create ci --scopes models:read,keys:write` prints a token, this once. Over HTTP: sign in and send `POST /auth/tokens {\"name\": \"ci\", \"scopes\": \"models:read,keys:write\"}`: the answer shows the `token`, \
this once. Send it as `Authorization: Bearer gta_…`. It has the role that its user has at the time of each request, limited to its scopes; the audit log says which token acted (`via_token`). A scope is `area:read` (`GET`) or `area:write` (every method); `*` stands for all areas. \
A token expires after 90 days, or at `expires_at`, at most 366 days from now. It can't sign in, change the password, make tokens or call `/v1`. \
Disabling or deleting its user, or disabling the organisation, ends it for good. A new password does not end it: revoke your own tokens with \
`DELETE /auth/tokens/{id}`; administrators revoke those of others with `DELETE /admin/tokens/{id}`. The scope `people:write` lets a \
script set the passwords of others (not of its own user): give it to nobody to whom you would not give the account. \
An administrator's token with `*:write` may do everything that the administrator may, except for the requests below that \
need a session (`none: sign in`).\n";

pub(super) fn page() -> String {
    let mut out = super::head("Roles and rights", INTRO);
    let mut by_area: BTreeMap<&str, Vec<Route>> = BTreeMap::new();
    let mut public = Vec::new();
    for route in routes() {
        match route.policy.access {
            Access::Public => public.push(route),
            _ => by_area.entry(area(route.path).unwrap_or("chat page")).or_default().push(route),
        }
    }
    out.push_str("\n## Requests\n\nWithout signing in:\n\n");
    for route in public {
        let _ = writeln!(out, "- `{} {}`: {}", route.method, shown(route.path), route.summary());
    }
    for (area, routes) in by_area {
        let _ = write!(
            out,
            "\n### {area}\n\n| Request | | user | org_admin | admin | owner | Scope of a token |\n\
             |---|---|---|---|---|---|---|\n"
        );
        for route in routes {
            let _ = writeln!(out, "{}", row(&route));
        }
    }
    out
}

fn row(route: &Route) -> String {
    let least = route.policy.access.role().unwrap_or(Role::User);
    let marks: Vec<&str> = Role::ALL.into_iter().map(|it| if it >= least { "✔" } else { "" }).collect();
    let scope = match (route.policy.access, area(route.path)) {
        (Access::AtLeast(_), _) if route.path == "/auth/me" => "any".to_owned(),
        (Access::AtLeast(_), Some(area)) => format!("`{area}:{}`", right_of(&route.method).as_str()),
        _ => "none: sign in".to_owned(),
    };
    format!(
        "| `{} {}` | {} | {} | {scope} |",
        route.method,
        shown(route.path),
        route.summary(),
        marks.join(" | ")
    )
}

/// Returns the path as the `OpenAPI` document writes it.
fn shown(path: &str) -> String {
    path.replace("{*served_name}", "{served_name}").replace("{*name_constraints}", "{model_name}/constraints")
}
