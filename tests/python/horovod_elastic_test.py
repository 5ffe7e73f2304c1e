"""unisono.horovod.torch.elastic: jobs whose ranks end themselves, the states and the sampler; and unisono.horovod.run. Starts its own jobs."""

import inspect
import os
import re
import shlex
import sys
import textwrap
import unittest
import unittest.mock

import torch
from covers import covers
from jobs import UNISONO, JobTest

import unisono
import unisono.horovod
import unisono.horovod.torch as hvd

# Every rank has the same data, so that the weights after so many steps are known, however many ranks there were.
TRAINING = """
import os, signal, sys, torch
import unisono.horovod.torch as hvd
torch.set_num_threads(1)
newcomer = int(os.environ.get("UNISONO_NEWCOMER") or 0)
place = int(os.environ["RANK"])

def network(seed):
    torch.manual_seed(seed)
    model = torch.nn.Linear(3, 2)
    return model, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

def gradients(model, optimizer, batch):
    x = torch.randn(8, 3, generator=torch.Generator().manual_seed(batch))
    optimizer.zero_grad()
    (model(x) - x.sum(1, keepdim=True)).square().mean().backward()

def weights_after(steps, seed):
    model, optimizer = network(seed)
    for batch in range(steps):
        gradients(model, optimizer, batch)
        optimizer.step()
    return model.weight.detach()

def end_here(moment, batch):
    if moment == MOMENT and batch == 12 and place in VICTIMS and not newcomer:
        os.kill(os.getpid(), signal.SIGKILL)

hvd.init()
model, optimizer = network(place)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
sampler = hvd.elastic.ElasticSampler(range(1000), seed=3)
state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, batch=0, begun=0, sizes=[])
seen = []
state.register_reset_callbacks([lambda: seen.append(hvd.size())])

@hvd.elastic.run
def train(state):
    assert state.begun == state.batch, "what was not committed is not there"
    while state.batch < 40 or state.sizes[-1] < SIZE:
        state.begun += 1
        if state.sizes[-1:] != [hvd.size()]:
            state.sizes.append(hvd.size())
        end_here("before", state.batch)
        gradients(model, optimizer, state.batch)
        end_here("behind", state.batch)
        optimizer.step()
        sampler.record_batch(state.batch, 2)
        state.batch += 1
        state.commit()
    return "done"

assert train(state) == "done"
torch.testing.assert_close(model.weight.detach(), weights_after(state.batch, LOWEST))
everybody = hvd.allgather_object((state.batch, state.sizes, sampler.state_dict(), model.weight.tolist()))
assert all(each == everybody[0] for each in everybody), everybody
print(f"place {place}.{newcomer} as {hvd.rank()} of {hvd.size()}: {state.sizes}, reset {seen}", flush=True)
hvd.shutdown()
"""


class Elastic(JobTest):
    def job(self, ranks, restarts, size, victims, moment="before", lowest=0, expect=0, begin=""):
        names = begin + f"SIZE, VICTIMS, MOMENT, LOWEST = {size}, {set(victims)}, {moment!r}, {lowest}\n"
        path = self.folder / "program.py"
        path.write_text(names + TRAINING)
        command = [UNISONO, "run", "-n", ranks, "--max-restarts", str(restarts), "--grace", "5", "--", sys.executable, str(path)]
        output = self.run_command(command, expect, timeout=240, UNISONO_TIMEOUT="60")
        return output, sorted(re.findall(r"place (\d+\.\d+) as (\d+) of (\d+): \[(.*?)\]", output))

    def test_a_lost_rank_is_replaced_and_all_have_the_weights_of_a_training_without_a_loss(self):
        output, reports = self.job("2:3", 4, 3, {1}, "behind")
        self.assertEqual([(place, size, sizes) for place, _, size, sizes in reports], [(f"{p}.{int(p == 1)}", "3", "3, 2, 3") for p in range(3)], output)

    def test_the_lowest_rank_may_be_lost(self):
        output, reports = self.job("2:3", 4, 3, {0})
        self.assertEqual([(place, size, sizes) for place, _, size, sizes in reports], [(f"{p}.{int(p == 0)}", "3", "3, 2, 3") for p in range(3)], output)

    def test_the_members_meet_in_a_store_of_their_own_where_the_launcher_has_none_for_this_pytorch(self):
        without = "from unisono.torch import _launcher_store\n_launcher_store.whole = lambda *place: None\n"
        output, reports = self.job("2:3", 4, 3, {0}, begin=without)
        self.assertEqual([(place, size) for place, _, size, _ in reports], [("0.1", "3"), ("1.0", "3"), ("2.0", "3")], output)

    def test_the_others_go_on_without_a_lost_rank(self):
        output, reports = self.job("1:2", 0, 1, {1}, "behind")
        self.assertEqual(reports, [("0.0", "0", "1", "2, 1")], output)

    def test_calls_that_do_not_fit_together_are_raised_again(self):
        path = self.folder / "program.py"
        path.write_text(textwrap.dedent("""
            import os, torch
            import unisono.horovod.torch as hvd
            hvd.init()
            state = hvd.elastic.TorchState(batch=0)
            @hvd.elastic.run
            def train(state):
                hvd.allreduce(torch.ones(2 + hvd.rank()), name="x")
            try:
                train(state)
            except hvd.HorovodInternalError as error:
                os.write(1, f"raised: {error}\\n".encode())
            hvd.shutdown()
            """))
        output = self.run_command([UNISONO, "run", "-n", "2", "--", sys.executable, str(path)], timeout=240)
        self.assertEqual(len(re.findall("raised: .*the ranks called different things", output)), 2, output)


