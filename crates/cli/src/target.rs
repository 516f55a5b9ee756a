//! Which gateway a command talks to, and as whom: `--url` or `--context`, else `GANTRY_CONTEXT` or `GANTRY_URL`, else the
//! context in use, else the gateway of this machine (`GATEWAY_LISTEN`, which a gateway's container has).

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
};

use clap::ArgMatches;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use crate::{
    exit::{Failure, Outcome},
    http::{DEFAULT_URL, GatewayUrl, Login},
    options::text,
    private_file::PrivateFile,
    session::Sessions,
    text::clean,
};

/// Named gateways.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Contexts {
    /// Name of the context in use; `None` means the gateway of this machine.
    #[serde(default)]
    pub(crate) current: Option<String>,
    /// Addresses by name.
    #[serde(default)]
    pub(crate) contexts: BTreeMap<String, String>,
}

pub(crate) fn contexts() -> Outcome<PrivateFile<Contexts>> {
    PrivateFile::of_user("contexts.json", "remove it, and add the contexts again with `gantry context add`")
}

/// One gateway, by address or by name.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) gateway: GatewayUrl,
    pub(crate) context: Option<String>,
}

impl Target {
    pub(crate) fn of(matches: &ArgMatches) -> Outcome<Self> {
        if let Some(given) = Self::given(matches)? {
            return Ok(given);
        }
        // Without a home directory there are no contexts.
        match contexts().ok().map(|it| it.read()).transpose()?.and_then(|it| it.current) {
            Some(name) => Self::named(&name),
            None => Self::at(&of_this_machine()),
        }
    }

    /// Returns the gateway that the command line or the environment names; ignores the context in use.
    pub(crate) fn given(matches: &ArgMatches) -> Outcome<Option<Self>> {
        let given = |name| text(matches, name).map(str::to_owned).filter(|it: &String| !it.is_empty());
        match (given("url"), given("context")) {
            (Some(_), Some(_)) => Err(Failure::Usage("use either --url or --context, not both".to_owned())),
            (Some(url), None) => Self::at(&url).map(Some),
            (None, Some(name)) => Self::named(&name).map(Some),
            (None, None) => match (variable("GANTRY_CONTEXT"), variable("GANTRY_URL")) {
                (Some(name), _) => Self::named(&name).map(Some),
                (None, Some(url)) => Self::at(&url).map(Some),
                (None, None) => Ok(None),
            },
        }
    }

    pub(crate) fn at(url: &str) -> Outcome<Self> {
        Ok(Self { gateway: GatewayUrl::parse(url)?, context: None })
    }

    fn named(name: &str) -> Outcome<Self> {
        let known = contexts()?.read()?.contexts;
        let Some(url) = known.get(name) else {
            let name = clean(name);
            return Err(Failure::NotFound(format!(
                "there is no context `{name}`: `gantry context list` lists them all, `gantry context add {name} URL` adds \
                 it"
            )));
        };
        Ok(Self { gateway: GatewayUrl::parse(url)?, context: Some(name.to_owned()) })
    }

    /// Returns the name under which its session is stored, made of address and context. Two contexts with one address
    /// do not share a session, and a context whose address changed does not use its old session.
    pub(crate) fn key(&self) -> String {
        match &self.context {
            Some(name) => format!("{} ({name})", self.gateway.url()),
            None => self.gateway.url(),
        }
    }

    /// Returns the credentials: `--token`, else `GANTRY_TOKEN`, else the login that `gantry login` stored.
    pub(crate) fn login(&self, matches: &ArgMatches, sessions: &Sessions) -> Outcome<Login> {
        let token = text(matches, "token").map(str::to_owned).or_else(|| variable("GANTRY_TOKEN"));
        match token {
            Some(token) => Ok(Login::Bearer(SecretString::from(token.trim().to_owned()))),
            None => sessions.login(&self.key()),
        }
    }
}

/// Returns the address of the gateway of this machine. Beside a gateway in a container the environment has its setting.
fn of_this_machine() -> String {
    let listen = variable("GATEWAY_LISTEN").and_then(|it| it.parse::<SocketAddr>().ok());
    let Some(mut addr) = listen.filter(|it| it.port() != 0) else { return DEFAULT_URL.to_owned() };
    if addr.ip().is_unspecified() {
        addr.set_ip(if addr.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
    }
    format!("http://{addr}")
}

/// Returns an environment variable, if it is not empty.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).and_then(|it| it.into_string().ok()).filter(|it| !it.is_empty())
}
