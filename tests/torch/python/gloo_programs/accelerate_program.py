"""A training with Accelerate. Argument: the backend that is started before Accelerate's own start, or "own" for Accelerate's: gloo on the cpu."""

import json
import os
import sys

import torch
import torch.distributed as dist
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, gather_object, set_seed
from torch import nn

if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1] != "own":
        dist.init_process_group(sys.argv[1])
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    set_seed(5)
    x = torch.randn(40, 6)
    data = torch.utils.data.TensorDataset(x, x.prod(1, keepdim=True))
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    losses = []
    for _ in range(2):
        for inputs, targets in loader:
            with accelerator.accumulate(model):
                loss = nn.functional.mse_loss(model(inputs), targets)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            losses.append(accelerator.gather(loss.detach()).tolist())
    words = [f"of rank {accelerator.process_index}"]
    gathered = gather_object(words)
    result = {
        "type": str(accelerator.distributed_type), "processes": accelerator.num_processes, "losses": losses, "words": gathered,
        "weights": [p.double().sum().item() for p in model.parameters()], "word": broadcast_object_list(words, from_process=1),
        "mean": accelerator.reduce(torch.arange(3.0) + accelerator.process_index, "mean").tolist(),
        "padded": accelerator.pad_across_processes(torch.ones(2 + accelerator.process_index)).tolist(),
    }
    accelerator.wait_for_everyone()
    os.write(1, f"backend {dist.get_backend()}\nresult {accelerator.process_index} {json.dumps(result, sort_keys=True)}\n".encode())
    accelerator.end_training()
