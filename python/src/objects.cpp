// Objects between ranks: each call compares what the ranks bring, then moves heads and bodies (see pickling.h).

#include "calls.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "docs/objects.h"
#include "failure.h"
#include "module.h"
#include "signals.h"
#include "pickling.h"
#include "unisono/detail/bytes.h"
#include "unisono/detail/object_exchange.h"
#include "unisono/detail/object_stream.h"
#include "unisono/detail/request.h"
#include "unisono/objects.h"

namespace unisono::python {
namespace {

using namespace nb::literals;

/// A call on objects has a name, a group, a seal, and what is left of its time.
class Exchange {
 public:
  Exchange(const char* label, std::optional<Rank> root, const Trailing& trailing)
      : label_(label),
        root_(root),
        group_(trailing.group),
        options_(trailing.options),
        seal_(label, root, group_),
        refusal_(detail::why_no_pickles(group_)) {}

  /// The object as it travels; of a rank that sends none: nothing. Or why there is none.
  Pickled pickled(nb::handle object, bool sends) const { return refusal_ || !sends ? Pickled(refusal_) : Pickled(object); }
  detail::ObjectSize size_of(const Pickled& object, int receiver = detail::ObjectSeal::everyone) {
    const Unlocked unlocked;
    detail::ObjectSize size{.bytes = object.head().size() + object.body_size(), .head = object.head().size()};
    if (number_ == 0) number_ = seal_.take_number();
    size.codes = {.number = number_, .head = seal_.code(number_, detail::ObjectSeal::head, object.head(), receiver), .body = {}};
    if (!object.segments().empty()) size.codes.body = seal_.code(number_, detail::ObjectSeal::body, object.segments(), receiver);
    return size;
  }
  std::vector<detail::ObjectSize> compare(const detail::ObjectSize& own, const std::exception_ptr& error) {
    const Unlocked unlocked;
    return detail::compare_objects(label_, python_object_type(), root_, own, error, group_, options_);
  }
  /// Both before what they are about is looked at.
  void check_head(std::size_t sender, const detail::ObjectCodes& codes, std::span<const std::byte> head,
                  int receiver = detail::ObjectSeal::everyone) {
    const Unlocked unlocked;
    seal_.check(static_cast<int>(sender), codes.number, detail::ObjectSeal::head, head, codes.head, receiver);
    seal_.check_number(static_cast<int>(sender), codes.number);
  }
  void check_body(std::size_t sender, const detail::ObjectCodes& codes, const Segments& segments, int receiver = detail::ObjectSeal::everyone) {
    if (segments.empty()) return;  // as the head says, which was checked
    const Unlocked unlocked;
    seal_.check(static_cast<int>(sender), codes.number, detail::ObjectSeal::body, segments, codes.body, receiver);
  }
  void run(detail::Request request) {
    request.label = label_;
    const Unlocked unlocked;
    detail::run(request, group_, options_);
  }
  void broadcast(const TensorView& bytes) { run({.operation = Operation::broadcast, .in = bytes, .out = bytes, .root = root_}); }
  const ProcessGroup& group() const { return group_; }
  /// Memory that this rank needs; where there is none, the others must not wait.
  nb::object allocate(std::size_t n) {
    try {
      return new_bytearray(n);
    } catch (nb::python_error& error) {
      const Raised raised(error);
      const Unlocked unlocked;
      detail::abandon(group_, std::make_exception_ptr(raised));
      throw raised;
    }
  }

