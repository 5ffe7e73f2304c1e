"""Training that goes on without a lost rank, and takes in the process that replaces it: the names of horovod.torch.elastic.

    hvd.init()
    state = hvd.elastic.TorchState(model, optimizer, batch=0)

    @hvd.elastic.run
    def train(state):
        while state.batch < batches:
            ...
            state.batch += 1
            state.commit()

    train(state)

Start it with `unisono run -n 2:4 --max-restarts 10 -- python train.py` in place of `horovodrun -np 4 --min-np 2 …`.
"""

import functools

from .._requests import HorovodInternalError, InvalidCall
from . import _world
from .sampler import ElasticSampler
from .state import HostsUpdatedInterrupt, ObjectState, State, TorchState

__all__ = ["ElasticSampler", "HorovodInternalError", "HostsUpdatedInterrupt", "ObjectState", "State", "TorchState", "run"]


def run(func):
    """A decorator: func(state, …) is called again, after state.sync(), whenever the members of the job have changed, and its result is returned.

    If a rank was lost (HorovodInternalError), the others go back to what they committed last, and go on without it. If a process waits to be taken in
    (HostsUpdatedInterrupt of state.commit), they take it in, and nothing goes back. Either way Horovod's groups are formed anew, with other ranks and
    sizes; process sets have to be added again, by a callback of state.register_reset_callbacks. All ranks call it, and before it a process that may
    be replaced makes no call of Horovod but init.

    Raises HorovodInternalError where all members live: the calls did not fit together, which another try would not mend. RuntimeError where hvd.init has found
    torch.distributed initialized by the program, whose group cannot change.
    """

    @functools.wraps(func)
    def elastic(state, *args, **kwargs):
        _world.join()
        skip_sync = False
        while True:
            error = None
            try:
                if not skip_sync:
                    state.sync()
                return func(state, *args, **kwargs)
            except InvalidCall:
                raise
            except HorovodInternalError as failed:
                error, skip_sync = failed, False
            except HostsUpdatedInterrupt as changed:
                skip_sync = changed.skip_sync
            if error is not None:
                state.restore()
            _world.form_again(error)
            state.on_reset()

    return elastic
