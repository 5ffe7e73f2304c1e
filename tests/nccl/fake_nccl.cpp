// The stand-in for NCCL.

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "fake_machine.h"

using namespace unisono::engines::nccl;
using namespace fake;

static thread_local int group_depth = 0;
static thread_local std::vector<Part> group_parts;

// The answer that a function was told to give, if it was.
static std::optional<Result> scripted(const char* function, Comm comm) {
  const auto rule = told(function, comm == nullptr ? -1 : comm->rank);
  if (!rule) return std::nullopt;
  if (!rule->questions) return static_cast<Result>(rule->code);
  comm->questions = *rule->questions;
  comm->background = static_cast<Result>(rule->code);
  return Result::in_progress;
}

FAKE_EXPORT Result ncclGetVersion(int* version) {
  *version = 23203;
  return Result::success;
}
FAKE_EXPORT Result ncclGetUniqueId(UniqueId* id) {
  const std::lock_guard lock(machine().mutex);
  if (const auto result = scripted("ncclGetUniqueId", nullptr)) return *result;
  const std::uint64_t number = machine().next_id++;
  std::memset(id->internal, 0, sizeof id->internal);
  std::memcpy(id->internal, &number, sizeof number);
  machine().communicators[number] = std::make_shared<CommunicatorState>();
  return Result::success;
}
FAKE_EXPORT Result ncclCommInitRankConfig(Comm* comm, int size, UniqueId id, int rank, Config* config) {
  const std::lock_guard lock(machine().mutex);
  if (config->blocking != 0 || config->size != sizeof(Config) || config->magic != config_magic) note("a communicator that blocks");
  std::uint64_t number = 0;
  std::memcpy(&number, id.internal, sizeof number);
  auto& communicator = machine().communicators[number];
  if (!communicator) {
    note("an identity that nobody made");
    return Result::invalid_argument;
  }
  auto made = std::make_unique<ncclComm>();
  made->communicator = communicator;
  made->rank = rank;
  made->device = device_of_thread;
  const auto result = scripted("ncclCommInitRankConfig", made.get());
  if (result && *result != Result::in_progress) return *result;
  communicator->size = size;
  ++communicator->joined;
  *comm = made.release();
  machine().comms.insert(*comm);
  return Result::in_progress;
}
FAKE_EXPORT Result ncclCommGetAsyncError(Comm comm, Result* state) {
  const std::lock_guard lock(machine().mutex);
  if (const auto result = scripted("ncclCommGetAsyncError", comm)) return *result;
  if (comm->questions != 0) {
    if (comm->questions > 0) --comm->questions;
    *state = Result::in_progress;
    return Result::success;
  }
  *state = comm->background != Result::success                     ? comm->background
           : comm->communicator->joined < comm->communicator->size ? Result::in_progress
                                                                   : Result::success;
  return Result::success;
}
static void remove(Comm comm) {
  *comm->over = true;
  if (!comm->factors.empty()) note("an operation that was never destroyed");
  if (machine().comms.erase(comm) == 0) note("a communicator destroyed twice");
  delete comm;
}
FAKE_EXPORT Result ncclCommAbort(Comm comm) {
  const std::lock_guard lock(machine().mutex);
  const auto result = scripted("ncclCommAbort", comm);
  remove(comm);
  return result.value_or(Result::success);
}
FAKE_EXPORT Result ncclCommFinalize(Comm comm) {
  const std::lock_guard lock(machine().mutex);
  if (const auto result = scripted("ncclCommFinalize", comm)) return *result;
  comm->questions = 1;
  return Result::in_progress;
}
FAKE_EXPORT Result ncclCommDestroy(Comm comm) {
  const std::lock_guard lock(machine().mutex);
  if (comm->questions != 0) note("a communicator destroyed before it was quiet");
  const auto result = scripted("ncclCommDestroy", comm);
  remove(comm);
  return result.value_or(Result::success);
}
FAKE_EXPORT const char* ncclGetErrorString(Result result) {
  switch (result) {
    case Result::success: return "no error";
    case Result::unhandled_cuda_error: return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case Result::system_error: return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case Result::internal_error: return "internal error - please report this issue to the NCCL developers";
    case Result::invalid_argument: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case Result::invalid_usage: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case Result::remote_error: return "remote process exited or there was a network error";
    case Result::in_progress: return "NCCL operation in progress";
  }
  return "unknown result code";
}
FAKE_EXPORT const char* ncclGetLastError(Comm) { return "the last words of NCCL"; }

// Puts the parts of a group on their streams.
static Result end_group() {
  auto parts = std::exchange(group_parts, {});
  Comm first = parts.empty() ? nullptr : parts.front().comm;
  const auto result = scripted("ncclGroupEnd", first);
  if (result && *result != Result::in_progress) return *result;
  if (first != nullptr && first->questions < 0) return Result::in_progress;  // it will never get to the device
  std::map<std::pair<Comm, Stream>, std::vector<Part>> kernels;
  for (Part& part : parts) kernels[{part.comm, part.stream}].push_back(std::move(part));
  for (auto& [where, kernel] : kernels) {
    where.second->work.emplace_back([kernel, over = where.first->over, comm = where.first]() mutable {
      if (*over) return true;  // aborted
      if (comm->background != Result::success) return false;
      for (Part& part : kernel) {
        if (!part.posted) post(part);
      }
      return std::all_of(kernel.begin(), kernel.end(), [](const Part& part) { return *part.done; });
    });
  }
  return result.value_or(Result::success);
}

