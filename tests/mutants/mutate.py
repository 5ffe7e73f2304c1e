"""Finds what can be mutated in a source, and writes the source with all mutations compiled in behind mutants.h."""

import re

from clang.cindex import CursorKind as K, Diagnostic, Index, TypeKind

from source import Source

FUNCTIONS = {K.FUNCTION_DECL, K.CXX_METHOD, K.CONSTRUCTOR, K.DESTRUCTOR, K.FUNCTION_TEMPLATE, K.CONVERSION_FUNCTION}
EXPRESSIONS = {K.CALL_EXPR, K.BINARY_OPERATOR, K.COMPOUND_ASSIGNMENT_OPERATOR, K.UNARY_OPERATOR, K.UNEXPOSED_EXPR}
LOOPS = {K.WHILE_STMT: 0, K.DO_STMT: 1}
COMPARISONS = {"<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal"}
MUTATED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "+": "-", "-": "+", "*": "+", "/": "*", "%": "/", "&": "|", "|": "&", "<<": ">>", ">>": "<<"}
ARITHMETIC = {"+": "plus", "-": "minus", "*": "times", "/": "divided_by", "%": "modulo", "&": "bit_and", "|": "bit_or", "<<": "shift_left",
              ">>": "shift_right"}
# Places in which an expression is a constant to the compiler, or no expression of the program.
SKIPPED = {K.STATIC_ASSERT, K.ENUM_CONSTANT_DECL, K.TEMPLATE_NON_TYPE_PARAMETER, K.TEMPLATE_TYPE_PARAMETER, K.ALIGNED_ATTR, K.TYPE_REF}


def extent(cursor):
    return cursor.extent.start.offset, cursor.extent.end.offset


def children(cursor):
    return list(cursor.get_children())


