// Measures Gloo over TCP: on the loopback interface, or on the one that GLOO_SOCKET_IFNAME names, where the ranks lie on several hosts.

#include <gloo/allgather.h>
#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/config.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/types.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>

#include "base/environment.h"
#include "harness/peer.h"

namespace unisono::bench {

namespace {

template <class T>
std::function<void()> prepare_gather(const std::shared_ptr<gloo::Context>& context, const Job& job) {
  auto options = std::make_shared<gloo::GatherOptions>(context);
  options->setInput(static_cast<T*>(job.in), job.shape.in);
  if (context->rank == 0) options->setOutput(static_cast<T*>(job.out), job.shape.out);
  options->setRoot(0);
  return [options] { gloo::gather(*options); };
}

template <class T>
std::function<void()> prepare_scatter(const std::shared_ptr<gloo::Context>& context, const Job& job) {
  auto options = std::make_shared<gloo::ScatterOptions>(context);
  std::vector<T*> parts;
  if (context->rank == 0) {
    for (std::size_t r = 0; r < static_cast<std::size_t>(context->size); ++r) parts.push_back(static_cast<T*>(job.in) + r * job.shape.out);
    options->setInputs(parts, job.shape.out);
  }
  options->setOutput(static_cast<T*>(job.out), job.shape.out);
  options->setRoot(0);
  return [options] { gloo::scatter(*options); };
}

/// Each rank sends to the next one and receives from the one before.
template <class T>
std::function<void()> prepare_exchange(const std::shared_ptr<gloo::Context>& context, const Job& job) {
  const std::shared_ptr<gloo::transport::UnboundBuffer> sent = context->createUnboundBuffer(job.in, job.shape.in * sizeof(T));
  const std::shared_ptr<gloo::transport::UnboundBuffer> received = context->createUnboundBuffer(job.out, job.shape.out * sizeof(T));
  const int next = (context->rank + 1) % context->size;
  const int previous = (context->rank + context->size - 1) % context->size;
  const std::uint64_t slot = gloo::Slot::build(0x7e, 0);
  return [=] {
    received->recv(previous, slot);
    sent->send(next, slot);
    sent->waitSend();
    received->waitRecv();
  };
}

constexpr std::uint8_t message_prefix = 0x7d;  // of the slots below, which no algorithm of Gloo uses

/// A message there, and one back.
template <class T>
std::function<void()> prepare_ping_pong(const std::shared_ptr<gloo::Context>& context, const Job& job, int partner) {
  const std::shared_ptr<gloo::transport::UnboundBuffer> sent = context->createUnboundBuffer(job.in, job.shape.in * sizeof(T));
  const std::shared_ptr<gloo::transport::UnboundBuffer> received = context->createUnboundBuffer(job.out, job.shape.out * sizeof(T));
  const std::uint64_t slot = gloo::Slot::build(message_prefix, 0);
  const bool begins = context->rank < partner;
  const auto send = [=] {
    sent->send(partner, slot);
    sent->waitSend();
  };
  return [=] {
    received->recv(partner, slot);
    if (begins) send();
    received->waitRecv();
    if (!begins) send();
  };
}

/// A window of messages, each with a slot of its own. One in a single direction is answered.
template <class T>
std::function<void()> prepare_window(const std::shared_ptr<gloo::Context>& context, const Job& job, int partner) {
  const std::shared_ptr<gloo::transport::UnboundBuffer> sent = context->createUnboundBuffer(job.in, job.shape.in * sizeof(T));
  const std::shared_ptr<gloo::transport::UnboundBuffer> received = context->createUnboundBuffer(job.out, job.shape.out * sizeof(T));
  const auto answer = std::make_shared<char>();
  const std::shared_ptr<gloo::transport::UnboundBuffer> answered = context->createUnboundBuffer(answer.get(), 1);
  const bool sends = sends_in_window(job.operation, context->rank), receives = receives_in_window(job.operation, context->rank);
  const std::size_t message = job.shape.size * sizeof(T);
  return [=] {
    const auto slot = [](std::size_t k) { return static_cast<std::uint64_t>(gloo::Slot::build(message_prefix, static_cast<std::uint32_t>(k))); };
    for (std::size_t k = 0; receives && k < window; ++k) received->recv(partner, slot(k), job.place_of(k) * sizeof(T), message);
    for (std::size_t k = 0; sends && k < window; ++k) sent->send(partner, slot(k), job.place_of(k) * sizeof(T), message);
    for (std::size_t k = 0; sends && k < window; ++k) sent->waitSend();
    for (std::size_t k = 0; receives && k < window; ++k) received->waitRecv();
    if (sends && receives) return;
    if (sends) {
      answered->recv(partner, slot(window));
      answered->waitRecv();
    } else {
      *answer = 1;
      answered->send(partner, slot(window));
      answered->waitSend();
    }
  };
}

template <class T>
std::function<void()> prepare_in_pairs(const std::shared_ptr<gloo::Context>& context, const Job& job) {
  const std::optional<int> partner = partner_of(context->rank, context->size);
  if (!partner) return [] {};
  return is_windowed(job.operation) ? prepare_window<T>(context, job, *partner) : prepare_ping_pong<T>(context, job, *partner);
}

template <class T>
std::function<void()> prepare_uneven(const std::shared_ptr<gloo::Context>& context, const Job& job) {
  if (job.operation == Operation::all_to_all_v) {
    const std::vector<std::size_t> counts = uneven_exchange(job.shape.size, context->size, context->rank);
    const std::vector<std::int64_t> elements(counts.begin(), counts.end());
    auto options = std::make_shared<gloo::AlltoallvOptions>(context);
    options->setInput(static_cast<T*>(job.in), elements);
    options->setOutput(static_cast<T*>(job.out), elements);
    return [options] { gloo::alltoallv(*options); };
  }
  auto options = std::make_shared<gloo::AllgathervOptions>(context);
  options->setInput(static_cast<T*>(job.in), job.shape.in);
  options->setOutput(static_cast<T*>(job.out), uneven_blocks(job.shape.size, context->size));
  return [options] { gloo::allgatherv(*options); };
}

/// Returns the call for this job. Its options are made once, as in Gloo's own benchmark.
template <class T>
std::function<void()> prepare(const std::shared_ptr<gloo::Context>& context, const Job& job) {
  T* in = static_cast<T*>(job.in);
  T* out = static_cast<T*>(job.out);
  const auto sum = static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<T>);
  switch (job.operation) {
    case Operation::all_reduce: {
      auto options = std::make_shared<gloo::AllreduceOptions>(context);
      if (!job.in_place()) options->setInput(in, job.shape.in);
      options->setOutput(out, job.shape.out);
      options->setReduceFunction(sum);
      return [options] { gloo::allreduce(*options); };
    }
    case Operation::broadcast: {
      auto options = std::make_shared<gloo::BroadcastOptions>(context);
      options->setOutput(out, job.shape.out);
      options->setRoot(0);
      return [options] { gloo::broadcast(*options); };
    }
    case Operation::reduce: {
      auto options = std::make_shared<gloo::ReduceOptions>(context);
      options->setInput(in, job.shape.in);
      options->setOutput(out, job.shape.out);
      options->setReduceFunction(sum);
      options->setRoot(0);
      return [options] { gloo::reduce(*options); };
    }
    case Operation::all_gather: {
      auto options = std::make_shared<gloo::AllgatherOptions>(context);
      options->setInput(in, job.shape.in);
      options->setOutput(out, job.shape.out);
      return [options] { gloo::allgather(*options); };
    }
    case Operation::all_to_all: {
      auto options = std::make_shared<gloo::AlltoallOptions>(context);
      options->setInput(in, job.shape.in);
      options->setOutput(out, job.shape.out);
      return [options] { gloo::alltoall(*options); };
    }
    case Operation::gather: return prepare_gather<T>(context, job);
    case Operation::scatter: return prepare_scatter<T>(context, job);
    case Operation::barrier: {
      auto options = std::make_shared<gloo::BarrierOptions>(context);
      return [options] { gloo::barrier(*options); };
    }
    case Operation::send_recv: return prepare_exchange<T>(context, job);
    case Operation::all_gather_v:
    case Operation::all_to_all_v: return prepare_uneven<T>(context, job);
    case Operation::ping_pong:
    case Operation::bandwidth:
    case Operation::bidirectional:
    case Operation::message_rate: return prepare_in_pairs<T>(context, job);
    default: return nullptr;
  }
}

class GlooCandidate final : public Candidate {
 public:
  explicit GlooCandidate(std::shared_ptr<gloo::Context> context) : context_(std::move(context)) {}

