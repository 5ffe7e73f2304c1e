"""Finds all executions of a litmus test that RC11 allows: the C11 memory model as repaired by Lahav, Vafeiadis, Kang, Hur and Dreyer, "Repairing
Sequential Consistency in C/C++11" (2017), whose rules for seq_cst are those of C++20. One axiom of theirs is left out: that no relaxed read depends on
itself. C++ has no such rule, and ARM's processors move a write before an earlier read. So more is possible here than anywhere, and what is ruled out
here is ruled out.

An execution is a graph of reads, writes and fences with the relations
  sb   the order of the program in a thread            rf   the write that each read reads from
  mo   the order of the writes of a place in memory     rb   from a read to the writes that follow the one it has read
and it is allowed where the axioms of Graph.is_possible and is_allowed hold. An execution in which two conflicting accesses, of which one is not atomic, are not ordered by
happens-before is a data race, whatever it reads.

Relations are lists of bit sets: bit j of relation[i] says that i is before j."""

import itertools
from dataclasses import dataclass

from programs import Wrong, holds, order_of

AT_LEAST_ACQUIRE = ("acquire", "acq_rel", "seq_cst")
AT_LEAST_RELEASE = ("release", "acq_rel", "seq_cst")


@dataclass(frozen=True)
class Event:
    kind: str  # R, W or F
    place: str
    value: int
    order: str  # "plain" where it is not atomic
    reads_for: bool = False  # the write after it belongs to the same operation


@dataclass(frozen=True)
class Result:
    """What is possible: the condition, a data race; and how many executions there are."""

    condition: bool
    race: bool
    executions: int


def explore(program):
    """Returns the Result of a program."""
    condition = race = False
    count = 0
    for traces in itertools.product(*_traces(program)):
        events, sb, reads = _events_of(program, [trace[0] for trace in traces])
        wanted = holds(program.condition, [trace[1] for trace in traces])
        for graph in _graphs(events, sb, reads):
            count += 1
            condition = condition or wanted
            race = race or graph.has_race()
    return Result(condition, race, count)


# The ways of a thread, as far as it alone is concerned: any read may return any value that some write of its place writes.


def _traces(program):
    values = {place: {value} for place, value in program.initial.items()}
    # A value goes from write to write through at most so many operations.
    rounds = program.text.count("atomic_") + program.text.count("*")
    additions = program.text.count("fetch_add")
    for round_number in range(rounds):
        before = sum(len(of_place) for of_place in values.values())
        traces = [list(_run(thread, {}, (), values)) for thread in program.threads]
        for trace in itertools.chain(*traces):
            for event in trace[0]:
                if event.kind == "W":
                    values.setdefault(event.place, {0}).add(event.value)
        grew = sum(len(of_place) for of_place in values.values()) > before
        if not grew or (additions and round_number > additions):  # a sum that reads itself would grow for ever
            return traces
    raise Wrong("a place in memory takes more values than this checker follows")


def _run(statements, registers, events, values):
    if not statements:
        yield events, registers
        return
    first, rest = statements[0], statements[1:]
    for value, seen in _evaluate(first[1] if first[0] == "if" else first[-1], registers, events, values):
        if first[0] == "if":
            yield from _run((first[2] if value else first[3]) + rest, registers, seen, values)
        elif first[0] == "set":
            yield from _run(rest, {**registers, first[1]: value}, seen, values)
        elif first[0] == "store":
            yield from _run(rest, registers, (*seen, Event("W", first[1], value, "plain")), values)
        else:
            yield from _run(rest, registers, seen, values)


def _evaluate(expression, registers, events, values):
    """Yields each value that an expression can have, with the events up to it."""
    kind = expression[0]
    if kind == "number":
        yield expression[1], events
    elif kind == "register":
        yield registers[expression[1]], events
    elif kind == "plain":
        for value in values.get(expression[1], {0}):
            yield value, (*events, Event("R", expression[1], value, "plain"))
    elif kind == "call":
        yield from _call(expression[1], expression[2], registers, events, values)
    else:
        for left, after_left in _evaluate(expression[1], registers, events, values):
            for right, after in _evaluate(expression[2], registers, after_left, values):
                yield {"==": int(left == right), "!=": int(left != right), "+": left + right, "-": left - right}[kind], after


