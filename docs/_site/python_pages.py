"""Writes the Python reference from what python_names.py found: a page for each topic of `unisono`, and one for each of its modules."""

import fnmatch
import os
import re
from pathlib import Path

from numpydoc.docscrape import NumpyDocString

from markdown import code_span, escape, signature, slug
from pages import write_page

# The pages of the module unisono: name, title, and patterns of what stands there. The first that fits counts.
TOPICS = (
    ("errors", "Errors", "*Error Error AlreadyInitialized BackendUnavailable Cancelled InvalidArgument LaunchFailed Mismatch NotInitialized NotMember "
     "PeerFailed Timeout Unsupported Place ProcessEnd"),
    ("controller", "Controller and workers", "Controller Worker Handle Handles Future Futures remote actor"),
    ("launch", "Starting ranks", "spawn launch run_threads Parallel Launcher infer_launcher is_torchelastic_launched launcher_local_rank command cmake_prefix"),
    ("elastic", "Elastic jobs", "ElasticState run_elastic grow_group newcomers_waiting Membership shrink_group"),
    ("objects", "Objects, parameters and results", "*_object *_object_list *_any object_* all_reduce_dict all_reduce_params *_params average_* collect_results "
     "sync_random_seed sync"),
    ("data", "Samplers and data", "Distributed*Sampler *Sampler LoaderPlan plan_loader"),
    ("stores", "Stores and shared memory", "*Store Rendezvous register_rendezvous_handler Shared* shared_*"),
    ("messages", "Messages between ranks", "send* recv* isend* irecv* probe* iprobe* batch* P2POp MessageInfo any_source any_tag AnySource exchange"),
    ("groups", "Groups", "ProcessGroup GlobalRank Grid *group* world current_world Rank"),
    ("asynchronous", "Asynchronous calls", "Work wait_* CallRecord"),
    ("ranks", "One rank only, one rank first", "one_rank_* OneRank* is_main_process barrier* monitored_barrier synchronize"),
    ("reductions", "Operations of reductions", "ReduceOp PremulSum premul_sum WithPlace mean"),
    ("collectives", "Collectives", "all_* reduce* broadcast* gather* scatter* scan* exscan*"),
    ("context", "Joining and leaving a job", "*"),
)
SECTIONS = ("Parameters", "Attributes", "Returns", "Yields", "Raises", "Methods")


def page_of_module(module):
    return "reference/python/" + module.removeprefix("unisono.").replace(".", "-")


def topic_of(name):
    return next(topic for topic, _, patterns in TOPICS if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns.split()))


def title_of(module, entry, level):
    return f"{module}.{entry['name']}" if level == 2 else entry["name"]


def shown_members(entry):
    """The class's own text lists attributes that have none."""
    return [each for each in entry.get("members", ()) if each["kind"] in ("function", "class") or each["doc"]]


def key_of(entry):
    return entry["name"], entry.get("home"), entry["doc"]


def wrapped(signature):
    """A signature that is long has a line for each parameter."""
    if len(signature) <= 96:
        return signature
    head, _, rest = signature.partition("(")
    parts, depth, part = [], 0, ""
    for i, letter in enumerate(rest):
        if letter == ")" and depth == 0:
            return f"{head}(\n    " + ",\n    ".join([*parts, part.strip()]) + ",\n" + rest[i:]
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            part += letter
    return signature


