"""The work of scripts/check/language, which installs the libraries that this needs and says how it is called."""

import bisect
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pysbd
from proselint.checks import __register__
from proselint.registry import CheckRegistry

import language_rules
import language_texts

LONGEST_SENTENCE, LONGEST_MEAN, LONGEST_CELL, LONGEST_PARAGRAPH, LONGEST_PAGE = 35, 20, 30, 100, 250  # words, and the lines of a page
LEAST_SENTENCES_OF_MEAN = 5
HERE = Path(__file__).resolve().parent
EVERYTHING = ["*.md", "include/unisono/*.h", "python/unisono/*.py", "python/src/*.h", "python/src/*.cpp", "src/*.cpp", "src/*.h", "tools/*.cpp", "tools/*.h"]
# Records of measurements and of mutants that survived; no pages for readers.
NOT_READ = ("bench/results/", "tests/mutants/")

# pysbd knows abbreviations, and takes milliseconds for each text. It is not asked where every sentence ends with a long word or code before a capital.
SURE_ENDS = re.compile(r"(?<=[a-z]{3}[.!?])\s+(?=[A-Z])|(?<=Qq[a-j]\.)\s+(?=[A-Z])")
UNSURE_END = re.compile(r"[.!?…][\"'”)]*\s")
re._MAXCACHE = 1 << 16  # pysbd has more patterns than the cache of re holds by default
SENTENCES = pysbd.Segmenter(language="en", clean=False)
CheckRegistry().register_many(__register__)
PROSE_CHECKS = CheckRegistry().get_all_enabled(dict.fromkeys(language_rules.PROSELINT, True))


def words(text):
    return sum(any(character.isalnum() for character in word) for word in text.split())


def sentences(text):
    """Yields each sentence with its place in the text."""
    found = SURE_ENDS.split(text)
    if any(UNSURE_END.search(each) for each in found):
        found = SENTENCES.processor(text).process()
    place = 0
    for sentence in (each.strip() for each in found):
        place = max(text.find(sentence, place), place)
        yield place, sentence
        place += len(sentence)


def blocks_of(path, text):
    """Yields the blocks of a file, by its kind."""
    name = path.as_posix()
    if path.suffix == ".md":
        yield from language_texts.markdown(text)
    elif path.suffix == ".py":
        yield from language_texts.docstrings_of_python(text)
        yield from language_texts.messages_of_python(text)
    elif "python/src/docs/" in name:
        yield from language_texts.docstrings_of_cpp(text)
    else:
        if "include/unisono/" in name:
            yield from language_texts.doc_comments(text)
        yield from language_texts.messages_of_cpp(text)


def findings_of_block(block, lengths):
    """Yields (line, what, text) for a block, and adds the length of each of its sentences to `lengths`."""
    text = block.text
    line = block.pieces[0][0]
    count = words(text)
    if block.kind == "cell" and count > LONGEST_CELL:
        yield line, f"{count} words in a cell of a table, at most {LONGEST_CELL}", block.shown(text)
    if block.kind == "paragraph" and count > LONGEST_PARAGRAPH:
        yield line, f"{count} words in a paragraph, at most {LONGEST_PARAGRAPH}", block.shown(text)
    if block.kind == "heading":
        return
    for place, sentence in sentences(text):
        length = words(sentence)
        if block.kind == "paragraph" and length:
            lengths.append(length)
        if length > LONGEST_SENTENCE:
            yield block.line_at(place), f"{length} words in a sentence, at most {LONGEST_SENTENCE}", block.shown(sentence)
        for name, better, found in language_rules.broken_rules(sentence):
            yield block.line_at(place + found.start()), f'{name}: "{block.shown(found.group())}"; better: {better}', block.shown(sentence)


def findings_of_proselint(blocks):
    """Yields what proselint finds in the texts of a file, which it gets at once."""
    texts = [block.text for block in blocks]
    between = "\n\n¶\n\n"  # the last word of a block and the first of the next are not repeated words
    starts = [len(between)]
    for text in texts:
        starts.append(starts[-1] + len(text) + len(between))
    whole = between + between.join(texts) + between
    for check in PROSE_CHECKS:
        for result in check.check_with_flags(whole):
            number = max(bisect.bisect(starts, result.span[0]) - 1, 0)
            block, place = blocks[number], max(result.span[0] - starts[number], 0)
            sentence = next(each for at, each in reversed(list(sentences(block.text))) if at <= place)
            yield block.line_at(place), f"proselint {result.check_path}: {block.shown(result.message)}", block.shown(sentence)


