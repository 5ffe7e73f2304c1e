"""What is mutated, and which programs look for it."""

TARGETS = [
    "src/group/calls/check*.cpp",
    "src/group/calls/check_parts.h",
    "src/context/*.cpp",
    "src/context/*.h",
    "src/engines/decision.*",
    "src/engines/signature.*",
    "src/engines/shm/*.cpp",
    "src/engines/shm/*.h",
]

CONFORMANCE = [name + "_conformance_test" for name in (
    "shapes", "groups", "rank_control", "context", "surface", "semantics", "point_to_point", "shared_memory", "multigpu", "blocks", "collectives",
    "objects", "order")]
OTHERS = [
    "context_parts_test", "thread_ranks_test", "decision_test", "agreement_test", "direct_access_test", "shared_pool_test", "native_limits_test",
    "longest_timeout_test", "adoption_test", "failing_threads_test", "failing_handover_test", "nccl_loader_test", "nccl_collectives_test",
    "nccl_async_test", "nccl_errors_test", "nccl_initialize_test", "decisions_test", "launcher_ending_test", "spawn_test", "code_places_test",
    "meeting_processes_test", "forming_test", "killed_test", "silent_test", "lifetime_test", "meeting_test", "handover_test", "limits_test", "matrix_test"]
# Each of CONFORMANCE as processes, too, and some of them on what the ranks say are two hosts.
THREE = ["run", "-n", "3", "--"]
TWO_HOSTS = ["run", "-n", "4", "--", "env", "-u", "LOCAL_RANK", "-u", "LOCAL_WORLD_SIZE"]
TCP = {"UNISONO_BACKEND": "tcp", "CONFORMANCE_HOSTS": "a,a,b,b"}
ON_TWO_HOSTS = {"groups_conformance_test", "semantics_conformance_test"}


class Program:
    """A test program as it is started: a name, a command, what is in the environment besides."""

    def __init__(self, name, binary, command, environment):
        self.name, self.binary, self.command, self.environment = name, binary, command, environment


def programs(build):
    """Those that are built."""
    found = []

    def add(name, test, before=(), environment=None):
        binary = build / "tests" / test
        if binary.exists():
            found.append(Program(name, binary, [*before, str(binary)], environment or {}))

    tool = str(build / "bin" / "unisono")
    for test in CONFORMANCE:
        add(test, test)
        add(f"{test} of 3 processes", test, [tool, *THREE], {"UNISONO_TIMEOUT": "60"})
        if test in ON_TWO_HOSTS:
            add(f"{test} on 2 hosts", test, [tool, *TWO_HOSTS], {"UNISONO_TIMEOUT": "60", **TCP})
    for test in OTHERS:
        add(test, test, (), {"UNISONO_PLUGIN_PATH": str(build / "lib")} if test == "nccl_initialize_test" else {})
    return found


def build_targets():
    return ["unisono", "unisono-tool", "unisono_nccl", *CONFORMANCE, *OTHERS]
