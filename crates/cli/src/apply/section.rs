//! The sections of a file for `apply`: where the gateway has their records, and which fields their entries take.

use gantry_domain::model::{
    fields,
    identity::{self, Kind},
};

use crate::limits;

/// A section, in the order in which sections are applied: keys belong to users, and users to organisations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Section {
    Organisations,
    Users,
    Models,
    Registry,
    Keys,
    Limits,
}

/// Fields of a new model that are not part of its record.
const WISHES: [&str; 2] = ["force", "profile"];

impl Section {
    pub(super) const ALL: [Self; 6] =
        [Self::Organisations, Self::Users, Self::Models, Self::Registry, Self::Keys, Self::Limits];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Organisations => "organisations",
            Self::Users => "users",
            Self::Models => "models",
            Self::Registry => "registry",
            Self::Keys => "keys",
            Self::Limits => "limits",
        }
    }

    pub(super) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == word)
    }

    /// Returns where the gateway has the records. Limits have none of their own.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Organisations | Self::Limits => "/admin/orgs",
            Self::Users => "/admin/users",
            Self::Models => "/admin/models",
            Self::Registry => "/admin/models/registry",
            Self::Keys => "/admin/keys",
        }
    }

    /// Returns the query of the list: archived models do not hold their names.
    pub(super) fn narrow(self) -> Vec<(&'static str, String)> {
        if self == Self::Models { vec![("archived", "false".to_owned())] } else { Vec::new() }
    }

    /// Returns the field that names an entry.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Organisations | Self::Keys | Self::Limits => "name",
            Self::Users => "username",
            Self::Models | Self::Registry => "served_name",
        }
    }

    /// Returns the fields of an entry: those of the request that creates a record. Where the request has the id of an
    /// organisation or user, an entry has the name, and a user's password is not written into files.
    pub(super) fn fields(self) -> Vec<&'static str> {
        let limits = limits::units().map(|(field, _)| field);
        match self {
            Self::Organisations => std::iter::once("name").chain(limits).collect(),
            Self::Users => {
                ["username", "role", "org_name", "enabled", "models"].into_iter().chain(limits).collect()
            }
            Self::Models => {
                // An archived model can't be found by its name, which is free.
                let columns = identity::COLUMNS.iter().filter(|it| it.kind != Kind::Flag).map(|it| it.name);
                columns.chain(WISHES).chain(fields::all().map(|it| it.name)).collect()
            }
            Self::Registry => vec!["served_name", "url", "urls", "task", "upstream_model", "api_key"],
            Self::Keys => {
                let own = ["name", "org_name", "username", "scopes", "models", "ip_allowlist"];
                own.into_iter().chain(["expires_at", "limit_mode"]).chain(limits).collect()
            }
            Self::Limits => ["org_name", "username"].into_iter().chain(limits).collect(),
        }
    }

    /// Returns the fields that the gateway never shows. They can't be compared, so they are sent when something else of the
    /// entry is.
    pub(super) fn unseen(self) -> &'static [&'static str] {
        match self {
            Self::Models => &["force", "profile", "hub_token"],
            Self::Registry => &["api_key"],
            _ => &[],
        }
    }
}
