"""The meaning of Slurm's variables for a process."""

import itertools
import os
import re
import warnings

FIRST_SPECIAL_STEP = 4294967290  # from here on: the script of sbatch, the shell of an allocation, and the like


def warn_of_batch_script(environ=os.environ, stacklevel=3):
    """Warns where this is the script of sbatch, which has the variables of task 0 of all that the job may have though srun has started none of them."""
    step, tasks = environ.get("SLURM_STEP_ID") or "", int(environ.get("SLURM_NTASKS") or 1)
    is_step = step.isdigit() and int(step) < FIRST_SPECIAL_STEP
    if environ.get("SLURM_PROCID") == "0" and tasks > 1 and not is_step:
        warnings.warn(
            f"this process waits for {tasks - 1} others, since SLURM_NTASKS is {tasks}, and srun has not started this process; "
            "the script of sbatch must start the program by `srun` or `unisono run`",
            stacklevel=stacklevel,
        )


def expand_hostlist(text, sort=False):
    """The hosts of Slurm's notation, in its order: "n[1-2,5],m7" is n1, n2, n5, m7. Several brackets in a name are multiplied.

    A number is as wide as the text that its range begins with: "n[099-101]" is n099, n100, n101. Raises ValueError for a text that is not a list of
    hosts.
    """
    hosts = []
    for item in _items(text):
        parts = re.split(r"\[([^\[\]]*)\]", item)
        if any(c in part for part in parts[::2] for c in "[]"):
            raise ValueError(f"hostlist invalid : {text}")
        if parts == ["", "", ""]:  # "[]" is nobody
            continue
        choices = [[part] if i % 2 == 0 else list(_numbers(part, text)) for i, part in enumerate(parts)]
        hosts += ["".join(pieces) for pieces in itertools.product(*choices)]
    return sorted(hosts, key=lambda host: [int(p) if p.isdigit() else p for p in re.split(r"(\d+)", host)]) if sort else hosts


def _items(text):
    # Commas separate items, but not within brackets.
    return [item.strip() for item in re.findall(r"(?:[^,\[]|\[[^\]]*(?:\]|$))+", text) if item.strip()]


def _numbers(ranges, text):
    for item in ranges.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", item)
        if not match or int(match[2] or match[1]) < int(match[1]):
            raise ValueError(f"hostlist invalid : {text}")
        for number in range(int(match[1]), int(match[2] or match[1]) + 1):
            yield str(number).zfill(len(match[1]))
