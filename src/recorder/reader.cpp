#include "recorder/reader.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <new>
#include <set>
#include <system_error>
#include <utility>

#include "base/files.h"
#include "recorder/ticks.h"
#include "recorder/trace_file.h"

namespace unisono::recorder {
namespace {

constexpr auto relaxed = std::memory_order_relaxed;

/// Returns true where a file of that size is a record of this version.
bool is_record(const RecordHeader& header, std::size_t bytes) {
  if (header.magic.load(std::memory_order_acquire) != record_magic) return false;
  const RingSizes& rings = header.rings;
  return rings.are_sound() && record_bytes(rings.most_calls, rings.most_others, rings.more_groups) <= bytes;
}

/// Returns a group's text; null where a later group has taken its place.
const RecordHeader::GroupText* group_text(const RecordHeader& record, std::uint16_t number) {
  const RecordHeader::GroupText& text = record.groups[number % RecordHeader::most_groups];
  return text.number.load(std::memory_order_acquire) == number ? &text : nullptr;
}

std::uint32_t group_size(const RecordHeader& record, std::uint16_t number) {
  const auto* const text = group_text(record, number);
  return text == nullptr ? 2 : std::max(text->size.load(relaxed), 2U);
}

/// Returns the group's name. All members make their groups of a generation in one order, so that the second one of a name is the same on all of them.
std::string group_name(const RecordHeader& record, std::uint16_t number) {
  const auto* const text = group_text(record, number);
  if (text == nullptr) return "an earlier group";
  const std::uint16_t generation = text->generation.load(relaxed);
  std::string name = text->name.get() + (generation > 1 ? " of generation " + std::to_string(generation) : "");
  if (number >= RecordHeader::most_groups) return name;  // others of the name may be forgotten
  int same = 1;
  for (const RecordHeader::GroupText& other : record.groups) {
    const std::uint16_t earlier = other.number.load(std::memory_order_acquire);
    same += earlier != 0 && earlier < number && other.name_hash.load(relaxed) == text->name_hash.load(relaxed) &&
                    other.size.load(relaxed) == text->size.load(relaxed) && other.generation.load(relaxed) == generation
                ? 1
                : 0;
  }
  return name + (same == 1 ? "" : " (" + std::to_string(same) + ")");
}

RankSeen::Last last_generation(const RecordHeader& record) {
  RankSeen::Last last;
  for (const RecordHeader::GroupText& text : record.groups) {
    const std::uint16_t generation = text.generation.load(relaxed);
    if (text.number.load(std::memory_order_acquire) == 0 || generation == 0 || generation < last.generation) continue;
    last.generation = generation;
    last.rank = text.own_rank.load(relaxed);
    if (text.name.get() == "world") last.size = static_cast<int>(text.size.load(relaxed));
  }
  return last;
}

/// Takes a time of a file, which may hold any numbers.
std::uint64_t whole_ns(double ns) {
  constexpr double most = 9.2e18;
  return ns > 0 ? static_cast<std::uint64_t>(std::min(ns, most)) : 0;
}

std::uint64_t latest_time(const CallSeen& call) { return std::max({call.queued, call.begun, call.done}); }

}  // namespace

std::shared_ptr<const void> map_record(const base::FileDescriptor& file) {
  struct stat about {};
  if (::fstat(file.get(), &about) != 0) return nullptr;
  const auto bytes = static_cast<std::size_t>(about.st_size);
  if (bytes < sizeof(RecordHeader)) return nullptr;
  void* const address = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.get(), 0);
  if (address == MAP_FAILED) return nullptr;
  auto memory = std::shared_ptr<const void>(address, [bytes](const void* mapped) { ::munmap(const_cast<void*>(mapped), bytes); });
  return is_record(*static_cast<const RecordHeader*>(memory.get()), bytes) ? memory : nullptr;
}

std::unique_ptr<RecordReader> RecordReader::open(const base::FileDescriptor& file) {
  auto memory = map_record(file);
  return memory ? std::make_unique<RecordReader>(std::move(memory)) : nullptr;
}

std::optional<RecordCopy> copy_of(const base::FileDescriptor& file) {
  constexpr std::size_t most = record_bytes(1U << 16, 1U << 16);  // a file may claim anything
  struct stat about {};
  if (::fstat(file.get(), &about) != 0) return std::nullopt;
  const auto bytes = static_cast<std::size_t>(about.st_size);
  if (bytes < sizeof(RecordHeader) || bytes > most) return std::nullopt;
  constexpr std::align_val_t alignment{alignof(RecordHeader)};
  RecordCopy copy{.memory = {::operator new(bytes, alignment), [](void* memory) { ::operator delete(memory, alignment); }}, .bytes = bytes};
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t got = ::pread(file.get(), static_cast<char*>(copy.memory.get()) + done, bytes - done, static_cast<off_t>(done));
    if (got <= 0) return std::nullopt;
    done += static_cast<std::size_t>(got);
  }
  if (!is_record(*static_cast<const RecordHeader*>(copy.memory.get()), bytes)) return std::nullopt;
  return copy;
}

