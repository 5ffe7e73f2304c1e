#!/usr/bin/env bash
# Takes the code blocks out of a document, to be compiled and run as they stand there: those that begin with a comment of their file's name
# (// train.cpp, # ddp.py) as that file, the first of CMake as CMakeLists.txt, and all other C++ as the body of fragments.cpp, each in a scope.
#   docs_blocks.sh DOCUMENT FOLDER
set -euo pipefail
document=$(realpath "$1") folder=$2
mkdir -p "$folder"
awk -v folder="$folder" -v document="$document" '
  function keep(file, text) {
    while ((getline line < (folder "/" file)) > 0) old = old line "\n"
    close(folder "/" file)
    if (old != text) printf "%s", text > (folder "/" file)  # else nothing is compiled again
    old = ""
    close(folder "/" file)
  }
  /^```(cpp|cmake|python)$/ && !inside { inside = 1; kind = substr($0, 4); text = ""; begins = NR + 1; next }
  /^```/ && !inside { inside = 1; kind = "" ; text = ""; next }
  /^```$/ && inside {
    inside = 0
    split(text, lines, "\n")
    if (kind != "" && match(lines[1], /^(\/\/|#) [a-z_]+\.(cpp|py)$/)) keep(substr(lines[1], index(lines[1], " ") + 1), text)
    else if (kind == "cmake") keep("CMakeLists.txt", text)
    else if (kind == "cpp") body = body "  {\n#line " begins " \"" document "\"\n" text "  }\n"
    next
  }
  inside { text = text $0 "\n" }
  END { keep("fragments.cpp", "#include \"docs_setting.h\"\n\nvoid fragments(torch::nn::Sequential net, const std::vector<torch::Tensor>& batches) {\n" body "}\n") }
' "$document"
