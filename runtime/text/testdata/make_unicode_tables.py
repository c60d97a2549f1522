#!/usr/bin/env python3
"""Writes ../unicode_tables.cc and unicode_classes.golden: what the published
tokenizers library takes letters, marks, punctuation, scripts, ... to be.

    make_unicode_tables.py      (needs PyPI tokenizers 0.23.3, Python 3.11)

Its parts know different versions of Unicode. The tables hold only what differs
from utf8proc 2.8 (Unicode 15.0) and PCRE2 10.42 (14.0, as Python 3.11); the
golden file holds whole classes, so that a test sees every code point.
"""
import pathlib
import subprocess
import unicodedata

from tokenizers import Regex, normalizers, pre_tokenizers

HERE = pathlib.Path(__file__).resolve().parent
ALL = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
TEXT = "".join(map(chr, ALL))
CATEGORIES = ["Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No",
              "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So",
              "Zs", "Zl", "Zp", "Cc", "Cf", "Co"]


def ranges(points):
    out = []
    for c in sorted(points):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def removed_by(normalizer):
    return {c for c in ALL if normalizer.normalize_str(chr(c)) == ""}


def regex_class(pattern):
    kept = set(normalizers.Replace(Regex(pattern), "").normalize_str(TEXT))
    return {c for c in ALL if chr(c) not in kept}


def isolated_by(pre_tokenizer):
    return {c for c in ALL
            if len(pre_tokenizer.pre_tokenize_str("a" + chr(c) + "a")) == 3}


def changes(normalizer):
    out = {}
    for c in ALL:
        text = normalizer.normalize_str(chr(c))
        if text != chr(c):
            out[c] = text
    return out


def script_classes():
    """Code point to a number; no entry: a character of any script."""
    splitter = pre_tokenizers.UnicodeScripts()

    def joined(first, points):
        """Those that stay in one piece with `first`."""
        text = "".join(chr(first) + chr(c) for c in points)
        borders, at = set(), 0
        for piece, _ in splitter.pre_tokenize_str(text):
            borders.add(at)
            at += len(piece)
        return {c for i, c in enumerate(points) if 2 * i + 1 not in borders}

    left = [c for c in ALL]
    any_script = joined(ord("a"), left) & joined(0x3B1, left)
    left = [c for c in left if c not in any_script]
    classes = {}
    number = 0
    while left:
        number += 1
        members = joined(left[0], left)
        for c in members:
            classes[c] = number
        left = [c for c in left if c not in members]
    return classes


def rows(items, per_line, form):
    lines = []
    for i in range(0, len(items), per_line):
        lines.append("    " + " ".join(form(x) for x in items[i:i + per_line]))
    return "\n".join(lines)


def table(name, comment, points):
    items = ranges(points)
    body = rows(items, 3, lambda r: "{0x%X, 0x%X}," % tuple(r))
    return (f"// {comment}\nconst CodePointRange k{name}[] = {{\n{body}}};\n"
            f"const size_t k{name}Count = {len(items)};\n")


