"""The names of the package: what C++ has, Python has; each says what it does, and the stubs know it."""

import ast
import importlib.resources
import inspect
import re
import tempfile
import unittest
from pathlib import Path

import headers
import unisono

SOURCE = Path(__file__).resolve().parents[2]

# What C++ is given as a struct of options, Python is given as keywords.
KEYWORDS = {
    "CallOptions": "all_reduce", "CollectOptions": "collect_results", "GridOptions": "Grid", "GroupOptions": "new_group", "LoaderPlace": "plan_loader",
    "LoaderRequest": "plan_loader", "MembershipOptions": "Membership", "OneRankFirstOptions": "OneRankFirst", "OneRankOnlyOptions": "one_rank_only",
    "ParallelOptions": "Parallel", "ParamsOptions": "all_reduce_params", "ProxySamplerOptions": "DistributedProxySampler",
    "SamplerOptions": "DistributedSampler", "SpawnOptions": "spawn", "TcpStoreOptions": "TcpStore",
}
SPECIAL = {"begin": "__iter__", "end": "__iter__", "size": "__len__"}  # of containers

NAMES = """
Context initialize finalize Context is_initialized rank world_size local_rank nproc_per_node nnodes node_rank dist_info hostname device
backend model_name available_backends is_backend_available sync set_local_rank show_config Launcher infer_launcher
is_torchelastic_launched launcher_local_rank register_rendezvous_handler register_context_probe InitOptions Rendezvous Membership record CallRecord
GlobalRank ProcessGroup world new_group split_group local_group shrink_group Grid
ElasticState run_elastic grow_group newcomers_waiting
Device is_shared shared_array ReduceOp parse_reduce_op premul_sum PremulSum WithPlace
all_reduce all_reduce_async reduce reduce_async broadcast broadcast_async all_gather all_gather_async gather gather_async scatter scatter_async
reduce_scatter reduce_scatter_async all_to_all all_to_all_async scan scan_async exscan exscan_async mean
all_gather_v all_gather_v_async gather_v gather_v_async scatter_v scatter_v_async reduce_scatter_v reduce_scatter_v_async all_to_all_v all_to_all_v_async
all_gather_list gather_list scatter_list barrier barrier_async monitored_barrier synchronize
broadcast_multigpu broadcast_multigpu_async all_reduce_multigpu all_reduce_multigpu_async reduce_multigpu reduce_multigpu_async
all_gather_multigpu all_gather_multigpu_async reduce_scatter_multigpu reduce_scatter_multigpu_async
Work wait_all wait_any send isend recv irecv any_source any_tag send_recv batch P2POp probe try_probe MessageInfo recv_resized recv_array
all_gather_object gather_object broadcast_object broadcast_object_list scatter_object send_object recv_object broadcast_any set_object_limits
average_across_processes all_reduce_dict all_reduce_params sync_random_seed collect_results
Controller Worker Handle Handles Future Futures remote actor everyone worker_number RemoteError Cancelled
is_main_process is_master_process one_rank_only OneRankFirst gpu_mem_usage gpu_mem_peak
spawn launch Parallel run_threads DistributedSampler DistributedProxySampler plan_loader LoaderPlan
Store TcpStore FileStore MemoryStore PrefixStore EtcdStore
Error InvalidArgument NotInitialized AlreadyInitialized NotMember Unsupported BackendUnavailable Mismatch Timeout PeerFailed ProtocolError LaunchFailed
""".split()


HEADER = """
#define HIDDEN(x) int x();
namespace unisono {
class Declared;
enum class Kind { one, two };  // int commented();
struct Options { int first = 0, second = {}; std::shared_ptr<Declared> store; };
class UNISONO_API Base : public Other {
 public:
  enum class Inner { one };
  explicit Base(int x) : x_{x} {}
  ~Base() override;
  template <class T>
  requires(sizeof(T) > 1) int go(const std::function<void(int)>& f = {}) const { return f(1); }
  [[nodiscard]] virtual int size() const = 0;
  bool operator==(const Base&) const = default;
 private:
  int secret();
  int x_;
};
template <class T> [[nodiscard]] std::vector<T> value(T x = {}, int y = f(1)) { return made<T>(x); }
UNISONO_API int made(
    std::map<int, std::vector<int>> x);
template <class B>
requires Buffer<B> && (!Element<B>) void written(B&& x) noexcept;
inline constexpr int limit{3};
using Handler = std::function<int(int)>;
template <class T> concept taken = requires(T x) { x.hidden(); };
namespace detail { int inside(); }
}
namespace unisono::detail { int deeper(); }
"""


