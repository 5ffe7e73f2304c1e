#include "fake_vendor.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "kernels/reduce.h"

using namespace unisono::engines::nccl;

namespace {

struct EventState {
  std::uint64_t recorded = 0, done = 0;
};

struct CliqueState;

}  // namespace

struct CUevent_st {
  std::shared_ptr<EventState> state = std::make_shared<EventState>();
  int device = 0;
};

struct CUstream_st {
  int device = 0;
  std::deque<std::function<bool()>> work;  // each is tried until it says that it is done
};

struct ncclComm {
  std::shared_ptr<CliqueState> communicator = {};
  int rank = 0;
  int device = 0;
  std::uint64_t collectives = 0;
  int operations = 0;
  std::map<int, double> factors;  // of operations that were made, by number
  Result background = Result::success;
  int questions = 0;  // how often it is still in progress; -1: for ever
  std::shared_ptr<bool> over = std::make_shared<bool>(false);
};

namespace {

enum class Kind { all_reduce, reduce, broadcast, all_gather, reduce_scatter, send, recv };

/// One call, as it waits for the others.
struct Part {
  Kind kind;
  const void* in;
  void* out;
  std::size_t count;
  DataType type;
  RedOp op;
  int peer;  // or root
  Comm comm;
  Stream stream;
  std::uint64_t number = 0;  // of a collective in its communicator
  bool posted = false;
  std::shared_ptr<bool> done = std::make_shared<bool>(false);
  std::shared_ptr<CliqueState> communicator = {};
  int rank = 0;
  double factor = 1;  // of what it gives
};

struct CliqueState {
  int size = 0;
  int joined = 0;
  std::map<std::uint64_t, std::vector<Part>> collectives;  // that not all have come to
  std::map<std::pair<int, int>, std::deque<Part>> sent, awaited;
};

struct Rule {
  fake::Where where;
  int code;
  std::optional<int> questions;
};

struct Machine {
  std::mutex mutex;
  int devices = 0;
  bool stalled = false;
  std::string misuse;
  std::map<std::string, std::vector<Rule>> rules;
  std::map<std::string, int> calls;
  std::map<std::uint64_t, std::shared_ptr<CliqueState>> cliques;
  std::uint64_t next_id = 1;
  std::set<Comm> comms;
  std::set<Stream> streams;
  std::set<Event> events;
  std::map<int, std::unique_ptr<CUstream_st>> defaults;
  struct Memory {
    int device;
    std::vector<std::byte> bytes;
    bool of_stream = false;  // taken in the order of a stream
    bool given_back = false;
  };
  std::map<const std::byte*, Memory> memory;
  std::vector<std::unique_ptr<CUstream_st>> orphans;  // streams that were destroyed with work on them
  std::size_t others = 0;                             // bytes of other processes on each device
  int initialized_by = 0;                             // the process that called the runtime first
};
Machine& machine() {
  static Machine& instance = *new Machine;  // looked at until the very end of the process
  return instance;
}

thread_local int device_of_thread = 0;
thread_local int group_depth = 0;
thread_local std::vector<Part> group_parts;
thread_local std::vector<Comm> group_comms;  // that were begun in this group

void note(const std::string& what) {
  if (machine().misuse.empty()) machine().misuse = what;
}

const Machine::Memory* memory_of(const void* address) {
  auto& all = machine().memory;
  auto after = all.upper_bound(static_cast<const std::byte*>(address));
  if (after == all.begin()) return nullptr;
  const auto& [begin, memory] = *std::prev(after);
  return static_cast<const std::byte*>(address) < begin + memory.bytes.size() && !memory.given_back ? &memory : nullptr;
}

// A forked child has no part in what its parent has begun with the runtime.
bool is_lost_to_a_fork() {
  int& process = machine().initialized_by;
  if (process == 0) process = static_cast<int>(::getpid());
  return process != static_cast<int>(::getpid());
}

// What a function was told to answer, by whom it is called.
std::optional<Rule> told(const std::string& function, int rank) {
  ++machine().calls[function];
  auto& rules = machine().rules[function];
  for (auto it = rules.begin(); it != rules.end(); ++it) {
    if (it->where.rank >= 0 && it->where.rank != rank) continue;
    if (it->where.skip-- > 0) continue;
    const Rule rule = *it;
    rules.erase(it);
    return rule;
  }
  return std::nullopt;
}

std::size_t size_of(DataType type) {
  switch (type) {
    case DataType::int8:
    case DataType::uint8: return 1;
    case DataType::float16:
    case DataType::bfloat16: return 2;
    case DataType::int32:
    case DataType::uint32:
    case DataType::float32: return 4;
    default: return 8;
  }
}
unisono::DType dtype_of(DataType type) {
  using unisono::DType;
  switch (type) {
    case DataType::int8: return DType::int8;
    case DataType::uint8: return DType::uint8;
    case DataType::int32: return DType::int32;
    case DataType::uint32: return DType::uint32;
    case DataType::int64: return DType::int64;
    case DataType::uint64: return DType::uint64;
    case DataType::float16: return DType::float16;
    case DataType::float32: return DType::float32;
    case DataType::float64: return DType::float64;
    case DataType::bfloat16: return DType::bfloat16;
  }
  return DType::uint8;
}
// What all operations of a program's own are to the other ranks; each has a factor of its own.
constexpr RedOp made_operation{5};

// element = factor * element, as NCCL does it on the device.
void multiply(std::vector<std::byte>& elements, DataType type, double factor) {
  const auto each = [&]<class T>(T) {
    T* x = reinterpret_cast<T*>(elements.data());
    for (std::size_t i = 0; i < elements.size() / sizeof(T); ++i) x[i] = static_cast<T>(static_cast<double>(x[i]) * factor);
  };
  if (type == DataType::float32) each(0.0F);
  else if (type == DataType::float64) each(0.0);
  else note("a factor of another type");
}

unisono::ReduceOp op_of(RedOp op) {
  using unisono::ReduceOp;
  constexpr ReduceOp all[] = {ReduceOp::sum, ReduceOp::product, ReduceOp::max, ReduceOp::min, ReduceOp::avg};
  return op == made_operation ? ReduceOp::sum : all[static_cast<int>(op)];
}

// All ranks have come: does what the collective does.
void carry_out(std::vector<Part>& parts) {
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.rank < b.rank; });
  const Part& first = parts.front();
  const auto n = parts.size();
  for (const Part& part : parts) {
    if (part.kind != first.kind || part.count != first.count || part.type != first.type || part.peer != first.peer ||
        (first.kind != Kind::broadcast && first.kind != Kind::all_gather && part.op != first.op)) {
      note("ranks called different collectives");
    }
  }
  const std::size_t bytes = first.count * size_of(first.type);
  std::vector<std::vector<std::byte>> inputs;
  for (const Part& part : parts) {
    const bool gives = first.kind != Kind::broadcast || part.rank == first.peer;
    const std::size_t length = !gives ? 0 : first.kind == Kind::reduce_scatter ? bytes * n : bytes;
    const auto* from = static_cast<const std::byte*>(part.in);
    inputs.emplace_back(from, from + length);
    if (part.op == made_operation) multiply(inputs.back(), part.type, part.factor);
  }
  const auto reduced = [&](std::size_t offset) {
    std::vector<const void*> from;
    for (const auto& input : inputs) from.push_back(input.data() + offset);
    std::vector<std::byte> result(bytes);
    unisono::kernels::reduce(result.data(), from.data(), n, first.count, dtype_of(first.type), op_of(first.op), n);
    return result;
  };
  for (const Part& part : parts) {
    switch (first.kind) {
      case Kind::broadcast:
        if (bytes > 0) std::memmove(part.out, inputs[static_cast<std::size_t>(first.peer)].data(), bytes);
        break;
      case Kind::all_gather:
        for (std::size_t r = 0; r < n && bytes > 0; ++r) std::memcpy(static_cast<std::byte*>(part.out) + r * bytes, inputs[r].data(), bytes);
        break;
      case Kind::all_reduce:
        if (bytes > 0) std::memcpy(part.out, reduced(0).data(), bytes);
        break;
      case Kind::reduce:
        if (part.rank == first.peer && bytes > 0) std::memcpy(part.out, reduced(0).data(), bytes);
        break;
      case Kind::reduce_scatter:
        if (bytes > 0) std::memcpy(part.out, reduced(static_cast<std::size_t>(part.rank) * bytes).data(), bytes);
        break;
      default: break;
    }
    *part.done = true;
  }
}

