"""Processes that find each other by multicast, as torch.distributed of 2018 did; multicast_start.cpp is the same in C++.

Start it three times, on any hosts of one network, which share a secret:  UNISONO_TOKEN=secret python multicast_start.py [tcp://239.66.41.62:23456]
"""

import sys

import torch
import unisono.torch2018 as dist  # was: import torch.distributed as dist

address = sys.argv[1] if len(sys.argv) > 1 else "tcp://239.66.41.62:23456"
dist.init_process_group("tcp", init_method=address, world_size=3, group_name="first job")  # no rank: it is given out
ranks = torch.tensor([dist.get_rank()])
dist.all_reduce(ranks)
print(f"one of {dist.get_world_size()}, the ranks add up to {ranks.item()}")
dist.destroy_process_group()
