//! What follows from the settings of one section alone.

use std::time::Duration;

use gantry_domain::{limit, model::PerEngine};

use crate::{Engines, Limits};

impl Engines {
    /// Returns the longest time in `loading`.
    pub fn startup_timeouts(&self) -> PerEngine<Duration> {
        PerEngine { vllm: self.primary_startup_timeout_sec, llamacpp: self.secondary_startup_timeout_sec }
    }

    /// Returns the images of models that name none.
    pub fn default_images(&self) -> PerEngine<String> {
        PerEngine {
            vllm: self.primary_engine_image.0.clone(),
            llamacpp: self.secondary_engine_image.0.clone(),
        }
    }
}

impl Limits {
    /// Returns the limits of keys and users without limits of their own.
    pub fn for_keys(&self) -> limit::Limits {
        let limit = |it: u32| (it > 0).then_some(i64::from(it));
        limit::Limits {
            rpm_limit: limit(self.rate_limit_rpm),
            tpm_limit: limit(self.rate_limit_tpm),
            max_concurrency: limit(self.max_concurrent_requests),
            ..limit::Limits::default()
        }
    }
}