void match(CliqueState& communicator, std::pair<int, int> pair) {
  auto& sent = communicator.sent[pair];
  auto& awaited = communicator.awaited[pair];
  while (!sent.empty() && !awaited.empty()) {
    const Part from = sent.front(), to = awaited.front();
    if (from.count * size_of(from.type) != to.count * size_of(to.type)) note("a message of another length than its receive");
    std::memcpy(to.out, from.in, to.count * size_of(to.type));
    *from.done = *to.done = true;
    sent.pop_front();
    awaited.pop_front();
  }
}

void post(Part& part) {
  part.posted = true;
  CliqueState& communicator = *part.communicator;
  if (part.kind == Kind::send) {
    communicator.sent[{part.rank, part.peer}].push_back(part);
    return match(communicator, {part.rank, part.peer});
  }
  if (part.kind == Kind::recv) {
    communicator.awaited[{part.peer, part.rank}].push_back(part);
    return match(communicator, {part.peer, part.rank});
  }
  auto& parts = communicator.collectives[part.number];
  parts.push_back(part);
  if (static_cast<int>(parts.size()) < communicator.size) return;
  carry_out(parts);
  communicator.collectives.erase(part.number);
}

// Everything that can run does.
void pump() {
  Machine& m = machine();
  if (m.stalled) return;
  std::vector<Stream> all(m.streams.begin(), m.streams.end());
  for (const auto& [device, stream] : m.defaults) all.push_back(stream.get());
  for (const auto& stream : m.orphans) all.push_back(stream.get());
  for (bool moved = true; moved;) {
    moved = false;
    for (Stream stream : all) {
      while (!stream->work.empty() && stream->work.front()()) {
        stream->work.pop_front();
        moved = true;
      }
    }
  }
  std::erase_if(m.orphans, [](const auto& stream) { return stream->work.empty(); });
}

