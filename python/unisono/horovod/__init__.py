"""Horovod's calls, on unisono: `import unisono.horovod.torch as hvd`. docs/coming-from/horovod.md lists what differs."""
