"""Mistakes of documents are found: a small tree is laid out as the site lays out the real one, with one mistake at a time.
  mistakes_test.py SOURCE    Runs in the Python that has Sphinx."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(sys.argv.pop()).resolve()
sys.path.insert(0, str(SOURCE / "docs/_site"))
from pages import Problems, Site, write_page  # noqa: E402

TREE = {
    "docs/index.md": "# Site\n\n- [Guide](guide/index.md)\n- [Reference](reference/index.md)\n- [Read me](../README.md), [changes](../CHANGELOG.md), [help](../CONTRIBUTING.md), [safety](../SECURITY.md)\n",
    "docs/guide/index.md": "# Guide\n\n- [Second](second.md): after the other in the alphabet, and here the first.\n- [First](first.md)\n",
    "docs/reference/index.md": "# Reference\n\n- [C++](../../include/unisono)\n",
    "docs/guide/first.md": "# First\n\n## A heading\n\nSee [code](../../src/code.cpp), [a header](../../include/unisono/work.h) and `[no link](nowhere.md)`.\n"
                           "\n```text\n[no link](nowhere.md)\n```\n",
    "docs/guide/second.md": "# Second\n\n<!-- test: not run: a comment with [no link](nowhere.md) -->\nSee [it](first.md#a-heading).\n",
    "README.md": "# Read me\n\nSee [the guide](docs/guide/first.md#a-heading).\n",
    "CHANGELOG.md": "# Changes\n",
    "CONTRIBUTING.md": "# Help\n",
    "SECURITY.md": "# Safety\n",
    "src/code.cpp": "int main() {}\n",
    "include/unisono/work.h": "\n",
}


class Mistakes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="unisono_site_")
        self.addCleanup(folder.cleanup)
        self.root, self.out = Path(folder.name) / "tree", Path(folder.name) / "pages"
        for path, text in TREE.items():
            self.write(path, text)

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text, encoding="utf-8")

    def lay_out(self):
        made = {"include/unisono": "reference/cpp/index", "include/unisono/work.h": "reference/cpp/work"}
        Site(self.root, "https://example.org/it", "main", made).write(self.out)
        write_page(self.out, "reference/cpp/index", "# C++\n", ["reference/cpp/work"])
        write_page(self.out, "reference/cpp/work", "# work.h\n")

    def page(self, name):
        return (self.out / name).read_text(encoding="utf-8")

    def problems(self):
        with self.assertRaises(Problems) as found:
            self.lay_out()
        return str(found.exception).splitlines()

    def sphinx(self):
        command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--conf-dir", str(SOURCE / "docs"), str(self.out), str(self.out.parent / "site")]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def test_links_lead_to_pages_to_the_reference_and_to_the_repository(self):
        self.lay_out()
        self.assertIn("[code](https://example.org/it/blob/main/src/code.cpp), [a header](../reference/cpp/work.md)", self.page("guide/first.md"))
        self.assertIn("[the guide](../guide/first.md#a-heading)", self.page("project/readme.md"))

    def test_code_and_comments_have_no_links(self):
        self.lay_out()
        self.assertIn("`[no link](nowhere.md)`", self.page("guide/first.md"))
        self.assertIn("\n[no link](nowhere.md)\n", self.page("guide/first.md"))
        self.assertNotIn("comment", self.page("guide/second.md"))

    def test_navigation_has_the_order_of_the_list(self):
        self.lay_out()
        self.assertRegex(self.page("guide/index.md"), r"\{toctree\}(?s:.*)\nsecond\nfirst\n")

    def test_link_to_nothing_is_named_with_its_line(self):
        self.write("docs/guide/second.md", "# Second\n\n```text\ncode\n```\n\nSee [it](frist.md).\n")
        self.assertEqual(self.problems(), ["docs/guide/second.md:7: the link frist.md leads to nothing"])

    def test_link_to_a_source_that_is_gone_is_named(self):
        (self.root / "src/code.cpp").unlink()
        self.assertEqual(self.problems(), ["docs/guide/first.md:5: the link ../../src/code.cpp leads to nothing"])

    def test_links_by_a_label_are_looked_at(self):
        self.write("docs/guide/second.md", "# Second\n\nSee [it][1] and [code][2].\n\n[1]: frist.md\n[2]: ../../src/code.cpp\n")
        self.assertEqual(self.problems(), ["docs/guide/second.md:5: the link frist.md leads to nothing"])
        self.write("docs/guide/second.md", "# Second\n\nSee [code][2].\n\n[2]: ../../src/code.cpp\n")
        self.lay_out()
        self.assertIn("\n[2]: https://example.org/it/blob/main/src/code.cpp\n", self.page("guide/second.md"))

    def test_link_to_a_heading_that_is_gone_is_named(self):
        self.write("docs/guide/second.md", "# Second\n\nSee [it](first.md#another-heading) and [this](#second).\n")
        self.assertEqual(self.problems(), ["docs/guide/second.md:3: the link first.md#another-heading leads to no heading"])

    def test_page_in_no_list_is_named_with_the_list(self):
        self.write("docs/guide/third.md", "# Third\n")
        self.assertEqual(self.problems(), ["docs/guide/third.md: the page is in no list: link it in docs/guide/index.md"])

    def test_folder_without_a_list_is_named(self):
        self.write("docs/design/one.md", "# One\n")
        self.assertEqual(self.problems(), ["docs/design/one.md: the page is in no list: link it in docs/design/index.md"])

    def test_anchor_that_leads_nowhere_fails_the_build(self):
        self.lay_out()
        built = self.sphinx()
        self.assertEqual((built.returncode, built.stderr), (0, ""))
        page = self.out / "guide/second.md"
        page.write_text(page.read_text().replace("#a-heading", "#another-heading"))
        built = self.sphinx()
        self.assertNotEqual(built.returncode, 0)
        self.assertIn("another-heading", built.stderr)


if __name__ == "__main__":
    unittest.main()
