//! Addresses in a body that a multimodal engine would fetch. It would do so from inside the operator's network, for
//! anyone with a key: other services, the metadata of a cloud, files. So only `data:` passes, and hosts that the
//! operator trusts.

use std::borrow::Cow;

use gantry_domain::{ApiError, ErrorCode};
use http::Uri;

use super::scan;
use crate::config::Media;

/// Allows any host.
const ANY: &str = "*";
/// Longest part of an address that is shown, in bytes.
const TOLD: usize = 60;

/// Returns the address in a string literal, unless it is `data:`; `named` says that it stands where only an address
/// may.
pub(super) fn fetched(literal: &str, named: bool) -> Option<Cow<'_, str>> {
    // Pictures are large, so only the beginning is looked at. Clients don't write it with escapes.
    if literal.get(1..6).is_some_and(|it| it.eq_ignore_ascii_case("data:")) {
        return None;
    }
    // It has a lone surrogate: it can't be fetched, and no engine would take it.
    let text = scan::string(literal).unwrap_or(Cow::Borrowed("?"));
    let address = text.trim_start();
    if address.get(..5).is_some_and(|it| it.eq_ignore_ascii_case("data:")) || address.is_empty() {
        return None;
    }
    (named || has_scheme(address)).then_some(text)
}

fn has_scheme(text: &str) -> bool {
    let scheme = text.find("://").map(|end| &text[..end]);
    scheme.is_some_and(|it| (1..=16).contains(&it.len()) && it.bytes().all(|it| it.is_ascii_alphanumeric()))
}

