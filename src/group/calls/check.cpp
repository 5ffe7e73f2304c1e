#include "group/calls/check.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "engines/message.h"
#include "group/calls/check_parts.h"
#include "kernels/reduce.h"

namespace unisono::group {
namespace {

[[noreturn]] void throw_no_rank(const GroupFacts& group, std::string_view name, Rank rank, const char* role) {
  wrong(group, name, std::string(role) + ": rank " + std::to_string(rank.value()) + " is not in the group of " + std::to_string(group.size()),
        "ranks given to a call are ranks within its group; GlobalRank{r} is translated");
}
int rank_of_global(const GroupFacts& group, std::string_view name, Rank rank, const char* role) {
  const auto& members = group.global_ranks();
  const auto found = std::find(members.begin(), members.end(), rank.value());
  if (found == members.end()) wrong(group, name, std::string(role) + ": global rank " + std::to_string(rank.value()) + " is not in the group");
  return static_cast<int>(found - members.begin());
}
[[gnu::always_inline]] inline int rank_in(const GroupFacts& group, std::string_view name, Rank rank, const char* role) {
  if (rank.is_global()) [[unlikely]]
    return rank_of_global(group, name, rank, role);
  if (rank.value() < 0 || rank.value() >= group.size()) [[unlikely]]
    throw_no_rank(group, name, rank, role);
  return rank.value();
}

// A rank's part of a block-wise buffer: input and output may be the same memory there.
bool is_block(const TensorView& whole, const TensorView& part, std::size_t begin) {
  return whole.is_contiguous() && part.is_contiguous() && part.data() == static_cast<const std::byte*>(whole.data()) + begin * size_of(part.dtype());
}
std::size_t own_block(const CollectiveCall& call, int rank) {
  const auto r = static_cast<std::size_t>(rank);
  return has_counts(call.operation) ? call.counts.before(r) : r * call.count;
}

void check_tag(const GroupFacts& group, std::string_view name, const CallOptions& options, bool receives) {
  if (options.tag == any_tag && !receives) wrong(group, name, "any_tag is for receives and probes", "give the tag that the other side gives");
  if (options.tag < engines::lowest_tag) {
    wrong(group, name, "tag " + std::to_string(options.tag) + " is one of the library's own", "tags begin at " + std::to_string(engines::lowest_tag));
  }
}

// The ranks agree that there are factors; each has its own.
void check_factor(const GroupFacts& group, CollectiveCall& call, double factor) {
  const DType dtype = call.in.dtype();
  const bool takes_it = reduces(call.operation) && !is_prefix(call.operation);
  if (!takes_it) wrong(group, name_of(call), "premul_sum is for all_reduce, reduce and reduce_scatter", "multiply, and sum");
  if (dtype < DType::float16) wrong(group, name_of(call), "premul_sum is not defined on " + std::string(to_string(dtype)));
  call.factor = factor;
  if (call.label.empty()) call.label = to_string(call.operation);
  call.also = "premul_sum";
}

[[gnu::always_inline]] inline void check_options(const GroupFacts& group, std::string_view name, const CallOptions& options) {
  if (options.timeout && options.timeout->count() < 0) [[unlikely]]
    wrong(group, name, "the timeout is negative: " + std::to_string(options.timeout->count()) + " ms");
}

// Checks that there is a count for every rank, and that each of them and their sum are numbers of elements. Returns the sum.
std::int64_t sum_of(const GroupFacts& group, std::string_view name, const char* which, const Counts& counts) {
  if (counts.size() != static_cast<std::size_t>(group.size())) {
    wrong(group, name, std::to_string(counts.size()) + " " + which + " in a group of " + std::to_string(group.size()), "there is one for every rank");
  }
  std::int64_t sum = 0;
  for (std::size_t r = 0; r < counts.size(); ++r) {
    const auto count = static_cast<std::int64_t>(counts[r]);
    if (count < 0) wrong(group, name, which + (" of rank " + std::to_string(r)) + ": " + std::to_string(count) + " is not a number of elements");
    if (__builtin_add_overflow(sum, count, &sum)) wrong(group, name, std::string("the sum of the ") + which + " is beyond any memory");
  }
  return sum;
}

void expect_length(const GroupFacts& group, std::string_view name, const char* which, const TensorView& buffer, std::int64_t length) {
  if (buffer.numel() == length) return;
  wrong(group, name, which + (" has " + elements(buffer.numel())) + ", but by the counts it has " + std::to_string(length));
}

// Takes the counts of a call, and checks the lengths of its buffers against them.
void check_counts(const GroupFacts& group, const detail::Request& request, CollectiveCall& call) {
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

// Finds the root. The buffer that only the root uses is empty on all other ranks, whatever they have given.
[[gnu::always_inline]] inline void take_root(const GroupFacts& group, std::string_view name, const OperationTraits& traits,
                                             const std::optional<Rank>& root, CollectiveCall& call) {
  call.root = rank_in(group, name, root.value_or(Rank(0)), call.operation == Operation::reduce ? "dst" : "root");
  if (call.root == group.rank()) return;
  if (traits.in == Layout::block) call.out = TensorView(nullptr, call.in.dtype(), std::size_t{0});
  if (traits.out == Layout::block) call.in = TensorView(nullptr, call.out.dtype(), std::size_t{0});
}

// Finds out where the buffers lie, of which a device may have one: both on the host, or both on a device that the group can use.
void check_places(const GroupFacts& group, std::string_view name, const detail::Request& request, CollectiveCall& call) {
  locate(group, call.in);
  locate(group, call.out, &call.in);
  check_device(group, name, call.in, request.lists != nullptr);
  check_device(group, name, call.out, request.lists != nullptr);
  if (call.in.numel() > 0 && call.out.numel() > 0 && is_on_device(call.in) != is_on_device(call.out) && !sizes_its_output(request)) {
    wrong(group, name, "the input lies on " + to_string(call.in.device()) + ", the output on " + to_string(call.out.device()));
  }
}

[[noreturn]] void throw_lengths(const GroupFacts& group, std::string_view name, const CollectiveCall& call, const char* rule) {
  wrong(group, name,
        "input has " + elements(call.in.numel()) + ", output has " + elements(call.out.numel()) + " in a group of " + std::to_string(group.size()),
        rule);
}

// Checks the lengths of the buffers against each other, and takes the call's count from them.
[[gnu::always_inline]] inline void check_lengths(const GroupFacts& group, std::string_view name, const OperationTraits& traits,
                                                 CollectiveCall& call) {
  const std::int64_t n = group.size(), in = call.in.numel(), out = call.out.numel();
  const bool has_whole = call.root == group.rank() || call.root < 0;
  if (traits.in == Layout::block) {
    if (has_whole && out != n * in) [[unlikely]]
      throw_lengths(group, name, call, "the output takes size() blocks of the input's length");
    call.count = static_cast<std::size_t>(in);
  } else if (traits.out == Layout::block) {
    if (has_whole && in != n * out) [[unlikely]]
      throw_lengths(group, name, call, "the input holds size() blocks of the output's length");
    call.count = static_cast<std::size_t>(out);
  } else {
    if (in != out) [[unlikely]]
      throw_lengths(group, name, call, "input and output have the same length");
    call.count = static_cast<std::size_t>(in);
    if (traits.in != Layout::blocks) return;
    if (in % n != 0)
      wrong(group, name, elements(in) + " cannot be shared out evenly among " + std::to_string(n), "the length is a multiple of size()");
    call.count = static_cast<std::size_t>(in / n);
  }
}

// Input and output may be one view, or the smaller one may be its rank's block of the larger one; else they may not touch.
[[gnu::always_inline]] inline void check_overlap(const GroupFacts& group, std::string_view name, const OperationTraits& traits,
                                                 const CollectiveCall& call) {
  const bool may_be_same = traits.in == traits.out && (traits.in == Layout::whole || group.size() == 1);
  const bool is_in_place = may_be_same && same_view(call.in, call.out);
  if (!is_in_place && overlap(call.in, call.out)) {
    const bool is_own_block = !may_be_same && ((traits.in == Layout::block && is_block(call.out, call.in, own_block(call, group.rank()))) ||
                                               (traits.out == Layout::block && is_block(call.in, call.out, own_block(call, group.rank()))));
    if (!is_own_block) {
      const bool is_one_buffer = !may_be_same && same_view(call.in, call.out);
      if (is_one_buffer) wrong(group, name, "input and output are one buffer", "give another one for the output");
      wrong(group, name, "input and output overlap in part");
    }
  }
  if (repeats(call.out)) wrong(group, name, "the output has a stride of 0: several of its elements are one");
}

// Looks at what this rank sends. The prologues of the operations left out here make their input later.
void check_input(const GroupFacts& group, const detail::Request& request, const CollectiveCall& call) {
  const bool is_made_later = request.edges && (reduces(call.operation) || traits_of(call.operation).in == Layout::blocks);
  const bool is_only_written = call.operation == Operation::broadcast && call.root != group.rank();
  if (!is_made_later && !is_only_written) check_values(group, detail::name_of(request), call.in);
}

}  // namespace

CollectiveCall check_collective(const GroupFacts& group, const detail::Request& request, std::string_view name, const CallOptions& options) {
  const Operation operation = request.operation;
  const OperationTraits& traits = traits_of(operation);
  check_options(group, name, options);
  if (options.tag < engines::lowest_tag || options.tag == any_tag) [[unlikely]]
    check_tag(group, name, options, false);
  CollectiveCall call;  // not by its members' initializers in braces: compilers clear all of it first, which a call of a few bytes feels
  call.operation = operation;
  call.in = request.in;
  call.out = request.out;
  call.op = request.op;
  call.custom = request.custom;
  call.tag = options.tag;
  call.deterministic = options.deterministic && traits.reduces;
  call.label = request.label;
  if (request.edges) call.also = request.edges->terms();
  if (operation == Operation::barrier) return call;
  if (has_root(operation)) take_root(group, name, traits, request.root, call);
  if (group.device() || is_on_device(call.in) || is_on_device(call.out)) [[unlikely]]
    check_places(group, name, request, call);
  if (request.factor) check_factor(group, call, *request.factor);
  if (group.compares_shapes()) [[unlikely]]
    add_shape(call);
  if (request.lists) {  // their tensors were compared already, one by one
    call.device = request.lists;
    call.also = request.lists->terms;
    return call;
  }
  check_dtypes(group, name, call.in, call.out);
  if (traits.has_counts) check_counts(group, request, call);
  else check_lengths(group, name, traits, call);
  check_overlap(group, name, traits, call);
  if (traits.reduces && !call.custom) check_operation(group, name, call.in.dtype(), call.op);
  if (call.op == ReduceOp::avg && is_prefix(operation)) {
    wrong(group, name, "avg is not defined on prefixes", "use sum, and divide by the number of ranks it is of");
  }
  if (group.refused_values() != RefusedValues::none) [[unlikely]]
    check_input(group, request, call);
  return call;
}

void check_exchanging(const GroupFacts& group, const detail::Request& request, const CallOptions& options) {
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
  check_sent(group, name, std::span(&request.in, 1));
}

engines::MessageCall check_message(const GroupFacts& group, const detail::MessageRequest& request, const CallOptions& options) {
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
    if (call.peer == group.rank()) wrong(group, name, "rank " + std::to_string(call.peer) + " is the caller: a rank cannot send to itself");
  } else if (group.size() == 1) {
    wrong(group, name, "there is nobody else in a group of one");
  }
  if (operation == Operation::send) check_sent(group, name, std::span(&request.data, 1));
  return call;
}

void check_operation(const GroupFacts& group, std::string_view name, DType dtype, ReduceOp op) {
  if (!kernels::supports(dtype, op)) wrong(group, name, std::string(to_string(op)) + " is not defined on " + std::string(to_string(dtype)));
}

bool sizes_its_output(const detail::Request& request) {
  return has_counts(request.operation) && request.label == to_string(request.operation);  // only a call of several requests has a label
}

bool lies_on_device(const GroupFacts& group, const TensorView& tensor) {
  if (!group.device() || is_on_device(tensor)) [[likely]]
    return is_on_device(tensor);
  TensorView located = tensor;
  locate(group, located);
  return is_on_device(located);
}

}  // namespace unisono::group
