//! The `OpenAPI` document, from the route table, the inference endpoints and the error codes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use axum::http::Method;
use gantry_domain::{ErrorCode, endpoint::Endpoint, key::Scope, schema::Components};
use serde_json::{Map, Value, json};

use super::{
    Doc, JSON, Param, Reply,
    inference::{self, Caller},
    schema::{self, id, list, nullable, object_but, one_of, text},
};
use crate::{
    policy::{Access, BodyLimit, area, right_of, scope_word},
    routes::{Route, routes},
};

/// Requests and answers of every operation, as a test recorded them (`crates/server/tests/it/examples.rs`).
const EXAMPLES: &str = include_str!("examples.json");

/// Groups of operations, by how their paths begin; the first that fits counts.
const TAGS: &[(&str, &str, &str)] = &[
    ("/v1/chat/sessions", "Playground", "Chats of the signed-in user, and the models that they may talk to."),
    ("/v1/models/running", "Playground", ""),
    ("/v1/models/{model_name}/constraints", "Playground", ""),
    ("/v1", "Inference", "What programs call with an API key."),
    ("/tokenize", "Inference", ""),
    ("/detokenize", "Inference", ""),
    ("/auth/keys", "Own account", "Sign-in, and what signed-in users do with their own account."),
    ("/auth", "Own account", ""),
    ("/admin/bootstrap-owner", "Own account", ""),
    ("/admin/keys", "Keys", "API keys of users and organisations."),
    ("/admin/orgs", "People", "Organisations and users."),
    ("/admin/users", "People", ""),
    ("/admin/tokens", "People", ""),
    ("/admin/usage", "Usage", "What was asked, by whom, and what it cost."),
    ("/admin/audit", "Audit", "Who did what."),
    ("/admin/models/registry", "Routing", "Which served name goes where."),
    ("/admin/upstreams", "Routing", ""),
    ("/admin/models", "Models", "What runs, and how."),
    ("/admin/engines", "Models", ""),
    ("/admin", "System", "The machine, and the gateway itself."),
    ("/", "Probes", "For load balancers and tools; nobody need sign in."),
];

/// The document.
pub fn document() -> &'static Value {
    static DOCUMENT: LazyLock<Value> = LazyLock::new(|| Builder::default().build());
    &DOCUMENT
}

/// Builds the document. Error answers that several operations have are written once.
#[derive(Default)]
struct Builder {
    paths: BTreeMap<String, Map<String, Value>>,
    responses: BTreeMap<String, Value>,
    schemas: Components,
    examples: Map<String, Value>,
}

/// What the policy says, in the words of the document.
struct Who {
    role: Value,
    scope: Value,
    security: Value,
    text: String,
}

impl Builder {
    fn build(mut self) -> Value {
        self.schemas.extend(schemas());
        if let Ok(Value::Object(examples)) = serde_json::from_str(EXAMPLES) {
            self.examples = examples;
        }
        for operation in inference::operations() {
            let (who, mut codes) = match operation.caller {
                Caller::Anybody => (anybody(), Vec::new()),
                Caller::Key => (with_key(None), key_errors(None)),
                Caller::Scoped(endpoint) => (with_key(Some(endpoint)), key_errors(Some(endpoint))),
            };
            if operation.doc.body.is_some() {
                codes.extend(inference::BODY_ERRORS);
            }
            self.add(operation.path, operation.method, operation.doc, &who, codes, None);
        }
        for route in routes() {
            let doc = route.doc();
            let codes = policy_errors(&route, &doc);
            let limit = (route.policy.body.0 > 0).then_some(route.policy.body.0);
            let method = route.method.as_str().to_ascii_lowercase();
            self.add(&shown(route.path), &method, doc, &who(&route), codes, limit);
        }
        let mut tags: Vec<Value> = Vec::new();
        for (_, name, about) in TAGS {
            if !tags.iter().any(|it| it["name"] == *name) {
                tags.push(json!({ "name": name, "description": about }));
            }
        }
        json!({
            "openapi": "3.1.0",
            "info": {
                "title": "Gantry",
                "version": env!("CARGO_PKG_VERSION"),
                "description": ABOUT,
                "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
            },
            "servers": [{ "url": "/" }],
            "tags": tags,
            "paths": self.paths,
            "components": {
                "securitySchemes": security_schemes(),
                "schemas": self.schemas,
                "responses": self.responses,
                "headers": headers(),
            },
        })
    }

