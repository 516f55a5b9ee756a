//! A real Docker engine: finds it, gives it an image without any registry, and clears up afterwards.

use std::{collections::BTreeSet, io::Write, path::Path, process::Command};

use bollard::{
    Docker as Client, body_full,
    models::{ContainerCreateBody, ContainerInspectResponse, ContainerUpdateBody, NetworkCreateRequest},
    query_parameters::{
        CreateContainerOptionsBuilder, CreateImageOptionsBuilder, InspectNetworkOptions,
        KillContainerOptionsBuilder, ListContainersOptionsBuilder, ListNetworksOptions,
        RemoveContainerOptionsBuilder, RemoveImageOptions, RemoveImageOptionsBuilder, StartContainerOptions,
    },
};
use futures_util::TryStreamExt;

const DEFAULT_HOST: &str = "unix:///var/run/docker.sock";
/// Programs that the shell scripts of the tests need.
const PROGRAMS: [&str; 3] = ["/bin/sh", "/bin/sleep", "/bin/cat"];

pub(crate) struct Engine {
    pub(crate) host: String,
    pub(crate) client: Client,
    pub(crate) image: String,
    simulator: String,
}

impl Engine {
    pub(crate) async fn connect() -> Option<Self> {
        let host = setting("DOCKER_HOST").unwrap_or_else(|| DEFAULT_HOST.to_owned());
        let client = Client::connect_with_host(&host).ok();
        let client = match client {
            Some(client) => client.negotiate_version().await.ok(),
            None => None,
        };
        let Some(client) = client else {
            skip("runtime::docker", "no Docker engine answers");
            return None;
        };
        // Each test is a process under nextest and a thread under cargo test; both get an image of their own.
        let id = uuid::Uuid::now_v7().simple().to_string();
        let image = format!("gantry-test/shell:{id}");
        let simulator = format!("gantry-test/simulator:{id}");
        let engine = Self { host, client, image, simulator };
        engine.import(&engine.image, &[], shell_tree()).await;
        Some(engine)
    }

    async fn import(&self, image: &str, changes: &[&str], tree: Vec<u8>) {
        let changes = changes.iter().map(|it| (*it).to_owned()).collect();
        let (repo, tag) = image.split_once(':').unwrap();
        let options =
            CreateImageOptionsBuilder::default().from_src("-").repo(repo).tag(tag).changes(changes).build();
        let messages = self.client.create_image(Some(options), Some(body_full(tree.into())), None);
        messages.try_collect::<Vec<_>>().await.unwrap();
    }

    pub(crate) async fn add_simulator(&self) -> String {
        let labels = ["LABEL gantry.simulator=true", "LABEL org.opencontainers.image.version=1.2.3"];
        self.import(&self.simulator, &labels, shell_tree()).await;
        self.simulator.clone()
    }

    pub(crate) async fn remove_image(&self, image: &str) {
        self.client.remove_image(image, None::<RemoveImageOptions>, None).await.unwrap();
    }

    /// Makes a container that belongs to no gateway. It is found and removed with the image at the end.
    pub(crate) async fn occupy(&self, name: &str) {
        let options = CreateContainerOptionsBuilder::default().name(name).build();
        let body = ContainerCreateBody {
            image: Some(self.image.clone()),
            cmd: Some(vec!["/bin/sh".to_owned()]),
            ..ContainerCreateBody::default()
        };
        self.client.create_container(Some(options), body).await.unwrap();
    }

    /// Runs a container with these labels for as long as nobody stops it.
    pub(crate) async fn run(&self, name: &str, labels: &[(&str, &str)]) {
        let options = CreateContainerOptionsBuilder::default().name(name).build();
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let words = ["/bin/sh", "-c", "while :; do sleep 0.05; done"].map(str::to_owned);
        let body = ContainerCreateBody {
            image: Some(self.image.clone()),
            cmd: Some(words.into()),
            labels: Some(labels.collect()),
            ..ContainerCreateBody::default()
        };
        self.client.create_container(Some(options), body).await.unwrap();
        self.client.start_container(name, None::<StartContainerOptions>).await.unwrap();
    }

    /// Returns the ids of the containers with this label, running or not.
    pub(crate) async fn labelled(&self, label: &str) -> Vec<String> {
        let filters = std::collections::HashMap::from([("label".to_owned(), vec![label.to_owned()])]);
        let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
        let found = self.client.list_containers(Some(options)).await.unwrap();
        found.into_iter().filter_map(|it| it.id).collect()
    }

    /// Returns the subnet of a network; `None` if there is no network of that name.
    pub(crate) async fn subnet(&self, network: &str) -> Option<String> {
        let found = self.client.inspect_network(network, None::<InspectNetworkOptions>).await.ok()?;
        found.ipam?.config?.pop()?.subnet
    }

