//! The limit of open files, of which connections are most.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// For the database, the spool, logs, containers, GPUs and what else is open.
const OTHERS: u64 = 64;

/// The limit, raised as far as the process may: the usual soft one (1024) is a heritage of `select`. `None` is without limit.
pub(crate) fn raised() -> Option<u64> {
    let now = getrlimit(Resource::Nofile);
    let wished = Rlimit { current: now.maximum, maximum: now.maximum };
    if now.current != now.maximum && setrlimit(Resource::Nofile, wished).is_ok() {
        now.maximum
    } else {
        now.current
    }
}

/// How many clients may be connected, each with a connection to an engine.
pub(crate) fn connections(limit: Option<u64>) -> usize {
    let Some(limit) = limit else { return usize::MAX };
    let others = OTHERS.min(limit / 4);
    usize::try_from((limit - others) / 2).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::connections;

    #[test]
    fn each_client_has_room_for_an_engine() {
        assert_eq!((connections(Some(1024)), connections(Some(256)), connections(Some(96))), (480, 96, 36));
        assert_eq!(connections(None), usize::MAX);
    }
}
