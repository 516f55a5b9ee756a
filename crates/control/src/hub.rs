//! Asks the model hub what `config.json` of a repository says, and which files are beside it.
//!
//! The operator chooses the host (`HUB_ENDPOINT`, else the public hub), never a caller: a request decides only the
//! repository, whose name is checked. A token goes to that host alone; redirects to another host are not followed.
//! Addresses of the hub's API: `huggingface_hub` 1.0 `src/huggingface_hub/file_download.py` (`hf_hub_url`) and
//! `hf_api.py` (`model_info` with `files_metadata`, which gives sizes).

use std::time::Duration;

use bytes::Bytes;
use gantry_connect::{ConnectError, Connector, HttpError, HttpUrl};
use gantry_domain::{ApiError, ErrorCode};
use http::{HeaderValue, Request, Response, StatusCode, Uri, header};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

/// Longest time for all requests of one lookup, redirects included.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time for the list of files, which the answer can do without.
const FILES_TIMEOUT: Duration = Duration::from_secs(4);
/// Largest answer that is read, in bytes.
const MAX_ANSWER: usize = 1 << 20;
const MAX_REDIRECTS: usize = 3;

/// The hub that is asked unless `HUB_ENDPOINT` names another one: the engines' own default.
pub const PUBLIC: &str = "huggingface.co";

/// What the hub says about a repository.
#[derive(Debug, Clone)]
pub struct HubRepository {
    /// `config.json` as it came; `None` if the repository has none, as repositories of GGUF files.
    pub config: Option<Bytes>,
    /// Its files; `None` if the hub did not list them.
    pub files: Option<Vec<File>>,
}

/// One file of a repository.
#[derive(Debug, Clone, Deserialize)]
pub struct File {
    #[serde(rename = "rfilename")]
    pub path: String,
    /// In bytes; `None` if the hub does not say.
    #[serde(default)]
    pub size: Option<u64>,
}

/// The hub, and whether it may be asked.
pub struct Hub {
    endpoint: HttpUrl,
    offline: bool,
    connector: Connector,
}

/// The part of `GET /api/models/{repo_id}` that matters.
#[derive(Deserialize)]
struct Info {
    siblings: Vec<File>,
}

impl Hub {
    /// Makes the hub at `endpoint`, by default the public one; `http://` is for mirrors on one's own network. If
    /// `offline` is true, it is never asked.
    pub fn new(endpoint: Option<HttpUrl>, offline: bool) -> Self {
        let endpoint = endpoint.unwrap_or_else(|| HttpUrl::https(PUBLIC));
        Self { endpoint, offline, connector: Connector::default() }
    }

    /// Looks at the repository `repo_id`, which is `owner/name` or `name`, checked.
    ///
    /// # Errors
    /// The error that the caller of the API gets.
    pub async fn repository(
        &self,
        repo_id: &str,
        token: Option<&SecretString>,
    ) -> Result<HubRepository, ApiError> {
        if self.offline {
            return Err(unavailable(
                "the system is in offline mode (OFFLINE_MODE): the model hub is not asked",
            ));
        }
        let base = self.endpoint.base();
        let config = self.get(format!("{base}/{repo_id}/resolve/main/config.json"), token);
        let info = format!("{base}/api/models/{repo_id}?blobs=true");
        let files = tokio::time::timeout(FILES_TIMEOUT, self.get(info, token));
        // If the request for the configuration fails, the list of files is not awaited.
        let both = async { tokio::try_join!(config, async { Ok(files.await) }) };
        let (config, files) = tokio::time::timeout(TIMEOUT, both).await.map_err(|_| {
            ApiError::new(ErrorCode::UpstreamTimeout, "the model hub did not answer in time")
        })??;
        let files = match files {
            Ok(Ok(answer)) if answer.status().is_success() => files_of(answer.body()),
            _ => None,
        };
        match config.status() {
            StatusCode::OK => Ok(HubRepository { config: Some(config.into_body()), files }),
            // The repository exists, but this file does not.
            StatusCode::NOT_FOUND if files.is_some() => Ok(HubRepository { config: None, files }),
            status => Err(refused(status, repo_id, token.is_some())),
        }
    }

    /// Sends one `GET`, and follows its redirects within the host.
    async fn get(&self, mut path: String, token: Option<&SecretString>) -> Result<Response<Bytes>, ApiError> {
        for _ in 0..=MAX_REDIRECTS {
            match self.exchange(&path, token).await? {
                Reply::Answer(answer) => return Ok(answer),
                Reply::Redirect(location) => {
                    path = on_host(&self.endpoint, &location).ok_or_else(|| {
                        bad("the model hub redirects to another host, which is not followed")
                    })?;
                }
            }
        }
        Err(bad("the model hub redirects in circles"))
    }

    async fn exchange(&self, path: &str, token: Option<&SecretString>) -> Result<Reply, ApiError> {
        let mut connection = self.connector.http(&self.endpoint).await.map_err(|it| unreachable(&it))?;
        let request = request(&self.endpoint, path, token)?;
        let answer = connection.send(request).await.map_err(|it| broken(&it))?;
        if answer.head.status.is_redirection() {
            let location = answer.head.headers.get(header::LOCATION).and_then(|it| it.to_str().ok());
            return location
                .map(|it| Reply::Redirect(it.to_owned()))
                .ok_or_else(|| bad("the model hub redirects to nowhere"));
        }
        answer.read(MAX_ANSWER).await.map(Reply::Answer).map_err(|it| broken(&it))
    }
}

