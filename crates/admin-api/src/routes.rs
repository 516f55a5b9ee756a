//! The route table: every path with its methods, who may call it, how large its body may be, and its handler. A route
//! can't be added without a policy: [`Route`] has no constructor that leaves it out.

use std::{collections::HashMap, sync::LazyLock};

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
    App, auth, bootstrap, chat, guard, health, keys, models, orgs, playground,
    policy::{self, Access, BodyLimit, Policy},
    reg, system, usage, users,
};

/// One row of the table.
pub struct Route {
    pub method: Method,
    pub path: &'static str,
    pub policy: Policy,
    handler: MethodRouter<App>,
}

const PUBLIC: Access = Access::Public;
const ANYONE: Access = Access::AtLeast(Role::User);
const ORG_ADMIN: Access = Access::AtLeast(Role::OrgAdmin);
const ADMIN: Access = Access::AtLeast(Role::Admin);
const OWNER: Access = Access::AtLeast(Role::Owner);

fn route<H, T>(method: MethodFilter, path: &'static str, access: Access, body: BodyLimit, handler: H) -> Route
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
    Route { method: name, path, policy: Policy { access, body }, handler: on(method, handler) }
}

/// Every route of the admin API.
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
        route(GET, "/readyz", PUBLIC, NONE, health::ready),
        route(POST, "/admin/bootstrap-owner", PUBLIC, SIGN_IN, bootstrap::bootstrap),
        route(POST, "/auth/login", PUBLIC, SIGN_IN, auth::login::login),
        route(POST, "/auth/logout", ANYONE, NONE, auth::logout),
        route(GET, "/auth/me", ANYONE, NONE, auth::me),
        route(POST, "/auth/password", ANYONE, SIGN_IN, auth::password::change),
        route(GET, "/auth/keys", ANYONE, NONE, auth::keys::list),
        route(POST, "/auth/keys", ANYONE, BODY, auth::keys::create),
        route(DELETE, "/auth/keys/{id}", ANYONE, NONE, auth::keys::revoke),
        route(GET, "/admin/keys", ORG_ADMIN, NONE, keys::list),
        route(POST, "/admin/keys", ORG_ADMIN, BODY, keys::create),
        route(PATCH, "/admin/keys/{id}", ORG_ADMIN, BODY, keys::change),
        route(DELETE, "/admin/keys/{id}", ORG_ADMIN, NONE, keys::revoke),
        route(GET, "/admin/orgs", ORG_ADMIN, NONE, orgs::list),
        route(POST, "/admin/orgs", ADMIN, BODY, orgs::create),
        route(GET, "/admin/orgs/lookup", ORG_ADMIN, NONE, orgs::lookup),
        route(PATCH, "/admin/orgs/{id}", ADMIN, BODY, orgs::change),
        route(DELETE, "/admin/orgs/{id}", ADMIN, NONE, orgs::delete),
        route(GET, "/admin/users", ORG_ADMIN, NONE, users::list),
        route(POST, "/admin/users", ORG_ADMIN, BODY, users::create),
        route(GET, "/admin/users/lookup", ORG_ADMIN, NONE, users::lookup),
        route(PATCH, "/admin/users/{id}", ORG_ADMIN, BODY, users::change),
        route(DELETE, "/admin/users/{id}", ORG_ADMIN, NONE, users::delete),
        route(GET, "/admin/usage", ORG_ADMIN, NONE, usage::list),
        route(GET, "/admin/usage/aggregate", ORG_ADMIN, NONE, usage::aggregate::aggregate),
        route(GET, "/admin/usage/series", ORG_ADMIN, NONE, usage::series::series),
        route(GET, "/admin/usage/latency", ORG_ADMIN, NONE, usage::latency::latency),
        route(GET, "/admin/usage/ttft", ORG_ADMIN, NONE, usage::latency::ttft),
        route(GET, "/admin/usage/export", ORG_ADMIN, NONE, usage::export::export),
        route(GET, "/admin/usage/integrity", ADMIN, NONE, usage::integrity::integrity),
        route(GET, "/admin/models", ADMIN, NONE, models::list),
        route(POST, "/admin/models", ADMIN, BODY, models::create),
        route(GET, "/admin/models/base-dir", ADMIN, NONE, models::base_dir::show),
        route(PUT, "/admin/models/base-dir", OWNER, BODY, models::base_dir::change),
        route(GET, "/admin/models/local-folders", ADMIN, NONE, models::folders::local_folders),
        route(GET, "/admin/models/inspect-folder", ADMIN, NONE, models::folders::inspect_folder),
        route(GET, "/admin/models/hub-config", ADMIN, NONE, models::hub_config::hub_config),
        route(POST, "/admin/models/dry-run", ADMIN, BODY, models::dry_run::unsaved),
        route(GET, "/admin/models/registry", ADMIN, NONE, reg::list),
        route(POST, "/admin/models/registry", OWNER, BODY, reg::add),
        route(DELETE, "/admin/models/registry", OWNER, NONE, reg::remove),
        route(DELETE, "/admin/models/registry/{*served_name}", OWNER, NONE, reg::remove),
        route(GET, "/admin/models/metrics", ADMIN, NONE, models::metrics::list),
        route(GET, "/admin/models/{id}", ADMIN, NONE, models::show),
        route(PATCH, "/admin/models/{id}", ADMIN, BODY, models::change),
        route(DELETE, "/admin/models/{id}", ADMIN, NONE, models::command::delete),
        route(POST, "/admin/models/{id}/start", ADMIN, NONE, models::command::start),
        route(POST, "/admin/models/{id}/stop", ADMIN, NONE, models::command::stop),
        route(POST, "/admin/models/{id}/apply", ADMIN, NONE, models::command::apply),
        route(POST, "/admin/models/{id}/dry-run", ADMIN, NONE, models::dry_run::saved),
        route(POST, "/admin/models/{id}/test", ADMIN, NONE, models::watch::test),
        route(GET, "/admin/models/{id}/readiness", ADMIN, NONE, models::watch::readiness),
        route(GET, "/admin/models/{id}/logs", ADMIN, NONE, models::watch::logs),
        route(GET, "/admin/models/{id}/events", ADMIN, NONE, models::watch::events),
        route(GET, "/admin/system/container-images", ADMIN, NONE, system::images::status),
        route(POST, "/admin/system/container-images/load", OWNER, BODY, system::images::load),
        route(GET, "/v1/chat/sessions", ANYONE, NONE, chat::list),
        route(POST, "/v1/chat/sessions", ANYONE, BODY, chat::create),
        route(DELETE, "/v1/chat/sessions", ANYONE, NONE, chat::clear),
        route(GET, "/v1/chat/sessions/{id}", ANYONE, NONE, chat::show),
        route(DELETE, "/v1/chat/sessions/{id}", ANYONE, NONE, chat::delete),
        route(POST, "/v1/chat/sessions/{id}/messages", ANYONE, BodyLimit::CHAT, chat::add_message),
        route(GET, "/v1/models/running", ANYONE, NONE, playground::running),
        // The name may contain slashes, so that it and the last word are one capture.
        route(GET, "/v1/models/{*name_constraints}", ANYONE, NONE, playground::constraints),
        route(GET, "/admin/engines/spec", ADMIN, NONE, models::spec::spec),
        route(GET, "/admin/system/gpus", ADMIN, NONE, system::gpus::gpus),
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

/// The admin API as a service. `extra` are routes without data (the UI); they get the same guards.
pub fn router(app: App, extra: Router<App>) -> Router {
    let mut router = extra;
    for route in routes() {
        router = router.route(route.path, route.handler);
    }
    router
        .method_not_allowed_fallback(guard::unknown_method)
        .layer(from_fn_with_state(app.clone(), policy::enforce))
        .layer(from_fn(no_panic))
        .fallback(guard::unknown_route)
        .layer(from_fn_with_state(app.clone(), guard::outermost))
        .with_state(app)
}

/// A handler that panics costs its own request only.
async fn no_panic(request: axum::extract::Request, next: axum::middleware::Next) -> Response {
    use futures_util::FutureExt;
    let caught = std::panic::AssertUnwindSafe(next.run(request)).catch_unwind().await;
    caught.unwrap_or_else(|_| {
        tracing::error!("a handler panicked");
        crate::Problem(ApiError::internal()).into_response()
    })
}
