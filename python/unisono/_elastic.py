"""Functions by which an ElasticState moves the objects that it lists to the host's memory and back."""

import copy


def to_host(x):
    """A copy in the host's memory of a buffer on a device; None for one that has no call for it."""
    if hasattr(x, "detach"):  # PyTorch
        return x.detach().cpu()
    if hasattr(x, "get") and hasattr(x, "set"):  # CuPy
        return x.get()
    return None


def from_host(x, host):
    """Puts such a copy back."""
    if hasattr(x, "detach"):
        x.detach().copy_(host)
    else:
        x.set(host)


def state_of(x):
    """The state_dict, whose tensors are in the host's memory: another rank has other devices."""
    return _on_host(x.state_dict())


def _on_host(x):
    if isinstance(x, dict):
        other = copy.copy(x)  # of its class, and with its attributes
        other.update((key, _on_host(value)) for key, value in x.items())
        return other
    if type(x) in (list, tuple):
        return type(x)(map(_on_host, x))
    if hasattr(x, "detach") and getattr(getattr(x, "device", None), "type", "cpu") != "cpu":
        return x.detach().cpu()
    return x
