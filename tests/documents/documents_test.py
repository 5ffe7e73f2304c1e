"""The test of the documents itself: what it runs, what it refuses, and that it leaves the source tree alone."""

import argparse
import contextlib
import io
import os
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import blocks  # noqa: E402
import run  # noqa: E402

FENCE = "```"


def block(text, language="", *rules):
    return "".join(f"<!-- test: {rule} -->\n" for rule in rules) + f"{FENCE}{language}\n{text}\n{FENCE}\n"


class Documents(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.source, self.build = self.folder / "source", self.folder / "build"
        (self.source / "linked").mkdir(parents=True)
        (self.source / "kept.txt").write_text("kept")
        self.build.mkdir()

    def follow(self, *parts, have=()):
        """What it tells of the document; raises Wrong where it fails."""
        (self.source / "page.md").write_text("# Page\n\n" + "\n".join(parts), encoding="utf-8")
        options = argparse.Namespace(document=Path("page.md"), source=self.source, build=self.build, cmake=shutil.which("cmake") or "", python="",
                                     have=list(have), extracted=self.folder / "extracted", fragments="", program={}, stem="page")
        told = io.StringIO()
        shell = self.folder / "shell"
        with open(shell, "w") as output, contextlib.redirect_stdout(told):
            # The shell's own messages go to the descriptors.
            kept = os.dup(1), os.dup(2)
            os.dup2(output.fileno(), 1), os.dup2(output.fileno(), 2)
            try:
                run.run(options)
            finally:
                for number, copy in enumerate(kept, 1):
                    os.dup2(copy, number), os.close(copy)
                self.said = shell.read_text()
        return told.getvalue()

    def refused(self, sentence, *parts):
        with self.assertRaises(blocks.Wrong) as caught:
            self.follow(*parts)
        self.assertIn(sentence, str(caught.exception) + self.said)

    def test_blocks_run_in_order_in_one_shell(self):
        told = self.follow(block("mkdir a && cd a\nexport WORD=b"), "Then:", block("touch $WORD   # a remark\n\nls ../a/b \\\n  >list", "sh"),
                           block("cat list", "bash", "prints ../a/b"))
        self.assertIn("page.md: 3 blocks\n   3 run\n", told)

    def test_a_command_that_fails_is_refused_with_its_code(self):
        self.refused("page.md:4: that ended with exit code 1", block("false\ntrue"))
        self.refused("page.md:5: that ended with exit code 3", block("true\n(exit 3)\ntrue"))
        self.refused("page.md:4: that ended with exit code 1", block("false && true\ntrue"))
        self.refused("page.md:4: no shell takes this", block("echo 'open"))

    def test_every_block_is_treated(self):
        self.refused("page.md:4: a block of json that is neither run nor excused", block("{}", "json"))
        self.refused("page.md:4: a block of cmake that is neither run nor excused", block("project(x)", "cmake"))
        self.refused("page.md:5: a block by indentation", "Like this:\n\n    true\n")
        self.refused("page.md:3: a rule for a block, and no block follows", "<!-- test: at once -->\n\nText.\n")
        self.refused("no such rule: later", block("true", "", "later"))
        self.refused("page.md:4: the block does not end", "```\ntrue\n")
        told = self.follow(block("{}", "json", "not run: it is data"), block("a -> b", "text"), block("true"), block("false", "", "needs a gpu"))
        self.assertIn("4 blocks\n   1 run\n", told)
        self.assertIn("   1 text\n", told)
        self.assertIn("   1 left out here\n       page.md:18 shell: there is no a, gpu here\n", told)
        self.assertIn("   1 excused\n       page.md:5 json: it is data\n", told)

    def test_what_a_block_needs_may_be_there(self):
        self.assertIn("   1 run\n", self.follow(block("true", "", "needs gpu"), have=["gpu"]))

    def test_lines_without_a_command_are_not_run(self):
        told = self.follow(block("false --first\ntrue", "", "line not run: false: it fails"))
        self.assertIn("page.md:5: not its line false: it fails", told)
        self.refused("no line begins with sometimes", block("true", "", "line not run: sometimes: reason"))

    def test_words_of_the_reader_are_replaced(self):
        self.follow(block("test HOST = here", "", "put HOST -> here"))
        self.refused("there is no PORT", block("test here = here", "", "put PORT -> 1"))

    def test_an_output_that_is_missing_is_an_error(self):
        self.refused("the output has no \"two\"", block("echo one", "", "prints two"))

    def test_lines_at_once_run_side_by_side(self):
        pipes = block("mkfifo a b")
        self.follow(pipes, block("read word <a && echo $word >b\necho word >a && read word <b", "", "at once"))
        self.refused("page.md:5: that ended with exit code 1", block("false\ntrue", "", "at once"))

    def test_a_file_of_the_document_is_written_and_must_be_used(self):
        self.follow(block("# folder/program.py\nprint()", "python"), block("test -s folder/program.py"))
        self.refused("no command of the document has used unused.py", block("# unused.py\nprint()", "python"))
        self.refused("no command of the document has used unused.h", block("// unused.h\nint f();", "cpp"))
        self.refused("no command of the document has used unused.cpp", block("// unused.cpp\nint main() {}", "cpp"))
        self.refused("no command of the document has used CMakeLists.txt", block("# CMakeLists.txt\nproject(x)", "cmake"))

    def test_fragments_need_something_around_them(self):
        self.refused("no tests/documents/page.h says what to compile them in", block("int x;", "cpp"))

    def test_the_source_tree_is_left_alone(self):
        self.follow(block("# kept.py\nprint()", "python"), block("test -L linked && cat kept.py"))
        self.assertFalse((self.source / "kept.py").exists())
        self.refused("that ended with exit code 1", block("# linked/new.py\nprint()", "python"), block("cat linked/new.py"))
        self.assertFalse((self.source / "linked/new.py").exists())

    def test_what_stands_in_refuses_what_is_not_so(self):
        self.refused("not understood: clone", block("git clone a b c"))
        self.refused("not understood: uninstall", block("pip uninstall torch"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
