//! Finds out who the caller is: an API key, a signed-in user, or anyone in development. The head of the request alone
//! decides.

use std::{
    net::IpAddr,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use gantry_domain::{
    ApiError, ErrorCode, KeyId, OrgId, Timestamp, UserId,
    identity::session_cookie,
    key::{self, Scope, TokenKind},
    model::Task,
    net,
};
use http::{HeaderMap, HeaderValue, header};

use crate::{
    caller_id::CallerId,
    catalog::{Catalog, KeyEntry, SessionEntry},
    config::Config,
    limits::{Charges, Refusals},
    shared::Shared,
};

/// A request that passed authentication.
#[derive(Debug, Clone)]
pub(crate) enum Caller {
    Key(Arc<KeyEntry>),
    Session(Arc<SessionEntry>),
    /// [`Config::allow_all_keys`].
    Anyone,
}

impl Caller {
    pub(crate) fn key(&self) -> Option<&Arc<KeyEntry>> {
        match self {
            Self::Key(key) => Some(key),
            Self::Session(_) | Self::Anyone => None,
        }
    }

    pub(crate) fn key_id(&self) -> Option<KeyId> {
        self.key().map(|key| key.id)
    }

    pub(crate) fn user_id(&self) -> Option<UserId> {
        match self {
            Self::Key(key) => key.user_id,
            Self::Session(session) => Some(session.user_id),
            Self::Anyone => None,
        }
    }

    pub(crate) fn org_id(&self) -> Option<OrgId> {
        match self {
            Self::Key(key) => Some(key.org_id),
            Self::Session(session) => Some(session.org_id),
            Self::Anyone => None,
        }
    }

    /// Returns the ids that tell callers apart.
    pub(crate) fn id(&self) -> CallerId {
        CallerId { key: self.key_id(), user: self.user_id(), org: self.org_id() }
    }

    /// Returns the accounts that its requests are charged to, if it has limits.
    pub(crate) fn charges(&self) -> Option<&Arc<Charges>> {
        match self {
            Self::Key(key) => key.charges.as_ref(),
            Self::Session(session) => session.charges.as_ref(),
            Self::Anyone => None,
        }
    }

    /// What its refusals cost.
    pub(crate) fn refusals<'a>(&'a self, shared: &'a Shared) -> &'a Refusals {
        match self {
            Self::Key(key) => &key.refusals,
            Self::Session(session) => &session.refusals,
            Self::Anyone => &shared.refusals,
        }
    }

    /// Returns whether the key or session has ended since the request was admitted, see [`crate::Shared::publish`].
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Self::Key(key) => key.state.ended.load(Relaxed),
            Self::Session(session) => session.ended.load(Relaxed),
            Self::Anyone => false,
        }
    }

    pub(crate) fn may_call(&self, served_name: &str) -> bool {
        match self {
            Self::Key(key) => key.may_call(served_name),
            Self::Session(session) => session.may_call(served_name),
            Self::Anyone => true,
        }
    }

    /// Returns whether the caller has a scope for models of this task.
    pub(crate) fn fits(&self, task: Task) -> bool {
        self.key().is_none_or(|key| key.scopes.fit(task))
    }

    /// Checks the caller's address and scope. A refused request has a usage row, because its caller is known.
    ///
    /// # Errors
    /// 403 `ip_not_allowed` or `insufficient_scope`.
    pub(crate) fn authorize(
        &self,
        config: &Config,
        headers: &HeaderMap,
        peer: IpAddr,
        scope: Option<Scope>,
    ) -> Result<(), ApiError> {
        let Self::Key(key) = self else { return Ok(()) };
        if !key.ip_allowlist.is_empty() {
            let client = client(config, headers, peer);
            if !client.is_some_and(|ip| key.ip_allowlist.contains(ip)) {
                let message = "this key may not be used from this address";
                return Err(ApiError::new(ErrorCode::IpNotAllowed, message));
            }
        }
        match scope {
            Some(scope) if !key.scopes.allows(scope) => {
                let message = format!("this key lacks the scope `{}`", scope.as_str());
                Err(ApiError::new(ErrorCode::InsufficientScope, message))
            }
            _ => Ok(()),
        }
    }
}

