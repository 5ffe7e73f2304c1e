#include "launch/hosts/seat_watch.h"

#include <chrono>
#include <exception>
#include <utility>

#include "base/log.h"
#include "store/requests.h"

namespace unisono::launcher {
namespace {

constexpr int looks = 3;  ///< within the time after which a launcher counts as dead

}  // namespace

SeatWatch::SeatWatch(std::shared_ptr<store::etcd::KeysInEtcd> store, std::function<std::optional<std::string>()> look,
                     std::function<void(const std::string&)> tell)
    : store_(std::move(store)), look_(std::move(look)), tell_(std::move(tell)), thread_("the watch over the place in etcd", [this] { watch(); }) {}

SeatWatch::~SeatWatch() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopping_.notify_all();
  thread_.join();
}

void SeatWatch::watch() {
  const auto period = std::chrono::milliseconds(store_->time_to_live()) / looks;
  for (std::unique_lock lock(mutex_); !stopping_.wait_for(lock, period, [&] { return stop_; }); lock.lock()) {
    lock.unlock();
    try {
      const store::RequestLimit limit(period);
      if (const auto why = look_()) tell_(*why);
    } catch (const std::exception& error) {  // etcd does not answer; nobody else can take the place there, either
      base::debug(error.what());
    }
  }
}

}  // namespace unisono::launcher
