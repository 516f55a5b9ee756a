//! The job that writes a package.

use std::{
    collections::BTreeSet,
    fs,
    io::{Read, Write},
    path::{Path, PathBuf},
};

use gantry_domain::{
    ApiError,
    deployment::ExportRequest,
    model::{EngineKind, Model, PortableModel},
};
use gantry_package::{
    contents::{self, Contents, DUMP, DUMP_PIECES, PROGRAM, SBOM, SETTINGS},
    manifest::{FORMAT_VERSION, Manifest},
    model_manifest::ModelManifest,
    package::Package,
    path::PackagePath,
    sbom::sbom,
    sign::{SecretKey, sign},
    source::Source,
    writer::{BaseManifest, Origin, PackageWriter, Signer, Sums, WriterOptions},
};
use gantry_store::{DumpSecrets, Proof, StoreError};
use secrecy::SecretString;
use serde::Serialize;
use uuid::Uuid;

use super::{
    artifacts, failed, images,
    plan::{self, Plan},
    thread::{Work, cancelled},
    unwritten,
};

/// File in the data directory that remembers the sums of weights.
const SUMS: &str = "package-sums";

/// Most files that are left out and named in the job's log.
const MOST_NAMED: usize = 20;

/// What an export made, as the job's record has it.
#[derive(Serialize)]
struct Made {
    path: PathBuf,
    package_id: String,
    /// Bytes that the package has, without those of its base.
    size_bytes: u64,
    /// SHA-256 of the manifest.
    manifest_sha256: String,
    files: usize,
    /// The package that is needed as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    base_id: Option<String>,
    signed: bool,
    images: Vec<String>,
    models: Vec<String>,
    /// Engines that are programs: the other side has to install them.
    programs: Vec<String>,
    database_rows: Option<u64>,
    /// Secrets that are not in the package.
    redacted: Vec<String>,
}

/// Writes the package. A cancelled export leaves nothing; one that fails leaves what the next one into the same folder goes
/// on with.
pub(super) fn run(work: &Work, request: &ExportRequest) -> Result<(), ApiError> {
    work.job.step("looking at what is to be exported");
    let models = work.wait(plan::models(&work.control, request))??;
    let plan = Plan::look(&work.control, request, models)?;
    let key = signing_key(work)?;
    let base = request.since.as_deref().map(base).transpose()?;
    let base_id = base.as_ref().map(|it| it.manifest.id.clone());
    let options = WriterOptions {
        part_size: request.part_size,
        base,
        now_ms: work.control.clock.now().0,
        journal_secret: Some(work.control.config.internal_key.clone()),
    };
    let mut writer = PackageWriter::open(&request.dir, options, std::sync::Arc::clone(&work.progress))
        .map_err(|it| unwritten(&it))?;
    let mut export = Export {
        work,
        request,
        plan,
        origin: Origin {
            id: Uuid::now_v7().to_string(),
            created_at: work.control.clock.now().rfc3339(),
            gateway_version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        contents: Contents::default(),
        redacted: Vec::new(),
        sums: Sums::load(&work.control.config.data_dir.join(SUMS), work.control.clock.now().0),
    };
    // Whatever ends it from here on, a cancelled export is removed.
    let filled = export.total().and_then(|total| {
        work.job.set_total(total);
        export.fill(&mut writer)
    });
    if let Err(error) = export.sums.store() {
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            "the checksums of weights could not be stored"
        );
    }
    if work.is_cancelled() {
        if let Err(error) = writer.discard() {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "an export that was cancelled could not be removed"
            );
        }
        return Err(cancelled());
    }
    filled?;
    work.job.step("putting the package in place");
    let (origin, contents) = (&export.origin, &export.contents);
    let sign = |text: &mut dyn Read| match &key {
        Some(key) => sign(text, &origin.id, &origin.created_at, key).map_err(std::io::Error::other),
        None => Ok(String::new()),
    };
    let signer: Option<&Signer<'_>> = key.is_some().then_some(&sign);
    let package = writer.finish(origin, contents, signer).map_err(|error| unwritten(&error))?;
    work.job.made(artifacts(&export.made(&package, base_id, key.is_some())));
    Ok(())
}

/// Says which files do not go into the package: somebody may take them for weights.
fn name_left_out(work: &Work, left_out: &BTreeSet<String>) {
    for name in left_out.iter().take(MOST_NAMED) {
        work.job.log(format!("left out: {name}, which by its name is a download that has not ended"));
    }
    if let more @ 1.. = left_out.len().saturating_sub(MOST_NAMED) {
        work.job.log(format!("left out: {more} more files of such names"));
    }
}

