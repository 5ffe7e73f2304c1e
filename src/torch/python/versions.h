#pragma once

#include <c10/core/Stream.h>

#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "unisono/error.h"

// What has come to PyTorch since 2.4, where it is there. All are templates, so that a name that is not there is not looked for.

namespace unisono::libtorch {

/// What torch calls a group; empty where it does not say.
template <class Options>
std::string group_name_of(const Options& options) {
  if constexpr (requires { options.group_name; }) return options.group_name;
  return {};
}

/// Gives `own` what `given` says of the group: its name, description and ranks.
template <class Options, class Given>
void describe_group(Options& own, const Given& given) {
  if constexpr (requires { own.group_name = given.group_name; }) own.group_name = given.group_name;
  if constexpr (requires { own.group_desc = given.group_desc; }) own.group_desc = given.group_desc;
  if constexpr (requires { own.global_ranks_in_group = given.global_ranks_in_group; }) own.global_ranks_in_group = given.global_ranks_in_group;
}

/// With connections of its own, where that can be had.
template <class Store>
c10::intrusive_ptr<Store> copy_of(const c10::intrusive_ptr<Store>& store) {
  if constexpr (requires { store->clone(); }) return store->clone();
  return store;
}

/// How torch calls that operation; older ones have no word of its own for it.
template <class Type = c10d::OpType>
constexpr Type reduce_scatter_tensor_coalesced_type() {
  if constexpr (requires { Type::REDUCE_SCATTER_TENSOR_COALESCED; }) return Type::REDUCE_SCATTER_TENSOR_COALESCED;
  return Type::_REDUCE_SCATTER_BASE;
}

/// The handle of a device's stream, as its vendor's library knows it. Throws Unsupported where torch does not tell.
template <class Stream>
void* native_handle_of(const Stream& stream) {
  if constexpr (requires { stream.native_handle(); }) return stream.native_handle();
  throw Unsupported("this PyTorch does not tell the handle of a device's stream; tensors on devices need a newer one");
}

}  // namespace unisono::libtorch
