//! Tokens with which a person's scripts call the admin API without that person's password: the token's scopes and its
//! record.
//!
//! A token acts as its user, with the role that the user has at that moment, and only in the areas that its scopes
//! name. The route table defines the areas.

use std::{collections::BTreeSet, fmt, time::Duration};

use crate::{Timestamp, TokenId, UserId, words};

/// Lifetime of a token that is created without an end date.
pub const DEFAULT_LIFETIME: Duration = Duration::from_hours(90 * 24);
/// Longest lifetime of a token: a leap year.
pub const MAX_LIFETIME: Duration = Duration::from_hours(366 * 24);
/// The area that stands for all areas.
pub const EVERY_AREA: &str = "*";

words! {
    /// What a scope lets its token do in an area.
    #[derive(PartialOrd, Ord)]
    pub enum Right {
        /// `GET`.
        Read = "read",
        /// Every other method, and `GET`.
        Write = "write",
    }
}

/// A set of scopes, each `area:read` or `area:write`; written with commas between, in a fixed order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenScopes(BTreeSet<(String, Right)>);

/// Why scopes of a token can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTokenScopes {
    /// A word is not of the form `area:right`.
    #[error("`{0}` is not a scope: write it as area:read or area:write")]
    Form(String),
    /// The area is unknown; `known` lists those that there are.
    #[error("there is no area `{area}`; the areas are {known}")]
    Area { area: String, known: String },
    /// There is no scope.
    #[error("at least one scope is needed, such as models:read")]
    Empty,
}

impl TokenScopes {
    /// Reads scopes separated by commas. `areas` are the known areas, without [`EVERY_AREA`].
    ///
    /// # Errors
    /// There is no scope at all, a scope has another form, or it names an unknown area.
    pub fn parse(text: &str, areas: &[&str]) -> Result<Self, InvalidTokenScopes> {
        let mut scopes = BTreeSet::new();
        for word in text.split(',').map(str::trim).filter(|it| !it.is_empty()) {
            let scope = scope(word).ok_or_else(|| InvalidTokenScopes::Form(word.to_owned()))?;
            if scope.0 != EVERY_AREA && !areas.contains(&scope.0.as_str()) {
                let known = format!("{}, and {EVERY_AREA} for all of them", areas.join(", "));
                return Err(InvalidTokenScopes::Area { area: scope.0, known });
            }
            scopes.insert(scope);
        }
        if scopes.is_empty() { Err(InvalidTokenScopes::Empty) } else { Ok(Self(scopes)) }
    }

    /// Reads stored scopes. A word that this version does not know allows nothing.
    pub fn from_stored(text: &str) -> Self {
        Self(text.split(',').filter_map(scope).collect())
    }

    /// Returns whether a scope covers this right in this area. `write` includes `read`.
    pub fn allows(&self, area: &str, right: Right) -> bool {
        self.0.iter().any(|(own, most)| (own == area || own == EVERY_AREA) && *most >= right)
    }
}

fn scope(word: &str) -> Option<(String, Right)> {
    let (area, right) = word.split_once(':')?;
    Some((area.to_owned(), Right::parse(right)?))
}

impl fmt::Display for TokenScopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = self.0.iter().map(|(area, right)| format!("{area}:{}", right.as_str())).collect();
        f.write_str(&words.join(","))
    }
}

/// A stored token. Only the hash of the token itself is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountToken {
    pub id: TokenId,
    pub user_id: UserId,
    /// 1–100 characters, shown to people.
    pub name: String,
    /// First characters of the token.
    pub prefix: String,
    pub scopes: TokenScopes,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub last_used_at: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const AREAS: &[&str] = &["keys", "models"];

    #[test]
    fn scopes_are_a_set_in_a_fixed_order() {
        let scopes = TokenScopes::parse("models:write, keys:read,,keys:read", AREAS).unwrap();
        assert_eq!(scopes.to_string(), "keys:read,models:write");
        assert_eq!(TokenScopes::from_stored("keys:read,models:write"), scopes);
        assert_eq!(TokenScopes::parse(" , ", AREAS), Err(InvalidTokenScopes::Empty));
        for bad in ["keys", "keys:own", ":", "keys:read:write"] {
            assert_eq!(
                TokenScopes::parse(bad, AREAS),
                Err(InvalidTokenScopes::Form(bad.to_owned())),
                "{bad}"
            );
        }
        let unknown = TokenScopes::parse("roads:read", AREAS).unwrap_err().to_string();
        assert_eq!(unknown, "there is no area `roads`; the areas are keys, models, and * for all of them");
    }

    #[test]
    fn who_may_write_may_read_and_a_star_is_every_area() {
        let of = |text: &str| TokenScopes::from_stored(text);
        assert!(
            of("keys:write").allows("keys", Right::Read) && of("keys:write").allows("keys", Right::Write)
        );
        assert!(of("keys:read").allows("keys", Right::Read) && !of("keys:read").allows("keys", Right::Write));
        assert!(!of("keys:write").allows("models", Right::Read));
        assert!(of("*:read").allows("models", Right::Read) && !of("*:read").allows("models", Right::Write));
        assert!(!of("gone:write,nonsense").allows("keys", Right::Read));
    }
}
