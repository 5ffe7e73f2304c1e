// Measures NCCL itself, on memory of devices. It is opened at run time.

#include "peers/nccl.h"

#include <poll.h>

#include <stdexcept>
#include <vector>

#include <fmt/format.h>

#include "base/deadline.h"
#include "engines/nccl/communicator.h"
#include "unisono/cuda.h"

namespace unisono::bench {
namespace {

namespace nccl = engines::nccl;

class NcclCandidate final : public Candidate {
 public:
  NcclCandidate(std::shared_ptr<const nccl::Vendor> vendor, Place place, std::shared_ptr<Store> store, std::chrono::milliseconds timeout)
      : vendor_(std::move(vendor)), nccl_(vendor_->nccl), place_(place) {
    int device = 0;
    nccl::check(*vendor_, vendor_->cuda.get_device(&device), "cudaGetDevice");
    communicator_ = std::make_shared<nccl::Communicator>(
        vendor_, std::move(store), nccl::Communicator::Shape{.key = "nccl", .size = place.ranks, .first_rank = place.rank, .devices = {device}});
    const base::Deadline deadline(timeout);
    while (!communicator_->form()) {
      if (deadline.passed()) throw std::runtime_error(fmt::format("NCCL has made no communicator within {} s", timeout.count() / 1000));
      ::poll(nullptr, 0, 1);
    }
    comm_ = communicator_->comm();
  }
  ~NcclCandidate() override { communicator_->close(time_to_leave); }

  std::string_view name() const override { return "nccl"; }
  bool supports(Operation operation, DType dtype) const override {
    const OperationTraits* const traits = operation.traits();
    return traits != nullptr && calls[traits->operation] != nullptr && nccl::reduction_of(dtype, ReduceOp::sum).has_value();
  }
  void select(const Job& job) override {
    const OperationTraits& traits = *job.operation.traits();
    job_ = job;
    call_ = calls[traits.operation];
    type_ = nccl::reduction_of(job.dtype, ReduceOp::sum)->type;
    stream_ = static_cast<nccl::Stream>(current_stream());
    if (call_ == &NcclCandidate::exchange) plan_exchange(traits);
  }
  void call() override {
    nccl::Result result = (this->*call_)();
    while (result == nccl::Result::in_progress)
      if (const nccl::Result asked = nccl_.comm_get_async_error(comm_, &result); asked != nccl::Result::success) result = asked;
    if (result != nccl::Result::success) throw std::runtime_error(fmt::format("NCCL failed: {}", nccl_.get_error_string(result)));
  }

 private:
  using Result = nccl::Result;
  static constexpr std::chrono::milliseconds time_to_leave{2000};
  static constexpr nccl::RedOp sum = nccl::RedOp::sum;

