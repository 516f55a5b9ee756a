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
    App, audit, auth, bootstrap, chat,
    doc::{self, Doc},
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
    /// What `/openapi.json` says about it.
    doc: Documented,
    pub(crate) handler: MethodRouter<App>,
}

/// Where the documentation of a route comes from.
enum Documented {
    ByHand(fn() -> Doc),
    BySignature(Operation, fn(Operation) -> Doc),
}

impl Route {
    /// Returns what `/openapi.json` says about it.
    pub fn doc(&self) -> Doc {
        match &self.doc {
            Documented::ByHand(doc) => doc(),
            Documented::BySignature(operation, doc) => doc(*operation),
        }
    }
}

const PUBLIC: Access = Access::Public;
const ANYONE: Access = Access::AtLeast(Role::User);
const IN_PERSON: Access = Access::InPerson(Role::User);
const ORG_ADMIN: Access = Access::AtLeast(Role::OrgAdmin);
const ADMIN: Access = Access::AtLeast(Role::Admin);
const OWNER: Access = Access::AtLeast(Role::Owner);

fn route<H, T>(
    method: MethodFilter,
    path: &'static str,
    access: Access,
    body: BodyLimit,
    handler: H,
    doc: fn() -> Doc,
) -> Route
where
    H: Handler<T, App>,
    T: 'static,
{
    let name = match method {
        MethodFilter::POST => Method::POST,
        MethodFilter::PATCH => Method::PATCH,
        MethodFilter::PUT => Method::PUT,
        MethodFilter::DELETE => Method::DELETE,
        _ => Method::GET,
    };
    let doc = Documented::ByHand(doc);
    Route { method: name, path, policy: Policy { access, body }, doc, handler: on(method, handler) }
}

