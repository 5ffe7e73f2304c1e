#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_descriptor.h"
#include "recorder/call_counter.h"
#include "recorder/call_ring.h"
#include "recorder/dump.h"
#include "recorder/layout.h"
#include "recorder/text_numbers.h"
#include "recorder/ticks.h"
#include "recorder/trace_file.h"
#include "unisono/operation.h"
#include "unisono/tensor.h"

namespace unisono::recorder {

/// What is recorded of a call when it begins.
struct CallFacts {
  Operation operation = Operation::barrier;
  std::string_view label = {};  ///< the function that the user called, if it is another one; a string literal
  std::uint16_t group = 0;
  std::uint64_t sequence = 0;
  std::uint64_t bytes = 0;  ///< that this rank gives, or takes where it gives none
  DType dtype = DType::uint8;
  int peer = -1;  ///< root, source or destination, in the world; -1: none
  int tag = 0;    ///< of a message
  std::source_location where = {};
};

/// The flight recorder of a rank: the last calls, in memory that others can read when the rank is stopped or has crashed. A call costs about 15 ns.
///
/// The thread that made the recorder has a ring of its own, so that it shares nothing; all other threads share a second one. Those of a trace, a
/// record in a file, grow until they have all calls, as far as the room of the file goes.
class Recorder {
 public:
  static constexpr std::uint32_t own_calls = 1024, calls_of_others = 256;
  /// From so many bytes on the beginning of a call is timed even where it does not wait.
  static constexpr std::uint64_t timed_bytes = 4096;

  /// A call that is recorded. Its entry may have been given to a later call meanwhile, and is left alone then.
  struct Call {
    CallEntry* entry = nullptr;
    std::uint32_t turn = 0;
    std::uint16_t count = 0;  ///< of RecordHeader::counts
    explicit operator bool() const { return entry != nullptr; }
  };

  /// Makes a record in a memory file: the one that a launcher keeps for this rank, or a new one. With UNISONO_TRACE_DIR it is a trace. It lies in
  /// this process's own memory where there is no file to be had.
  static std::shared_ptr<Recorder> make();
  static std::shared_ptr<Recorder> make_private();
  /// Makes a trace in a file of make_trace_file. Returns null where it cannot be mapped.
  static std::shared_ptr<Recorder> make_trace(base::FileDescriptor file);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  std::shared_ptr<const void> memory() const { return memory_; }
  RecordHeader& header() { return *header_; }
  const RecordHeader& header() const { return *header_; }

  struct Identity {
    int rank = -1, size = 0, local_rank = -1, node = -1;
    std::string_view host, job;
    std::vector<std::uint64_t> members = {};  ///< by rank, what tells each process from all others
  };
  /// Says which rank of which job this is. The first job counts.
  void set_identity(const Identity& identity);
  /// Returns the ranks that these processes have in the job, -1 for one that has none; nothing where the job's members are not known.
  std::vector<int> ranks_of(std::span<const std::uint64_t> members);
  /// Where the ranks belong that a group's calls name. A job that takes other processes in has a generation for each of its worlds.
  struct World {
    int generation = 0;  ///< 0: not known
    int rank = -1;       ///< this one's
  };
  /// Gives a group a number.
  std::uint16_t add_group(std::string_view name, int size, const World& world);
  std::uint16_t add_group(std::string_view name, int size) { return add_group(name, size, {}); }
  void set_state(RankState state) {
    header_->state.store(static_cast<std::uint32_t>(state), std::memory_order_relaxed);
    header_->note_clock();
  }
  /// Records the failure that ended a group, and writes the record to its file. The text of the first one stays.
  void set_failure(std::string_view text);
  /// True where it keeps all calls, in a file.
  bool is_trace() const noexcept { return is_trace_; }
  /// Writes the record to its file, if UNISONO_RECORD_DIR names a folder; a trace lies in its own. A handler of a signal may call it.
  void dump() noexcept;

