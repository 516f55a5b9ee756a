//! The graph for which llama.cpp reserves its compute buffer, modelled only as far as it affects memory.
//!
//! Order of operations: llama.cpp `src/llama-graph.cpp` (`build_attn`, `build_ffn`, `build_moe_ffn`, `build_inp_embd`)
//! as printed by llama-server b11434 with `GGML_SCHED_DEBUG=2`. Norms after a block (Gemma) work in place and are left
//! out; latent attention and recurrent layers are approximate.

use super::{
    Layer, ModelFacts, Recurrent,
    kv::Cells,
    planner::{Graph, Id},
    product, sum,
};

/// Bytes of one activation.
const F32: u64 = 4;

/// What the size of the graph depends on, apart from the model.
#[derive(Debug, Clone, Copy)]
pub(super) struct Batch {
    /// Tokens in one computation.
    pub(super) tokens: u64,
    /// Rows for which logits are computed.
    pub(super) outputs: u64,
    pub(super) cells: Cells,
    pub(super) flash: bool,
    /// Whether the cache of keys and of values is `F32`, which flash attention first converts.
    pub(super) converts: (bool, bool),
}

/// Returns the bytes of the compute buffer.
pub(super) fn compute_bytes(facts: &ModelFacts, batch: &Batch) -> u64 {
    let mut builder = Builder::new(facts, batch);
    let mut current = builder.embeddings();
    let last = facts.layers.len().saturating_sub(1);
    for (index, layer) in facts.layers.iter().enumerate() {
        current = if facts.encoder {
            builder.encoder_layer(layer, current, index == last)
        } else {
            builder.layer(layer, current, index == last)
        };
    }
    builder.head(current);
    builder.graph.plan()
}

struct Builder<'a> {
    facts: &'a ModelFacts,
    batch: &'a Batch,
    graph: Graph,
    /// Rows of the current activations.
    rows: u64,
    position: Id,
    out_ids: Id,
    full: Mask,
    sliding: Option<Mask>,
}

#[derive(Clone, Copy)]
struct Mask {
    scores: Id,
    key_slots: Id,
    value_slots: Id,
}

impl<'a> Builder<'a> {
    fn new(facts: &'a ModelFacts, batch: &'a Batch) -> Self {
        let mut graph = Graph::default();
        let rows = batch.tokens;
        let position = graph.input(rows.saturating_mul(4));
        let out_ids = graph.input(batch.outputs.saturating_mul(4));
        let of = |sliding: bool| facts.layers.iter().find(|it| it.n_head_kv > 0 && it.sliding == sliding);
        let mut mask = |layer: Option<&Layer>, seen: u64| {
            let any = u64::from(layer.is_some());
            let stored = any * u64::from(!facts.encoder);
            let values = layer.map_or(0, |it| it.n_head_kv.saturating_mul(it.value_length));
            Mask {
                scores: graph.input(product([any, seen, rows, if batch.flash { 2 } else { F32 }])),
                key_slots: graph.input(product([stored, rows, 8])),
                // Without flash attention values are stored transposed, one slot per element.
                value_slots: graph.input(product([stored, rows, if batch.flash { 1 } else { values }, 8])),
            }
        };
        let full = mask(of(false), if facts.encoder { rows } else { batch.cells.seen });
        let sliding = of(true).map(|it| mask(Some(it), batch.cells.seen_sliding));
        Self { facts, batch, graph, rows, position, out_ids, full, sliding }
    }

    /// Adds a result of `width` elements per row.
    fn wide(&mut self, width: u64, sources: &[Id]) -> Id {
        self.graph.result(product([self.rows, width, F32]), sources)
    }

    fn over(&mut self, width: u64, sources: &[Id]) -> Id {
        self.graph.in_place(product([self.rows, width, F32]), sources)
    }

    /// Adds the token embeddings. Builds of 2026 also reserve room for embeddings that come from outside and for a mix
    /// of both; a tensor that nothing reads is never freed.
    fn embeddings(&mut self) -> Id {
        let width = self.facts.n_embd;
        let ids = self.rows.saturating_mul(4);
        let tokens = self.graph.input(ids);
        let raw = product([self.rows, width, F32]);
        self.graph.input(raw);
        let (mixed, given, slots) =
            (self.graph.input(ids), self.graph.input(raw), self.graph.input(self.rows.saturating_mul(8)));
        let embedded = self.wide(width, &[tokens]);
        let rows = self.wide(width, &[mixed]);
        let copy = self.wide(width, &[given]);
        self.graph.write_into(copy, &[rows, slots, copy]);
        if !self.facts.encoder {
            return embedded;
        }
        let places = self.wide(width, &[self.position]);
        let typed = self.over(width, &[embedded]);
        let summed = self.over(width, &[places, typed]);
        self.layer_norm(summed)
    }

    fn norm(&mut self, of: Id) -> Id {
        let width = self.facts.n_embd;
        let normal = self.over(width, &[of]);
        self.over(width, &[normal])
    }