 private:
  const char* label_;
  std::optional<Rank> root_;
  const ProcessGroup& group_;
  CallOptions options_;
  detail::ObjectSeal seal_;
  std::exception_ptr refusal_;
  std::uint64_t number_ = 0;
};

/// Of all ranks: where each one's part lies among those of the others.
struct Parts {
  std::vector<std::size_t> heads, bodies;
  explicit Parts(const std::vector<detail::ObjectSize>& sizes) {
    for (const auto& size : sizes) {
      heads.push_back(size.head);
      bodies.push_back(size.bytes - size.head);
    }
  }
};

}  // namespace

nb::object gather_all(const char* label, nb::handle x, std::optional<Rank> dst, const Trailing& trailing) {
  Exchange exchange(label, dst, trailing);
  const Pickled own = exchange.pickled(x, true);
  const auto sizes = exchange.compare(exchange.size_of(own), own.error());
  const Parts parts(sizes);
  const bool has_result = !dst || detail::rank_is(*dst, trailing.group);
  const auto rank = static_cast<std::size_t>(trailing.group.rank());
  const Counts heads(parts.heads), bodies(parts.bodies);
  const Operation operation = dst ? Operation::gather_v : Operation::all_gather_v;

  std::vector<std::byte> all_heads(has_result ? heads.total() : 0);
  exchange.run({.operation = operation, .in = line(own.head()), .out = line(all_heads), .root = dst, .counts = heads});
  nb::object memory = new_bytearray(0);
  if (bodies.total() > 0) {
    std::vector<std::byte> packed;
    TensorView in = line(packed);
    if (has_result) {  // its own part is packed where it belongs
      memory = exchange.allocate(bodies.total());
      std::byte* const place = data_of(memory) + bodies.before(rank);
      own.pack(place);
      in = line(place, own.body_size());
    } else if (own.segments().size() == 1 && own.segments().front().size() == own.body_size()) {
      in = line(own.segments().front());
    } else {
      packed.resize(own.body_size());
      own.pack(packed.data());
      in = line(packed);
    }
    const TensorView out = has_result ? line(data_of(memory), bodies.total()) : detail::nothing();
    exchange.run({.operation = operation, .in = in, .out = out, .root = dst, .counts = bodies});
  }
  if (!has_result) return nb::none();
  nb::list objects;
  for (std::size_t r = 0; r < heads.size(); ++r) {
    const std::span<const std::byte> head(all_heads.data() + heads.before(r), heads[r]);
    exchange.check_head(r, sizes[r].codes, head);
    const Segments segments = segments_in(head, {data_of(memory) + bodies.before(r), bodies[r]});
    exchange.check_body(r, sizes[r].codes, segments);
    objects.append(unpickled(head, segments));
  }
  return objects;
}

nb::object broadcast_one(const char* label, nb::handle x, Rank src, const Trailing& trailing) {
  Exchange exchange(label, src, trailing);
  const bool is_root = detail::rank_is(src, trailing.group);
  const Pickled own = exchange.pickled(x, is_root);
  const auto sizes = exchange.compare(is_root ? exchange.size_of(own) : detail::ObjectSize(), own.error());
  const auto root = static_cast<std::size_t>(src.is_global() ? *trailing.group.rank_of(GlobalRank{src.value()}) : src.value());
  std::vector<std::byte> head(own.head().begin(), own.head().end());
  head.resize(sizes[root].head);
  exchange.broadcast(line(head));
  if (is_root) {
    for (const auto& segment : own.segments()) exchange.broadcast(line(segment));
    return nb::borrow(x);
  }
  exchange.check_head(root, sizes[root].codes, head);
  std::vector<nb::object> memory;
  Segments segments;
  std::size_t left = sizes[root].bytes;
  for (const std::size_t size : segment_sizes(head)) {
    if (size > left) throw ProtocolError("an object is longer than announced", {.operation = label});
    left -= size;
    const nb::object bytes = exchange.allocate(size);
    segments.emplace_back(data_of(bytes), size);
    exchange.broadcast(line(segments.back()));
    memory.push_back(nb::steal(PyMemoryView_FromObject(bytes.ptr())));
  }
  exchange.check_body(root, sizes[root].codes, segments);
  return unpickled(head, memory);
}

namespace {

nb::object all_gather_object(nb::handle x, nb::handle group, nb::handle timeout, int tag) {
  return gather_all("all_gather_object", x, std::nullopt, Trailing(group, timeout, tag, "all_gather_object"));
}
nb::object gather_object(nb::handle x, nb::handle dst, nb::handle group, nb::handle timeout, int tag) {
  return gather_all("gather_object", x, rank_of(dst, "gather_object"), Trailing(group, timeout, tag, "gather_object"));
}
nb::object broadcast_object(nb::handle x, nb::handle src, nb::handle group, nb::handle timeout, int tag) {
  return broadcast_one("broadcast_object", x, rank_of(src, "broadcast_object"), Trailing(group, timeout, tag, "broadcast_object"));
}
nb::object broadcast_object_list(nb::list list, nb::handle src, nb::handle group, nb::handle timeout, int tag) {
  const nb::object all =
      broadcast_one("broadcast_object_list", list, rank_of(src, "broadcast_object_list"), Trailing(group, timeout, tag, "broadcast_object_list"));
  if (!all.is(list)) {
    if (PyList_SetSlice(list.ptr(), 0, PY_SSIZE_T_MAX, all.ptr()) != 0) throw nb::python_error();
  }
  return list;
}

/// The root tells this of each rank's object.
struct Told {
  std::uint64_t head = 0, body = 0;
  detail::ObjectCodes codes = {};
};
static_assert(sizeof(Told) % sizeof(std::uint64_t) == 0);

nb::object scatter_object(nb::handle list, nb::handle src, nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "scatter_object");
  const Rank root = rank_of(src, "scatter_object");
  Exchange exchange("scatter_object", root, trailing);
  const auto n = static_cast<std::size_t>(trailing.group.size());
  const bool is_root = detail::rank_is(root, trailing.group);
  std::vector<Pickled> objects;
  std::exception_ptr error = exchange.pickled(nb::none(), false).error();
  detail::ObjectSize own;
  std::vector<Told> told(n);
  if (is_root && !error) {
    const std::size_t given = PySequence_Check(list.ptr()) != 0 ? nb::len(list) : 0;
    if (given != n) {
      error = std::make_exception_ptr(
          InvalidArgument("the list has " + std::to_string(given) + " objects for a group of " + std::to_string(n), {.operation = "scatter_object"}));
    }
    for (std::size_t r = 0; r < n && !error; ++r) {
      objects.emplace_back(list[r]);
      error = objects.back().error();
      const detail::ObjectSize size = exchange.size_of(objects.back(), static_cast<int>(r));
      told[r] = {.head = size.head, .body = size.bytes - size.head, .codes = size.codes};
      own.bytes += size.bytes;
      own.head += size.head;
    }
  }
  exchange.compare(own, error);
  exchange.broadcast(line({reinterpret_cast<std::uint64_t*>(told.data()), told.size() * sizeof(Told) / sizeof(std::uint64_t)}));
  std::vector<std::size_t> heads, bodies;
  for (const Told& of_rank : told) {
    heads.push_back(static_cast<std::size_t>(of_rank.head));
    bodies.push_back(static_cast<std::size_t>(of_rank.body));
  }
  const Counts head_counts(heads), body_counts(bodies);
  const auto rank = static_cast<std::size_t>(trailing.group.rank());
  std::vector<std::byte> all, head(heads[rank]);
  for (const Pickled& object : objects) all.insert(all.end(), object.head().begin(), object.head().end());
  exchange.run({.operation = Operation::scatter_v, .in = line(all), .out = line(head), .root = root, .counts = head_counts});
  nb::object memory = exchange.allocate(bodies[rank]);
  if (body_counts.total() > 0) {
    nb::object packed = exchange.allocate(is_root ? body_counts.total() : 0);
    for (std::size_t r = 0; r < objects.size(); ++r) objects[r].pack(data_of(packed) + body_counts.before(r));
    exchange.run({.operation = Operation::scatter_v,
                  .in = line(data_of(packed), is_root ? body_counts.total() : 0),
                  .out = line(data_of(memory), bodies[rank]),
                  .root = root,
                  .counts = body_counts});
  }
  const auto sender = static_cast<std::size_t>(root.is_global() ? *trailing.group.rank_of(GlobalRank{root.value()}) : root.value());
  exchange.check_head(sender, told[rank].codes, head, trailing.group.rank());
  const Segments segments = segments_in(head, {data_of(memory), bodies[rank]});
  exchange.check_body(sender, told[rank].codes, segments, trailing.group.rank());
  return unpickled(head, segments);
}

}  // namespace