def findings_of(path):
    """Returns all findings of a file: lines to print."""
    text = Path(path).read_text(encoding="utf-8")
    blocks = [block for block in blocks_of(Path(path), text) if block.pieces]
    found, lengths = [], []
    for block in blocks:
        found += findings_of_block(block, lengths)
    found += findings_of_proselint(blocks) if blocks else []
    if path.endswith(".md"):
        lines = language_texts.lines_of_page(text)
        if lines > LONGEST_PAGE:
            found.append((1, f"{lines} lines in a page, at most {LONGEST_PAGE}", ""))
        mean = sum(lengths) / max(len(lengths), 1)
        if len(lengths) >= LEAST_SENTENCES_OF_MEAN and mean > LONGEST_MEAN:
            found.append((1, f"{mean:.1f} words in a sentence on average, at most {LONGEST_MEAN}", ""))
    return [" ".join(f"{path}:{line}: {what}{': ' if shown else ''}{shown}".split()) for line, what, shown in sorted(set(found))]


def keys_of(paths):
    """Returns a key for each file, made of its name, its content and this checker."""
    checker = hashlib.sha256(b"".join(each.read_bytes() for each in sorted(HERE.glob("language*.py"))))
    for path in paths:
        key = checker.copy()
        key.update(path.encode() + Path(path).read_bytes())
        yield path, key.hexdigest()


def read_memory(memory):
    """Returns the findings of earlier runs, by the key of the file."""
    try:
        return json.loads(memory.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def write_memory(memory, seen):
    """Replaces the file at once, because another run may read it."""
    with tempfile.NamedTemporaryFile("w", dir=memory.parent, encoding="utf-8", delete=False) as file:
        json.dump(seen, file)
    os.replace(file.name, memory)


def chosen(arguments):
    """Returns the files to read: these, and below folders those that git knows or does not ignore."""
    files = [each for each in arguments if os.path.isfile(each)]
    folders = [each for each in arguments if not os.path.isfile(each)] or ([] if arguments else EVERYTHING)
    if folders:
        command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate", "--", *folders]
        files += subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\n")
    return sorted({name for name in files if Path(name).suffix in (".md", ".py", ".h", ".cpp") and Path(name).is_file()
                   and (name in arguments or not name.startswith(NOT_READ))})


def print_rules():
    print(f"sentence: {LONGEST_SENTENCE} words; page: {LONGEST_MEAN} on average, {LONGEST_PAGE} lines; cell: {LONGEST_CELL} words; paragraph: {LONGEST_PARAGRAPH} words")
    for name, (better, _) in language_rules.RULES.items():
        print(f"{name}: {better}")


def main(arguments):
    if arguments == ["--rules"]:
        print_rules()
        return 0
    missing = [each for each in arguments if not os.path.exists(each)]
    if missing:
        print(f"usage: check/language [--rules | PATH...]   (not there: {' '.join(missing)})", file=sys.stderr)
        return 2
    if not arguments:
        os.chdir(HERE.parents[1])
    memory = Path(sys.prefix) / "seen.json"
    seen = read_memory(memory)
    keys = dict(keys_of(chosen(arguments)))
    new = [path for path, key in keys.items() if key not in seen]
    if len(new) > 4:
        with ProcessPoolExecutor() as pool:
            found = dict(zip(new, pool.map(findings_of, new, chunksize=4)))
    else:
        found = {path: findings_of(path) for path in new}
    results = {path: found.get(path) if path in found else seen[key] for path, key in keys.items()}
    write_memory(memory, (seen if arguments else {}) | {key: results[path] for path, key in keys.items()})
    lines = [line for path in sorted(results) for line in results[path]]
    print("\n".join(lines), end="\n" if lines else "")
    print(f"{len(results)} files, {len(lines)} findings", file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
