//! A network namespace from which nothing gets out, and which notes what tries to.

use std::{
    fs::{self, File},
    net::UdpSocket,
    os::fd::AsFd,
    path::PathBuf,
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::Duration,
};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::{
    faults::{must, root_with, run},
    skip,
};

/// How often the resolver looks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);
/// The only way out of the namespace: an interface that counts packets, and at whose other end nobody is.
const OUT: &str = "out";

/// A network namespace with a loopback, a resolver that knows no name, and a default route into nothing. Without that route
/// the kernel would refuse an attempt before anything could count it.
pub struct AirGap {
    namespace: String,
    queries: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
    resolver: Option<JoinHandle<()>>,
}

impl AirGap {
    /// Makes the namespace. Returns `None`, and notes that the test was skipped, where that can't be done.
    pub fn new(test: &str) -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        if !root_with(test, &["ip", "nsenter"]) {
            return None;
        }
        let namespace = format!("gantry-gap-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
        if !run(&["ip", "netns", "add", &namespace]).status.success() {
            skip(test, "a network namespace can't be made");
            return None;
        }
        let mut gap = Self { namespace, queries: Arc::default(), stop: Arc::default(), resolver: None };
        // The kernel itself would ask for routers and neighbours.
        gap.must(&[
            "sh",
            "-c",
            "for it in all default; do echo 1 >/proc/sys/net/ipv6/conf/$it/disable_ipv6; done",
        ]);
        gap.must(&["ip", "link", "add", OUT, "type", "veth", "peer", "name", "nowhere"]);
        gap.must(&["ip", "link", "set", "nowhere", "up"]);
        gap.must(&["ip", "link", "set", "lo", "up"]);
        gap.must(&["ip", "address", "add", "192.0.2.1/24", "dev", OUT]);
        gap.must(&["ip", "link", "set", OUT, "arp", "off", "up"]);
        gap.must(&["ip", "route", "add", "default", "dev", OUT]);
        fs::create_dir_all(gap.etc()).unwrap();
        fs::write(gap.etc().join("resolv.conf"), "nameserver 127.0.0.1\n").unwrap();
        gap.resolver = Some(gap.resolve());
        Some(gap)
    }

    /// Returns the name of the namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns the words to start a program with, so that it is behind the gap and asks the resolver there. The program takes
    /// the place of these words, as `exec` does.
    pub fn wrapper(&self) -> Vec<String> {
        ["ip", "netns", "exec", &self.namespace].map(str::to_owned).to_vec()
    }

    /// Returns a command that runs behind the gap.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace, program]);
        command
    }

    /// Returns the names that somebody asked the resolver for.
    pub fn queries(&self) -> Vec<String> {
        self.queries.lock().unwrap().clone()
    }

    /// Returns the number of packets that were on their way out.
    pub fn packets(&self) -> u64 {
        self.must(&["cat", &format!("/sys/class/net/{OUT}/statistics/tx_packets")]).parse().unwrap()
    }

    fn must(&self, words: &[&str]) -> String {
        must(&[&["ip", "netns", "exec", &self.namespace], words].concat())
    }

    /// What `ip netns exec` puts over `/etc`.
    fn etc(&self) -> PathBuf {
        PathBuf::from("/etc/netns").join(&self.namespace)
    }

    /// Starts the resolver, on a thread that is in the namespace.
    fn resolve(&self) -> JoinHandle<()> {
        let namespace = File::open(format!("/run/netns/{}", self.namespace)).unwrap();
        let (queries, stop) = (Arc::clone(&self.queries), Arc::clone(&self.stop));
        let (bound, is_bound) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            let socket = UdpSocket::bind("0.0.0.0:53").unwrap();
            socket.set_read_timeout(Some(LOOK)).unwrap();
            bound.send(()).unwrap();
            let mut query = [0; 512];
            while !stop.load(Relaxed) {
                let Ok((n, from)) = socket.recv_from(&mut query) else { continue };
                queries.lock().unwrap().push(name(&query[..n]));
                // An answer, and that there is no such name.
                query[2..4].copy_from_slice(&[0x81, 0x83]);
                let _ = socket.send_to(&query[..n], from);
            }
        });
        is_bound.recv().expect("the resolver listens");
        thread
    }
}

/// Returns the name in a query (RFC 1035, 4.1.2).
fn name(query: &[u8]) -> String {
    let (mut labels, mut at) = (Vec::new(), 12);
    while let Some(length) = query.get(at).map(|it| usize::from(*it)).filter(|it| *it > 0) {
        let label = query.get(at + 1..at + 1 + length).unwrap_or_default();
        labels.push(String::from_utf8_lossy(label).into_owned());
        at += 1 + length;
    }
    labels.join(".")
}

impl Drop for AirGap {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(resolver) = self.resolver.take() {
            let _ = resolver.join();
        }
        let _ = run(&["ip", "netns", "delete", &self.namespace]);
        let _ = fs::remove_dir_all(self.etc());
    }
}
