#include "base/variables.h"

#include <algorithm>

namespace unisono::base {
namespace {

using Value = Variable::Value;

constexpr std::array table = {
    // The ten that most users need, in the order of docs/guide/environment.md.
    Variable{"UNISONO_BACKEND", "the backend, where the program asks for `auto`", Value::backend},
    Variable{
        "UNISONO_TIMEOUT",
        "seconds: the deadline of every call, where the program leaves `InitOptions::timeout` as it is. It also limits how long `initialize` waits "
        "for the other ranks (120 s where it is unset)",
        Value::seconds},
    Variable{
        "UNISONO_LOG",
        "`debug`, `info`, `warning` (the default), `error` or `off`: the least severe messages that are written to standard error. `debug` shows "
        "the decisions of each rank when a job or a group begins: where the ranks met, the address, the engine, the schedule, the group",
        Value::word,
        {"debug", "info", "warning", "error", "off"}},
    Variable{"UNISONO_TOKEN",
             "the job's secret between hosts: the same random text on every rank, or `none` to go without. Ranks of one host need none, unless they "
             "meet at an address that is not loopback",
             Value::secret},
    Variable{"UNISONO_TOKEN_FILE",
             "a file that holds the secret, where `UNISONO_TOKEN` is unset; it must be yours and open to nobody else (`chmod 600`)", Value::path},
    Variable{"UNISONO_INTERFACE",
             "which network the ranks of several hosts use: names of interfaces, addresses or networks, separated by commas; `^` in front means all "
             "but these"},
    Variable{
        "UNISONO_TLS",
        "`on`, `required` or `off` (the default): whether TCP connections of stores, launchers and ranks are encrypted (TLS 1.3), the same on all "
        "ranks. `required` also refuses what libraries of others would send unencrypted between hosts",
        Value::word,
        {"on", "required", "off"}},
    Variable{"UNISONO_CHECK",
             "`nan` or `finite`: a rank looks at the numbers that it is about to send, and a NaN, with `finite` an infinity as well, is an "
             "`InvalidArgument` on that rank, before anything is sent; each rank for itself. Anything else is an `InvalidArgument`, too",
             Value::word,
             {"nan", "finite"}},
    Variable{
        "UNISONO_RECORD_DIR",
        "a folder, made where it is missing, into which a rank writes the record of its last calls when its group fails, at a `Mismatch`, and at "
        "SIGUSR2; `unisono run` writes those of ranks that were killed. `unisono status --from` shows them",
        Value::path},
    Variable{"UNISONO_TRACE_DIR",
             "a folder, made where it is missing, into which each rank writes all its calls, as `unisono run --trace` sets it; `unisono trace` shows "
             "them",
             Value::path},
    // The others.
    Variable{"UNISONO_MPI",
             "`openmpi` or `mpich`: which MPI backend `mpi` uses, and `unisono run` serves, where neither the program nor its launcher has decided",
             Value::word,
             {"openmpi", "mpich"}},
    Variable{"UNISONO_PICKLE",
             "`on` (the default) or `off`: whether objects of Python travel, which pickle writes and reads. With `off` their calls are an "
             "`InvalidArgument` on all ranks, and only data travels: buffers, numbers, `broadcast_any`, and objects of C++",
             Value::word,
             {"on", "off"}},
    Variable{"UNISONO_TLS_CERT",
             "a file with this process's certificate (PEM), and those between it and the authority. Without certificates the key of TLS is derived "
             "from the job's secret",
             Value::path},
    Variable{"UNISONO_TLS_KEY", "the file of its key, without a password; it must be yours and open to nobody else (`chmod 600`)", Value::path},
    Variable{"UNISONO_TLS_CA",
             "a file with the certificates of the authorities by which the other ranks' certificates are signed; no others are trusted", Value::path},
    Variable{"UNISONO_ETCD_PASSWORD_FILE",
             "a file that holds the password of the user that an `etcd://` URL names; it must be yours and open to nobody else (`chmod 600`). The "
             "password needs `etcds://` or a loopback address",
             Value::path},
    Variable{"UNISONO_ETCD_CACERT",
             "for `etcds://`: a file with the certificates of the authorities by which etcd's is signed (PEM), instead of the system's", Value::path},
    Variable{"UNISONO_ETCD_CERT", "for `etcds://`: a file with the certificate that this process shows etcd, where etcd asks for one", Value::path},
    Variable{"UNISONO_ETCD_KEY", "the file of its key, without a password; it must be yours and open to nobody else (`chmod 600`)", Value::path},
    Variable{
        "UNISONO_PLUGIN_PATH",
        "folders, as absolute paths separated by colons, in which `libunisono_<name>.so` of any name is looked for before those of ours with the "
        "library itself; only where others cannot write",
        Value::folders},
    Variable{"UNISONO_NCCL_LIBRARY",
             "the absolute path of `libnccl.so.2`, where the dynamic linker does not find it; only of a file that others cannot change", Value::file},
    Variable{"UNISONO_CUDART_LIBRARY", "the same of `libcudart.so`", Value::file},
    Variable{"UNISONO_UCX_LIBRARY", "the same of `libucp.so.0`, which brings the rest of UCX with it", Value::file},
    Variable{
        "UNISONO_COMPARE",
        "`shapes`: the shapes of tensors are compared between the ranks as well as their number of elements; the same on all ranks. Anything else "
        "is an `InvalidArgument`",
        Value::word,
        {"shapes"}},
    Variable{
        "UNISONO_SCHEDULE",
        "`all_reduce=shares,broadcast=exchange`: algorithms that replace the choice of the model between hosts and on engines that compose, wherever "
        "they may be used; `unisono info --schedules` shows the table. All ranks need the same value: `initialize` throws `InvalidArgument` on all "
        "of them otherwise"},
    Variable{
        "UNISONO_NETWORK",
        "`LATENCY,GAP,BYTE`, for instance `20,3,0.35`: the parameters by which schedules between hosts are chosen, in µs, µs for each further "
        "message, and ns for each byte, instead of those that a group measures before its first large call; a fourth figure says how many ranks "
        "there are for each processor. `assumed` takes the defaults. `unisono info --schedules` shows the choice for them, and `UNISONO_LOG=debug` "
        "what a group has measured. All ranks need the same value: `initialize` throws `InvalidArgument` on all of them otherwise"},
    Variable{
        "UNISONO_MAX_EAGER_CONNECTIONS",
        "a whole number (64): where some rank has more peers on other hosts, ranks connect with each other when they first need to, and with their "
        "neighbours in a tree before that; `0` does so in every job on several hosts. All ranks need the same value: `initialize` throws "
        "`InvalidArgument` on all of them otherwise"},
    Variable{
        "UNISONO_SINGLE_COPY",
        "`off`, or a whole number of KiB: from so large a message on, the receiver reads the sender's memory where it lies, instead of where a rule "
        "says so. The sender's value holds, and `off` on either side is `off` for both"},
    Variable{"UNISONO_INSTRUCTION_SET",
             "the best instruction set of x86-64 that the reductions and copies use: `SCALAR` (none beyond the processor's base), `SSE4`, `AVX2`, "
             "`AVX3` (AVX-512); where it is unset, the best that the processor has. The results are the same bits with each",
             Value::word,
             {"SCALAR", "SSE4", "AVX2", "AVX3"}},
    Variable{"UNISONO_STAND_IN",
             "`gloo`: in Python, programs that name gloo get unisono on the cpu; the same on all ranks. Anything else is an error of `import torch`",
             Value::word,
             {"gloo"}},
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
    RankVariables{{"RANK", "WORLD_SIZE"}, "this rank and how many there are"},
    RankVariables{{"LOCAL_RANK", "LOCAL_WORLD_SIZE"}, "the same on this host"},
    RankVariables{{"GROUP_RANK", "GROUP_WORLD_SIZE"}, "this host and how many there are"},
    RankVariables{{"MASTER_ADDR", "MASTER_PORT"},
                  "an address of host 0 (on one host: loopback) with a port that is kept free there, for programs of other libraries; unisono's own "
                  "processes do not use it"},
    RankVariables{{"OMP_NUM_THREADS"}, "its share of the cores, only where it is unset; said with `UNISONO_LOG=info`"},
    RankVariables{{"UNISONO_TERMINAL"},
                  "1 where the rank's output ends on a terminal, through the launcher, so that a progress bar would be seen; else 0"},
    RankVariables{{"PYTHONUNBUFFERED", "LD_PRELOAD", "ASAN_OPTIONS", "UNISONO_OUTPUT_PIPE"},
                  "where the rank writes to a pipe: its lines appear when they end"},
    RankVariables{{"PMI_FD", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
                  "with backend `mpi` only: what MPICH asks of its launcher"},
    RankVariables{{"PMIX_…", "JSM_JSRUN_PORT"},
                  "with backend `mpi` only: what Open MPI asks of its launcher; served by `unisono-pmix`, a process beside it"},
    RankVariables{{"UNISONO_LAUNCHER_FD", "UNISONO_JOB_ID", "UNISONO_ATTEMPT"},
                  "between the launcher and the library: the way to the job's store, the job's name, and how often it was restarted"},
    RankVariables{{"UNISONO_NEWCOMER"},
                  "with MIN:MAX only: in a process that was started while the job ran, how many have been in its place; `RANK` is that of the place"},
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