    fn add(
        &mut self,
        path: &str,
        method: &str,
        doc: Doc,
        who: &Who,
        codes: Vec<ErrorCode>,
        limit: Option<usize>,
    ) {
        let Doc { id, summary, about, params, body, body_optional, answers, errors, with_status, components } =
            doc;
        self.schemas.extend(components);
        let example = self.examples.get(id).cloned().unwrap_or(Value::Null);
        let mut responses = Map::new();
        for reply in answers {
            let status = reply.status.to_string();
            let recorded =
                (example["response"]["status"] == reply.status).then(|| &example["response"]["body"]);
            responses.insert(status, answer(reply, recorded));
        }
        let codes = codes.into_iter().chain(errors).chain(ALWAYS.iter().copied());
        let codes = codes.map(|it| (it.status(), it)).chain(with_status.iter().copied());
        self.errors(&mut responses, codes);
        let mut description = format!("{about}\n\n{}", who.text).trim_start().to_owned();
        if let Some(limit) = limit {
            description = format!("{description} The body has at most {} KiB.", limit >> 10);
        }
        let tag = TAGS.iter().find(|it| path.starts_with(it.0)).map_or("Probes", |it| it.1);
        let mut parameters = path_parameters(path);
        parameters.extend(params.into_iter().map(parameter));
        let mut operation = json!({
            "operationId": id, "summary": summary, "description": description, "tags": [tag],
            "x-gantry-role": who.role, "x-gantry-scope": who.scope, "security": who.security,
            "parameters": parameters, "responses": responses,
        });
        if !example.is_null() {
            // Whole, since it may be a refusal, which stands among the shared answers.
            operation["x-gantry-example"] = example.clone();
        }
        if let Some(schema) = body {
            let mut content = json!({ "schema": schema });
            if !example["request"]["body"].is_null() {
                content["example"] = example["request"]["body"].clone();
            }
            operation["requestBody"] =
                json!({ "required": !body_optional, "content": { inference::BODY_TYPE: content } });
        }
        self.paths.entry(path.to_owned()).or_default().insert(method.to_owned(), operation);
    }

    /// One answer for each status, with the codes that it may have.
    fn errors(&mut self, responses: &mut Map<String, Value>, codes: impl Iterator<Item = (u16, ErrorCode)>) {
        let mut by_status: BTreeMap<u16, BTreeSet<&'static str>> = BTreeMap::new();
        for (status, code) in codes {
            by_status.entry(status).or_default().insert(code.as_str());
        }
        for (status, codes) in by_status {
            let schema = json!({ "allOf": [
                schema::named("Error"),
                { "type": "object", "properties": { "error": {
                    "type": "object", "properties": { "code": { "enum": codes } } } } },
            ] });
            // Such as 503 of the readiness, which has a form of its own.
            if let Some(own) = responses.get_mut(&status.to_string()) {
                let other = own["content"][JSON]["schema"].take();
                own["content"][JSON]["schema"] = json!({ "anyOf": [other, schema] });
                continue;
            }
            let name = format!("{status}-{}", codes.iter().copied().collect::<Vec<_>>().join("-"));
            let mut headers = json!({ "X-Request-Id": { "$ref": "#/components/headers/X-Request-Id" } });
            if matches!(status, 429 | 503) {
                headers["Retry-After"] = json!({ "$ref": "#/components/headers/Retry-After" });
            }
            let described: Vec<String> = ErrorCode::ALL
                .iter()
                .filter(|it| codes.contains(it.as_str()))
                .map(|it| format!("`{}`: {}", it.as_str(), it.doc().trim()))
                .collect();
            self.responses.entry(name.clone()).or_insert_with(|| {
                json!({
                    "description": described.join(" "),
                    "headers": headers,
                    "content": { JSON: { "schema": schema } },
                })
            });
            let reference = json!({ "$ref": format!("#/components/responses/{name}") });
            responses.insert(status.to_string(), reference);
        }
    }
}

/// Errors with which any request may end, whatever it asks.
const ALWAYS: &[ErrorCode] = &[ErrorCode::Internal, ErrorCode::HeadTooLarge, ErrorCode::ShuttingDown];

const ABOUT: &str = "A gateway for language models on your own machines. `/v1` is what programs call, with an API key \
(`Authorization: Bearer gty_…`, `x-api-key` or `api-key`); `/admin` and `/auth` are for people, with the session cookie that \
`POST /auth/login` sets, and for their scripts, with a token of `POST /auth/tokens` (`Authorization: Bearer gta_…`). A request with the cookie that changes something must come from a page of the gateway itself.\n\n\
Every error has the body `{\"error\": {message, type, param, code}, \"request_id\"}`; `code` is what to branch on, and \
docs/reference/errors.md says what each means. A query parameter that is empty counts as absent, an unknown one is \
refused, and so is an unknown field of a body under `/admin` and `/auth`.";

