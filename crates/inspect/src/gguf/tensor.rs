//! Tensor types, and the bytes that a tensor takes.
//!
//! Block sizes: ggml `ggml/src/ggml.c`, `type_traits`, cross-checked with `gguf-py/gguf/constants.py`
//! (`GGML_QUANT_SIZES`). Missing codes were removed and never belonged to a released quantisation.

use std::fmt;

/// A tensor's element type; unknown codes are kept, since newer engines add some.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GgmlType(pub u32);

/// Code, name, elements of a block, bytes of a block.
const TYPES: &[(u32, &str, u64, u64)] = &[
    (0, "F32", 1, 4),
    (1, "F16", 1, 2),
    (2, "Q4_0", 32, 18),
    (3, "Q4_1", 32, 20),
    (6, "Q5_0", 32, 22),
    (7, "Q5_1", 32, 24),
    (8, "Q8_0", 32, 34),
    (9, "Q8_1", 32, 36),
    (10, "Q2_K", 256, 84),
    (11, "Q3_K", 256, 110),
    (12, "Q4_K", 256, 144),
    (13, "Q5_K", 256, 176),
    (14, "Q6_K", 256, 210),
    (15, "Q8_K", 256, 292),
    (16, "IQ2_XXS", 256, 66),
    (17, "IQ2_XS", 256, 74),
    (18, "IQ3_XXS", 256, 98),
    (19, "IQ1_S", 256, 50),
    (20, "IQ4_NL", 32, 18),
    (21, "IQ3_S", 256, 110),
    (22, "IQ2_S", 256, 82),
    (23, "IQ4_XS", 256, 136),
    (24, "I8", 1, 1),
    (25, "I16", 1, 2),
    (26, "I32", 1, 4),
    (27, "I64", 1, 8),
    (28, "F64", 1, 8),
    (29, "IQ1_M", 256, 56),
    (30, "BF16", 1, 2),
    (34, "TQ1_0", 256, 54),
    (35, "TQ2_0", 256, 66),
    (39, "MXFP4", 32, 17),
    (40, "NVFP4", 64, 36),
    (41, "Q1_0", 128, 18),
    (42, "Q2_0", 64, 18),
];

impl GgmlType {
    pub const F32: Self = Self(0);
    pub const F16: Self = Self(1);

    fn row(self) -> Option<&'static (u32, &'static str, u64, u64)> {
        TYPES.iter().find(|it| it.0 == self.0)
    }

    /// Returns the name; `None` for codes that are not in the table.
    pub fn name(self) -> Option<&'static str> {
        self.row().map(|it| it.1)
    }

    /// Returns the elements and the bytes of one block.
    pub fn block(self) -> Option<(u64, u64)> {
        self.row().map(|it| (it.2, it.3))
    }

    /// Returns the bytes of `elements`, in whole blocks; `None` if the type is unknown or the number too large.
    pub fn bytes(self, elements: u64) -> Option<u64> {
        let (block, bytes) = self.block()?;
        elements.checked_div(block)?.checked_mul(bytes)
    }
}

impl fmt::Display for GgmlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "type {}", self.0),
        }
    }
}

impl fmt::Debug for GgmlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One tensor: a name, a shape and a place in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// Name, as in `blk.0.attn_q.weight`.
    pub name: Box<str>,
    dims: [u64; 4],
    n_dims: u8,
    pub ggml_type: GgmlType,
    /// Offset from the start of the data section.
    pub offset: u64,
    /// Number of elements: the product of the dimensions.
    pub elements: u64,
    /// Size in bytes; `None` if the type is unknown.
    pub bytes: Option<u64>,
}

impl TensorInfo {
    /// Makes the description of a tensor. `dims` beyond the first four are ignored; `None` if the elements or bytes
    /// can't be counted.
    pub(super) fn new(
        name: Box<str>,
        dims: [u64; 4],
        n_dims: u8,
        ggml_type: GgmlType,
        offset: u64,
    ) -> Option<Self> {
        // llama.cpp also demands that the product fits a signed 64-bit number.
        let product = dims.iter().take(n_dims.into()).try_fold(1_u64, |all, dim| {
            let signed = i64::try_from(*dim).ok()?;
            i64::try_from(all).ok()?.checked_mul(signed)?.try_into().ok()
        })?;
        let bytes = match ggml_type.block() {
            None => None,
            Some(_) => Some(ggml_type.bytes(product)?),
        };
        Some(Self { name, dims, n_dims, ggml_type, offset, elements: product, bytes })
    }

    /// Returns 1 to 4 sizes, the fastest-changing first.
    pub fn dims(&self) -> &[u64] {
        self.dims.get(..self.n_dims.into()).unwrap_or_default()
    }

    /// Returns the block (layer) that the tensor belongs to: 7 for `blk.7.ffn_up.weight`.
    pub fn block(&self) -> Option<u64> {
        self.name.strip_prefix("blk.")?.split_once('.')?.0.parse().ok()
    }
}