enum Reply {
    Answer(Response<Bytes>),
    Redirect(String),
}

/// Returns path and query of a redirect that stays with this host; `None` if it leads elsewhere.
fn on_host(endpoint: &HttpUrl, location: &str) -> Option<String> {
    if location.starts_with('/') && !location.starts_with("//") && !location.contains('\\') {
        return Some(location.to_owned());
    }
    let target = HttpUrl::parse(location.split(['?', '#']).next()?)?;
    let uri: Uri = location.parse().ok()?;
    let path = || uri.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string);
    target.has_origin_of(endpoint).then(path)
}

fn request(endpoint: &HttpUrl, path: &str, token: Option<&SecretString>) -> Result<Request<Bytes>, ApiError> {
    let mut request = Request::get(path)
        .header(header::HOST, endpoint.authority())
        .header(header::USER_AGENT, concat!("gantry/", env!("CARGO_PKG_VERSION")))
        .header(header::ACCEPT, "application/json, text/plain, */*")
        .header(header::ACCEPT_ENCODING, "identity")
        .header(header::CONNECTION, "close")
        .body(Bytes::new())
        .map_err(|_| bad("the model hub redirects to what is no address"))?;
    if let Some(token) = token {
        let mut value = HeaderValue::try_from(format!("Bearer {}", token.expose_secret())).map_err(|_| {
            ApiError::invalid("hub_token", "`hub_token` has characters that a header can't carry")
        })?;
        value.set_sensitive(true);
        request.headers_mut().insert(header::AUTHORIZATION, value);
    }
    Ok(request)
}

fn unreachable(error: &ConnectError) -> ApiError {
    let mut what = error.to_string();
    if let ConnectError::Tls(source) = error {
        // Says which check of the certificate failed.
        tracing::warn!(error = source as &dyn std::error::Error, "TLS with the model hub failed");
        what.push_str("; see the gateway's log (a mirror's own certificate belongs into the system's store)");
    }
    unavailable(&format!("the model hub can't be reached: {what}"))
}

fn broken(error: &HttpError) -> ApiError {
    match error {
        HttpError::NoAnswer => unavailable("the model hub closed the connection without an answer"),
        HttpError::BrokenOff => unavailable("the model hub's answer broke off"),
        HttpError::TooLarge => bad("the model hub's answer is larger than 1 MiB"),
    }
}

fn files_of(body: &[u8]) -> Option<Vec<File>> {
    Some(serde_json::from_slice::<Info>(body).ok()?.siblings)
}

fn refused(status: StatusCode, repo_id: &str, with_token: bool) -> ApiError {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            let what = if with_token {
                "and this `hub_token` may not read it: ask for access on the hub, or use another token"
            } else {
                "and no token was sent: use the `hub_token` of somebody who may read it"
            };
            let message = format!("the repository {repo_id} is gated or private (or there is none), {what}");
            ApiError::new(ErrorCode::HubAccessDenied, message).with_param("hub_token")
        }
        StatusCode::NOT_FOUND => ApiError::new(
            ErrorCode::NotFound,
            format!("the model hub has no repository {repo_id}, or it has no config.json"),
        )
        .with_param("repo_id"),
        status => unavailable(&format!("the model hub answers {}", status.as_u16())),
    }
}

fn unavailable(message: &str) -> ApiError {
    ApiError::new(ErrorCode::HubUnavailable, message)
}

fn bad(message: &str) -> ApiError {
    ApiError::new(ErrorCode::BadUpstream, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_setting_it_is_the_public_hub_by_https() {
        let endpoint = Hub::new(None, false).endpoint;
        assert_eq!(Some(&endpoint), HttpUrl::parse("https://huggingface.co").as_ref());
        // The hub redirects small files to its own host. A redirect to another host is not followed.
        assert!(on_host(&endpoint, "/api/resolve-cache/models/a/b/0/config.json").is_some());
        assert_eq!(on_host(&endpoint, "https://cdn-lfs.huggingface.co/x"), None);
        let mirror = HttpUrl::parse("http://127.0.0.1:1").unwrap();
        assert_eq!(Hub::new(Some(mirror.clone()), false).endpoint, mirror);
    }

    #[test]
    fn only_an_address_is_an_endpoint_and_only_its_own_host_is_followed() {
        for wrong in
            ["", "hub", "hub:80", "ftp://hub", "https://", "http://u:p@hub", "https://hub?x", "https://hub#x"]
        {
            assert_eq!(HttpUrl::parse(wrong), None, "{wrong}");
        }
        let hub = HttpUrl::parse("https://Hub.example/base/").unwrap();
        assert_eq!((hub.port(), hub.host(), hub.base()), (443, "hub.example", "/base"));
        for (location, path) in [
            ("/a?b=c", Some("/a?b=c")),
            ("https://hub.example/x?y", Some("/x?y")),
            ("https://HUB.example:443/x", Some("/x")),
            ("https://hub.example", Some("/")),
            ("http://hub.example/x", None),
            ("https://hub.example:444/x", None),
            ("https://hub.example.evil/x", None),
            ("https://hub.example@evil/x", None),
            ("//evil/x", None),
            ("/\\evil/x", None),
            ("https:evil", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(on_host(&hub, location).as_deref(), path, "{location}");
        }
        assert_eq!(HttpUrl::parse("http://[::1]:8080").unwrap().host(), "::1");
    }
}
