#include "engines/nccl/communicator.h"

#include <poll.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

namespace unisono::engines::nccl {
namespace {

// The pause between two requests to the store.
constexpr std::chrono::milliseconds store_period{1};

const char* name_of(Result result) {
  constexpr const char* names[] = {"ncclSuccess",         "ncclUnhandledCudaError", "ncclSystemError", "ncclInternalError",
                                   "ncclInvalidArgument", "ncclInvalidUsage",       "ncclRemoteError", "ncclInProgress"};
  const auto index = static_cast<std::size_t>(result);
  return index < std::size(names) ? names[index] : "an unknown result";
}

}  // namespace

/// The end of a call on all members. It also reports errors of their communicators, since no other object checks the work in progress.
class Communicator::Completion final : public DeviceEvent {
 public:
  Completion(std::shared_ptr<Communicator> communicator, std::vector<CudaEvent*> events, std::uint64_t number)
      : communicator_(std::move(communicator)), events_(std::move(events)), number_(number) {}
  ~Completion() override { communicator_->give_back(events_); }
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;
  bool reached() override {
    const bool all =
        communicator_->is_passed(number_) || std::all_of(events_.begin(), events_.end(), [](CudaEvent* event) { return event->reached(); });
    if (all) communicator_->note_passed(number_);
    // An abort also ends the work on the device, which is no success.
    return communicator_->try_look(!all) && all;
  }
  void order(void* stream) override {
    for (CudaEvent* event : events_) event->order(stream);
  }

 private:
  std::shared_ptr<Communicator> communicator_;
  std::vector<CudaEvent*> events_;
  std::uint64_t number_;  // among those of the communicator
};

// Events are used again: to make one and to destroy it takes the time of an operation.
CudaEvent& Communicator::record_end(const Member& member, Stream stream) {
  {
    const std::lock_guard lock(events_mutex_);
    auto& spare = spare_[member.device];
    if (!spare.empty()) {
      CudaEvent& event = *spare.back();
      event.record(stream);
      spare.pop_back();
      return event;
    }
  }
  auto made = std::make_unique<CudaEvent>(vendor_, member.device, stream);
  CudaEvent& event = *made;
  const std::lock_guard lock(events_mutex_);
  spare_[member.device].reserve(events_.size() + 1);  // so that none is lost when it is given back
  events_.push_back(std::move(made));
  return event;
}

void Communicator::give_back(const std::vector<CudaEvent*>& events) noexcept {
  const std::lock_guard lock(events_mutex_);
  for (CudaEvent* event : events) spare_[event->device()].push_back(event);
}

Communicator::Communicator(std::shared_ptr<const Vendor> vendor, std::shared_ptr<Store> store, Shape shape)
    : vendor_(std::move(vendor)), store_(std::move(store)), shape_(std::move(shape)) {
  int rank = shape_.first_rank;
  for (const int device : shape_.devices) members_.push_back({.comm = nullptr, .rank = rank++, .device = device, .stream = nullptr});
}

Communicator::~Communicator() {
  abort();
  for (const Member& member : members_) {
    if (member.stream != nullptr) vendor_->cuda.stream_destroy(member.stream);
  }
}

void Communicator::fail(const char* function, Result result, Comm comm) const {
  std::string text = fmt::format("{}: {} ({})", function, vendor_->nccl.get_error_string(result), name_of(result));
  const char* last = vendor_->nccl.get_last_error(comm);
  if (last != nullptr && *last != '\0') text.append("; ").append(last);
  if (result == Result::invalid_usage && shape_.size > 1) {
    text.append("; NCCL wants a device for each rank, unless NCCL_MULTI_RANK_GPU_ENABLE=1");
  }
  throw std::runtime_error(text);
}

void Communicator::require_alive() const {
  if (state_ == State::over) throw std::runtime_error("the NCCL communicator was aborted");
}

std::optional<UniqueId> Communicator::meet() {
  UniqueId id{};
  if (shape_.first_rank == 0) {
    if (const Result result = vendor_->nccl.get_unique_id(&id); result != Result::success) fail("ncclGetUniqueId", result, nullptr);
    store_->set(shape_.key, std::string_view(id.internal, sizeof id.internal));
    return id;
  }
  const auto now = base::Clock::now();
  if (now < next_look_) return std::nullopt;
  next_look_ = now + store_period;
  const auto text = store_->try_get(shape_.key);
  if (!text) return std::nullopt;
  if (text->size() != sizeof id.internal) throw std::runtime_error("the value in the store is not the identity of an NCCL communicator");
  std::memcpy(id.internal, text->data(), sizeof id.internal);
  return id;
}

void Communicator::begin(const UniqueId& id) {
  for (Member& member : members_) {
    const OnDevice on_device(*vendor_, member.device);
    check(*vendor_, vendor_->cuda.stream_create(&member.stream, stream_non_blocking), "cudaStreamCreateWithFlags");
  }
  const bool several = members_.size() > 1;
  Config config;
  config.blocking = 0;
  Result first = Result::success;
  const auto note = [&first](Result result) {
    if (result != Result::in_progress && first == Result::success) first = result;
  };
  if (several) static_cast<void>(vendor_->nccl.group_start());
  for (Member& member : members_) {
    const OnDevice on_device(*vendor_, member.device);
    note(vendor_->nccl.comm_init_rank_config(&member.comm, shape_.size, id, member.rank, &config));
  }
  if (several) note(vendor_->nccl.group_end());
  if (first != Result::success) fail("ncclCommInitRankConfig", first, members_.front().comm);
}

bool Communicator::form() {
  if (state_ == State::ready) return true;
  const std::lock_guard lock(mutex_);
  require_alive();
  if (state_ == State::meeting) {
    const auto id = meet();
    if (!id) return false;
    state_ = State::forming;
    begin(*id);
  }
  if (!settled_locked()) return false;
  state_ = State::ready;
  return true;
}

namespace {

const std::vector<std::shared_ptr<DeviceEvent>>& events_before(const CollectiveCall& call) { return call.device->after; }
const std::vector<std::shared_ptr<DeviceEvent>>& events_before(const Message& message) { return message.after; }
std::optional<void*> stream_of_caller(const CollectiveCall& call) { return call.device->stream; }
std::optional<void*> stream_of_caller(const Message&) { return std::nullopt; }

}  // namespace

// A blocking call of the only member goes to its caller's stream: nothing has to be recorded before it, and the caller's next work comes behind it by
// itself. NCCL carries out a communicator's operations one after the other, so streams that change are put in order.
Stream Communicator::stream_for(const std::optional<void*>& of_caller) {
  Member& member = members_.front();
  const Stream stream = of_caller ? static_cast<Stream>(*of_caller) : member.stream;
  if (last_end_ != nullptr && stream != last_stream_) {
    const OnDevice on_device(*vendor_, member.device);
    last_end_->order(stream);
  }
  return stream;
}

template <class Work>
void Communicator::launch(const Work& work) {
  using PartOf = std::conditional_t<std::is_same_v<Work, Message>, MessagePart, Part>;
  const std::lock_guard lock(mutex_);
  require_alive();
  const bool is_one = members_.size() == 1;
  if (is_one) launched_on_ = stream_for(stream_of_caller(work));
  for (const Member& member : members_) {
    for (const auto& event : events_before(work)) event->order(is_one ? launched_on_ : member.stream);
  }
  const bool is_grouped = !is_one || !PartOf::is_one_function(work);
  if (is_grouped) static_cast<void>(vendor_->nccl.group_start());
  Launched first;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const OnDevice on_device(*vendor_, members_[i].device);
    Member member = members_[i];
    if (is_one) member.stream = launched_on_;
    Launched launched;
    PartOf part(*vendor_, work, member, i, shape_.size);
    if constexpr (std::is_same_v<Work, Message>) {
      launched = part.enqueue();
    } else {
      if (const auto enqueue = part.prepare()) (part.*enqueue)(part.reduction());
      launched = part.finish();
    }
    if (first.result == Result::success && first.cuda == CudaError::success) first = launched;
  }
  // A group ends after an error as well, or the thread's next calls would be part of it.
  const Result ended = is_grouped ? vendor_->nccl.group_end() : Result::success;
  check(*vendor_, first.cuda, first.function);
  if (first.result != Result::success) fail(first.function, first.result, members_.front().comm);
  if (ended != Result::success && ended != Result::in_progress) fail("ncclGroupEnd", ended, members_.front().comm);
}

