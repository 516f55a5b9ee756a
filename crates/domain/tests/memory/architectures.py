#!/usr/bin/env python3
"""Small GGUF files with random weights of architectures that the fixtures lack. Needs `pip install gguf numpy`.

usage: architectures.py OUT_DIR"""
import sys
import numpy as np
from gguf import GGUFWriter

OUT = sys.argv[1]
CHATML = "{% for m in messages %}{{ m['content'] }}{% endfor %}"


def vocab(extra):
    tokens = [b"<unk>", b"<s>", b"</s>"] + [f"<0x{it:02X}>".encode() for it in range(256)]
    types = [2, 3, 3] + [6] * 256
    words = [f"w{it}" for it in range(extra)]
    return tokens + [it.encode() for it in words], [0.0] * (259 + extra), types + [1] * extra


rng=np.random.default_rng(3)
def start(name,arch,E,H,KV,L,F,ctx,hd=None):
    w=GGUFWriter(f"{OUT}/{name}.gguf",arch); w.add_name(name); w.add_type("model"); w.add_context_length(ctx); w.add_embedding_length(E); w.add_block_count(L); w.add_feed_forward_length(F); w.add_head_count(H); w.add_head_count_kv(KV)
    w.add_layer_norm_rms_eps(1e-5); w.add_file_type(1)
    if hd: w.add_key_length(hd); w.add_value_length(hd)
    toks,sc,ty=vocab(3701); w.add_vocab_size(len(toks)); w.add_quantization_version(2)
    w.add_tokenizer_model("llama"); w.add_tokenizer_pre("default"); w.add_token_list(toks); w.add_token_scores(sc); w.add_token_types(ty); w.add_bos_token_id(1); w.add_eos_token_id(2); w.add_unk_token_id(0)
    w.add_chat_template(CHATML)
    def M(n,*s): w.add_tensor(n,(rng.standard_normal(s)*.05).astype(np.float16))
    def N(n,s): w.add_tensor(n,np.ones((s,),np.float32))
    M("token_embd.weight",len(toks),E); N("output_norm.weight",E)
    return w,M,N,len(toks)
def end(w): w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(progress=False); w.close()
# qwen3: qk norm, tied, head dim != n_embd/n_head
E,H,KV,L,F,hd=256,8,2,6,768,64
w,M,N,V=start("x-qwen3-F16","qwen3",E,H,KV,L,F,8192,hd)
w.add_rope_freq_base(1e6)
for i in range(L):
    b=f"blk.{i}."; N(b+"attn_norm.weight",E); N(b+"ffn_norm.weight",E); N(b+"attn_q_norm.weight",hd); N(b+"attn_k_norm.weight",hd)
    M(b+"attn_q.weight",H*hd,E); M(b+"attn_k.weight",KV*hd,E); M(b+"attn_v.weight",KV*hd,E); M(b+"attn_output.weight",E,H*hd)
    M(b+"ffn_gate.weight",F,E); M(b+"ffn_up.weight",F,E); M(b+"ffn_down.weight",E,F)
end(w)
# qwen3moe
X,U,FE=16,4,192
w,M,N,V=start("x-qwen3moe-F16","qwen3moe",E,H,KV,L,F,8192,hd)
w.add_rope_freq_base(1e6); w.add_expert_count(X); w.add_expert_used_count(U); w.add_expert_feed_forward_length(FE)
for i in range(L):
    b=f"blk.{i}."; N(b+"attn_norm.weight",E); N(b+"ffn_norm.weight",E); N(b+"attn_q_norm.weight",hd); N(b+"attn_k_norm.weight",hd)
    M(b+"attn_q.weight",H*hd,E); M(b+"attn_k.weight",KV*hd,E); M(b+"attn_v.weight",KV*hd,E); M(b+"attn_output.weight",E,H*hd)
    w.add_tensor(b+"ffn_gate_inp.weight",(rng.standard_normal((X,E))*.05).astype(np.float32))
    M(b+"ffn_gate_exps.weight",X,FE,E); M(b+"ffn_up_exps.weight",X,FE,E); M(b+"ffn_down_exps.weight",X,E,FE)