Stream stream_of(Stream stream) {
  if (stream != nullptr) return stream;
  auto& entry = machine().defaults[device_of_thread];
  if (!entry) entry = std::make_unique<CUstream_st>(CUstream_st{device_of_thread, {}});
  return entry.get();
}

}  // namespace

// Under the vendors' names, so that the stand-in can also be a library that is opened.
#define FAKE_EXPORT extern "C" [[gnu::visibility("default")]]

// ---- CUDA ---------------------------------------------------------------------------------------------------------------------------

#define FAKE_CUDA(name)                                            \
  const std::lock_guard lock(machine().mutex);                     \
  if (is_lost_to_a_fork()) return CudaError::initialization_error; \
  if (const auto rule = told(name, device_of_thread)) return static_cast<CudaError>(rule->code)

FAKE_EXPORT CudaError cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return CudaError::success;
}
FAKE_EXPORT CudaError cudaDriverGetVersion(int* version) { return cudaRuntimeGetVersion(version); }
FAKE_EXPORT CudaError cudaGetDeviceCount(int* count) {
  FAKE_CUDA("cudaGetDeviceCount");
  *count = machine().devices;
  return CudaError::success;
}
FAKE_EXPORT CudaError cudaGetDevice(int* device) {
  FAKE_CUDA("cudaGetDevice");
  *device = device_of_thread;
  return CudaError::success;
}
FAKE_EXPORT CudaError cudaSetDevice(int device) {
  FAKE_CUDA("cudaSetDevice");
  if (device < 0 || device >= machine().devices) return CudaError::invalid_device;
  device_of_thread = device;
  return CudaError::success;
}
FAKE_EXPORT const char* cudaGetErrorName(CudaError error) {
  return error == CudaError::illegal_address ? "cudaErrorIllegalAddress" : "cudaErrorOfTheTest";
}
FAKE_EXPORT const char* cudaGetErrorString(CudaError error) {
  return error == CudaError::illegal_address ? "an illegal memory access was encountered" : "as the test says";
}
FAKE_EXPORT CudaError cudaGetLastError() { return CudaError::success; }
FAKE_EXPORT CudaError cudaStreamCreateWithFlags(Stream* stream, unsigned flags) {
  FAKE_CUDA("cudaStreamCreateWithFlags");
  if (flags != stream_non_blocking) note("a stream that waits for the default stream");
  *stream = new CUstream_st{device_of_thread, {}};
  machine().streams.insert(*stream);
  return CudaError::success;
}
FAKE_EXPORT CudaError cudaStreamDestroy(Stream stream) {
  FAKE_CUDA("cudaStreamDestroy");
  if (machine().streams.erase(stream) == 0) note("a stream destroyed twice");
  else machine().orphans.emplace_back(stream);  // what is on it is done all the same
  return CudaError::success;
}
FAKE_EXPORT CudaError cudaStreamWaitEvent(Stream stream, Event event, unsigned) {
  FAKE_CUDA("cudaStreamWaitEvent");
  stream_of(stream)->work.emplace_back([state = event->state, until = event->state->recorded] { return state->done >= until; });
  return CudaError::success;
}
FAKE_EXPORT CudaError cudaEventCreateWithFlags(Event* event, unsigned flags) {
  FAKE_CUDA("cudaEventCreateWithFlags");
  if (flags != event_disable_timing) note("an event that takes the time");
  *event = new CUevent_st{std::make_shared<EventState>(), device_of_thread};
  machine().events.insert(*event);
  return CudaError::success;
}
FAKE_EXPORT CudaError cudaEventDestroy(Event event) {
  FAKE_CUDA("cudaEventDestroy");
  if (machine().events.erase(event) == 0) note("an event destroyed twice");
  delete event;
  return CudaError::success;
}
FAKE_EXPORT CudaError cudaEventRecord(Event event, Stream stream) {
  FAKE_CUDA("cudaEventRecord");
  Stream real = stream_of(stream);
  if (real->device != event->device) note("an event recorded on another device's stream");
  real->work.emplace_back([state = event->state, number = ++event->state->recorded] {
    state->done = number;
    return true;
  });
  return CudaError::success;
}
FAKE_EXPORT CudaError cudaEventQuery(Event event) {
  FAKE_CUDA("cudaEventQuery");
  pump();
  return event->state->done >= event->state->recorded ? CudaError::success : CudaError::not_ready;
}
FAKE_EXPORT CudaError cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, MemcpyKind, Stream stream) {
  FAKE_CUDA("cudaMemcpyAsync");
  stream_of(stream)->work.emplace_back([=] {
    std::memmove(to, from, bytes);
    return true;
  });
  return CudaError::success;
}
FAKE_EXPORT CudaError cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
                                        std::size_t height, MemcpyKind, Stream stream) {
  FAKE_CUDA("cudaMemcpy2DAsync");
  if (to_pitch < width || from_pitch < width) return CudaError::invalid_value;
  stream_of(stream)->work.emplace_back([=] {
    for (std::size_t row = 0; row < height; ++row) {
      std::memmove(static_cast<std::byte*>(to) + row * to_pitch, static_cast<const std::byte*>(from) + row * from_pitch, width);
    }
    return true;
  });
  return CudaError::success;
}
FAKE_EXPORT CudaError cudaMallocAsync(void** address, std::size_t bytes, Stream stream) {
  FAKE_CUDA("cudaMallocAsync");
  std::vector<std::byte> memory(bytes, std::byte{0xCD});
  const std::byte* begin = memory.data();
  *address = memory.data();
  machine().memory.emplace(begin, Machine::Memory{.device = stream_of(stream)->device, .bytes = std::move(memory), .of_stream = true});
  return CudaError::success;
}
FAKE_EXPORT CudaError cudaFreeAsync(void* address, Stream stream) {
  FAKE_CUDA("cudaFreeAsync");
  stream_of(stream)->work.emplace_back([address] {
    const auto found = machine().memory.find(static_cast<const std::byte*>(address));
    if (found == machine().memory.end() || !found->second.of_stream || found->second.given_back) {
      note("memory given back that is nobody's");
      return true;
    }
    found->second.given_back = true;  // it stays, so that whoever still reads it finds nonsense
    std::ranges::fill(found->second.bytes, std::byte{0xDD});
    return true;
  });
  return CudaError::success;
}
static std::size_t memory_on(int device) {
  std::size_t bytes = 0;
  for (const auto& [address, memory] : machine().memory) bytes += memory.device == device && !memory.given_back ? memory.bytes.size() : 0;
  return bytes;
}
FAKE_EXPORT CudaError cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  FAKE_CUDA("cudaMemGetInfo");
  *total = std::size_t{64} << 20;
  *free = *total - memory_on(device_of_thread) - machine().others;
  return CudaError::success;
}
FAKE_EXPORT CudaError cudaDeviceGetPCIBusId(char* text, int length, int device) {
  FAKE_CUDA("cudaDeviceGetPCIBusId");
  if (device < 0 || device >= machine().devices) return CudaError::invalid_device;
  *fmt::format_to_n(text, static_cast<std::size_t>(length) - 1, "0000:{:02x}:00.0", device + 1).out = '\0';
  return CudaError::success;
}
FAKE_EXPORT CudaError cudaPointerGetAttributes(PointerAttributes* attributes, const void* address) {
  FAKE_CUDA("cudaPointerGetAttributes");
  const auto* memory = memory_of(address);
  attributes->type = memory == nullptr ? MemoryType::unregistered : MemoryType::device;
  attributes->device = memory == nullptr ? -2 : memory->device;
  return CudaError::success;
}