/// The path as the document has it: patterns that take slashes are parameters like others.
fn shown(path: &str) -> String {
    path.replace("{*served_name}", "{served_name}").replace("{*name_constraints}", "{model_name}/constraints")
}

fn path_parameters(path: &str) -> Vec<Value> {
    let names = path.split('{').skip(1).filter_map(|it| it.split('}').next());
    names
        .map(|name| {
            let (schema, about) = match name {
                "id" => {
                    let word = path.split("/{id}").next().and_then(|it| it.rsplit('/').next());
                    let (kind, form) = match word {
                        Some("sessions") => ("sessions", schema::formatted("uuid")),
                        Some("jobs") => ("jobs", schema::word("^deploy-[1-9][0-9]{0,17}$")),
                        Some("export-model") => ("models", id()),
                        word => (word.unwrap_or_default(), id()),
                    };
                    (schema::of_object(kind, form), "What was given when it was made.")
                }
                _ => (schema::text_of(1, 200), "A served name. A slash may stand as it is."),
            };
            json!({ "in": "path", "name": name, "required": true, "schema": schema, "description": about })
        })
        .collect()
}

fn parameter(param: Param) -> Value {
    let Param { place, name, schema, required, about } = param;
    let mut shown =
        json!({ "in": place, "name": name, "required": required, "schema": schema, "description": about });
    if place == "query" && !required {
        shown["allowEmptyValue"] = true.into();
    }
    shown
}

fn answer(reply: Reply, recorded: Option<&Value>) -> Value {
    let Reply { about, content, counted, .. } = reply;
    let mut headers = json!({ "X-Request-Id": { "$ref": "#/components/headers/X-Request-Id" } });
    if counted {
        headers["X-Total-Count"] = json!({ "$ref": "#/components/headers/X-Total-Count" });
    }
    let content: Map<String, Value> = content
        .into_iter()
        .map(|(media_type, schema)| {
            let mut content = json!({ "schema": schema });
            if let Some(body) = recorded.filter(|it| !it.is_null() && media_type == JSON) {
                content["example"] = body.clone();
            }
            (media_type.to_owned(), content)
        })
        .collect();
    let mut shown = json!({ "description": about, "headers": headers });
    if !content.is_empty() {
        shown["content"] = content.into();
    }
    shown
}

fn anybody() -> Who {
    Who {
        role: Value::Null,
        scope: Value::Null,
        security: json!([]),
        text: "Nobody need sign in.".to_owned(),
    }
}

fn who(route: &Route) -> Who {
    let access = route.policy.access;
    let Some(role) = access.role() else { return anybody() };
    let scope = match access {
        Access::AtLeast(_) => area(route.path).map(|it| scope_word(it, right_of(&route.method))),
        Access::Public | Access::InPerson(_) => None,
    };
    let how = match &scope {
        Some(scope) => format!("or a token of theirs with the scope `{scope}`"),
        None => "who are signed in: a token does not do".to_owned(),
    };
    let text = format!("For users with the role `{}` or a higher one, {how}.", role.as_str());
    let session = json!({ "session": [] });
    let security = if scope.is_some() { json!([session, { "token": [] }]) } else { json!([session]) };
    Who { role: role.as_str().into(), scope: scope.into(), security, text }
}

fn with_key(endpoint: Option<Endpoint>) -> Who {
    let text = match endpoint {
        None => "For any key, and for signed-in users.".to_owned(),
        Some(it) => match it.scope() {
            Some(scope) => format!("For keys with the scope `{}`, and for signed-in users.", scope.as_str()),
            None => "For keys with a scope that the model is for, and for signed-in users.".to_owned(),
        },
    };
    Who {
        role: "user".into(),
        scope: endpoint.and_then(Endpoint::scope).map(Scope::as_str).into(),
        security: json!([{ "key": [] }, { "x-api-key": [] }, { "api-key": [] }, { "session": [] }]),
        text,
    }
}

fn key_errors(endpoint: Option<Endpoint>) -> Vec<ErrorCode> {
    let mut codes = vec![ErrorCode::InvalidApiKey, ErrorCode::IpNotAllowed, ErrorCode::UnknownHost];
    codes.extend(endpoint.map(|_| ErrorCode::InsufficientScope));
    // A cookie counts for requests of the gateway's own pages only.
    codes.push(ErrorCode::CrossSiteRequest);
    codes
}

