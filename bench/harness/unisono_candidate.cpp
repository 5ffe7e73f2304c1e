#include <array>
#include <unisono/unisono.h>

#include <stdexcept>

#include "unisono/detail/switches.h"
#include "harness/candidate.h"

namespace unisono::bench {

namespace {

/// The things that a call needs beside its job, prepared outside the timing.
struct Prepared {
  Counts counts;            ///< of the blocks of different length
  std::vector<Work> works;  ///< room for those of a window
};

/// Sends a message there and one back.
template <class T>
void ping_pong(const Job& job, int partner, const ProcessGroup& group, const CallOptions& options) {
  const std::span<const T> in(static_cast<const T*>(job.in), job.shape.in);
  const std::span<T> out(static_cast<T*>(job.out), job.shape.out);
  const bool begins = group.rank() < partner;
  if (begins) send(in, partner, group, options);
  recv(std::span<T>(out), partner, group, options);
  if (!begins) send(in, partner, group, options);
}

/// Sends and receives a window of messages. One in a single direction is answered by an empty-handed message of one element.
template <class T>
void exchange_window(const Job& job, int partner, const ProcessGroup& group, const CallOptions& options, std::vector<Work>& works) {
  const std::span<const T> in(static_cast<const T*>(job.in), job.shape.in);
  const std::span<T> out(static_cast<T*>(job.out), job.shape.out);
  const bool sends = sends_in_window(job.operation, group.rank()), receives = receives_in_window(job.operation, group.rank());
  works.clear();
  for (std::size_t k = 0; receives && k < window; ++k)
    works.push_back(irecv(std::span<T>(out.subspan(job.place_of(k), job.shape.size)), partner, group, options));
  for (std::size_t k = 0; sends && k < window; ++k)
    works.push_back(isend(std::span<const T>(in.subspan(job.place_of(k), job.shape.size)), partner, group, options));
  wait_all(works);
  T answer{};
  if (!receives) recv(answer, partner, group, options);
  else if (!sends) send(answer, partner, group, options);
}

template <class T>
void call_in_pairs(const Job& job, const ProcessGroup& group, const CallOptions& options, Prepared& prepared) {
  const std::optional<int> partner = partner_of(group.rank(), group.size());
  if (!partner) return;
  if (is_windowed(job.operation)) exchange_window<T>(job, *partner, group, options, prepared.works);
  else ping_pong<T>(job, *partner, group, options);
}

/// Makes the typed calls of a user, for one element type.
template <class T>
void call_typed(const Job& job, const ProcessGroup& group, const CallOptions& options, Prepared& prepared) {
  const std::span<const T> in(static_cast<const T*>(job.in), job.shape.in);
  const std::span<T> out(static_cast<T*>(job.out), job.shape.out);
  switch (job.operation) {
    case Operation::all_reduce:
      if (job.in_place()) all_reduce(std::span<T>(out), ReduceOp::sum, group, options);
      else all_reduce(in, std::span<T>(out), ReduceOp::sum, group, options);
      return;
    case Operation::broadcast: return broadcast(std::span<T>(out), 0, group, options);
    case Operation::reduce: return reduce(std::span<T>(out), 0, ReduceOp::sum, group, options);
    case Operation::all_gather: return all_gather(in, std::span<T>(out), group, options);
    case Operation::reduce_scatter: return reduce_scatter(in, std::span<T>(out), ReduceOp::sum, group, options);
    case Operation::all_to_all: return all_to_all(in, std::span<T>(out), group, options);
    case Operation::gather: return gather(in, std::span<T>(out), 0, group, options);
    case Operation::scatter: return scatter(in, std::span<T>(out), 0, group, options);
    case Operation::barrier: return barrier(group, options);
    case Operation::send_recv: {
      const int next = (group.rank() + 1) % group.size();
      const int previous = (group.rank() + group.size() - 1) % group.size();
      send_recv(in, next, std::span<T>(out), previous, group, options);
      return;
    }
    case Operation::all_gather_v: return all_gather_v(in, std::span<T>(out), prepared.counts, group, options);
    case Operation::reduce_scatter_v: return reduce_scatter_v(in, prepared.counts, std::span<T>(out), ReduceOp::sum, group, options);
    case Operation::all_to_all_v: return all_to_all_v(in, prepared.counts, std::span<T>(out), prepared.counts, group, options);
    case Operation::gather_v: return gather_v(in, std::span<T>(out), prepared.counts, 0, group, options);
    case Operation::scatter_v: return scatter_v(in, prepared.counts, std::span<T>(out), 0, group, options);
    case Operation::ping_pong:
    case Operation::bandwidth:
    case Operation::bidirectional:
    case Operation::message_rate: return call_in_pairs<T>(job, group, options, prepared);
    case Operation::copy: return;
  }
}

/// Returns the counts that the call is given, or none.
Counts counts_of(const Job& job, const ProcessGroup& group) {
  switch (job.operation) {
    case Operation::all_gather_v:
    case Operation::reduce_scatter_v:
    case Operation::gather_v:
    case Operation::scatter_v: return uneven_blocks(job.shape.size, group.size());
    case Operation::all_to_all_v: return uneven_exchange(job.shape.size, group.size(), group.rank());
    default: return {};
  }
}

using Caller = void (*)(const Job&, const ProcessGroup&, const CallOptions&, Prepared&);

Caller caller_of(DType dtype) {
  switch (dtype) {
    case DType::float32: return &call_typed<float>;
    case DType::float64: return &call_typed<double>;
    case DType::float16: return &call_typed<float16>;
    case DType::bfloat16: return &call_typed<bfloat16>;
    case DType::int8: return &call_typed<std::int8_t>;
    case DType::uint8: return &call_typed<std::uint8_t>;
    case DType::int32: return &call_typed<std::int32_t>;
    case DType::int64: return &call_typed<std::int64_t>;
    default: throw std::runtime_error("the bench does not measure this dtype");
  }
}

/// A way in which unisono is measured: the second one without the comparison of the ranks' calls, the third one without the record of the calls.
struct Variant {
  std::string_view name;
  bool compares = true, records = true;
};
constexpr std::array<Variant, 3> variants{{{"unisono"}, {"unisono-unchecked", false}, {"unisono-unrecorded", true, false}}};

void set_switches(const Variant& variant) {
  detail::set_call_comparison(variant.compares);
  detail::set_call_recording(variant.records);
}

class UnisonoCandidate final : public Candidate {
 public:
  explicit UnisonoCandidate(const Variant& variant) : variant_(variant), group_(world()) {}

