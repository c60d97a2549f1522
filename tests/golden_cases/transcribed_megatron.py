"""Megatron GPT, which transformers lacks: one model by Megatron's arguments, under
the names of each generation of its checkpoints, once in PyTorch and once, for a
check, in plain float64.

The class answers what make_decoder_cases.py asks of a transformers model. The
second form, `check`, shares no line with the first and works a token at a time.
"""
import cmath
import math

import torch
from torch import nn

# Where the tensors of each generation lie.
OLD = {"stack": "language_model.transformer", "embed": "language_model.",
       "norm1": "input_layernorm.", "qkv": "attention.query_key_value",
       "out": "attention.dense", "norm2": "post_attention_layernorm.",
       "up": "mlp.dense_h_to_4h", "down": "mlp.dense_4h_to_h",
       "final": "final_layernorm"}
MIDDLE = {**OLD, "stack": "model.language_model.encoder",
          "embed": "model.language_model.",
          "qkv": "self_attention.query_key_value",
          "out": "self_attention.dense"}
LATE = {**MIDDLE, "stack": "module.language_model.encoder",
        "embed": "module.language_model.", "norm1": "input_norm.",
        "norm2": "post_attention_norm.", "final": "final_norm"}
CORE = {"stack": "decoder", "embed": "",
        "norm1": "self_attention.linear_qkv.layer_norm_",
        "qkv": "self_attention.linear_qkv", "out": "self_attention.linear_proj",
        "norm2": "mlp.linear_fc1.layer_norm_", "up": "mlp.linear_fc1",
        "down": "mlp.linear_fc2", "final": "final_layernorm"}
EXTRA_STATES = ("decoder.layers.0.self_attention.linear_qkv",
                "decoder.layers.1.mlp.linear_fc2", "decoder.final_layernorm")

SIZES = {"num_layers": 2, "hidden_size": 48, "num_attention_heads": 6,
         "ffn_hidden_size": 76, "max_position_embeddings": 96,
         "seq_length": 96, "padded_vocab_size": 131,
         "make_vocab_size_divisible_by": 1, "params_dtype": "torch.float16",
         "apply_residual_connection_post_layernorm": False}
ARGS = {
    # A file of 2020: thirds, learned positions.
    "old": (OLD, {**SIZES, "layernorm_epsilon": 1e-5, "openai_gelu": False,
                  "bias_gelu_fusion": True, "checkpoint_version": 0}),
    # Query, key and value of each row side by side; gelu by erf.
    "rows": (MIDDLE, {**SIZES, "layernorm_epsilon": 1e-6, "kv_channels": 10,
                      "openai_gelu": False, "bias_gelu_fusion": False,
                      "apply_layernorm_1p": True, "checkpoint_version": 1.0}),
    # As Llama 2 is trained.
    "grouped": (LATE, {
        **SIZES, "norm_epsilon": 1e-5, "normalization": "RMSNorm",
        "group_query_attention": True, "num_query_groups": 2, "swiglu": True,
        "use_rotary_position_embeddings": True, "rotary_percent": 0.5,
        "add_position_embedding": False, "add_bias_linear": False,
        "add_qkv_bias": True, "bias_gelu_fusion": False,
        "untie_embeddings_and_output_weights": True,
        "checkpoint_version": 3.0}),
    # Megatron-core with norms fused into the linears behind them.
    "core": (CORE, {
        **SIZES, "layernorm_epsilon": 1e-5, "normalization": "LayerNorm",
        "layernorm_zero_centered_gamma": True, "kv_channels": 10,
        "group_query_attention": True, "num_query_groups": 3,
        "qk_layernorm": True, "swiglu": True, "add_bias_linear": True,
        "position_embedding_type": "rope", "rotary_interleaved": True,
        "rotary_base": 500, "untie_embeddings_and_output_weights": False}),
}


def put(root, path, parameter):
    *modules, name = path.split(".")
    for module in modules:
        if module not in dict(root.named_children()):
            root.add_module(module, nn.Module())
        root = getattr(root, module)
    root.register_parameter(name, nn.Parameter(parameter))