/// A route whose documentation comes from its handler's types.
fn op<H, T, S>(
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
    let doc = Documented::BySignature(operation, Operation::doc::<H, S>);
    Route { doc, ..route(method, path, access, body, handler, || Doc::new("", "")) }
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
        op(GET, "/readyz", PUBLIC, NONE, health::ready, health::READY),
        op(POST, "/admin/bootstrap-owner", PUBLIC, SIGN_IN, bootstrap::bootstrap, bootstrap::BOOTSTRAP),
        op(GET, "/auth/setup", PUBLIC, NONE, bootstrap::setup, bootstrap::SETUP),
        op(POST, "/auth/login", PUBLIC, SIGN_IN, auth::login::login, auth::login::LOGIN),
        op(POST, "/auth/logout", IN_PERSON, NONE, auth::logout, auth::LOGOUT),
        op(GET, "/auth/me", ANYONE, NONE, auth::me, auth::ME),
        op(POST, "/auth/password", IN_PERSON, SIGN_IN, auth::password::change, auth::password::CHANGE),
        op(GET, "/auth/keys", ANYONE, NONE, auth::keys::list, auth::keys::LIST),
        op(POST, "/auth/keys", ANYONE, BODY, auth::keys::create, auth::keys::CREATE),
        op(DELETE, "/auth/keys/{id}", ANYONE, NONE, auth::keys::revoke, auth::keys::REVOKE),
        op(GET, "/auth/tokens", ANYONE, NONE, auth::tokens::list, auth::tokens::LIST),
        op(POST, "/auth/tokens", IN_PERSON, BODY, auth::tokens::create, auth::tokens::CREATE),
        op(DELETE, "/auth/tokens/{id}", ANYONE, NONE, auth::tokens::revoke, auth::tokens::REVOKE),
        op(GET, "/auth/usage", ANYONE, NONE, auth::usage::list, auth::usage::LIST),
        op(GET, "/auth/usage/aggregate", ANYONE, NONE, auth::usage::aggregate, auth::usage::AGGREGATE),
        op(GET, "/auth/usage/series", ANYONE, NONE, auth::usage::series, auth::usage::SERIES),
        op(GET, "/auth/limits", ANYONE, NONE, auth::limits::show, auth::limits::SHOW),
        op(GET, "/auth/models", ANYONE, NONE, auth::models::list, auth::models::LIST),
        op(GET, "/admin/tokens", ORG_ADMIN, NONE, tokens::list, tokens::LIST),
        op(DELETE, "/admin/tokens/{id}", ORG_ADMIN, NONE, tokens::revoke, tokens::REVOKE),
        op(GET, "/admin/keys", ORG_ADMIN, NONE, keys::list, keys::LIST),
        op(POST, "/admin/keys", ORG_ADMIN, BODY, keys::create, keys::CREATE),
        op(PATCH, "/admin/keys/{id}", ORG_ADMIN, BODY, keys::change, keys::CHANGE),
        op(DELETE, "/admin/keys/{id}", ORG_ADMIN, NONE, keys::revoke, keys::REVOKE),
        op(GET, "/admin/orgs", ORG_ADMIN, NONE, orgs::list, orgs::LIST),
        op(POST, "/admin/orgs", ADMIN, BODY, orgs::create, orgs::CREATE),
        op(GET, "/admin/orgs/lookup", ORG_ADMIN, NONE, orgs::lookup, orgs::LOOKUP),
        op(PATCH, "/admin/orgs/{id}", ADMIN, BODY, orgs::change, orgs::CHANGE),
        op(DELETE, "/admin/orgs/{id}", ADMIN, NONE, orgs::delete, orgs::DELETE),
        op(GET, "/admin/users", ORG_ADMIN, NONE, users::list, users::LIST),
        op(POST, "/admin/users", ORG_ADMIN, BODY, users::create, users::CREATE),
        op(GET, "/admin/users/lookup", ORG_ADMIN, NONE, users::lookup, users::LOOKUP),
        op(PATCH, "/admin/users/{id}", ORG_ADMIN, BODY, users::change, users::CHANGE),
        op(DELETE, "/admin/users/{id}", ORG_ADMIN, NONE, users::delete, users::DELETE),
        op(GET, "/admin/usage", ORG_ADMIN, NONE, usage::list, usage::LIST),
        op(GET, "/admin/audit", ADMIN, NONE, audit::list, audit::LIST),
        op(GET, "/admin/events", ADMIN, NONE, events::events, events::EVENTS),
        op(
            GET,
            "/admin/usage/aggregate",
            ORG_ADMIN,
            NONE,
            usage::aggregate::aggregate,
            usage::aggregate::AGGREGATE,
        ),
        op(GET, "/admin/usage/series", ORG_ADMIN, NONE, usage::series::series, usage::series::SERIES),
        op(GET, "/admin/usage/latency", ORG_ADMIN, NONE, usage::latency::latency, usage::latency::LATENCY),
        op(GET, "/admin/usage/ttft", ORG_ADMIN, NONE, usage::latency::ttft, usage::latency::TTFT),
        op(GET, "/admin/usage/export", ORG_ADMIN, NONE, usage::export::export, usage::export::EXPORT),
        op(
            GET,
            "/admin/usage/integrity",
            ADMIN,
            NONE,
            usage::integrity::integrity,
            usage::integrity::INTEGRITY,
        ),
        op(GET, "/admin/models", ADMIN, NONE, models::list, models::LIST),
        op(POST, "/admin/models", ADMIN, BODY, models::create, models::CREATE),
        op(GET, "/admin/models/base-dir", ADMIN, NONE, base_dir::show, base_dir::SHOW),
        op(PUT, "/admin/models/base-dir", OWNER, BODY, base_dir::change, base_dir::CHANGE),
        op(GET, "/admin/models/local-folders", ADMIN, NONE, folders::local_folders, folders::LIST),
        op(GET, "/admin/models/inspect-folder", ADMIN, NONE, folders::inspect_folder, folders::INSPECT),
        op(GET, "/admin/models/hub-config", ADMIN, NONE, hub_config::hub_config, hub_config::HUB_CONFIG),
        op(POST, "/admin/models/dry-run", ADMIN, BODY, dry_run::unsaved, dry_run::UNSAVED),
        op(GET, "/admin/models/registry", ADMIN, NONE, registry::list, registry::LIST),
        op(POST, "/admin/models/registry", OWNER, BODY, registry::add, registry::ADD),
        op(
            DELETE,
            "/admin/models/registry",
            OWNER,
            NONE,
            registry::remove_by_query,
            registry::REMOVE_BY_QUERY,
        ),
        op(PATCH, "/admin/models/registry/{*served_name}", OWNER, BODY, registry::change, registry::CHANGE),
        op(DELETE, "/admin/models/registry/{*served_name}", OWNER, NONE, registry::remove, registry::REMOVE),
        op(GET, "/admin/models/metrics", ADMIN, NONE, models::metrics::list, models::metrics::LIST),
        op(GET, "/admin/models/{id}", ADMIN, NONE, models::show, models::SHOW),
        op(PATCH, "/admin/models/{id}", ADMIN, BODY, models::change, models::CHANGE),
        op(DELETE, "/admin/models/{id}", ADMIN, NONE, command::delete, command::DELETE),
        op(POST, "/admin/models/{id}/start", ADMIN, NONE, command::start, command::START),
        op(POST, "/admin/models/{id}/stop", ADMIN, NONE, command::stop, command::STOP),
        op(POST, "/admin/models/{id}/apply", ADMIN, NONE, command::apply, command::APPLY),
        op(POST, "/admin/models/{id}/dry-run", ADMIN, NONE, dry_run::saved, dry_run::SAVED),
        op(POST, "/admin/models/{id}/test", ADMIN, NONE, watch::test, watch::TEST),
        op(GET, "/admin/models/{id}/readiness", ADMIN, NONE, watch::readiness, watch::READINESS),
        op(GET, "/admin/models/{id}/logs", ADMIN, NONE, watch::logs, watch::LOGS),
        op(GET, "/admin/models/{id}/events", ADMIN, NONE, watch::events, watch::EVENTS),
        op(
            GET,
            "/admin/system/container-images",
            ADMIN,
            NONE,
            system::images::status,
            system::images::STATUS,
        ),
        op(
            POST,
            "/admin/system/container-images/load",
            OWNER,
            BODY,
            system::images::load,
            system::images::LOAD,
        ),
        op(GET, "/v1/chat/sessions", IN_PERSON, NONE, chat::list, chat::LIST),
        op(POST, "/v1/chat/sessions", IN_PERSON, BODY, chat::create, chat::CREATE),
        op(DELETE, "/v1/chat/sessions", IN_PERSON, NONE, chat::clear, chat::CLEAR),
        op(GET, "/v1/chat/sessions/{id}", IN_PERSON, NONE, chat::show, chat::SHOW),
        op(DELETE, "/v1/chat/sessions/{id}", IN_PERSON, NONE, chat::delete, chat::DELETE),
        op(
            POST,
            "/v1/chat/sessions/{id}/messages",
            IN_PERSON,
            BodyLimit::CHAT,
            chat::add_message,
            chat::ADD_MESSAGE,
        ),
        op(GET, "/v1/models/running", IN_PERSON, NONE, playground::running, playground::RUNNING),
        // The name may contain slashes, so that it and the last word are one capture.
        op(
            GET,
            "/v1/models/{*name_constraints}",
            IN_PERSON,
            NONE,
            playground::constraints,
            playground::CONSTRAINTS,
        ),
        op(GET, "/admin/engines/spec", ADMIN, NONE, engines::spec, engines::SPEC),
        op(GET, "/openapi.json", PUBLIC, NONE, pages::openapi, pages::OPENAPI),
        op(GET, "/docs", PUBLIC, NONE, pages::docs, pages::DOCS),
        op(GET, "/admin/system/gpus", ADMIN, NONE, system::gpus::gpus, system::gpus::GPUS),
        op(GET, "/admin/system/summary", ADMIN, NONE, system::host::summary, system::host::SUMMARY),
        op(GET, "/admin/system/throughput", ADMIN, NONE, system::host::throughput, system::host::THROUGHPUT),
        op(GET, "/admin/system/host/summary", ADMIN, NONE, system::host::now, system::host::NOW),
        op(GET, "/admin/system/host/trends", ADMIN, NONE, system::host::trends, system::host::TRENDS),
        op(
            GET,
            "/admin/system/capabilities",
            ADMIN,
            NONE,
            system::host::capabilities,
            system::host::CAPABILITIES,
        ),
        op(GET, "/admin/upstreams", ADMIN, NONE, upstreams::list, upstreams::LIST),
        op(POST, "/admin/upstreams/refresh-health", ADMIN, BODY, upstreams::refresh, upstreams::REFRESH),
    ]
}

/// Policies by path pattern and method, for the check that runs before every handler.
pub(crate) fn policy(method: &Method, path: &str) -> Option<Policy> {
    static POLICIES: LazyLock<HashMap<(Method, &'static str), Policy>> =
        LazyLock::new(|| routes().into_iter().map(|it| ((it.method, it.path), it.policy)).collect());
    // `get` routes answer HEAD too.
    let method = if method == Method::HEAD { &Method::GET } else { method };
    let key: (Method, &str) = (method.clone(), path);
    POLICIES.get(&key as &(Method, &str)).copied()
}

/// Returns whether the route reads its query string: its documentation then has parameters of it.
pub(crate) fn takes_query(method: &Method, path: &str) -> bool {
    static ROUTES: LazyLock<HashSet<(Method, &'static str)>> = LazyLock::new(|| {
        let all = routes().into_iter();
        all.filter(|it| it.doc().has_query()).map(|it| (it.method, it.path)).collect()
    });
    let key: (Method, &str) = (method.clone(), path);
    ROUTES.contains(&key as &(Method, &str))
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
