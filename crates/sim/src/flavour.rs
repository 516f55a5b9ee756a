//! The simulated engine and its version.

use std::fmt;
use std::str::FromStr;

use gantry_domain::image;

/// The engine whose command line and HTTP surface are simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    Vllm,
    Llamacpp,
}

impl Flavour {
    pub const ALL: [Self; 2] = [Self::Vllm, Self::Llamacpp];

    /// The word used on the command line and in labels.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Llamacpp => "llamacpp",
        }
    }

    /// Returns the release from which the transcripts were recorded, as its project writes it.
    pub fn default_version(self) -> &'static str {
        match self {
            Self::Vllm => "0.32.0",
            Self::Llamacpp => "b11434",
        }
    }

    /// Returns the default tag of the simulated image.
    pub fn default_tag(self) -> String {
        let repository = match self {
            Self::Vllm => image::SIMULATORS.vllm,
            Self::Llamacpp => image::SIMULATORS.llamacpp,
        };
        format!("{repository}:{}", self.default_version())
    }
}

impl FromStr for Flavour {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "vllm" => Ok(Self::Vllm),
            "llamacpp" => Ok(Self::Llamacpp),
            other => Err(format!("`{other}` is not a flavour; use `vllm` or `llamacpp`")),
        }
    }
}

/// Returns the flavour that belongs to the name under which a program was started.
///
/// The images hold links named after the engines' own programs, so that a container whose
/// entry point is overridden with the engine's command still runs the simulator.
pub fn invoked_as(argv0: &str) -> Option<Flavour> {
    match argv0.rsplit('/').next() {
        Some("vllm") => Some(Flavour::Vllm),
        Some("llama-server") => Some(Flavour::Llamacpp),
        _ => None,
    }
}

/// An engine version that can be compared: three numbers for vLLM, the build number for llama.cpp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

impl Version {
    /// A llama.cpp build.
    pub(crate) const fn build(number: u32) -> Self {
        Self(number, 0, 0)
    }
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.trim_start_matches(['v', 'b']);
        let mut numbers = digits.split('.').map(str::parse::<u32>);
        let mut next = || numbers.next().unwrap_or(Ok(0));
        match (next(), next(), next()) {
            (Ok(major), Ok(minor), Ok(patch)) if !digits.is_empty() => Ok(Self(major, minor, patch)),
            _ => Err(format!("`{text}` is not an engine version; use a form such as `0.32.0` or `b11434`")),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_selects_the_flavour() {
        assert_eq!(invoked_as("/usr/local/bin/vllm"), Some(Flavour::Vllm));
        assert_eq!(invoked_as("llama-server"), Some(Flavour::Llamacpp));
        assert_eq!(invoked_as("/usr/bin/gantry"), None);
        assert_eq!(invoked_as(""), None);
    }

    #[test]
    fn versions_compare_by_number_not_by_text() {
        let of = |text: &str| text.parse::<Version>().unwrap();
        assert!(of("0.9.2") < of("v0.10.0"));
        assert!(of("b6343") < of("b11434"));
        assert!("bogus".parse::<Version>().is_err());
        assert!("".parse::<Version>().is_err());
    }
}
