#include "controller/call.h"

#include <utility>

#include "group/progress/work_state.h"

namespace unisono {

detail::RemoteCall::~RemoteCall() = default;
detail::RemoteWorkers::~RemoteWorkers() = default;

namespace controller {
namespace {

/// Returns the types between the parentheses of a signature.
std::string types_of(std::string_view signature) {
  const auto end = signature.rfind(") -> ");
  return std::string(end == std::string_view::npos || signature.empty() ? signature : signature.substr(1, end - 1));
}

}  // namespace

Call::Call(std::shared_ptr<CallDriver> driver, int worker, std::uint64_t sequence, detail::RemoteRequest&& request)
    : driver_(std::move(driver)),
      worker_(worker),
      sequence_(sequence),
      function_(request.function),
      types_(std::move(request.types)),
      where_(request.where),
      has_result_(request.has_result),
      memory_(request.memory ? std::make_shared<detail::PartMemory>(std::move(request.memory)) : nullptr) {}

CallText Call::text(const std::string& host, int rank) const {
  return {.worker = worker_,
          .host = host,
          .rank = rank,
          .function = function_->name,
          .types = types_.empty() ? types_of(function_->signature) : types_,
          .where = where_};
}

std::vector<std::function<void()>> Call::end(detail::Frame&& result, std::exception_ptr error) {
  result_ = std::move(result);
  error_ = std::move(error);
  done_.store(true, std::memory_order_release);
  return std::exchange(listeners_, {});
}

bool Call::poll() {
  if (!is_done()) driver_->poll();
  return is_done();
}

bool Call::wait(std::optional<std::chrono::milliseconds> at_most) {
  if (is_done()) return true;
  auto lock = driver_->lock();
  driver_->flush_for(*this);
  const auto done = [this] { return is_done(); };
  if (!at_most) return driver_->drive(lock, done, nullptr);
  const base::Deadline deadline(*at_most);
  return driver_->drive(lock, done, &deadline);
}

detail::Frame Call::take() {
  wait({});
  const auto lock = driver_->lock();
  if (error_) std::rethrow_exception(error_);
  if (std::exchange(is_taken_, true)) throw InvalidArgument("the result of this call was taken before", {.operation = "get", .where = where_});
  return std::move(result_);
}

std::exception_ptr Call::error() const {
  if (!is_done()) return nullptr;
  const auto lock = driver_->lock();
  return error_;
}

bool Call::cancel() {
  auto lock = driver_->lock();
  if (is_done()) return false;
  driver_->cancel(*this);
  driver_->run_callbacks(lock);
  return true;
}

void Call::then(std::function<void()> f) {
  {
    auto lock = driver_->lock();
    if (!is_done()) {
      const bool is_first = listeners_.empty();
      listeners_.push_back(std::move(f));
      driver_->flush_for(*this);
      if (is_first) driver_->need_thread();
      driver_->run_callbacks(lock);
      return;
    }
  }
  group::call_back(f);
}

}  // namespace controller

std::optional<std::size_t> detail::wait_any(std::span<const std::shared_ptr<RemoteCall>> calls, std::optional<std::chrono::milliseconds> at_most) {
  if (calls.empty()) throw InvalidArgument("there is nothing to wait for", {.operation = "wait_any"});
  std::vector<controller::Call*> all;
  for (const auto& call : calls) {
    auto* const own = dynamic_cast<controller::Call*>(call.get());
    if (own == nullptr || (!all.empty() && &own->driver() != &all.front()->driver()))
      throw InvalidArgument("the futures belong to several controllers, or are empty", {.operation = "wait_any"});
    all.push_back(own);
  }
  std::optional<std::size_t> found;
  const auto any = [&] {
    for (std::size_t i = 0; i < all.size() && !found; ++i) {
      if (all[i]->is_done()) found = i;
    }
    return found.has_value();
  };
  if (any()) return found;
  controller::CallDriver& driver = all.front()->driver();
  auto lock = driver.lock();
  for (controller::Call* const call : all) driver.flush_for(*call);
  std::optional<base::Deadline> deadline;
  if (at_most) deadline.emplace(*at_most);
  driver.drive(lock, any, deadline ? &*deadline : nullptr);
  return found;
}

}  // namespace unisono
