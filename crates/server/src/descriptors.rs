//! The limit of open files. Connections use most of them.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// File descriptors kept free for the database, the spool, logs, containers, GPUs and other open files.
const OTHERS: u64 = 64;

/// Raises the soft limit of open files to the hard limit and returns it; the usual soft limit (1024) is a heritage of
/// `select`. `None` means no limit.
pub(crate) fn raised() -> Option<u64> {
    let now = getrlimit(Resource::Nofile);
    let wished = Rlimit { current: now.maximum, maximum: now.maximum };
    if now.current != now.maximum && setrlimit(Resource::Nofile, wished).is_ok() {
        now.maximum
    } else {
        now.current
    }
}

/// Returns how many clients may be connected at once, if each also needs a connection to an engine.
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
