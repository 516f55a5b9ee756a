//! Whom an engine failed, and whether that says something about the engine.
//!
//! A complete, well-formed 500 comes from an engine that lives. Often the request is at fault (engines answer many a mistake of
//! a client so), and then one client could take the model from all others. It speaks against the engine only if it came to
//! several callers, or to all that there are.

use gantry_domain::{KeyId, OrgId, UserId};

use crate::Catalog;

/// Who sent a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Who {
    pub key: Option<KeyId>,
    pub user: Option<UserId>,
    pub org: Option<OrgId>,
}

impl Who {
    /// Nobody can be told from anybody ([`crate::Config::allow_all_keys`]).
    fn is_anyone(self) -> bool {
        self == Self::default()
    }

    /// All keys of a user are one person: users make as many as they like.
    fn is_same_person(self, other: Self) -> bool {
        match (self.user, other.user) {
            (Some(a), Some(b)) => a == b,
            (None, None) => self.key == other.key,
            _ => false,
        }
    }
}

/// Callers who got nothing but errors of an engine since it last succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// Those who got so many of them that they are given a pause.
    pub paused: Vec<Who>,
    /// They, and those who got fewer.
    pub all: Vec<Who>,
    /// See [`crate::breaker::Settings::failures`].
    pub failures: u32,
}

impl Complaint {
    /// Whether it speaks against the engine: everybody complains; or two persons are given a pause, or as many complain as
    /// failures open the breaker, and not all of them belong to one of several organisations.
    pub fn holds(&self, catalog: &Catalog) -> bool {
        if self.is_of_everybody(catalog) {
            return true;
        }
        let enough =
            |callers: &[Who], n: usize| persons(callers) >= n && !of_one_of_several(callers, catalog);
        enough(&self.paused, 2) || enough(&self.all, (self.failures as usize).max(2))
    }

    fn is_of_everybody(&self, catalog: &Catalog) -> bool {
        let paused = &self.paused;
        let key = |id: KeyId| paused.iter().any(|it| it.key == Some(id));
        let user = |id: UserId| paused.iter().any(|it| it.user == Some(id));
        paused.iter().any(|it| it.is_anyone())
            || (!paused.is_empty()
                && catalog.keys.values().all(|it| key(it.id))
                && catalog.sessions.values().all(|it| user(it.user_id)))
    }
}

fn persons(callers: &[Who]) -> usize {
    let first = |(n, who): &(usize, &Who)| !callers[..*n].iter().any(|it| it.is_same_person(**who));
    callers.iter().enumerate().filter(first).count()
}

fn of_one_of_several(callers: &[Who], catalog: &Catalog) -> bool {
    let Some(first) = callers.first() else { return false };
    let other = |org: OrgId| Some(org) != first.org;
    callers.iter().all(|it| it.org == first.org)
        && (catalog.keys.values().any(|it| other(it.org_id))
            || catalog.sessions.values().any(|it| other(it.org_id)))
}