// ---- NVML ---------------------------------------------------------------------------------------------------------------------------

FAKE_EXPORT NvmlResult nvmlInit_v2() { return NvmlResult::success; }
FAKE_EXPORT NvmlResult nvmlShutdown() { return NvmlResult::success; }
FAKE_EXPORT NvmlResult nvmlDeviceGetCount_v2(unsigned* count) {
  const std::lock_guard lock(machine().mutex);
  *count = static_cast<unsigned>(machine().devices);
  return NvmlResult::success;
}
FAKE_EXPORT NvmlResult nvmlDeviceGetHandleByPciBusId_v2(const char* bus, NvmlDevice* device) {
  *device = reinterpret_cast<NvmlDevice>(std::stoul(std::string(bus).substr(5, 2), nullptr, 16));
  return NvmlResult::success;
}
FAKE_EXPORT NvmlResult nvmlDeviceGetComputeRunningProcesses_v3(NvmlDevice device, unsigned* count, NvmlProcess* processes) {
  const std::lock_guard lock(machine().mutex);
  // One after the other, as an entry for each: more than whoever asks first has room for.
  constexpr unsigned strangers = 20;
  const auto own = static_cast<unsigned>(::getpid());
  const unsigned room = *count;
  *count = strangers + 1;
  if (room < *count) return NvmlResult::insufficient_size;
  for (unsigned i = 0; i < strangers; ++i) processes[i] = {own + i + 1, i == 0 ? machine().others : nvml_not_available, 0, 0};
  processes[strangers] = {own, memory_on(static_cast<int>(reinterpret_cast<std::uintptr_t>(device)) - 1), 0, 0};
  return NvmlResult::success;
}