def _call(name, arguments, registers, events, values):
    if name == "atomic_thread_fence":
        order = order_of(arguments[0])
        # A relaxed fence does nothing.
        yield 0, events if order == "relaxed" else (*events, Event("F", "", 0, order))
        return
    place = arguments[0][1]
    if name == "atomic_load_explicit":
        for value in values.get(place, {0}):
            yield value, (*events, Event("R", place, value, order_of(arguments[1])))
        return
    if name == "atomic_compare_exchange_strong_explicit":
        yield from _compare_exchange(place, arguments, registers, events, values)
        return
    for operand, before in _evaluate(arguments[1], registers, events, values):
        order = order_of(arguments[2])
        if name == "atomic_store_explicit":
            yield 0, (*before, Event("W", place, operand, order))
        elif name in ("atomic_exchange_explicit", "atomic_fetch_add_explicit"):
            for old in values.get(place, {0}):
                new = operand if name == "atomic_exchange_explicit" else old + operand
                yield old, (*before, Event("R", place, old, order, True), Event("W", place, new, order))
        else:
            raise Wrong(f"{name} is not known")


def _compare_exchange(place, arguments, registers, events, values):
    expected_place, order, failure_order = arguments[1][1], order_of(arguments[3]), order_of(arguments[4])
    for expected in values.get(expected_place, {0}):
        looked = (*events, Event("R", expected_place, expected, "plain"))
        for desired, before in _evaluate(arguments[2], registers, looked, values):
            for old in values.get(place, {0}):
                if old == expected:
                    yield 1, (*before, Event("R", place, old, order, True), Event("W", place, desired, order))
                else:
                    yield 0, (*before, Event("R", place, old, failure_order), Event("W", expected_place, old, "plain"))


# The graphs of one choice of what each thread does.


def _events_of(program, traces):
    """Returns all events, those of the initial values first; sb; and for each read the writes it may read from."""
    places = sorted({event.place for trace in traces for event in trace if event.place})
    events = [Event("W", place, program.initial.get(place, 0), "plain") for place in places]
    first = len(events)
    sb = []
    for trace in traces:
        begin, end = len(events), len(events) + len(trace)
        events.extend(trace)
        sb.extend(((1 << end) - 1) & ~((1 << (i + 1)) - 1) for i in range(begin, end))
    of_threads = ((1 << len(events)) - 1) & ~((1 << first) - 1)
    sb = [of_threads] * first + sb
    reads = {}
    for i, event in enumerate(events):
        if event.kind == "R":
            reads[i] = [j for j, w in enumerate(events) if w.kind == "W" and w.place == event.place and w.value == event.value and not sb[i] >> j & 1]
    return events, sb, reads


def _graphs(events, sb, reads):
    if not all(reads.values()):
        return
    writes = {}
    for i, event in enumerate(events):
        if event.kind == "W":
            writes.setdefault(event.place, []).append(i)
    for sources in itertools.product(*reads.values()):
        graph = Graph(events, sb, dict(zip(reads, sources)))
        if not graph.is_possible():
            continue
        for orders in itertools.product(*(_orders(of_place, graph.hb) for of_place in writes.values())):
            graph.set_order(orders)
            if graph.is_allowed():
                yield graph


def _orders(writes, hb):
    """Yields the orders of the writes of a place that happens-before leaves open; the initial one is first."""
    for order in itertools.permutations(writes[1:]):
        if not any(hb[later] >> earlier & 1 for earlier, later in itertools.combinations(order, 2)):
            yield (writes[0], *order)


def compose(a, b):
    result = []
    for row in a:
        reached, j = 0, 0
        while row:
            if row & 1:
                reached |= b[j]
            row >>= 1
            j += 1
        result.append(reached)
    return result


def union(*relations):
    result = [0] * len(relations[0])
    for relation in relations:
        result = [a | b for a, b in zip(result, relation)]
    return result