def main():
    category = {}
    for name in CATEGORIES:
        for c in regex_class(r"\p{%s}" % name):
            category[c] = name
    added = []
    for c in ALL:
        name = category.get(c, "Cn")
        if name == unicodedata.category(chr(c)):
            continue
        if added and added[-1][1] == c - 1 and added[-1][2] == name:
            added[-1][1] = c
        else:
            added.append([c, c, name])

    def is_in(c, *groups):
        return any(unicodedata.category(chr(c)).startswith(g) for g in groups)

    # Rust's text classes, from their components.
    punctuation = isolated_by(pre_tokenizers.Punctuation())
    assert punctuation == isolated_by(pre_tokenizers.BertPreTokenizer())
    numeric = isolated_by(pre_tokenizers.Digits(individual_digits=True))
    rust_word = {c for c in ALL if len(pre_tokenizers.Whitespace()
                                       .pre_tokenize_str("a" + chr(c))) == 1
                 and len(pre_tokenizers.Whitespace()
                         .pre_tokenize_str("." + chr(c))) == 2}
    space = {c for c in ALL if len(pre_tokenizers.WhitespaceSplit()
                                   .pre_tokenize_str("a" + chr(c) + "a")) == 2}
    onig_word = regex_class(r"\w")
    onig_space = regex_class(r"\s")
    accents = removed_by(normalizers.StripAccents())
    bert = dict(clean_text=False, handle_chinese_chars=False,
                strip_accents=False, lowercase=False)
    bert_control = removed_by(
        normalizers.BertNormalizer(**{**bert, "clean_text": True}))
    bert_nonspacing = removed_by(
        normalizers.BertNormalizer(**{**bert, "strip_accents": True}))
    lower = changes(normalizers.Lowercase())
    simple_lower = []
    for c, text in lower.items():
        plain = chr(c).lower()
        if len(text) == 1 and text != plain:
            simple_lower.append((c, ord(text)))
    forms = {n: changes(getattr(normalizers, n)())
             for n in ("NFD", "NFKD")}
    # Newer decompositions that the library's tables do not have yet.
    whole = {c for c in ALL
             if unicodedata.normalize("NFKD", chr(c)) != chr(c)
             and c not in forms["NFKD"]}
    whole |= set(range(0x1E030, 0x1E06E))  # of Unicode 15
    assert not whole & set(forms["NFKD"])
    scripts = script_classes()
    script_rows = []
    for c in sorted(scripts):
        if (script_rows and script_rows[-1][1] == c - 1 and
                script_rows[-1][2] == scripts[c]):
            script_rows[-1][1] = c
        else:
            script_rows.append([c, c, scripts[c]])

    word14 = {c for c in ALL if is_in(c, "L", "M", "Nd", "Nl", "Pc")}
    newer = {c for a, b, _ in added for c in range(a, b + 1)}
    parts = [
        "// Made by testdata/make_unicode_tables.py from the components of "
        "PyPI\n// tokenizers 0.23.3: where they differ from utf8proc and PCRE2."
        "\n#include \"runtime/text/unicode_tables.h\"\n\nnamespace deepslice::unicode_tables {\n"
        "\n// Category of what Unicode 14 has otherwise or not at all; "
        "ascending.\nconst CategoryRange kNewCategories[] = {\n" +
        rows(added, 3, lambda r: "{0x%X, 0x%X, Category::k%s}," % tuple(r)) +
        "};\nconst size_t kNewCategoriesCount = %d;\n" % len(added),
        table("NotPunctuation", "Category P, but younger than the table that "
              "Punctuation and BertPreTokenizer use.",
              {c for c in ALL if category.get(c, "Cn")[0] == "P"
               and c not in punctuation}),
        table("OtherPunctuation", "Not of category P, but punctuation there.",
              {c for c in punctuation if category.get(c, "Cn")[0] != "P"}),
        table("OtherNumeric", "Not of category N, but numeric for Digits.",
              {c for c in numeric if category.get(c, "Cn")[0] != "N"}),
        table("NotAccents", "Category M, but kept by StripAccents.",
              {c for c in ALL if category.get(c, "Cn")[0] == "M"
               and c not in accents}),
        table("OtherAccents", "Not of category M, but removed there.",
              {c for c in accents if category.get(c, "Cn")[0] != "M"}),
        table("NotNonspacing", "Category Mn, but kept by BertNormalizer.",
              {c for c in ALL if category.get(c) == "Mn"
               and c not in bert_nonspacing}),
        table("OtherNonspacing", "Not of category Mn, but removed there.",
              {c for c in bert_nonspacing if category.get(c) != "Mn"}),
        table("NotControl", "Category Cc, Cf or Co, but kept by "
              "BertNormalizer.",
              {c for c in ALL if category.get(c) in ("Cc", "Cf", "Co")
               and c not in bert_control and c not in (9, 10, 13)}),
        table("Undecomposed", "Decompose in Unicode 15, but not in the "
              "normalizers.", whole),
        table("OtherWords", "Word characters of no category L, M, Nd, Nl, Pc, "
              "in patterns.", onig_word - word14 - newer),
        "// Upper-case letters whose lower-case form is newer than Unicode 14."
        "\nconst CodePointPair kNewLower[] = {\n" +
        rows(simple_lower, 4, lambda r: "{0x%X, 0x%X}," % r) +
        "};\nconst size_t kNewLowerCount = %d;\n" % len(simple_lower),
        "// Scripts as UnicodeScripts tells them apart; what is in no range "
        "goes with\n// any. Ascending.\nconst ScriptRange kScripts[] = {\n" +
        rows(script_rows, 4, lambda r: "{0x%X, 0x%X, %d}," % tuple(r)) +
        "};\nconst size_t kScriptsCount = %d;\n" % len(script_rows),
        "}  // namespace deepslice::unicode_tables\n"]
    source = HERE.parent / "unicode_tables.cc"
    source.write_text("\n".join(parts))
    subprocess.run(["clang-format", "-i", "--style=Google", str(source)],
                   check=True)

    # Whole classes: one line each, ranges in hexadecimal.
    golden = {"regex s": onig_space, "regex w": onig_word,
              "regex d": regex_class(r"\d"),
              "punctuation": punctuation, "numeric": numeric,
              "word": rust_word, "space": space, "accents": accents,
              "bert control": bert_control,
              "bert nonspacing": bert_nonspacing}
    for name in ["L", "M", "N", "P", "S", "Z"] + CATEGORIES:
        golden[f"regex p {name}"] = (
            {c for c in category if category[c].startswith(name)})
    lines = []
    for name, points in golden.items():
        lines.append(name + ":" + ",".join(
            "%x" % a if a == b else "%x-%x" % (a, b)
            for a, b in ranges(points)))
    for name, form in (("lower", lower), *((n.lower(), f)
                                           for n, f in forms.items())):
        lines.append(f"map {name}:" + ",".join(
            "%x=%s" % (c, "+".join("%x" % ord(x) for x in text))
            for c, text in sorted(form.items())
            if not 0xAC00 <= c <= 0xD7A3))
    (HERE / "unicode_classes.golden").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
