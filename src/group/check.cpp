#include "group/check.h"

#include <algorithm>
#include <functional>
#include <string>

#include "group/group.h"
#include "kernels/reduce.h"

namespace unisono::group {
namespace {

[[noreturn]] void wrong(const Group& group, Operation operation, const std::string& what, const std::string& hint = {}) {
  throw InvalidArgument(
      what,
      {.operation = std::string(to_string(operation)), .group = group.name(), .sequence = group.sequence() + 1, .rank = group.rank(), .hint = hint});
}

int rank_in(const Group& group, Operation operation, Rank rank, const char* role) {
  if (rank.is_global()) {
    const auto& members = group.global_ranks();
    const auto found = std::find(members.begin(), members.end(), rank.value());
    if (found == members.end()) wrong(group, operation, std::string(role) + ": global rank " + std::to_string(rank.value()) + " is not in the group");
    return static_cast<int>(found - members.begin());
  }
  if (rank.value() < 0 || rank.value() >= group.size()) {
    wrong(group, operation, std::string(role) + ": rank " + std::to_string(rank.value()) + " is not in the group of " + std::to_string(group.size()),
          "ranks given to a call are ranks within its group; GlobalRank{r} is translated");
  }
  return rank.value();
}

// First and last byte of what a view can touch.
std::pair<const std::byte*, const std::byte*> reach(const Tensor& tensor) {
  const auto* base = static_cast<const std::byte*>(tensor.data());
  if (tensor.numel() == 0) return {base, base};
  std::int64_t low = 0, high = 0;
  for (std::size_t d = 0; d < tensor.shape().size(); ++d) {
    const std::int64_t span = (tensor.shape()[d] - 1) * tensor.strides()[d];
    (span < 0 ? low : high) += span;
  }
  const auto size = static_cast<std::int64_t>(size_of(tensor.dtype()));
  return {base + low * size, base + (high + 1) * size};
}

bool overlap(const Tensor& a, const Tensor& b) {
  if (a.numel() == 0 || b.numel() == 0) return false;
  const auto [a_low, a_high] = reach(a);
  const auto [b_low, b_high] = reach(b);
  return std::less<>{}(a_low, b_high) && std::less<>{}(b_low, a_high);
}

// Several elements in one place: there is nothing to write to.
bool repeats(const Tensor& tensor) {
  for (std::size_t d = 0; d < tensor.shape().size(); ++d) {
    if (tensor.shape()[d] > 1 && tensor.strides()[d] == 0) return tensor.numel() > 0;
  }
  return false;
}

bool same_view(const Tensor& a, const Tensor& b) {
  return a.data() == b.data() && a.numel() == b.numel() && std::ranges::equal(a.shape(), b.shape()) && std::ranges::equal(a.strides(), b.strides());
}

// The part of a block-wise buffer that belongs to a rank: where input and output may be the same memory.
bool is_block(const Tensor& whole, const Tensor& part, int rank) {
  return whole.is_contiguous() && part.is_contiguous() &&
         part.data() == static_cast<const std::byte*>(whole.data()) + static_cast<std::size_t>(rank) * part.bytes();
}

bool has_root(Operation operation) {
  return operation == Operation::reduce || operation == Operation::broadcast || operation == Operation::gather || operation == Operation::scatter;
}

void check_device(const Group& group, Operation operation, const Tensor& tensor) {
  if (tensor.device().type == Device::Type::cpu) return;
  throw Unsupported("backend " + std::string(const_cast<Group&>(group).backend().name()) + " cannot work on memory of " + to_string(tensor.device()),
                    {.operation = std::string(to_string(operation)), .group = group.name(), .rank = group.rank()});
}

void check_options(const Group& group, Operation operation, const CallOptions& options) {
  if (options.timeout && options.timeout->count() < 0) {
    wrong(group, operation, "the timeout is negative: " + std::to_string(options.timeout->count()) + " ms");
  }
}

std::string elements(std::int64_t n) { return std::to_string(n) + (n == 1 ? " element" : " elements"); }

}  // namespace

CollectiveCall check_collective(const Group& group, const detail::Request& request, const CallOptions& options) {
  const Operation operation = request.operation;
  check_options(group, operation, options);
  CollectiveCall call;
  call.operation = operation;
  call.in = request.in;
  call.out = request.out;
  call.op = request.op;
  call.custom = request.custom;
  call.tag = options.tag;
  if (operation == Operation::barrier) return call;

  if (has_root(operation)) call.root = rank_in(group, operation, request.root.value_or(Rank(0)), operation == Operation::reduce ? "dst" : "root");
  const bool is_root = call.root == group.rank();
  // What a rank that is not the root gives as the root's part does not count.
  if (operation == Operation::gather && !is_root) call.out = Tensor(nullptr, call.in.dtype(), std::size_t{0});
  if (operation == Operation::scatter && !is_root) call.in = Tensor(nullptr, call.out.dtype(), std::size_t{0});
  check_device(group, operation, call.in);
  check_device(group, operation, call.out);
  if (call.in.dtype() != call.out.dtype()) {
    wrong(group, operation, "input is " + std::string(to_string(call.in.dtype())) + ", output is " + std::string(to_string(call.out.dtype())),
          "no element is converted");
  }
  const std::int64_t n = group.size();
  const std::int64_t in = call.in.numel();
  const std::int64_t out = call.out.numel();
  const auto expect = [&](bool holds, const char* rule) {
    if (!holds) wrong(group, operation, "input has " + elements(in) + ", output has " + elements(out) + " in a group of " + std::to_string(n), rule);
  };
  bool whole = true;  // whether input and output may be the same view
  switch (operation) {
    case Operation::all_gather:
      expect(out == n * in, "the output takes size() blocks of the input's length");
      whole = false;
      call.count = static_cast<std::size_t>(in);
      break;
    case Operation::gather:
      if (is_root) expect(out == n * in, "the output takes size() blocks of the input's length");
      whole = false;
      call.count = static_cast<std::size_t>(in);
      break;
    case Operation::scatter:
      if (is_root) expect(in == n * out, "the input holds size() blocks of the output's length");
      whole = false;
      call.count = static_cast<std::size_t>(out);
      break;
    case Operation::reduce_scatter:
      expect(in == n * out, "the input holds size() blocks of the output's length");
      whole = false;
      call.count = static_cast<std::size_t>(out);
      break;
    case Operation::all_to_all:
      expect(in == out, "input and output have the same length");
      if (in % n != 0)
        wrong(group, operation, elements(in) + " cannot be shared out evenly among " + std::to_string(n), "the length is a multiple of size()");
      whole = n == 1;
      call.count = static_cast<std::size_t>(in / n);
      break;
    default:
      expect(in == out, "input and output have the same length");
      call.count = static_cast<std::size_t>(in);
      break;
  }
  if (overlap(call.in, call.out)) {
    const bool block = (operation == Operation::all_gather || operation == Operation::gather)
                           ? is_block(call.out, call.in, group.rank())
                           : (operation == Operation::scatter || operation == Operation::reduce_scatter) && is_block(call.in, call.out, group.rank());
    if (!(whole ? same_view(call.in, call.out) : block)) wrong(group, operation, "input and output overlap in part");
  }
  if (repeats(call.out)) wrong(group, operation, "the output has a stride of 0: several of its elements are one");
  if (reduces(operation) && !call.custom && !kernels::supports(call.in.dtype(), call.op)) {
    wrong(group, operation, std::string(to_string(call.op)) + " is not defined on " + std::string(to_string(call.in.dtype())));
  }
  if (call.op == ReduceOp::avg && !call.custom && (operation == Operation::scan || operation == Operation::exscan)) {
    wrong(group, operation, "avg is not defined on prefixes", "use sum, and divide by the number of ranks it is of");
  }
  return call;
}

MessageCall check_message(const Group& group, const detail::MessageRequest& request, const CallOptions& options) {
  const Operation operation = request.operation;
  check_options(group, operation, options);
  check_device(group, operation, request.data);
  MessageCall call;
  if (operation == Operation::recv && repeats(request.data)) wrong(group, operation, "the buffer has a stride of 0: several of its elements are one");
  call.data = request.data;
  call.tag = options.tag;
  if (request.peer) {
    call.peer = rank_in(group, operation, *request.peer, operation == Operation::send ? "dst" : "src");
    if (call.peer == group.rank()) wrong(group, operation, "rank " + std::to_string(call.peer) + " is the caller: nobody sends to itself");
  } else if (group.size() == 1) {
    wrong(group, operation, "there is nobody else in a group of one");
  }
  return call;
}

}  // namespace unisono::group
