// From XLA's call frame to the library's request.

#include "xla_call.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "signals.h"
#include "unisono/collectives/barrier.h"
#include "unisono/detail/place.h"
#include "unisono/detail/request.h"
#include "unisono/error.h"
#include "unisono/reduce_op.h"
#include "unisono/work.h"

namespace unisono::python::xla {
namespace {

DType dtype_of(DataType type) {
  using enum DataType;
  constexpr std::array types{pred, s8, s16, s32, s64, u8, u16, u32, u64, f16, bf16, f32, f64, c64, c128};  // in the order of DType
  const auto* const known = std::ranges::find(types, type);
  if (known != types.end()) return static_cast<DType>(known - types.begin());
  throw InvalidArgument("XLA's element type " + std::to_string(static_cast<int>(type)) + " has no counterpart");
}

TensorView view_of(const Buffer& buffer) {
  return {buffer.data, dtype_of(buffer.dtype), std::span<const std::int64_t>(buffer.dims, static_cast<std::size_t>(buffer.rank))};
}

/// The groups that programs name. They keep none alive.
class Groups {
 public:
  std::int64_t number_of(const ProcessGroup& group) {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      if (groups_[i].lock() == group.implementation()) return static_cast<std::int64_t>(i) + 1;
    }
    groups_.emplace_back(group.implementation());
    return static_cast<std::int64_t>(groups_.size());
  }
  std::shared_ptr<group::Group> at(std::int64_t number) {
    const std::lock_guard lock(mutex_);
    const auto index = static_cast<std::size_t>(number - 1);
    return index < groups_.size() ? groups_[index].lock() : nullptr;
  }

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<group::Group>> groups_;
};
Groups& groups() {
  static auto& instance = *new Groups;  // calls may be under way when static objects are destroyed
  return instance;
}

[[noreturn]] void wrong(const Call& call, const std::string& what, const char* hint) {
  throw InvalidArgument(what, {.operation = std::string(call.text("operation")), .hint = hint, .where = call.place()});
}

CallOptions options_of(const Call& call) {
  CallOptions options{.tag = static_cast<int>(call.number("tag")), .where = call.place()};
  if (const std::int64_t timeout = call.number("timeout"); timeout >= 0) options.timeout = std::chrono::milliseconds(timeout);
  return options;
}

void copy(const TensorView& from, const TensorView& to) {
  if (from.bytes() > 0 && from.data() != to.data()) std::memcpy(to.data(), from.data(), from.bytes());
}
void clear(const TensorView& view) {
  if (view.bytes() > 0) std::memset(view.data(), 0, view.bytes());
}

/// Waits for a message; after an error until nobody uses its memory any more.
void finish(std::optional<Work>& work, ProcessGroup& group, std::exception_ptr& error) {
  if (!work) return;
  try {
    work->wait();
    return;
  } catch (const unisono::Error&) {
    if (!error) error = std::current_exception();
    if (work->is_completed()) return;
  } catch (const std::exception& interruption) {
    if (!error) error = std::current_exception();
    group.abort(interruption.what());
  }
  const Uninterrupted uninterrupted;
  try {
    work->wait();
  } catch (...) {  // which follows from the first error
    static_cast<void>(work);
  }
}

void exchange(const Call& call, ProcessGroup& group, const CallOptions& options) {
  const std::int64_t dst = call.number("dst"), src = call.number("src");
  const TensorView in = call.in(), out = call.out();
  if (dst == group.rank() && src == dst) {
    if (in.dtype() != out.dtype() || in.numel() != out.numel()) wrong(call, "this rank sends itself other data than it expects", "");
    return copy(in, out);
  }
  std::optional<Work> received, sent;
  std::exception_ptr error;
  if (src < 0) clear(out);
  else received = detail::start(detail::MessageRequest{Operation::recv, out, Rank(src)}, group, options);
  try {
    if (dst >= 0) sent = detail::start(detail::MessageRequest{Operation::send, in, Rank(dst)}, group, options);
  } catch (...) {
    error = std::current_exception();
    if (received && !received->is_completed()) group.abort("a message could not be sent while another was awaited");
  }
  finish(sent, group, error);
  finish(received, group, error);
  if (error) std::rethrow_exception(error);
}

/// The request of a collective, but for its operation.
void collective(const Call& call, const ProcessGroup& group, const CallOptions& options, Operation operation) {
  detail::Request request{.operation = operation, .in = call.in(), .out = call.out(), .op = static_cast<ReduceOp>(call.number("op"))};
  const bool is_rooted = has_root(operation), is_root = is_rooted && call.number("root") == group.rank();
  if (is_rooted) request.root = Rank(call.number("root"));
  if (operation == Operation::broadcast) {
    if (is_root) copy(request.in, request.out);
    request.in = request.out;
  } else if (is_rooted && !is_root) {
    copy(request.in, request.out);
    request.in = request.out;
  }
  detail::run(request, group, options);
  if (operation == Operation::reduce && !is_root) clear(request.out);
}

}  // namespace

