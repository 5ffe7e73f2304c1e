"""Trains a classifier of handwritten digits in JAX, on all ranks together.

Each rank computes the gradients of its share of every batch; all_reduce averages them within the compiled loop over the batches. The weights are those
that one process finds, but for the rounding of sums in another order.

    unisono run -n 4 -- python train_jax.py
"""

import argparse
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

import unisono
import unisono.jax as ujax

DIGITS = pathlib.Path(__file__).resolve().parents[1] / "digits/digits.csv"
TRAINED, BATCH, RATE = 1500, 60, 0.5


def initial(key):
    sizes = [(64, 48), (48, 10)]
    return [{"w": jax.random.normal(k, s) / jnp.sqrt(s[0]), "b": jnp.zeros(s[1])} for k, s in zip(jax.random.split(key, 2), sizes, strict=True)]


def logits(weights, images):
    hidden, output = weights
    return jnp.tanh(images @ hidden["w"] + hidden["b"]) @ output["w"] + output["b"]


def loss(weights, images, labels):
    return -jnp.take_along_axis(jax.nn.log_softmax(logits(weights, images)), labels[:, None], axis=1).mean()


@jax.jit
def epoch(weights, images, labels):
    """All batches, of which this rank has its share: images[batch, sample, pixel]."""

    def step(weights, batch):
        share = jax.value_and_grad(loss)(weights, *batch)
        value, gradients = ujax.all_reduce(share, "avg")
        return jax.tree.map(lambda w, g: w - RATE * g, weights, gradients), value

    weights, values = jax.lax.scan(step, weights, (images, labels))
    return weights, values.mean()


@jax.jit
def count_right(weights, images, labels):
    return ujax.all_reduce((logits(weights, images).argmax(axis=1) == labels).sum())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--save", help="the file for the weights (.npz)")
    arguments = parser.parse_args()

    rank, size = unisono.rank(), unisono.world_size()
    if BATCH % size != 0:
        raise SystemExit(f"{size} ranks cannot share a batch of {BATCH} evenly")
    table = np.loadtxt(DIGITS, delimiter=",", dtype="float32")
    images, labels = table[:, :64] / 16, table[:, 64].astype("int32")

    weights = ujax.broadcast(initial(jax.random.key(rank)))  # rank 0's, everywhere
    for number in range(1, arguments.epochs + 1):
        order = np.random.default_rng(number).permutation(TRAINED).reshape(-1, size, BATCH // size)[:, rank]
        weights, value = epoch(weights, images[order], labels[order])
        right = count_right(weights, images[TRAINED + rank :: size], labels[TRAINED + rank :: size])
        if rank == 0:
            print(f"epoch {number}: loss {value:.4f}, {right} of {len(images) - TRAINED} unseen digits are right", flush=True)
    if arguments.save and rank == 0:
        np.savez(arguments.save, **{f"{name}{i}": value for i, layer in enumerate(weights) for name, value in layer.items()})


if __name__ == "__main__":
    with unisono.Context():
        main()
