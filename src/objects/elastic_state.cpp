// The state that all members of an elastic job have alike, and the loop of such a job.
//
//   1. a line of each member: its step, and a hash of what its state lists
//   2. the objects of the member with the most steps, in one message
//   3. each of its buffers, into memory beside the receiver's own
//   4. on each member by itself: all of it takes the place of the old state, or nothing
//
// A source that dies in between leaves some members with its state and the others with their own. Both are whole, and the next call goes by the step.
#include "unisono/elastic.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <span>

#include <fmt/format.h>

#include "base/hash.h"
#include "group/calls/composed.h"
#include "group/group.h"
#include "kernels/pack.h"
#include "objects/lines.h"
#include "unisono/collectives.h"
#include "unisono/detail/object_bytes.h"
#include "unisono/detail/object_exchange.h"
#include "unisono/error.h"

namespace unisono {

struct ElasticState::Entries {
  struct BufferEntry {
    std::string name;
    std::function<TensorView()> view;
    std::function<void(bool)> done;
  };
  struct ObjectEntry {
    std::string name;
    std::string type;  // empty: bytes of the program's own
    Write write;
    Read read;
  };
  std::vector<BufferEntry> buffers;
  std::vector<ObjectEntry> objects;
};

ElasticState::ElasticState() : entries_(std::make_unique<Entries>()) {}
ElasticState::~ElasticState() = default;

ElasticState& ElasticState::buffer(std::string name, std::function<TensorView()> view, std::function<void(bool)> done) {
  entries_->buffers.push_back({std::move(name), std::move(view), std::move(done)});
  return *this;
}
ElasticState& ElasticState::bytes(std::string name, Write write, Read read) {
  entries_->objects.push_back({std::move(name), {}, std::move(write), std::move(read)});
  return *this;
}
ElasticState& ElasticState::object(std::string name, const detail::ObjectType& type, Write write, Read read) {
  entries_->objects.push_back({std::move(name), type.name, std::move(write), std::move(read)});
  return *this;
}

namespace {

using Entries = ElasticState::Entries;
using ObjectBytes = std::vector<std::vector<std::byte>>;

constexpr std::string_view synchronize_label = "synchronize";

/// The names of what a state lists, each with a description.
std::vector<std::string> table_of(const Entries& entries, std::span<const TensorView> views) {
  std::vector<std::string> table;
  for (std::size_t i = 0; i < views.size(); ++i) {
    table.push_back(fmt::format("buffer \"{}\" of {} {}", entries.buffers[i].name, views[i].numel(), to_string(views[i].dtype())));
  }
  for (const auto& entry : entries.objects) {
    table.push_back(entry.type.empty() ? fmt::format("bytes \"{}\"", entry.name) : fmt::format("object \"{}\" ({})", entry.name, entry.type));
  }
  return table;
}

std::uint64_t hash_of(const std::vector<std::string>& table) {
  base::StableHash hash;
  for (const std::string& line : table) {
    hash.add(line.size());
    hash.add(line);
  }
  return hash.value();
}

std::string first_difference(const std::vector<std::string>& here, const std::vector<std::string>& there, int rank) {
  for (std::size_t i = 0; i < std::max(here.size(), there.size()); ++i) {
    if (i >= there.size()) return fmt::format("{} is here, but not on rank {}", here[i], rank);
    if (i >= here.size()) return fmt::format("{} is on rank {}, but not here", there[i], rank);
    if (here[i] != there[i]) return fmt::format("{} is here, and {} on rank {}", here[i], there[i], rank);
  }
  return fmt::format("the state of rank {} is not that of this rank", rank);
}

/// The elements of all buffers, and the first reason why this rank cannot take part.
struct Views {
  std::vector<TensorView> all = {};
  std::exception_ptr fault = {};
};

std::exception_ptr device_among(const Entries& entries, std::span<const TensorView> views) {
  for (std::size_t i = 0; i < views.size(); ++i) {
    if (views[i].device() == Device{}) continue;
    return std::make_exception_ptr(Unsupported(fmt::format("buffer \"{}\" lies on a device", entries.buffers[i].name),
                                               {.operation = std::string(synchronize_label), .hint = "copy it to the host for the call"}));
  }
  return nullptr;
}

Views views_of(const Entries& entries) {
  Views views;
  try {
    for (const auto& entry : entries.buffers) views.all.push_back(entry.view());
    views.fault = device_among(entries, views.all);
  } catch (...) {
    views.fault = std::current_exception();
  }
  return views;
}

/// Compares what the members list, and returns the rank whose state counts, with its step.
std::pair<int, std::int64_t> choose_source(group::Composed& call, const ElasticState& state, const Views& views) {
  enum Item : std::size_t { step, hash };
  const auto table = table_of(state.entries(), views.all);
  const objects::Lines lines(call, {static_cast<std::uint64_t>(state.step), hash_of(table)}, views.fault);
  lines.nobody_failed();  // whose table may be a part
  if (const auto found = lines.difference_in(hash)) {
    const detail::ByteParts all = detail::all_gather_parcels(call.name(), detail::object_type<std::vector<std::string>>(), {detail::to_bytes(table)},
                                                             call.group(), call.options());
    const auto theirs = detail::from_bytes<std::vector<std::string>>(all[static_cast<std::size_t>(found->other)]);
    call.throw_mismatch(*found, first_difference(table, theirs, found->other));
  }
  int source = 0;
  for (int r = 1; r < call.group().size(); ++r) {
    if (static_cast<std::int64_t>(lines.of(r, step)) > static_cast<std::int64_t>(lines.of(source, step))) source = r;
  }
  return {source, static_cast<std::int64_t>(lines.of(source, step))};
}

/// The functions that make the source's objects a rank's own, or the reason why the rank cannot read them.
struct Takings {
  std::vector<std::function<void()>> all = {};
  std::exception_ptr error = {};
};

/// The objects of the source, which it writes and the others read.
Takings take_objects(group::Composed& call, const Entries& entries, int source) {
  Takings takings;
  if (entries.objects.empty()) return takings;
  const bool is_source = call.group().rank() == source;
  ObjectBytes written;
  detail::Parcel own;
  if (std::ranges::any_of(entries.objects, [](const auto& entry) { return entry.type.find(detail::python_object) != std::string::npos; })) {
    own.error = detail::why_no_pickles(call.group());
  }
  if (is_source && !own.error) {
    own = detail::make_parcel([&] {
      for (const auto& entry : entries.objects) written.push_back(entry.write());
      return detail::to_bytes(written);
    });
  }
  const auto bytes = detail::broadcast_parcel(call.name(), detail::object_type<ObjectBytes>(), std::move(own), source, call.group(), call.options());
  if (is_source) return takings;
  try {
    written = detail::from_bytes<ObjectBytes>(bytes);
    if (written.size() != entries.objects.size()) throw ProtocolError("the source's state has another number of objects");
    for (std::size_t i = 0; i < written.size(); ++i) takings.all.push_back(entries.objects[i].read(written[i]));
  } catch (...) {
    takings.error = std::current_exception();
  }
  return takings;
}

/// Brings the source's buffers into memory beside the own ones. `error`: why this rank cannot take the state, if so.
std::vector<std::vector<std::byte>> take_buffers(group::Composed& call, std::span<const TensorView> views, int source, std::exception_ptr error) {
  const bool is_source = call.group().rank() == source;
  std::vector<std::vector<std::byte>> beside(views.size());
  try {
    for (std::size_t i = 0; i < views.size(); ++i) {
      if (!is_source || !views[i].is_contiguous()) beside[i].resize(views[i].bytes());
      if (is_source && !views[i].is_contiguous()) kernels::pack(beside[i].data(), views[i]);
    }
  } catch (...) {  // this rank has no memory for it
    error = std::current_exception();
  }
  objects::Lines(call, {0}, error).nobody_failed();
  for (std::size_t i = 0; i < views.size(); ++i) {
    void* const elements = is_source && views[i].is_contiguous() ? views[i].data() : beside[i].data();
    const TensorView line(elements, views[i].dtype(), static_cast<std::size_t>(views[i].numel()));
    detail::run(detail::labelled(detail::rooted({Operation::broadcast, line, line}, source), call.name()), call.group(), call.options());
  }
  return beside;
}

}  // namespace

int synchronize(ElasticState& state, const ProcessGroup& group, std::source_location where) {
  group::Composed call(synchronize_label, group, {.where = where});
  const Views views = views_of(state.entries());
  const auto [source, step] = choose_source(call, state, views);
  const Takings takings = take_objects(call, state.entries(), source);
  const auto beside = take_buffers(call, views.all, source, takings.error);
  const bool has_changed = group.rank() != source;
  if (has_changed) {
    for (const auto& take : takings.all) take();
    for (std::size_t i = 0; i < views.all.size(); ++i) {
      if (views.all[i].numel() > 0) kernels::unpack(views.all[i], beside[i].data());
    }
  }
  for (const auto& entry : state.entries().buffers) {
    if (entry.done) entry.done(has_changed);
  }
  state.step = step;
  return source;
}

ProcessGroup run_elastic(ElasticState& state, const std::function<bool(const ProcessGroup&)>& step, std::source_location where) {
  ProcessGroup group = world();
  bool has_failed = false, has_changed = true;
  for (int failures = 0;;) {
    try {
      if (has_failed) {
        const auto left = shrink_group(group, where);
        if (!left) throw Timeout("the others have gone on without this rank", {.operation = "run_elastic", .group = group.name()}, {});
        if (left->size() < group.size()) failures = 0;
        group = *left;
        has_failed = false;
        has_changed = true;
      }
      if (has_changed) synchronize(state, group, where);
      has_changed = false;
      if (newcomers_waiting(group, where)) {
        group = grow_group(group, where);
        has_changed = true;
        continue;
      }
      if (!step(group)) return group;
      failures = 0;
    } catch (const PeerFailed& lost) {
      // Where failures in a row cost no member, it is not the members that fail.
      if (++failures > group.size() + 1) throw;
      has_failed = true;
      // The step may have met the loss in a group of its own, as a model has one. The group of all ends too, so that all members come to
      // shrink_group.
      if (!group.implementation()->errors().has_lost_a_member()) group.abort(lost.message());
    }
  }
}

}  // namespace unisono
