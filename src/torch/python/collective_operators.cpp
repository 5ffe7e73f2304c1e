// The collectives as operators, torch.ops.unisono.all_reduce and its like, which torch.compile takes as they are. Each blocks until it is done. A
// function that returns a tensor makes a new one; one whose name ends in _ changes its argument, as its schema says.

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <string>
#include <string_view>
#include <utility>

#include "torch/python/errors.h"
#include "torch/python/lists.h"
#include "torch/python/named_group.h"
#include "unisono/error.h"
#include "unisono/reduce_op.h"

namespace unisono::libtorch::operators {
namespace {

using at::Tensor;
using detail::Request;
using std::string;

[[noreturn]] void refuse(const char* operation, const string& what, const char* hint = "") {
  throw InvalidArgument(what, {.operation = operation, .hint = hint});
}

// The shapes of results: the same for tensors with elements and for those of a compiler, which have only shapes, of which some may be symbols.

c10::SymDimVector gathered_shape(const Tensor& tensor, int ranks) {
  c10::SymDimVector shape{c10::SymInt(ranks)};
  shape.append(tensor.sym_sizes().begin(), tensor.sym_sizes().end());
  return shape;
}

/// Refuses a tensor that is not made of one block for each rank.
void require_blocks(const char* operation, const Tensor& tensor, int ranks) {
  if (tensor.dim() == 0) refuse(operation, "a tensor without an axis has no blocks", "the first axis has a block for each rank");
  if (tensor.sym_size(0) % ranks != 0) {
    refuse(operation, fmt::format("the first axis of shape {} cannot be divided among {} ranks", c10::str(tensor.sym_sizes()), ranks));
  }
}

c10::SymDimVector block_shape(const Tensor& tensor, int ranks) {
  require_blocks("reduce_scatter", tensor, ranks);
  c10::SymDimVector shape(tensor.sym_sizes().begin(), tensor.sym_sizes().end());
  shape[0] = shape[0] / ranks;
  return shape;
}

Tensor empty_alike(const Tensor& tensor, c10::SymIntArrayRef shape) { return at::empty_symint(shape, tensor.options().requires_grad(false)); }

// With elements.

void run(const NamedGroup& group, const Tensor& tensor, const Request& request) { group.run(request, tensor.device()); }

void all_reduce_in_place(const Tensor& tensor, const string& op, const string& group) {
  with_torch_errors([&] {
    const NamedGroup found = NamedGroup::find(group);
    const TensorView view = write(tensor);
    run(found, tensor, {.operation = Operation::all_reduce, .in = view, .out = view, .op = parse_reduce_op(op)});
  });
}

void broadcast_in_place(const Tensor& tensor, std::int64_t src, const string& group) {
  with_torch_errors([&] {
    const NamedGroup found = NamedGroup::find(group);
    const TensorView view = write(movable(tensor));
    run(found, tensor, {.operation = Operation::broadcast, .in = view, .out = view, .root = Rank(src)});
  });
}

/// Makes the result of this shape and carries out the operation into it.
Tensor into_new(const NamedGroup& group, const Tensor& tensor, c10::SymIntArrayRef shape, Operation operation, ReduceOp op = ReduceOp::sum) {
  const Tensor result = empty_alike(tensor, shape);
  const bool only_moves = operation == Operation::all_gather || operation == Operation::all_to_all;
  run(group, tensor,
      {.operation = operation, .in = read(only_moves ? movable(tensor) : tensor), .out = read(only_moves ? movable(result) : result), .op = op});
  return result;
}

Tensor all_reduce(const Tensor& tensor, const string& op, const string& group) {
  return with_torch_errors([&] {
    const ReduceOp parsed = parse_reduce_op(op);
    return into_new(NamedGroup::find(group), tensor, tensor.sym_sizes(), Operation::all_reduce, parsed);
  });
}

Tensor all_gather(const Tensor& tensor, const string& group) {
  return with_torch_errors([&] {
    const NamedGroup found = NamedGroup::find(group);
    return into_new(found, tensor, gathered_shape(tensor, found.size()), Operation::all_gather);
  });
}

Tensor reduce_scatter(const Tensor& tensor, const string& op, const string& group) {
  return with_torch_errors([&] {
    const ReduceOp parsed = parse_reduce_op(op);
    const NamedGroup found = NamedGroup::find(group);
    return into_new(found, tensor, block_shape(tensor, found.size()), Operation::reduce_scatter, parsed);
  });
}

Tensor all_to_all(const Tensor& tensor, const string& group) {
  return with_torch_errors([&] {
    const NamedGroup found = NamedGroup::find(group);
    require_blocks("all_to_all", tensor, found.size());
    return into_new(found, tensor, tensor.sym_sizes(), Operation::all_to_all);
  });
}

// Without elements. What the ranks would refuse, a compiler is told at once.

Tensor all_reduce_shape(const Tensor& tensor, const string& op, const string& group) {
  return with_torch_errors([&] {
    static_cast<void>(parse_reduce_op(op));
    static_cast<void>(NamedGroup::find(group));
    return empty_alike(tensor, tensor.sym_sizes());
  });
}

void all_reduce_in_place_shape(const Tensor& /*tensor*/, const string& op, const string& group) {
  with_torch_errors([&] {
    static_cast<void>(parse_reduce_op(op));
    static_cast<void>(NamedGroup::find(group));
  });
}

void broadcast_in_place_shape(const Tensor& /*tensor*/, std::int64_t src, const string& group) {
  with_torch_errors([&] {
    const int ranks = NamedGroup::find(group).size();
    if (src < 0 || src >= ranks) refuse("broadcast", fmt::format("rank {} is not in the group of {}", src, ranks));
  });
}

Tensor all_gather_shape(const Tensor& tensor, const string& group) {
  return with_torch_errors([&] { return empty_alike(tensor, gathered_shape(tensor, NamedGroup::find(group).size())); });
}

Tensor reduce_scatter_shape(const Tensor& tensor, const string& op, const string& group) {
  return with_torch_errors([&] {
    static_cast<void>(parse_reduce_op(op));
    return empty_alike(tensor, block_shape(tensor, NamedGroup::find(group).size()));
  });
}

Tensor all_to_all_shape(const Tensor& tensor, const string& group) {
  return with_torch_errors([&] {
    require_blocks("all_to_all", tensor, NamedGroup::find(group).size());
    return empty_alike(tensor, tensor.sym_sizes());
  });
}

// With gradients.

using Reducing = Tensor(const Tensor&, const string&, const string&);
using Moving = Tensor(const Tensor&, const string&);

template <class Signature>
auto find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}
Tensor call_all_reduce(const Tensor& tensor, const string& op, const string& group) {
  static const auto found = find_operator<Reducing>("unisono::all_reduce");
  return found.call(tensor, op, group);
}
Tensor call_reduce_scatter(const Tensor& tensor, const string& op, const string& group) {
  static const auto found = find_operator<Reducing>("unisono::reduce_scatter");
  return found.call(tensor, op, group);
}
Tensor call_all_gather(const Tensor& tensor, const string& group) {
  static const auto found = find_operator<Moving>("unisono::all_gather");
  return found.call(tensor, group);
}
Tensor call_all_to_all(const Tensor& tensor, const string& group) {
  static const auto found = find_operator<Moving>("unisono::all_to_all");
  return found.call(tensor, group);
}

bool needs_gradient(const Tensor& tensor) { return at::GradMode::is_enabled() && tensor.requires_grad(); }

/// Refuses a tangent, which would be lost: these operators have gradients of the reverse mode alone.
void refuse_tangent(const char* operation, const Tensor& tensor) {
  if (tensor.defined() && tensor._fw_grad(/*level=*/0).defined()) {
    throw Unsupported("forward-mode differentiation is not supported", {.operation = operation, .hint = "backward() is"});
  }
}

/// Refuses the gradient of what is no sum.
void require_sum(const char* operation, const string& op) {
  const ReduceOp parsed = parse_reduce_op(op);
  if (parsed == ReduceOp::sum || parsed == ReduceOp::avg) return;
  throw Unsupported(fmt::format("{} with {} has no gradient", operation, to_string(parsed)),
                    {.operation = operation, .hint = "sum and avg have one; detach() the tensor if none is wanted"});
}

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// An operator with its gradient, in terms of the operators again, so that it has a gradient, too. `Rule::name` is the operator's. `Rule::forward`
/// and `Rule::backward` take the tensor, and the operator's other arguments.
template <class Rule, class... Arguments>
struct Differentiable : torch::autograd::Function<Differentiable<Rule, Arguments...>> {
  static constexpr bool is_traceable = true;  // by the compiler of backward passes: nothing but operators is called

