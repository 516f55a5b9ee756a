//! The route table: every path with its methods, who may call it, how large its body may be, its handler, and its
//! documentation. A route can't be added without a policy or a documentation: [`Route`] has no constructor that leaves
//! them out.

use std::{
    collections::{HashMap, HashSet},
    sync::LazyLock,
};

use axum::{
    handler::Handler,
    http::Method,
    routing::{MethodFilter, MethodRouter, on},
};
use gantry_domain::Role;

use crate::{
    App, audit, auth, bootstrap,
    chat::{self, answering},
    deployment::{self, contents, export, import, import_package, manifests, restore},
    doc::Doc,
    engines, events, health, keys,
    models::{self, base_dir, command, dry_run, folders, hub_config, registry, watch},
    operation::{Operation, Signature},
    orgs, pages, playground,
    policy::{Access, BodyLimit, Policy},
    system, tokens, upstreams, usage, users,
};

/// One row of the table.
pub struct Route {
    pub method: Method,
    pub path: &'static str,
    pub policy: Policy,
    operation: Operation,
    /// Adds to the operation what its handler's types say.
    doc: fn(Operation) -> Doc,
    pub(crate) handler: MethodRouter<App>,
}

impl Route {
    /// Returns what the operation does, in one line for people.
    pub fn summary(&self) -> &'static str {
        self.operation.summary()
    }

    /// Returns what `/openapi.json` says about it.
    pub(crate) fn doc(&self) -> Doc {
        (self.doc)(self.operation)
    }
}

const PUBLIC: Access = Access::Public;
const ANYONE: Access = Access::AtLeast(Role::User);
const IN_PERSON: Access = Access::InPerson(Role::User);
const ORG_ADMIN: Access = Access::AtLeast(Role::OrgAdmin);
const ADMIN: Access = Access::AtLeast(Role::Admin);
const OWNER: Access = Access::AtLeast(Role::Owner);

fn route<H, T, S>(
    method: MethodFilter,
    path: &'static str,
    access: Access,
    body: BodyLimit,
    handler: H,
    operation: Operation,
) -> Route
where
    H: Handler<T, App> + Signature<S>,
    T: 'static,
{
    let name = match method {
        MethodFilter::POST => Method::POST,
        MethodFilter::PATCH => Method::PATCH,
        MethodFilter::PUT => Method::PUT,
        MethodFilter::DELETE => Method::DELETE,
        _ => Method::GET,
    };
    Route {
        method: name,
        path,
        policy: Policy { access, body },
        operation,
        doc: Operation::doc::<H, S>,
        handler: on(method, handler),
    }
}