const void* Call::value(std::string_view name, AttributeType type) const {
  const Attributes& attributes = frame_.attributes;
  for (std::int64_t i = 0; i < attributes.size; ++i) {
    if (std::string_view(attributes.names[i]->data, attributes.names[i]->size) == name && attributes.types[i] == type) return attributes.values[i];
  }
  throw InvalidArgument("the call has no attribute " + std::string(name) + ": it was made by another version of unisono.jax");
}

std::int64_t Call::number(std::string_view name) const {
  const auto& scalar = *static_cast<const Scalar*>(value(name, AttributeType::scalar));
  if (scalar.dtype != DataType::s64) throw InvalidArgument("the attribute " + std::string(name) + " is no 64-bit integer");
  return *static_cast<const std::int64_t*>(scalar.value);
}

std::string_view Call::text(std::string_view name) const {
  const auto& text = *static_cast<const Text*>(value(name, AttributeType::string));
  return {text.data, text.size};
}

std::source_location Call::place() const {
  const std::string_view where = text("where");
  const auto colon = where.rfind(':');
  std::uint32_t line = 0;
  if (colon != std::string_view::npos) std::from_chars(where.data() + colon + 1, where.data() + where.size(), line);
  return detail::place_in(where.substr(0, colon), line);
}

TensorView Call::only(const Buffers& buffers) {
  for (std::int64_t i = 0; i < buffers.size; ++i) {
    if (buffers.buffers[i]->dtype != DataType::token) return view_of(*buffers.buffers[i]);
  }
  return detail::nothing();
}

std::int64_t number_of(const ProcessGroup& group) { return groups().number_of(group); }

ProcessGroup group_of(const Call& call, const std::source_location& where) {
  if (is_rank_thread()) wrong(call, "the ranks of run_threads share one JAX, which cannot tell them apart", "start processes: unisono run, or spawn");
  const std::int64_t number = call.number("group"), ranks = call.number("ranks");
  if (number == 0) {
    ProcessGroup group = current_world(where);
    if (group.size() == ranks) return group;
    wrong(call, "the function was traced in a world of " + std::to_string(ranks) + ", and this one has " + std::to_string(group.size()),
          "jax.clear_caches() makes JAX trace it anew");
  }
  const auto implementation = groups().at(number);
  if (implementation == nullptr) wrong(call, "the group " + std::string(call.text("members")) + " has ended", "");
  ProcessGroup group(implementation);
  if (group.name() != call.text("members")) wrong(call, "the function was compiled for another group: " + std::string(call.text("members")), "");
  return group;
}

void carry_out(const Call& call) {
  const Interruptible interruptible;
  const std::string_view name = call.text("operation");
  const CallOptions options = options_of(call);
  ProcessGroup group = group_of(call, options.where);
  if (name == "send_recv") return exchange(call, group, options);
  const auto* const row = std::ranges::find(operation_table, name, &OperationTraits::name);
  if (row == operation_table.end()) wrong(call, "there is no such operation", "unisono.jax and unisono._core are of different versions");
  if (row->operation == Operation::barrier) return barrier(group, options);
  collective(call, group, options, row->operation);
}

}  // namespace unisono::python::xla
