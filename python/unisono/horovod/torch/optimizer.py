"""DistributedOptimizer: an optimizer whose gradients are reduced over all ranks."""

import contextlib
import warnings

import torch

from ._process_sets import global_process_set
from ._reducing import grouped_allreduce_, grouped_allreduce_async_, sparse_allreduce_async
from ._requests import Adasum, Average, HorovodInternalError
from ._worker import synchronize
from .compression import Compression


def DistributedOptimizer(
    optimizer,
    named_parameters=None,
    compression=Compression.none,
    backward_passes_per_step=1,
    op=Average,
    gradient_predivide_factor=1.0,
    num_groups=0,
    groups=None,
    sparse_as_dense=False,
    process_set=global_process_set,
):
    """The optimizer, with gradients that are reduced over all ranks while backward() runs and before step(). All ranks make one.

        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), named_parameters=model.named_parameters())

    It is of a class derived from the given optimizer's, and shares its parameters, options and state; use it in the other's place. It also has `synchronize()`,
    for gradients that are changed between backward() and step(); `skip_synchronize()`, the scope for step() after that; and
    `set_backward_passes_per_step(n)`.

    named_parameters: (name, parameter) of all parameters. backward_passes_per_step: gradients of that many passes are accumulated (added) before they are
    reduced. op: Average, Sum, or Adasum, which reduces the changes of the parameters in place of the gradients. gradient_predivide_factor f: gradients are
    divided by f before and by size() / f after the sum. groups: a number of groups, or lists of parameters, each reduced in one step. A parameter without a
    gradient counts as 0. ValueError: parameters that are not named, or named twice; groups with entries that are not parameters; a factor with
    another op.
    """
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor not supported with op != Average")
    if num_groups != 0:
        warnings.warn("Parameter `num_groups` has been replaced by `groups`", DeprecationWarning, stacklevel=2)
        groups = num_groups if groups is None else groups
    mixin = _Reduced
    if op == Adasum:
        if process_set is not global_process_set and process_set._working().size > 1:
            raise NotImplementedError("Adasum does not support non-global process sets yet.")
        mixin = _Adasum
    cls = type(optimizer.__class__.__name__, (mixin, optimizer.__class__), {})
    wrapped = cls.__new__(cls)
    # A learning rate scheduler puts a step() that is bound to the given optimizer among its attributes.
    wrapped.__dict__.update((key, value) for key, value in vars(optimizer).items() if key != "step")
    wrapped._compression, wrapped.op, wrapped.process_set = compression, op, process_set
    wrapped.gradient_predivide_factor, wrapped.sparse_as_dense = gradient_predivide_factor, sparse_as_dense
    wrapped._parameter_names = _names(optimizer, named_parameters)
    wrapped._begin(backward_passes_per_step, groups)
    return wrapped


def _names(optimizer, named_parameters):
    parameters = [(i, j, p) for i, group in enumerate(optimizer.param_groups) for j, p in enumerate(group["params"])]
    if named_parameters is None:
        return {p: f"noname.{i}.{j}" for i, j, p in parameters}
    pairs = list(named_parameters)
    if any(not isinstance(pair, tuple) for pair in pairs):
        raise ValueError("named_parameters should be a sequence of tuples (name, parameter), usually produced by model.named_parameters().")
    names = [name for name, _ in pairs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"Parameter names in named_parameters must be unique. Found duplicates: {', '.join(twice)}")
    names = {p: name for name, p in pairs}
    unnamed = [f"{j} of group {i}" for i, j, p in parameters if p not in names]
    if unnamed:
        raise ValueError(f"named_parameters was specified, but one or more model parameters were not named: number {', '.join(unnamed)}")
    return names


def _units(parameters, groups):
    """The tuples of parameters that are reduced in one step each."""
    if groups is None:
        return [(p,) for p in parameters]
    if isinstance(groups, int) and groups > 0:
        quotient, rest = divmod(len(parameters), groups)
        ends = [i * quotient + min(i, rest) for i in range(groups + 1)]
        return [tuple(parameters[begin:end]) for begin, end in zip(ends, ends[1:]) if begin < end]
    if not isinstance(groups, list):
        raise ValueError("groups should be a non-negative integer or a list of lists of torch.Tensor.")
    listed = [p for group in groups for p in group]
    if any(not isinstance(p, torch.Tensor) for p in listed):
        raise ValueError("groups must consist of torch.Tensor.")
    if len(set(listed)) != len(listed):
        raise ValueError("A parameter can only appear once in groups.")
    units = [tuple(p for p in group if p in set(parameters)) for group in groups]
    return [unit for unit in units if unit] + [(p,) for p in parameters if p not in set(listed)]


