#include "recorder/recorder.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "base/environment.h"
#include "base/files.h"
#include "base/host.h"
#include "base/log.h"
#include "base/switches.h"
#include "recorder/record_memory.h"
#include "recorder/trace_file.h"

namespace unisono::recorder {
namespace {

std::atomic<Recorder*> of_signal{nullptr};
static_assert(std::atomic<Recorder*>::is_always_lock_free, "the handler of a signal reads it");

extern "C" void write_on_signal(int) {
  const int error = errno;
  if (Recorder* const recorder = of_signal.load()) recorder->dump();
  errno = error;
}

/// Has SIGUSR2 write this record, unless the program has a handler for it, or ignores it.
void dump_on_signal(Recorder* recorder) {
  of_signal.store(recorder);
  struct sigaction now {};
  if (::sigaction(SIGUSR2, nullptr, &now) != 0) return;
  if ((now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == write_on_signal) return;
  if ((now.sa_flags & SA_SIGINFO) != 0 || now.sa_handler != SIG_DFL) {
    base::debug("the program has a handler for SIGUSR2, or ignores it: that signal does not write the record of calls");
    return;
  }
  struct sigaction ours {};
  ours.sa_handler = write_on_signal;
  ours.sa_flags = SA_RESTART;
  ::sigemptyset(&ours.sa_mask);
  ::sigaction(SIGUSR2, &ours, nullptr);
}

/// Ends that if it was this recorder.
void forget_for_signal(Recorder* recorder) noexcept { of_signal.compare_exchange_strong(recorder, nullptr); }

constexpr std::uint64_t calls_between_clocks = 4096;

constexpr Room room_of_ring{.calls = Recorder::own_calls, .others = Recorder::calls_of_others, .groups = 0};
constexpr std::size_t bytes_of_ring = record_bytes(room_of_ring.calls, room_of_ring.others);

/// Returns the words of this process's command line, in one line: a word may be a whole program (`python -c`).
std::string program() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string words(std::istreambuf_iterator<char>(file), {});
  while (!words.empty() && words.back() == '\0') words.pop_back();
  std::ranges::replace_if(
      words, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; }, ' ');
  return words;
}

/// Makes the header of a record with that room, and its entries but for those of a trace, which are zero.
RecordHeader* make_header(void* memory, const Room& room, bool is_trace) {
  auto* const header = new (memory) RecordHeader;
  header->rings.most_calls = room.calls;
  header->rings.most_others = room.others;
  header->rings.more_groups = room.groups;
  for (std::size_t i = 0; !is_trace && i < std::size_t{room.calls} + room.others; ++i) new (entries_of(header) + i) CallEntry;
  return header;
}

bool is_over(const CallEntry& entry) { return entry.state.load(std::memory_order_relaxed) >= static_cast<std::uint8_t>(CallState::done); }

}  // namespace

std::shared_ptr<Recorder> Recorder::make() {
  if (auto file = trace_file()) {
    if (auto trace = make_trace(std::move(file))) return trace;
    base::warn("no trace of the calls is kept: there is no room for it on the disk or in memory");
  }
  auto memory = inherited_memory(bytes_of_ring);
  if (!memory) memory = mapped(make_record_file(), bytes_of_ring);
  if (!memory) {
    base::debug("no memory file for the record of calls: it is kept in this process's own memory, where others cannot read it");
    return make_private();
  }
  return std::shared_ptr<Recorder>(new Recorder(std::move(memory), room_of_ring, -1));
}

std::shared_ptr<Recorder> Recorder::make_private() { return std::shared_ptr<Recorder>(new Recorder(own_memory(bytes_of_ring), room_of_ring, -1)); }

std::shared_ptr<Recorder> Recorder::make_trace(base::FileDescriptor file) {
  const int fd = file.get();
  const auto room = room_of_trace(fd);
  if (!room) return nullptr;
  const std::size_t first = record_bytes(0, 0, room->groups);
  const std::size_t chunk = trace_chunk * sizeof(CallEntry);
  if (!get_space(fd, first, chunk) || !get_space(fd, first + room->calls * sizeof(CallEntry), chunk)) return nullptr;
  auto memory = mapped(std::move(file), room->bytes());
  if (!memory) return nullptr;
  traces.store(true, std::memory_order_relaxed);
  return std::shared_ptr<Recorder>(new Recorder(std::move(memory), *room, fd));
}