  std::string_view name() const override { return variant_.name; }
  bool supports(Operation operation, DType) const override { return operation != Operation::copy; }
  void select(const Job& job) override {
    set_switches(variant_);
    job_ = job;
    caller_ = caller_of(job.dtype);
    prepared_.counts = counts_of(job, group_);
    prepared_.works.reserve(2 * window);
  }
  void call() override { caller_(job_, group_, options_, prepared_); }

 private:
  const Variant& variant_;
  ProcessGroup group_;
  CallOptions options_ = {};
  Job job_ = {};
  Prepared prepared_ = {};
  Caller caller_ = nullptr;
};

}  // namespace

std::string add_unisono(Candidates& candidates, const Plan& plan, Place place) {
  if (plan.hosts > 1) {
    std::vector<std::string> names;  // as many ranks on each host as evenly as possible, in the order of the ranks
    for (int rank = 0; rank < place.ranks; ++rank) names.push_back("bench-host" + std::to_string(rank * plan.hosts / place.ranks));
    detail::set_presented_hosts(std::move(names));
  }
  initialize({.backend = plan.backend,
              .init_method = "file://" + plan.folder + "/unisono",
              .rank = place.rank,
              .world_size = place.ranks,
              .timeout = plan.timeout});
  for (const std::string& name : plan.candidates)
    for (const Variant& variant : variants)
      if (name == variant.name) candidates.push_back(std::make_unique<UnisonoCandidate>(variant));
  return world().backend();
}

void leave_unisono() {
  set_switches(variants.front());
  finalize();
}

}  // namespace unisono::bench
