//! Sums up the progress of a pull: Docker reports each layer for itself.

use std::collections::HashMap;

use bollard::models::CreateImageInfo;

/// Bytes done and known, per layer.
#[derive(Debug, Default)]
pub(super) struct Layers(HashMap<String, (u64, u64)>);

impl Layers {
    /// Takes in a message. Returns the new sums (done, known) if it changed them.
    pub(super) fn update(&mut self, message: &CreateImageInfo) -> Option<(u64, u64)> {
        let id = message.id.as_deref()?;
        let detail = message.progress_detail.as_ref();
        let bytes = |value: Option<i64>| value.and_then(|it| u64::try_from(it).ok());
        let (current, total) = (bytes(detail?.current), bytes(detail?.total));
        let layer = match (message.status.as_deref()?, current) {
            // With a total of -1 or none, the registry did not say it.
            ("Downloading", Some(current)) => (current, total.unwrap_or(current).max(current)),
            ("Download complete" | "Pull complete", _) => {
                let (_, known) = self.0.get(id).copied()?;
                (known, known)
            }
            // Extracting counts from zero again; a layer that is already there has no size.
            _ => return None,
        };
        let before = self.0.insert(id.to_owned(), layer);
        (before != Some(layer)).then(|| self.sums())
    }

    fn sums(&self) -> (u64, u64) {
        self.0.values().fold((0, 0), |(done, known), layer| (done + layer.0, known + layer.1))
    }
}

/// Returns `reference` with a tag: without one Docker pulls every tag there is.
pub(super) fn with_tag(reference: &str) -> String {
    let name = reference.rsplit('/').next().unwrap_or(reference);
    if name.contains([':', '@']) { reference.to_owned() } else { format!("{reference}:latest") }
}

/// Whether the text may stand in a URL's path. Docker judges the rest.
pub(super) fn is_reference(text: &str) -> bool {
    let legal = |it: char| it.is_ascii_alphanumeric() || "._-/:@".contains(it);
    !text.is_empty() && text.len() <= 512 && text.chars().all(legal) && !text.contains("..")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(id: &str, status: &str, current: Option<i64>, total: Option<i64>) -> CreateImageInfo {
        serde_json::from_value(serde_json::json!({
            "id": id, "status": status, "progressDetail": {"current": current, "total": total},
        }))
        .unwrap()
    }

    #[test]
    fn layers_are_summed_and_a_finished_one_counts_whole() {
        let mut layers = Layers::default();
        assert_eq!(layers.update(&message("a", "Pulling fs layer", None, None)), None);
        assert_eq!(layers.update(&message("a", "Downloading", Some(10), Some(100))), Some((10, 100)));
        assert_eq!(layers.update(&message("b", "Downloading", Some(5), Some(50))), Some((15, 150)));
        assert_eq!(layers.update(&message("b", "Downloading", Some(5), Some(50))), None);
        assert_eq!(layers.update(&message("a", "Download complete", None, None)), Some((105, 150)));
        assert_eq!(layers.update(&message("a", "Extracting", Some(1), Some(100))), None);
        assert_eq!(layers.update(&message("a", "Pull complete", None, None)), None);
        assert_eq!(layers.update(&message("c", "Already exists", None, None)), None);
        assert_eq!(layers.update(&message("d", "Downloading", Some(7), Some(-1))), Some((112, 157)));
    }

    #[test]
    fn a_reference_without_tag_means_latest() {
        for (given, pulled) in [
            ("busybox", "busybox:latest"),
            ("host:5000/team/image", "host:5000/team/image:latest"),
            ("host:5000/team/image:1", "host:5000/team/image:1"),
            ("image@sha256:00", "image@sha256:00"),
        ] {
            assert_eq!(with_tag(given), pulled);
        }
    }

    #[test]
    fn what_could_lead_to_another_url_is_no_reference() {
        for bad in ["", "a b", "../containers/x", "a?force=1", "a#b", "a%2f", "a\n"] {
            assert!(!is_reference(bad), "{bad:?}");
        }
        assert!(is_reference("host.example:5000/a/b_c-d:v1.0@sha256:00ff"));
    }
}
