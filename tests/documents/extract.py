"""Takes what is to be compiled out of a document: fragments.cpp, and the files of it under their own names.

    extract.py DOCUMENT NAME STEM FOLDER     NAME: what the compiler is to call the document
"""

import sys
from pathlib import Path

import blocks


def main(document, name, stem, folder):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    all_blocks = blocks.read(document, name)
    files = {block.file: block.text for block in all_blocks if block.file}
    if source := blocks.fragments(all_blocks, stem):
        files["fragments.cpp"] = source
    for file, text in files.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:  # else nothing is compiled again
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except blocks.Wrong as error:
        sys.exit(str(error))