  std::string_view name() const override { return "gloo"; }

  bool supports(Operation operation, DType dtype) const override {
    // Gloo has no reduce_scatter behind its current interface, of all uneven forms these two, and no bfloat16.
    switch (operation) {
      case Operation::copy:
      case Operation::reduce_scatter:
      case Operation::reduce_scatter_v:
      case Operation::gather_v:
      case Operation::scatter_v: return false;
      default: return dtype != DType::bfloat16;
    }
  }

  void select(const Job& job) override {
    call_ = nullptr;  // releases the buffers of the previous job first
    switch (job.dtype) {
      case DType::float32: call_ = prepare<float>(context_, job); break;
      case DType::float64: call_ = prepare<double>(context_, job); break;
      case DType::float16: call_ = prepare<gloo::float16>(context_, job); break;
      case DType::int8: call_ = prepare<std::int8_t>(context_, job); break;
      case DType::uint8: call_ = prepare<std::uint8_t>(context_, job); break;
      case DType::int32: call_ = prepare<std::int32_t>(context_, job); break;
      default: call_ = prepare<std::int64_t>(context_, job); break;
    }
  }

  void call() override { call_(); }

 private:
  std::shared_ptr<gloo::Context> context_;
  std::function<void()> call_;
};

}  // namespace

void add_gloo(Candidates& candidates, const Plan& plan, Place place) {
  if (std::ranges::find(plan.candidates, "gloo") == plan.candidates.end()) return;
  const std::string folder = plan.folder + "/gloo";
  std::filesystem::create_directories(folder);
  gloo::rendezvous::FileStore store(folder);
  gloo::transport::tcp::attr attributes;
  attributes.iface = base::Environment::process().get("GLOO_SOCKET_IFNAME").value_or("lo");
  std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(attributes);
  auto context = std::make_shared<gloo::rendezvous::Context>(place.rank, place.ranks);
  context->setTimeout(plan.timeout);
  context->connectFullMesh(store, device);
  candidates.push_back(std::make_unique<GlooCandidate>(std::move(context)));
}

std::vector<PeerVersion> gloo_peers() {
  return {{.name = "gloo",
           .version =
               "Gloo " + std::to_string(GLOO_VERSION_MAJOR) + "." + std::to_string(GLOO_VERSION_MINOR) + "." + std::to_string(GLOO_VERSION_PATCH)}};
}

}  // namespace unisono::bench