  Result all_reduce() { return nccl_.all_reduce(job_.in, job_.out, job_.shape.in, type_, sum, comm_, stream_); }
  Result reduce() { return nccl_.reduce(job_.in, job_.out, job_.shape.in, type_, sum, 0, comm_, stream_); }
  Result broadcast() { return nccl_.broadcast(job_.in, job_.out, job_.shape.in, type_, 0, comm_, stream_); }
  Result all_gather() { return nccl_.all_gather(job_.in, job_.out, job_.shape.in, type_, comm_, stream_); }
  Result reduce_scatter() { return nccl_.reduce_scatter(job_.in, job_.out, job_.shape.out, type_, sum, comm_, stream_); }
  /// Sends and receives in a group, by which NCCL's manual makes the other collectives.
  Result exchange() {
    Result first = nccl_.group_start();
    const auto note = [&first](Result result) {
      if (first == Result::success && result != Result::in_progress) first = result;
    };
    const std::size_t element = size_of(job_.dtype);
    const auto* in = static_cast<const std::byte*>(job_.in);
    auto* out = static_cast<std::byte*>(job_.out);
    for (int r = 0; r < place_.ranks; ++r) {
      const std::size_t sent = sent_[static_cast<std::size_t>(r)], received = received_[static_cast<std::size_t>(r)];
      if (sent > 0) note(nccl_.send(in, sent, type_, r, comm_, stream_));
      if (received > 0) note(nccl_.recv(out, received, type_, r, comm_, stream_));
      in += sent * element;
      out += received * element;
    }
    const Result ended = nccl_.group_end();
    return first == Result::success ? ended : first;
  }
  void plan_exchange(const OperationTraits& traits) {
    const auto n = static_cast<std::size_t>(place_.ranks);
    std::vector<std::size_t> blocks = counts_of(job_.operation, job_.shape.size, place_.ranks, place_.rank);
    if (blocks.empty()) blocks.assign(n, job_.shape.size / n);
    sent_.assign(n, 0);
    received_.assign(n, 0);
    for (int r = 0; r < place_.ranks; ++r) {
      const auto i = static_cast<std::size_t>(r);
      if (contributes(traits, place_.rank, r, {place_.ranks, 0})) sent_[i] = traits.in == Layout::blocks ? blocks[i] : job_.shape.in;
      if (contributes(traits, r, place_.rank, {place_.ranks, 0})) received_[i] = traits.out == Layout::blocks ? blocks[i] : job_.shape.out;
    }
  }

  static const OperationMap<Result (NcclCandidate::*)()> calls;

  const std::shared_ptr<const nccl::Vendor> vendor_;
  const nccl::NcclApi& nccl_;
  const Place place_;
  std::shared_ptr<nccl::Communicator> communicator_;
  nccl::Comm comm_ = nullptr;
  Job job_ = {};
  Result (NcclCandidate::*call_)() = nullptr;
  nccl::DataType type_ = {};
  nccl::Stream stream_ = nullptr;
  std::vector<std::size_t> sent_, received_;  ///< elements of each rank's message
};

const OperationMap<nccl::Result (NcclCandidate::*)()> NcclCandidate::calls{
    {unisono::Operation::all_reduce, &NcclCandidate::all_reduce},
    {unisono::Operation::reduce, &NcclCandidate::reduce},
    {unisono::Operation::broadcast, &NcclCandidate::broadcast},
    {unisono::Operation::all_gather, &NcclCandidate::all_gather},
    {unisono::Operation::reduce_scatter, &NcclCandidate::reduce_scatter},
    {unisono::Operation::gather, &NcclCandidate::exchange},
    {unisono::Operation::scatter, &NcclCandidate::exchange},
    {unisono::Operation::all_to_all, &NcclCandidate::exchange},
    {unisono::Operation::gather_v, &NcclCandidate::exchange},
    {unisono::Operation::scatter_v, &NcclCandidate::exchange},
    {unisono::Operation::all_to_all_v, &NcclCandidate::exchange},
};

void add(Candidates& candidates, const Plan& plan, Place place) {
  if (!plan.asks_for("nccl")) return;
  auto store = std::make_shared<FileStore>(plan.folder + "/nccl");
  store->set_timeout(plan.timeout);
  candidates.push_back(nccl_candidate(nccl::vendor(), place, std::move(store), plan.timeout));
}

std::vector<PeerVersion> versions(std::string_view asked_for) {
  if (asked_for != "nccl") return {};  // a process that measures memory of the host opens no NCCL
  return {{.name = "nccl", .version = "NCCL " + nccl::version_text(nccl::vendor()->nccl_version)}};
}

[[maybe_unused]] const std::size_t number = add_peer({.add = add, .versions = versions});

}  // namespace

std::unique_ptr<Candidate> nccl_candidate(std::shared_ptr<const engines::nccl::Vendor> vendor, Place place, std::shared_ptr<Store> store,
                                          std::chrono::milliseconds timeout) {
  return std::make_unique<NcclCandidate>(std::move(vendor), place, std::move(store), timeout);
}

}  // namespace unisono::bench