// ---- NCCL ---------------------------------------------------------------------------------------------------------------------------

// What a function that starts something answers.
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
  machine().cliques[number] = std::make_shared<CliqueState>();
  return Result::success;
}
FAKE_EXPORT Result ncclCommInitRankConfig(Comm* comm, int size, UniqueId id, int rank, Config* config) {
  const std::lock_guard lock(machine().mutex);
  if (config->blocking != 0 || config->size != sizeof(Config) || config->magic != config_magic) note("a communicator that blocks");
  std::uint64_t number = 0;
  std::memcpy(&number, id.internal, sizeof number);
  auto& communicator = machine().cliques[number];
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

static Result add(const char* function, Part part) {
  const std::lock_guard lock(machine().mutex);
  if (const auto result = scripted(function, part.comm); result && *result != Result::in_progress) return *result;
  if (group_depth == 0) note("a call outside of a group");
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
  part.communicator = part.comm->communicator;
  part.rank = part.comm->rank;
  if (part.kind != Kind::send && part.kind != Kind::recv) part.number = part.comm->collectives++;
  group_parts.push_back(std::move(part));
  return Result::success;
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

namespace fake {

void reset(int devices) {
  Machine& m = machine();
  const std::lock_guard lock(m.mutex);
  m.devices = devices;
  m.stalled = false;
  m.misuse.clear();
  m.rules.clear();
  m.calls.clear();
  m.cliques.clear();
  m.defaults.clear();
  m.orphans.clear();
  m.memory.clear();
  m.others = 0;
  m.initialized_by = 0;
  device_of_thread = 0;
}

std::shared_ptr<const Vendor> vendor() {
  auto vendor = std::make_shared<Vendor>();
#define FILL_NCCL(member, name, result, parameters) vendor->nccl.member = ::name;
#define FILL_CUDA(member, name, result, parameters) vendor->cuda.member = ::name;
#define FILL_NVML(member, name, result, parameters) vendor->nvml.member = ::name;
  UNISONO_NCCL_FUNCTIONS(FILL_NCCL)
  UNISONO_CUDA_FUNCTIONS(FILL_CUDA)
  UNISONO_NVML_FUNCTIONS(FILL_NVML)
  vendor->nccl_version = 23203;
  vendor->devices = machine().devices;
  return vendor;
}

void* allocate(int device, std::size_t bytes) {
  const std::lock_guard lock(machine().mutex);
  std::vector<std::byte> memory(std::max<std::size_t>(bytes, 1));
  const std::byte* address = memory.data();
  machine().memory.emplace(address, Machine::Memory{.device = device, .bytes = std::move(memory)});
  return const_cast<std::byte*>(address);
}

void others(std::size_t bytes) {
  const std::lock_guard lock(machine().mutex);
  machine().others = bytes;
}

void answer(const std::string& function, Result result, Where where) {
  const std::lock_guard lock(machine().mutex);
  machine().rules[function].push_back({where, static_cast<int>(result), {}});
}
void answer(const std::string& function, CudaError error, Where where) {
  const std::lock_guard lock(machine().mutex);
  machine().rules[function].push_back({where, static_cast<int>(error), {}});
}
void in_progress(const std::string& function, int questions, Result outcome, Where where) {
  const std::lock_guard lock(machine().mutex);
  machine().rules[function].push_back({where, static_cast<int>(outcome), questions});
}
void break_communicators(int rank, Result result) {
  const std::lock_guard lock(machine().mutex);
  for (Comm comm : machine().comms) {
    if (comm->rank == rank) comm->background = result;
  }
}
void stall(bool stalled) {
  const std::lock_guard lock(machine().mutex);
  machine().stalled = stalled;
}
std::string misuse() {
  const std::lock_guard lock(machine().mutex);
  return machine().misuse;
}
int leftovers() {
  const std::lock_guard lock(machine().mutex);
  pump();
  const auto is_kept = [](const auto& entry) { return entry.second.of_stream && !entry.second.given_back; };
  return static_cast<int>(machine().comms.size() + machine().streams.size() + machine().events.size() +
                          static_cast<std::size_t>(std::ranges::count_if(machine().memory, is_kept)));
}
int calls(const std::string& function) {
  const std::lock_guard lock(machine().mutex);
  return machine().calls[function];
}
int current_device() { return device_of_thread; }

}  // namespace fake
