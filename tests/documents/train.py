# The reader's own program, which README.md starts.
import torch
import torch.distributed as dist

dist.init_process_group("unisono")
x = torch.ones(1)
dist.all_reduce(x)
assert x.item() == dist.get_world_size()
dist.destroy_process_group()