std::unique_ptr<RecordReader> RecordReader::open_copy(const std::string& path) {
  const base::FileDescriptor file = base::open_to_read(path);
  if (!file) return nullptr;
  auto copy = copy_of(file);
  return copy ? std::make_unique<RecordReader>(std::move(copy->memory), Kind::copy) : nullptr;
}

// The rank's two clocks are known at its beginning and at a later moment. While it runs under this kernel the later moment is now.
std::uint64_t RecordReader::steady_of(std::uint64_t ticks) const {
  if (ticks == 0) return 0;
  const RecordHeader& record = header();
  if (record.uses_counter.load(relaxed) == 0) return ticks;
  const bool lives = kind_ == Kind::lives;
  const auto first_ticks = static_cast<double>(record.clocks.first.ticks.load(relaxed));
  const auto first_steady = static_cast<double>(record.clocks.first.steady.load(relaxed));
  const double ticks_passed = static_cast<double>(lives ? counter() : record.clocks.last.ticks.load(relaxed)) - first_ticks;
  if (ticks_passed <= 0) return record.clocks.first.steady.load(relaxed);
  const double rate = (static_cast<double>(lives ? steady_ns() : record.clocks.last.steady.load(relaxed)) - first_steady) / ticks_passed;
  return whole_ns(first_steady + (static_cast<double>(ticks) - first_ticks) * rate);
}

std::optional<CallSeen> RecordReader::call_at(const CallEntry& entry) const {
  const std::uint32_t turn = entry.turn.load(std::memory_order_acquire);  // litmus: record-turn
  if (turn == 0 || turn % 2 != 0) return std::nullopt;
  const RecordHeader& record = header();
  CallSeen call;
  call.state = static_cast<CallState>(entry.state.load(std::memory_order_acquire));
  const std::uint16_t group = entry.group.load(relaxed);
  call.group = group_name(record, group);
  if (const auto* const text = group_text(record, group)) call.generation = text->generation.load(relaxed);
  call.place = record.texts.place(entry.place.load(relaxed));
  call.count = int{entry.count.load(relaxed)} - 1;
  call.operation = record.texts.operation(entry.label.load(relaxed), entry.operation.load(relaxed));
  call.kind = static_cast<Operation>(entry.operation.load(relaxed));
  call.dtype = static_cast<DType>(entry.dtype.load(relaxed));
  call.sequence = entry.sequence.load(relaxed);  // litmus: record-read
  call.bytes = entry.bytes.load(relaxed);
  call.peer = entry.peer.load(relaxed);
  call.queued = steady_of(entry.queued.load(relaxed));
  call.begun = steady_of(entry.begun.load(relaxed));
  call.done = steady_of(entry.done.load(relaxed));
  call.waited_for = entry.waited_for.load(relaxed);
  const std::uint32_t count_or_tag = entry.count_or_tag.load(relaxed);
  if (is_message(call.kind)) {
    call.tag = static_cast<int>(count_or_tag);
    call.waited_count = call.waited_for < 0 ? 0 : call.peer >= 0 ? 1 : group_size(record, group) - 1;
  } else {
    call.waited_count = count_or_tag;
  }
#if !defined(__SANITIZE_THREAD__)                       // the thread sanitizer does not support fences
  std::atomic_thread_fence(std::memory_order_acquire);  // litmus: record-read-fence
#endif
  if (entry.turn.load(relaxed) != turn) return std::nullopt;  // litmus: record-again. It was given to another call meanwhile
  return call;
}

RecordReader::Counts RecordReader::counts() const {
  const RecordHeader& record = header();
  Counts counts;
  counts.places.fill(-1);
  for (std::size_t i = 0; i <= CountTable::most_counts; ++i) {
    const SharedCount& shared = record.counts.shared[i];
    CountSeen count;
    count.calls = record.counts.calls(i);
    count.bytes = record.counts.bytes(i);
    count.failures = shared.failures.load(relaxed);
    if (count.calls == 0) continue;
    const std::uint64_t waited = shared.waited_ticks.load(relaxed);
    const std::uint64_t since = record.clocks.first.steady.load(relaxed);
    if (waited != 0) count.waited = std::max(steady_of(record.clocks.first.ticks.load(relaxed) + waited), since) - since;
    if (i < CountTable::most_counts) {
      const CountKey key = record.counted.key(i);
      count.group = record.counted.groups[key.group % CountTable::most_groups].get();
      count.operation = record.texts.operation(key.label, key.operation);
    }
    // Several labels may have one text.
    const auto same =
        std::ranges::find_if(counts.seen, [&](const CountSeen& each) { return each.group == count.group && each.operation == count.operation; });
    counts.places[i] = static_cast<int>(same - counts.seen.begin());
    if (same == counts.seen.end()) {
      counts.seen.push_back(std::move(count));
      continue;
    }
    same->add(count);
    same->failures += count.failures;
  }
  return counts;
}

