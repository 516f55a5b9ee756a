//! The web UI, embedded: what `make ui` builds of the sources in `ui/`.

use gantry_admin_api::{Asset, Keep};
use rust_embed::Embed;

/// The files of the built UI.
#[derive(Embed)]
#[folder = "../../ui/dist"]
struct Dist;

/// The page; it shows whatever the path says.
const PAGE: &str = "index.html";
/// Folder of files whose names change with their content.
const HASHED: &str = "assets/";

/// Returns the files of the UI below `/ui/`, and redirects to it.
pub(crate) fn assets() -> Vec<Asset> {
    let mut assets = vec![Asset::redirect("/", "/ui/"), Asset::moved("/ui", "/ui/")];
    for name in Dist::iter() {
        let Some(file) = Dist::get(&name) else { continue };
        let keep = if name.starts_with(HASHED) { Keep::ForEver } else { Keep::Ask };
        if name == PAGE {
            assets.push(Asset::embedded("/ui/", media_type(&name), file.data.clone(), keep));
            assets.push(Asset::pages("/ui/", media_type(&name), file.data));
        } else {
            assets.push(Asset::embedded(format!("/ui/{name}"), media_type(&name), file.data, keep));
        }
    }
    assets
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("json" | "webmanifest") => "application/json",
        Some("woff2") => "font/woff2",
        Some("png") => "image/png",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_ui_has_a_known_type() {
        let unknown: Vec<_> =
            Dist::iter().filter(|it| media_type(it) == "application/octet-stream").collect();
        assert!(unknown.is_empty(), "{unknown:?}");
        assert!(Dist::get(PAGE).is_some());
    }
}
