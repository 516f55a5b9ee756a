//! Every error that a client can see: one table of code, status, type, whether a retry can help, and what to do.

use serde::Serialize;
use serde_json::{Value, json};

use crate::{name, words};

macro_rules! error_codes {
    ($($(#[doc = $doc:literal])* $variant:ident = $code:literal, $status:literal, $kind:literal, $retry:ident,
        $remedy:literal;)+) => {
        words! {
            /// A stable word that programs branch on, with its HTTP status and OpenAI `type`. The word is the `code` of
            /// the error body, and the metric label.
            pub enum ErrorCode { $($(#[doc = $doc])* $variant = $code,)+ }
        }

        impl ErrorCode {
            /// Returns the HTTP status.
            pub fn status(self) -> u16 {
                match self { $(Self::$variant => $status,)+ }
            }

            /// Returns the OpenAI `type`.
            pub fn kind(self) -> &'static str {
                match self { $(Self::$variant => $kind,)+ }
            }

            /// Returns what to do about it, as a sentence.
            pub fn remedy(self) -> &'static str {
                match self { $(Self::$variant => $remedy,)+ }
            }

            /// Whether the same request may succeed later; sent to inference clients as `x-should-retry`.
            pub fn retry_helps(self) -> bool {
                match self { $(Self::$variant => error_codes!(@ $retry),)+ }
            }

            /// Returns when a client gets this error, for the generated error catalogue.
            pub fn doc(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc,)+),)+ }
            }
        }
    };
    (@ retry) => { true };
    (@ final) => { false };
}

