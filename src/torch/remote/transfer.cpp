#include "torch/remote/transfer.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <fmt/format.h>

#include <cstring>

#include "torch/remote/operators.h"
#include "torch/remote/place.h"
#include "torch/remote/session.h"
#include "unisono/error.h"

namespace unisono::libtorch {
namespace {

/// Fetches the elements into a contiguous tensor of the same shape and dtype.
void fetch_into(const at::Tensor& to, const at::Tensor& from) {
  const Handle& handle = handle_of(from);
  const std::size_t bytes = to.nbytes();
  auto* const elements = static_cast<std::byte*>(to.mutable_data_ptr());
  // The call may outlive this function, if waiting for it throws.
  const auto memory = [bytes, elements, to, worker = handle.worker](std::uint32_t slot, std::size_t part) -> detail::FramePart {
    if (part != bytes) throw ProtocolError(fmt::format("worker {} sends {} bytes of a tensor of {}", worker, part, bytes));
    return {.data = elements, .bytes = bytes, .owner = std::make_shared<at::Tensor>(to), .slot = slot};
  };
  const auto answer = handle.channel().ask(
      [&](WireWriter& out) {
        handle.channel().require(handle.generation);
        out.code(Command::fetch);
        write_tensor(out, from);
      },
      memory);
  if (!answer.parts.empty()) return;
  WireReader in(answer.body);
  in.byte();
  const auto given = in.take(bytes);
  if (bytes > 0) std::memcpy(elements, given.data(), bytes);
}

/// Sends the elements of a contiguous tensor on the cpu, which are not changed any more, into one of the same shape and dtype.
void store_into(const at::Tensor& to, const at::Tensor& from) {
  const Handle& handle = handle_of(to);
  const std::size_t bytes = from.nbytes();
  std::vector<detail::FramePart> parts;
  const bool is_large = bytes >= detail::least_part;
  if (is_large) {
    auto* const elements = static_cast<std::byte*>(const_cast<void*>(from.const_data_ptr()));  // only read
    parts.push_back({.data = elements, .bytes = bytes, .owner = std::make_shared<at::Tensor>(from)});
  }
  handle.channel().send(
      [&](WireWriter& out) {
        handle.channel().require(handle.generation);
        out.code(Command::store);
        write_tensor(out, to);
        if (!is_large) out.raw(from.const_data_ptr(), bytes);
      },
      false, std::move(parts));
}

/// Has the worker copy, with conversion and broadcast.
void copy_on_worker(const at::Tensor& to, const at::Tensor& from) {
  static const auto& copy = *new c10::OperatorHandle(c10::Dispatcher::singleton().findSchemaOrThrow("aten::copy_", ""));
  torch::jit::Stack stack{to, from, false};
  carry_out(copy, &stack);
}

/// Has one worker send the elements to the other.
void copy_between(const at::Tensor& to, const at::Tensor& from) {
  const Handle &source = handle_of(from), &target = handle_of(to);
  if (source.session != target.session)
    throw InvalidArgument(fmt::format("a tensor on remote:{} belongs to a controller that has ended", source.worker));
  // Both commands are sent with both locks held, so that all transfers have the same order on all workers.
  const std::scoped_lock lock(source.channel().order(), target.channel().order());
  source.channel().require_now(source.generation);
  target.channel().require_now(target.generation);
  source.channel().send_in_order(
      [&](WireWriter& out) {
        out.code(Command::send);
        out.number(static_cast<std::uint64_t>(target.worker));
        write_tensor(out, from);
      },
      false);
  target.channel().send_in_order(
      [&](WireWriter& out) {
        out.code(Command::receive);
        out.number(static_cast<std::uint64_t>(source.worker));
        write_tensor(out, to);
      },
      false);
}

at::Tensor empty_like_on(const at::Tensor& like, const at::Tensor& place) {
  const Handle& handle = handle_of(place);
  return make_tensor(handle.session, handle.worker, {like.scalar_type(), copied(like.sizes()), row_strides(like.sizes())});
}

/// Tells whether the elements of one are those of the other when they are copied as they lie.
bool is_alike(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() && !a.is_conj() && !b.is_conj() && !a.is_neg() && !b.is_neg();
}

void copy_to_cpu(at::Tensor& to, const at::Tensor& from) {
  if (is_alike(to, from) && to.is_contiguous()) fetch_into(to, from);
  else to.copy_(fetched(from));
}

void copy_from_cpu(const at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  const at::Tensor packed = from.resolve_conj().resolve_neg().contiguous();
  const bool is_own = packed.is_same(from) || packed.is_alias_of(from);
  // The call is not waited for, so the caller may change his tensor before it is sent; non_blocking says that he does not.
  const at::Tensor still = is_own && !non_blocking && packed.nbytes() >= detail::least_part ? packed.clone() : packed;
  if (is_alike(to, still) && to.is_contiguous()) return store_into(to, still);
  const at::Tensor between = empty_like_on(still, to);
  store_into(between, still);
  copy_on_worker(to, between);
}

}  // namespace

at::Tensor fetched(const at::Tensor& remote) {
  at::Tensor local = at::empty(remote.sizes(), at::TensorOptions(remote.scalar_type()).device(at::kCPU));
  fetch_into(local, remote);
  if (remote.is_conj()) local = local.conj();
  return remote.is_neg() ? local._neg_view() : local;
}

at::Tensor moved_to(const at::Tensor& local, const at::Device& device) {
  const auto [session, worker] = place_of(device);
  const at::Tensor remote = make_tensor(session, worker, {local.scalar_type(), copied(local.sizes()), row_strides(local.sizes())});
  copy_from_cpu(remote, local, false);
  return remote;
}

at::Tensor& copy_into(at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  const at::AutoDispatchBelowADInplaceOrView below;
  if (!is_remote(to)) {
    if (!to.is_cpu()) to.copy_(fetched(from));
    else copy_to_cpu(to, from);
    return to;
  }
  if (!is_remote(from)) {
    copy_from_cpu(to, from.is_cpu() ? from : from.cpu(), non_blocking);
  } else if (handle_of(to).worker == handle_of(from).worker) {
    copy_on_worker(to, from);
  } else if (is_alike(to, from)) {
    copy_between(to, from);
  } else {
    const at::Tensor plain = empty_like_on(from, from), between = empty_like_on(from, to);
    copy_on_worker(plain, from);
    copy_between(between, plain);
    copy_on_worker(to, between);
  }
  return to;
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  at::Tensor target = to;
  return copy_into(target, from, non_blocking);
}

at::Scalar local_scalar(const at::Tensor& tensor) {
  const at::AutoDispatchBelowADInplaceOrView below;
  return fetched(tensor).item();
}

}  // namespace unisono::libtorch