  /// A blocking call begins.
  Call begin(const CallFacts& facts) noexcept { return open(facts, CallState::running, facts.bytes >= timed_from_); }
  /// An asynchronous call is posted.
  Call queue(const CallFacts& facts) noexcept { return open(facts, CallState::queued, true, true); }
  /// An asynchronous call is posted whose turn it is at once.
  Call queue_and_run(const CallFacts& facts) noexcept { return open(facts, CallState::running, true, true); }
  /// An asynchronous call's turn has come.
  void run(const Call& call) noexcept;
  /// A call waits for longer than a spin, for so many ranks, of which this one of the world is the first; -1: for a device.
  void wait(const Call& call, int first, std::size_t ranks) noexcept;
  void end(const Call& call, bool went_well) noexcept;
  /// Says since when the thread that made the recorder does nothing but wait for an asynchronous call; 0: it does not. Other threads' waits are not
  /// recorded.
  void set_program_waits(std::uint64_t since) noexcept {
    if (is_owner()) header_->program_waits_since.store(since, std::memory_order_relaxed);
  }

  std::uint64_t now() const noexcept { return uses_counter_ ? counter() : steady_ns(); }

 private:
  /// `trace`: the descriptor of the trace's file; -1: it is none. It stays open as long as the memory.
  Recorder(std::shared_ptr<void> memory, const Room& room, int trace);

  Call open(const CallFacts& facts, CallState state, bool timed, bool queued = false) noexcept;
  CallEntry* next_of_others() noexcept;
  bool is_owner() const noexcept { return ::pthread_equal(owner_, ::pthread_self()) != 0; }
  std::uint64_t waited_in(const CallEntry& entry, std::uint64_t at) noexcept;
  static bool belongs(const Call& call) noexcept { return call.entry != nullptr && call.entry->turn.load(std::memory_order_relaxed) == call.turn; }

  std::shared_ptr<void> memory_;
  RecordHeader* const header_;
  const bool is_trace_, uses_counter_;
  const std::uint64_t timed_from_;
  const pthread_t owner_ = ::pthread_self();
  CallRing own_;
  std::uint64_t next_ = 0;  // calls of the owner
  CallRing others_;
  const std::uint64_t others_mask_;
  std::mutex others_mutex_;  // of the calls of other threads in a trace
  TextNumbers texts_;
  CallCounter counter_;
  std::atomic<std::uint64_t> counted_until_{0};  // ticks: the program's waits before are in the counts

  DumpFile file_;

  std::mutex mutex_;  // of what follows
  std::uint16_t groups_ = 0;
  bool has_failed_ = false, has_identity_ = false;
  std::vector<std::uint64_t> members_;
};

/// True where this process has a trace.
inline std::atomic<bool> traces{false};
/// The label of a call of a trace that is no operation: the program waits for an asynchronous one.
inline constexpr std::string_view wait_label = "wait";
/// The label of the messages between a controller and a worker. Either may wait for the other one for as long as the program likes.
inline constexpr std::string_view controller_label = "controller";

/// Returns the recorder of this process, which is made when it is first asked for. A child of fork gets one of its own.
std::shared_ptr<Recorder> of_process();

/// Makes the file for the record of a rank that is yet to be started. Whoever keeps the descriptor can read the record when the rank has ended.
/// Returns an empty descriptor where there is none to be had.
base::FileDescriptor make_record_file();

/// The record of a blocking call, from here to the end of its scope. An exception that leaves the scope is its failure.
class Recording {
 public:
  Recording(Recorder& recorder, const CallFacts& facts) noexcept : recorder_(recorder), call_(recorder.begin(facts)) {}
  ~Recording() { recorder_.end(call_, went_well_); }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  const Recorder::Call& call() const { return call_; }
  void succeed() { went_well_ = true; }

 private:
  Recorder& recorder_;
  Recorder::Call call_;
  bool went_well_ = false;
};

/// Says that the program waits for an asynchronous call, from here to the end of its scope.
class ProgramWait {
 public:
  explicit ProgramWait(Recorder& recorder) noexcept : recorder_(recorder) { recorder_.set_program_waits(recorder_.now()); }
  ~ProgramWait() { recorder_.set_program_waits(0); }
  ProgramWait(const ProgramWait&) = delete;
  ProgramWait& operator=(const ProgramWait&) = delete;

 private:
  Recorder& recorder_;
};

}  // namespace unisono::recorder