/// Every route of the admin API.
#[expect(clippy::too_many_lines, reason = "a table")]
pub fn routes() -> Vec<Route> {
    const GET: MethodFilter = MethodFilter::GET;
    const POST: MethodFilter = MethodFilter::POST;
    const PUT: MethodFilter = MethodFilter::PUT;
    const PATCH: MethodFilter = MethodFilter::PATCH;
    const DELETE: MethodFilter = MethodFilter::DELETE;
    const NONE: BodyLimit = BodyLimit::NONE;
    const SIGN_IN: BodyLimit = BodyLimit::SIGN_IN;
    const BODY: BodyLimit = BodyLimit::ADMIN;
    vec![
        route(GET, "/readyz", PUBLIC, NONE, health::ready, health::READY),
        route(POST, "/admin/bootstrap-owner", PUBLIC, SIGN_IN, bootstrap::bootstrap, bootstrap::BOOTSTRAP),
        route(GET, "/auth/setup", PUBLIC, NONE, bootstrap::setup, bootstrap::SETUP),
        route(POST, "/auth/login", PUBLIC, SIGN_IN, auth::login::login, auth::login::LOGIN),
        route(POST, "/auth/logout", IN_PERSON, NONE, auth::logout, auth::LOGOUT),
        route(GET, "/auth/me", ANYONE, NONE, auth::me, auth::ME),
        route(POST, "/auth/password", IN_PERSON, SIGN_IN, auth::password::change, auth::password::CHANGE),
        route(
            POST,
            "/auth/password-link",
            PUBLIC,
            SIGN_IN,
            auth::password_link::redeem,
            auth::password_link::USE,
        ),
        route(GET, "/auth/keys", ANYONE, NONE, auth::keys::list, auth::keys::LIST),
        route(POST, "/auth/keys", ANYONE, BODY, auth::keys::create, auth::keys::CREATE),
        route(DELETE, "/auth/keys/{id}", ANYONE, NONE, auth::keys::revoke, auth::keys::REVOKE),
        route(GET, "/auth/tokens", ANYONE, NONE, auth::tokens::list, auth::tokens::LIST),
        route(POST, "/auth/tokens", IN_PERSON, BODY, auth::tokens::create, auth::tokens::CREATE),
        route(DELETE, "/auth/tokens/{id}", ANYONE, NONE, auth::tokens::revoke, auth::tokens::REVOKE),
        route(GET, "/auth/sessions", IN_PERSON, NONE, auth::sessions::list, auth::sessions::LIST),
        route(
            DELETE,
            "/auth/sessions",
            IN_PERSON,
            NONE,
            auth::sessions::end_others,
            auth::sessions::END_OTHERS,
        ),
        route(DELETE, "/auth/sessions/{id}", IN_PERSON, NONE, auth::sessions::end, auth::sessions::END),
        route(GET, "/auth/usage", ANYONE, NONE, auth::usage::list, auth::usage::LIST),
        route(GET, "/auth/usage/aggregate", ANYONE, NONE, auth::usage::aggregate, auth::usage::AGGREGATE),
        route(GET, "/auth/usage/series", ANYONE, NONE, auth::usage::series, auth::usage::SERIES),
        route(GET, "/auth/limits", ANYONE, NONE, auth::limits::show, auth::limits::SHOW),
        route(GET, "/auth/models", ANYONE, NONE, auth::models::list, auth::models::LIST),
        route(GET, "/auth/events", ANYONE, NONE, auth::events::events, auth::events::EVENTS),
        route(GET, "/admin/tokens", ORG_ADMIN, NONE, tokens::list, tokens::LIST),
        route(DELETE, "/admin/tokens/{id}", ORG_ADMIN, NONE, tokens::revoke, tokens::REVOKE),
        route(GET, "/admin/keys", ORG_ADMIN, NONE, keys::list, keys::LIST),
        route(POST, "/admin/keys", ORG_ADMIN, BODY, keys::create, keys::CREATE),
        route(PATCH, "/admin/keys/{id}", ORG_ADMIN, BODY, keys::change, keys::CHANGE),
        route(DELETE, "/admin/keys/{id}", ORG_ADMIN, NONE, keys::revoke, keys::REVOKE),
        route(GET, "/admin/orgs", ORG_ADMIN, NONE, orgs::list, orgs::LIST),
        route(POST, "/admin/orgs", ADMIN, BODY, orgs::create, orgs::CREATE),
        route(GET, "/admin/orgs/lookup", ORG_ADMIN, NONE, orgs::lookup, orgs::LOOKUP),
        route(PATCH, "/admin/orgs/{id}", ADMIN, BODY, orgs::change, orgs::CHANGE),
        route(DELETE, "/admin/orgs/{id}", ADMIN, NONE, orgs::delete, orgs::DELETE),
        route(GET, "/admin/users", ORG_ADMIN, NONE, users::list, users::LIST),
        route(POST, "/admin/users", ORG_ADMIN, BODY, users::create, users::CREATE),
        route(GET, "/admin/users/lookup", ORG_ADMIN, NONE, users::lookup, users::LOOKUP),
        route(PATCH, "/admin/users/{id}", ORG_ADMIN, BODY, users::change, users::CHANGE),
        route(DELETE, "/admin/users/{id}", ORG_ADMIN, NONE, users::delete, users::DELETE),
        route(
            POST,
            "/admin/users/{id}/password-link",
            ORG_ADMIN,
            BODY,
            users::password_link::create,
            users::password_link::CREATE,
        ),
        route(GET, "/admin/usage", ORG_ADMIN, NONE, usage::list, usage::LIST),
        route(GET, "/admin/audit", ADMIN, NONE, audit::list, audit::LIST),
        route(GET, "/admin/events", ADMIN, NONE, events::events, events::EVENTS),
        route(
            GET,
            "/admin/usage/aggregate",
            ORG_ADMIN,
            NONE,
            usage::aggregate::aggregate,
            usage::aggregate::AGGREGATE,
        ),
        route(GET, "/admin/usage/series", ORG_ADMIN, NONE, usage::series::series, usage::series::SERIES),
        route(GET, "/admin/usage/latency", ORG_ADMIN, NONE, usage::latency::latency, usage::latency::LATENCY),
        route(GET, "/admin/usage/ttft", ORG_ADMIN, NONE, usage::latency::ttft, usage::latency::TTFT),
        route(GET, "/admin/usage/export", ORG_ADMIN, NONE, usage::export::export, usage::export::EXPORT),
        route(
            GET,
            "/admin/usage/integrity",
            ADMIN,
            NONE,
            usage::integrity::integrity,
            usage::integrity::INTEGRITY,
        ),
        route(GET, "/admin/models", ADMIN, NONE, models::list, models::LIST),
        route(POST, "/admin/models", ADMIN, BODY, models::create, models::CREATE),
        route(GET, "/admin/models/base-dir", ADMIN, NONE, base_dir::show, base_dir::SHOW),
        route(PUT, "/admin/models/base-dir", OWNER, BODY, base_dir::change, base_dir::CHANGE),
        route(GET, "/admin/models/local-folders", ADMIN, NONE, folders::local_folders, folders::LIST),
        route(GET, "/admin/models/inspect-folder", ADMIN, NONE, folders::inspect_folder, folders::INSPECT),
        route(GET, "/admin/models/hub-config", ADMIN, NONE, hub_config::hub_config, hub_config::HUB_CONFIG),
        route(POST, "/admin/models/dry-run", ADMIN, BODY, dry_run::unsaved, dry_run::UNSAVED),
        route(GET, "/admin/models/registry", ADMIN, NONE, registry::list, registry::LIST),
        route(POST, "/admin/models/registry", OWNER, BODY, registry::add, registry::ADD),
        route(
            DELETE,
            "/admin/models/registry",
            OWNER,
            NONE,
            registry::remove_by_query,
            registry::REMOVE_BY_QUERY,
        ),
        route(
            PATCH,
            "/admin/models/registry/{*served_name}",
            OWNER,
            BODY,
            registry::change,
            registry::CHANGE,
        ),
        route(
            DELETE,
            "/admin/models/registry/{*served_name}",
            OWNER,
            NONE,
            registry::remove,
            registry::REMOVE,
        ),
        route(GET, "/admin/models/metrics", ADMIN, NONE, models::metrics::list, models::metrics::LIST),
        route(GET, "/admin/models/{id}", ADMIN, NONE, models::show, models::SHOW),
        route(PATCH, "/admin/models/{id}", ADMIN, BODY, models::change, models::CHANGE),
        route(DELETE, "/admin/models/{id}", ADMIN, NONE, command::delete, command::DELETE),
        route(POST, "/admin/models/{id}/start", ADMIN, NONE, command::start, command::START),
        route(POST, "/admin/models/{id}/stop", ADMIN, NONE, command::stop, command::STOP),
        route(POST, "/admin/models/{id}/apply", ADMIN, NONE, command::apply, command::APPLY),
        route(POST, "/admin/models/{id}/dry-run", ADMIN, BODY, dry_run::saved, dry_run::SAVED),
        route(POST, "/admin/models/{id}/test", ADMIN, NONE, watch::test, watch::TEST),
        route(GET, "/admin/models/{id}/readiness", ADMIN, NONE, watch::readiness, watch::READINESS),
        route(GET, "/admin/models/{id}/logs", ADMIN, NONE, watch::logs, watch::LOGS),
        route(GET, "/admin/models/{id}/events", ADMIN, NONE, watch::events, watch::EVENTS),
        route(
            GET,
            "/admin/system/container-images",
            ADMIN,
            NONE,
            system::images::status,
            system::images::STATUS,
        ),
        route(
            POST,
            "/admin/system/container-images/load",
            OWNER,
            BODY,
            system::images::load,
            system::images::LOAD,
        ),
        route(POST, "/admin/deployment/export", OWNER, BODY, export::export, export::EXPORT),
        route(POST, "/admin/deployment/export-model/{id}", OWNER, BODY, export::model, export::MODEL),
        route(POST, "/admin/deployment/estimate-size", ADMIN, BODY, export::estimate, export::ESTIMATE),
        route(GET, "/admin/deployment/model-manifests", ADMIN, NONE, manifests::list, manifests::LIST),
        route(GET, "/admin/deployment/package-contents", ADMIN, NONE, contents::show, contents::SHOW),
        route(POST, "/admin/deployment/import-model", OWNER, BODY, import::model, import::MODEL),
        route(POST, "/admin/deployment/import", OWNER, BODY, import_package::import, import_package::IMPORT),
        route(POST, "/admin/deployment/check-database-dump", ADMIN, BODY, restore::check, restore::CHECK),
        route(POST, "/admin/deployment/restore-database", OWNER, BODY, restore::restore, restore::RESTORE),
        route(GET, "/admin/deployment/status", ADMIN, NONE, deployment::status, deployment::STATUS),
        route(GET, "/admin/deployment/jobs", ADMIN, NONE, deployment::jobs, deployment::JOBS),
        route(GET, "/admin/deployment/jobs/{id}", ADMIN, NONE, deployment::job, deployment::JOB),
        route(DELETE, "/admin/deployment/jobs/{id}", OWNER, NONE, deployment::cancel, deployment::CANCEL),
        route(GET, "/v1/chat/sessions", IN_PERSON, NONE, chat::list, chat::LIST),
        route(POST, "/v1/chat/sessions", IN_PERSON, BODY, chat::create, chat::CREATE),
        route(DELETE, "/v1/chat/sessions", IN_PERSON, NONE, chat::clear, chat::CLEAR),
        route(GET, "/v1/chat/sessions/{id}", IN_PERSON, NONE, chat::show, chat::SHOW),
        route(PATCH, "/v1/chat/sessions/{id}", IN_PERSON, BODY, chat::change, chat::CHANGE),
        route(DELETE, "/v1/chat/sessions/{id}", IN_PERSON, NONE, chat::delete, chat::DELETE),
        route(
            POST,
            "/v1/chat/sessions/{id}/messages",
            IN_PERSON,
            BodyLimit::CHAT,
            chat::add_message,
            chat::ADD_MESSAGE,
        ),
        route(
            POST,
            "/v1/chat/sessions/{id}/completions",
            IN_PERSON,
            BodyLimit::COMPLETION,
            answering::answer,
            answering::ANSWER,
        ),
        route(
            GET,
            "/v1/chat/sessions/{id}/completions/current",
            IN_PERSON,
            NONE,
            answering::follow,
            answering::FOLLOW,
        ),
        route(
            DELETE,
            "/v1/chat/sessions/{id}/completions/current",
            IN_PERSON,
            NONE,
            answering::stop,
            answering::STOP,
        ),
        route(GET, "/v1/models/running", IN_PERSON, NONE, playground::running, playground::RUNNING),
        // The name may contain slashes, so that it and the last word are one capture.
        route(
            GET,
            "/v1/models/{*name_constraints}",
            IN_PERSON,
            NONE,
            playground::constraints,
            playground::CONSTRAINTS,
        ),
        route(GET, "/admin/engines/spec", ADMIN, NONE, engines::spec, engines::SPEC),
        route(GET, "/openapi.json", PUBLIC, NONE, pages::openapi, pages::OPENAPI),
        route(GET, "/docs", PUBLIC, NONE, pages::docs, pages::DOCS),
        route(GET, "/admin/system/gpus", ADMIN, NONE, system::gpus::gpus, system::gpus::GPUS),
        route(GET, "/admin/system/summary", ADMIN, NONE, system::host::summary, system::host::SUMMARY),
        route(
            GET,
            "/admin/system/throughput",
            ADMIN,
            NONE,
            system::host::throughput,
            system::host::THROUGHPUT,
        ),
        route(GET, "/admin/system/host/summary", ADMIN, NONE, system::host::now, system::host::NOW),
        route(GET, "/admin/system/host/trends", ADMIN, NONE, system::host::trends, system::host::TRENDS),
        route(
            GET,
            "/admin/system/capabilities",
            ADMIN,
            NONE,
            system::host::capabilities,
            system::host::CAPABILITIES,
        ),
        route(GET, "/admin/system/settings", ADMIN, NONE, system::settings::list, system::settings::LIST),
        route(GET, "/admin/upstreams", ADMIN, NONE, upstreams::list, upstreams::LIST),
        route(POST, "/admin/upstreams/refresh-health", ADMIN, BODY, upstreams::refresh, upstreams::REFRESH),
    ]
}