class GPT(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.at, self.args = ARGS[kind]
        a = self.args
        self.heads = a["num_attention_heads"]
        self.groups = a.get("num_query_groups", self.heads)
        self.head_dim = a.get("kv_channels", a["hidden_size"] // self.heads)
        self.rms = a.get("normalization") == "RMSNorm"
        self.one_more = a.get("apply_layernorm_1p") or a.get(
            "layernorm_zero_centered_gamma")
        hidden, inner = a["hidden_size"], a["ffn_hidden_size"]
        bias = a.get("add_bias_linear", True)
        self.table = self.at["embed"] + "embedding.word_embeddings.weight"
        put(self, self.table, torch.zeros(a["padded_vocab_size"], hidden))
        self.positions = (self.at["embed"] +
                          "embedding.position_embeddings.weight")
        self.rope = a.get("use_rotary_position_embeddings") or a.get(
            "position_embedding_type") == "rope"
        if not self.rope:
            put(self, self.positions, torch.zeros(
                a["max_position_embeddings"], hidden))
        query = self.heads * self.head_dim
        for i in range(a["num_layers"]):
            self.norm_weights(self.layer(i, "norm1"), hidden)
            self.linear(self.layer(i, "qkv"),
                        query + 2 * self.groups * self.head_dim, hidden,
                        bias or a.get("add_qkv_bias", False))
            for x in ("q", "k") if a.get("qk_layernorm") else ():
                self.norm_weights(self.head_norm(i, x), self.head_dim)
            self.linear(self.layer(i, "out"), hidden, query, bias)
            self.norm_weights(self.layer(i, "norm2"), hidden)
            self.linear(self.layer(i, "up"),
                        2 * inner if a.get("swiglu") else inner, hidden, bias)
            self.linear(self.layer(i, "down"), hidden, inner, bias)
        self.norm_weights(self.final(), hidden)
        self.head = self.table
        if a.get("untie_embeddings_and_output_weights"):
            self.head = self.at["embed"] + "output_layer.weight"
            put(self, self.head, torch.zeros(a["padded_vocab_size"], hidden))
        if self.at is CORE:
            for path in EXTRA_STATES:
                self.get_submodule(path).register_buffer("_extra_state",
                                                         torch.ones(5))

    def layer(self, i, part):
        return f"{self.at['stack']}.layers.{i}.{self.at[part]}"

    def head_norm(self, i, x):
        return f"{self.at['stack']}.layers.{i}.self_attention.{x}_layernorm."

    def final(self):
        return f"{self.at['stack']}.{self.at['final']}."

    def norm_weights(self, at, size):
        put(self, at + "weight", torch.full((size,),
                                            0.0 if self.one_more else 1.0))
        if not self.rms:
            put(self, at + "bias", torch.zeros(size))

    def linear(self, at, rows, cols, bias):
        put(self, at + ".weight", torch.zeros(rows, cols))
        if bias:
            put(self, at + ".bias", torch.zeros(rows))

    def config_json(self):
        return {"model_type": "megatron_gpt", **self.args}

    # ---- the forward pass

    def norm(self, x, at, p):
        eps = self.args.get("layernorm_epsilon", self.args.get("norm_epsilon"))
        y = x.float()
        weight = p[at + "weight"].float() + (1 if self.one_more else 0)
        if self.rms:
            y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + eps) * weight
        else:
            y = nn.functional.layer_norm(y, weight.shape, weight,
                                         p[at + "bias"].float(), eps)
        return y.to(x.dtype)

    def rotate(self, x):
        """x [tokens, heads, head_dim]."""
        a = self.args
        dim = int(self.head_dim * a.get("rotary_percent", 1.0))
        freqs = 1.0 / a.get("rotary_base", 10000) ** (
            torch.arange(0, dim, 2, dtype=torch.float32) / dim)
        angles = torch.outer(torch.arange(len(x), dtype=torch.float32), freqs)
        t, rest = x[..., :dim].float(), x[..., dim:]
        if a.get("rotary_interleaved"):
            angles = angles.repeat_interleave(2, -1)
            turned = torch.stack([-t[..., 1::2], t[..., ::2]], -1).flatten(-2)
        else:
            angles = torch.cat([angles, angles], -1)
            turned = torch.cat([-t[..., dim // 2:], t[..., :dim // 2]], -1)
        angles = angles[:, None]
        t = t * angles.cos() + turned * angles.sin()
        return torch.cat([t.to(x.dtype), rest], -1)

    def split(self, qkv):
        """Queries, keys and values, [tokens, heads or groups, head_dim]."""
        version, dim = self.args.get("checkpoint_version", 3), self.head_dim
        tokens = len(qkv)
        if version == 0:
            return [t.reshape(tokens, -1, dim) for t in qkv.split(
                [self.heads * dim] + 2 * [self.groups * dim], -1)]
        if version == 1:
            return qkv.view(tokens, self.heads, dim, 3).unbind(-1)
        t = qkv.view(tokens, self.groups, -1, dim)
        return t[:, :, :-2].reshape(tokens, -1, dim), t[:, :, -2], t[:, :, -1]

    def attend(self, q, k, v):
        repeat = self.heads // self.groups
        k, v = k.repeat_interleave(repeat, 1), v.repeat_interleave(repeat, 1)
        scores = torch.einsum("ihd,jhd->hij", q, k) / math.sqrt(self.head_dim)
        future = torch.ones(len(q), len(q), dtype=torch.bool).triu(1)
        weights = scores.masked_fill(future, -torch.inf).softmax(
            -1, dtype=torch.float32).to(v.dtype)
        return torch.einsum("hij,jhd->ihd", weights, v).flatten(1)

    def act(self, x):
        if self.args.get("swiglu"):
            gate, up = x.chunk(2, -1)
            return nn.functional.silu(gate) * up
        return nn.functional.gelu(x, approximate="tanh" if self.args[
            "bias_gelu_fusion"] else "none")

    def forward(self, input_ids):
        p = dict(self.named_parameters())

        def linear(at, x):
            return nn.functional.linear(x, p[at + ".weight"],
                                        p.get(at + ".bias"))

        x = p[self.table][input_ids[0]]
        if not self.rope:
            x = x + p[self.positions][:len(x)]
        for i in range(self.args["num_layers"]):
            y = self.norm(x, self.layer(i, "norm1"), p)
            q, k, v = self.split(linear(self.layer(i, "qkv"), y))
            if self.args.get("qk_layernorm"):
                q = self.norm(q, self.head_norm(i, "q"), p)
                k = self.norm(k, self.head_norm(i, "k"), p)
            if self.rope:
                q, k = self.rotate(q), self.rotate(k)
            x = x + linear(self.layer(i, "out"), self.attend(q, k, v))
            y = self.norm(x, self.layer(i, "norm2"), p)
            y = self.act(linear(self.layer(i, "up"), y))
            x = x + linear(self.layer(i, "down"), y)
        x = self.norm(x, self.final(), p)
        return nn.functional.linear(x, p[self.head])[None]


# ---- the second form: lists of Python floats, a token at a time -------------

def dot(a, b):
    return math.fsum(x * y for x, y in zip(a, b))


class Reader:
    """Tensors as lists, and the rules of one model's arguments."""

    def __init__(self, model):
        self.t = {k: v.detach().double().tolist()
                  for k, v in model.named_parameters()}
        self.a, self.m = model.args, model
        self.dim = model.head_dim

    def normed(self, x, at):
        mean = 0 if self.m.rms else math.fsum(x) / len(x)
        eps = self.a.get("layernorm_epsilon") or self.a["norm_epsilon"]
        spread = math.sqrt(math.fsum((v - mean) ** 2 for v in x) / len(x) + eps)
        more = 1 if self.m.one_more else 0
        bias = self.t.get(at + "bias") or [0] * len(x)
        return [(v - mean) / spread * (w + more) + b
                for v, w, b in zip(x, self.t[at + "weight"], bias)]

    def row(self, at, r, x):
        bias = self.t.get(at + ".bias")
        return dot(self.t[at + ".weight"][r], x) + (bias[r] if bias else 0)

    def rows(self, at, x):
        return [self.row(at, r, x) for r in range(len(self.t[at + ".weight"]))]

    def head_rows(self, which, head):
        """Rows of query (0), key (1) or value (2) head `head`."""
        d, version = self.dim, self.a.get("checkpoint_version", 3)
        group = self.m.heads // self.m.groups
        if version == 0:
            first = which * self.m.heads * d + head * d
            return range(first, first + d)
        if version == 1:
            return range(head * 3 * d + which, (head + 1) * 3 * d, 3)
        block = head // group if which == 0 else head
        inside = head % group if which == 0 else group + which - 1
        first = (block * (group + 2) + inside) * d
        return range(first, first + d)

    def turned(self, x, position):
        if not self.m.rope:
            return x
        dim = int(self.dim * self.a.get("rotary_percent", 1.0))
        out = list(x)
        for i in range(dim // 2):
            pair = (2 * i, 2 * i + 1) if self.a.get(
                "rotary_interleaved") else (i, i + dim // 2)
            z = complex(x[pair[0]], x[pair[1]]) * cmath.exp(
                1j * position * self.a.get("rotary_base", 10000) **
                (-2 * i / dim))
            out[pair[0]], out[pair[1]] = z.real, z.imag
        return out

    def inner(self, x):
        if self.a.get("swiglu"):
            half = len(x) // 2
            return [g / (1 + math.exp(-g)) * u
                    for g, u in zip(x[:half], x[half:])]
        if self.a["bias_gelu_fusion"]:
            return [v / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (
                v + 0.044715 * v ** 3))) for v in x]
        return [v / 2 * (1 + math.erf(v / math.sqrt(2))) for v in x]


def second_form(model, ids):
    r, m = Reader(model), model
    group = m.heads // m.groups
    past = [{} for _ in range(m.args["num_layers"])]
    logits = []
    for position, token in enumerate(ids):
        x = r.t[m.table][token]
        if not m.rope:
            x = [a + b for a, b in zip(x, r.t[m.positions][position])]
        for i, seen in enumerate(past):
            def of_head(which, head):
                h = [r.row(m.layer(i, "qkv"), n, y)
                     for n in r.head_rows(which, head)]
                if which == 2:
                    return h
                if m.args.get("qk_layernorm"):
                    h = r.normed(h, m.head_norm(i, "qk"[which]))
                return r.turned(h, position)

            y = r.normed(x, m.layer(i, "norm1"))
            for g in range(m.groups):
                seen.setdefault(g, []).append((of_head(1, g), of_head(2, g)))
            mixed = []
            for h in range(m.heads):
                q, pairs = of_head(0, h), seen[h // group]
                w = [math.exp(dot(q, k) / math.sqrt(r.dim)) for k, _ in pairs]
                mixed += [dot(w, [v[d] for _, v in pairs]) / math.fsum(w)
                          for d in range(r.dim)]
            x = [a + b for a, b in zip(x, r.rows(m.layer(i, "out"), mixed))]
            y = r.inner(r.rows(m.layer(i, "up"), r.normed(
                x, m.layer(i, "norm2"))))
            x = [a + b for a, b in zip(x, r.rows(m.layer(i, "down"), y))]
        x = r.normed(x, m.final())
        logits.append([dot(row, x) for row in r.t[m.head]])
    return logits


def check(model, prompts, want):
    for ids, logits in zip(prompts, want):
        other = torch.tensor(second_form(model, ids), dtype=torch.float64)
        error = float((logits.double() - other).norm() / other.norm())
        if not error < 1e-5:
            raise SystemExit(f"the two forms differ by {error:.1e}")