class Pages:
    def __init__(self, found, documents):
        self.documents = documents
        self.addresses = {}  # "unisono.all_reduce" → (page, anchor)
        self.headings = {}  # page → the anchors that are taken
        self.pages = {}  # page → its title, module, text and entries
        self.first = {}  # what it is → the name under which it came first
        for each in found:
            self._place(each)

    def _place(self, found):
        module = found["module"]
        for entry in found["names"]:
            if module == "unisono":
                topic = topic_of(entry["name"])
                page = f"reference/python/{topic}"
                title = next(title for name, title, _ in TOPICS if name == topic)
                self.pages.setdefault(page, {"title": title, "doc": "", "names": [], "module": module})
            else:
                page = page_of_module(module)
            target = self.pages.setdefault(page, {"title": module, "doc": found["doc"], "names": [], "module": module})
            target["names"].append(entry)
            self._number(page, module, entry, 2)
            if entry.get("home") and entry["kind"] in ("class", "function"):
                self.first.setdefault(key_of(entry), f"{module}.{entry['name']}")
        if module != "unisono":
            self.pages.setdefault(page_of_module(module), {"title": module, "doc": found["doc"], "names": [], "module": module})

    def _number(self, page, module, entry, level):
        taken = self.headings.setdefault(page, {slug(self.pages[page]["title"]): 0})
        anchor = slug(title_of(module, entry, level))
        taken[anchor] = taken.get(anchor, -1) + 1
        self.addresses[f"{module}.{entry['name']}"] = (page, anchor + (f"-{taken[anchor]}" if taken[anchor] else ""))
        for member in shown_members(entry):
            self._number(page, module, member, level + 1)

    def _link(self, page, module, text):
        """Returns the address of the name in a code span or word of a docstring, or None."""
        if text.startswith("docs/"):
            to, anchor = self.documents.get(text), ""
        else:
            name = re.match(r"([\w.]+)(\(.*\))?$", text)
            if not name or not re.search(r"[A-Z_(]", text):
                return None
            name = name[1].removeprefix(f"{module}.").removeprefix("unisono.")
            to, anchor = self.addresses.get(f"{module}.{name}") or self.addresses.get(f"unisono.{name}") or (None, None)
        if to is None:
            return None
        address = "" if to == page else os.path.relpath(to + ".md", os.path.dirname(page))
        return address + (f"#{anchor}" if anchor else "")

    def _words(self, text, link):
        """Returns prose of a docstring in one line, with its code spans."""
        out = []
        for i, part in enumerate(re.split(r"(``?[^`]+``?)", text)):
            if i % 2:
                inner = part.strip("`")
                address = link(inner)
                out.append(f"[{code_span(inner)}]({address})" if address else code_span(inner))
                continue
            words = re.split(r"(\bdocs/[\w/-]+\.md\b|\b[A-Z]\w*[a-z]\w*[A-Z]\w*\b|\b[a-z]+(?:_[a-z]+)+\b)", part)
            out += [f"[{escape(word)}]({address})" if j % 2 and (address := link(word)) else escape(word) for j, word in enumerate(words)]
        return "".join(out)

    def _prose(self, lines, link):
        """Paragraphs, lists, and indented or `>>>` blocks, which are code."""
        blocks, block = [], []
        for line in [*lines, ""]:
            if line.strip():
                block.append(line)
                continue
            if block:
                blocks.append(block)
            block = []
        out = []
        for block in blocks:
            if block[0].startswith(">>>") or block[0].startswith("    "):
                code = "\n".join(each.removeprefix("    ") if block[0].startswith("    ") else each for each in block)
                if out and out[-1].startswith("```python") and out[-1].startswith("```python\n>>>") == code.startswith(">>>"):
                    out[-1] = out[-1].removesuffix("```") + "\n" + code + "\n```"
                else:
                    out.append(f"```python\n{code}\n```")
            elif block[0].startswith("- "):
                items = re.split(r"\n(?=- )", "\n".join(block))
                out.append("\n".join("- " + self._words(" ".join(item[2:].split()), link) for item in items))
            else:
                out.append(self._words(" ".join(" ".join(block).split()), link))
        return "\n\n".join(out)

    def _section(self, title, entries, link):
        items = []
        for each in entries:
            name, kind = each.name, each.type
            head = " : ".join(part for part in (code_span(name) if name else "", self._words(kind, link) if kind else "") if part)
            if title == "Raises" and not name:
                head = self._words(f"`{kind}`", link)
            said = self._prose(each.desc, link) or " "
            items.append(f"{head}\n:   " + said.replace("\n", "\n    "))
        return f"**{title}**\n\n" + "\n\n".join(items)

    def _docstring(self, text, link):
        if not re.search(r"^(Parameters|Returns|Raises|Attributes|Examples|See Also)\n-+$", text, re.M):
            return [self._prose(text.splitlines(), link)] if text else []
        parsed = NumpyDocString(text)
        out = [self._prose([*parsed["Summary"], "", *parsed["Extended Summary"]], link)]
        out += [self._section(title, parsed[title], link) for title in SECTIONS if parsed[title]]
        if parsed["Notes"]:
            out += ["**Notes**", self._prose(parsed["Notes"], link)]
        if parsed["See Also"]:
            named = []
            for names, said in parsed["See Also"]:
                linked = ", ".join(self._words(f"`{name}`", link) for name, _ in names)
                named.append(f"- {linked}: {self._words(' '.join(said), link)}" if said else f"- {linked}")
            out += ["**See also**", "\n".join(named)]
        if parsed["Examples"]:
            out += ["**Examples**", self._prose(re.sub(r" +# doctest: .*", "", "\n".join(parsed["Examples"])).splitlines(), link)]
        return out

    def _entry(self, page, module, entry, level):
        def link(text):
            return self._link(page, module, text)

        path = f"{module}.{entry['name']}"
        out = [f"{'#' * level} {escape(title_of(module, entry, level))}"]
        original = self.first.get(key_of(entry), path)
        if level == 2 and original != path:
            return [*out, f"The same as {self._words(f'`{original}`', lambda text: self._link(page, 'unisono', text))}."]
        forms = [wrapped(each) for each in entry.get("signatures", ())]
        if entry["kind"] == "class":
            bases = f"({', '.join(entry['bases'])})" if entry["bases"] else ""
            forms = [f"class {entry['name']}{bases}", *forms]
        elif entry["kind"] == "value":
            forms = [f"{entry['name']} = {entry['value']}"] if len(entry["value"]) < 80 and " at 0x" not in entry["value"] else []
        if forms:
            out.append(signature("python", "\n".join(forms)))
        out += self._docstring(entry["doc"], link)
        for member in shown_members(entry):
            out += self._entry(page, module, member, level + 1)
        return [each for each in out if each.strip()]

    def write(self, folder):
        index = ["# Python", "The names of `unisono` stand on pages by topic, and each of its modules has a page. Each entry is what `help()` shows."]
        topics = [f"reference/python/{name}" for name, _, _ in reversed(TOPICS)]
        modules = [page for page in self.pages if page not in topics]
        for page in [*topics, *modules]:
            content = self.pages[page]
            lines = [f"# {escape(content['title'])}", self._prose(content["doc"].splitlines(), lambda text, page=page, content=content: self._link(page, content["module"], text))]
            for entry in content["names"]:
                lines += self._entry(page, content["module"], entry, 2)
            write_page(folder, page, "\n\n".join(line for line in lines if line.strip()) + "\n")
        for title, chosen in (("unisono", topics), ("Modules", modules)):
            index.append(f"## {title}")
            for page in chosen:
                content, address = self.pages[page], os.path.relpath(page, "reference/python") + ".md"
                names = ", ".join(f"[{code_span(entry['name'])}]({address}#{self.addresses[content['module'] + '.' + entry['name']][1]})" for entry in content["names"])
                index.append(f"[{content['title']}]({address})\n:   {names or 'has names of other modules.'}")
        write_page(folder, "reference/python/index", "\n\n".join(index) + "\n", [*topics, *modules])


def write(found, folder, documents):
    Pages(found, documents).write(Path(folder))