end(w)
# gemma3: swa 5 of 6, tied, post norms
L=6
w,M,N,V=start("x-gemma3-F16","gemma3",E,H,KV,L,F,8192,hd)
w.add_rope_freq_base(1e6); w.add_sliding_window(512)
for i in range(L):
    b=f"blk.{i}."
    for n in ("attn_norm","ffn_norm","post_attention_norm","post_ffw_norm"): N(b+n+".weight",E)
    N(b+"attn_q_norm.weight",hd); N(b+"attn_k_norm.weight",hd)
    M(b+"attn_q.weight",H*hd,E); M(b+"attn_k.weight",KV*hd,E); M(b+"attn_v.weight",KV*hd,E); M(b+"attn_output.weight",E,H*hd)
    M(b+"ffn_gate.weight",F,E); M(b+"ffn_up.weight",F,E); M(b+"ffn_down.weight",E,F)
end(w)
# deepseek2: latent attention
KVR,RD,NOPE,VD=128,32,64,64
w,M,N,V=start("x-deepseek2-F16","deepseek2",E,H,1,L,F,8192)
w.add_key_length(KVR+RD); w.add_value_length(KVR); w.add_key_length_mla(NOPE+RD); w.add_value_length_mla(VD); w.add_kv_lora_rank(KVR); w.add_q_lora_rank(96);  w.add_rope_dimension_count(RD); w.add_rope_freq_base(10000.0)
w.add_leading_dense_block_count(1); w.add_expert_count(X); w.add_expert_used_count(U); w.add_expert_shared_count(1); w.add_expert_feed_forward_length(FE); w.add_expert_weights_scale(1.0)
M("output.weight",V,E)
for i in range(L):
    b=f"blk.{i}."; N(b+"attn_norm.weight",E); N(b+"ffn_norm.weight",E); N(b+"attn_kv_a_norm.weight",KVR)
    M(b+"attn_q_a.weight",96,E); N(b+"attn_q_a_norm.weight",96); M(b+"attn_q_b.weight",H*(NOPE+RD),96); M(b+"attn_kv_a_mqa.weight",KVR+RD,E); M(b+"attn_k_b.weight",H,KVR,NOPE); M(b+"attn_v_b.weight",H,VD,KVR); M(b+"attn_output.weight",E,H*VD)
    if i<1:
        M(b+"ffn_gate.weight",F,E); M(b+"ffn_up.weight",F,E); M(b+"ffn_down.weight",E,F)
    else:
        w.add_tensor(b+"ffn_gate_inp.weight",(rng.standard_normal((X,E))*.05).astype(np.float32))
        M(b+"ffn_gate_exps.weight",X,FE,E); M(b+"ffn_up_exps.weight",X,FE,E); M(b+"ffn_down_exps.weight",X,E,FE)
        M(b+"ffn_gate_shexp.weight",FE,E); M(b+"ffn_up_shexp.weight",FE,E); M(b+"ffn_down_shexp.weight",E,FE)
end(w)
# mamba2
DI,DS,DC,G,HEADS=512,64,4,1,8
w=GGUFWriter(f"{OUT}/x-mamba2-F16.gguf","mamba2"); w.add_name("x-mamba2"); w.add_context_length(8192); w.add_embedding_length(E); w.add_block_count(4); w.add_feed_forward_length(0); w.add_head_count(0); w.add_layer_norm_rms_eps(1e-5); w.add_file_type(1)
w.add_ssm_conv_kernel(DC); w.add_ssm_inner_size(DI); w.add_ssm_state_size(DS); w.add_ssm_time_step_rank(HEADS); w.add_ssm_group_count(G)
toks,sc,ty=vocab(701); w.add_vocab_size(len(toks)); w.add_tokenizer_model("llama"); w.add_tokenizer_pre("default"); w.add_token_list(toks); w.add_token_scores(sc); w.add_token_types(ty); w.add_bos_token_id(1); w.add_eos_token_id(2); w.add_unk_token_id(0)
def M(n,*s): w.add_tensor(n,(rng.standard_normal(s)*.05).astype(np.float16))
def N(n,*s): w.add_tensor(n,np.ones(s,np.float32))
M("token_embd.weight",len(toks),E); N("output_norm.weight",E)
CH=DI+2*G*DS
for i in range(4):
    b=f"blk.{i}."; N(b+"attn_norm.weight",E); M(b+"ssm_in.weight",2*DI+2*G*DS+HEADS,E); N(b+"ssm_conv1d.weight",CH,DC); N(b+"ssm_conv1d.bias",CH); N(b+"ssm_dt.bias",HEADS); N(b+"ssm_a",HEADS,1); N(b+"ssm_d",HEADS,1); N(b+"ssm_norm.weight",G,DI//G); M(b+"ssm_out.weight",E,DI)
end(w)