error_codes! {
    /// The body is not JSON.
    InvalidJson = "invalid_json", 400, "invalid_request_error", final,
        "Send one JSON object; the message says where reading stopped.";
    /// The request is malformed in another way: a bad header, an unreadable path, a missing `model`.
    InvalidRequest = "invalid_request", 400, "invalid_request_error", final,
        "Correct what the message names: a header, the path, or a missing `model`.";
    /// A key appears twice in the body. The admin API refuses every repeated key; inference refuses one at the top
    /// level that decides routing.
    DuplicateKey = "duplicate_key", 400, "invalid_request_error", final,
        "Send each key once.";
    /// Clients may not send this parameter, or not this value.
    ParameterNotAllowed = "parameter_not_allowed", 400, "invalid_request_error", final,
        "Leave the parameter out, or use another value; the message says which.";
    /// The prompt and the longest answer that the request allows do not fit together into the model's context.
    ContextLengthExceeded = "context_length_exceeded", 400, "invalid_request_error", final,
        "Send a shorter prompt, or ask for fewer tokens; `GET /v1/models/{model}` has `max_model_len`.";
    /// The model has another task: a chat was sent to an embedding model, or embeddings were asked of a chat model.
    TaskMismatch = "task_mismatch", 400, "invalid_request_error", final,
        "Call a model of the right task; `GET /v1/models` says the task of each.";
    /// The request has no session, or its session has ended.
    Unauthenticated = "unauthenticated", 401, "authentication_error", final,
        "Sign in with `POST /auth/login`, and send the cookie.";
    /// The user name or the password is wrong, or a link to set a password is not valid any more.
    InvalidCredentials = "invalid_credentials", 401, "authentication_error", final,
        "Check name and password; an administrator can make a link to a new password.";
    /// The API key is missing, unknown, expired or revoked.
    InvalidApiKey = "invalid_api_key", 401, "authentication_error", final,
        "Send `Authorization: Bearer gty_…`, `x-api-key` or `api-key` with a key that is neither expired nor revoked; the \
         message names the header that was read.";
    /// The role does not allow it.
    Forbidden = "forbidden", 403, "permission_error", final,
        "Ask somebody with the role that the message names.";
    /// A page of another site or port sent the request with the session cookie.
    CrossSiteRequest = "cross_site_request", 403, "permission_error", final,
        "Call from a page of the gateway, or add the page's origin to `CORS_ALLOW_ORIGINS`.";
    /// The one-time set-up token is missing or wrong.
    SetupTokenRequired = "setup_token_required", 403, "permission_error", final,
        "Send the `setup_token` that the gateway printed at start, or make the owner on the machine itself.";
    /// The key lacks the scope of this endpoint.
    InsufficientScope = "insufficient_scope", 403, "permission_error", final,
        "Use a key with the scope that the message names, or add it to the key.";
    /// The key may not call this model.
    ModelNotAllowed = "model_not_allowed", 403, "permission_error", final,
        "Use another model, or add this one to the key's `models`.";
    /// The key may not be used from this address.
    IpNotAllowed = "ip_not_allowed", 403, "permission_error", final,
        "Call from an allowed address, or change the key's `ip_allowlist`; behind a proxy see `TRUSTED_PROXIES`.";
    /// The model hub refuses: the repository is gated or private, and the token is missing or may not read it.
    HubAccessDenied = "hub_access_denied", 403, "permission_error", final,
        "Accept the repository's terms at the hub, and set a `hub_token` that may read it.";
    /// There is no such object, or it belongs to another organisation.
    NotFound = "not_found", 404, "not_found_error", final,
        "Check the id; list the objects to see which there are.";
    /// There is no such path.
    UnknownRoute = "unknown_route", 404, "not_found_error", final,
        "Check the path against `/docs`.";
    /// No model has this served name.
    ModelNotFound = "model_not_found", 404, "not_found_error", final,
        "Check the name against `GET /v1/models`.";
    /// The engine behind this model has no such endpoint.
    UnsupportedByEngine = "unsupported_by_engine", 404, "not_found_error", final,
        "Use another endpoint, or serve the model with the other engine.";
    /// The path exists, but not with this method.
    MethodNotAllowed = "method_not_allowed", 405, "invalid_request_error", final,
        "Use a method that the `Allow` header names.";
    /// The client was too slow in sending its request.
    RequestTimeout = "request_timeout", 408, "invalid_request_error", retry,
        "Send again; if that does not help, check the network between client and gateway.";
    /// Another deployment job runs: there is one at a time.
    JobRunning = "job_running", 409, "conflict_error", final,
        "Wait for its end, or cancel it; `GET /admin/deployment/status` shows it.";
    /// An owner exists already.
    AlreadyBootstrapped = "already_bootstrapped", 409, "conflict_error", final,
        "Sign in; the owner makes further users.";
    /// The object's state does not allow the action.
    InvalidState = "invalid_state", 409, "conflict_error", final,
        "The message names the state; wait, or bring the object into another state first.";
    /// Another model that is not archived has this served name.
    ServedNameConflict = "served_name_conflict", 409, "conflict_error", final,
        "Choose another `served_name`, or archive the model that has it.";
    /// The name is taken.
    NameConflict = "name_conflict", 409, "conflict_error", final,
        "Choose another name.";
    /// The last owner can't be deleted, disabled or demoted.
    LastOwner = "last_owner", 409, "conflict_error", final,
        "Make another owner first.";
    /// Somebody changed the record after the revision that `If-Match` names.
    ChangedMeanwhile = "changed_meanwhile", 412, "conflict_error", final,
        "Read the record again, look at what was changed, and send the change with the record's new `revision`.";
    /// The body is larger than the limit of this route.
    RequestTooLarge = "request_too_large", 413, "invalid_request_error", final,
        "Send less, or raise `REQUEST_MAX_BODY_BYTES` for inference.";
    /// The body is not `application/json`.
    UnsupportedMediaType = "unsupported_media_type", 415, "invalid_request_error", final,
        "Send `Content-Type: application/json`.";
    /// The `Host` header is not one of this gateway's names.
    UnknownHost = "unknown_host", 421, "invalid_request_error", final,
        "Add the name to `ALLOWED_HOSTS`.";
    /// Fields are missing, unknown, of the wrong type or out of bounds; `error.details` lists all of them.
    ValidationError = "validation_error", 422, "invalid_request_error", final,
        "Correct every field that `error.details` names; `/docs` says which values each takes.";
    /// The path leads out of the models base directory.
    PathNotAllowed = "path_not_allowed", 422, "invalid_request_error", final,
        "Use a path below the directory that the message names.";
    /// A file or folder that the model's settings name does not exist; `param` names the field.
    ModelFileMissing = "model_file_missing", 422, "invalid_request_error", final,
        "Put the file below the models base directory, or change the field that `param` names; then start the model.";
    /// The key, its user or its organisation has reached a limit: requests or tokens a minute, requests or streams at
    /// once, changes by the organisation's administrators.
    RateLimitExceeded = "rate_limit_exceeded", 429, "rate_limit_error", retry,
        "Wait as long as `Retry-After` says, send less at once, or raise the limits.";
    /// The key, its user or its organisation has used up the tokens of the day or of the month.
    BudgetExceeded = "budget_exceeded", 429, "rate_limit_error", final,
        "Wait for the next day or month, or raise the budget.";
    /// The session has the most streams of events and logs open that it may have.
    TooManyStreams = "too_many_streams", 429, "rate_limit_error", retry,
        "Close pages of this session that nobody needs, then send again.";
    /// One user or address sent too many sign-ins, passwords or long reads of usage.
    TooManyAttempts = "too_many_attempts", 429, "rate_limit_error", retry,
        "Wait as long as `Retry-After` says.";
    /// The request's head is too large (the path is part of it), or has too many headers.
    HeadTooLarge = "request_head_too_large", 431, "invalid_request_error", final,
        "Send fewer or shorter headers; cookies of other programs on this host may be the cause.";
    /// Something went wrong inside the gateway; the log has the request id.
    Internal = "internal", 500, "server_error", retry,
        "Send again; if that does not help, report it with the log lines of the `request_id`.";
    /// The engine failed at the request; the message is the engine's, and `engine_code` is the engine's code.
    EngineError = "engine_error", 500, "server_error", retry,
        "Read the message: engines also answer this to some requests that can never succeed. Otherwise look at the engine's log.";
    /// The engine of a running model can't be reached, or broke before it answered.
    ModelUnavailable = "model_unavailable", 502, "server_error", retry,
        "Send again in a moment; look at the model's state and log.";
    /// The engine refuses the gateway's internal key: apply the model.
    EngineKeyMismatch = "engine_key_mismatch", 502, "server_error", final,
        "Apply the model: `POST /admin/models/{id}/apply`.";
    /// An engine or the model hub sent an answer that the gateway can't read.
    BadUpstream = "bad_upstream", 502, "server_error", retry,
        "Send again; if that does not help, look at the engine's log, or check `HUB_ENDPOINT`.";
    /// The gateway sent the request to an engine of the registry, and it came back: the entry leads to this gateway.
    RequestLoop = "request_loop", 508, "server_error", final,
        "Remove or change the entry of `/admin/models/registry` whose address is this gateway's.";
    /// The model exists but is not running.
    ModelNotRunning = "model_not_running", 503, "service_unavailable_error", final,
        "Start the model, or call one that `GET /v1/models` lists.";
    /// The engine image is not available and can't be fetched.
    ImageNotAvailable = "image_not_available", 503, "service_unavailable_error", final,
        "Load the image with `docker load`, choose another `engine_image`, or go online.";
    /// The model hub can't be reached, is not set up, or may not be asked in offline mode.
    HubUnavailable = "hub_unavailable", 503, "service_unavailable_error", retry,
        "Check `HUB_ENDPOINT` and the network, or use local files.";
    /// The container runtime can't be reached.
    RuntimeUnavailable = "runtime_unavailable", 503, "service_unavailable_error", retry,
        "Start Docker, or correct `CONTAINER_HOST`; models that run already go on.";
    /// The gateway can't read the state of the machine: one of its file systems does not answer.
    HostUnavailable = "host_unavailable", 503, "service_unavailable_error", retry,
        "Look for a network file system that hangs; bring its server back, or unmount it.";
    /// The bodies of the requests that are being read take all the memory that they may take together, or one key takes
    /// half of it.
    RequestMemoryFull = "request_memory_full", 503, "service_unavailable_error", retry,
        "Send again in a moment, send less at once, or, for inference, raise `REQUEST_BODY_MEMORY_BYTES`.";
    /// All sessions together have the most streams of events and logs open that the gateway serves.
    StreamsExhausted = "streams_exhausted", 503, "service_unavailable_error", retry,
        "Close pages that nobody needs, or raise `EVENT_STREAMS_MAX`.";
    /// The database has other work: the turn of this request did not come within 20 seconds, 1,000 others wait, or another
    /// program holds a lock for too long.
    DatabaseBusy = "database_busy", 503, "service_unavailable_error", retry,
        "Wait as long as `Retry-After` says; look at what keeps the machine of the database busy if it happens again.";
    /// The database can't be reached, or can't be written to.
    DatabaseUnavailable = "database_unavailable", 503, "service_unavailable_error", retry,
        "Bring the database back; inference goes on meanwhile.";
    /// Usage can't be recorded, so no inference is served.
    MeteringUnavailable = "metering_unavailable", 503, "service_unavailable_error", retry,
        "Free space in `DATA_DIR`, or correct its permissions.";
    /// The gateway is shutting down.
    ShuttingDown = "shutting_down", 503, "service_unavailable_error", retry,
        "Send again to another gateway, or when this one is back.";
    /// An engine, or the model hub, did not answer in time.
    UpstreamTimeout = "upstream_timeout", 504, "server_error", retry,
        "Send again; ask for fewer tokens, or raise the model's `request_timeout_sec`.";
}