def closure(relation):
    result = list(relation)
    for k, _ in enumerate(result):
        row = result[k]
        result = [r | row if r >> k & 1 else r for r in result]
    return result


def has_loop(relation):
    return any(row >> i & 1 for i, row in enumerate(relation))


class Graph:
    """An execution. `rf`: for each read the write that it reads from."""

    def __init__(self, events, sb, rf):
        self.events, self.sb, self.sources = events, sb, rf
        size = len(events)
        self.one = [1 << i for i in range(size)]
        self.rf = [0] * size
        for read, write in rf.items():
            self.rf[write] |= 1 << read
        self.rmw = [1 << (i + 1) if event.reads_for else 0 for i, event in enumerate(events)]
        self.hb = closure(union(sb, self._synchronizes()))
        self.same_place = [self._bits(lambda e, place=event.place: bool(place) and e.place == place) for event in events]

    def _bits(self, test):
        return sum(1 << i for i, event in enumerate(self.events) if test(event))

    def _only(self, test):
        return [bit if test(event) else 0 for bit, event in zip(self.one, self.events)]

    def _synchronizes(self):
        """sw = [release]; ([F]; sb)?; rs; rf; [atomic R]; (sb; [F])?; [acquire], with the release sequence rs = [atomic W]; (rf; rmw)*."""
        fences = self._only(lambda e: e.kind == "F")
        atomic_writes, atomic_reads = (self._only(lambda e, kind=kind: e.kind == kind and e.order != "plain") for kind in ("W", "R"))
        sequence = compose(atomic_writes, union(self.one, closure(compose(self.rf, self.rmw))))
        releases = compose(self._only(lambda e: e.kind in "WF" and e.order in AT_LEAST_RELEASE), union(self.one, compose(fences, self.sb)))
        acquires = compose(union(self.one, compose(self.sb, fences)), self._only(lambda e: e.kind in "RF" and e.order in AT_LEAST_ACQUIRE))
        return compose(compose(compose(releases, sequence), compose(self.rf, atomic_reads)), acquires)

    def is_possible(self):
        """Nothing happens before itself: the axiom that does not depend on the order of writes."""
        return not has_loop(self.hb)

    def set_order(self, orders):
        self.mo = [0] * len(self.events)
        for order in orders:
            for earlier, later in itertools.combinations(order, 2):
                self.mo[earlier] |= 1 << later
        self.rb = [0] * len(self.events)
        for read, write in self.sources.items():
            self.rb[read] = self.mo[write] & ~(1 << read)

    def is_allowed(self):
        eco = closure(union(self.rf, self.mo, self.rb))
        if has_loop(compose(self.hb, union(self.one, eco))):  # coherence
            return False
        if any(a & b for a, b in zip(self.rmw, compose(self.rb, self.mo))):  # atomicity
            return False
        sc, sc_fences = self._only(lambda e: e.order == "seq_cst"), self._only(lambda e: e.order == "seq_cst" and e.kind == "F")
        elsewhere = [row & ~same for row, same in zip(self.sb, self.same_place)]
        here = [row & same for row, same in zip(self.hb, self.same_place)]
        scb = union(self.sb, compose(compose(elsewhere, self.hb), elsewhere), here, self.mo, self.rb)
        maybe_hb = union(self.one, self.hb)
        base = compose(compose(union(sc, compose(sc_fences, maybe_hb)), scb), union(sc, compose(maybe_hb, sc_fences)))
        of_fences = compose(compose(sc_fences, union(self.hb, compose(compose(self.hb, eco), self.hb))), sc_fences)
        return not has_loop(closure(union(base, of_fences)))

    def has_race(self):
        for i, j in itertools.combinations(range(len(self.events)), 2):
            a, b = self.events[i], self.events[j]
            if not a.place or a.place != b.place or "W" not in (a.kind, b.kind) or "plain" not in (a.order, b.order):
                continue
            if not (self.hb[i] >> j & 1 or self.hb[j] >> i & 1):
                return True
        return False
