"""What Slurm's variables say of a process."""

import os
import warnings

FIRST_SPECIAL_STEP = 4294967290  # from here on: the script of sbatch, the shell of an allocation, and the like


def warn_of_batch_script(environ=os.environ, stacklevel=3):
    """Warns where this is the script of sbatch, which has the variables of task 0 of all that the job may have though srun has started none of them."""
    step, tasks = environ.get("SLURM_STEP_ID") or "", int(environ.get("SLURM_NTASKS") or 1)
    is_step = step.isdigit() and int(step) < FIRST_SPECIAL_STEP
    if environ.get("SLURM_PROCID") == "0" and tasks > 1 and not is_step:
        warnings.warn(
            f"this process waits for {tasks - 1} others, since SLURM_NTASKS is {tasks}, and srun has not started this process (it is in no step of the job): "
            "if the script of sbatch runs the program itself, let it use `srun` or `unisono run`",
            stacklevel=stacklevel,
        )