def stub():
    return ast.parse((importlib.resources.files("unisono") / "_core.pyi").read_text())


def parameters_of(name):
    """The names of the parameters of a function or class of the package."""
    known = {node.name: node for node in stub().body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    node = known.get(name)
    if isinstance(node, ast.ClassDef):
        node = next(each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__")
    if node is None or getattr(getattr(unisono, name), "__module__", "") != "unisono._core":
        return set(inspect.signature(getattr(unisono, name)).parameters)
    return {each.arg for each in (*node.args.args, *node.args.kwonlyargs)}


def in_python(name):
    """Whether the package has what C++ calls by this name."""
    owner, _, member = name.partition(".")
    if owner in KEYWORDS:
        return not member or member == "where" or member in parameters_of(KEYWORDS[owner])
    if member in SPECIAL and hasattr(getattr(unisono, owner, None), SPECIAL[member]):
        return True
    found = unisono
    for part in name.split("."):
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return True


def only_in_cpp():
    """What docs/guide/python.md lists as being of C++ alone: names, and headers."""
    text = (SOURCE / "docs" / "guide" / "python.md").read_text().split("## What only C++ has\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


class Surface(unittest.TestCase):
    def test_what_cpp_has_python_has_or_the_document_says_why_not(self):
        public, listed = headers.public_names(SOURCE / "include" / "unisono"), set(only_in_cpp())
        self.assertGreater(len(public), 400)
        missing = [f"{name} ({header})" for name, header in public.items()
                   if not in_python(name) and not {name, name.partition(".")[0], header} & listed]
        self.assertEqual(missing, [])

    def test_the_document_lists_nothing_that_python_has_or_cpp_has_not(self):
        public = headers.public_names(SOURCE / "include" / "unisono")
        for name in only_in_cpp():
            of_it = [each for each, header in public.items() if name in (each, each.partition(".")[0], header)]
            self.assertTrue(of_it or name == "unisono/torch.h", name)
            self.assertFalse(of_it and all(map(in_python, of_it)), name)

    def test_names_are_read_out_of_headers(self):
        with tempfile.NamedTemporaryFile("w", suffix=".h") as header:
            header.write(HEADER)
            header.flush()
            self.assertEqual(headers.names_of(header.name), {
                "Kind", "Options", "Options.first", "Options.second", "Options.store", "Base", "Base.Inner", "Base.go", "Base.size", "value", "made",
                "written", "limit", "Handler", "taken"})

    def test_every_name_is_there_and_public(self):
        self.assertEqual([name for name in NAMES if not hasattr(unisono, name)], [])
        self.assertEqual([name for name in NAMES if name not in unisono.__all__], [])

    def test_every_function_is_documented(self):
        silent = [name for name in unisono.__all__ if callable(getattr(unisono, name)) and not inspect.getdoc(getattr(unisono, name))]
        self.assertEqual(silent, [])

    def test_the_stubs_know_every_name(self):
        body = stub().body
        known = {node.name for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        known |= {node.target.id for node in body if isinstance(node, ast.AnnAssign)}
        own = {name for name in NAMES if getattr(getattr(unisono, name), "__module__", None) == "unisono._core"}
        self.assertEqual(own - known, set())
        self.assertTrue((importlib.resources.files("unisono") / "py.typed").is_file())

    def test_every_error_is_one_of_pythons_as_well(self):
        for name, base in {"InvalidArgument": ValueError, "Timeout": TimeoutError, "PeerFailed": ConnectionError, "Unsupported": NotImplementedError,
                           "LaunchFailed": ChildProcessError, "Mismatch": RuntimeError}.items():
            self.assertTrue(issubclass(getattr(unisono, name), (unisono.Error, base)))
            self.assertEqual(getattr(unisono, name).__module__, "unisono")


if __name__ == "__main__":
    unittest.main()
