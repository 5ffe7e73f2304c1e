"""Completion offers what the help pages name, and nothing else.   words_test.py COMMAND"""

import sys

from command import Checks, Command

command, checks = Command(sys.argv[1]), Checks()


def words(*line):
    first, answer = command.ask(*line)
    checks.equal(f"the kind of answer to {line}", first, "words")
    return set(answer)


has_bench = "--sizes" in command.options("bench")
checks.equal("the commands", list(command.ask("")[1]), command.commands())
checks.equal("the options of the whole command", words("-"), command.options())
for name in command.commands():
    checks.equal(f"the options of {name}", words(name, "-"), command.options(name))
    checks.true(f"each option of {name} with its meaning", all(command.ask(name, "-")[1].values()))

# Each value that help names, and each that it refuses others for, is offered.
checks.equal("--bind", words("run", "--bind", ""), {"core", "l3", "none", "numa"})
checks.equal("--bind=", words("run", "--bind="), {"--bind=core", "--bind=l3", "--bind=none", "--bind=numa"})
checks.equal("--backend", words("run", "--backend", ""), command.backends())
checks.equal("a map of backends", words("run", "--backend", "cpu:native,cuda:n"), {f"cpu:native,cuda:{name}" for name in command.backends()})
checks.true("signals", {"USR1", "HUP"} <= words("run", "--forward-signal", "") and "KILL" not in words("run", "--forward-signal", ""))
checks.equal("a number", words("run", "-n", ""), set())
checks.equal("an option under another launcher's name", words("run", "--forward_signal", ""), words("run", "--forward-signal", ""))
checks.equal("the values of an option under another launcher's name", words("run", "--bind-to", ""), words("run", "--bind", ""))
checks.equal("a topic", words("help", ""), set(command.commands()))
checks.equal("one topic only", words("help", "run", ""), set())
checks.equal("a shell", words("completion", ""), {"bash", "zsh", "fish"})
if has_bench:
    checks.true("operations", {"all_reduce", "barrier"} <= words("bench", "all_reduce", ""))
    checks.true("operations after options", "all_gather" in words("bench", "--in-place", "--sizes", "8", ""))
    checks.equal("peers", words("bench", "--peers", ""), {"openmpi", "mpich", "gloo", "ucx", "nccl"})
    checks.equal("more peers", words("bench", "--peers", "mpich,"), {"mpich,openmpi", "mpich,gloo", "mpich,ucx", "mpich,nccl"})
    checks.true("dtypes", {"f32", "bf16", "i64"} <= words("bench", "--dtype", ""))
    for name in ("buffers", "data", "compare"):
        for word in words("bench", f"--{name}", ""):
            checks.true(f"--{name} {word} is on the help page", word in command.run("bench", "--help"))

# What the shell knows better.
for line, wanted in ((("run", "--logs", ""), "folders"), (("run", "--logs=a"), "folders"), (("run", "--token-file", "x"), "files"),
                     (("run", ""), "program 2"), (("run", "a"), "program 2"), (("run", "-n", "2", "--", ""), "program 5"), (("run", "-n", "2", ""), "program 4"),
                     (("run", "-np", "2", ""), "program 4"), (("run", "--oversubscribe", "-mca", "btl", "tcp", ""), "program 6"),
                     (("run", "--bind=core", "app", "--b"), "program 3"), (("run", "--", "app", "--bind", ""), "program 3")):
    checks.equal(str(line), command.ask(*line)[0], wanted)
checks.equal("what no command of ours follows", command.run("__complete", "rnu", ""), "")
sys.exit(checks.end())
