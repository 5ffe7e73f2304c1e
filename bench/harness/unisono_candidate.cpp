#include <array>
#include <unisono/unisono.h>

#include <algorithm>
#include <stdexcept>

#include "unisono/detail/switches.h"
#include "harness/candidate.h"

namespace unisono::bench {

namespace {

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
    partner_ = partner_of(group_.rank(), group_.size());
    counts_ = counts_of(job.operation, job.shape.size, group_.size(), group_.rank());
    works_.reserve(2 * window);
    request_ = request_of(job.operation.traits());
  }
  void call() override {
    if (request_) {
      request_->in = in();
      request_->out = out();
      detail::run(*request_, group_, options_);
    } else if (job_.operation == Operation::send_recv) {
      const int next = (group_.rank() + 1) % group_.size(), previous = (group_.rank() + group_.size() - 1) % group_.size();
      detail::send_recv(sent(0, job_.shape.in, next), received(0, job_.shape.out, previous), group_, options_);
    } else if (partner_) {
      is_windowed(job_.operation) ? exchange_window(*partner_) : ping_pong(*partner_);
    }
  }

 private:
  TensorView in() const { return view(job_.in, job_.shape.in); }
  TensorView out() const { return view(job_.out, job_.shape.out); }
  TensorView view(void* data, std::size_t count) const {
    if (job_.device.type == Device::Type::cpu) return {data, job_.dtype, count};
    const std::array shape{static_cast<std::int64_t>(count)};
    return {data, job_.dtype, shape, {}, job_.device};
  }
  /// Returns the request that a user's function makes. All but its views are constants there.
  std::optional<detail::Request> request_of(const OperationTraits* traits) const {
    if (traits == nullptr) return std::nullopt;
    detail::Request request{traits->operation, in(), out()};
    if (has_root(traits->operation)) request.root = Rank(0);
    if (traits->has_counts) request.counts = counts_.borrowed();
    if (traits->has_counts && traits->in == traits->out) request.recv_counts = counts_.borrowed();
    return request;
  }

  detail::MessageRequest sent(std::size_t begin, std::size_t count, int to) const {
    return {unisono::Operation::send, part(job_.in, begin, count), Rank(to)};
  }
  detail::MessageRequest received(std::size_t begin, std::size_t count, int from) const {
    return {unisono::Operation::recv, part(job_.out, begin, count), Rank(from)};
  }
  TensorView part(void* buffer, std::size_t begin, std::size_t count) const {
    return {static_cast<std::byte*>(buffer) + begin * size_of(job_.dtype), job_.dtype, count};
  }

  /// Sends a message there and one back.
  void ping_pong(int partner) {
    const bool begins = group_.rank() < partner;
    if (begins) detail::run(sent(0, job_.shape.in, partner), group_, options_);
    detail::run(received(0, job_.shape.out, partner), group_, options_);
    if (!begins) detail::run(sent(0, job_.shape.in, partner), group_, options_);
  }

  /// Sends and receives a window of messages. One in a single direction is answered by a byte.
  void exchange_window(int partner) {
    const bool sends = sends_in_window(job_.operation, group_.rank()), receives = receives_in_window(job_.operation, group_.rank());
    works_.clear();
    for (std::size_t k = 0; receives && k < window; ++k)
      works_.push_back(detail::start(received(job_.place_of(k), job_.shape.size, partner), group_, options_));
    for (std::size_t k = 0; sends && k < window; ++k)
      works_.push_back(detail::start(sent(job_.place_of(k), job_.shape.size, partner), group_, options_));
    wait_all(works_);
    std::uint8_t answer = 0;
    if (!receives) recv(answer, partner, group_, options_);
    else if (!sends) send(answer, partner, group_, options_);
  }

  const Variant& variant_;
  ProcessGroup group_;
  CallOptions options_ = {};
  Job job_ = {};
  std::optional<int> partner_;
  std::optional<detail::Request> request_;  ///< of a collective
  Counts counts_;                           ///< of the blocks of different length
  std::vector<Work> works_;                 ///< room for those of a window
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
  for (const Variant& variant : variants)
    if (plan.asks_for(variant.name)) candidates.push_back(std::make_unique<UnisonoCandidate>(variant));
  return world().backend();
}

void leave_unisono() {
  set_switches(variants.front());
  finalize();
}

}  // namespace unisono::bench
