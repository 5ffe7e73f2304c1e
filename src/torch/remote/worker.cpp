#include "torch/remote/worker.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <fmt/format.h>

#include <cstring>
#include <exception>
#include <vector>

#include "unisono/collectives.h"
#include "unisono/context.h"
#include "unisono/detail/remote_call.h"
#include "unisono/error.h"
#include "unisono/objects.h"
#include "unisono/operation.h"
#include "unisono/point_to_point.h"
#include "unisono/torch/tensor.h"

namespace unisono::libtorch {
namespace {

/// Tells whether the controller waits for the answer.
bool is_answered(Command command, const WireReader& in) {
  switch (command) {
    case Command::carry_out: return WireReader(in).byte() != 0;
    case Command::synchronize:
    case Command::fetch:
    case Command::get_state:
    case Command::set_state: return true;
    case Command::nothing:
    case Command::store:
    case Command::send:
    case Command::receive:
    case Command::collective:
    case Command::seed: return false;
  }
  throw ProtocolError("a command for remote tensors is of no known kind");
}

/// Returns the elements as bytes, which tensors of every dtype have.
at::Tensor bytes_view(const at::Tensor& contiguous) { return contiguous.reshape({-1}).view(at::kByte); }

detail::Frame fetch(WireReader& in, WireWriter& answer) {
  // A copy: a later command may change the tensor before its elements are away.
  const at::Tensor own = read_tensor(in).clone(at::MemoryFormat::Contiguous);
  detail::Frame frame;
  const std::size_t bytes = own.nbytes();
  if (bytes >= detail::least_part) {
    frame.parts.push_back({.data = static_cast<std::byte*>(own.mutable_data_ptr()), .bytes = bytes, .owner = std::make_shared<at::Tensor>(own)});
  } else {
    answer.raw(own.const_data_ptr(), bytes);
  }
  return frame;
}

void store(WireReader& in, const detail::Frame& frame) {
  const at::Tensor to = read_tensor(in);
  const auto given = frame.parts.empty() ? in.rest() : std::span<const std::byte>(frame.parts[0].data, frame.parts[0].bytes);
  if (given.size() != to.nbytes()) throw ProtocolError(fmt::format("{} bytes were sent for a tensor of {}", given.size(), to.nbytes()));
  if (!given.empty()) std::memcpy(to.mutable_data_ptr(), given.data(), given.size());
}

/// The receiver learns first whether there is something to receive.
void send_tensor(WireReader& in) {
  const auto target = static_cast<int>(in.number());
  at::Tensor own;
  try {
    own = bytes_view(read_tensor(in).contiguous());
  } catch (...) {
    send_object(current_failure().message, target);
    throw;
  }
  send_object(std::string(), target);
  if (own.numel() > 0) send(own, target);
}

void receive_into(WireReader& in, int source) {
  if (const auto failure = recv_object<std::string>(source); !failure.empty()) throw RemoteError(failure);
  const at::Tensor to = read_tensor(in);
  const at::Tensor own = to.is_contiguous() ? to : at::empty(to.sizes(), to.options());
  if (at::Tensor bytes = bytes_view(own); bytes.numel() > 0) recv(bytes, source);
  if (!own.is_same(to)) at::Tensor(to).copy_(own);
}

/// Reads what write_tensor wrote, and returns the number of the storage.
std::uint64_t skip_tensor(WireReader& in) {
  in.shape();
  const std::uint64_t storage = in.number();
  in.number();  // bytes
  in.number();  // offset
  return storage;
}

/// What could not be received is spoilt, unless it was there before.
void receive_tensor(WireReader& in) {
  const auto source = static_cast<int>(in.number());
  WireReader ahead(in);
  const std::uint64_t storage = skip_tensor(ahead);
  const bool is_new = !worker_table().has(storage);
  try {
    receive_into(in, source);
  } catch (...) {
    if (is_new) worker_table().spoil(storage, std::make_shared<const RemoteFailure>(current_failure()));
    throw;
  }
}

/// A collective, and this worker's tensors.
struct Collective {
  Operation operation;
  ReduceOp reduction;
  int root;
  at::Tensor given = {}, result = {};

