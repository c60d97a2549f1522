"""Qwen 1 and InternLM 2, which transformers lacks: the layers' maths as published,
once in PyTorch and once, for a check, in plain float64.

The classes answer what make_decoder_cases.py asks of a transformers model. The
second form, `check`, shares no line with the first and works a token at a time.
"""
import math

import torch
from torch import nn

HEADS, KV_HEADS, HEAD_DIM, HIDDEN, INNER, VOCAB, LAYERS = 6, 2, 8, 48, 76, 131, 2
EPS = 1e-6


class RMSNorm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x):
        x32 = x.float()
        x32 = x32 * torch.rsqrt(x32.pow(2).mean(-1, keepdim=True) + EPS)
        return x32.to(x.dtype) * self.weight


def rotate(x, base):
    """x [tokens, heads, HEAD_DIM], pairs (i, i + HEAD_DIM / 2)."""
    tokens, half = x.shape[0], HEAD_DIM // 2
    freqs = base ** (-torch.arange(half, dtype=torch.float32) / half)
    angles = torch.arange(tokens, dtype=torch.float32)[:, None] * freqs
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    a, b = x[..., :half].float(), x[..., half:].float()
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)


def attend(q, k, v):
    """[tokens, heads, HEAD_DIM] each, k and v of KV heads."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = torch.einsum("ihd,jhd->hij", q, k) / math.sqrt(HEAD_DIM)
    tokens = q.shape[0]
    future = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
    scores = scores.masked_fill(future, -torch.inf)
    weights = scores.softmax(-1, dtype=torch.float32).to(v.dtype)
    return torch.einsum("hij,jhd->ihd", weights, v).reshape(tokens, -1)


class Decoder(nn.Module):
    """Layers and head, under the names that the family publishes."""

    def forward(self, input_ids):
        x = self.get_input_embeddings()(input_ids[0])
        for block in self.blocks():
            x = block(x)
        return self.head()(self.final_norm()(x))[None]

    @staticmethod
    def common():
        return {"vocab_size": VOCAB, "hidden_size": HIDDEN,
                "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
                "bos_token_id": 1, "eos_token_id": 2, "torch_dtype": "float16",
                "transformers_version": "4.33.0"}


class QwenBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = RMSNorm(HIDDEN), RMSNorm(HIDDEN)
        self.attn, self.mlp = nn.Module(), nn.Module()
        self.attn.c_attn = nn.Linear(HIDDEN, 3 * HIDDEN)
        self.attn.c_proj = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.mlp.w1 = nn.Linear(HIDDEN, INNER, bias=False)
        self.mlp.w2 = nn.Linear(HIDDEN, INNER, bias=False)
        self.mlp.c_proj = nn.Linear(INNER, HIDDEN, bias=False)

    def forward(self, x):
        q, k, v = (t.view(-1, HEADS, HEAD_DIM)
                   for t in self.attn.c_attn(self.ln_1(x)).split(HIDDEN, -1))
        x = x + self.attn.c_proj(attend(rotate(q, 10000.0), rotate(k, 10000.0),
                                        v))
        y = self.ln_2(x)
        y = self.mlp.w1(y) * nn.functional.silu(self.mlp.w2(y))
        return x + self.mlp.c_proj(y)


class Qwen(Decoder):
    def __init__(self):
        super().__init__()
        self.transformer = nn.Module()
        self.transformer.wte = nn.Embedding(VOCAB, HIDDEN)
        self.transformer.h = nn.ModuleList(QwenBlock() for _ in range(LAYERS))
        self.transformer.ln_f = RMSNorm(HIDDEN)
        self.lm_head = nn.Linear(HIDDEN, VOCAB, bias=False)

    def get_input_embeddings(self):
        return self.transformer.wte

    def blocks(self):
        return self.transformer.h

    def final_norm(self):
        return self.transformer.ln_f

    def head(self):
        return self.lm_head

    def config_json(self):
        return {"architectures": ["QWenLMHeadModel"], "model_type": "qwen",
                **self.common(), "intermediate_size": 2 * INNER,
                "kv_channels": HEAD_DIM, "layer_norm_epsilon": EPS,
                "max_position_embeddings": 256, "seq_length": 96,
                "rotary_emb_base": 10000, "rotary_pct": 1.0,
                "use_dynamic_ntk": True, "use_logn_attn": True,
                "no_bias": True, "scale_attn_weights": True,
                "emb_dropout_prob": 0.0, "attn_dropout_prob": 0.0,
                "tie_word_embeddings": False,
                "auto_map": {"AutoConfig": "configuration_qwen.QWenConfig"}}

    def parts(self, i):
        """What the check needs of layer i, as float64 lists of rows."""
        b = self.transformer.h[i]
        w, bias = b.attn.c_attn.weight, b.attn.c_attn.bias
        rows = [range(j * HIDDEN, (j + 1) * HIDDEN) for j in range(3)]
        return {"kv_heads": HEADS, "base": 10000.0, "qkv": [
            (w[list(r)], bias[list(r)]) for r in rows],
            "out": (b.attn.c_proj.weight, None), "gate": b.mlp.w2.weight,
            "up": b.mlp.w1.weight, "down": b.mlp.c_proj.weight,
            "norms": (b.ln_1.weight, b.ln_2.weight)}


class InternLM2Block(nn.Module):
    GROUP = HEADS // KV_HEADS

    def __init__(self):
        super().__init__()
        self.attention, self.feed_forward = nn.Module(), nn.Module()
        self.attention.wqkv = nn.Linear(
            HIDDEN, (HEADS + 2 * KV_HEADS) * HEAD_DIM)
        self.attention.wo = nn.Linear(HIDDEN, HIDDEN)
        self.feed_forward.w1 = nn.Linear(HIDDEN, INNER, bias=False)
        self.feed_forward.w2 = nn.Linear(INNER, HIDDEN, bias=False)
        self.feed_forward.w3 = nn.Linear(HIDDEN, INNER, bias=False)
        self.attention_norm, self.ffn_norm = RMSNorm(HIDDEN), RMSNorm(HIDDEN)

    def forward(self, x):
        qkv = self.attention.wqkv(self.attention_norm(x)).view(
            -1, KV_HEADS, self.GROUP + 2, HEAD_DIM)
        q = qkv[:, :, :self.GROUP].reshape(-1, HEADS, HEAD_DIM)
        k, v = qkv[:, :, -2], qkv[:, :, -1]
        x = x + self.attention.wo(attend(rotate(q, 1e6), rotate(k, 1e6), v))
        y = self.ffn_norm(x)
        y = nn.functional.silu(self.feed_forward.w1(y)) * self.feed_forward.w3(y)
        return x + self.feed_forward.w2(y)


class InternLM2(Decoder):
    def __init__(self):
        super().__init__()
        self.model = nn.Module()
        self.model.tok_embeddings = nn.Embedding(VOCAB, HIDDEN)
        self.model.layers = nn.ModuleList(
            InternLM2Block() for _ in range(LAYERS))
        self.model.norm = RMSNorm(HIDDEN)
        self.output = nn.Linear(HIDDEN, VOCAB, bias=False)

    def get_input_embeddings(self):
        return self.model.tok_embeddings

    def blocks(self):
        return self.model.layers

    def final_norm(self):
        return self.model.norm

    def head(self):
        return self.output

    def config_json(self):
        return {"architectures": ["InternLM2ForCausalLM"],
                "model_type": "internlm2", **self.common(),
                "intermediate_size": INNER, "num_key_value_heads": KV_HEADS,
                "hidden_act": "silu", "rms_norm_eps": EPS, "bias": True,
                "max_position_embeddings": 96, "rope_theta": 1000000,
                "rope_scaling": {"type": "dynamic", "factor": 2.0},
                "pad_token_id": 0, "tie_word_embeddings": False,
                "attn_implementation": "eager",
                "auto_map": {
                    "AutoConfig": "configuration_internlm2.InternLM2Config"}}

    def parts(self, i):
        b = self.model.layers[i]
        w, bias = b.attention.wqkv.weight, b.attention.wqkv.bias
        rows = [[], [], []]
        for r in range(w.shape[0]):
            part = r // HEAD_DIM % (InternLM2Block.GROUP + 2)
            rows[max(0, part - InternLM2Block.GROUP + 1)].append(r)
        return {"kv_heads": KV_HEADS, "base": 1e6,
                "qkv": [(w[r], bias[r]) for r in rows],
                "out": (b.attention.wo.weight, b.attention.wo.bias),
                "gate": b.feed_forward.w1.weight, "up": b.feed_forward.w3.weight,
                "down": b.feed_forward.w2.weight,
                "norms": (b.attention_norm.weight, b.ffn_norm.weight)}


# ---- the second form: lists of Python floats, a token at a time -------------

def lists(t):
    return t.detach().double().tolist()


def product(w, x, bias=None):
    return [math.fsum(a * b for a, b in zip(row, x)) +
            (bias[i] if bias else 0.0) for i, row in enumerate(w)]


def normed(x, weight):
    scale = 1 / math.sqrt(math.fsum(a * a for a in x) / len(x) + EPS)
    return [a * scale * w for a, w in zip(x, weight)]


def turned(x, position, base):
    """Each head of x as complex numbers times e^(i angle)."""
    out = list(x)
    half = HEAD_DIM // 2
    for head in range(0, len(x), HEAD_DIM):
        for i in range(half):
            angle = position * base ** (-2.0 * i / HEAD_DIM)
            z = complex(x[head + i], x[head + half + i]) * complex(
                math.cos(angle), math.sin(angle))
            out[head + i], out[head + half + i] = z.real, z.imag
    return out


def second_form(model, ids):
    layers = []
    for i in range(LAYERS):
        p = model.parts(i)
        layers.append({
            "base": p["base"], "group": HEADS // p["kv_heads"],
            "qkv": [(lists(w), lists(b)) for w, b in p["qkv"]],
            "out": [None if t is None else lists(t) for t in p["out"]],
            **{k: lists(p[k]) for k in ("gate", "up", "down")},
            "norms": [lists(n) for n in p["norms"]], "keys": [], "values": []})
    table = lists(model.get_input_embeddings().weight)
    head, last = lists(model.head().weight), lists(model.final_norm().weight)
    logits = []
    for position, token in enumerate(ids):
        x = table[token]
        for l in layers:
            y = normed(x, l["norms"][0])
            q, k, v = (product(w, y, b) for w, b in l["qkv"])
            q = turned(q, position, l["base"])
            l["keys"].append(turned(k, position, l["base"]))
            l["values"].append(v)
            mixed = []
            for h in range(HEADS):
                begin = h // l["group"] * HEAD_DIM
                mine = q[h * HEAD_DIM:(h + 1) * HEAD_DIM]
                scores = [math.fsum(a * b for a, b in zip(
                    mine, key[begin:begin + HEAD_DIM])) / math.sqrt(HEAD_DIM)
                    for key in l["keys"]]
                top = max(scores)
                weights = [math.exp(s - top) for s in scores]
                total = math.fsum(weights)
                mixed += [math.fsum(w * value[begin + d] for w, value in zip(
                    weights, l["values"])) / total for d in range(HEAD_DIM)]
            x = [a + b for a, b in zip(x, product(l["out"][0], mixed,
                                                  l["out"][1]))]
            y = normed(x, l["norms"][1])
            inner = [g / (1 + math.exp(-g)) * u for g, u in zip(
                product(l["gate"], y), product(l["up"], y))]
            x = [a + b for a, b in zip(x, product(l["down"], inner))]
        logits.append(product(head, normed(x, last)))
    return logits


def check(model, prompts, want):
    for ids, logits in zip(prompts, want):
        other = torch.tensor(second_form(model, ids), dtype=torch.float64)
        error = float((logits.double() - other).norm() / other.norm())
        if not error < 1e-5:
            raise SystemExit(f"the two forms differ by {error:.1e}")