/// Refuses a body that would make its engine load something that is not `allowed`: it carries `tensors`, or addresses
/// that the engine would fetch.
///
/// # Errors
/// 400 `parameter_not_allowed`.
pub(crate) fn check(tensors: bool, fetched: &[Cow<'_, str>], allowed: &Media) -> Result<(), ApiError> {
    if tensors && !allowed.tensors {
        let message = "tensors (`prompt_embeds`, `image_embeds` and their like) are not allowed: the engine would load \
                       them, and a crafted one can harm it; ask the operator (REQUEST_TENSORS)";
        return Err(ApiError::new(ErrorCode::ParameterNotAllowed, message));
    }
    check_addresses(fetched, &allowed.hosts)
}

/// Refuses addresses of other hosts than `hosts`, and of anything but the web, such as files of the engine's machine.
///
/// # Errors
/// 400 `parameter_not_allowed`.
fn check_addresses(fetched: &[Cow<'_, str>], hosts: &[String]) -> Result<(), ApiError> {
    match fetched.iter().find(|it| !is_of(it, hosts)) {
        None => Ok(()),
        Some(address) => {
            let told = &address[..address.floor_char_boundary(TOLD)];
            let message = format!(
                "`{told}` would be fetched by the engine, which is not allowed: send the content itself as a `data:` URL, \
                 or ask the operator to allow the host (MEDIA_URL_HOSTS)"
            );
            Err(ApiError::new(ErrorCode::ParameterNotAllowed, message).with_param("messages"))
        }
    }
}

/// Returns whether the address is on one of `hosts`. It is strict, because the engine may read an odd address as
/// another one.
fn is_of(address: &str, hosts: &[String]) -> bool {
    let plain = address.bytes().all(|it| it.is_ascii_graphic() && !b"\\@".contains(&it));
    let Some(uri) = plain.then(|| address.parse::<Uri>().ok()).flatten() else { return false };
    matches!(uri.scheme_str(), Some("http" | "https"))
        && uri.host().is_some_and(|host| hosts.iter().any(|it| it == ANY || it.eq_ignore_ascii_case(host)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::peek::peek;

    fn found(member: &str) -> Vec<String> {
        let body = format!(r#"{{"model":"m",{member}}}"#);
        peek(body.as_bytes()).unwrap().fetched.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_engines_fetch_is_found_wherever_apis_have_it() {
        let parts = [
            r#"{"type":"image_url","image_url":{"detail":"low","url":"http://x/a"}}"#,
            r#"{"type":"image_url","image_url":"http://x/a"}"#,
            r#"{"image_url":"http://x/a"}"#,
            r#"{"type":"video_url","video_url":{"url":"http://x/a"}}"#,
            r#"{"type":"audio_url","audio_url":{"url":"http://x/a"}}"#,
            r#"{"type":"input_image","image_url":"http://x/a"}"#,
            r#"{"type":"input_file","file_url":"http://x/a"}"#,
            r#"{"type":"file","file":{"file_data":"http://x/a"}}"#,
            r#"{"type":"input_audio","input_audio":{"data":"http://x/a","format":"wav"}}"#,
            r#"{"type":"image","source":{"type":"url","url":"http://x/a"}}"#,
            r#"{"type":"tool_result","content":[{"type":"image","source":{"type":"url","url":"http://x/a"}}]}"#,
            r#"{"type":"image_url","im\u0061ge_url":{"\u0075rl":"http:\/\/x\/a"}}"#,
            r#"{"type":"image_url","image_url":{"url":"data:,","url":"http://x/a"}}"#,
        ];
        for part in parts {
            for member in [
                format!(r#""messages":[{{"role":"user","content":[{part}]}}]"#),
                format!(r#""input":[{{"role":"user","content":[{part}]}}]"#),
                format!(r#""documents":[{{"content":[{part}]}}]"#),
            ] {
                assert_eq!(found(&member), ["http://x/a"], "{member}");
            }
        }
        assert_eq!(
            found(r#""messages":[{"content":[{"image_url":{"url":"file:///etc/passwd"}}]}]"#).len(),
            1
        );
        assert_eq!(found(r#""messages":[{"content":[{"image_url":{"url":"//x/a"}}]}]"#).len(), 1);
    }

    #[test]
    fn what_nobody_fetches_passes() {
        for member in [
            r#""messages":[{"content":[{"image_url":{"url":"data:image/png;base64,AA=="}}]}]"#,
            r#""messages":[{"content":[{"image_url":{"url":" DATA:image/png;base64,AA=="}}]}]"#,
            r#""messages":[{"content":"see http://x/a"},{"content":[{"type":"text","text":"http://x/a"}]}]"#,
            r#""messages":[{"content":[{"type":"tool_use","input":{"image_url":"http://x/a","url":"http://x"}}]}]"#,
            r#""messages":[{"tool_calls":[{"function":{"arguments":{"image_url":"http://x/a"}}}]}]"#,
            r#""messages":[{"content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"A"}}]}]"#,
            r#""messages":[{"content":[{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}]}]"#,
            r#""tools":[{"type":"mcp","image_url":"http://x/a","parameters":{"image_url":{"url":"http://x"}}}]"#,
            r#""metadata":{"image_url":"http://x/a"}"#,
            r#""messages":[{"content":[{"type":"image_url","image_url":null,"uuid":"7"}]}]"#,
        ] {
            assert_eq!(found(member), [""; 0], "{member}");
        }
    }

    #[test]
    fn hosts_that_are_allowed_are_told_from_those_that_look_like_them() {
        let hosts = ["img.example.org".to_owned()];
        let passes = |address: &str| check_addresses(&[address.into()], &hosts).is_ok();
        assert!(passes("https://img.example.org/a.png") && passes("http://IMG.example.org:8443/a?b=c"));
        for other in [
            "https://example.org/a",
            "https://img.example.org.evil.net/a",
            "https://img.example.org@evil.net/a",
            "https://evil.net\\@img.example.org/a",
            "https://evil.net/https://img.example.org/",
            "ftp://img.example.org/a",
            "file://img.example.org/etc/passwd",
            "//img.example.org/a",
            "img.example.org/a",
            "http://10.0.0.1/",
            "http://img.example.org\n/a",
        ] {
            assert!(!passes(other), "{other}");
        }
        let any = |address: &str| check_addresses(&[address.into()], &["*".to_owned()]).is_ok();
        assert!(any("http://10.0.0.1/") && any("https://img.example.org:8443/a?b=c"));
        for other in
            ["file:///etc/passwd", "/etc/passwd", "gopher://x/", "ftp://x/a", "//x/a", "http:///a", "http:x"]
        {
            assert!(!any(other), "{other}");
        }
        let error = check_addresses(&["http://10.0.0.1/".into()], &[]).unwrap_err();
        assert_eq!(error.code, ErrorCode::ParameterNotAllowed);
    }
}