    /// Adds a layer norm. Unlike the root-mean-square norm it never works in place.
    fn layer_norm(&mut self, of: Id) -> Id {
        let width = self.facts.n_embd;
        let normal = self.wide(width, &[of]);
        let scaled = self.over(width, &[normal]);
        self.over(width, &[scaled])
    }

    fn layer(&mut self, layer: &Layer, input: Id, last: bool) -> Id {
        let width = self.facts.n_embd;
        let mut residual = input;
        let normal = self.norm(input);
        let mut out = if layer.n_head_kv > 0 {
            self.attention(layer, normal)
        } else if let Some(recurrent) = layer.recurrent {
            self.recurrence(&recurrent, normal)
        } else {
            normal
        };
        if last {
            self.rows = self.batch.outputs;
            out = self.wide(width, &[out, self.out_ids]);
            residual = self.wide(width, &[residual, self.out_ids]);
        }
        let summed = self.over(width, &[out, residual]);
        if layer.n_ff == 0 && layer.n_ff_expert == 0 {
            return summed;
        }
        let normal = self.norm(summed);
        let mut fed = self.feed_forward(layer, normal);
        if layer.n_ff > 0 && layer.n_ff_expert > 0 {
            let shared = self.dense(layer.n_ff, layer.gated, normal);
            fed = self.over(width, &[fed, shared]);
        }
        self.over(width, &[fed, summed])
    }

    /// Adds a state-space layer: projection, convolution over the kept steps and the new ones, scan, gate.
    fn recurrence(&mut self, of: &Recurrent, normal: Id) -> Id {
        let sequences = self.batch.cells.sequences;
        let (inner, channels) = (of.d_inner, of.channels());
        let projected = self.wide(channels.saturating_add(inner), &[normal]);
        let kept = self.graph.result(product([of.convolution(), sequences, F32]), &[]);
        let (fresh, gate) = (self.graph.view(projected), self.graph.view(projected));
        let joined = sum([product([self.rows, channels, F32]), product([of.convolution(), sequences, F32])]);
        let joined = self.graph.result(joined, &[kept, fresh]);
        let convolved = self.wide(channels, &[joined]);
        let biased = self.over(channels, &[convolved]);
        let active = self.over(channels, &[biased]);
        let values = self.graph.view(active);
        let states = product([of.d_inner, of.d_state, sequences, F32]);
        let scanned = self.graph.result(sum([product([self.rows, inner, F32]), states]), &[values]);
        let copied = self.wide(inner, &[gate]);
        let skipped = self.wide(inner, &[active]);
        let scanned = self.graph.view(scanned);
        let added = self.over(inner, &[scanned, skipped]);
        let gated = self.wide(inner, &[copied, added]);
        let gated = self.graph.view(gated);
        let normal = self.wide(inner, &[gated]);
        self.wide(self.facts.n_embd, &[normal])
    }

    fn attention(&mut self, layer: &Layer, normal: Id) -> Id {
        let (keys, values) = match layer.latent {
            Some((latent, _)) => (latent, 0),
            None => (
                layer.n_head_kv.saturating_mul(layer.key_length),
                layer.n_head_kv.saturating_mul(layer.value_length),
            ),
        };
        let (head, result) = layer.latent.unwrap_or((layer.key_length, layer.value_length));
        let (queries, results) = (layer.n_head.saturating_mul(head), layer.n_head.saturating_mul(result));
        let masks = self.sliding.filter(|_| layer.sliding).unwrap_or(self.full);
        let seen = if layer.sliding { self.batch.cells.seen_sliding } else { self.batch.cells.seen };

        let query = self.rotated(queries, normal, layer.qk_norm);
        let value = (values > 0).then(|| self.wide(values, &[normal]));
        let key = self.rotated(keys, normal, layer.qk_norm);
        let (key_cache, value_cache) = (self.graph.external(), self.graph.external());
        let stored = self.graph.view(key);
        self.graph.write_into(key_cache, &[stored, masks.key_slots]);
        if let Some(value) = value {
            let stored = self.graph.view(value);
            self.graph.write_into(value_cache, &[stored, masks.value_slots]);
        }
        let query = self.graph.view(query);
        let mixed = if self.batch.flash {
            let mut sources = vec![query, masks.scores];
            for (converts, elements) in [(self.batch.converts.0, keys), (self.batch.converts.1, values)] {
                if converts {
                    sources.push(self.graph.result(product([seen, elements, 2]), &[]));
                }
            }
            self.wide(results, &sources)
        } else {
            self.scores(layer.n_head, seen, results, query, masks.scores, None)
        };
        let mixed = self.graph.view(mixed);
        self.wide(self.facts.n_embd, &[mixed])
    }

    /// Adds a rotation. It reads a view, so it can't work in place.
    fn rotated(&mut self, width: u64, normal: Id, normalised: bool) -> Id {
        let projected = self.wide(width, &[normal]);
        let mut view = self.graph.view(projected);
        if normalised {
            let normal = self.over(width, &[view]);
            view = self.over(width, &[normal]);
        }
        self.over(width, &[view, self.position])
    }

