#pragma once

#include <c10/core/Stream.h>

#include <exception>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "unisono/error.h"

// Uses what PyTorch has added since 2.7 where it exists. All functions are templates, so that missing names are not looked up.

namespace unisono::libtorch {

/// Returns torch's name of a group; empty where there is none.
template <class Options>
std::string group_name_of(const Options& options) {
  if constexpr (requires { options.group_name; }) return options.group_name;
  return {};
}

/// Copies the group's name, description and ranks from `given` to `own`.
template <class Options, class Given>
void describe_group(Options& own, const Given& given) {
  if constexpr (requires { own.group_name = given.group_name; }) own.group_name = given.group_name;
  if constexpr (requires { own.group_desc = given.group_desc; }) own.group_desc = given.group_desc;
  if constexpr (requires { own.global_ranks_in_group = given.global_ranks_in_group; }) own.global_ranks_in_group = given.global_ranks_in_group;
}

/// Returns the store of a group. PyTorch tells it since 2.9; before, it is a protected member.
template <class Group>
c10::intrusive_ptr<c10d::Store> store_of(const Group& group) {
  if constexpr (requires { group.getStore(); }) {
    return group.getStore();
  } else {
    struct Inside : Group {
      static auto store() { return &Inside::store_; }
    };
    return group.*Inside::store();
  }
}

/// Returns a copy with connections of its own, where that is supported; a store that is written in Python may lack the method.
template <class Store>
c10::intrusive_ptr<Store> copy_of(const c10::intrusive_ptr<Store>& store) {
  if constexpr (requires { store->clone(); }) {
    try {
      return store->clone();
    } catch (const std::exception&) {
      return store;
    }
  }
  return store;
}

/// Returns torch's type of this operation; older versions have no such type.
template <class Type = c10d::OpType>
constexpr Type reduce_scatter_tensor_coalesced_type() {
  if constexpr (requires { Type::REDUCE_SCATTER_TENSOR_COALESCED; }) return Type::REDUCE_SCATTER_TENSOR_COALESCED;
  return Type::_REDUCE_SCATTER_BASE;
}

/// Returns the handle of a device's stream, as its vendor's library knows it. Throws Unsupported where torch does not give it.
template <class Stream>
void* native_handle_of(const Stream& stream) {
  if constexpr (requires { stream.native_handle(); }) return stream.native_handle();
  throw Unsupported("this PyTorch does not tell the handle of a device's stream; tensors on devices need a newer one");
}

}  // namespace unisono::libtorch
