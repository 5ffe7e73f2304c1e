// Gloo over TCP on the loopback interface, which is all it has within one host.

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
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

#include "harness/peer.h"

namespace unisono::bench {

namespace {

/// What a call of this job is, with its options made once: Gloo's own benchmark does the same.
template <class T>
std::function<void()> prepare(const std::shared_ptr<gloo::Context>& context, const Job& job) {
  T* in = static_cast<T*>(job.in);
  T* out = static_cast<T*>(job.out);
  const auto sum = static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<T>);
  const bool root = context->rank == 0;
  const auto ranks = static_cast<std::size_t>(context->size);
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
    case Operation::gather: {
      auto options = std::make_shared<gloo::GatherOptions>(context);
      options->setInput(in, job.shape.in);
      if (root) options->setOutput(out, job.shape.out);
      options->setRoot(0);
      return [options] { gloo::gather(*options); };
    }
    case Operation::scatter: {
      auto options = std::make_shared<gloo::ScatterOptions>(context);
      std::vector<T*> parts;
      for (std::size_t r = 0; root && r < ranks; ++r) parts.push_back(in + r * job.shape.out);
      if (root) options->setInputs(parts, job.shape.out);
      options->setOutput(out, job.shape.out);
      options->setRoot(0);
      return [options] { gloo::scatter(*options); };
    }
    case Operation::barrier: {
      auto options = std::make_shared<gloo::BarrierOptions>(context);
      return [options] { gloo::barrier(*options); };
    }
    case Operation::send_recv: {
      const std::shared_ptr<gloo::transport::UnboundBuffer> sent = context->createUnboundBuffer(in, job.shape.in * sizeof(T));
      const std::shared_ptr<gloo::transport::UnboundBuffer> received = context->createUnboundBuffer(out, job.shape.out * sizeof(T));
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
    default: return nullptr;
  }
}

class GlooCandidate final : public Candidate {
 public:
  explicit GlooCandidate(std::shared_ptr<gloo::Context> context) : context_(std::move(context)) {}

  std::string_view name() const override { return "gloo"; }

  bool supports(Operation operation, DType dtype) const override {
    // This Gloo has no reduce_scatter behind its current interface, and no bfloat16.
    return operation != Operation::copy && operation != Operation::reduce_scatter && dtype != DType::bfloat16;
  }

  void select(const Job& job) override {
    call_ = nullptr;  // the buffers of the job before are let go first
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
  attributes.iface = "lo";
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
