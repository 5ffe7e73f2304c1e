#include "backends/nccl/engine.h"

#include <poll.h>

#include <stdexcept>

#include <fmt/format.h>

#include "unisono/error.h"

namespace unisono::backends::nccl {
namespace {

constexpr std::chrono::milliseconds time_to_leave{2000};
constexpr const char* world_key = "world";

// Under which a rank says that it is there, and under which one that cannot go on says why.
std::string here_key(int rank) { return fmt::format("here/{}", rank); }
constexpr const char* failed_key = "failed";

}  // namespace

class NcclEngine::Enqueue final : public Task {
 public:
  Enqueue(std::shared_ptr<Clique> clique, const CollectiveCall& call) : clique_(std::move(clique)), call_(call), turn_(clique_->take_turn()) {}
  bool advance() override {
    if (completion_) return true;
    if (!clique_->is_turn(turn_) || !clique_->form()) return false;
    if (!launched_) {
      clique_->launch(call_);
      launched_ = true;
    }
    if (!clique_->settled()) return false;
    completion_ = clique_->completion();
    clique_->end_turn();
    return true;
  }
  // Which peer it is that NCCL waits for, it does not say.
  std::vector<int> waiting_for() const override { return {}; }
  bool is_rung_for() const override { return false; }
  std::shared_ptr<DeviceEvent> completion() const override { return completion_; }

 private:
  std::shared_ptr<Clique> clique_;
  CollectiveCall call_;
  std::uint64_t turn_;
  bool launched_ = false;
  std::shared_ptr<DeviceEvent> completion_;
};

NcclEngine::NcclEngine(std::shared_ptr<const Vendor> vendor, const EngineOptions& options)
    : vendor_(std::move(vendor)),
      options_(options),
      device_(options.at_need ? options.local_rank % vendor_->devices : choose_device(*vendor_, options.local_rank)) {
  if (!options.at_need) form_world(options.timeout);
}

NcclEngine::~NcclEngine() {
  for (const auto& [key, clique] : cliques_) clique->abort();
}

std::shared_ptr<Clique> NcclEngine::make(const std::string& key, int size, int first_rank, std::vector<int> devices) {
  const std::lock_guard lock(mutex_);
  if (over_) throw std::runtime_error("the NCCL communicators of the group were aborted");
  auto& clique = cliques_[key];
  if (!clique) clique = std::make_shared<Clique>(vendor_, options_.store, Clique::Shape{key, size, first_rank, std::move(devices)});
  return clique;
}

void NcclEngine::form_world(std::chrono::milliseconds timeout) {
  const auto clique = make(world_key, options_.size(), options_.rank, {device_});
  const ground::Deadline deadline(timeout);
  try {
    options_.store->set(here_key(options_.rank), "1");
    // The caller's device from now on: before anybody is waited for, and before the program takes memory.
    check(*vendor_, vendor_->cuda.set_device(device_), "cudaSetDevice");
    for (int look = 1; !clique->form(); ++look) {
      if (deadline.passed()) throw_late(timeout);
      if (look % 100 == 0) {
        if (const auto failed = options_.store->try_get(failed_key)) {
          const int culprit = std::stoi(*failed);
          throw PeerFailed(fmt::format("rank {} cannot make its NCCL communicator: {}", culprit, failed->substr(failed->find(' ') + 1)),
                           {.operation = "initialize", .group = options_.group_name, .rank = options_.rank, .culprit = culprit},
                           PeerFailed::Cause::aborted);
        }
      }
      ::poll(nullptr, 0, 1);  // NCCL tells nobody when it is done
    }
  } catch (const Error&) {
    clique->abort();
    throw;
  } catch (const std::exception& error) {
    clique->abort();
    static_cast<void>(options_.store->compare_set(failed_key, "", fmt::format("{} {}", options_.rank, error.what())));
    throw BackendUnavailable(fmt::format("nccl cannot make a communicator of {} ranks on cuda:{}: {}", options_.size(), device_, error.what()),
                             {.operation = "initialize", .group = options_.group_name, .rank = options_.rank, .hint = "NCCL_DEBUG=INFO says more"});
  }
}

void NcclEngine::throw_late(std::chrono::milliseconds timeout) const {
  std::vector<int> missing;
  for (int r = 0; r < options_.size(); ++r) {
    if (!options_.store->try_get(here_key(r))) missing.push_back(r);
  }
  const std::string what = missing.empty() ? std::string("all ranks are there, and NCCL does not get through")
                                           : fmt::format("rank {} did not come", fmt::join(missing, ", "));
  ErrorInfo info{.operation = "initialize", .group = options_.group_name, .rank = options_.rank, .hint = "NCCL_DEBUG=INFO says more"};
  if (!missing.empty()) info.culprit = missing.front();
  throw Timeout(fmt::format("the NCCL communicator was not made within {} ms: {}", timeout.count(), what), std::move(info), missing);
}

std::shared_ptr<Clique> NcclEngine::clique_for(const CollectiveCall& call) {
  if (call.operation == Operation::send) return make(fmt::format("{}-{}", options_.rank, call.root), 2, 0, {device_});
  if (call.operation == Operation::recv) return make(fmt::format("{}-{}", call.root, options_.rank), 2, 1, {device_});
  if (call.device->ins.empty()) return make(world_key, options_.size(), options_.rank, {device_});
  std::vector<int> devices;
  for (const Tensor& tensor : call.device->ins) devices.push_back(tensor.device().index);
  const auto several = static_cast<int>(devices.size());
  auto clique = make(fmt::format("{}x", several), options_.size() * several, options_.rank * several, devices);
  if (clique->shape().devices != devices) {
    throw InvalidArgument(fmt::format("a list of {} tensors was on devices {} before, and is on {} now", several,
                                      fmt::join(clique->shape().devices, ", "), fmt::join(devices, ", ")),
                          {.hint = "lists of one length stay on the same devices, as long as the group lives"});
  }
  return clique;
}

std::unique_ptr<Task> NcclEngine::start(const CollectiveCall& call) {
  CollectiveCall own = call;
  // Of a list every process takes part with as many communicators as its list is long.
  if (!call.device->ins.empty() && call.root >= 0) own.root = call.root * static_cast<int>(call.device->ins.size());
  // Between two ranks the sender is rank 0 and the receiver rank 1.
  auto clique = clique_for(call);
  if (call.operation == Operation::send) own.root = 1;
  if (call.operation == Operation::recv) own.root = 0;
  return std::make_unique<Enqueue>(std::move(clique), own);
}

void NcclEngine::abort(const Failure&) noexcept {
  const std::lock_guard lock(mutex_);
  over_ = true;
  for (const auto& [key, clique] : cliques_) clique->abort();
}

void NcclEngine::leave() {
  const std::lock_guard lock(mutex_);
  over_ = true;
  const ground::Deadline deadline(time_to_leave);
  for (const auto& [key, clique] : cliques_) clique->close(deadline.left());
}

std::unique_ptr<Engine> make_engine(const EngineOptions& options) { return std::make_unique<NcclEngine>(vendor(), options); }

}  // namespace unisono::backends::nccl
