//! Computes the room that a computation graph needs, by simulating ggml's graph allocator without tensors.
//!
//! Rules: llama.cpp `ggml/src/ggml-alloc.c` (`ggml_gallocr_alloc_graph_impl`, `ggml_dyn_tallocr_alloc`). Inputs come
//! first; a result takes the smallest hole that holds it, else the end; some operations write over an operand that
//! nothing else needs; a tensor is freed after its last reader.

use super::pad;

/// `TENSOR_ALIGNMENT` of the CPU backend. The 128 of CUDA makes no visible difference.
const ALIGNMENT: u64 = 32;

/// A tensor of the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Id(usize);

#[derive(Debug, Default)]
struct Node {
    bytes: u64,
    sources: Vec<usize>,
    /// The tensor shows the memory of this other tensor.
    view_of: Option<usize>,
    in_place: bool,
    /// The tensor lies in a buffer of its own, as weights and cache do.
    external: bool,
    is_input: bool,
    readers: usize,
    views: usize,
    address: Option<u64>,
}

/// A graph in the order in which it is computed.
#[derive(Debug, Default)]
pub(super) struct Graph(Vec<Node>);

impl Graph {
    fn push(&mut self, node: Node) -> Id {
        self.0.push(node);
        Id(self.0.len() - 1)
    }

    /// Adds a tensor that is filled from outside before the computation.
    pub(super) fn input(&mut self, bytes: u64) -> Id {
        self.push(Node { bytes: pad(bytes, ALIGNMENT), is_input: true, ..Node::default() })
    }

    pub(super) fn external(&mut self) -> Id {
        self.push(Node { external: true, ..Node::default() })
    }

    /// Adds a result with memory of its own. Weights need not be named as sources.
    pub(super) fn result(&mut self, bytes: u64, sources: &[Id]) -> Id {
        let sources = sources.iter().map(|it| it.0).collect();
        self.push(Node { bytes: pad(bytes, ALIGNMENT), sources, ..Node::default() })
    }

    /// Adds a result that may take the place of a source of the same size.
    pub(super) fn in_place(&mut self, bytes: u64, sources: &[Id]) -> Id {
        let id = self.result(bytes, sources);
        self.0[id.0].in_place = true;
        id
    }

    pub(super) fn view(&mut self, of: Id) -> Id {
        self.write_into(of, &[of])
    }

    /// Adds a node whose result is the memory of `target` itself: a view, or a write into it.
    pub(super) fn write_into(&mut self, target: Id, sources: &[Id]) -> Id {
        let root = self.0[target.0].view_of.unwrap_or(target.0);
        let external = self.0[root].external;
        let sources = sources.iter().map(|it| it.0).collect();
        self.push(Node { sources, view_of: Some(root), external, ..Node::default() })
    }

    /// Returns the size of the buffer, in bytes.
    pub(super) fn plan(mut self) -> u64 {
        let mut arena = Arena::default();
        for index in 0..self.0.len() {
            if self.0[index].is_input {
                self.allocate(index, &mut arena);
            }
            if let Some(root) = self.0[index].view_of {
                self.0[root].views += 1;
            }
            for at in 0..self.0[index].sources.len() {
                let source = self.0[index].sources[at];
                self.0[source].readers += 1;
            }
        }
        for index in 0..self.0.len() {
            self.allocate(index, &mut arena);
            for at in 0..self.0[index].sources.len() {
                let source = self.0[index].sources[at];
                self.0[source].readers -= 1;
                self.release(source, &mut arena);
            }
        }
        arena.top
    }

    fn allocate(&mut self, index: usize, arena: &mut Arena) {
        let node = &self.0[index];
        if node.external || node.view_of.is_some() || node.address.is_some() {
            return;
        }
        if node.in_place {
            let bytes = node.bytes;
            let reusable = node.sources.iter().copied().find(|it| {
                let source = &self.0[*it];
                source.address.is_some() && source.bytes == bytes && source.readers == 1 && source.views == 0
            });
            if let Some(source) = reusable {
                self.0[index].address = self.0[source].address.take();
                return;
            }
        }
        self.0[index].address = Some(arena.take(self.0[index].bytes));
    }

    fn release(&mut self, index: usize, arena: &mut Arena) {
        let node = &self.0[index];
        if node.readers > 0 || node.views > 0 {
            return;
        }
        let owner = match node.view_of {
            Some(root) => {
                self.0[root].views = self.0[root].views.saturating_sub(1);
                root
            }
            None => index,
        };
        let node = &mut self.0[owner];
        if node.readers == 0
            && node.views == 0
            && let Some(address) = node.address.take()
        {
            arena.free(address, node.bytes);
        }
    }
}

/// The free holes by address, and the end of the used memory.
#[derive(Debug, Default)]
struct Arena {
    holes: Vec<(u64, u64)>,
    end: u64,
    top: u64,
}

impl Arena {
    fn take(&mut self, bytes: u64) -> u64 {
        let mut best: Option<(usize, u64)> = None;
        for (at, (_, size)) in self.holes.iter().enumerate() {
            if *size >= bytes && best.is_none_or(|it| *size <= it.1) {
                best = Some((at, *size));
            }
        }
        let Some((at, _)) = best else {
            let address = self.end;
            self.end = address.saturating_add(bytes);
            self.top = self.top.max(self.end);
            return address;
        };
        let hole = &mut self.holes[at];
        let address = hole.0;
        *hole = (address + bytes, hole.1 - bytes);
        if hole.1 == 0 {
            self.holes.remove(at);
        }
        address
    }

    fn free(&mut self, address: u64, bytes: u64) {
        let at = self.holes.partition_point(|it| it.0 < address);
        self.holes.insert(at, (address, bytes));
        if let Some(next) = self.holes.get(at + 1).copied()
            && address.saturating_add(bytes) == next.0
        {
            self.holes[at].1 = bytes.saturating_add(next.1);
            self.holes.remove(at + 1);
        }
        if at > 0 && self.holes[at - 1].0.saturating_add(self.holes[at - 1].1) == address {
            self.holes[at - 1].1 = self.holes[at - 1].1.saturating_add(self.holes[at].1);
            self.holes.remove(at);
        }
        if let Some(last) = self.holes.last().copied()
            && last.0.saturating_add(last.1) >= self.end
        {
            self.end = last.0;
            self.holes.pop();
        }
    }
}