    /// Adds attention without flash attention: all scores of all heads are computed at once.
    fn scores(&mut self, heads: u64, seen: u64, results: u64, query: Id, mask: Id, value: Option<Id>) -> Id {
        let scores = seen.saturating_mul(heads);
        let raw = self.wide(scores, &[query]);
        let normal = self.over(scores, &[raw, mask]);
        let sources: Vec<Id> = value.into_iter().chain([normal]).collect();
        let mixed = self.wide(results, &sources);
        let permuted = self.graph.view(mixed);
        self.wide(results, &[permuted])
    }

    fn feed_forward(&mut self, layer: &Layer, normal: Id) -> Id {
        let width = self.facts.n_embd;
        if layer.n_ff_expert == 0 {
            return self.dense(layer.n_ff, layer.gated, normal);
        }
        let (experts, used) = (self.facts.n_expert, self.facts.n_expert_used);
        let logits = self.wide(experts, &[normal]);
        let chances = self.over(experts, &[logits]);
        let order = self.wide(experts, &[chances]);
        let chosen = self.graph.view(order);
        let chances = self.graph.view(chances);
        let weights = self.wide(used, &[chances, chosen]);
        let weights = self.over(used, &[weights]);
        let width_of_all = layer.n_ff_expert.saturating_mul(used);
        let rows = self.graph.view(normal);
        let gate = self.wide(width_of_all, &[rows, chosen]);
        let up = self.wide(width_of_all, &[rows, chosen]);
        let joined = self.wide(width_of_all, &[gate, up]);
        let down = self.wide(width.saturating_mul(used), &[joined, chosen]);
        let weighted = self.over(width.saturating_mul(used), &[down, weights]);
        let views: Vec<Id> = (0..used.min(64)).map(|_| self.graph.view(weighted)).collect();
        let mut total = views.first().copied().unwrap_or(weighted);
        for (at, view) in views.into_iter().enumerate().skip(1) {
            // The first sum reads two views; later ones add to it.
            total = if at == 1 { self.wide(width, &[total, view]) } else { self.over(width, &[total, view]) };
        }
        total
    }

    fn dense(&mut self, inner: u64, gated: bool, normal: Id) -> Id {
        let up = self.wide(inner, &[normal]);
        let active = if gated {
            let gate = self.wide(inner, &[normal]);
            self.wide(inner, &[gate, up])
        } else {
            let biased = self.over(inner, &[up]);
            self.over(inner, &[biased])
        };
        self.wide(self.facts.n_embd, &[active])
    }

    /// Adds a layer of BERT or a related model: it has no cache, and its norms come after the blocks.
    fn encoder_layer(&mut self, layer: &Layer, input: Id, last: bool) -> Id {
        let width = self.facts.n_embd;
        let queries = layer.n_head.saturating_mul(layer.key_length);
        let (keys, values) = (
            layer.n_head_kv.saturating_mul(layer.key_length),
            layer.n_head_kv.saturating_mul(layer.value_length),
        );
        let project = |it: &mut Self, width: u64| {
            let raw = it.wide(width, &[input]);
            let biased = it.over(width, &[raw]);
            it.graph.view(biased)
        };
        let (query, key, value) = (project(self, queries), project(self, keys), project(self, values));
        let mixed = if self.batch.flash {
            let half =
                |it: &mut Self, width: u64, of: Id| it.graph.result(product([it.rows, width, 2]), &[of]);
            let (key, value) = (half(self, keys, key), half(self, values, value));
            self.wide(queries, &[query, key, value, self.full.scores])
        } else {
            let value = self.wide(values, &[value]);
            let seen = self.rows;
            let raw = self.wide(seen.saturating_mul(layer.n_head), &[key, query]);
            let normal = self.over(seen.saturating_mul(layer.n_head), &[raw, self.full.scores]);
            let mixed = self.wide(queries, &[value, normal]);
            let permuted = self.graph.view(mixed);
            self.wide(queries, &[permuted])
        };
        let mixed = self.graph.view(mixed);
        let out = self.wide(width, &[mixed]);
        let mut out = self.over(width, &[out]);
        let mut residual = input;
        if last {
            self.rows = self.batch.outputs;
            out = self.wide(width, &[out, self.out_ids]);
            residual = self.wide(width, &[residual, self.out_ids]);
        }
        let summed = self.over(width, &[out, residual]);
        let summed = self.layer_norm(summed);
        let fed = self.dense(layer.n_ff, layer.gated, summed);
        let fed = self.over(width, &[fed]);
        let total = self.over(width, &[fed, summed]);
        self.layer_norm(total)
    }

    fn head(&mut self, current: Id) {
        if self.facts.pooled {
            let width = self.facts.n_embd;
            let turned = self.graph.view(current);
            let copied = self.wide(width, &[turned]);
            self.rows = self.batch.cells.sequences;
            self.wide(width, &[copied]);
            return;
        }
        let normal = self.norm(current);
        self.wide(self.facts.n_vocab, &[normal]);
    }
}
