"""torch_xla has ended, and no release of it works with a current PyTorch: there is no such model here. JAX computes on TPUs."""

has_xla_support = False
XLA_TPU = "xla-tpu"
