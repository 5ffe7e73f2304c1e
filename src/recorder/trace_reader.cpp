#include "recorder/trace_reader.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/files.h"
#include "unisono/operation.h"

namespace unisono::recorder {
namespace {

constexpr auto any_order = std::memory_order_relaxed;

/// Returns nothing for an entry that is being given to another call.
std::optional<TracedCall> call_of(const CallEntry& entry, bool of_owner) {
  const std::uint32_t turn = entry.turn.load(std::memory_order_acquire);
  if (turn == 0 || turn % 2 != 0) return std::nullopt;
  TracedCall call{.queued = entry.queued.load(any_order),
                  .begun = entry.begun.load(any_order),
                  .done = entry.done.load(any_order),
                  .sequence = entry.sequence.load(any_order),
                  .bytes = entry.bytes.load(any_order),
                  .group = entry.group.load(any_order),
                  .place = entry.place.load(any_order),
                  .operation = entry.operation.load(any_order),
                  .label = entry.label.load(any_order),
                  .dtype = entry.dtype.load(any_order),
                  .state = static_cast<CallState>(entry.state.load(std::memory_order_acquire)),
                  .peer = entry.peer.load(any_order),
                  .waited_for = entry.waited_for.load(any_order),
                  .of_owner = of_owner};
#if !defined(__SANITIZE_THREAD__)  // the thread sanitizer does not support fences
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
  if (entry.turn.load(any_order) != turn) return std::nullopt;
  if (call.begun == 0) call.begun = call.queued != 0 ? call.queued : call.done;
  return call;
}

}  // namespace

std::unique_ptr<TraceReader> TraceReader::open(const std::string& path) {
  const base::FileDescriptor file = base::open_to_read(path);
  if (!file) return nullptr;
  auto memory = map_record(file);
  return memory ? std::unique_ptr<TraceReader>(new TraceReader(std::move(memory))) : nullptr;
}

std::uint64_t TraceReader::lost() const {
  const auto beyond = [](std::uint64_t calls, std::uint64_t room) { return calls - std::min(calls, room); };
  return beyond(header().next.load(any_order), header().rings.calls.load(any_order)) +
         beyond(header().next_of_others.load(any_order), header().rings.others.load(any_order));
}

void TraceReader::each(const std::function<void(const TracedCall&)>& visit) const {
  const auto visit_ring = [&](const CallEntry* ring, std::uint64_t next, std::uint64_t size, bool of_owner) {
    for (std::uint64_t i = next - std::min(next, size); i < next; ++i) {
      if (const auto call = call_of(ring[i % size], of_owner); call && call->begun != 0) visit(*call);
    }
  };
  const RecordHeader& record = header();
  visit_ring(entries_of(&record), record.next.load(std::memory_order_acquire), record.rings.calls.load(std::memory_order_acquire), true);
  visit_ring(entries_of_others(&record), record.next_of_others.load(std::memory_order_acquire), record.rings.others.load(std::memory_order_acquire),
             false);
}

std::vector<GroupSeen> TraceReader::groups() const {
  std::vector<GroupSeen> groups;
  const RecordHeader::GroupText* const texts = more_groups_of(const_cast<RecordHeader*>(&header()));
  for (std::uint32_t i = 1; i < header().rings.more_groups; ++i) {
    if (const std::uint16_t number = texts[i].number.load(std::memory_order_acquire); number == i)
      groups.push_back({.number = number,
                        .size = static_cast<int>(texts[i].size.load(any_order)),
                        .name = texts[i].name.get(),
                        .name_hash = texts[i].name_hash.load(any_order),
                        .generation = texts[i].generation.load(any_order),
                        .own_rank = texts[i].own_rank.load(any_order)});
  }
  return groups;
}

bool TraceReader::may_have_messages(std::string_view group) const {
  const RecordHeader& record = header();
  for (std::size_t i = 0; i <= CountTable::most_counts; ++i) {
    if (record.counts.calls(i) == 0) continue;
    if (i == CountTable::most_counts) return true;  // of any kind
    const CountKey key = record.counted.key(i);
    if (!is_message(static_cast<Operation>(key.operation))) continue;
    if (key.group == 0 || key.group >= CountTable::most_groups) return true;  // of a group that is not counted alone
    const std::string name = record.counted.groups[key.group].get();
    if (name == group || (group.size() >= RecordHeader::GroupText::longest_name && name.starts_with(group))) return true;
  }
  return false;
}

std::string TraceReader::place(std::uint16_t number) const { return header().texts.place(number); }

std::string TraceReader::label(std::uint8_t number) const { return header().texts.label(number); }

std::string TraceReader::operation(const TracedCall& call) const {
  return header().texts.operation(call.label, static_cast<std::uint8_t>(call.operation));
}

}  // namespace unisono::recorder