// A function that is called outside of a group is a group of its own.
static Result add(const char* function, Part part) {
  call_during(function);
  const std::lock_guard lock(machine().mutex);
  if (const auto result = scripted(function, part.comm); result && *result != Result::in_progress) return *result;
  if (device_of_thread != part.comm->device) note("a call with another device current than the communicator's");
  if (part.comm->communicator->joined < part.comm->communicator->size) note("a call on a communicator that is not there yet");
  for (const void* address : {part.in, static_cast<const void*>(part.out)}) {
    const bool reads_or_writes = address != nullptr && part.count > 0;
    if (reads_or_writes && memory_of(address) == nullptr) note(fmt::format("{}: memory of the host", function));
  }
  if (static_cast<int>(part.op) >= static_cast<int>(made_operation)) {
    const auto made = part.comm->factors.find(static_cast<int>(part.op));
    if (made == part.comm->factors.end()) note("an operation that was not made for this communicator");
    else part.factor = made->second;
    part.op = made_operation;
  }
  part.stream = stream_of(part.stream);
  part.communicator = part.comm->communicator;
  part.rank = part.comm->rank;
  if (part.kind != Kind::send && part.kind != Kind::recv) part.number = part.comm->collectives++;
  group_parts.push_back(std::move(part));
  return group_depth == 0 ? end_group() : Result::success;
}

FAKE_EXPORT Result ncclRedOpCreatePreMulSum(RedOp* op, void* scalar, DataType type, ScalarResidence residence, Comm comm) {
  const std::lock_guard lock(machine().mutex);
  if (const auto result = scripted("ncclRedOpCreatePreMulSum", comm)) return *result;
  if (residence != ScalarResidence::host_immediate) note("a factor that lies on the device");
  float single = 0;
  double factor = 0;
  std::memcpy(&factor, scalar, sizeof factor);
  std::memcpy(&single, scalar, sizeof single);
  const int number = static_cast<int>(made_operation) + comm->operations++;
  comm->factors[number] = type == DataType::float32 ? static_cast<double>(single) : factor;
  *op = static_cast<RedOp>(number);
  return Result::success;
}
FAKE_EXPORT Result ncclRedOpDestroy(RedOp op, Comm comm) {
  const std::lock_guard lock(machine().mutex);
  if (comm->factors.erase(static_cast<int>(op)) == 0) note("an operation destroyed twice");
  return Result::success;
}
FAKE_EXPORT Result ncclAllReduce(const void* in, void* out, std::size_t count, DataType type, RedOp op, Comm comm, Stream stream) {
  return add("ncclAllReduce", {Kind::all_reduce, in, out, count, type, op, -1, comm, stream});
}
FAKE_EXPORT Result ncclReduce(const void* in, void* out, std::size_t count, DataType type, RedOp op, int root, Comm comm, Stream stream) {
  return add("ncclReduce", {Kind::reduce, in, out, count, type, op, root, comm, stream});
}
FAKE_EXPORT Result ncclBroadcast(const void* in, void* out, std::size_t count, DataType type, int root, Comm comm, Stream stream) {
  return add("ncclBroadcast", {Kind::broadcast, in, out, count, type, RedOp::sum, root, comm, stream});
}
FAKE_EXPORT Result ncclAllGather(const void* in, void* out, std::size_t count, DataType type, Comm comm, Stream stream) {
  return add("ncclAllGather", {Kind::all_gather, in, out, count, type, RedOp::sum, -1, comm, stream});
}
FAKE_EXPORT Result ncclReduceScatter(const void* in, void* out, std::size_t count, DataType type, RedOp op, Comm comm, Stream stream) {
  return add("ncclReduceScatter", {Kind::reduce_scatter, in, out, count, type, op, -1, comm, stream});
}
FAKE_EXPORT Result ncclSend(const void* in, std::size_t count, DataType type, int peer, Comm comm, Stream stream) {
  return add("ncclSend", {Kind::send, in, nullptr, count, type, RedOp::sum, peer, comm, stream});
}
FAKE_EXPORT Result ncclRecv(void* out, std::size_t count, DataType type, int peer, Comm comm, Stream stream) {
  return add("ncclRecv", {Kind::recv, nullptr, out, count, type, RedOp::sum, peer, comm, stream});
}
FAKE_EXPORT Result ncclGroupStart() {
  const std::lock_guard lock(machine().mutex);
  ++group_depth;
  return Result::success;
}
FAKE_EXPORT Result ncclGroupEnd() {
  const std::lock_guard lock(machine().mutex);
  --group_depth;
  return end_group();
}
