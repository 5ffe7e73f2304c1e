"""Run by scripts/check/count-hops inside gdb: stops at the first call of SINK that comes from all_reduce, and prints the functions in between."""

import os
import re

import gdb

PUBLIC = "unisono::all_reduce"
DIRECT_CALL = 0xE8  # the opcode of x86-64's call to a fixed address, five bytes before the place it returns to


def plain(name):
    """Without template arguments, parameters and what a lambda adds."""
    name = re.sub(r"\(anonymous namespace\)", "anonymous", name)
    while (shorter := re.sub(r"<[^<>]*>", "", name)) != name:
        name = shorter
    name = re.sub(r"\([^()]*\)( const)?( noexcept)?", "", name)
    return re.sub(r"::(\{lambda.*|operator\(\).*)$", "", name).split(" ")[-1]


def frames():
    frame = gdb.newest_frame()
    while frame is not None:
        yield frame
        frame = frame.older()


def way():
    """The names from the public function down to the sink, each with whether it was reached through a register. None where all_reduce is not there."""
    found = []
    for frame in frames():
        name = frame.name() or "?"
        older = frame.older()
        indirect = False
        if older is not None:
            before = gdb.selected_inferior().read_memory(older.pc() - 5, 5)
            indirect = before[0][0] != DIRECT_CALL
        found.append((plain(name), name, indirect))
        if plain(name) == PUBLIC:
            return found[::-1]
    return None


class Sink(gdb.Breakpoint):
    reached = None

    def stop(self):
        found = way()
        through = os.environ["THROUGH"]
        if found is None or (through and not any(through in name for name, _, _ in found)):
            return False
        Sink.reached = found
        return True


def ours(name):
    return name.startswith("unisono::") and not name.endswith("Waiter::wait")  # where a rank is late, the waiter advances the task


gdb.execute("set pagination off")
gdb.execute("set breakpoint pending on")
gdb.execute("set print thread-events off")
Sink(os.environ["SINK"])
gdb.execute("run")
if Sink.reached is not None:
    virtual = sum(indirect for _, _, indirect in Sink.reached[1:])
    hops = []
    for name, _, indirect in Sink.reached[1:]:
        if ours(name) and (not hops or hops[-1][0] != name):
            hops.append((name, indirect))
    most, most_virtual = int(os.environ["HOPS"]), int(os.environ["VIRTUAL"])
    good = len(hops) <= most and virtual <= most_virtual
    print(f"hops on {os.environ['TITLE']}: {len(hops)} (at most {most}), virtual calls {virtual} (at most {most_virtual}){'' if good else ': TOO MANY'}")
    for name, indirect in hops:
        print(f"  {'virtual ' if indirect else '        '}{name}")
gdb.execute("kill")