/// Most problems of one body that an answer names.
const MOST_PROBLEMS: usize = 20;

/// One thing wrong with one field; the entries of `error.details`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldProblem {
    /// Name of the field or of the query parameter.
    pub param: String,
    pub message: String,
    /// `validation_error`, or a more specific code.
    pub code: ErrorCode,
}

impl FieldProblem {
    /// Makes a `validation_error` about the field `param`.
    pub fn new(param: &str, message: impl Into<String>) -> Self {
        Self { param: param.to_owned(), message: message.into(), code: ErrorCode::ValidationError }
    }

    /// Reports a field that does not exist; `hint` follows the message. A name that is long or can't be seen is shown as
    /// [`name::shown`] does.
    pub fn unknown(field: &str, hint: &str) -> Self {
        let field = name::shown(field);
        Self::new(&field, format!("there is no field `{field}`{hint}"))
    }

    /// Keeps the first 20 problems of a body, and says how many more there are.
    pub fn bounded(mut problems: Vec<Self>) -> Vec<Self> {
        let more = problems.len().saturating_sub(MOST_PROBLEMS);
        problems.truncate(MOST_PROBLEMS);
        if more > 0 {
            problems.push(Self::new("body", format!("there are {more} more problems")));
        }
        problems
    }
}

/// An error that is sent to a client. It holds nothing that a client may not know; causes go to the log.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiError {
    pub code: ErrorCode,
    pub message: String,
    pub param: Option<String>,
    pub details: Vec<FieldProblem>,
    /// Sent as `Retry-After`.
    pub retry_after_sec: Option<u64>,
    /// Sent as `retry-after-ms`, which the SDKs prefer to the whole seconds.
    pub retry_after_ms: Option<u64>,
    /// Overrides [`ErrorCode::retry_helps`].
    pub should_retry: Option<bool>,
}

