#include "c/collective.h"

#include <limits>
#include <span>

#include "c/arguments.h"
#include "unisono/detail/request.h"

namespace unisono::c {
namespace {

constexpr std::size_t beyond_any_memory = std::numeric_limits<std::size_t>::max();

/// A collective with its ranks, of which the lengths of its buffers depend.
class Lengths {
 public:
  Lengths(const Collective& call, const ProcessGroup& group) : call_(call), rank_(group.rank()), size_(static_cast<std::size_t>(group.size())) {}

  TensorView in() const {
    const OperationTraits& traits = traits_of(call_.operation);
    return view(call_.in, traits.in, traits.senders, call_.counts, is_in_place() ? "data" : "in");
  }
  TensorView out() const {
    const OperationTraits& traits = traits_of(call_.operation);
    const std::size_t* const counts = call_.operation == Operation::all_to_all_v ? call_.recv_counts : call_.counts;
    return view(call_.out, traits.out, traits.receivers, counts, is_in_place() ? "data" : "out");
  }
  Counts counts(const std::size_t* counts) const { return Counts(std::span(counts, size_)); }

 private:
  bool is_in_place() const {
    const OperationTraits& traits = traits_of(call_.operation);
    return call_.in == call_.out && traits.in == Layout::whole && traits.out == Layout::whole;
  }
  TensorView view(const void* data, Layout layout, Participants participants, const std::size_t* counts, const char* name) const {
    if (layout == Layout::nothing) return detail::nothing();
    const bool is_ignored = layout == Layout::blocks && !takes_part(participants, call_.root == rank_);
    const std::size_t length = is_ignored ? 0 : has_counts(call_.operation) ? of_counts(layout, counts) : of_count(layout);
    return view_of(is_ignored ? nullptr : data, length, call_.dtype, to_string(call_.operation), name);
  }
  std::size_t of_count(Layout layout) const {
    if (layout != Layout::blocks) return call_.count;
    std::size_t all = 0;
    return __builtin_mul_overflow(call_.count, size_, &all) ? beyond_any_memory : all;
  }
  std::size_t of_counts(Layout layout, const std::size_t* counts) const {
    if (layout != Layout::blocks) return counts[rank_];
    std::size_t sum = 0;
    for (const std::size_t count : std::span(counts, size_)) {
      if (__builtin_add_overflow(sum, count, &sum)) return beyond_any_memory;
    }
    return sum;
  }

  const Collective& call_;
  int rank_;
  std::size_t size_;
};

detail::Request request_of(const Collective& call, const ProcessGroup& group) {
  const std::string_view operation = to_string(call.operation);
  const bool is_exchange = call.operation == Operation::all_to_all_v;
  if (has_counts(call.operation)) static_cast<void>(target(call.counts, operation, is_exchange ? "send_counts" : "counts"));
  if (is_exchange) static_cast<void>(target(call.recv_counts, operation, "recv_counts"));
  if (call.op < UNISONO_SUM || call.op > UNISONO_LOR) refuse(operation, std::to_string(static_cast<int>(call.op)) + " is no unisono_reduce_op");
  const Lengths lengths(call, group);
  detail::Request request{call.operation, lengths.in(), lengths.out(), static_cast<ReduceOp>(call.op)};
  if (has_root(call.operation)) request.root = call.root;
  if (has_counts(call.operation)) request.counts = lengths.counts(call.counts);
  if (is_exchange) request.recv_counts = lengths.counts(call.recv_counts);
  return request;
}

}  // namespace

unisono_status run(const Collective& call) noexcept {
  return guarded([&] {
    with_call(call.group, call.options, to_string(call.operation),
              [&](const ProcessGroup& group, const CallOptions& options) { detail::run(request_of(call, group), group, options); });
  });
}

unisono_status start(const Collective& call, unisono_work** work) noexcept {
  const std::string_view operation = to_string(call.operation);
  return started(work, operation, [&] {
    return with_call(call.group, call.options, operation,
                     [&](const ProcessGroup& group, const CallOptions& options) { return detail::start(request_of(call, group), group, options); });
  });
}

}  // namespace unisono::c
