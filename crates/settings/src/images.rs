//! Settings that name container images. A name that no image can have is refused at start, not only when a model needs
//! it.

use gantry_domain::image::{is_pattern, is_reference};

use crate::value::{Value, Words};

/// An image name in the form that `docker run` takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageName(pub String);

impl Value for ImageName {
    const ALLOWED: &'static str = "an image such as vllm/vllm-openai:v0.32.0";
    const ALLOWED_DE: &'static str = "ein Image wie vllm/vllm-openai:v0.32.0";

    fn parse(text: &str) -> Option<Self> {
        is_reference(text).then(|| Self(text.to_owned()))
    }

    fn show(&self) -> String {
        self.0.clone()
    }
}

/// Image repositories. One that ends with `*` matches all that begin with the text before it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImagePatterns(pub Vec<String>);

impl Value for ImagePatterns {
    const ALLOWED: &'static str =
        "images separated by commas, such as vllm/vllm-openai,registry.example/team/*";
    const ALLOWED_DE: &'static str =
        "Images, durch Kommas getrennt, wie vllm/vllm-openai,registry.example/team/*";

    fn parse(text: &str) -> Option<Self> {
        let words = Words::parse(text)?.0;
        words.iter().all(|it| is_pattern(it)).then_some(Self(words))
    }

    fn show(&self) -> String {
        Words(self.0.clone()).show()
    }
}
