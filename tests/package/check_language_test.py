#!/usr/bin/env python3
"""check/language finds each construction and each length, where it stands, and nothing in texts that are right.
  check_language_test.py CHECK_LANGUAGE    ends with code 77 if the libraries of the script cannot be fetched"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

CHECK = pathlib.Path(sys.argv.pop(1)).resolve()

# For each rule a text that breaks it, and one like it that does not.
TEXTS = {
    "who-subject": ("Who needs fewer calls uses a bucket.", "A rank finds out who is late. Who needs this?"),
    "what-subject": ("What is left is lost.", "The rank reports what it has. What is a rank?"),
    "where-condition": ("The call fails where there is no memory.", "The folder where the file is stays open."),
    "begin-noun": ("At the begin all ranks meet.", "Ranks begin at once."),
    "not-until": ("Not until the barrier does a rank go on.", "A rank does not go on until the barrier."),
    "inversion": ("Neither does a rank wait.", "Neither of the ranks waits. There is a rank."),
    "place-first": ("In the folder stands a file.", "In the folder it stands."),
    "verb-first-condition": ("Should the rank die, the job ends.", "The rank should end."),
    "carried-out": ("The call is carried out by the engine.", "The engine runs the call."),
    "looks-on": ("A rank without a partner looks on.", "A rank looks at the others."),
    "is-no": ("A process that is no member waits.", "There is no member. It is no longer a member."),
    "the-below": ("All of the above holds.", "The table below has the rest."),
    "lasting": ("Rank 2 is in the call for 13 s.", "Rank 2 has been in the call for 13 s."),
    "less-countable": ("It needs less calls.", "It needs fewer calls and less memory."),
    "so-many": ("It starts at most so many times.", "It starts at most this many times."),
    "allows-to": ("The option allows to choose a port.", "The option allows two ports."),
    "is-said": ("The reason is said at once.", "The reason is printed at once."),
    "is-to-be": ("The files are to be merged.", "The files must be merged."),
    "had": ("The package can be had from Debian.", "The package had an error."),
    "but-for": ("Every dtype is allowed but for boolean.", "It is slow, but large calls are fast."),
    "else-adverb": ("It is a name, else a number.", "It is a name or something else."),
    "for-that": ("For that the program calls a function.", "For that purpose the program calls a function."),
    "archaic": ("The file and the names thereof are read.", "The file and its names are read."),
    "behind-after": ("All words behind the options are arguments.", "The host behind a gateway is reached."),
    "not-english": ("It depends of the rank.", "It depends on the rank."),
    "proselint": ("The rank is lost is lost.", "The rank is lost."),
}
def several(count):
    """Returns this number of words, of which no two neighbours are the same."""
    return " ".join(f"word{number}" for number in range(count))


TABLE = f"| {several(40)} |\n|---|\n" + "| a |\n" * 250
AT_THE_LIMITS = f"# Title\n\nA {several(33)} end. It ends.\n\n{'One ends. Two end. ' * 25}\n\n| a | b |\n|---|---|\n| {several(30)} | b |\n"

# The files that are checked, in one run.
FILES = {
    "wrong.md": "".join(f"{bad}\n\n" for bad, _ in TEXTS.values()),
    "right.md": "\n\n".join(good for _, good in TEXTS.values()),
    "limits.md": AT_THE_LIMITS + "\n" * (250 - AT_THE_LIMITS.count("\n")),
    "sentence.md": f"A start.\nIt\nhas {several(33)} end.\n",
    "paragraph.md": f"A text.\n\n- {'One ends. Two end. ' * 25} So.",
    "cell.md": f"| a | b |\n|---|---|\n| c | {several(31)} |\n",
    "page.md": "A page.\n" + "\n" * 250,
    "mean.md": f"{several(21)} end.\n\n" * 5,
    "code.md": f"A `who is. What is no` word.\n\n```\nWho is this {several(50)}\n```\n\n    What is code\n",
    "note.md": "A note:\n\n```{note}\nIt is short.\nWho reads it knows.\n```\n",
    "table.md": f"A table.\n\n<!-- by scripts/some --write -->\n\n{TABLE}\n<!-- end of the table -->\n",
    "after.md": f"<!-- by scripts/some -->\n\n{TABLE}\n<!-- end of the table -->\n\nWho reads it knows.\n",
    "include/unisono/a.h": "/// Returns a number.\n///\n/// @param a the first\n///     word, and more: who reads it\n// What is no doc comment is left out.\n"
                           'const char* text = "a word";\nfail(fmt::format("a {} that is "  // a comment\n                 "no rank at all", a));\n',
    "a.py": 'def function():\n    """Returns a number.\n\n    Parameters\n    ----------\n    what : int\n        What is no number.\n\n'
            '    Examples\n    --------\n    >>> what_is_no(1)\n    "What is no number"\n\n    Who reads this knows.\n    """\n'
            '    raise ValueError(f"the number {a} is no rank of it")\n',
    "python/src/docs/a.h": 'constexpr const char* a = R"(Returns a number.\n\nWho reads this knows.)";\n',
}


