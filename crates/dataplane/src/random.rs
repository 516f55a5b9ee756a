//! Random numbers of one thread, and the ids made of them.

use std::{array, cell::RefCell};

use gantry_domain::{Timestamp, usage::id_at};
use rand::{Rng, SeedableRng, rngs::SmallRng};
use uuid::Uuid;

pub(crate) struct Random(RefCell<SmallRng>);

impl Random {
    pub(crate) fn new() -> Self {
        Self(RefCell::new(SmallRng::from_rng(&mut rand::rng())))
    }

    pub(crate) fn numbers<const N: usize>(&self) -> [u64; N] {
        let mut rng = self.0.borrow_mut();
        array::from_fn(|_| rng.next_u64())
    }

    /// Makes the id of a request that came at `now`.
    pub(crate) fn id(&self, now: Timestamp) -> Uuid {
        let [high, low] = self.numbers();
        id_at(now, u128::from(high) << 64 | u128::from(low))
    }
}
