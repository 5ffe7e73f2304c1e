#pragma once

#include <concepts>
#include <optional>
#include <source_location>
#include <utility>

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include "unisono/elastic.h"
#include "unisono/export.h"
#include "unisono/process_group.h"
#include "unisono/torch/checkpoint.h"
#include "unisono/torch/data_parallel.h"

// Data-parallel training that goes on without a lost rank and takes new ones in (elastic.h).
//
// ```cpp
// Context context;                                   // a newcomer waits here until it is taken in
// Net net;
// torch::optim::Adam optimizer(net->parameters());
// ElasticState state;
// add_training(state, net, optimizer);
// train_elastic(state, net, [&](DataParallel<Net>& model) {
//   if (state.step == steps) return false;
//   optimizer.zero_grad();
//   loss(model(input_of(state.step, model.group()))).backward();
//   optimizer.step();
//   ++state.step;
//   return true;
// });
// ```
//
// A newcomer meets the others within train_elastic, so nothing collective may stand between `Context`
// and it: no auto_model, auto_optim, manual_seed_all or load_checkpoint.

namespace unisono {

namespace detail {
/// Lists a module, and an optimizer unless it is null.
UNISONO_API void list_training(ElasticState& state, const torch::nn::Module& model, torch::optim::Optimizer* optimizer);
}  // namespace detail

/// Lists a model and its optimizer in a state: the parameters and buffers, on any device, and what
/// Optimizer::save writes, which is the optimizer's state and its options. The optimizer must
/// outlive the state.
///
/// `synchronize`, run_elastic and train_elastic then bring all of it from the member with the most steps to the
/// others. Their lists are compared by the names, dtypes and lengths of the tensors, and by the
/// optimizer's type and the number of its parameters. Tensors on a device go through the host's memory.
///
/// @throws InvalidArgument for an optimizer made by auto_optim with an option, which belongs to one
///   group; with `shard_state` a lost rank would take its share of the state along
template <class Model>
void add_training(ElasticState& state, const Model& model, torch::optim::Optimizer& optimizer) {
  detail::list_training(state, detail::module_of(model), &optimizer);
}

/// Lists a model alone.
template <class Model>
void add_training(ElasticState& state, const Model& model) {
  detail::list_training(state, detail::module_of(model), nullptr);
}

/// Calls `step` again and again, with the model as auto_model makes it, until it returns false: the
/// loop of run_elastic for a model that the members train together. Collective; it returns the group
/// that was the last.
///
/// After every change of the members the model is made anew for their group, with the same options:
/// the buckets, the order in which they travel, and the memory of a compression begin again.
/// model.group() is the group of all processes that there are. `options.group` is set here, whatever
/// it was.
///
/// A step changes the model by optimizer.step() alone, after the last call on the group; a backward
/// pass that a loss breaks off has changed gradients only, which the next step sets to zero. Running
/// statistics of batch normalisation change in a forward pass: they may have seen the batch of such
/// a step twice.
///
/// @throws the exceptions of run_elastic and auto_model
template <libtorch::ModuleHandle Holder, class Step>
requires(std::predicate<Step&, DataParallel<Holder>&>) ProcessGroup
    train_elastic(ElasticState& state, const Holder& module, Step&& step, AutoModelOptions options = {},
                  std::source_location where = std::source_location::current()) {
  std::optional<DataParallel<Holder>> model;
  const auto step_of_group = [&](const ProcessGroup& group) -> bool {
    if (!model || model->group() != group) {
      model.reset();  // the hooks of the model before, which would reduce the gradients in a group that is over
      options.group = group;
      model.emplace(module, options);
    }
    return step(*model);
  };
  return run_elastic(state, step_of_group, where);
}

}  // namespace unisono
