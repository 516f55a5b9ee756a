//! The admin API as a service: routes behind their policies, files that anybody may read, and what every request passes.

use axum::{
    Extension, Router,
    extract::Request,
    middleware::{Next, from_fn, from_fn_with_state},
    response::{IntoResponse, Response},
};
use futures_util::FutureExt;
use gantry_domain::ApiError;

use crate::{
    App, Problem, admission,
    assets::Asset,
    doc::document,
    guard,
    pages::{self, Document},
    routes::routes,
};

/// Returns the admin API. `assets` are the files of the UI.
pub fn router(app: App, assets: Vec<Asset>) -> Router {
    let mut router = Router::new();
    for route in routes() {
        router = router.route(route.path, route.handler);
    }
    let router = router
        .layer(Extension(Document(document)))
        .layer(from_fn_with_state(app.clone(), admission::enforce));
    // Everything up to here has a policy, or is refused. Assets can hold nothing that needs one.
    let mut router = behind_policies(router);
    for asset in assets.into_iter().chain(pages::ASSETS.iter().cloned()) {
        router = router.route(asset.path(), asset.clone().handler());
    }
    router
        .method_not_allowed_fallback(guard::unknown_method)
        .layer(from_fn(no_panic))
        .fallback(guard::unknown_route)
        .layer(from_fn_with_state(app.clone(), guard::outermost))
        .with_state(app)
}

/// Refuses every route of `router` that the route table does not have.
fn behind_policies<S: Clone + Send + Sync + 'static>(router: Router<S>) -> Router<S> {
    router.layer(from_fn(admission::require_policy))
}

/// Keeps a panic in a handler from ending more than its own request.
async fn no_panic(request: Request, next: Next) -> Response {
    let caught = std::panic::AssertUnwindSafe(next.run(request)).catch_unwind().await;
    caught.unwrap_or_else(|_| {
        tracing::error!("a handler panicked");
        Problem(ApiError::internal()).into_response()
    })
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, http::StatusCode, routing::get};
    use tower::ServiceExt;

    use super::*;
    use crate::error::Carried;

    #[tokio::test]
    async fn a_route_without_a_policy_is_refused_whatever_router_it_comes_from() {
        let extra = Router::<()>::new().route("/admin/backdoor", get(async || "secrets"));
        let ours = Router::new().route("/readyz", get(async || "ready")).merge(extra);
        let router = behind_policies(ours);
        let ask = async |path: &str| {
            let request = Request::get(path).body(Body::empty()).unwrap();
            router.clone().oneshot(request).await.unwrap()
        };
        let refused = ask("/admin/backdoor").await;
        let error = refused.extensions().get::<Carried>().expect("an error");
        assert_eq!(error.0.code, gantry_domain::ErrorCode::MethodNotAllowed);
        assert_ne!(refused.status(), StatusCode::OK);
        assert_eq!(ask("/readyz").await.status(), StatusCode::OK, "a route of the table passes");
    }
}
