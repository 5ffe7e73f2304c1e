"""The body of a program of two ranks, run by mmengine_test between its BEGIN and END: results in files, with which somebody interferes."""

import pickle, stat
from unisono.mmengine import _objects
folder = os.path.join(os.getcwd(), "shared")
class Attack:
    def __reduce__(self):
        return open, (os.path.join(os.path.dirname(folder), "owned"), "w")
def replace(path):
    with open(path, "wb") as file:
        file.write(pickle.dumps(Attack()))
def link(path):
    os.rename(path, path + ".moved")
    os.symlink(path + ".moved", path)
def give_away(path):
    os.chown(path, 12345, -1)
write = _objects._write
def changed(path, part):
    digest = write(path, part)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    if rank == 1:
        attack(path)
    return digest
_objects._write = changed
attacks = {replace: (OSError, "is not what rank 1 has written"), link: (OSError, "symbolic links"),
           (lambda path: os.chmod(path, 0o622)): (PermissionError, "can be written by one")}
if os.geteuid() == 0:
    attacks[give_away] = (PermissionError, "belongs to another user")
for attack, (kind, text) in attacks.items():
    error = error_of(dist.collect_results, [rank], 2, "cpu", folder)
    assert isinstance(error, kind) and text in str(error), error
    assert not os.path.exists(os.path.join(os.path.dirname(folder), "owned"))
attack = lambda path: None
assert dist.collect_results([rank], 2, "cpu", folder) == ([0, 1] if rank == 0 else None)
# A name that somebody has guessed: what lies there is neither followed nor written to.
_objects.secrets.token_bytes = bytes
victim = os.path.join(os.path.dirname(folder), "victim")
if rank == 0:
    open(victim, "w").write("data")
    os.symlink(victim, os.path.join(folder, ".unisono-" + 32 * "0" + "-part-1"))
dist.barrier()
assert isinstance(error_of(dist.collect_results, [rank], 2, "cpu", folder), FileExistsError)
assert open(victim).read() == "data"
dist.barrier()
assert ".unisono-" + 32 * "0" + "-part-1" in os.listdir(folder)
