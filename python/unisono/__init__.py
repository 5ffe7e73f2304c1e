"""unisono: the processes of a job act as one.

`unisono.torch` is the backend "unisono" of torch.distributed.
"""