class CheckLanguage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        for name, text in FILES.items():
            path = pathlib.Path(folder.name) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        cls.result = subprocess.run([CHECK, *(f"{folder.name}/{name}" for name in FILES)], capture_output=True, text=True)
        if cls.result.returncode == 77:
            print(cls.result.stderr)
            sys.exit(77)
        cls.lines = [line.removeprefix(f"{folder.name}/") for line in cls.result.stdout.splitlines()]

    def assert_finds(self, name, *beginnings):
        lines = [line for line in self.lines if line.startswith(f"{name}:")]
        self.assertEqual(len(lines), len(beginnings), lines)
        for line, beginning in zip(lines, beginnings):
            self.assertTrue(line.startswith(f"{name}:{beginning}"), line)

    def test_findings_are_counted_and_end_with_code_1(self):
        self.assertEqual(self.result.returncode, 1)
        self.assertEqual(self.result.stderr, f"{len(FILES)} files, {len(self.lines)} findings\n")

    def test_each_rule_has_a_text_here(self):
        rules = subprocess.run([CHECK, "--rules"], check=True, capture_output=True, text=True).stdout.splitlines()[1:]
        self.assertEqual([*(line.split(":")[0] for line in rules), "proselint"], list(TEXTS))

    def test_each_rule_finds_what_breaks_it_and_nothing_else(self):
        self.assert_finds("wrong.md", *(f"{2 * at + 1}: {rule}" for at, rule in enumerate(TEXTS)))
        self.assert_finds("right.md")

    def test_lengths_at_their_limits_are_accepted(self):
        self.assert_finds("limits.md")

    def test_lengths_over_their_limits_are_found(self):
        self.assert_finds("sentence.md", "2: 36 words in a sentence, at most 35: It has word0 word1")
        self.assert_finds("paragraph.md", "3: 101 words in a paragraph, at most 100")
        self.assert_finds("cell.md", "3: 31 words in a cell of a table, at most 30")
        self.assert_finds("page.md", "1: 251 lines in a page, at most 250")
        self.assert_finds("mean.md", "1: 22.0 words in a sentence on average, at most 20")

    def test_code_is_one_word_and_breaks_no_rule(self):
        self.assert_finds("code.md")

    def test_the_text_of_a_note_is_read(self):
        self.assert_finds("note.md", "5: who-subject")

    def test_a_table_that_a_script_has_written_is_not_read(self):
        self.assert_finds("table.md")
        self.assert_finds("after.md", "258: who-subject")

    def test_doc_comments_and_messages_of_headers_are_read(self):
        self.assert_finds("include/unisono/a.h", "4: who-subject",
                          '7: is-no: "is no rank"; better: "is not a …" or "there is no …": a `{}` that is no rank at all')

    def test_docstrings_and_messages_of_python_are_read(self):
        self.assert_finds("a.py", "7: is-no", "7: what-subject", "14: who-subject", "16: is-no")

    def test_docstrings_in_cpp_are_read(self):
        self.assert_finds("python/src/docs/a.h", "3: who-subject")


if __name__ == "__main__":
    unittest.main()
