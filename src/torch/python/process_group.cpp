#include "torch/python/process_group.h"

#include <ATen/record_function.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <functional>
#include <ranges>
#include <set>
#include <utility>

#include "torch/python/errors.h"
#include "torch/python/store.h"
#include "unisono/detail/place.h"
#include "unisono/error.h"

namespace unisono::libtorch {

using namespace std::chrono_literals;

namespace {

// Groups may end after the destructors of static objects have run, so this is never destroyed.
std::mutex& mutex() {
  static auto& instance = *new std::mutex;
  return instance;
}
std::vector<std::weak_ptr<Membership>>& living() {
  static auto& instance = *new std::vector<std::weak_ptr<Membership>>;
  return instance;
}

/// Registers the membership for `end_all` as long as it lives.
void note_living(const std::shared_ptr<Membership>& membership) {
  const std::lock_guard lock(mutex());
  std::erase_if(living(), [](const auto& other) { return other.expired(); });
  living().push_back(membership);
}

}  // namespace

void end_all(const std::string& how) {
  std::vector<std::weak_ptr<Membership>> all;
  {
    const std::lock_guard lock(mutex());
    all = living();
  }
  for (const auto& each : std::views::reverse(all)) {
    const auto membership = each.lock();
    if (!membership) continue;
    try {
      if (how.empty()) membership->leave_at_exit();
      else membership->abandon(how);
    } catch (const std::exception& error) {  // the process ends in any case, and the other groups must still be told
      TORCH_WARN("unisono: a group could not be left: ", error.what());
    }
  }
}

c10::intrusive_ptr<c10d::Store> place_of_group(std::int64_t first_rank, const c10::intrusive_ptr<c10d::Store>& store) {
  return c10::make_intrusive<c10d::PrefixStore>(fmt::format("of rank {}", first_rank), store);
}

ProcessGroupUnisono::ProcessGroupUnisono(c10::intrusive_ptr<c10d::Store> store, int rank, int size, c10::intrusive_ptr<Options> options,
                                         std::string engine)
    : c10d::Backend(rank, size), store_(std::move(store)), options_(std::move(options)), engine_(std::move(engine)) {
  const std::string name = options_->name.empty() ? "world" : options_->name;
  try {
    membership_ = std::make_shared<Membership>(MembershipOptions{.store = std::make_shared<TorchStore>(store_),
                                                                 .rank = rank,
                                                                 .size = size,
                                                                 .name = name,
                                                                 .backend = engine_,
                                                                 .timeout = options_->timeout,
                                                                 .library = options_->library});
  } catch (...) {
    throw_torch_error(name == "world" ? "init_process_group" : "new_group");
  }
  note_living(membership_);
  group_ = membership_->group();
  init();
}

void ProcessGroupUnisono::abort() { group_->abort("the process group was aborted"); }

void ProcessGroupUnisono::shutdown() {
  with_torch_errors([&] { membership_->leave(); });
}

void ProcessGroupUnisono::startCoalescing() {
  const std::lock_guard lock(issuing_);
  coalesced_.emplace();
  coalescing_ = true;
}

ProcessGroupUnisono::WorkPtr ProcessGroupUnisono::endCoalescing() {
  std::vector<c10::intrusive_ptr<WorkUnisono>> parts;
  {
    const std::lock_guard lock(issuing_);
    if (!coalesced_) return nullptr;
    parts = std::move(*coalesced_);
    coalesced_.reset();
    coalescing_ = false;
  }
  if (parts.empty()) return nullptr;
  return WorkUnisono::all_of(parts, getRank());
}

// Titles live for ever, because a profiler may keep them.
const char* ProcessGroupUnisono::title(const char* name) const {
  if (!at::hasCallbacks()) return nullptr;
  static std::mutex mutex;
  static auto& titles = *new std::set<std::string>;
  const std::lock_guard lock(mutex);
  return titles.insert(fmt::format("{}:{}", options_->backend, name)).first->c_str();
}

std::chrono::milliseconds ProcessGroupUnisono::timeout_of(std::chrono::milliseconds given) const {
  return given == c10d::kUnsetTimeout || given == kNoTimeout ? options_->timeout : given;
}

void ProcessGroupUnisono::refuse(const char* call, const std::string& what) const {
  throw InvalidArgument(what, {.operation = call, .group = options_->name, .rank = getRank()});
}

const at::Tensor& ProcessGroupUnisono::single(const char* call, const Tensors& tensors) const {
  if (tensors.size() != 1) refuse(call, fmt::format("requires a single tensor, not {}", tensors.size()));
  return tensors.front();
}

void ProcessGroupUnisono::require_shape(const char* call, const Tensors& list, const at::Tensor& single, bool all) const {
  for (std::size_t r = 0; r < list.size(); ++r) {
    if (list[r].sizes() == single.sizes() || (!all && r != static_cast<std::size_t>(getRank()))) continue;
    refuse(call, fmt::format("tensor {} of the list has shape [{}], and the single one [{}]", r, fmt::join(list[r].sizes(), ", "),
                             fmt::join(single.sizes(), ", ")));
  }
}

Rank ProcessGroupUnisono::root_of(const char* call, std::int64_t root) const {
  if (root < 0 || root >= getSize()) refuse(call, fmt::format("invalid root rank: {} in a group of {}", root, getSize()));
  return root;
}

template <class Start>
ProcessGroupUnisono::WorkPtr ProcessGroupUnisono::follow(const Call& call, const char* profile, Start&& start) {
  const CallOptions options{.timeout = timeout_of(call.timeout), .tag = call.tag, .where = detail::place_of_caller()};
  auto work = c10::make_intrusive<WorkUnisono>(WorkUnisono::About{
      .rank = getRank(), .type = call.type, .title = profile, .inputs = call.inputs, .outputs = call.outputs.copy(), .sequence = ++sequence_});
  {
    const std::lock_guard issuing(issuing_);
    const TorchStream stream(work->device());
    std::vector<unisono::Work> works;
    try {
      start(options, works);
    } catch (...) {  // calls that have begun keep their tensors until they are done
      work->follow(std::move(works));
      throw;
    }
    work->follow(std::move(works));
    if (coalesced_) coalesced_->push_back(work);
    if (coalesced_ || call.is_async) return work;
  }
  work->wait();
  return nullptr;
}

ProcessGroupUnisono::WorkPtr ProcessGroupUnisono::issue(const Call& call, std::span<const detail::Request> requests) {
  return with_torch_errors([&]() -> WorkPtr {
    const char* profile = title(call.name);
    if (call.is_async || profile != nullptr || requests.size() != 1 || coalescing_) {
      return follow(call, profile, [&](const CallOptions& options, std::vector<unisono::Work>& works) {
        works.reserve(requests.size());
        for (const detail::Request& request : requests) works.push_back(detail::start(request, *group_, options));
      });
    }
    // This call makes no Work, because nobody waits for it.
    carry_out(requests.front(), call.inputs.empty() ? at::Device(at::kCPU) : call.inputs.front().device(), call.timeout);
    return nullptr;
  });
}

void ProcessGroupUnisono::carry_out(const detail::Request& request, const at::Device& device, std::chrono::milliseconds timeout) {
  ++sequence_;
  const CallOptions options{.timeout = timeout_of(timeout), .where = detail::place_of_caller()};
  std::unique_lock issuing(issuing_);
  const TorchStream stream(device);
  const auto issued = [&] { issuing.unlock(); };
  detail::run(request, *group_, options, std::cref(issued));
}

ProcessGroupUnisono::WorkPtr ProcessGroupUnisono::issue_message(const Call& call, const detail::MessageRequest& request) {
  return with_torch_errors([&] {
    const char* profile = title(call.name);
    return follow(call, profile,
                  [&](const CallOptions& options, std::vector<unisono::Work>& works) { works.push_back(detail::start(request, *group_, options)); });
  });
}

static void erase_barrier(TorchStore& store, const std::string& prefix, int size) {
  store.erase(prefix + "verdict");
  for (int rank = 1; rank < size; ++rank) {
    store.erase(prefix + std::to_string(rank));
    store.erase(prefix + "read/" + std::to_string(rank));
  }
}

// The barrier uses the store, not the group, so that the group stays usable when ranks are missing. Rank 0 waits for the others and writes the
// result. It may serve the store, so it goes on only when the others have read the result.
void ProcessGroupUnisono::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  constexpr auto time_to_read = 5s;  // for the result of rank 0
  const auto timeout = options.timeout == c10d::kUnsetTimeout ? options_->timeout : options.timeout;
  const auto begun = std::chrono::steady_clock::now();
  const auto left = [&] { return timeout - std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begun); };
  const auto fail = [&](const std::string& what) { C10_THROW_ERROR(DistBackendError, fmt::format("[Rank {}]: {}", getRank(), what)); };
  const std::uint64_t number = ++monitored_barriers_;
  const auto prefix_of = [](std::uint64_t n) { return fmt::format("monitored_barrier/{}/", n); };
  const std::string prefix = prefix_of(number);
  TorchStore store(store_);
  const auto wait_for = [&](const std::string& key, std::chrono::milliseconds limit) {
    try {
      return std::optional(store.get(prefix + key, limit));
    } catch (const Timeout&) {
      return std::optional<std::string>();
    }
  };
  with_torch_errors([&] {
    if (getRank() != 0) {
      store.set(prefix + std::to_string(getRank()), "here");
      const auto verdict = wait_for("verdict", std::max(timeout, 1ms) + time_to_read);  // longer than rank 0, which names the missing ranks
      if (verdict) store.set(prefix + "read/" + std::to_string(getRank()), "1");
      if (verdict == "passed") return;
      fail(fmt::format("Rank {} successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0. {}", getRank(),
                       verdict ? *verdict : "It has not come, or is no longer there: look at what it is doing."));
    }
    std::vector<int> missing;
    std::vector<std::string> readers;
    const auto tell = [&](const std::string& verdict) {
      store.set(prefix + "verdict", verdict);
      try {
        if (!readers.empty()) store.wait(readers, time_to_read);
      } catch (const Timeout&) {  // NOLINT(bugprone-empty-catch): the others have died or given up
      }
    };
    for (int rank = 1; rank < getSize(); ++rank) {
      if (left() <= 0ms && !wait_all_ranks) {
        const std::string late = fmt::format("Rank 0 timed out in monitoredBarrier after {} ms.", timeout.count());
        tell(late);
        fail(late);
      }
      if (wait_for(std::to_string(rank), left())) {
        readers.push_back(prefix + "read/" + std::to_string(rank));
        continue;
      }
      missing.push_back(rank);
      if (!wait_all_ranks) break;
    }
    if (missing.empty()) {
      erase_barrier(store, prefix_of(number - 1), getSize());  // all ranks have come, so they have read the keys of the last barrier
      return tell("passed");
    }
    const std::string who =
        fmt::format("Rank{} {} failed to pass monitoredBarrier in {} ms", missing.size() > 1 ? "s" : "", fmt::join(missing, ", "), timeout.count());
    tell(who);
    fail(who);
  });
}

}  // namespace unisono::libtorch