void bind_objects(nb::module_& m) {
  def_call(m, "all_gather_object", &all_gather_object, "x: typing.Any", "list[typing.Any]", docs::all_gather_object, "x"_a.none());
  def_call(m, "gather_object", &gather_object, "x: typing.Any, dst: RankLike = 0", "list[typing.Any] | None", docs::gather_object, "x"_a.none(),
           "dst"_a = 0);
  def_call(m, "broadcast_object", &broadcast_object, "x: typing.Any = None, src: RankLike = 0", "typing.Any", docs::broadcast_object,
           "x"_a = nb::none(), "src"_a = 0);
  def_call(m, "broadcast_object_list", &broadcast_object_list, "list: list[typing.Any], src: RankLike = 0", "list[typing.Any]",
           docs::broadcast_object_list, "list"_a, "src"_a = 0);
  def_call(m, "scatter_object", &scatter_object, "list: collections.abc.Sequence[typing.Any] | None, src: RankLike = 0", "typing.Any",
           docs::scatter_object, "list"_a.none(), "src"_a = 0);
  m.def(
      "set_object_limits",
      [](std::size_t bytes) {
        ObjectLimits limits = object_limits();
        limits.bytes = bytes;
        set_object_limits(limits);
      },
      "nbytes"_a, docs::set_object_limits);
  m.def(
      "object_limits", [] { return object_limits().bytes; }, docs::object_limits);
}

}  // namespace unisono::python