impl ApiError {
    /// Makes an error with nothing but its code and message.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            param: None,
            details: Vec::new(),
            retry_after_sec: None,
            retry_after_ms: None,
            should_retry: None,
        }
    }

    /// Makes a 404: "there is no `what` `id`".
    pub fn not_found(what: &str, id: impl std::fmt::Display) -> Self {
        Self::new(ErrorCode::NotFound, format!("there is no {what} {id}"))
    }

    /// Makes the 500 error. The text of 5xx errors is fixed; what happened goes to the log.
    pub fn internal() -> Self {
        Self::new(ErrorCode::Internal, "something went wrong inside the gateway; its log has this request id")
    }

    /// Makes a 422 with every problem found. `param` and `code` are those of the first problem. If a problem needs
    /// another role (`forbidden`), they are the first such problem's, which makes the status 403. `problems` must not
    /// be empty.
    pub fn validation(problems: Vec<FieldProblem>) -> Self {
        let message = problems.iter().map(|it| it.message.as_str()).collect::<Vec<_>>().join("; ");
        let forbidden = problems.iter().find(|it| it.code == ErrorCode::Forbidden);
        let (param, code) = match forbidden.or(problems.first()) {
            Some(it) => (Some(it.param.clone()), it.code),
            None => (None, ErrorCode::ValidationError),
        };
        Self { param, details: problems, ..Self::new(code, message) }
    }

    /// Makes a 422 about one field.
    pub fn invalid(param: &str, message: impl Into<String>) -> Self {
        Self::validation(vec![FieldProblem::new(param, message)])
    }

    /// Names the parameter that is at fault.
    #[must_use]
    pub fn with_param(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }

    /// Sets `Retry-After`.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after_sec = Some(seconds);
        self
    }

    /// Sets both headers: milliseconds, and whole seconds that are never too short.
    #[must_use]
    pub fn retry_in(mut self, wait: std::time::Duration) -> Self {
        let ms = u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        self.retry_after_ms = Some(ms);
        self.retry_after_sec = Some(ms.div_ceil(1000).max(1));
        self
    }

    /// Says whether a retry can help, whatever the code says.
    #[must_use]
    pub fn retryable(mut self, retry: bool) -> Self {
        self.should_retry = Some(retry);
        self
    }

    /// Returns whether the same request may succeed later.
    pub fn should_retry(&self) -> bool {
        self.should_retry.unwrap_or_else(|| self.code.retry_helps())
    }

    /// Builds the body of the answer: `{"error":{message,type,param,code[,details]},"request_id"}`.
    pub fn body(&self, request_id: &str) -> Value {
        let mut error = json!({
            "message": self.message, "type": self.code.kind(), "param": self.param, "code": self.code.as_str(),
        });
        if !self.details.is_empty() {
            error["details"] = json!(self.details);
        }
        json!({ "error": error, "request_id": request_id })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_has_the_openai_shape_and_lists_every_problem() {
        let problem = |param: &str| FieldProblem::new(param, format!("`{param}` is bad"));
        let error = ApiError::validation(vec![problem("a"), problem("b")]);
        assert_eq!(
            error.body("r1"),
            json!({
                "error": {
                    "message": "`a` is bad; `b` is bad", "type": "invalid_request_error", "param": "a",
                    "code": "validation_error",
                    "details": [
                        {"param": "a", "message": "`a` is bad", "code": "validation_error"},
                        {"param": "b", "message": "`b` is bad", "code": "validation_error"}
                    ],
                },
                "request_id": "r1",
            })
        );
    }

    #[test]
    fn codes_are_unique() {
        let mut codes: Vec<_> = ErrorCode::ALL.iter().map(|it| it.as_str()).collect();
        codes.sort_unstable();
        assert!(codes.windows(2).all(|pair| pair[0] != pair[1]));
        assert!(ErrorCode::ALL.iter().all(|it| !it.doc().trim().is_empty()));
    }
}
