"""Reads litmus tests in the C of herd7, as far as the tests of this folder use it: a name, the values at the beginning, a function for each thread, and
a condition on what the threads have read at the end.

A program has ints in registers and in memory. Statements: `int r = E;`, `r = E;`, `*x = E;`, a call, `if (E) {...} else {...}`. Expressions: numbers,
registers, `*x`, `==`, `!=`, `+`, `-`, and atomic_load_explicit, atomic_store_explicit, atomic_exchange_explicit, atomic_fetch_add_explicit,
atomic_compare_exchange_strong_explicit (its `expected` is a place in memory) and atomic_thread_fence."""

import re
from dataclasses import dataclass, field

ORDERS = ("relaxed", "acquire", "release", "acq_rel", "seq_cst")
_TOKEN = re.compile(r"\s*(?:(\d+)|(\w+)|(==|!=|/\\|\\/|[-+*(){}\[\];,=:~]))")


class Wrong(Exception):
    """The text is no litmus test of this kind."""


@dataclass
class Program:
    name: str
    initial: dict
    threads: list  # of lists of statements
    condition: tuple
    text: str = field(repr=False, default="")


class _Tokens:
    def __init__(self, text):
        self.tokens, at = [], 0
        text = text.rstrip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if not match:
                raise Wrong(f"cannot read: {text[at:at + 30]!r}")
            self.tokens.append(match.group().strip())
            at = match.end()
        self.at = 0

    def peek(self, ahead=0):
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else ""

    def next(self):
        token = self.peek()
        if not token:
            raise Wrong("the text ends too early")
        self.at += 1
        return token

    def take(self, token):
        if self.peek() != token:
            return False
        self.at += 1
        return True

    def need(self, token):
        found = self.next()
        if found != token:
            raise Wrong(f"{found!r} stands where {token!r} should")


def read(text):
    """Returns the Program that a text describes."""
    plain = re.sub(r"//[^\n]*", "", re.sub(r"\(\*.*?\*\)", "", text, flags=re.S))
    head, _, rest = plain.strip().partition("\n")
    if not head.startswith("C "):
        raise Wrong("a litmus test begins with 'C NAME'")
    tokens = _Tokens(rest)
    initial = _initial(tokens)
    threads = []
    while re.fullmatch(r"P\d+", tokens.peek()):
        if tokens.next() != f"P{len(threads)}":
            raise Wrong("threads are numbered from P0 on")
        while tokens.next() != ")":
            pass
        threads.append(_block(tokens))
    tokens.need("exists")
    return Program(head[2:].strip(), initial, threads, _condition(tokens), text)


def _initial(tokens):
    values = {}
    tokens.need("{")
    while not tokens.take("}"):
        bracketed = tokens.take("[")
        name = tokens.next()
        if bracketed:
            tokens.need("]")
        tokens.need("=")
        values[name] = int(tokens.next())
        tokens.take(";")
    return values


def _block(tokens):
    statements = []
    tokens.need("{")
    while not tokens.take("}"):
        statements.append(_statement(tokens))
    return statements


def _statement(tokens):
    if tokens.take("if"):
        tokens.need("(")
        test = _expression(tokens)
        tokens.need(")")
        then = _block(tokens)
        return ("if", test, then, _block(tokens) if tokens.take("else") else [])
    tokens.take("int")
    if tokens.take("*"):
        target = ("store", tokens.next())
    elif tokens.peek(1) == "=":
        target = ("set", tokens.next())
    else:
        target = ("do",)
    if target[0] != "do":
        tokens.need("=")
    value = _expression(tokens)
    tokens.need(";")
    return (*target, value)


def _expression(tokens):
    left = _operand(tokens)
    while tokens.peek() in ("==", "!=", "+", "-"):
        left = (tokens.next(), left, _operand(tokens))
    return left


def _operand(tokens):
    token = tokens.next()
    if token == "(":
        inside = _expression(tokens)
        tokens.need(")")
        return inside
    if token == "*":
        return ("plain", tokens.next())
    if token.isdigit():
        return ("number", int(token))
    if tokens.peek() != "(":
        return ("register", token)
    tokens.need("(")
    arguments = []
    while not tokens.take(")"):
        arguments.append(_expression(tokens))
        tokens.take(",")
    return ("call", token, arguments)


def order_of(argument):
    """Returns the order that an argument names."""
    name = argument[1] if argument[0] == "register" else ""
    if not (name.startswith("memory_order_") and name[13:] in ORDERS):
        raise Wrong(f"{argument} is no memory order")
    return name[13:]


def _condition(tokens):
    left = _conjunction(tokens)
    while tokens.take("\\/"):
        left = ("or", left, _conjunction(tokens))
    return left


def _conjunction(tokens):
    left = _fact(tokens)
    while tokens.take("/\\"):
        left = ("and", left, _fact(tokens))
    return left


def _fact(tokens):
    if tokens.take("~"):
        return ("not", _fact(tokens))
    if tokens.take("("):
        inside = _condition(tokens)
        tokens.need(")")
        return inside
    thread = int(tokens.next())
    tokens.need(":")
    register = tokens.next()
    tokens.need("=")
    return ("is", thread, register, int(tokens.next()))


def holds(condition, registers):
    """Tells whether the condition holds for these registers, a dict for each thread. A register that was never set is nothing."""
    kind = condition[0]
    if kind == "is":
        return registers[condition[1]].get(condition[2]) == condition[3]
    if kind == "not":
        return not holds(condition[1], registers)
    both = (holds(condition[1], registers), holds(condition[2], registers))
    return all(both) if kind == "and" else any(both)
