#include "group/check.h"

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>

#include "engines/device_copy.h"
#include "group/device_streams.h"
#include "engines/message.h"
#include "group/group.h"
#include "group/shapes.h"
#include "kernels/reduce.h"

namespace unisono::group {
namespace {

[[noreturn]] void wrong(const Group& group, std::string_view name, const std::string& what, const std::string& hint = {}) {
  throw InvalidArgument(
      what, {.operation = std::string(name), .group = group.name(), .sequence = group.sequence() + 1, .rank = group.rank(), .hint = hint});
}

int rank_in(const Group& group, std::string_view name, Rank rank, const char* role) {
  if (rank.is_global()) {
    const auto& members = group.global_ranks();
    const auto found = std::find(members.begin(), members.end(), rank.value());
    if (found == members.end()) wrong(group, name, std::string(role) + ": global rank " + std::to_string(rank.value()) + " is not in the group");
    return static_cast<int>(found - members.begin());
  }
  if (rank.value() < 0 || rank.value() >= group.size()) {
    wrong(group, name, std::string(role) + ": rank " + std::to_string(rank.value()) + " is not in the group of " + std::to_string(group.size()),
          "ranks given to a call are ranks within its group; GlobalRank{r} is translated");
  }
  return rank.value();
}

// What every call goes through is inlined: a call of a few bytes takes some hundred instructions in all.

// First and last byte of what a view can touch.
[[gnu::always_inline]] inline std::pair<const std::byte*, const std::byte*> reach(const TensorView& tensor) {
  const auto* base = static_cast<const std::byte*>(tensor.data());
  if (tensor.is_contiguous()) [[likely]]
    return {base, base + tensor.bytes()};  // whatever is empty is that too
  std::int64_t low = 0, high = 0;
  for (std::size_t d = 0; d < tensor.shape().size(); ++d) {
    const std::int64_t span = (tensor.shape()[d] - 1) * tensor.strides()[d];
    (span < 0 ? low : high) += span;
  }
  const auto size = static_cast<std::int64_t>(size_of(tensor.dtype()));
  return {base + low * size, base + (high + 1) * size};
}

[[gnu::always_inline]] inline bool overlap(const TensorView& a, const TensorView& b) {
  if (a.numel() == 0 || b.numel() == 0) return false;
  const auto [a_low, a_high] = reach(a);
  const auto [b_low, b_high] = reach(b);
  return std::less<>{}(a_low, b_high) && std::less<>{}(b_low, a_high);
}

// Several elements in one place: there is nothing to write to.
bool repeats(const TensorView& tensor) {
  if (tensor.is_contiguous()) [[likely]]
    return false;
  for (std::size_t d = 0; d < tensor.shape().size(); ++d) {
    if (tensor.shape()[d] > 1 && tensor.strides()[d] == 0) return true;
  }
  return false;
}

[[gnu::always_inline]] inline bool same_view(const TensorView& a, const TensorView& b) {
  return a.data() == b.data() && std::ranges::equal(a.shape(), b.shape()) && std::ranges::equal(a.strides(), b.strides());
}

// The part of a block-wise buffer that belongs to a rank: where input and output may be the same memory.
bool is_block(const TensorView& whole, const TensorView& part, std::size_t begin) {
  return whole.is_contiguous() && part.is_contiguous() && part.data() == static_cast<const std::byte*>(whole.data()) + begin * size_of(part.dtype());
}
std::size_t own_block(const CollectiveCall& call, int rank) {
  const auto r = static_cast<std::size_t>(rank);
  return has_counts(call.operation) ? call.counts.before(r) : r * call.count;
}

// A view says where its memory lies, or leaves it open; then the runtime of the group's device knows.
void locate(const Group& group, TensorView& tensor) {
  if (!group.device() || is_on_device(tensor) || tensor.numel() == 0) [[likely]]
    return;
  const Device device = device_runtime()->device_of(tensor.data());
  if (device.type != Device::Type::cpu) tensor = TensorView(tensor.data(), tensor.dtype(), tensor.shape(), tensor.strides(), device);
}

// Of a list each tensor has a device of its own; anything else lies on the group's. What lies on a device that the group does not work on goes
// through the host, if there is a way to copy it.
void check_on_device(const Group& group, std::string_view name, const TensorView& tensor, bool of_list) {
  const auto& device = group.device();
  if (!device || device->type != tensor.device().type) {
    try {
      static_cast<void>(engines::require_runtime(tensor.device().type));
      return;
    } catch (const BackendUnavailable& missing) {
      throw Unsupported("memory of " + to_string(tensor.device()) + " cannot be communicated: " + missing.message(),
                        {.operation = std::string(name), .group = group.name(), .rank = group.rank()});
    }
  }
  if (!of_list && *device != tensor.device()) {
    wrong(group, name, "a buffer lies on " + to_string(tensor.device()) + ", and this process works on " + to_string(*device),
          "device() says which one to make current before memory is taken");
  }
}
[[gnu::always_inline]] inline void check_device(const Group& group, std::string_view name, const TensorView& tensor, bool of_list = false) {
  if (is_on_device(tensor)) [[unlikely]]
    check_on_device(group, name, tensor, of_list);
}

void check_dtypes(const Group& group, std::string_view name, const TensorView& in, const TensorView& out) {
  if (in.dtype() == out.dtype()) return;
  wrong(group, name, "input is " + std::string(to_string(in.dtype())) + ", output is " + std::string(to_string(out.dtype())),
        "no element is converted");
}

void check_tag(const Group& group, std::string_view name, const CallOptions& options, bool receives) {
  if (options.tag == any_tag && !receives) wrong(group, name, "any_tag is for receives and probes", "give the tag that the other side gives");
  if (options.tag < engines::lowest_tag) {
    wrong(group, name, "tag " + std::to_string(options.tag) + " is one of the library's own", "tags begin at " + std::to_string(engines::lowest_tag));
  }
}

// The ranks agree that there are factors; each has its own.
void check_factor(const Group& group, CollectiveCall& call, double factor) {
  const DType dtype = call.in.dtype();
  const bool takes_it = reduces(call.operation) && !is_prefix(call.operation);
  if (!takes_it) wrong(group, name_of(call), "premul_sum is for all_reduce, reduce and reduce_scatter", "multiply, and sum");
  if (dtype < DType::float16) wrong(group, name_of(call), "premul_sum is not defined on " + std::string(to_string(dtype)));
  call.factor = factor;
  if (call.label.empty()) call.label = to_string(call.operation);
  call.also = "premul_sum";
}

void check_options(const Group& group, std::string_view name, const CallOptions& options) {
  if (options.timeout && options.timeout->count() < 0) {
    wrong(group, name, "the timeout is negative: " + std::to_string(options.timeout->count()) + " ms");
  }
}

std::string elements(std::int64_t n) { return std::to_string(n) + (n == 1 ? " element" : " elements"); }

// As many as there are ranks, each of them a number of elements, and their sum as well.
std::int64_t sum_of(const Group& group, std::string_view name, const char* which, const Counts& counts) {
  if (counts.size() != static_cast<std::size_t>(group.size())) {
    wrong(group, name, std::to_string(counts.size()) + " " + which + " in a group of " + std::to_string(group.size()), "there is one for every rank");
  }
  std::int64_t sum = 0;
  for (std::size_t r = 0; r < counts.size(); ++r) {
    const auto count = static_cast<std::int64_t>(counts[r]);
    if (count < 0) wrong(group, name, which + (" of rank " + std::to_string(r)) + ": " + std::to_string(count) + " is no number of elements");
    if (__builtin_add_overflow(sum, count, &sum)) wrong(group, name, std::string("the sum of the ") + which + " is beyond any memory");
  }
  return sum;
}

void expect_length(const Group& group, std::string_view name, const char* which, const TensorView& buffer, std::int64_t length) {
  if (buffer.numel() == length) return;
  wrong(group, name, which + (" has " + elements(buffer.numel())) + ", but by the counts it has " + std::to_string(length));
}

// The counts of a call, and that the lengths of its buffers are what they say.
void check_counts(const Group& group, const detail::Request& request, CollectiveCall& call) {
  const std::string_view name = detail::name_of(request);
  const auto own = static_cast<std::size_t>(group.rank());
  const auto expect = [&](const char* which, const TensorView& buffer, std::int64_t length) { expect_length(group, name, which, buffer, length); };
  call.counts = request.counts;
  if (call.operation == Operation::all_to_all_v) {
    call.recv_counts = request.recv_counts;
    const std::int64_t sent = sum_of(group, name, "send counts", call.counts);
    const std::int64_t received = sum_of(group, name, "receive counts", call.recv_counts);
    if (call.counts[own] != call.recv_counts[own]) {
      wrong(group, name,
            "rank " + std::to_string(own) + " sends " + std::to_string(call.counts[own]) + " to itself and expects " +
                std::to_string(call.recv_counts[own]));
    }
    expect("the input", call.in, sent);
    expect("the output", call.out, received);
    return;
  }
  const std::int64_t sum = sum_of(group, name, "counts", call.counts);
  const auto part = static_cast<std::int64_t>(call.counts[own]);
  call.count = static_cast<std::size_t>(sum);
  const bool has_whole = call.root == group.rank() || call.root < 0;
  if (traits_of(call.operation).in == Layout::block) {
    expect("the input", call.in, part);
    if (has_whole) expect("the output", call.out, sum);
  } else {
    if (has_whole) expect("the input", call.in, sum);
    expect("the output", call.out, part);
  }
}

}  // namespace

CollectiveCall check_collective(const Group& group, const detail::Request& request, const CallOptions& options) {
  const Operation operation = request.operation;
  const std::string_view name = detail::name_of(request);
  check_options(group, name, options);
  if (options.tag < engines::lowest_tag || options.tag == any_tag) [[unlikely]]
    check_tag(group, name, options, false);
  CollectiveCall call;
  call.operation = operation;
  call.in = request.in;
  call.out = request.out;
  call.op = request.op;
  call.custom = request.custom;
  call.tag = options.tag;
  call.label = request.label;
  if (request.edges) call.also = request.edges->terms();
  if (operation == Operation::barrier) return call;

  if (has_root(operation)) call.root = rank_in(group, name, request.root.value_or(Rank(0)), operation == Operation::reduce ? "dst" : "root");
  const bool is_root = call.root == group.rank();
  // What a rank that is not the root gives as the root's part does not count.
  const OperationTraits& traits = traits_of(operation);
  const bool gathers = traits.in == Layout::block, scatters = traits.out == Layout::block;
  if (has_root(operation) && !is_root && gathers) call.out = TensorView(nullptr, call.in.dtype(), std::size_t{0});
  if (has_root(operation) && !is_root && scatters) call.in = TensorView(nullptr, call.out.dtype(), std::size_t{0});
  locate(group, call.in);
  locate(group, call.out);
  check_device(group, name, call.in, request.lists != nullptr);
  check_device(group, name, call.out, request.lists != nullptr);
  if (call.in.numel() > 0 && call.out.numel() > 0 && is_on_device(call.in) != is_on_device(call.out) && !sizes_its_output(request)) {
    wrong(group, name, "the input lies on " + to_string(call.in.device()) + ", the output on " + to_string(call.out.device()));
  }
  if (request.factor) check_factor(group, call, *request.factor);
  if (group.compares_shapes()) [[unlikely]]
    add_shape(call);
  if (request.lists) {  // compared there, tensor by tensor
    call.device = request.lists;
    call.also = request.lists->terms;
    return call;
  }
  check_dtypes(group, name, call.in, call.out);
  const std::int64_t n = group.size();
  const std::int64_t in = call.in.numel();
  const std::int64_t out = call.out.numel();
  const auto expect = [&](bool holds, const char* rule) {
    if (!holds) wrong(group, name, "input has " + elements(in) + ", output has " + elements(out) + " in a group of " + std::to_string(n), rule);
  };
  const bool has_whole = is_root || !has_root(operation);
  if (traits.has_counts) {
    check_counts(group, request, call);
  } else if (gathers) {
    if (has_whole) expect(out == n * in, "the output takes size() blocks of the input's length");
    call.count = static_cast<std::size_t>(in);
  } else if (scatters) {
    if (has_whole) expect(in == n * out, "the input holds size() blocks of the output's length");
    call.count = static_cast<std::size_t>(out);
  } else {
    expect(in == out, "input and output have the same length");
    call.count = static_cast<std::size_t>(in);
    if (traits.in == Layout::blocks) {
      if (in % n != 0)
        wrong(group, name, elements(in) + " cannot be shared out evenly among " + std::to_string(n), "the length is a multiple of size()");
      call.count = static_cast<std::size_t>(in / n);
    }
  }
  if (overlap(call.in, call.out)) {
    // Input and output may be one view, or the smaller one may be its rank's block of the larger one.
    const bool may_be_same = traits.in == traits.out && (traits.in == Layout::whole || n == 1);
    const bool is_own_block = (gathers && is_block(call.out, call.in, own_block(call, group.rank()))) ||
                              (scatters && is_block(call.in, call.out, own_block(call, group.rank())));
    if (may_be_same ? !same_view(call.in, call.out) : !is_own_block) wrong(group, name, "input and output overlap in part");
  }
  if (repeats(call.out)) wrong(group, name, "the output has a stride of 0: several of its elements are one");
  if (reduces(operation) && !call.custom) check_operation(group, name, call.in.dtype(), call.op);
  if (call.op == ReduceOp::avg && is_prefix(operation)) {
    wrong(group, name, "avg is not defined on prefixes", "use sum, and divide by the number of ranks it is of");
  }
  return call;
}

void check_exchanging(const Group& group, const detail::Request& request, const CallOptions& options) {
  const std::string_view name = detail::name_of(request);
  check_options(group, name, options);
  if (request.root) static_cast<void>(rank_in(group, name, *request.root, "root"));
  TensorView in = request.in;
  locate(group, in);
  check_device(group, name, in);
  check_dtypes(group, name, request.in, request.out);
  if (overlap(request.in, request.out)) wrong(group, name, "the input lies in the vector that the call sizes");
  if (request.operation == Operation::all_to_all_v) {
    expect_length(group, name, "the input", request.in, sum_of(group, name, "send counts", request.counts));
  }
}

engines::MessageCall check_message(const Group& group, const detail::MessageRequest& request, const CallOptions& options) {
  const Operation operation = request.operation;
  const std::string_view name = detail::name_of(request);
  check_options(group, name, options);
  engines::MessageCall call;
  call.data = request.data;
  locate(group, call.data);
  check_device(group, name, call.data);
  if (operation == Operation::recv && repeats(request.data)) wrong(group, name, "the buffer has a stride of 0: several of its elements are one");
  check_tag(group, name, options, operation == Operation::recv);
  call.tag = options.tag;
  call.label = request.label;
  if (request.peer) {
    call.peer = rank_in(group, name, *request.peer, operation == Operation::send ? "dst" : "src");
    if (call.peer == group.rank()) wrong(group, name, "rank " + std::to_string(call.peer) + " is the caller: nobody sends to itself");
  } else if (group.size() == 1) {
    wrong(group, name, "there is nobody else in a group of one");
  }
  return call;
}

void check_operation(const Group& group, std::string_view name, DType dtype, ReduceOp op) {
  if (!kernels::supports(dtype, op)) wrong(group, name, std::string(to_string(op)) + " is not defined on " + std::string(to_string(dtype)));
}

void check_list(const Group& group, std::string_view name, std::span<const TensorView> tensors, std::span<const TensorView> others, bool written) {
  for (std::size_t j = 0; j < tensors.size(); ++j) {
    const TensorView& tensor = tensors[j];
    const TensorView& first = tensors.front();
    const std::string which = "tensor " + std::to_string(j);
    check_device(group, name, tensor, true);
    if (is_on_device(tensor) != is_on_device(first))
      wrong(group, name, which + " lies on " + to_string(tensor.device()) + ", tensor 0 on " + to_string(first.device()));
    if (tensor.dtype() != first.dtype()) {
      wrong(group, name, which + " is " + std::string(to_string(tensor.dtype())) + ", tensor 0 " + std::string(to_string(first.dtype())));
    }
    if (tensor.numel() != first.numel()) wrong(group, name, which + " has " + elements(tensor.numel()) + ", tensor 0 " + elements(first.numel()));
    if (written && repeats(tensor)) wrong(group, name, which + " has a stride of 0: several of its elements are one");
    const auto in_the_way = [&](const TensorView& other) { return overlap(tensor, other); };
    if (std::ranges::any_of(tensors.first(j), in_the_way)) wrong(group, name, which + " overlaps one before it");
    if (std::ranges::any_of(others, in_the_way)) wrong(group, name, "input and output overlap");
  }
}

void check_rank_list(const Group& group, std::string_view name, std::span<const TensorView> list, const TensorView& single, bool written) {
  if (list.size() != static_cast<std::size_t>(group.size())) {
    wrong(group, name, "the list has " + std::to_string(list.size()) + " buffers in a group of " + std::to_string(group.size()),
          "there is one for every rank");
  }
  const TensorView& own = list[static_cast<std::size_t>(group.rank())];
  check_list(group, name, list, same_view(own, single) ? std::span<const TensorView>() : std::span(&single, 1), written);
  check_dtypes(group, name, written ? single : list.front(), written ? list.front() : single);
  if (list.front().numel() != single.numel()) {
    wrong(group, name, "the buffers of the list have " + elements(list.front().numel()) + ", the single one has " + std::to_string(single.numel()),
          "each holds the block of one rank");
  }
}

void check_block_lists(const Group& group, std::string_view name, std::span<const TensorView> wholes, std::span<const TensorView> parts) {
  if (wholes.size() != parts.size()) {
    wrong(group, name, "one list has " + std::to_string(wholes.size()) + " tensors, the other " + std::to_string(parts.size()));
  }
  if (wholes.empty()) return;
  const TensorView& whole = wholes.front();
  const TensorView& part = parts.front();
  check_dtypes(group, name, part, whole);
  const auto blocks = static_cast<std::int64_t>(parts.size()) * group.size();
  if (whole.numel() == blocks * part.numel()) return;
  wrong(group, name, "a tensor of " + elements(whole.numel()) + " for " + std::to_string(blocks) + " blocks of " + std::to_string(part.numel()),
        "it holds a block for every tensor of every rank");
}

void check_one_place(const Group& group, std::string_view name, std::span<const TensorView> list, std::span<const TensorView> other) {
  for (std::size_t j = 0; j < list.size(); ++j) {
    if (list[j].device() == other[j].device()) continue;
    wrong(group, name, "input " + std::to_string(j) + " lies on " + to_string(list[j].device()) + ", its output on " + to_string(other[j].device()));
  }
}

void check_place(const Group& group, std::string_view name, const TensorView& tensor) { check_device(group, name, tensor); }

bool sizes_its_output(const detail::Request& request) {
  return has_counts(request.operation) && request.label == to_string(request.operation);  // only what is made of several requests has a label
}

bool lies_on_device(const Group& group, TensorView tensor) {
  locate(group, tensor);
  return is_on_device(tensor);
}

std::vector<TensorView> locate_list(const Group& group, std::span<const TensorView> tensors) {
  std::vector<TensorView> all(tensors.begin(), tensors.end());
  for (TensorView& tensor : all) locate(group, tensor);
  return all;
}

}  // namespace unisono::group
