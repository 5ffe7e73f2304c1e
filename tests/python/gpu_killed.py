"""A rank that is killed beside a GPU: the other is told who, and how, for scripts/test/gpu. Run it with two ranks; the job ends with 137, as rank 1 did."""

import os
import signal
import time

import torch
import unisono

unisono.initialize()
x = torch.ones(1 << 20, device=str(unisono.device()))
unisono.all_reduce(x)
torch.cuda.synchronize()
if unisono.rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
begun = time.monotonic()
try:
    while True:
        unisono.all_reduce(x)
        torch.cuda.synchronize()
except unisono.PeerFailed as error:
    assert error.culprit == 1 and "SIGKILL" in str(error), error
    print(f"killed: rank 0 knew of rank 1 after {1e3 * (time.monotonic() - begun):.0f} ms: {error}", flush=True)