class Alone(unittest.TestCase):
    def setUp(self):
        hvd.init()
        self.addCleanup(hvd.shutdown)

    def test_a_state_is_kept_and_put_back(self):
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        state = hvd.elastic.TorchState(model, optimizer, batch=3, seen=[1])
        first = model.weight.detach().clone()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        state.batch, state.model.bias.data[0] = 4, 7.0
        state.seen.append(2)  # within the object, too
        state.restore()
        self.assertEqual((state.batch, state.seen), (3, [1]))
        torch.testing.assert_close(model.weight.detach(), first)
        self.assertEqual(optimizer.state_dict()["state"], {})
        optimizer.step()
        state.batch = 5
        state.commit()
        state.batch = 6
        state.restore()
        self.assertEqual((state.batch, len(optimizer.state_dict()["state"])), (5, 2))
        other = torch.nn.Linear(2, 1)
        state.model = other  # another value is kept as well
        other.weight.data.zero_()
        state.restore()
        self.assertNotEqual(other.weight.abs().sum().item(), 0)
        state.sync()
        self.assertEqual(state.batch, 5)

    def test_a_state_of_the_programs_own_may_be_derived(self):
        told = []

        class Own(hvd.elastic.State):
            def save(self):
                told.append("save")

            def reset(self):
                told.append("reset")

        state = Own(lambda x: x, hvd.rank)
        state.register_reset_callbacks([lambda: told.append("called")])
        state.commit()
        state.on_reset()
        self.assertEqual(told, ["save", "reset", "called"])
        self.assertRaises(NotImplementedError, state.restore)
        objects = hvd.elastic.ObjectState(lambda x: {**x, "a": 9}, hvd.rank, a=1, b=2)
        objects.sync()
        self.assertEqual((objects.a, objects.b), (9, 2))

    def test_an_object_of_a_state_is_the_programs_own(self):
        optimizer = torch.optim.SGD(torch.nn.Linear(2, 1).parameters(), lr=1.0)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
        state = hvd.elastic.TorchState(optimizer=optimizer, scheduler=scheduler, seen=[1])
        self.assertIs(state.scheduler, scheduler)
        optimizer.step()
        state.scheduler.step()
        self.assertEqual(optimizer.param_groups[0]["lr"], 0.5)
        sent = [7]
        objects = hvd.elastic.ObjectState(lambda x: {"a": sent}, hvd.rank, a=[1])
        objects.sync()
        self.assertIs(objects.a, sent)
        objects.a.append(8)
        objects.restore()
        self.assertEqual(objects.a, [7])

    def test_the_handlers_of_states_are_known(self):
        registry = hvd.elastic.state.get_handler_registry()
        self.assertEqual([kind for kind, _ in registry], [torch.nn.Module, torch.optim.Optimizer, hvd.elastic.ElasticSampler])

    def test_the_sampler_divides_what_is_left(self):
        sampler = hvd.elastic.ElasticSampler(range(10), seed=5)
        whole = list(sampler)
        self.assertEqual((sorted(whole), len(sampler)), (list(range(10)), 10))
        sampler.record_batch(0, 4)
        kept = sampler.state_dict()
        self.assertEqual(kept, {"epoch": 0, "processed_num": 4})
        parts = []
        for place in range(4):
            with unittest.mock.patch.multiple("unisono.horovod.torch.elastic.sampler", rank=lambda: place, size=lambda: 4):
                sampler.load_state_dict(kept)
                parts.append(list(sampler))
        self.assertEqual(parts, [[whole[4], whole[8]], [whole[5], whole[9]], [whole[6], whole[4]], [whole[7], whole[5]]])
        sampler.set_epoch(1)
        self.assertEqual((len(sampler), sampler.processed_num), (10, 0))
        self.assertNotEqual(list(sampler), whole)
        sampler.record_batch(0, 10)
        sampler.reset()
        self.assertEqual((list(sampler), len(sampler)), ([], 0))
        ordered = hvd.elastic.ElasticSampler(range(3), shuffle=False)
        self.assertEqual(list(ordered), [0, 1, 2])