template void Communicator::launch(const CollectiveCall& call);
template void Communicator::launch(const Message& message);

bool Communicator::try_look(bool for_errors) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  require_alive();
  if (for_errors) static_cast<void>(settled_locked());
  return true;
}

bool Communicator::settled_locked() {
  bool settled = true;
  for (const Member& member : members_) {
    Result state = Result::success;
    const Result asked = vendor_->nccl.comm_get_async_error(member.comm, &state);
    if (asked != Result::success) fail("ncclCommGetAsyncError", asked, member.comm);
    if (state == Result::in_progress) settled = false;
    else if (state != Result::success) fail("NCCL failed in the background", state, member.comm);
  }
  return settled;
}

std::shared_ptr<DeviceEvent> Communicator::completion() {
  const std::lock_guard lock(mutex_);
  require_alive();
  if (!settled_locked()) return nullptr;
  std::vector<CudaEvent*> events;
  events.reserve(members_.size());
  try {
    for (const Member& member : members_) events.push_back(&record_end(member, members_.size() == 1 ? launched_on_ : member.stream));
    auto completion = std::make_shared<Completion>(shared_from_this(), events, ++completions_);
    if (events.size() == 1) {
      last_end_ = events.front();
      last_stream_ = launched_on_;
    }
    return completion;
  } catch (...) {
    give_back(events);
    throw;
  }
}

void Communicator::abort() noexcept {
  const std::lock_guard lock(mutex_);
  state_ = State::over;
  for (Member& member : members_) {
    if (Comm comm = std::exchange(member.comm, nullptr)) vendor_->nccl.comm_abort(comm);
  }
}

void Communicator::close(std::chrono::milliseconds at_most) noexcept {
  {
    const std::lock_guard lock(mutex_);
    const base::Deadline deadline(at_most);
    bool orderly = state_ == State::ready;
    for (const Member& member : members_) {
      if (!orderly) break;
      const Result result = vendor_->nccl.comm_finalize(member.comm);
      orderly = result == Result::success || result == Result::in_progress;
    }
    while (orderly) {
      try {
        if (settled_locked()) break;
      } catch (const std::exception&) {
        orderly = false;
      }
      if (deadline.passed()) orderly = false;
      else ::poll(nullptr, 0, 1);  // NCCL does not report when it is done
    }
    if (orderly) {
      state_ = State::over;
      for (Member& member : members_) vendor_->nccl.comm_destroy(std::exchange(member.comm, nullptr));
    }
  }
  abort();
}

}  // namespace unisono::engines::nccl