/// The client's address, with proxies taken into account; `None` when a trusted proxy sent nonsense.
pub(crate) fn client(config: &Config, headers: &HeaderMap, peer: IpAddr) -> Option<IpAddr> {
    let forwarded = headers.get_all("x-forwarded-for").iter().map(HeaderValue::as_bytes);
    net::client_ip(peer, &config.trusted_proxies, forwarded)
}

/// Finds out who the caller is. `changes` means that the request has an effect: pages of other sites may not send it
/// then, even if no key is needed.
///
/// # Errors
/// 401 `invalid_api_key`, or 403 `cross_site_request`.
pub(crate) fn authenticate(
    config: &Config,
    catalog: &Catalog,
    headers: &HeaderMap,
    now: Timestamp,
    changes: bool,
) -> Result<Caller, ApiError> {
    let cross_site = |message: &str| Err(ApiError::new(ErrorCode::CrossSiteRequest, message));
    if config.allow_all_keys {
        if changes && !config.web.is_same_site(headers) {
            return cross_site("without keys, requests must not come from pages of other sites");
        }
        let key = token(headers).and_then(|it| catalog.keys.get(&key::hash(it.token)));
        return Ok(match (key, session(config, catalog, headers, now)) {
            (Some(key), _) => {
                key.state.touch(now);
                Caller::Key(Arc::new(key.with_everything_allowed()))
            }
            (None, Some(session)) if token(headers).is_none() => Caller::Session(session),
            _ => Caller::Anyone,
        });
    }
    let Some(sent) = token(headers) else {
        if let Some(session) = session(config, catalog, headers, now) {
            if !config.web.is_same_site(headers) {
                return cross_site("requests with a session cookie must come from the gateway's own pages");
            }
            return Ok(Caller::Session(session));
        }
        return Err(unknown("the API key is missing: send `Authorization: Bearer <key>`"));
    };
    // Looking up a hash compares nothing of the secret itself, so the time it takes tells nothing about it.
    let entry = catalog.keys.get(&key::hash(sent.token)).ok_or_else(|| refused(&sent, headers))?;
    if entry.expires_at.is_some_and(|at| at <= now) {
        return Err(unknown(&format!("the API key in `{}` has expired", sent.header)));
    }
    entry.state.touch(now);
    Ok(Caller::Key(Arc::clone(entry)))
}

/// Returns the error for a token that is no key.
fn refused(sent: &Sent<'_>, headers: &HeaderMap) -> ApiError {
    if sent.token.starts_with(TokenKind::Account.prefix().as_bytes()) {
        return unknown(
            "this is a token for the admin API; models are called with an API key, which begins with gty_",
        );
    }
    let read = sent.header;
    // Some clients send the key of another service beside the gateway's.
    let unread = KEY_HEADERS.into_iter().find(|it| *it != read && sent_in(headers, it).is_some());
    unknown(&match unread {
        Some(other) => format!("the API key in `{read}` is not valid, and `{other}` is not read beside it"),
        None => format!("the API key in `{read}` is not valid"),
    })
}

fn unknown(message: &str) -> ApiError {
    ApiError::new(ErrorCode::InvalidApiKey, message)
}

/// The headers that may have the key; the first that has one is read. The last is that of Azure's clients.
const KEY_HEADERS: [&str; 3] = ["authorization", "x-api-key", "api-key"];

/// A key that was sent, valid or not.
struct Sent<'a> {
    header: &'static str,
    token: &'a [u8],
}

fn token(headers: &HeaderMap) -> Option<Sent<'_>> {
    KEY_HEADERS.into_iter().find_map(|header| Some(Sent { header, token: sent_in(headers, header)? }))
}

/// Returns what one of the [`KEY_HEADERS`] has.
fn sent_in<'a>(headers: &'a HeaderMap, header: &str) -> Option<&'a [u8]> {
    let value = headers.get(header)?.as_bytes();
    let token = if header == "authorization" {
        let (scheme, token) = value.split_at_checked(7)?;
        scheme.eq_ignore_ascii_case(b"bearer ").then_some(token)?
    } else {
        value
    };
    Some(token.trim_ascii()).filter(|it| !it.is_empty())
}

fn session(
    config: &Config,
    catalog: &Catalog,
    headers: &HeaderMap,
    now: Timestamp,
) -> Option<Arc<SessionEntry>> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|it| it.to_str().ok());
    let entry = catalog.sessions.get(&(config.session)(session_cookie(cookies)?)?)?;
    entry.is_current(now).then(|| Arc::clone(entry))
}
