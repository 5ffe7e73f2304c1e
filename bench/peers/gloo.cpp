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

#include <filesystem>
#include <functional>
#include <optional>
#include <type_traits>

#include "base/environment.h"
#include "harness/candidate.h"

namespace unisono::bench {

namespace {

using Call = std::function<void()>;
using Context = std::shared_ptr<gloo::Context>;

/// Returns the calls of a collective. Its options are made once, as in Gloo's own benchmark.
template <class T, class Options, auto function>
Call prepare(const Context& context, const Job& job) {
  const auto options = std::make_shared<Options>(context);
  T *const in = static_cast<T*>(job.in), *const out = static_cast<T*>(job.out);
  const bool is_root = context->rank == 0;
  const std::vector<std::size_t> counts = counts_of(job.operation, job.shape.size, context->size, context->rank);
  if constexpr (std::is_same_v<Options, gloo::ScatterOptions>) {
    std::vector<T*> parts;
    for (std::size_t r = 0; r < static_cast<std::size_t>(context->size); ++r) parts.push_back(in + r * job.shape.out);
    if (is_root) options->setInputs(parts, job.shape.out);
  } else if constexpr (std::is_same_v<Options, gloo::AlltoallvOptions>) {
    options->setInput(in, std::vector<std::int64_t>(counts.begin(), counts.end()));
  } else if constexpr (requires { options->setInput(in, job.shape.in); }) {
    if (!job.in_place()) options->setInput(in, job.shape.in);
  }
  if constexpr (std::is_same_v<Options, gloo::AlltoallvOptions>) {
    options->setOutput(out, std::vector<std::int64_t>(counts.begin(), counts.end()));
  } else if constexpr (std::is_same_v<Options, gloo::AllgathervOptions>) {
    options->setOutput(out, counts);
  } else if constexpr (requires { options->setOutput(out, job.shape.out); }) {
    if (is_root || job.in_place() || !root_only(job.operation)) options->setOutput(out, job.shape.out);
  }
  if constexpr (requires { options->setRoot(0); }) options->setRoot(0);
  const auto sum = static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<T>);
  if constexpr (requires { options->setReduceFunction(sum); }) options->setReduceFunction(sum);
  return [options] { function(*options); };
}

/// The buffers of messages.
struct Ends {
  Ends(const Context& context, const Job& job)
      : sent(context->createUnboundBuffer(job.in, job.shape.in * size_of(job.dtype))),
        received(context->createUnboundBuffer(job.out, job.shape.out * size_of(job.dtype))) {}
  std::shared_ptr<gloo::transport::UnboundBuffer> sent, received;
};

constexpr std::uint8_t message_prefix = 0x7d;  // of the slots below, which no algorithm of Gloo uses

std::uint64_t slot(std::size_t k) { return gloo::Slot::build(message_prefix, static_cast<std::uint32_t>(k)); }

/// Each rank sends to the next one and receives from the one before.
Call prepare_exchange(const Context& context, const Job& job) {
  const int next = (context->rank + 1) % context->size, previous = (context->rank + context->size - 1) % context->size;
  return [ends = Ends(context, job), next, previous] {
    ends.received->recv(previous, slot(0));
    ends.sent->send(next, slot(0));
    ends.sent->waitSend();
    ends.received->waitRecv();
  };
}

/// A message there, and one back.
Call prepare_ping_pong(const Context& context, const Job& job, int partner) {
  return [ends = Ends(context, job), partner, begins = context->rank < partner] {
    const auto send = [&] {
      ends.sent->send(partner, slot(0));
      ends.sent->waitSend();
    };
    ends.received->recv(partner, slot(0));
    if (begins) send();
    ends.received->waitRecv();
    if (!begins) send();
  };
}

/// A window of messages, each with a slot of its own. One in a single direction is answered.
Call prepare_window(const Context& context, const Job& job, int partner) {
  const auto answer = std::make_shared<char>();
  const std::shared_ptr<gloo::transport::UnboundBuffer> answered = context->createUnboundBuffer(answer.get(), 1);
  const bool sends = sends_in_window(job.operation, context->rank), receives = receives_in_window(job.operation, context->rank);
  return [=, ends = Ends(context, job)] {
    const std::size_t element = size_of(job.dtype), message = job.shape.size * element;
    for (std::size_t k = 0; receives && k < window; ++k) ends.received->recv(partner, slot(k), job.place_of(k) * element, message);
    for (std::size_t k = 0; sends && k < window; ++k) ends.sent->send(partner, slot(k), job.place_of(k) * element, message);
    for (std::size_t k = 0; sends && k < window; ++k) ends.sent->waitSend();
    for (std::size_t k = 0; receives && k < window; ++k) ends.received->waitRecv();
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

Call prepare_messages(const Context& context, const Job& job) {
  if (job.operation == Operation::send_recv) return prepare_exchange(context, job);
  const std::optional<int> partner = partner_of(context->rank, context->size);
  if (!partner) return [] {};
  return is_windowed(job.operation) ? prepare_window(context, job, *partner) : prepare_ping_pong(context, job, *partner);
}

using Prepare = Call (*)(const Context&, const Job&);

/// Gloo has no reduce_scatter behind its current interface, no prefixes, and two collectives with blocks of different length. (GCC 12 does not find
/// the enumerators by bench::Operation in a template.)
template <class T>
constexpr OperationMap<Prepare> collectives{
    {unisono::Operation::barrier, prepare<T, gloo::BarrierOptions, gloo::barrier>},
    {unisono::Operation::all_reduce, prepare<T, gloo::AllreduceOptions, gloo::allreduce>},
    {unisono::Operation::broadcast, prepare<T, gloo::BroadcastOptions, gloo::broadcast>},
    {unisono::Operation::reduce, prepare<T, gloo::ReduceOptions, gloo::reduce>},
    {unisono::Operation::all_gather, prepare<T, gloo::AllgatherOptions, gloo::allgather>},
    {unisono::Operation::gather, prepare<T, gloo::GatherOptions, gloo::gather>},
    {unisono::Operation::scatter, prepare<T, gloo::ScatterOptions, gloo::scatter>},
    {unisono::Operation::all_to_all, prepare<T, gloo::AlltoallOptions, gloo::alltoall>},
    {unisono::Operation::all_gather_v, prepare<T, gloo::AllgathervOptions, gloo::allgatherv>},
    {unisono::Operation::all_to_all_v, prepare<T, gloo::AlltoallvOptions, gloo::alltoallv>},
};

/// The collectives for a dtype; null for one that Gloo does not have.
const OperationMap<Prepare>* collectives_of(DType dtype) {
  switch (dtype) {
    case DType::float32: return &collectives<float>;
    case DType::float64: return &collectives<double>;
    case DType::float16: return &collectives<gloo::float16>;
    case DType::int8: return &collectives<std::int8_t>;
    case DType::uint8: return &collectives<std::uint8_t>;
    case DType::int32: return &collectives<std::int32_t>;
    case DType::int64: return &collectives<std::int64_t>;
    default: return nullptr;
  }
}

/// Returns what prepares the calls; null for what Gloo does not have.
Prepare preparing(Operation operation, DType dtype) {
  const OperationMap<Prepare>* const known = collectives_of(dtype);
  if (known == nullptr || operation == Operation::copy) return nullptr;
  const OperationTraits* const traits = operation.traits();
  return traits != nullptr ? (*known)[traits->operation] : prepare_messages;
}

class GlooCandidate final : public Candidate {
 public:
  explicit GlooCandidate(Context context) : context_(std::move(context)) {}

  std::string_view name() const override { return "gloo"; }
  bool supports(Operation operation, DType dtype) const override { return preparing(operation, dtype) != nullptr; }
  void select(const Job& job) override {
    call_ = nullptr;  // releases the buffers of the previous job first
    call_ = preparing(job.operation, job.dtype)(context_, job);
  }
  void call() override { call_(); }

 private:
  Context context_;
  Call call_;
};

void add(Candidates& candidates, const Plan& plan, Place place) {
  if (!plan.asks_for("gloo")) return;
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

std::vector<PeerVersion> versions(std::string_view) {
  const auto text = [](int number) { return std::to_string(number); };
  return {{.name = "gloo", .version = "Gloo " + text(GLOO_VERSION_MAJOR) + "." + text(GLOO_VERSION_MINOR) + "." + text(GLOO_VERSION_PATCH)}};
}

[[maybe_unused]] const std::size_t number = add_peer({.add = add, .versions = versions});

}  // namespace
}  // namespace unisono::bench