ARGUMENTS = (
    "func, args, kwargs, num_proc, min_num_proc, max_num_proc, slots, reset_limit, cooldown_range, hosts, hostfile, host_discovery_script, start_timeout, "
    "ssh_port, ssh_identity_file, disable_cache, output_filename, verbose, use_gloo, use_mpi, mpi_args, network_interface, network_interfaces, executable, np, "
    "min_np, max_np"
)


class Run(JobTest):
    def test_arguments_are_those_of_horovod_and_contradictions_are_refused(self):
        self.assertEqual(", ".join(inspect.signature(unisono.horovod.run).parameters), ARGUMENTS)
        for wrong in ({"hosts": "a", "hostfile": "b"}, {"use_gloo": True, "use_mpi": True}, {"num_proc": 0}, {"min_num_proc": 3, "max_num_proc": 2}):
            self.assertRaises(ValueError, unisono.horovod.run, print, **wrong)
        far = {"hosts": "a:2,b:2", "min_num_proc": 1}, {"hostfile": "none", "max_num_proc": 2}
        for missing in ({"slots": 2}, {"host_discovery_script": "x"}, {"network_interfaces": ["eth0"]}, *far):
            with unittest.mock.patch("unisono.horovod.FunctionJob", side_effect=AssertionError("started")):
                self.assertRaises(unisono.Unsupported, unisono.horovod.run, print, **missing)
        self.assertRaises(unisono.InvalidArgument, unisono.horovod.run, print, (sys._getframe(),))

    def test_the_key_of_ssh_may_lie_in_a_folder_with_a_space(self):
        with unittest.mock.patch("unisono.horovod.FunctionJob") as job:
            unisono.horovod.run(print, hosts="a:1,b:1", ssh_port=2222, ssh_identity_file="/home/my keys/o'ne")
        options = job.call_args.args[4]
        self.assertEqual(shlex.split(options[options.index("--ssh") + 1]), ["ssh", "-p", "2222", "-i", "/home/my keys/o'ne"])

    def test_results_come_back_in_rank_order_and_failures_with_their_text(self):
        path = self.folder / "program.py"
        path.write_text(textwrap.dedent("""
            import os, socket, torch, unisono.horovod, unisono.horovod.torch as hvd
            def work(factor, offset=0):
                hvd.init()
                return hvd.rank(), hvd.allreduce(torch.tensor([factor]), op=hvd.Sum).item() + offset
            def fails():
                hvd.init()
                if hvd.rank() == 1:
                    raise ValueError("bad data")
                hvd.allreduce(torch.ones(1))
            def is_lost():
                hvd.init()
                state = hvd.elastic.TorchState(batch=0)
                @hvd.elastic.run
                def train(state):
                    while state.batch < 10:
                        if state.batch == 4 and os.environ["RANK"] == "1":
                            os.kill(os.getpid(), 9)
                        hvd.allreduce(torch.ones(1))
                        state.batch += 1
                        state.commit()
                    return hvd.size()
                return train(state)
            if __name__ == "__main__":
                for hosts in ("localhost:2", f"{socket.gethostname()}:1,127.0.0.1:1"):  # the second by the way to other hosts
                    assert unisono.horovod.run(work, (5,), {"offset": 1}, num_proc=2, hosts=hosts) == [(0, 11), (1, 11)], hosts
                assert os.listdir(".") == ["program.py"]
                try:
                    unisono.horovod.run(fails, np=2)
                except RuntimeError as error:
                    assert "rank 1 ended" in str(error) and "ValueError: bad data" in str(error), error
                else:
                    raise AssertionError("it went well")
                assert unisono.horovod.run(is_lost, min_num_proc=1, max_num_proc=2, reset_limit=0) == [1]
                print("fine")
            """))
        output = self.run_command([sys.executable, str(path)], timeout=240)
        self.assertIn("fine\n", output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
