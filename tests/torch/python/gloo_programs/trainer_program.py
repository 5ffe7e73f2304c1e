"""A training with Transformers' Trainer, of a model that is made here. Argument: the backend that is started before, or "own" for the Trainer's own
start over gloo."""

import json
import os
import sys

import torch
import torch.distributed as dist
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed


class Words(torch.utils.data.Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, i):
        return {"input_ids": (torch.arange(8) * (i + 3)) % 50, "attention_mask": torch.ones(8, dtype=torch.long), "labels": torch.tensor(i % 2)}


if __name__ == "__main__":
    torch.set_num_threads(1)
    own = sys.argv[1] == "own"
    if not own:
        dist.init_process_group(sys.argv[1])
    set_seed(7)
    config = BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, max_position_embeddings=16,
                        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    arguments = TrainingArguments(
        output_dir=os.environ["FOLDER"], use_cpu=True, max_steps=4, per_device_train_batch_size=3, logging_steps=1, save_steps=4, report_to="none",
        disable_tqdm=True, seed=7, **({"ddp_backend": "gloo"} if own else {}))
    trainer = Trainer(model=BertForSequenceClassification(config), args=arguments, train_dataset=Words(), eval_dataset=Words())
    trainer.train()
    timed = ("runtime", "per_second")
    evaluation = {name: value for name, value in trainer.evaluate().items() if not name.endswith(timed)}
    history = [{name: value for name, value in entry.items() if not name.endswith(timed)} for entry in trainer.state.log_history]
    result = {
        "processes": arguments.world_size, "mode": str(arguments.parallel_mode), "history": history, "evaluation": evaluation,
        "weights": [p.double().sum().item() for p in trainer.model.parameters()], "predictions": trainer.predict(Words()).predictions.tolist(),
    }
    os.write(1, f"backend {dist.get_backend()}\nresult {arguments.process_index} {json.dumps(result, sort_keys=True)}\n".encode())
    dist.destroy_process_group()
