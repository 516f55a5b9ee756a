//! Builds GGUF headers, including impossible ones.

/// A header under construction, version 3.
pub(crate) struct Gguf {
    keys: Vec<Vec<u8>>,
    tensors: Vec<Vec<u8>>,
    offset: u64,
}

pub(crate) fn text(it: &str) -> Vec<u8> {
    [&(it.len() as u64).to_le_bytes()[..], it.as_bytes()].concat()
}

impl Gguf {
    pub(crate) fn new() -> Self {
        Self { keys: Vec::new(), tensors: Vec::new(), offset: 0 }
    }

    /// Makes a llama model that an engine would accept, without tensors.
    pub(crate) fn llama(blocks: u32) -> Self {
        Self::new()
            .str("general.architecture", "llama")
            .u32("llama.block_count", blocks)
            .u32("llama.context_length", 4096)
            .u32("llama.embedding_length", 64)
            .u32("llama.attention.head_count", 4)
            .str("tokenizer.ggml.model", "llama")
            .texts("tokenizer.ggml.tokens", &["<s>", "</s>"])
            .str("tokenizer.chat_template", "{{ messages }}")
    }

    /// Adds a key whose type and value are these bytes.
    pub(crate) fn raw(mut self, key: &str, kind: u32, value: &[u8]) -> Self {
        self.keys.push([&text(key)[..], &kind.to_le_bytes(), value].concat());
        self
    }

    pub(crate) fn str(self, key: &str, value: &str) -> Self {
        self.raw(key, 8, &text(value))
    }

    pub(crate) fn u32(self, key: &str, value: u32) -> Self {
        self.raw(key, 4, &value.to_le_bytes())
    }

    pub(crate) fn u16(self, key: &str, value: u16) -> Self {
        self.raw(key, 2, &value.to_le_bytes())
    }

    /// Adds an array that claims `len` elements of `kind`, whatever `elements` holds.
    pub(crate) fn array(self, key: &str, kind: u32, len: u64, elements: &[u8]) -> Self {
        self.raw(key, 9, &[&kind.to_le_bytes()[..], &len.to_le_bytes(), elements].concat())
    }

    pub(crate) fn texts(self, key: &str, values: &[&str]) -> Self {
        let elements: Vec<u8> = values.iter().flat_map(|it| text(it)).collect();
        self.array(key, 8, values.len() as u64, &elements)
    }

    pub(crate) fn u32s(self, key: &str, values: &[u32]) -> Self {
        let elements: Vec<u8> = values.iter().flat_map(|it| it.to_le_bytes()).collect();
        self.array(key, 4, values.len() as u64, &elements)
    }

    /// Adds a tensor of `bytes` bytes, right after the one before.
    pub(crate) fn tensor(mut self, name: &str, dims: &[u64], kind: u32, bytes: u64) -> Self {
        let offset = self.offset;
        self.offset = (offset + bytes).next_multiple_of(32);
        self.tensor_at(name, dims, kind, offset)
    }

    pub(crate) fn tensor_at(mut self, name: &str, dims: &[u64], kind: u32, offset: u64) -> Self {
        let mut tensor = text(name);
        tensor.extend((dims.len() as u32).to_le_bytes());
        tensor.extend(dims.iter().flat_map(|it| it.to_le_bytes()));
        tensor.extend(kind.to_le_bytes());
        tensor.extend(offset.to_le_bytes());
        self.tensors.push(tensor);
        self
    }

    /// Returns the header, padded, and the size of the whole file.
    pub(crate) fn finish(self) -> (Vec<u8>, u64) {
        let (tensors, keys) = (self.tensors.len() as u64, self.keys.len() as u64);
        let offset = self.offset;
        let mut out = self.claiming(tensors, keys);
        out.resize(out.len().next_multiple_of(32), 0);
        let size = out.len() as u64 + offset;
        (out, size)
    }

    /// Returns the header with these counts, true or not.
    pub(crate) fn claiming(self, tensors: u64, keys: u64) -> Vec<u8> {
        let mut out = b"GGUF\x03\0\0\0".to_vec();
        out.extend(tensors.to_le_bytes());
        out.extend(keys.to_le_bytes());
        out.extend(self.keys.concat());
        out.extend(self.tensors.concat());
        out
    }
}