/// Reads the key that packages are signed with.
fn signing_key(work: &Work) -> Result<Option<SecretKey>, ApiError> {
    let Some(path) = &work.control.config.engines.package_signing_key else { return Ok(None) };
    let unusable =
        |why: &dyn std::fmt::Display| failed(format!("the key of PACKAGE_SIGNING_KEY can't be used: {why}"));
    let text = SecretString::from(fs::read_to_string(path).map_err(|error| unusable(&error))?);
    SecretKey::parse(&text, None).map(Some).map_err(|error| unusable(&error))
}

struct Export<'a> {
    work: &'a Work,
    request: &'a ExportRequest,
    plan: Plan,
    origin: Origin,
    contents: Contents,
    redacted: Vec<String>,
    sums: Sums,
}

impl Export<'_> {
    /// Returns how many bytes there will be, as far as that is known before.
    fn total(&self) -> Result<u64, ApiError> {
        let mut total = self.plan.source.size() + self.plan.program_size;
        for reference in &self.plan.images {
            let found = self.work.wait(self.work.control.runtime.image(reference))?;
            total += found.ok().flatten().map_or(0, |it| it.size_bytes.unsigned_abs());
        }
        if self.request.include_db {
            let size = self.work.wait(self.work.control.store.size_bytes())?;
            total += size.map_err(|error| crate::jobs::unstored(&error))?;
        }
        Ok(total)
    }

    fn fill(&mut self, writer: &mut PackageWriter) -> Result<(), ApiError> {
        let may_pull = self.request.allow_pull_images;
        self.contents.images =
            images::export(self.work, &self.plan.images, may_pull, (&mut *writer, &mut self.sums))?;
        self.program(writer)?;
        self.files(writer)?;
        if self.request.include_configs {
            self.settings(writer)?;
        }
        self.programs();
        if self.request.include_models_manifest {
            self.models(writer)?;
        }
        if self.request.include_db {
            self.database(writer)?;
        }
        self.sbom(writer)
    }

    /// The gateway's own program.
    fn program(&mut self, writer: &mut PackageWriter) -> Result<(), ApiError> {
        let (path, from) = (named(PROGRAM)?, self.plan.program.clone());
        self.copy(writer, &path, &from)?;
        self.contents.gateway = Some(contents::Gateway {
            version: self.origin.gateway_version.clone(),
            platform: format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH),
        });
        Ok(())
    }

    fn copy(&mut self, writer: &mut PackageWriter, path: &PackagePath, from: &Path) -> Result<(), ApiError> {
        writer.copy(path, from, &mut self.sums).map(drop).map_err(|error| unwritten(&error))
    }

    /// Weights and hub cache.
    fn files(&mut self, writer: &mut PackageWriter) -> Result<(), ApiError> {
        let Source { files, links, roots, left_out } = std::mem::take(&mut self.plan.source);
        name_left_out(self.work, &left_out);
        if !files.is_empty() {
            self.work.job.step(format!("copying {} files of weights", files.len()));
        }
        for it in files {
            self.copy(writer, &it.path, &roots.from(&it.path))?;
        }
        for (path, target) in links {
            writer.link(&path, target).map_err(|error| unwritten(&error))?;
        }
        self.contents.hub_cache = self.request.include_hub_cache;
        Ok(())
    }

    fn settings(&mut self, writer: &mut PackageWriter) -> Result<(), ApiError> {
        let text = pretty(&self.work.control.config.public_settings)?;
        writer.put(&named(SETTINGS)?, &mut &text[..]).map_err(|error| unwritten(&error))?;
        self.contents.settings = true;
        Ok(())
    }

    /// A manifest for every model.
    fn models(&mut self, writer: &mut PackageWriter) -> Result<(), ApiError> {
        for model in std::mem::take(&mut self.plan.models) {
            let (manifest, listed) = self.model(&model)?;
            let text = manifest.to_json().map_err(|error| failed(error.to_string()))?;
            writer.put(&listed.manifest, &mut &text[..]).map_err(|error| unwritten(&error))?;
            self.redacted.extend(manifest.redacted.iter().map(|it| format!("{}: {it}", model.served_name)));
            self.contents.models.push(listed);
        }
        Ok(())
    }

    fn model(&self, model: &Model) -> Result<(ModelManifest, contents::Model), ApiError> {
        let PortableModel { body, redacted } = PortableModel::of(model, self.request.include_env);
        let config = &self.work.control.config;
        let image = config.programs.is_none().then(|| config.image(model).to_owned());
        let weights = self.plan.places.get(&model.id).cloned().unwrap_or_default();
        let manifest = ModelManifest {
            format_version: FORMAT_VERSION,
            created_at: self.origin.created_at.clone(),
            gateway_version: self.origin.gateway_version.clone(),
            id: model.id.0,
            model: body,
            redacted,
            image: image.clone(),
            weights: weights.clone(),
        };
        let listed = contents::Model {
            id: model.id.0,
            name: model.name.clone(),
            served_name: model.served_name.clone(),
            manifest: named(&format!("manifests/{}", ModelManifest::file_name(model.id.0)))?,
            image,
            weights,
        };
        Ok((manifest, listed))
    }

    /// Engines that are programs of the machine are named, because they can't be carried: those that the models need.
    fn programs(&mut self) {
        let Some(programs) = &self.work.control.config.programs else { return };
        let is_needed = |engine: &EngineKind| self.plan.models.iter().any(|it| it.engine == *engine);
        let program = |engine: EngineKind| {
            let it = programs.of(engine, None);
            contents::Program {
                engine: engine.as_str().to_owned(),
                command: it.words.join(" "),
                version: it.version.clone(),
            }
        };
        self.contents.programs = EngineKind::ALL.into_iter().filter(is_needed).map(program).collect();
    }

    fn database(&mut self, writer: &mut PackageWriter) -> Result<(), ApiError> {
        self.work.job.step("dumping the database");
        let secrets = if self.request.include_env { DumpSecrets::Redacted } else { DumpSecrets::WithoutEnv };
        let (store, now) = (&self.work.control.store, self.work.control.clock.now());
        let dump = |to: &mut (dyn Write + Send)| {
            let dumped = self.work.wait(store.dump(secrets, now, to))?;
            dumped.map_err(|error| match error {
                StoreError::Sink(_) if self.work.is_cancelled() => cancelled(),
                StoreError::Sink(error) => failed(format!("the dump can't be written: {error}")),
                error if error.is_unavailable() => crate::jobs::unstored(&error),
                error => failed(format!("the database can't be dumped: {error}")),
            })
        };
        let proof =
            writer.put_in_pieces(&named(DUMP)?, &named(DUMP_PIECES)?, dump, |error| unwritten(&error))?;
        self.redacted.extend(proof.redacted.iter().map(|(table, n)| format!("{n} secrets of `{table}`")));
        self.contents.database = Some(self.proven(proof));
        Ok(())
    }

    fn proven(&self, proof: Proof) -> contents::Database {
        contents::Database {
            schema_version: gantry_store::migration_versions().map(|(number, _)| number).max().unwrap_or(0),
            kind: self.work.control.store.kind().as_str().to_owned(),
            requests: proof.usage.requests.unsigned_abs(),
            prompt_tokens: proof.usage.prompt_tokens.unsigned_abs(),
            completion_tokens: proof.usage.completion_tokens.unsigned_abs(),
            audit_head: proof.audit.head_hash,
            rows: proof.rows,
        }
    }

    fn sbom(&mut self, writer: &mut PackageWriter) -> Result<(), ApiError> {
        let about = (&self.origin, &self.contents);
        let put = writer.put_about(&named(SBOM)?, about, |it, to| sbom(it, &self.plan.licences, to));
        put.map(drop).map_err(|error| unwritten(&error))
    }

    fn made(&self, package: &Package, base_id: Option<String>, signed: bool) -> Made {
        let (manifest, contents) = (package.manifest(), &self.contents);
        Made {
            path: package.dir().to_owned(),
            package_id: manifest.id.clone(),
            size_bytes: manifest.size(),
            manifest_sha256: package.manifest_sha256().to_string(),
            files: manifest.own_files().count(),
            base_id,
            signed,
            images: contents.images.iter().map(|it| it.reference.clone()).collect(),
            models: contents.models.iter().map(|it| it.served_name.clone()).collect(),
            programs: contents.programs.iter().map(|it| it.command.clone()).collect(),
            database_rows: contents.database.as_ref().map(|it| it.rows.values().sum()),
            redacted: self.redacted.clone(),
        }
    }
}

/// Reads the manifest that a difference is made to: that of a package, or a copy of it.
fn base(path: &Path) -> Result<BaseManifest, ApiError> {
    let unusable = |why: &dyn std::fmt::Display| {
        ApiError::invalid("since", format!("{} can't be the base of a difference: {why}", path.display()))
    };
    if path.is_dir() {
        let (manifest, sha256) = Package::open(path).map_err(|error| unusable(&error))?.into_manifest();
        return Ok(BaseManifest { manifest, sha256 });
    }
    let file = fs::File::open(path).map_err(|error| unusable(&error))?;
    let (manifest, sha256) = Manifest::read(file).map_err(|error| unusable(&error))?;
    Ok(BaseManifest { manifest, sha256 })
}

fn named(name: &str) -> Result<PackagePath, ApiError> {
    PackagePath::new(name).map_err(|error| failed(error.to_string()))
}

fn pretty(value: &impl Serialize) -> Result<Vec<u8>, ApiError> {
    let mut text = serde_json::to_vec_pretty(value).map_err(|error| failed(error.to_string()))?;
    text.push(b'\n');
    Ok(text)
}
