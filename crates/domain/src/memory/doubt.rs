//! What an estimate leaves out, and how that limits its verdict.

use super::Estimate;

/// The direction in which an estimate is incomplete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// More memory is needed than was counted. "Does not fit" remains true, "fits" does not.
    More,
    /// Less memory is needed than was counted. "Fits" remains true, "does not fit" does not.
    Less,
    /// The memory lies elsewhere, or nobody knows. Neither verdict remains.
    Either,
}

impl Estimate {
    /// Notes what was left out, and withdraws the verdicts that no longer hold.
    pub fn leave_out(&mut self, doubt: Doubt, what: &str) {
        self.notes.push(what.to_owned());
        self.max_context_that_fits = None;
        let open = match (doubt, self.fits) {
            (Doubt::More, Some(fits)) => fits,
            (Doubt::Less, Some(fits)) => !fits,
            (Doubt::Either, fits) => fits.is_some(),
            (_, None) => false,
        };
        if open {
            self.fits = None;
            self.notes.push("whether it fits is unknown for that reason".to_owned());
        }
    }
}
