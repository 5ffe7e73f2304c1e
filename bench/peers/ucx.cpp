// Measures UCX as it is ("ucx": tagged messages of one worker), and the engine of unisono over it ("ucx-engine": the channels that the group's
// schedules use, without the group). Both carry out the same schedules, so their difference is what the engine adds.
#include <sched.h>
#include <ucp/api/ucp.h>

#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "engines/registry.h"
#include "harness/candidate.h"
#include "unisono/engine.h"
#include "unisono/store.h"

namespace unisono::bench {
namespace {

/// Sends to one rank and receives from another at the same time.
class Messages {
 public:
  virtual ~Messages() = default;
  virtual void exchange(const void* out, std::size_t out_bytes, int to, void* in, std::size_t in_bytes, int from) = 0;
};

/// All wait in the same way: they look again and again, and give the processor to others where there are more ranks than processors.
template <class IsDone>
void wait_for(const IsDone& is_done, bool crowded) {
  while (!is_done()) {
    if (crowded) ::sched_yield();
  }
}

void check(ucs_status_t status, const char* call) {
  if (status != UCS_OK) throw std::runtime_error(std::string(call) + " failed: " + ucs_status_string(status));
}

class RawUcx final : public Messages {
 public:
  RawUcx(Place place, Store& store, bool crowded) : place_(place), crowded_(crowded), endpoints_(static_cast<std::size_t>(place.ranks)) {
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_TAG;
    check(ucp_init(&params, nullptr, &context_), "ucp_init");
    ucp_worker_params_t mode{};
    mode.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    mode.thread_mode = UCS_THREAD_MODE_SINGLE;
    check(ucp_worker_create(context_, &mode, &worker_), "ucp_worker_create");
    ucp_address_t* address = nullptr;
    std::size_t length = 0;
    check(ucp_worker_get_address(worker_, &address, &length), "ucp_worker_get_address");
    store.set("raw/" + std::to_string(place.rank), std::string(reinterpret_cast<const char*>(address), length));
    ucp_worker_release_address(worker_, address);
    for (int r = 0; r < place.ranks; ++r) {
      if (r == place.rank) continue;
      const std::string peer = store.get("raw/" + std::to_string(r));
      ucp_ep_params_t end{};
      end.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
      end.address = reinterpret_cast<const ucp_address_t*>(peer.data());
      check(ucp_ep_create(worker_, &end, &endpoints_[static_cast<std::size_t>(r)]), "ucp_ep_create");
    }
  }
  // The process ends with its connections: the others may not be done with them yet.
  ~RawUcx() override = default;
  RawUcx(const RawUcx&) = delete;
  RawUcx& operator=(const RawUcx&) = delete;

  void exchange(const void* out, std::size_t out_bytes, int to, void* in, std::size_t in_bytes, int from) override {
    const ucp_request_param_t none{};
    void* const receiving = ucp_tag_recv_nbx(worker_, in, in_bytes, static_cast<ucp_tag_t>(from), ~ucp_tag_t{0}, &none);
    void* const sending = ucp_tag_send_nbx(endpoints_[static_cast<std::size_t>(to)], out, out_bytes, static_cast<ucp_tag_t>(place_.rank), &none);
    finish(receiving);
    finish(sending);
  }

 private:
  void finish(void* request) {
    if (!UCS_PTR_IS_PTR(request)) return check(UCS_PTR_STATUS(request), "a message");
    wait_for(
        [&] {
          ucp_worker_progress(worker_);
          return ucp_request_check_status(request) != UCS_INPROGRESS;
        },
        crowded_);
    const ucs_status_t status = ucp_request_check_status(request);
    ucp_request_free(request);
    check(status, "a message");
  }

  const Place place_;
  const bool crowded_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  std::vector<ucp_ep_h> endpoints_;
};

class EngineUcx final : public Messages {
 public:
  EngineUcx(Place place, const Plan& plan, std::shared_ptr<Store> store, bool crowded) : crowded_(crowded) {
    EngineOptions options;
    options.group_name = options.key = "bench";
    options.rank = place.rank;
    options.address = "127.0.0.1";
    options.store = std::move(store);
    for (int r = 0; r < place.ranks; ++r) options.global_ranks.push_back(r);
    options.timeout = plan.timeout;
    engine_ = engines::maker("ucx").make(options, nullptr);
  }
  ~EngineUcx() override { engine_->leave(); }
  EngineUcx(const EngineUcx&) = delete;
  EngineUcx& operator=(const EngineUcx&) = delete;

  void exchange(const void* out, std::size_t out_bytes, int to, void* in, std::size_t in_bytes, int from) override {
    const auto receiving = engine_->start_recv(in, in_bytes, from, 0);
    const auto sending = engine_->start_send(out, out_bytes, to, 0);
    wait_for([&] { return receiving->advance(); }, crowded_);
    wait_for([&] { return sending->advance(); }, crowded_);
  }

 private:
  const bool crowded_;
  std::unique_ptr<Engine> engine_;
};

/// The schedules: whole buffers between neighbours (send_recv), a ring (all_gather), and for all_reduce an exchange of whole buffers while they are
/// small, else a ring that scatters the sums and gathers them.
class UcxCandidate final : public Candidate {
 public:
  UcxCandidate(std::string name, Place place, std::unique_ptr<Messages> messages)
      : name_(std::move(name)), place_(place), messages_(std::move(messages)) {}