class Finder:
    """Walks over the syntax of one file."""

    def __init__(self, source):
        self.source = source
        self.text = source.text

    def stripped(self, cursor):
        """Without parentheses and what the compiler puts around an expression."""
        while cursor.kind in (K.PAREN_EXPR, K.UNEXPOSED_EXPR) and len(children(cursor)) == 1:
            inner = children(cursor)[0]
            if cursor.kind == K.UNEXPOSED_EXPR and extent(inner) != extent(cursor):
                break
            cursor = inner
        return cursor

    def operator(self, cursor):
        if cursor.kind != K.BINARY_OPERATOR or len(children(cursor)) != 2:
            return None
        left, right = children(cursor)
        between = self.text[extent(left)[1]:extent(right)[0]].decode()
        between = re.sub(r"//[^\n]*|/\*.*?\*/", "", between).strip()
        return between if re.fullmatch(r"[-+*/%<>=!&|^]+", between) else None

    def visit_all(self, cursors):
        for cursor in cursors:
            self.visit(cursor)

    def visit(self, cursor):
        kind = cursor.kind
        if kind in SKIPPED or (kind.is_declaration() and self.is_constant(cursor)):
            return
        if kind in FUNCTIONS:
            return self.visit_function(cursor)
        if kind in (K.VAR_DECL, K.FIELD_DECL, K.PARM_DECL):
            return self.visit_variable(cursor)
        if kind == K.COMPOUND_STMT:
            return self.visit_statements(children(cursor))
        if kind == K.IF_STMT:
            return self.visit_if(cursor)
        if kind in LOOPS:
            parts = children(cursor)
            condition = parts.pop(LOOPS[kind])
            self.condition(condition, loop=True)
            return self.visit_statements(parts)
        if kind == K.FOR_STMT:
            return self.visit_for(cursor)
        if kind == K.CXX_FOR_RANGE_STMT:
            parts = children(cursor)
            self.visit_all(parts[:-1])
            return self.visit_statements(parts[-1:])
        if kind in (K.CASE_STMT, K.DEFAULT_STMT):
            return self.visit_statements(children(cursor)[-1:])
        if kind == K.RETURN_STMT:
            for part in children(cursor):
                if part.type.get_canonical().kind == TypeKind.BOOL:
                    self.root(part, True, True)
                else:
                    self.visit(part)
            return
        if kind == K.CONDITIONAL_OPERATOR:
            parts = children(cursor)
            self.condition(parts[0])
            return self.visit_all(parts[1:])
        self.visit_expression(cursor)

    def is_constant(self, cursor):
        if cursor.kind not in (K.VAR_DECL, K.FIELD_DECL):
            return False
        head = self.text[extent(cursor)[0]:cursor.location.offset]
        return b"constexpr" in head

    def visit_function(self, cursor):
        if cursor.is_default_method() or cursor.is_deleted_method():
            return
        outer, self.source.function = self.source.function, cursor.spelling
        start = extent(cursor)[0]
        found = re.match(rb"(template\s*<[^>]*>\s*)?(static\s+)?constexpr\b", self.text[start:])
        if found:  # the switch is none
            begin = start + found.end() - len("constexpr")
            self.source.add(begin, start + found.end(), ["inline"], "")
        self.visit_all(children(cursor))
        self.source.function = outer

    def visit_variable(self, cursor):
        name_end = cursor.location.offset
        for part in children(cursor):
            if extent(part)[0] < name_end:
                continue
            if cursor.type.kind == TypeKind.CONSTANTARRAY and part.kind == K.INTEGER_LITERAL:
                continue
            if part.type.get_canonical().kind == TypeKind.BOOL and part.kind.is_expression():
                self.root(part, True, True)
            else:
                self.visit(part)

    def visit_if(self, cursor):
        parts = children(cursor)
        head = self.text[extent(cursor)[0]:extent(cursor)[0] + 14]
        if re.match(rb"if\s+constexpr", head):
            return self.visit_statements(parts[1:])
        while parts[0].kind == K.DECL_STMT:  # if (init; …)
            self.visit_all(children(parts.pop(0)))
        if parts[0].kind == K.VAR_DECL:
            variable = parts.pop(0)
            self.declared_condition(variable)
            self.visit(variable)
            if parts and parts[0].kind.is_expression() and extent(parts[0])[1] <= extent(variable)[1]:
                parts.pop(0)
        else:
            self.condition(parts.pop(0))
        for part in parts:
            body = children(part) if part.kind == K.COMPOUND_STMT else [part]
            # Left out by the condition as well.
            alone = len(body) == 1 and len(parts) == 1
            self.visit_statements(body, may_go=not alone)

    def declared_condition(self, variable):
        start, end = extent(variable)
        inner = f"static_cast<bool>({variable.spelling})"  # always true it would be used where there is none
        self.source.add(start, end, [(start, end), "; " + self.forced(False, inner)], f"`{self.source.shown(start, end)}` always false")

    def visit_for(self, cursor):
        parts = children(cursor)
        body = parts.pop()
        for part in parts:
            start = extent(part)[0]
            is_condition = part.kind.is_expression() and re.match(rb"\s*;", self.text[self.end_of(part):]) and self.semicolons(cursor, start) == 1
            if is_condition:
                self.root(part, False, True)
            elif part.kind == K.DECL_STMT:
                self.visit_all(children(part))
            else:
                self.visit(part)
        self.visit_statements([body])

    def semicolons(self, cursor, until):
        """How many of a `for` stand before a place."""
        depth = count = 0
        for byte in self.text[extent(cursor)[0]:until]:
            depth += {ord("("): 1, ord("{"): 1, ord(")"): -1, ord("}"): -1}.get(byte, 0)
            count += byte == ord(";") and depth == 1
        return count

    def end_of(self, cursor):
        return extent(cursor)[1]

    def condition(self, cursor, loop=False):
        if cursor.kind == K.VAR_DECL:
            return self.visit(cursor)
        self.root(cursor, not loop, True)

    def forced(self, truth, inner):
        if truth:
            return f"(::mutants::is(@) || ::mutants::value(@, false, {inner}))"
        return f"(!::mutants::is(@) && ::mutants::value(@, true, {inner}))"

    def force(self, cursor, truth):
        start, end = extent(cursor)
        before, after = self.forced(truth, "\0").split("\0")
        self.source.add(start, end, [before + "static_cast<bool>(", (start, end), ")" + after],
                        f"`{self.source.shown(start, end)}` always {str(truth).lower()}")

    def root(self, cursor, may_be_true, may_be_false):
        """A condition. `a && b` is made false as a whole, and each of its parts true; what these tell is not asked once more."""
        whole = cursor
        cursor = self.stripped(cursor)
        operator = self.operator(cursor)
        if cursor.kind == K.CXX_BOOL_LITERAL_EXPR:
            return self.visit(cursor)
        if operator == "&&":
            if may_be_false:
                self.force(whole, False)
            for part in children(cursor):
                self.root(part, True, False)
            return
        if operator == "||":
            if may_be_true:
                self.force(whole, True)
            for part in children(cursor):
                self.root(part, False, True)
            return
        if cursor.kind == K.UNARY_OPERATOR and self.text[extent(cursor)[0]:extent(cursor)[0] + 1] == b"!":
            return self.root(children(cursor)[0], may_be_false, may_be_true)
        for truth in (True, False):
            if may_be_true if truth else may_be_false:
                self.force(cursor, truth)
        self.comparison(cursor)
        self.visit_below(cursor)

    def comparison(self, cursor):
        operator = self.operator(cursor)
        if operator in COMPARISONS:
            self.binary(cursor, COMPARISONS[operator], operator)

    def binary(self, cursor, function, operator):
        left, right = (extent(part) for part in children(cursor))
        start, end = extent(cursor)
        self.source.add(start, end, [f"::mutants::{function}(@, ", left, ", ", right, ")"],
                        f"`{self.source.shown(start, end)}` with `{MUTATED[operator]}`")

    def visit_statements(self, statements, may_go=True):
        for statement in statements:
            if statement.kind in EXPRESSIONS:
                if may_go:
                    self.leave_out(statement)
                self.visit(statement)
            elif statement.kind == K.DECL_STMT:
                self.visit_all(children(statement))
            else:
                self.visit(statement)

    def leave_out(self, statement):
        start, end = extent(statement)
        rest = re.match(rb"\s*;", self.text[end:])
        shown = self.source.shown(start, end)
        if rest is None or shown.startswith("static_cast<void>"):
            return
        end += rest.end()
        self.source.add(start, end, ["{ if (!::mutants::on(@)) { ", (start, end), " } }"], f"without `{shown};`")

    def visit_expression(self, cursor):
        kind = cursor.kind
        start, end = extent(cursor)
        if kind == K.INTEGER_LITERAL:
            return self.integer(start, end)
        if kind == K.CXX_BOOL_LITERAL_EXPR:
            word = self.text[start:end].decode()
            other = {"true": "false", "false": "true"}.get(word)
            if other:
                self.source.add(start, end, [f"(::mutants::on(@) ? {other} : {word})"], f"`{other}` in `{self.line_at(start)}`")
            return
        operator = self.operator(cursor)
        if operator in ("&&", "||") or operator in COMPARISONS or operator in ("==", "!="):
            return self.root(cursor, True, True)
        if operator in ARITHMETIC and self.is_arithmetic(cursor, operator):
            self.binary(cursor, ARITHMETIC[operator], operator)
        if kind == K.CALL_EXPR:
            self.smaller_or_larger(start, end)
        self.visit_below(cursor)

    def visit_below(self, cursor):
        for part in children(cursor):
            if extent(part)[0] >= extent(cursor)[0] and part.extent.start.file is not None:
                self.visit(part)

    def is_arithmetic(self, cursor, operator):
        if operator in "+-" and any(part.kind == K.INTEGER_LITERAL for part in map(self.stripped, children(cursor))):
            return False  # the number is mutated
        left, right = (part.type.get_canonical().kind for part in children(cursor))
        if left == TypeKind.POINTER or right == TypeKind.POINTER:
            return operator in "+-" and left == TypeKind.POINTER and right != TypeKind.POINTER
        return True

    def integer(self, start, end):
        word = self.text[start:end].decode()
        found = re.fullmatch(r"(\d+)([uUlL]*)", word)
        if not found:
            return
        number = int(found[1])
        for other in [number + 1] + ([0] if number == 1 else []):
            self.source.add(start, end, [f"(::mutants::on(@) ? {other}{found[2]} : ", (start, end), ")"], f"`{other}` for `{word}` in `{self.line_at(start)}`")

    def line_at(self, offset):
        begin = self.text.rfind(b"\n", 0, offset) + 1
        finish = self.text.find(b"\n", offset)
        return re.sub(r"\s*//.*", "", self.source.shown(begin, finish))

    def smaller_or_larger(self, start, end):
        found = re.match(rb"std::(min|max)(<[\w:]+>)?\(", self.text[start:end])
        if found:
            name, types = found[1].decode(), (found[2] or b"").decode()
            self.source.add(start, end, [f"::mutants::{name}{types}(@, ", (start + found.end(), end)],
                            f"`{self.source.shown(start, end)}` with `{'max' if name == 'min' else 'min'}`")


def find(paths, root, arguments):
    """The sources by path; a header as the first source reads it that includes it."""
    index, sources = Index.create(), {}
    for unit in [path for path in paths if path.endswith(".cpp")]:
        parsed = index.parse(f"{root}/{unit}", args=arguments)
        complain(parsed)
        for cursor in parsed.cursor.get_children():
            file = cursor.location.file
            path = file.name.removeprefix(f"{root}/") if file else None
            if path not in paths:
                continue
            if path not in sources:
                with open(f"{root}/{path}", "rb") as stream:
                    sources[path] = Source(path, stream.read()), unit
            if sources[path][1] == unit:
                Finder(sources[path][0]).visit(cursor)
    return {path: source for path, (source, _) in sources.items()}


def complain(parsed):
    for diagnostic in parsed.diagnostics:
        if diagnostic.severity >= Diagnostic.Error:
            raise SystemExit(f"test/mutants: {diagnostic}")

