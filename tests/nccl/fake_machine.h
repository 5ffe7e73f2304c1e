#pragma once

// The parts of the stand-in that its CUDA, its NVML and its NCCL share: the machine with its devices, streams and memory, and the calls of NCCL that
// wait for the other ranks. All of it is used under the machine's mutex.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fake_vendor.h"

/// The functions have the vendors' names, so that the stand-in can also be a library that is opened.
#define FAKE_EXPORT extern "C" [[gnu::visibility("default")]]

namespace fake {

struct EventState {
  std::uint64_t recorded = 0, done = 0;
};

struct CommunicatorState;

}  // namespace fake

struct CUevent_st {
  std::shared_ptr<fake::EventState> state = std::make_shared<fake::EventState>();
  int device = 0;
};

struct CUstream_st {
  int device = 0;
  std::deque<std::function<bool()>> work;  // each is tried until it says that it is done
};

struct ncclComm {
  std::shared_ptr<fake::CommunicatorState> communicator = {};
  int rank = 0;
  int device = 0;
  std::uint64_t collectives = 0;
  int operations = 0;
  std::map<int, double> factors;  // of operations that were made, by number
  fake::Result background = fake::Result::success;
  int questions = 0;  // how often it is still in progress; -1: for ever
  std::shared_ptr<bool> over = std::make_shared<bool>(false);
};

namespace fake {

using unisono::engines::nccl::Comm;
using unisono::engines::nccl::DataType;
using unisono::engines::nccl::Event;
using unisono::engines::nccl::RedOp;
using unisono::engines::nccl::Stream;

enum class Kind { all_reduce, reduce, broadcast, all_gather, reduce_scatter, send, recv };

/// A rank's call, as it waits for the others.
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
  std::shared_ptr<CommunicatorState> communicator = {};
  int rank = 0;
  double factor = 1;  // of what it gives
};

struct CommunicatorState {
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
  std::set<int> stalled_devices;
  std::string misuse;
  std::map<std::string, std::vector<Rule>> rules;
  std::map<std::string, int> calls;
  std::map<std::string, std::function<void()>> during;
  std::map<std::uint64_t, std::shared_ptr<CommunicatorState>> communicators;
  std::uint64_t next_id = 1;
  std::set<Comm> comms;
  std::set<Stream> streams, captured;
  std::set<Event> events;
  std::map<int, std::unique_ptr<CUstream_st>> defaults;
  struct Memory {
    int device;
    std::vector<std::byte> bytes;
    bool of_stream = false;  // taken in the order of a stream
    bool given_back = false;
  };
  std::map<const std::byte*, Memory> memory;
  std::map<const std::byte*, std::size_t> pinned;     // memory of the host, by its begin
  std::size_t pageable = 0;                           // bytes that were copied to or from memory of the host that is not pinned
  std::vector<std::unique_ptr<CUstream_st>> orphans;  // streams that were destroyed with work on them
  std::size_t others = 0;                             // bytes of other processes on each device
  int initialized_by = 0;                             // the process that called the runtime first
};
Machine& machine();

inline thread_local int device_of_thread = 0;

/// Notes a misuse; the first one counts.
void note(const std::string& what);

/// The memory that an address lies in; null where that is none of a device.
const Machine::Memory* memory_of(const void* address);

/// Whether the runtime was called in the parent of this process: a forked child has no part in what its parent has begun with it.
bool is_lost_to_a_fork();

/// The answer that a function was told to give, by the rank that calls it.
std::optional<Rule> told(const std::string& function, int rank);

/// Calls what a test has to do during this call of the function, if there is anything.
void call_during(const std::string& function);

/// Carries out all that can run.
void pump();

/// The stream itself, or the default stream of this thread's device.
Stream stream_of(Stream stream);

/// All operations of a program's own are this one to the other ranks; each has a factor of its own.
constexpr RedOp made_operation{5};

/// The device has come to a call: it is carried out as soon as the other ranks' devices have come to theirs.
void post(Part& part);

}  // namespace fake