    /// Makes a network beside what has its name already, as a gateway does that is killed meanwhile. Returns whether the
    /// engine lets names be there twice.
    pub(crate) async fn make_network(&self, name: &str) -> bool {
        let request = NetworkCreateRequest { name: name.to_owned(), ..NetworkCreateRequest::default() };
        self.client.create_network(request).await.is_ok()
    }

    /// Returns how many networks have this name.
    pub(crate) async fn networks(&self, name: &str) -> usize {
        let all = self.client.list_networks(None::<ListNetworksOptions>).await.unwrap();
        all.iter().filter(|it| it.name.as_deref() == Some(name)).count()
    }

    pub(crate) async fn kill(&self, name: &str) {
        let options = KillContainerOptionsBuilder::default().signal("SIGKILL").build();
        self.client.kill_container(name, Some(options)).await.unwrap();
    }

    pub(crate) async fn limit_memory(&self, name: &str, bytes: i64) {
        let body = ContainerUpdateBody {
            memory: Some(bytes),
            memory_swap: Some(bytes),
            ..ContainerUpdateBody::default()
        };
        self.client.update_container(name, body).await.unwrap();
    }

    /// Inspects a container; `None` if there is none of that name.
    pub(crate) async fn inspect(&self, name: &str) -> Option<ContainerInspectResponse> {
        self.client.inspect_container(name, None).await.ok()
    }
}

impl Drop for Engine {
    /// Removes what the test made, so that a failed assertion leaves nothing running.
    fn drop(&mut self) {
        let (host, images) = (self.host.clone(), [self.image.clone(), self.simulator.clone()]);
        let clearing = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(clear(&host, &images));
        });
        drop(clearing.join());
    }
}

async fn clear(host: &str, images: &[String]) {
    let Ok(client) = Client::connect_with_host(host) else { return };
    let mut instances = Vec::new();
    let options = ListContainersOptionsBuilder::default().all(true).build();
    for container in client.list_containers(Some(options)).await.unwrap_or_default() {
        if container.image.is_some_and(|it| images.contains(&it)) {
            instances.extend(container.labels.and_then(|mut it| it.remove("gantry.instance")));
            let options = RemoveContainerOptionsBuilder::default().force(true).build();
            drop(client.remove_container(&container.id.unwrap_or_default(), Some(options)).await);
        }
    }
    // A gateway removes its networks with its last container; these were removed behind its back.
    for instance in instances {
        for name in [format!("gantry-{instance}"), format!("gantry-{instance}-local")] {
            drop(client.remove_network(&name).await);
        }
    }
    for image in images {
        let options = RemoveImageOptionsBuilder::default().force(true).build();
        drop(client.remove_image(image, Some(options), None).await);
    }
}

/// Notes that something did not run, and why; with `REQUIRE_ALL=1` that is a failure.
pub(crate) fn skip(what: &str, reason: &str) {
    let note = format!("{what}\tSKIP\t{reason}");
    assert!(setting("REQUIRE_ALL").as_deref() != Some("1"), "{note}");
    eprintln!("{note}");
    let Some(path) = setting("GANTRY_SKIP_FILE") else { return };
    let noted = std::fs::read_to_string(&path).unwrap_or_default();
    if !noted.lines().any(|it| it == note) {
        let mut file = std::fs::File::options().create(true).append(true).open(path).unwrap();
        file.write_all(format!("{note}\n").as_bytes()).unwrap();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "where the engine is, is said to the tests by their environment"
)]
fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|it| !it.is_empty())
}

/// Returns a tar of this machine's shell with the libraries that it needs: no registry and no compiler is involved.
fn shell_tree() -> Vec<u8> {
    let mut files: BTreeSet<String> = PROGRAMS.map(str::to_owned).into();
    for program in PROGRAMS {
        let output = Command::new("ldd").arg(program).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        // `libc.so.6 => /lib/x/libc.so.6 (0x…)` and `/lib64/ld-linux-x86-64.so.2 (0x…)`.
        let words = text.split_whitespace().filter(|it| it.starts_with('/'));
        files.extend(words.map(str::to_owned));
    }
    let mut tree = tar::Builder::new(Vec::new());
    for dir in ["tmp/", "models/", "hub-cache/"] {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Directory);
        header.set_mode(0o755);
        header.set_size(0);
        tree.append_data(&mut header, dir, std::io::empty()).unwrap();
    }
    for file in files {
        let bytes = std::fs::read(Path::new(&file)).unwrap();
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o755);
        header.set_size(bytes.len() as u64);
        tree.append_data(&mut header, file.trim_start_matches('/'), bytes.as_slice()).unwrap();
    }
    tree.into_inner().unwrap()
}
