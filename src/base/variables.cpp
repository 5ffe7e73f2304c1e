#include "base/variables.h"

#include <algorithm>

namespace unisono::base {
namespace {

using Value = Variable::Value;

constexpr std::array table = {
    // The ten that most users need, in the order of docs/guide/environment.md.
    Variable{"UNISONO_BACKEND", "the backend, if the program asks for `auto`", Value::backend},
    Variable{"UNISONO_TIMEOUT",
             "the deadline of every call in seconds, if the program leaves `InitOptions::timeout` as it is (1800). `initialize` waits as long for "
             "the other ranks (120 if this is unset)",
             Value::seconds},
    Variable{"UNISONO_LOG",
             "`debug`, `info`, `warning` (the default), `error` or `off`: the least severe messages on standard error. `debug` shows what each rank "
             "decides when a job or a group begins",
             Value::word,
             {"debug", "info", "warning", "error", "off"}},
    Variable{"UNISONO_TOKEN",
             "the job's secret between hosts: the same random text on every rank, or `none` to go without. Ranks of one host that meet on loopback "
             "need none",
             Value::secret},
    Variable{"UNISONO_TOKEN_FILE",
             "a file that holds the secret, if `UNISONO_TOKEN` is unset; it must be yours, and only you may have rights to it (`chmod 600`)",
             Value::path},
    Variable{"UNISONO_INTERFACE",
             "the network between hosts: names of interfaces, addresses or networks, separated by commas; `^` in front means all except these"},
    Variable{"UNISONO_TLS",
             "`on`, `required` or `off` (the default): whether the TCP connections of stores, launchers and ranks are encrypted (TLS 1.3); the same "
             "on all ranks",
             Value::word,
             {"on", "required", "off"}},
    Variable{"UNISONO_CHECK",
             "`nan` or `finite`: a rank that is about to send a NaN, or with `finite` an infinity, gets an `InvalidArgument` and sends nothing",
             Value::word,
             {"nan", "finite"}},
    Variable{
        "UNISONO_RECORD_DIR",
        "a folder into which ranks write the record of their last calls after a failure, a `Mismatch` or SIGUSR2; `unisono status --from` shows them",
        Value::path},
    Variable{"UNISONO_TRACE_DIR", "a folder into which each rank writes all its calls, as with `unisono run --trace`; `unisono trace` shows them",
             Value::path},
    // The others.
    Variable{"UNISONO_MPI",
             "`openmpi` or `mpich`: the MPI that backend `mpi` uses and `unisono run` serves, if neither the program nor its launcher has decided",
             Value::word,
             {"openmpi", "mpich"}},
    Variable{"UNISONO_PICKLE",
             "`on` (the default) or `off`: whether Python objects travel as pickles. With `off`, calls with such objects are an `InvalidArgument` on "
             "all ranks",
             Value::word,
             {"on", "off"}},
    Variable{"UNISONO_TLS_CERT",
             "a file with this process's certificate (PEM), and those between it and the authority. Without certificates the job's secret gives the "
             "key of TLS",
             Value::path},
    Variable{"UNISONO_TLS_KEY", "the file of its key, without a password; it must be yours, and only you may have rights to it (`chmod 600`)",
             Value::path},
    Variable{"UNISONO_TLS_CA", "a file with the certificates of the authorities that sign the other ranks' certificates; no others are trusted",
             Value::path},
    Variable{"UNISONO_ETCD_PASSWORD_FILE",
             "a file with the password of the user in an `etcd://` URL; only you may have rights to it (`chmod 600`). It needs `etcds://` or a "
             "loopback address",
             Value::path},
    Variable{"UNISONO_ETCD_CACERT", "for `etcds://`: a file with the certificates of the authorities that sign etcd's (PEM), instead of the system's",
             Value::path},
    Variable{"UNISONO_ETCD_CERT", "for `etcds://`: a file with the certificate that this process shows etcd, if etcd asks for one", Value::path},
    Variable{"UNISONO_ETCD_KEY",
             "the file of that certificate's key, without a password; it must be yours, and only you may have rights to it (`chmod 600`)",
             Value::path},
    Variable{"UNISONO_PLUGIN_PATH",
             "folders with plug-ins (`libunisono_<name>.so`), as absolute paths separated by colons, searched before unisono's own folder; others "
             "must not be able to write there",
             Value::folders},
    Variable{"UNISONO_NCCL_LIBRARY", "the absolute path of `libnccl.so.2`, if the dynamic linker does not find it; a file that others cannot change",
             Value::file},
    Variable{"UNISONO_CUDART_LIBRARY", "the same for `libcudart.so`", Value::file},
    Variable{"UNISONO_UCX_LIBRARY", "the same for `libucp.so.0`, which loads the rest of UCX", Value::file},
    Variable{"UNISONO_COMPARE",
             "`shapes`: ranks compare the shapes of tensors as well as their number of elements; the same on all ranks",
             Value::word,
             {"shapes"}},
    Variable{"UNISONO_SCHEDULE",
             "algorithms in place of those that the library chooses, such as `all_reduce=shares,broadcast=exchange`; the same on all ranks"},
    Variable{"UNISONO_NETWORK",
             "`LATENCY,GAP,BYTE`, such as `20,3,0.35`: the parameters by which algorithms between hosts are chosen, in place of measured ones; the "
             "same on all ranks"},
    Variable{"UNISONO_MAX_EAGER_CONNECTIONS",
             "a whole number (64): if a rank has more peers than this on other hosts, ranks connect when they first need to; the same on all ranks"},
    Variable{"UNISONO_SINGLE_COPY",
             "`off`, or a whole number of KiB: from this size on the receiver of a message on the same host reads the sender's memory directly"},
    Variable{"UNISONO_INSTRUCTION_SET",
             "the best x86-64 instruction set for reductions and copies: `SCALAR`, `SSE4`, `AVX2` or `AVX3` (AVX-512); the processor's best if it is "
             "unset",
             Value::word,
             {"SCALAR", "SSE4", "AVX2", "AVX3"}},
    Variable{"UNISONO_STAND_IN", "`gloo`: Python programs that name gloo get unisono on the cpu; the same on all ranks", Value::word, {"gloo"}},
    // The launcher sets these for its ranks.
    Variable{"UNISONO_LAUNCHER_FD"},
    Variable{"UNISONO_RECORD_FD", {}, Value::path},
    Variable{"UNISONO_JOB_ID"},
    Variable{"UNISONO_ATTEMPT"},
    Variable{"UNISONO_NEWCOMER"},
    Variable{"UNISONO_OUTPUT_PIPE", {}, Value::path},
    Variable{"UNISONO_TERMINAL", {}, Value::word, {"0", "1"}},
};

constexpr std::array table_of_ranks = {
    RankVariables{{"RANK", "WORLD_SIZE"}, "this rank, and the number of ranks"},
    RankVariables{{"LOCAL_RANK", "LOCAL_WORLD_SIZE"}, "the same on this host"},
    RankVariables{{"GROUP_RANK", "GROUP_WORLD_SIZE"}, "this host, and the number of hosts"},
    RankVariables{
        {"MASTER_ADDR", "MASTER_PORT"},
        "an address of host 0 (on one host loopback), and a port that is kept free there for programs of other libraries; unisono does not use it"},
    RankVariables{{"OMP_NUM_THREADS"}, "the rank's share of the cores, if this is unset"},
    RankVariables{{"UNISONO_TERMINAL"}, "1 if the rank's output ends on a terminal, so that a progress bar would be seen; otherwise 0"},
    RankVariables{{"PYTHONUNBUFFERED", "LD_PRELOAD", "ASAN_OPTIONS", "UNISONO_OUTPUT_PIPE"},
                  "if the rank writes to a pipe: its lines appear when they end"},
    RankVariables{{"PMI_FD", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
                  "with backend `mpi` only: what MPICH expects of its launcher"},
    RankVariables{{"PMIX_…", "JSM_JSRUN_PORT"},
                  "with backend `mpi` only: what Open MPI expects of its launcher; the process `unisono-pmix` serves it"},
    RankVariables{{"UNISONO_LAUNCHER_FD", "UNISONO_JOB_ID", "UNISONO_ATTEMPT"},
                  "for the library: the way to the job's store, the job's name, and the number of restarts"},
    RankVariables{
        {"UNISONO_NEWCOMER"},
        "with MIN:MAX only, in a process that was started while the job ran: how many processes have been in its place. `RANK` is that of the place"},
    RankVariables{{"UNISONO_RECORD_FD"}, "the memory in which the rank records its calls, which the launcher keeps"},
};

}  // namespace

std::span<const Variable> variables() { return table; }
std::span<const RankVariables> variables_of_ranks() { return table_of_ranks; }

const Variable* find_variable(std::string_view name) {
  const auto found = std::ranges::find(table, name, &Variable::name);
  return found == table.end() ? nullptr : &*found;
}

bool is_for_own_rights(const Variable& variable) {
  constexpr std::array kinds = {Value::path, Value::file, Value::folders, Value::secret};
  return std::ranges::find(kinds, variable.value) != kinds.end();
}

}  // namespace unisono::base
