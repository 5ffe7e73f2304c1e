"""A training with Lightning over the process group backend that its argument names. Each rank prints what it has at the end."""

import json
import logging
import os
import sys
import warnings

import lightning
import torch
from lightning.pytorch.strategies import DDPStrategy
from torch import nn


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
        self.seen = []

    def training_step(self, batch):
        loss = nn.functional.mse_loss(self.net(batch[0]), batch[1])
        self.log("loss", loss, on_step=False, on_epoch=True, sync_dist=True)
        return loss

    def validation_step(self, batch):
        self.log("validation", nn.functional.mse_loss(self.net(batch[0]), batch[1]), sync_dist=True)

    def on_validation_epoch_end(self):
        self.seen.append(self.all_gather(torch.tensor(float(self.global_rank + 1))).tolist())

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    lightning.seed_everything(3, verbose=False)
    x = torch.randn(32, 6)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True).tanh()), batch_size=4)
    model = Model()
    trainer = lightning.Trainer(
        accelerator="cpu", devices=int(os.environ["WORLD_SIZE"]), strategy=DDPStrategy(process_group_backend=sys.argv[1]), max_epochs=2, logger=False,
        enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0, default_root_dir=os.environ["FOLDER"])
    trainer.fit(model, loader, loader)
    checkpoint = torch.load(trainer.checkpoint_callback.best_model_path, weights_only=False)
    result = {
        "backend": torch.distributed.get_backend(), "metrics": {name: value.item() for name, value in trainer.callback_metrics.items()}, "seen": model.seen,
        "weights": [p.double().sum().item() for p in model.parameters()], "saved": [p.double().sum().item() for p in checkpoint["state_dict"].values()],
        "path": trainer.strategy.broadcast(f"of rank {trainer.global_rank}"),
    }
    os.write(1, f"result {trainer.global_rank} {json.dumps(result, sort_keys=True)}\n".encode())
    torch.distributed.destroy_process_group()  # one process in ten aborts when it ends with a group of gloo
