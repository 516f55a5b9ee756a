//! Limits of keys and organisations. Atomics only, nothing waits: a request is decided on what this process knows.
//!
//! - [`Account`]: a key, a user or an organisation with its limits, and the [`AccountState`] that outlives catalogs
//! - [`Charges`]: the accounts that a caller's requests are charged to; callers without limits have none, and pay nothing
//! - [`Ticket`]: what a request took of them, settled when it ends
//! - [`GatewayLink`]: the connection to the other gateways, if there are any (`gantry_control::share` is at its other end)
//!
//! A place among the running requests is taken as soon as the caller is known; everything else is taken when the body
//! has been read. Then requests a minute are counted, and tokens a minute are reserved by a bounded estimate, which is
//! settled by the engine's count when the request ends. Budgets are counted at the end of a request; so they may be
//! exceeded by what the requests in flight use.
//!
//! With a link every decision is still local: the state that gateways share is updated in the background, some
//! milliseconds later. Until then another gateway may admit requests for which nothing is left of the limit. None of
//! that is forgiven: it is a debt that delays later requests. Over any time, all gateways together admit at most the
//! limit plus, once, what arrived within one exchange. If this gateway has no news of an account within [`FRESH`], it
//! decides on a share: the limit divided by the number of gateways, but at least one.

pub(crate) mod account;
mod admit;
pub(crate) mod clock;
mod headers;
mod limiter;
pub(crate) mod refusals;
mod spending;
mod standing;
mod state;
pub(crate) mod subject;

pub use account::{Account, Charges, KeyState, LimitKind};
pub use admit::Ticket;
pub(crate) use admit::{Demand, enter};
pub use clock::{Moment, nanos};
pub(crate) use headers::write as write_headers;
pub use limiter::{GatewayLink, LimitCounters, Limiter};
pub use refusals::{RefusalQuota, Refusals};
pub use spending::Marks;
pub use state::{AccountState, FRESH, Report, View};
pub use subject::Subject;