  bool is_in_place() const { return operation == Operation::all_reduce || operation == Operation::reduce || operation == Operation::broadcast; }
  void run();
};

void Collective::run() {
  if (operation == Operation::all_reduce) return all_reduce(given, reduction);
  if (operation == Operation::reduce) return reduce(given, root, reduction);
  if (operation == Operation::broadcast) return broadcast(given, root);
  if (operation == Operation::all_gather) return all_gather(given, result);
  if (operation == Operation::reduce_scatter) return reduce_scatter(given, result, reduction);
  if (operation == Operation::all_to_all) return all_to_all(given, result);
  throw ProtocolError("a collective of remote tensors is of no known kind");
}

/// Reads the tensors. If one of them has failed on any worker, it throws on all, which would wait for that one else.
void read_tensors(WireReader& in, Collective& own) {
  std::exception_ptr failure;
  try {
    own.given = read_tensor(in);
    if (!own.is_in_place()) own.result = read_tensor(in);
  } catch (...) {
    failure = std::current_exception();
  }
  std::vector<std::uint8_t> is_there{static_cast<std::uint8_t>(failure ? 0 : 1)};
  all_reduce(is_there, ReduceOp::min);
  if (failure) std::rethrow_exception(failure);
  if (is_there[0] == 0) throw RemoteError("a collective was left out: on another worker its tensor has failed");
}

/// What it could not make is spoilt.
void run_collective(WireReader& in) {
  const auto operation = in.code<Operation>();
  const auto reduction = in.code<ReduceOp>();
  Collective own{.operation = operation, .reduction = reduction, .root = static_cast<int>(in.number())};
  WireReader ahead(in);
  try {
    read_tensors(in, own);
    own.run();
  } catch (...) {
    if (!own.is_in_place()) {
      skip_tensor(ahead);
      worker_table().spoil(skip_tensor(ahead), std::make_shared<const RemoteFailure>(current_failure()));
    }
    throw;
  }
}

void set_state(WireReader& in) {
  at::Generator& generator = worker_table().generator(in.number());
  const auto given = in.rest();
  at::Tensor state = at::empty({static_cast<std::int64_t>(given.size())}, at::TensorOptions(at::kByte).device(at::kCPU));
  std::memcpy(state.mutable_data_ptr(), given.data(), given.size());
  generator.set_state(state);
}

void get_state(WireReader& in, WireWriter& answer) {
  const at::Tensor state = worker_table().generator(in.number()).get_state();
  answer.raw(state.const_data_ptr(), state.nbytes());
}

detail::Frame carry_out(Command command, WireReader& in, const detail::Frame& frame, WireWriter& answer) {
  switch (command) {
    case Command::nothing:
    case Command::synchronize: break;
    case Command::carry_out: run_operator(in, answer); break;
    case Command::fetch: return fetch(in, answer);
    case Command::store: store(in, frame); break;
    case Command::send: send_tensor(in); break;
    case Command::receive: receive_tensor(in); break;
    case Command::collective: run_collective(in); break;
    case Command::seed: {
      at::Generator& generator = worker_table().generator(in.number());
      generator.set_current_seed(in.number());
      break;
    }
    case Command::get_state: get_state(in, answer); break;
    case Command::set_state: set_state(in); break;
  }
  return {};
}

detail::Frame failed(const RemoteFailure& failure) {
  WireWriter answer;
  answer.byte(1);
  answer.text(failure.type);
  answer.text(failure.message);
  return {.body = answer.take()};
}

std::string_view name_of(Command command) {
  switch (command) {
    case Command::fetch: return "fetching a tensor from";
    case Command::store: return "storing a tensor on";
    case Command::send: return "sending a tensor from";
    case Command::receive: return "receiving a tensor on";
    case Command::collective: return "a collective of tensors on";
    case Command::seed:
    case Command::get_state:
    case Command::set_state: return "a generator of";
    case Command::nothing:
    case Command::synchronize:
    case Command::carry_out: break;
  }
  return {};
}

/// Carries out a command. What fails and is not waited for is told to the next command that is.
detail::Frame serve(detail::RemoteRun& /*run*/, detail::Frame&& frame) {
  WorkerTable& table = worker_table();
  WireReader in(frame.body);
  for (std::uint64_t left = in.number(); left > 0; --left) table.drop(in.number());
  const auto command = in.code<Command>();
  const bool is_waited_for = is_answered(command, in);
  if (is_waited_for && table.failure && command == Command::carry_out) learn_operator(in);
  if (is_waited_for && table.failure) return failed(*std::exchange(table.failure, nullptr));
  try {
    const at::AutoDispatchBelowADInplaceOrView below;
    WireWriter answer;
    answer.byte(0);
    detail::Frame result = carry_out(command, in, frame, answer);
    if (is_waited_for) result.body = answer.take();
    return result;
  } catch (...) {
    RemoteFailure failure = current_failure();
    if (const auto what = name_of(command); !what.empty()) {
      failure.message = fmt::format("{} worker {} failed: {}", what, detail::worker_number(), failure.message);
    }
    if (is_waited_for) return failed(failure);
    if (!table.failure) table.failure = std::make_shared<const RemoteFailure>(std::move(failure));
    return {};
  }
}

const detail::RemoteFunction* const registered =
    &detail::declare_remote({.name = command_name, .signature = command_signature, .run = serve, .is_compared = false});

}  // namespace
}  // namespace unisono::libtorch