RankSeen RecordReader::read(std::size_t wanted) const {
  constexpr std::size_t most_of_trace = 2048;
  const RecordHeader& record = header();
  const std::size_t most = record.rings.more_groups == 0 ? wanted : std::min(wanted, most_of_trace);
  RankSeen seen;
  seen.pid = record.pid.load(relaxed);
  seen.life = record.life.load(relaxed);
  seen.rank = record.in_job.rank.load(relaxed);
  seen.size = record.in_job.size.load(relaxed);
  seen.last = last_generation(record);
  seen.node = record.in_job.node.load(relaxed);
  seen.state = static_cast<RankState>(record.state.load(relaxed));
  seen.host = record.host.get();
  seen.job = record.job.get();
  seen.program = record.program.get();
  seen.failure = record.failure.get();
  seen.failures = record.failures.load(relaxed);
  seen.began = record.clocks.first.steady.load(relaxed);
  seen.real_at_began = record.clocks.real_at_first.load(relaxed);
  seen.is_copy = kind_ == Kind::copy;
  seen.now = seen.is_copy ? record.clocks.last.steady.load(relaxed) : steady_ns();
  seen.program_waits_since = steady_of(record.program_waits_since.load(relaxed));
  auto [its_counts, count_places] = counts();
  seen.counts = std::move(its_counts);
  for (const CountSeen& count : seen.counts) seen.add(count);
  const std::uint64_t own = record.next.load(std::memory_order_acquire), others = record.next_of_others.load(std::memory_order_acquire);
  seen.calls = own + others;  // with those that begin just now
  const auto last_of = [&](const CallEntry* ring, std::uint64_t next, std::uint64_t size) {
    std::vector<CallSeen> calls;
    for (std::uint64_t i = next - std::min({next, size, std::uint64_t{most}}); i < next; ++i) {
      if (auto call = call_at(ring[i % size])) calls.push_back(std::move(*call));
    }
    // A small call has no time of its own before it is done: it lies behind the one before it.
    std::uint64_t last = 0;
    std::vector<std::pair<std::uint64_t, CallSeen>> timed;
    for (CallSeen& call : calls) {
      const std::uint64_t began = call.queued != 0 ? call.queued : call.begun != 0 ? call.begun : latest_time(call);
      last = std::max(last, began);
      timed.emplace_back(last, std::move(call));
    }
    return timed;
  };
  auto calls = last_of(entries_of(&record), own, record.rings.calls.load(std::memory_order_acquire));
  auto of_others = last_of(entries_of_others(&record), others, record.rings.others.load(std::memory_order_acquire));
  std::vector<std::pair<std::uint64_t, CallSeen>> all;
  std::ranges::merge(calls, of_others, std::back_inserter(all), {}, &decltype(all)::value_type::first, &decltype(all)::value_type::first);
  if (all.size() > most) all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(most));
  for (auto& [time, call] : all) {
    const bool is_number = call.count >= 0 && call.count < static_cast<int>(count_places.size());
    call.count = is_number ? count_places[static_cast<std::size_t>(call.count)] : -1;
    seen.recent.push_back(std::move(call));
  }
  return seen;
}

namespace {

using Files = std::set<std::pair<dev_t, ino_t>>;  // that have been looked at

/// Calls `take` with each record among the descriptors of a process, until that returns true.
template <class Take>
void look_for_records(const std::filesystem::path& process, Files& seen, const Take& take) {
  const std::string wanted = "/memfd:" + std::string(record_name);
  std::error_code ignored;
  for (std::filesystem::directory_iterator file(process / "fd", ignored), end; !ignored && file != end; file.increment(ignored)) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(file->path(), gone).native();
    if (gone || !(target.starts_with(wanted) || target.ends_with(trace_ending))) continue;
    // Nothing but a file of this user is opened: root would read what others have made up, and wait where somebody holds a pipe of that name.
    struct stat about {};
    if (::stat(file->path().c_str(), &about) != 0 || !S_ISREG(about.st_mode) || about.st_uid != ::geteuid()) continue;
    if (!seen.emplace(about.st_dev, about.st_ino).second) continue;
    const base::FileDescriptor opened(::open(file->path().c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!opened) continue;
    if (auto reader = RecordReader::open(opened); reader && take(std::move(reader))) return;
  }
}

}  // namespace

std::unique_ptr<RecordReader> find_record(pid_t process) {
  std::unique_ptr<RecordReader> found;
  Files seen;
  look_for_records("/proc/" + std::to_string(process), seen, [&](std::unique_ptr<RecordReader> reader) {
    if (reader->process() != process) return false;  // of a rank that it has started
    found = std::move(reader);
    return true;
  });
  return found;
}

std::vector<std::unique_ptr<RecordReader>> find_records() {
  std::vector<std::unique_ptr<RecordReader>> found;
  Files seen;
  std::error_code ignored;
  for (const auto& process : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = process.path().filename();
    if (name.empty() || name.find_first_not_of("0123456789") != std::string::npos) continue;
    look_for_records(process.path(), seen, [&](std::unique_ptr<RecordReader> reader) {
      found.push_back(std::move(reader));
      return false;
    });
  }
  return found;
}

}  // namespace unisono::recorder
