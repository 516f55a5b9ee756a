//! The route table: every path with its methods, who may call it, how large its body may be, its handler, and its
//! documentation. A route can't be added without a policy or a documentation: [`Route`] has no constructor that leaves
//! them out.

use std::{
    collections::{HashMap, HashSet},
    sync::LazyLock,
};

use axum::{
    Router,
    handler::Handler,
    http::Method,
    middleware::{from_fn, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::{MethodFilter, MethodRouter, on},
};
use gantry_domain::{ApiError, Role};

use crate::{
    App, audit, auth, bootstrap, chat,
    doc::{self, Doc},
    engines, events, guard, health, keys,
    models::{self, base_dir, command, dry_run, folders, hub_config, registry, watch},
    operation::{Operation, Signature},
    orgs, pages, playground,
    policy::{self, Access, BodyLimit, Policy},
    system, tokens, upstreams, usage, users,
};

/// One row of the table.
pub struct Route {
    pub method: Method,
    pub path: &'static str,
    pub policy: Policy,
    /// What `/openapi.json` says about it.
    doc: Documented,
    handler: MethodRouter<App>,
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
    Route { doc, ..route(method, path, access, body, handler, doc::pages::docs) }
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
        route(GET, "/readyz", PUBLIC, NONE, health::ready, doc::account::ready),
        route(POST, "/admin/bootstrap-owner", PUBLIC, SIGN_IN, bootstrap::bootstrap, doc::account::bootstrap),
        route(GET, "/auth/setup", PUBLIC, NONE, bootstrap::setup, doc::account::setup),
        route(POST, "/auth/login", PUBLIC, SIGN_IN, auth::login::login, doc::account::login),
        route(POST, "/auth/logout", IN_PERSON, NONE, auth::logout, doc::account::logout),
        route(GET, "/auth/me", ANYONE, NONE, auth::me, doc::account::me),
        route(
            POST,
            "/auth/password",
            IN_PERSON,
            SIGN_IN,
            auth::password::change,
            doc::account::change_password,
        ),
        op(GET, "/auth/keys", ANYONE, NONE, auth::keys::list, auth::keys::LIST),
        op(POST, "/auth/keys", ANYONE, BODY, auth::keys::create, auth::keys::CREATE),
        op(DELETE, "/auth/keys/{id}", ANYONE, NONE, auth::keys::revoke, auth::keys::REVOKE),
        route(GET, "/auth/tokens", ANYONE, NONE, auth::tokens::list, doc::tokens::list_own),
        route(POST, "/auth/tokens", IN_PERSON, BODY, auth::tokens::create, doc::tokens::create_own),
        route(DELETE, "/auth/tokens/{id}", ANYONE, NONE, auth::tokens::revoke, doc::tokens::revoke_own),
        route(GET, "/auth/usage", ANYONE, NONE, auth::usage::list, doc::usage::list_own),
        route(GET, "/auth/usage/aggregate", ANYONE, NONE, auth::usage::aggregate, doc::usage::aggregate_own),
        route(GET, "/auth/usage/series", ANYONE, NONE, auth::usage::series, doc::usage::series_own),
        route(GET, "/auth/limits", ANYONE, NONE, auth::limits::show, doc::account::limits),
        route(GET, "/auth/models", ANYONE, NONE, auth::models::list, doc::account::models),
        route(GET, "/admin/tokens", ORG_ADMIN, NONE, tokens::list, doc::tokens::list_all),
        route(DELETE, "/admin/tokens/{id}", ORG_ADMIN, NONE, tokens::revoke, doc::tokens::revoke),
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
        route(GET, "/admin/usage", ORG_ADMIN, NONE, usage::list, doc::usage::list),
        route(GET, "/admin/audit", ADMIN, NONE, audit::list, doc::audit::list),
        route(GET, "/admin/events", ADMIN, NONE, events::events, doc::audit::events),
        route(
            GET,
            "/admin/usage/aggregate",
            ORG_ADMIN,
            NONE,
            usage::aggregate::aggregate,
            doc::usage::aggregate,
        ),
        route(GET, "/admin/usage/series", ORG_ADMIN, NONE, usage::series::series, doc::usage::series),
        route(GET, "/admin/usage/latency", ORG_ADMIN, NONE, usage::latency::latency, doc::usage::latency),
        route(GET, "/admin/usage/ttft", ORG_ADMIN, NONE, usage::latency::ttft, doc::usage::ttft),
        route(GET, "/admin/usage/export", ORG_ADMIN, NONE, usage::export::export, doc::usage::export),
        route(GET, "/admin/usage/integrity", ADMIN, NONE, usage::integrity::integrity, doc::usage::integrity),
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
        route(
            GET,
            "/admin/system/container-images",
            ADMIN,
            NONE,
            system::images::status,
            doc::system::container_images,
        ),
        route(
            POST,
            "/admin/system/container-images/load",
            OWNER,
            BODY,
            system::images::load,
            doc::system::load_images,
        ),
        route(GET, "/v1/chat/sessions", IN_PERSON, NONE, chat::list, doc::chat::list_chats),
        route(POST, "/v1/chat/sessions", IN_PERSON, BODY, chat::create, doc::chat::create),
        route(DELETE, "/v1/chat/sessions", IN_PERSON, NONE, chat::clear, doc::chat::clear),
        route(GET, "/v1/chat/sessions/{id}", IN_PERSON, NONE, chat::show, doc::chat::show),
        route(DELETE, "/v1/chat/sessions/{id}", IN_PERSON, NONE, chat::delete, doc::chat::delete),
        route(
            POST,
            "/v1/chat/sessions/{id}/messages",
            IN_PERSON,
            BodyLimit::CHAT,
            chat::add_message,
            doc::chat::add_message,
        ),
        route(GET, "/v1/models/running", IN_PERSON, NONE, playground::running, doc::chat::running),
        // The name may contain slashes, so that it and the last word are one capture.
        route(
            GET,
            "/v1/models/{*name_constraints}",
            IN_PERSON,
            NONE,
            playground::constraints,
            doc::chat::constraints,
        ),
        op(GET, "/admin/engines/spec", ADMIN, NONE, engines::spec, engines::SPEC),
        route(GET, "/openapi.json", PUBLIC, NONE, pages::openapi, doc::pages::openapi),
        route(GET, "/docs", PUBLIC, NONE, pages::docs, doc::pages::docs),
        route(GET, "/admin/system/gpus", ADMIN, NONE, system::gpus::gpus, doc::system::gpus),
        route(GET, "/admin/system/summary", ADMIN, NONE, system::host::summary, doc::host::summary),
        route(GET, "/admin/system/throughput", ADMIN, NONE, system::host::throughput, doc::host::throughput),
        route(GET, "/admin/system/host/summary", ADMIN, NONE, system::host::now, doc::host::now),
        route(GET, "/admin/system/host/trends", ADMIN, NONE, system::host::trends, doc::host::trends),
        route(
            GET,
            "/admin/system/capabilities",
            ADMIN,
            NONE,
            system::host::capabilities,
            doc::host::capabilities,
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

/// The admin API as a service. `files` are paths at which everybody may read a file (the UI).
pub fn router(app: App, files: Vec<(&'static str, MethodRouter)>) -> Router {
    let mut router = Router::new();
    for route in routes() {
        router = router.route(route.path, route.handler);
    }
    router = router.layer(from_fn_with_state(app.clone(), policy::enforce));
    // The files are added after that layer, which refuses routes without a policy. They have no access to any data.
    for (path, file) in files.into_iter().chain(pages::assets()) {
        router = router.route(path, file.with_state(()));
    }
    router
        .method_not_allowed_fallback(guard::unknown_method)
        .layer(from_fn(no_panic))
        .fallback(guard::unknown_route)
        .layer(from_fn_with_state(app.clone(), guard::outermost))
        .with_state(app)
}

/// Keeps a panic in a handler from ending more than its own request.
async fn no_panic(request: axum::extract::Request, next: axum::middleware::Next) -> Response {
    use futures_util::FutureExt;
    let caught = std::panic::AssertUnwindSafe(next.run(request)).catch_unwind().await;
    caught.unwrap_or_else(|_| {
        tracing::error!("a handler panicked");
        crate::Problem(ApiError::internal()).into_response()
    })
}
