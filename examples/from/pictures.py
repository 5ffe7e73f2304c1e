"""The data on which the programs of this folder train; pictures.h is the same in C++."""

import torch
from torch import nn


class Pictures(torch.utils.data.Dataset):
    """Pictures in the form of CIFAR-10, 3 x 32 x 32 numbers of ten kinds: each is the pattern of its kind with noise."""

    def __init__(self, count, seed):
        self.labels = torch.arange(count) % 10
        patterns = torch.randn(10, 3, 32, 32, generator=torch.Generator().manual_seed(1))
        self.images = patterns[self.labels] + torch.randn(count, 3, 32, 32, generator=torch.Generator().manual_seed(seed))

    def __getitem__(self, i):
        return self.images[i], self.labels[i]

    def __len__(self):
        return len(self.labels)


def make_net():
    """A small convolutional network that tells the ten kinds."""
    return nn.Sequential(nn.Conv2d(3, 8, 4, stride=4), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 8 * 8, 10))
