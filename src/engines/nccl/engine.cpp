#include "engines/nccl/engine.h"

#include <poll.h>

#include <stdexcept>

#include <fmt/format.h>

#include "unisono/error.h"

namespace unisono::engines::nccl {
namespace {

constexpr std::chrono::milliseconds time_to_leave{2000};
constexpr const char* world_key = "world";

// The keys under which a rank announces itself, and under which a rank that cannot go on writes the reason.
std::string here_key(int rank) { return fmt::format("here/{}", rank); }
constexpr const char* failed_key = "failed";

}  // namespace

/// A CollectiveCall or a Message that is put on the device when its turn comes.
template <class Work>
class NcclEngine::Enqueue final : public Task {
 public:
  Enqueue(std::shared_ptr<Communicator> communicator, Work work)
      : communicator_(std::move(communicator)), work_(std::move(work)), turn_(communicator_->take_turn()) {}
  bool advance() override {
    if (completion_) return true;
    if (!communicator_->is_turn(turn_) || !communicator_->form()) return false;
    if (!launched_) {
      communicator_->launch(work_);
      launched_ = true;
    }
    completion_ = communicator_->completion();
    if (!completion_) return false;
    communicator_->end_turn();
    return true;
  }
  // NCCL does not tell which peer it waits for.
  std::vector<int> waiting_for() const override { return {}; }
  bool wakes_waiter() const override { return false; }
  std::shared_ptr<DeviceEvent> completion() const override { return completion_; }

 private:
  std::shared_ptr<Communicator> communicator_;
  Work work_;
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
  for (const auto& [key, communicator] : communicators_) communicator->abort();
}

std::shared_ptr<Communicator> NcclEngine::make(const std::string& key, int size, int first_rank, std::vector<int> devices) {
  const std::lock_guard lock(mutex_);
  if (over_) throw std::runtime_error("the NCCL communicators of the group were aborted");
  auto& communicator = communicators_[key];
  if (!communicator)
    communicator = std::make_shared<Communicator>(vendor_, options_.store, Communicator::Shape{key, size, first_rank, std::move(devices)});
  return communicator;
}

std::shared_ptr<Communicator> NcclEngine::world() {
  {
    const std::lock_guard lock(mutex_);
    if (world_ && !over_) return world_;
  }
  auto made = make(world_key, options_.size(), options_.rank, {device_});
  const std::lock_guard lock(mutex_);
  return world_ = std::move(made);
}

constexpr int looks_per_question = 100;  // to the store, whether a rank has failed

void NcclEngine::form_world(std::chrono::milliseconds timeout) {
  const auto communicator = world();
  const base::Deadline deadline(timeout);
  try {
    options_.store->set(here_key(options_.rank), "1");
    // The device becomes the caller's current one before this rank waits for others, and before the program allocates memory.
    check(*vendor_, vendor_->cuda.set_device(device_), "cudaSetDevice");
    for (int look = 1; !communicator->form(); ++look) {
      if (deadline.passed()) throw_late(timeout);
      if (look % looks_per_question == 0) {
        if (const auto failed = options_.store->try_get(failed_key)) {
          const int culprit = std::stoi(*failed);
          throw PeerFailed(fmt::format("rank {} cannot make its NCCL communicator: {}", culprit, failed->substr(failed->find(' ') + 1)),
                           {.operation = "initialize", .group = options_.group_name, .rank = options_.rank, .culprit = culprit},
                           PeerFailed::Cause::aborted);
        }
      }
      ::poll(nullptr, 0, 1);  // NCCL does not report when it is done
    }
  } catch (const Error&) {
    communicator->abort();
    throw;
  } catch (const std::exception& error) {
    communicator->abort();
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

std::shared_ptr<Communicator> NcclEngine::communicator_for(const CollectiveCall& call) {
  if (call.device->ins.empty()) return world();
  std::vector<int> devices;
  for (const TensorView& tensor : call.device->ins) devices.push_back(tensor.device().index);
  const auto several = static_cast<int>(devices.size());
  auto communicator = make(fmt::format("{}x", several), options_.size() * several, options_.rank * several, devices);
  if (communicator->shape().devices != devices) {
    throw InvalidArgument(fmt::format("a list of {} tensors was on devices {} before, and is on {} now", several,
                                      fmt::join(communicator->shape().devices, ", "), fmt::join(devices, ", ")),
                          {.hint = "lists of one length stay on the same devices, as long as the group lives"});
  }
  return communicator;
}

std::unique_ptr<Task> NcclEngine::start(const CollectiveCall& call) {
  CollectiveCall own = call;
  // In a call on a list every process takes part with as many communicators as its list is long.
  if (!call.device->ins.empty() && call.root >= 0) own.root = call.root * static_cast<int>(call.device->ins.size());
  return std::make_unique<Enqueue<CollectiveCall>>(communicator_for(call), std::move(own));
}

// The sender is rank 0 and the receiver rank 1 of a communicator of two.
std::unique_ptr<Task> NcclEngine::start_device_send(const TensorView& data, int peer, const Events& after) {
  return std::make_unique<Enqueue<Message>>(make(fmt::format("{}-{}", options_.rank, peer), 2, 0, {device_}),
                                            Message{.data = data, .peer = 1, .sends = true, .after = after});
}
std::unique_ptr<Task> NcclEngine::start_device_recv(const TensorView& data, int peer, const Events& after) {
  return std::make_unique<Enqueue<Message>>(make(fmt::format("{}-{}", peer, options_.rank), 2, 1, {device_}),
                                            Message{.data = data, .peer = 0, .sends = false, .after = after});
}

void NcclEngine::abort(const Failure&) noexcept {
  const std::lock_guard lock(mutex_);
  over_ = true;
  for (const auto& [key, communicator] : communicators_) communicator->abort();
}

void NcclEngine::leave() {
  const std::lock_guard lock(mutex_);
  over_ = true;
  const base::Deadline deadline(time_to_leave);
  for (const auto& [key, communicator] : communicators_) communicator->close(deadline.left());
}

OwnDevice own_device(const Vendor& vendor, int local_rank) {
  const int device = local_rank % vendor.devices;
  return {.device = {.type = Device::Type::cuda, .index = device},
          .address = pci_address(vendor, device),
          .may_be_shared = vendor.settings.shared_devices && vendor.nccl_version >= oldest_of_shared_devices};
}

std::unique_ptr<Engine> make_engine(const EngineOptions& options) { return std::make_unique<NcclEngine>(vendor(), options); }

}  // namespace unisono::engines::nccl
