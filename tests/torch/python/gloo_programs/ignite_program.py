"""A training with pytorch-ignite over the backend that its argument names. Each rank prints what it has at the end."""

import json
import os
import sys

import ignite.distributed as idist
import torch
from ignite.engine import Engine, Events
from ignite.metrics import Accuracy, RunningAverage
from torch import nn


def training(local_rank):
    torch.manual_seed(1)
    data = torch.utils.data.TensorDataset(torch.randn(48, 6), torch.randint(0, 3, (48,)))
    loader = idist.auto_dataloader(data, batch_size=8, shuffle=False)
    model = idist.auto_model(nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 3)))
    optimizer = idist.auto_optim(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))

    def step(engine, batch):
        x, y = batch
        optimizer.zero_grad()
        scores = model(x)
        loss = nn.functional.cross_entropy(scores, y)
        loss.backward()
        optimizer.step()
        return {"loss": loss.item(), "y_pred": scores.detach(), "y": y}

    trainer = Engine(step)
    RunningAverage(output_transform=lambda output: output["loss"]).attach(trainer, "loss")
    Accuracy(output_transform=lambda output: (output["y_pred"], output["y"])).attach(trainer, "accuracy")
    seen = []
    trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda engine: seen.append(dict(engine.state.metrics)))
    trainer.run(loader, max_epochs=2)
    result = {
        "backend": idist.backend(), "model": idist.model_name(), "seen": seen, "weights": [p.double().sum().item() for p in model.parameters()],
        "sum": idist.all_reduce(torch.arange(3.0) + idist.get_rank()).tolist(), "ranks": idist.all_gather(idist.get_rank()),
        "words": idist.all_gather(f"rank {idist.get_rank()}"), "word": idist.broadcast("of rank 1" if idist.get_rank() == 1 else "", src=1, safe_mode=True),
    }
    idist.barrier()
    os.write(1, f"result {idist.get_rank()} {json.dumps(result, sort_keys=True)}\n".encode())


if __name__ == "__main__":
    torch.set_num_threads(1)
    with idist.Parallel(backend=sys.argv[1]) as parallel:
        parallel.run(training)