  static Tensor forward(AutogradContext* context, const Tensor& tensor, const Arguments&... arguments) {
    int i = 0;
    ((context->saved_data[std::to_string(i++)] = arguments), ...);
    const at::AutoDispatchBelowADInplaceOrView below;
    return Rule::forward(tensor, arguments...);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    variable_list all(1 + sizeof...(Arguments));
    all[0] = with_torch_errors([&] { return backward(context, gradients[0].contiguous(), std::index_sequence_for<Arguments...>()); });
    return all;
  }

  /// The kernel: without a gradient it is as cheap as none.
  static Tensor kernel(const Tensor& tensor, const Arguments&... arguments) {
    with_torch_errors([&] { refuse_tangent(Rule::name, tensor); });
    if (needs_gradient(tensor)) return Differentiable::apply(tensor, arguments...);
    const at::AutoDispatchBelowADInplaceOrView below;
    return Rule::forward(tensor, arguments...);
  }

 private:
  template <std::size_t... I>
  static Tensor backward(AutogradContext* context, const Tensor& gradient, std::index_sequence<I...> /*numbers*/) {
    return Rule::backward(gradient, context->saved_data[std::to_string(I)].toStringRef()...);
  }
};

struct AllReduce {
  static constexpr const char* name = "all_reduce";
  static Tensor forward(const Tensor& tensor, const string& op, const string& group) { return call_all_reduce(tensor, op, group); }
  static Tensor backward(const Tensor& gradient, const string& op, const string& group) {
    require_sum(name, op);
    return call_all_reduce(gradient, op, group);
  }
};

struct ReduceScatter {
  static constexpr const char* name = "reduce_scatter";
  static Tensor forward(const Tensor& tensor, const string& op, const string& group) { return call_reduce_scatter(tensor, op, group); }
  static Tensor backward(const Tensor& gradient, const string& op, const string& group) {
    require_sum(name, op);
    const Tensor gathered = call_all_gather(gradient, group).flatten(0, 1);
    return parse_reduce_op(op) == ReduceOp::sum ? gathered : gathered / NamedGroup::find(group).size();
  }
};

struct AllGather {
  static constexpr const char* name = "all_gather";
  static Tensor forward(const Tensor& tensor, const string& group) { return call_all_gather(tensor, group); }
  static Tensor backward(const Tensor& gradient, const string& group) { return call_reduce_scatter(gradient, "sum", group).squeeze(0); }
};

struct AllToAll {
  static constexpr const char* name = "all_to_all";
  static Tensor forward(const Tensor& tensor, const string& group) { return call_all_to_all(tensor, group); }
  static Tensor backward(const Tensor& gradient, const string& group) { return call_all_to_all(gradient, group); }
};

void refuse_gradient(const char* operation, const Tensor& tensor, const char* hint) {
  refuse_tangent(operation, tensor);
  if (!needs_gradient(tensor)) return;
  throw Unsupported("a tensor that requires a gradient cannot be changed in place: that would lose the gradient",
                    {.operation = operation, .hint = hint});
}

void all_reduce_in_place_with_gradient(const Tensor& tensor, const string& op, const string& group) {
  static const auto found = find_operator<void(const Tensor&, const string&, const string&)>("unisono::all_reduce_");
  with_torch_errors(
      [&] { refuse_gradient("all_reduce_", tensor, "all_reduce returns a new tensor and has a gradient; or call it under torch.no_grad()"); });
  const at::AutoDispatchBelowADInplaceOrView below;
  found.call(tensor, op, group);
}

void broadcast_in_place_with_gradient(const Tensor& tensor, std::int64_t src, const string& group) {
  static const auto found = find_operator<void(const Tensor&, std::int64_t, const string&)>("unisono::broadcast_");
  with_torch_errors([&] { refuse_gradient("broadcast_", tensor, "call it under torch.no_grad(), or on a detached tensor"); });
  const at::AutoDispatchBelowADInplaceOrView below;
  found.call(tensor, src, group);
}

// NOLINTBEGIN(clang-diagnostic-exit-time-destructors): torch's macros
TORCH_LIBRARY_FRAGMENT(unisono, operators) {
  const std::vector<at::Tag> tags{at::Tag::pt2_compliant_tag};
  operators.def("all_reduce_(Tensor(a!) tensor, str op=\"sum\", str group=\"\") -> ()", tags);
  operators.def("all_reduce(Tensor tensor, str op=\"sum\", str group=\"\") -> Tensor", tags);
  operators.def("all_gather(Tensor tensor, str group=\"\") -> Tensor", tags);
  operators.def("reduce_scatter(Tensor tensor, str op=\"sum\", str group=\"\") -> Tensor", tags);
  operators.def("all_to_all(Tensor tensor, str group=\"\") -> Tensor", tags);
  operators.def("broadcast_(Tensor(a!) tensor, int src=0, str group=\"\") -> ()", tags);
}

TORCH_LIBRARY_IMPL(unisono, CompositeExplicitAutograd, operators) {
  operators.impl("all_reduce_", all_reduce_in_place);
  operators.impl("all_reduce", all_reduce);
  operators.impl("all_gather", all_gather);
  operators.impl("reduce_scatter", reduce_scatter);
  operators.impl("all_to_all", all_to_all);
  operators.impl("broadcast_", broadcast_in_place);
}

TORCH_LIBRARY_IMPL(unisono, Meta, operators) {
  operators.impl("all_reduce_", all_reduce_in_place_shape);
  operators.impl("all_reduce", all_reduce_shape);
  operators.impl("all_gather", all_gather_shape);
  operators.impl("reduce_scatter", reduce_scatter_shape);
  operators.impl("all_to_all", all_to_all_shape);
  operators.impl("broadcast_", broadcast_in_place_shape);
}

TORCH_LIBRARY_IMPL(unisono, Autograd, operators) {
  operators.impl("all_reduce_", all_reduce_in_place_with_gradient);
  operators.impl("all_reduce", Differentiable<AllReduce, string, string>::kernel);
  operators.impl("all_gather", Differentiable<AllGather, string>::kernel);
  operators.impl("reduce_scatter", Differentiable<ReduceScatter, string, string>::kernel);
  operators.impl("all_to_all", Differentiable<AllToAll, string>::kernel);
  operators.impl("broadcast_", broadcast_in_place_with_gradient);
}
// NOLINTEND(clang-diagnostic-exit-time-destructors)

}  // namespace
}  // namespace unisono::libtorch::operators
