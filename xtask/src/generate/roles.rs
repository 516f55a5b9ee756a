//! Generates `docs/roles.md`, which says who may call what, from the route table.

use std::{collections::BTreeMap, fmt::Write};

use gantry_admin_api::{
    policy::{Access, area, right_of},
    routes::{Route, routes},
};
use gantry_domain::Role;

const INTRO: &str = "Every user has one role. Each role has all rights of the roles before it in this list.\n\n\
| Role | For | Sees |\n|---|---|---|\n\
| `user` | somebody who calls models | what is their own |\n\
| `org_admin` | who looks after the people of one organisation | their organisation |\n\
| `admin` | who runs models for everybody | everything |\n\
| `owner` | who may decide what runs on the host (images, extra arguments, base directory) | everything |\n\n\
Nobody gives a role above their own, and nobody changes a user, a key or a token of a user with a higher role. Objects that you may not see answer 404; actions that you may not perform answer 403. Single fields of a model need an owner: [model fields](model-fields.md). What an \
API key may call under `/v1` is said by its `scopes` and `models`, and those of its user.\n\n\
**Limits of a user** (`PATCH /admin/users/{id}`: the fields of [limits](limits.md), and `models`) bind all keys and sessions of \
the user together, also the keys that the user makes. An org admin sets them for users with the role `user`, admins and owners \
for everybody they may change.\n\n\
**Keys**: `POST /auth/keys` makes a key of one's own. `POST /admin/keys` makes one for the user in `user_id`; without \
`user_id` it belongs to the organisation, and its usage counts for no user.\n\n\
## Tokens for scripts\n\n\
`POST /auth/tokens {\"name\": \"ci\", \"scopes\": \"models:read,keys:write\"}`, signed in, answers once with a `token`, to be sent \
as `Authorization: Bearer gta_…`. It has the role that its user has at the time of each request, limited to its scopes; the audit log says which token acted (`via_token`). A scope is `area:read` (`GET`) or `area:write` (every method); `*` stands for all areas. \
A token expires after 90 days, or at `expires_at`, at most 366 days from now. It can't sign in, change the password, make tokens or call `/v1`. \
Disabling or deleting its user, or disabling the organisation, ends it for good; a new password does not: revoke tokens with \
`DELETE /auth/tokens/{id}`, administrators those of others with `DELETE /admin/tokens/{id}`. A scope `people:write` lets a \
script set passwords of others (not of its own user): give it as you would give the account. \
An administrator's `*:write` is all that the administrator may.\n";

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
        let _ = writeln!(out, "- `{} {}`: {}", route.method, shown(route.path), route.doc().summary());
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
        route.doc().summary(),
        marks.join(" | ")
    )
}

/// Returns the path as the `OpenAPI` document writes it.
fn shown(path: &str) -> String {
    path.replace("{*served_name}", "{served_name}").replace("{*name_constraints}", "{model_name}/constraints")
}
