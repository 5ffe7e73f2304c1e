"""A source, what can be mutated in it, and its text with all of that compiled in."""


class Mutant:
    """One mutation: `pieces` are text and ranges of the source, in place of what stands from `start` to `end`."""

    def __init__(self, start, end, pieces, where, what, order):
        self.start, self.end, self.pieces = start, end, pieces
        self.where, self.what, self.order = where, what, order
        self.number = 0
        self.line = 0


class Source:
    """A file and its mutants."""

    def __init__(self, path, text):
        self.path, self.text = path, text
        self.mutants = []
        self.seen = set()
        self.function = ""

    def shown(self, start, end):
        return " ".join(self.text[start:end].decode().split())

    def add(self, start, end, pieces, what):
        key = (start, end, what)
        if key not in self.seen:
            self.seen.add(key)
            self.mutants.append(Mutant(start, end, pieces, self.function, what, len(self.mutants)))

    def number_them(self, base):
        """Names that outlive changes elsewhere in the file, and numbers behind `base`."""
        count = {}
        for i, mutant in enumerate(sorted(self.mutants, key=lambda m: (m.start, m.order))):
            mutant.number = base + i
            mutant.line = self.text.count(b"\n", 0, mutant.start) + 1
            name = f"{self.path} {mutant.where}: {mutant.what}"
            count[name] = count.get(name, 0) + 1
            mutant.key = name if count[name] == 1 else f"{name} ({count[name]})"

    def render(self):
        ordered = sorted(self.mutants, key=lambda m: (m.start, -m.end, m.order))
        return self._render(0, len(self.text), ordered)

    def _render(self, start, end, mutants):
        result, at, i = b"", start, 0
        while i < len(mutants):
            outer = mutants[i]
            inside = []
            i += 1
            while i < len(mutants) and mutants[i].start < outer.end:
                inside.append(mutants[i])
                i += 1
            result += self.text[at:outer.start]
            for piece in outer.pieces:
                if isinstance(piece, str):
                    result += piece.replace("@", str(outer.number)).encode()
                else:
                    result += self._render(*piece, [m for m in inside if m.start >= piece[0] and m.end <= piece[1]])
            at = outer.end
        return result + self.text[at:end]
