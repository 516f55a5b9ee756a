// Writes a GGUF file of a llama: the simulator asks only that there is a file, but inspection reads what it says. The weights are a
// hole in the file, so that a model of any size takes no room.
import { closeSync, ftruncateSync, openSync, writeSync } from "node:fs";

const UINT32 = 4;
const FLOAT32 = 6;
const STRING = 8;
const ARRAY = 9;
const F32 = 0;

const u32 = (value) => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
};
const u64 = (value) => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
};
const f32 = (value) => {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return bytes;
};
const text = (value) => Buffer.concat([u64(Buffer.byteLength(value)), Buffer.from(value)]);
const WRITERS = { [UINT32]: u32, [FLOAT32]: f32, [STRING]: text };
const list = (type, values) =>
  Buffer.concat([u32(ARRAY), u32(type), u64(values.length), ...values.map(WRITERS[type])]);
const one = (type, value) => Buffer.concat([u32(type), WRITERS[type](value)]);

const TEMPLATE =
  "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>\\n' }}{% endfor %}" +
  "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/** Writes it to `path`. `context`: tokens that it was made for; `type`: `adapter` for a LoRA adapter. */
export function writeGguf(path, { name = "tiny", context = 2048, layers = 2, width = 64, type = "model" } = {}) {
  const inner = width * 2;
  const words = ["<unk>", "<s>", "</s>", ..."abcdefghijklmnopqrstuvwxyz "].map((it) => it);
  const facts = {
    "general.architecture": one(STRING, "llama"),
    "general.type": one(STRING, type),
    "general.name": one(STRING, name),
    "general.file_type": one(UINT32, 0),
    "general.quantization_version": one(UINT32, 2),
    "llama.context_length": one(UINT32, context),
    "llama.embedding_length": one(UINT32, width),
    "llama.block_count": one(UINT32, layers),
    "llama.feed_forward_length": one(UINT32, inner),
    "llama.attention.head_count": one(UINT32, 4),
    "llama.attention.head_count_kv": one(UINT32, 2),
    "llama.attention.layer_norm_rms_epsilon": one(FLOAT32, 1e-5),
    "llama.rope.dimension_count": one(UINT32, width / 4),
    "llama.vocab_size": one(UINT32, words.length),
    "tokenizer.ggml.model": one(STRING, "llama"),
    "tokenizer.ggml.tokens": list(STRING, words),
    "tokenizer.ggml.scores": list(FLOAT32, words.map(() => 0)),
    "tokenizer.ggml.bos_token_id": one(UINT32, 1),
    "tokenizer.ggml.eos_token_id": one(UINT32, 2),
    "tokenizer.chat_template": one(STRING, TEMPLATE),
  };
  const tensors = [
    ["token_embd.weight", [width, words.length]],
    ["output_norm.weight", [width]],
    ["output.weight", [width, words.length]],
  ];
  for (let at = 0; at < layers; at += 1)
    for (const [part, shape] of [
      ["attn_norm", [width]], ["ffn_norm", [width]], ["attn_q", [width, width]], ["attn_k", [width, width / 2]],
      ["attn_v", [width, width / 2]], ["attn_output", [width, width]], ["ffn_gate", [width, inner]],
      ["ffn_up", [width, inner]], ["ffn_down", [inner, width]],
    ])
      tensors.push([`blk.${at}.${part}.weight`, shape]);
  let offset = 0;
  const table = tensors.map(([tensor, shape]) => {
    const row = Buffer.concat([text(tensor), u32(shape.length), ...shape.map(u64), u32(F32), u64(offset)]);
    offset += Math.ceil((shape.reduce((all, it) => all * it, 1) * 4) / 32) * 32;
    return row;
  });
  const head = Buffer.concat([
    Buffer.from("GGUF"), u32(3), u64(tensors.length), u64(Object.keys(facts).length),
    ...Object.entries(facts).flatMap(([key, value]) => [text(key), value]), ...table,
  ]);
  const file = openSync(path, "w");
  writeSync(file, head);
  ftruncateSync(file, Math.ceil(head.length / 32) * 32 + offset);
  closeSync(file);
}