  std::string_view name() const override { return name_; }
  bool supports(Operation operation, DType) const override {
    return operation == Operation::send_recv || operation == Operation::all_gather || operation == Operation::all_reduce;
  }
  void select(const Job& job) override {
    job_ = job;
    element_ = size_of(job.dtype);
    room_.resize(job.operation == Operation::all_reduce ? job.shape.out * element_ : 0);
  }
  void call() override {
    auto* const in = static_cast<std::byte*>(job_.in);
    auto* const out = static_cast<std::byte*>(job_.out);
    const std::size_t bytes = job_.shape.in * element_;
    if (job_.operation == Operation::all_reduce) return all_reduce(in, out);
    if (job_.operation == Operation::send_recv) return messages_->exchange(in, bytes, next(), out, bytes, previous());
    copy(out + static_cast<std::size_t>(place_.rank) * bytes, in, bytes);
    gather(out, [bytes](int r) { return Part{static_cast<std::size_t>(r) * bytes, bytes}; });
  }

 private:
  struct Part {
    std::size_t begin, bytes;
  };
  static constexpr std::size_t most_whole = 16384;  // bytes that are exchanged as a whole

  int next() const { return (place_.rank + 1) % place_.ranks; }
  int previous() const { return (place_.rank + place_.ranks - 1) % place_.ranks; }
  int before(int steps) const { return (place_.rank + 2 * place_.ranks - steps) % place_.ranks; }
  static void copy(std::byte* to, const std::byte* from, std::size_t bytes) {
    if (to != from && bytes != 0) std::memcpy(to, from, bytes);
  }
  /// Passes the parts of all ranks round the ring. Each rank begins with its own part.
  template <class PartOf>
  void gather(std::byte* data, const PartOf& part_of, int begin = 0) {
    for (int step = 0; step + 1 < place_.ranks; ++step) {
      const Part sent = part_of(before(step - begin)), received = part_of(before(step + 1 - begin));
      messages_->exchange(data + sent.begin, sent.bytes, next(), data + received.begin, received.bytes, previous());
    }
  }
  void add(std::byte* into, const std::byte* with, std::size_t bytes) const { combine(job_.dtype, ReduceOp::sum, into, with, bytes / element_); }

  void all_reduce(std::byte* in, std::byte* out) {
    const std::size_t bytes = job_.shape.out * element_;
    copy(out, in, bytes);
    if (bytes <= most_whole) {
      // Each rank passes on what it has received, so that all add the same parts.
      std::vector<std::byte>& room = room_;
      const std::byte* passed = in == out ? keep(out, bytes) : in;
      for (int step = 0; step + 1 < place_.ranks; ++step) {
        messages_->exchange(passed, bytes, next(), room.data(), bytes, previous());
        add(out, room.data(), bytes);
        if (step + 2 < place_.ranks) passed = keep(room.data(), bytes);
      }
      return;
    }
    const std::size_t count = job_.shape.out, n = static_cast<std::size_t>(place_.ranks);
    const auto part_of = [&](int r) {
      const std::size_t begin = count * static_cast<std::size_t>(r) / n, end = count * (static_cast<std::size_t>(r) + 1) / n;
      return Part{begin * element_, (end - begin) * element_};
    };
    for (int step = 0; step + 1 < place_.ranks; ++step) {
      const Part sent = part_of(before(step)), received = part_of(before(step + 1));
      messages_->exchange(out + sent.begin, sent.bytes, next(), room_.data(), received.bytes, previous());
      add(out + received.begin, room_.data(), received.bytes);
    }
    gather(out, part_of, 1);
  }
  const std::byte* keep(const std::byte* data, std::size_t bytes) {
    kept_.assign(data, data + bytes);
    return kept_.data();
  }

  const std::string name_;
  const Place place_;
  const std::unique_ptr<Messages> messages_;
  Job job_ = {};
  std::size_t element_ = 1;
  std::vector<std::byte> room_, kept_;
};

void add(Candidates& candidates, const Plan& plan, Place place) {
  if (!plan.asks_for("ucx")) return;
  cpu_set_t usable;
  ::sched_getaffinity(0, sizeof usable, &usable);
  const bool crowded = CPU_COUNT(&usable) < place.ranks;
  const auto store = std::make_shared<FileStore>(plan.folder + "/ucx");
  store->set_timeout(plan.timeout);
  candidates.push_back(std::make_unique<UcxCandidate>("ucx", place, std::make_unique<RawUcx>(place, *store, crowded)));
  auto engine = std::make_unique<EngineUcx>(place, plan, std::make_shared<PrefixStore>("engine/", store), crowded);
  candidates.push_back(std::make_unique<UcxCandidate>("ucx-engine", place, std::move(engine)));
}

std::vector<PeerVersion> versions(std::string_view) {
  const std::string version = std::string("UCX ") + ucp_get_version_string();
  return {{.name = "ucx", .version = version}, {.name = "ucx-engine", .version = "the engine ucx alone, over " + version}};
}

[[maybe_unused]] const std::size_t number = add_peer({.add = add, .versions = versions});

}  // namespace
}  // namespace unisono::bench