Recorder::Recorder(std::shared_ptr<void> memory, const Room& room, int trace)
    : memory_(std::move(memory)),
      header_(make_header(memory_.get(), room, trace >= 0)),
      is_trace_(trace >= 0),
      uses_counter_(trace < 0 && has_steady_counter()),  // a trace is long, and the ranks' times are compared: all have the system's clock
      timed_from_(trace >= 0 ? 0 : timed_bytes),
      own_(*header_, trace, header_->rings.calls, room.calls, entries_of(header_)),
      others_(*header_, trace, header_->rings.others, room.others, own_.begin() + room.calls),
      others_mask_(room.others - 1),
      texts_(header_->texts),
      counter_(header_->counted) {
  header_->pid.store(static_cast<std::int32_t>(::getpid()));
  header_->life.store(base::own_life());
  header_->uses_counter.store(uses_counter_ ? 1 : 0);
  header_->clocks.first.ticks.store(now());
  header_->clocks.first.steady.store(steady_ns());
  header_->clocks.real_at_first.store(
      static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count()));
  header_->note_clock();
  header_->magic.store(record_magic, std::memory_order_release);
}

Recorder::~Recorder() { forget_for_signal(this); }

std::shared_ptr<Recorder> of_process() {
  struct Shared {
    std::mutex mutex;
    std::shared_ptr<Recorder> recorder;
  };
  static auto& shared = *new Shared;  // outlasts every static object that uses it
  const std::lock_guard lock(shared.mutex);
  if (!shared.recorder || shared.recorder->header().pid.load() != ::getpid()) shared.recorder = Recorder::make();
  return shared.recorder;
}

base::FileDescriptor make_record_file() { return base::make_memory_file(std::string(record_name).c_str(), bytes_of_ring).fd; }

void Recorder::set_identity(const Identity& identity) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(has_identity_, true)) return;
  header_->in_job.set(identity.rank, identity.size, identity.local_rank, identity.node);
  members_ = identity.members;
  header_->host.set(identity.host);
  header_->job.set(identity.job);
  header_->program.set(program());
  const auto folder = base::Environment::process().get(folder_variable);
  if (!folder || is_trace()) return;
  file_.prepare(*folder, file_name_of(identity.job, identity.rank, ::getpid()));
  if (file_.is_prepared()) dump_on_signal(this);
}

std::uint16_t Recorder::add_group(std::string_view name, int size, const World& world) {
  const std::lock_guard lock(mutex_);
  if (++groups_ == 0) groups_ = 1;
  header_->groups[groups_ % RecordHeader::most_groups].set(groups_, size, name, world.generation, world.rank);
  if (groups_ < header_->rings.more_groups) more_groups_of(header_)[groups_].set(groups_, size, name, world.generation, world.rank);
  counter_.add_group(groups_, name);
  return groups_;
}

std::vector<int> Recorder::ranks_of(std::span<const std::uint64_t> members) {
  const std::lock_guard lock(mutex_);
  std::vector<int> ranks;
  if (members_.empty()) return ranks;
  for (const std::uint64_t member : members) {
    const auto found = std::ranges::find(members_, member);
    ranks.push_back(found == members_.end() ? -1 : static_cast<int>(found - members_.begin()));
  }
  return ranks;
}

void Recorder::set_failure(std::string_view text) {
  {
    const std::lock_guard lock(mutex_);
    header_->failures.fetch_add(1, std::memory_order_relaxed);
    set_state(RankState::failed);
    if (!std::exchange(has_failed_, true)) header_->failure.set(text);
  }
  dump();
}

void Recorder::dump() noexcept {
  if (!file_.is_prepared() || header_->pid.load() != static_cast<std::int32_t>(::getpid())) return;  // a child of fork writes nothing of its parent
  header_->note_clock();
  file_.write(header_, bytes_of_ring);
}