/// Returns the errors of every route that has this policy, these parameters and this body.
fn policy_errors(route: &Route, doc: &Doc) -> Vec<ErrorCode> {
    let mut codes = vec![ErrorCode::UnknownHost, ErrorCode::InvalidRequest];
    codes.extend([ErrorCode::DatabaseUnavailable, ErrorCode::DatabaseBusy]);
    if route.policy.access != Access::Public {
        codes.extend([ErrorCode::Unauthenticated, ErrorCode::Forbidden]);
    }
    if matches!(route.policy.access, Access::AtLeast(_)) {
        codes.push(ErrorCode::InsufficientScope);
    }
    if route.method != Method::GET || route.policy.access != Access::Public {
        codes.push(ErrorCode::CrossSiteRequest);
    }
    let for_org_admins = route.policy.access.role().is_some_and(|it| !it.is_global());
    if route.method != Method::GET && route.path.starts_with("/admin/") && for_org_admins {
        codes.push(ErrorCode::RateLimitExceeded);
    }
    // A command takes no body, and says so.
    if route.policy.body == BodyLimit::NONE || !doc.params.is_empty() {
        codes.push(ErrorCode::ValidationError);
    }
    let refers = doc.body.as_ref().is_some_and(schema::refers);
    if route.path.contains('{') && !doc.errors.contains(&ErrorCode::ModelNotFound) || refers {
        codes.push(ErrorCode::NotFound);
    }
    if route.policy.access.role().is_some() || route.policy.body.0 > BodyLimit::SIGN_IN.0 {
        codes.push(ErrorCode::RequestMemoryFull);
    }
    if route.policy.body.0 > 0 {
        codes.extend([
            ErrorCode::InvalidJson,
            ErrorCode::DuplicateKey,
            ErrorCode::RequestTimeout,
            ErrorCode::RequestTooLarge,
            ErrorCode::UnsupportedMediaType,
            ErrorCode::ValidationError,
            // The object that it refers to was deleted meanwhile.
            ErrorCode::InvalidState,
        ]);
    }
    codes
}

fn headers() -> Value {
    json!({
        "X-Request-Id": { "description": "The client's own, if it sent a sane one.", "schema": text() },
        "X-Total-Count": { "description": "Entries of the whole list.", "schema": schema::count() },
        "Retry-After": { "description": "Seconds.", "schema": schema::count() },
    })
}

fn security_schemes() -> Value {
    json!({
        "session": { "type": "apiKey", "in": "cookie", "name": gantry_domain::identity::SESSION_COOKIE,
            "description": "Set by `POST /auth/login`." },
        "token": { "type": "http", "scheme": "bearer",
            "description": "A token of a user for `/admin` and `/auth`, made by `POST /auth/tokens`." },
        "key": { "type": "http", "scheme": "bearer", "description": "An API key." },
        "x-api-key": { "type": "apiKey", "in": "header", "name": "x-api-key",
            "description": "The same, as Anthropic's clients send it." },
        "api-key": { "type": "apiKey", "in": "header", "name": "api-key",
            "description": "The same, as Azure's clients send it." },
    })
}

fn schemas() -> Components {
    let codes: Vec<&str> = ErrorCode::ALL.iter().map(|it| it.as_str()).collect();
    let mut kinds: Vec<&str> = ErrorCode::ALL.iter().map(|it| it.kind()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let detail =
        schema::object([("param", text()), ("message", text()), ("code", schema::named("ErrorCode"))]);
    let mut error = object_but(
        &["details", "engine_code"],
        [
            ("message", text()),
            ("type", one_of(&kinds)),
            ("param", nullable(text())),
            ("code", schema::named("ErrorCode")),
            ("details", schema::described(list(detail), "Every problem of a request that was read.")),
            (
                "engine_code",
                schema::described(text(), "What the engine calls it, if it was the engine that refused."),
            ),
        ],
    );
    // An engine may add fields of its own, such as llama.cpp's `n_ctx`.
    error["additionalProperties"] = true.into();
    let whole = object_but(
        &["type"],
        [
            ("error", error),
            ("request_id", text()),
            ("type", schema::described(schema::constant("error"), "Under `/v1/messages` only.")),
        ],
    );
    let common = [("ErrorCode", one_of(&codes)), ("Error", whole)];
    common.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
                map.values().for_each(|it| references(it, found));
            }
            Value::Array(items) => items.iter().for_each(|it| references(it, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_has_its_target() {
        let mut found = Vec::new();
        references(document(), &mut found);
        assert!(found.len() > 100);
        for reference in found {
            let target = document().pointer(reference.trim_start_matches('#'));
            assert!(target.is_some(), "{reference}");
        }
    }

    #[test]
    fn operations_have_names_of_their_own() {
        let paths = document()["paths"].as_object().unwrap();
        let mut names: Vec<_> = paths
            .values()
            .flat_map(|it| it.as_object().unwrap().values())
            .map(|it| it["operationId"].as_str().unwrap())
            .collect();
        let n = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), n);
    }
}
