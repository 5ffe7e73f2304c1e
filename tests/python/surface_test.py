"""The names of the package: what C++ has, Python has; each says what it does, and the stubs know it."""

import ast
import importlib.resources
import inspect
import unittest

import unisono

NAMES = """
InitOptions:Context initialize finalize Context is_initialized rank world_size local_rank nproc_per_node nnodes node_rank dist_info hostname device
backend model_name available_backends is_backend_available sync set_local_rank show_config Launcher infer_launcher
GlobalRank ProcessGroup world new_group split_group local_group shrink_group
ElasticState run_elastic grow_group newcomers_waiting
Device is_shared shared_array ReduceOp parse_reduce_op premul_sum
all_reduce all_reduce_async reduce reduce_async broadcast broadcast_async all_gather all_gather_async gather gather_async scatter scatter_async
reduce_scatter reduce_scatter_async all_to_all all_to_all_async scan scan_async exscan exscan_async mean
all_gather_v all_gather_v_async gather_v gather_v_async scatter_v scatter_v_async reduce_scatter_v reduce_scatter_v_async all_to_all_v all_to_all_v_async
all_gather_list gather_list scatter_list barrier barrier_async monitored_barrier synchronize
broadcast_multigpu broadcast_multigpu_async all_reduce_multigpu all_reduce_multigpu_async reduce_multigpu reduce_multigpu_async
all_gather_multigpu all_gather_multigpu_async reduce_scatter_multigpu reduce_scatter_multigpu_async
Work wait_all wait_any send isend recv irecv any_source any_tag send_recv batch P2POp probe try_probe MessageInfo
all_gather_object gather_object broadcast_object broadcast_object_list scatter_object send_object recv_object broadcast_any set_object_limits
average_across_processes all_reduce_dict all_reduce_params sync_random_seed collect_results
is_main_process is_master_process one_rank_only OneRankFirst gpu_mem_usage gpu_mem_peak
spawn launch Parallel run_threads DistributedSampler DistributedProxySampler
Store TcpStore FileStore MemoryStore PrefixStore
Error InvalidArgument NotInitialized AlreadyInitialized NotMember Unsupported BackendUnavailable Mismatch Timeout PeerFailed ProtocolError LaunchFailed
""".replace("InitOptions:", "").split()


class Surface(unittest.TestCase):
    def test_names(self):
        self.assertEqual([name for name in NAMES if not hasattr(unisono, name)], [])
        self.assertEqual([name for name in NAMES if name not in unisono.__all__], [])

    def test_documentation(self):
        silent = [name for name in unisono.__all__ if callable(getattr(unisono, name)) and not inspect.getdoc(getattr(unisono, name))]
        self.assertEqual(silent, [])

    def test_stubs(self):
        stub = ast.parse((importlib.resources.files("unisono") / "_core.pyi").read_text())
        known = {node.name for node in stub.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        known |= {node.target.id for node in stub.body if isinstance(node, ast.AnnAssign)}
        own = {name for name in NAMES if getattr(getattr(unisono, name), "__module__", None) == "unisono._core"}
        self.assertEqual(own - known, set())
        self.assertTrue((importlib.resources.files("unisono") / "py.typed").is_file())

    def test_errors(self):
        for name, base in {"InvalidArgument": ValueError, "Timeout": TimeoutError, "PeerFailed": ConnectionError, "Unsupported": NotImplementedError,
                           "LaunchFailed": ChildProcessError, "Mismatch": RuntimeError}.items():
            self.assertTrue(issubclass(getattr(unisono, name), (unisono.Error, base)))
            self.assertEqual(getattr(unisono, name).__module__, "unisono")


if __name__ == "__main__":
    unittest.main()