/// The key of a route in the tables below: `GET` routes answer HEAD too.
fn as_routed<'a>(method: &Method, path: &'a str) -> (Method, &'a str) {
    let method = if method == Method::HEAD { &Method::GET } else { method };
    (method.clone(), path)
}

/// Policies by path pattern and method, for the check that runs before every handler.
pub(crate) fn policy(method: &Method, path: &str) -> Option<Policy> {
    static POLICIES: LazyLock<HashMap<(Method, &'static str), Policy>> =
        LazyLock::new(|| routes().into_iter().map(|it| ((it.method, it.path), it.policy)).collect());
    POLICIES.get(&as_routed(method, path) as &(Method, &str)).copied()
}

/// Returns whether the route reads its query string, or ignores it because probes may put anything there. The
/// documentation of a route that reads it has parameters of it.
pub(crate) fn takes_query(method: &Method, path: &str) -> bool {
    static ROUTES: LazyLock<HashSet<(Method, &'static str)>> = LazyLock::new(|| {
        let all = routes().into_iter();
        all.filter(|it| it.path == "/readyz" || it.doc().has_query()).map(|it| (it.method, it.path)).collect()
    });
    ROUTES.contains(&as_routed(method, path) as &(Method, &str))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::policy::{AREAS, area};

    #[test]
    fn scopes_have_the_areas_of_the_routes_that_tokens_may_call() {
        let routes = routes();
        let open = routes.iter().filter(|it| matches!(it.policy.access, Access::AtLeast(_)));
        let areas: BTreeSet<&str> = open.filter_map(|it| area(it.path)).collect();
        assert_eq!(areas, AREAS.iter().copied().collect());
    }
}