class _Common:
    def set_backward_passes_per_step(self, passes):
        """From the next step on, gradients of so many backward passes are accumulated."""
        self.backward_passes_per_step = passes
        self._passes_left = {p: passes for p in self._parameter_names}

    @contextlib.contextmanager
    def skip_synchronize(self):
        """A scope in which step() does not reduce, because synchronize() was called before."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True


class _Reduced(_Common):
    def _begin(self, passes, groups):
        self.set_backward_passes_per_step(passes)
        self._should_synchronize, self._synchronized = True, False
        self._handles = {}  # unit -> what finishes its reduction
        parameters = [p for group in self.param_groups for p in group["params"] if p.requires_grad]
        self._unit_list = _units(parameters, groups)
        self._unit_of = {p: unit for unit in self._unit_list for p in unit}
        # The members of an elastic job may become more than one.
        self._takes_part = self.process_set.included()
        if self._takes_part:
            for p in parameters:
                p.register_post_accumulate_grad_hook(self._on_gradient)

    def _is_active(self):
        return self._takes_part and self.process_set.size() != 1

    def _on_gradient(self, p):
        if not self._is_active():
            return
        unit = self._unit_of[p]
        if unit in self._handles or self._passes_left[p] <= 0:
            raise AssertionError(
                "Gradients were computed more than backward_passes_per_step times before call to step(). "
                "Increase backward_passes_per_step to accumulate gradients locally."
            )
        self._passes_left[p] -= 1
        if all(self._passes_left[other] == 0 for other in unit):
            self._handles[unit] = self._reduce(unit)

    def _reduce(self, unit):
        """Begins the reduction of the gradients of a unit. Returns a function that finishes it."""
        for p in unit:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
        name = self._parameter_names[unit[0]]
        sparse = [p for p in unit if p.grad.is_sparse]
        if sparse and not self.sparse_as_dense:
            finishers = [self._reduce_sparse(p) for p in sparse]
            rest = tuple(p for p in unit if not p.grad.is_sparse)
            return lambda others=self._reduce(rest) if rest else None: ([finish() for finish in finishers], others and others())
        pairs = [self._compression.compress(p.grad.to_dense() if p.grad.is_sparse else p.grad) for p in unit]
        factor = self.gradient_predivide_factor
        scales = {"prescale_factor": 1 / factor, "postscale_factor": factor} if self.op == Average else {}
        handle = grouped_allreduce_async_([tensor for tensor, _ in pairs], name=name, op=self.op, process_set=self.process_set, **scales)

        def finish():
            for p, result, (_, context) in zip(unit, synchronize(handle), pairs):
                result = self._compression.decompress(result, context)
                if p.grad.is_sparse:
                    p.grad = result.to_sparse(p.grad.sparse_dim())
                elif result is not p.grad:
                    p.grad.copy_(result)

        return finish

    def _reduce_sparse(self, p):
        result = sparse_allreduce_async(p.grad, f"sparse.{self._parameter_names[p]}", self.op, self.process_set)

        def finish():
            p.grad = result().coalesce()

        return finish

    def synchronize(self):
        """Returns when all gradients are reduced; reductions that have not begun begin. All ranks call it."""
        if self._is_active():
            for unit in self._unit_list:
                if unit not in self._handles:
                    self._handles[unit] = self._reduce(unit)
            handles, self._handles = self._handles, {}
            self.set_backward_passes_per_step(self.backward_passes_per_step)
            with torch.no_grad():
                for finish in handles.values():
                    finish()
        self._synchronized = True

    def step(self, closure=None):
        """Reduces what is not reduced, and makes the optimizer's step."""
        if self._should_synchronize:
            if self._synchronized:
                warnings.warn(
                    "optimizer.step() called without optimizer.skip_synchronize() context after optimizer.synchronize(). The gradients are reduced twice.",
                    stacklevel=2,
                )
            self.synchronize()
        self._synchronized = False
        return super().step(closure)

    def zero_grad(self, *args, **kwargs):
        """The optimizer's zero_grad. AssertionError between backward() and step(), when gradients are being reduced."""
        if self._handles:
            raise AssertionError(
                "optimizer.zero_grad() was called after loss.backward() but before optimizer.step() or optimizer.synchronize(). "
                "This is prohibited as it can cause a race condition."
            )
        return super().zero_grad(*args, **kwargs)

    def load_state_dict(self, *args, **kwargs):
        """The optimizer's load_state_dict; reductions that have begun are forgotten, also those that have failed."""
        for finish in self._handles.values():
            with contextlib.suppress(HorovodInternalError):
                finish()
        self._handles, self._synchronized, self._should_synchronize = {}, False, True
        self.set_backward_passes_per_step(self.backward_passes_per_step)
        return super().load_state_dict(*args, **kwargs)


class _Adasum(_Common):
    """Each rank makes its own step, and the changes of the parameters are combined."""

    def _begin(self, passes, groups):
        self.set_backward_passes_per_step(passes)
        self._should_synchronize = True

    def synchronize(self):
        """Does nothing: what is reduced is what step() changes."""

    def step(self, closure=None):
        """Makes the optimizer's step and gives all parameters the adaptive sum of all ranks' changes. All ranks call it."""
        parameters = [p for group in self.param_groups for p in group["params"] if p.requires_grad]
        before = [p.detach().clone() for p in parameters]
        loss = super().step(closure)
        with torch.no_grad():
            changes = [self._compression.compress(p - start) for p, start in zip(parameters, before)]
            sums = grouped_allreduce_([change for change, _ in changes], name="adasum", op=Adasum)
            for p, start, change, (_, context) in zip(parameters, before, sums, changes):
                p.copy_(start + self._compression.decompress(change, context))
        return loss
