//! `/admin/deployment/package-contents`: what is in a package, as its manifest says.

use axum::{Json, extract::State};
use gantry_domain::{ErrorCode, view};
use gantry_package::{
    contents::{DUMP, HUB_CACHE, MODELS, SBOM},
    manifest::Manifest,
    package::Package,
    path::PackagePath,
    sign::Signature,
};

use super::folder;
use crate::{
    App,
    error::{Outcome, Problem},
    operation::{Operation, Query, Required, query},
};

query! {
    pub(crate) struct PackageFolder {
        /// The package's folder, inside the folders of `EXPORT_DIRS`.
        output_dir: Required<String>,
    }
}

view! {
    /// A container image in a package.
    #[derive(Debug)]
    pub(crate) struct PackedImage {
        /// The name by which models ask for it.
        reference: String,
        version: Option<String>,
        /// As in Go: `amd64`, `arm64`.
        architecture: String,
        size_bytes: u64,
    }
}

view! {
    /// The dump of the database in a package.
    #[derive(Debug)]
    pub(crate) struct PackedDatabase {
        /// `sqlite` or `postgres`: where it came from.
        kind: String,
        schema_version: i64,
        /// Rows of all tables.
        rows: u64,
        size_bytes: u64,
    }
}

view! {
    /// The gateway's program in a package.
    #[derive(Debug)]
    pub(crate) struct PackedGateway {
        version: String,
        /// Operating system and architecture: `linux-x86_64`.
        platform: String,
    }
}

view! {
    /// An engine that is no image: the other side has to install it.
    #[derive(Debug)]
    pub(crate) struct NeededProgram {
        /// `vllm` or `llamacpp`.
        engine: String,
        command: String,
        version: Option<String>,
    }
}

view! {
    /// What is in a package. Nothing of it was verified.
    #[derive(Debug)]
    pub(crate) struct PackageContents {
        id: String,
        /// RFC 3339, UTC.
        created_at: String,
        /// Version of the gateway that wrote it.
        gateway_version: String,
        /// Files that it has itself, and their bytes.
        files: u64,
        size_bytes: u64,
        /// The id of the package that this one is the difference to.
        base: Option<String>,
        images: Vec<PackedImage>,
        database: Option<PackedDatabase>,
        /// Bytes of weights below the models base directory.
        weights_bytes: u64,
        /// Bytes of the hub cache.
        hub_cache_bytes: u64,
        gateway: Option<PackedGateway>,
        programs: Vec<NeededProgram>,
        settings: bool,
        /// Whether it has a bill of materials.
        sbom: bool,
        /// The key that it is signed with; `null` if it is not signed. The signature is not checked here, as the gateway has no
        /// public keys: `gantry package verify --key` does.
        key_id: Option<String>,
        /// Why its signature can't be read.
        signature_problem: Option<String>,
    }
}

pub(crate) const SHOW: Operation = Operation::new("getPackageContents", "What is in a package")
    .about(
        "It reads the manifest only, so it is fast, and it checks nothing: an import does, and `gantry package verify`. The models are \
         listed by `model-manifests`.",
    )
    .errors(&[ErrorCode::PathNotAllowed, ErrorCode::NotFound, ErrorCode::HostUnavailable]);

pub(crate) async fn show(
    app: State<App>,
    Query(PackageFolder { output_dir: Required(output_dir) }): Query<PackageFolder>,
) -> Outcome<Json<PackageContents>> {
    let dirs = app.files.export_dirs.clone();
    let look = move || {
        let dir = folder::existing(&dirs, &output_dir, "output_dir")?;
        Ok::<_, Problem>(PackageContents::of(&folder::package(&dir, None)?))
    };
    Ok(Json(app.files.disk.look(look).await??))
}

impl PackageContents {
    fn of(package: &Package) -> Self {
        let manifest = package.manifest();
        let contents = &manifest.contents;
        let signature = Signature::read(package.dir());
        Self {
            id: manifest.id.clone(),
            created_at: manifest.created_at.clone(),
            gateway_version: manifest.gateway_version.clone(),
            files: manifest.own_files().count() as u64,
            size_bytes: manifest.size(),
            base: manifest.base.as_ref().map(|it| it.id.clone()),
            images: images(manifest),
            database: contents.database.as_ref().map(|it| PackedDatabase {
                kind: it.kind.clone(),
                schema_version: it.schema_version,
                rows: it.rows.values().fold(0, |sum, n| sum.saturating_add(*n)),
                size_bytes: bytes(manifest, |it| it.as_str() == DUMP),
            }),
            weights_bytes: bytes(manifest, |it| it.top() == MODELS),
            hub_cache_bytes: bytes(manifest, |it| it.top() == HUB_CACHE),
            gateway: contents
                .gateway
                .as_ref()
                .map(|it| PackedGateway { version: it.version.clone(), platform: it.platform.clone() }),
            programs: contents
                .programs
                .iter()
                .map(|it| NeededProgram {
                    engine: it.engine.clone(),
                    command: it.command.clone(),
                    version: it.version.clone(),
                })
                .collect(),
            settings: contents.settings,
            sbom: manifest.files.keys().any(|it| it.as_str() == SBOM),
            signature_problem: signature.as_ref().err().map(ToString::to_string),
            key_id: signature.ok().flatten().map(|it| it.key_id().to_string()),
        }
    }
}

fn images(manifest: &Manifest) -> Vec<PackedImage> {
    let shown = |it: &gantry_package::contents::Image| PackedImage {
        reference: it.reference.clone(),
        version: it.version.clone(),
        architecture: it.architecture.clone(),
        size_bytes: it.size,
    };
    manifest.contents.images.iter().map(shown).collect()
}

fn bytes(manifest: &Manifest, is_counted: impl Fn(&PackagePath) -> bool) -> u64 {
    let sizes = manifest.files.iter().filter(|it| is_counted(it.0)).map(|it| it.1.size);
    sizes.fold(0, u64::saturating_add)
}
