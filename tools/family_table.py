#!/usr/bin/env python3
"""Writes the table of families in compiler/MODELS.md from compiler/policies.

    family_table.py [--check] [MODELS.md]

--check changes nothing and fails when the table is not what the policies say.
"""
import difflib
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BEGIN = "<!-- family_table.py: from policies/*.json -->\n"
END = "<!-- end of family_table.py -->\n"
# Sizes, types and special ids that every family has; dropout, caching and
# initialisation change no answer.
SIZES = {"hidden_size", "n_embd", "n_embed", "num_hidden_layers", "n_layer",
         "num_layers", "num_attention_heads", "n_head", "num_heads",
         "intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size",
         "vocab_size", "max_position_embeddings", "n_positions", "model_type",
         "num_key_value_heads", "tie_word_embeddings", "head_dim", "d_model",
         "d_ff", "d_kv", "num_decoder_layers", "dim", "n_layers", "n_heads",
         "hidden_dim"}


def literals(e):
    """The values that an expression can have besides the config's own."""
    if not isinstance(e, dict):
        return [e]
    if "first_of" in e:
        return [v for part in e["first_of"] for v in literals(part)]
    if "when" in e:
        return literals(e["then"]) + literals(e["else"])
    if "map" in e:
        return list(e["values"].values())
    return [e["absent"]] if e.get("absent") is not None else []


def keys(e):
    """The config's keys that an expression reads."""
    if isinstance(e, list):
        return [k for part in e for k in keys(part)]
    if not isinstance(e, dict):
        return []
    own = [e["key"]] if isinstance(e.get("key"), str) else []
    return own + [k for name, part in e.items() if name != "values"
                  for k in keys(part)]


def once(values):
    return list(dict.fromkeys(values))


def one_of(attributes, name, otherwise=None):
    """"rope or alibi": what an attribute can be."""
    if name not in attributes:
        return otherwise or ""
    return " or ".join(str(v) for v in once(literals(attributes[name])))


def block(a):
    """Norms, residual and MLP in words."""
    placement = {"pre": "before each branch", "post": "after each residual sum",
                 "sandwich": "before and after each branch",
                 "branch": "after each branch"}
    places = " or ".join(placement[p] for p in once(literals(
        a["norm_placement"])))
    out = f"{one_of(a, 'norm')} norm {places}"
    residual = one_of(a, "residual", "sequential")
    if residual != "sequential":
        out += f"; {residual} residual"
    qk = [v for v in once(literals(a.get("qk_norm", "none"))) if v != "none"]
    if qk:
        out += f"; query and key norms ({', '.join(qk)})"
    if a.get("attention") == "latent":
        out += "; latent attention (MLA)"
    act = one_of(a, "activation")
    gated = once(literals(a.get("gated", False)))
    words = "gated or plain " if len(gated) > 1 else (
        "gated " if gated[0] else "")
    return out + f"; {words}{act}"


def positions(a):
    names = once(literals(a["positions"]))
    out = []
    for name in names:
        if name == "rope":
            part = literals(a["rotary_factor"])[-1] if (
                "rotary_factor" in a) else 1
            style = one_of(a, "rope_style")
            out.append(f"rope, {style} pairs" + (
                f" of {part:g} of the head" if part != 1 else ""))
        elif name == "learned" and a.get("position_offset"):
            out.append(f"learned, from row {a['position_offset']}")
        else:
            out.append(name)
    text = " or ".join(out)
    if "relative_buckets" in a:
        text = "buckets of relative positions"
    if "positions_after_pad" in a:
        text += " behind the padding token's"
    if "window_size" in a:
        text += "; windows"
    return text


def row(policy):
    a = policy["attributes"]
    read = once(k for part in (a, policy.get("flags", {}))
                for e in part.values() for k in keys(e))
    more = ", ".join(f"`{k}`" for k in sorted(read) if k not in SIZES)
    fixed = ", ".join(f"`{r['key']}`: " + " or ".join(
        json.dumps(v) for v in r.get("one_of", [r.get("equals")]))
        for r in policy.get("require", []))
    names = ", ".join(policy["architectures"])
    whole = "" if a.get("causal", True) else "encoder; "
    if "encoder" in policy.get("towers", {}):
        whole = "encoder and decoder; "
    if "vision" in policy.get("towers", {}):
        whole = "encoders of texts and of images; "
    return (f"| `{policy['policy']}` | {names} | {whole}{block(a)} | "
            f"{positions(a)} | "
            f"{more} | {fixed} |")


def table(folder):
    rows = ["| family | architectures | block | positions | keys honoured beside "
            "sizes | refused unless |", "|---|---|---|---|---|---|"]
    for path in sorted(folder.glob("*.json")):
        rows.append(row(json.loads(path.read_text())))
    return "\n".join(rows) + "\n"


def main():
    args = [a for a in sys.argv[1:] if a != "--check"]
    path = pathlib.Path(args[0]) if args else ROOT / "compiler/MODELS.md"
    text = path.read_text()
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        sys.exit(f"{path}: the table's two marks are not there once each")
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    new = head + BEGIN + table(ROOT / "compiler/policies") + END + tail
    if "--check" not in sys.argv:
        path.write_text(new)
    elif new != text:
        sys.stdout.writelines(difflib.unified_diff(
            text.splitlines(True), new.splitlines(True), str(path),
            "as the policies say", n=0))
        sys.exit(f"{path}: run tools/family_table.py")


if __name__ == "__main__":
    main()
