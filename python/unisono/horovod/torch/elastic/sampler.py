"""A sampler that divides what is left of an epoch anew when the members of the job change."""

import random

import torch

from .._job import rank, size


class ElasticSampler(torch.utils.data.Sampler):
    """Each rank's part of a dataset: every size()-th index of those that are left in this epoch, the last ones filled up from the first.

    Put it into a TorchState, call record_batch after each batch, and set_epoch at the end of each epoch. dataset: of constant length. shuffle: by `seed`, which
    is the same on all ranks, and the epoch.
    """

    def __init__(self, dataset, shuffle=True, seed=0):
        self.dataset, self.shuffle, self.seed = dataset, shuffle, seed
        self.epoch = self.processed_num = 0
        self.reset()

    def set_epoch(self, epoch):
        """Begins an epoch: nothing is done of it."""
        self.epoch, self.processed_num = epoch, 0
        self.reset()

    def record_batch(self, batch_idx, batch_size):
        """Says that every rank has done a batch of so many. batch_idx has no meaning."""
        self.processed_num += batch_size * self.num_replicas

    def state_dict(self):
        """The epoch, and how many of its indices are done."""
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state_dict):
        """Divides what is left in this state among the ranks that there are now."""
        self.epoch, self.processed_num = state_dict["epoch"], state_dict["processed_num"]
        self.reset()

    def reset(self):
        """Divides what is left anew."""
        self.num_replicas, self.rank = size(), rank()
        indices = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(indices)
        self.remaining_indices = indices[self.processed_num :]
        self.num_samples = -(-len(self.remaining_indices) // self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self):
        indices = list(self.remaining_indices)
        while 0 < len(indices) < self.total_size:
            indices += indices[: self.total_size - len(indices)]
        return iter(indices[self.rank : self.total_size : self.num_replicas])

    def __len__(self):
        return self.num_samples