Recorder::Call Recorder::open(const CallFacts& facts, CallState state, bool timed, bool queued) noexcept {
  if (!base::records_calls.load(std::memory_order_relaxed)) [[unlikely]]
    return {};
  const bool owner = is_owner();
  CallEntry* entry = nullptr;
  if (owner) {
    entry = own_.next();
    if ((++next_ & (calls_between_clocks - 1)) == 0) header_->note_clock();
  } else {
    entry = next_of_others();
  }
  constexpr auto relaxed = std::memory_order_relaxed;
  const std::uint8_t label = texts_.label(facts.label, owner);
  const std::uint16_t count = counter_.entry_of(facts.group, facts.operation, label);
  if (owner) {
    OwnCount& own = header_->counts.own[count];
    own.calls.store(own.calls.load(relaxed) + 1, relaxed);
    own.bytes.store(own.bytes.load(relaxed) + facts.bytes, relaxed);
  } else {
    header_->counts.shared[count].calls.fetch_add(1, relaxed);
    header_->counts.shared[count].bytes.fetch_add(facts.bytes, relaxed);
  }
  const std::uint32_t turn = entry->turn.load(relaxed);
  entry->turn.store(turn + 1, relaxed);                 // litmus: record-begin
#if !defined(__SANITIZE_THREAD__)                       // the thread sanitizer does not support fences
  std::atomic_thread_fence(std::memory_order_release);  // litmus: record-write-fence
#endif
  entry->group.store(facts.group, relaxed);
  entry->place.store(static_cast<std::uint8_t>(texts_.place(facts.where, owner)), relaxed);
  entry->count.store(static_cast<std::uint8_t>(count + 1), relaxed);
  entry->operation.store(static_cast<std::uint8_t>(facts.operation), relaxed);
  entry->label.store(label, relaxed);
  entry->dtype.store(static_cast<std::uint8_t>(facts.dtype), relaxed);
  entry->state.store(static_cast<std::uint8_t>(state), relaxed);
  entry->peer.store(facts.peer, relaxed);
  entry->sequence.store(facts.sequence, relaxed);  // litmus: record-write
  entry->bytes.store(facts.bytes, relaxed);
  const std::uint64_t at = timed ? now() : 0;
  entry->queued.store(queued ? at : 0, relaxed);
  entry->begun.store(state == CallState::queued ? 0 : at, relaxed);
  entry->done.store(0, relaxed);
  entry->waited_for.store(-1, relaxed);
  entry->count_or_tag.store(is_message(facts.operation) ? static_cast<std::uint32_t>(facts.tag) : 0, relaxed);
  entry->turn.store(turn + 2, std::memory_order_release);  // litmus: record-end
  if (owner) header_->next.store(next_, std::memory_order_release);
  return {entry, turn + 2, count};
}

CallEntry* Recorder::next_of_others() noexcept {
  if (!is_trace()) return others_.begin() + (header_->next_of_others.fetch_add(1, std::memory_order_relaxed) & others_mask_);
  const std::lock_guard lock(others_mutex_);
  CallEntry* const entry = others_.next();
  header_->next_of_others.fetch_add(1, std::memory_order_release);
  return entry;
}

void Recorder::run(const Call& call) noexcept {
  if (!belongs(call)) return;
  call.entry->begun.store(now(), std::memory_order_relaxed);
  call.entry->state.store(static_cast<std::uint8_t>(CallState::running), std::memory_order_relaxed);
}

void Recorder::wait(const Call& call, int first, std::size_t ranks) noexcept {
  if (!belongs(call)) return;
  CallEntry& entry = *call.entry;
  if (is_over(entry)) return;  // on the device alone, or in the wake of a failure
  if (entry.begun.load(std::memory_order_relaxed) == 0) entry.begun.store(now(), std::memory_order_relaxed);
  entry.waited_for.store(first, std::memory_order_relaxed);
  if (!is_message(static_cast<Operation>(entry.operation.load(std::memory_order_relaxed))))
    entry.count_or_tag.store(static_cast<std::uint32_t>(ranks), std::memory_order_relaxed);
  entry.state.store(static_cast<std::uint8_t>(CallState::waiting), std::memory_order_relaxed);
  header_->note_clock();
}

// An asynchronous call counts the time in which the program waited as well. Calls that overlap (asynchronous ones, and the two of a send_recv) count
// each moment once; a blocking call of another thread waits beside them.
std::uint64_t Recorder::waited_in(const CallEntry& entry, std::uint64_t at) noexcept {
  constexpr auto relaxed = std::memory_order_relaxed;
  std::uint64_t from = entry.begun.load(relaxed);
  const bool is_direct = entry.queued.load(relaxed) == 0;
  if (!is_direct) {
    const std::uint64_t since = header_->program_waits_since.load(relaxed);
    if (since == 0) return 0;
    from = std::max(from, since);
  }
  if (!is_direct || &entry < others_.begin()) from = std::max(from, counted_until_.exchange(at, relaxed));
  return at - std::min(at, from);
}

void Recorder::end(const Call& call, bool went_well) noexcept {
  if (!belongs(call)) return;
  CallEntry& entry = *call.entry;
  if (is_over(entry)) return;
  const std::uint64_t at = now();
  if (entry.state.load(std::memory_order_relaxed) == static_cast<std::uint8_t>(CallState::waiting))
    header_->counts.shared[call.count].waited_ticks.fetch_add(waited_in(entry, at), std::memory_order_relaxed);
  if (!went_well) header_->counts.shared[call.count].failures.fetch_add(1, std::memory_order_relaxed);
  entry.done.store(at, std::memory_order_relaxed);
  entry.state.store(static_cast<std::uint8_t>(went_well ? CallState::done : CallState::failed), std::memory_order_release);
}

}  // namespace unisono::recorder
