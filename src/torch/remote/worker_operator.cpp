#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/List.h>
#include <ATen/core/stack.h>
#include <c10/core/DefaultDtype.h>
#include <fmt/format.h>

#include <cstring>

#include "torch/remote/answers.h"
#include "torch/remote/operators.h"
#include "torch/remote/worker.h"
#include "unisono/detail/remote_call.h"
#include "unisono/error.h"

namespace unisono::libtorch {
namespace {

/// Reads the arguments of an operator. See Arguments, which writes them.
class ArgumentReader {
 public:
  ArgumentReader(const Operator& op, WireReader key, WireReader rest) : op_(op), key_(key), rest_(rest) {
    key_.number();  // the operator
    default_ = key_.code<at::ScalarType>();
  }

  c10::IValue read(std::size_t argument) { return read(op_.is_amount[argument], op_.handle.schema().arguments()[argument].real_type()); }
  /// Returns the controller's default dtype, which its predictions depend on.
  at::ScalarType default_dtype() const { return default_; }
  /// Returns the tensors that were read, for people: "Float[2, 3], Float[4]".
  std::string described() const;

 private:
  c10::IValue read(bool is_amount, const c10::TypePtr& type);
  at::Tensor tensor();
  at::Tensor cpu_scalar();
  c10::IValue list(bool are_amounts, const c10::TypePtr& type);

  const Operator& op_;
  WireReader key_, rest_;
  at::ScalarType default_ = at::kFloat;
  std::vector<at::Tensor> tensors_;
};

std::string ArgumentReader::described() const {
  std::string text;
  for (const at::Tensor& tensor : tensors_) {
    text += (text.empty() ? "" : ", ") + libtorch::described({tensor.scalar_type(), copied(tensor.sizes()), {}});
  }
  return text;
}

at::Tensor ArgumentReader::tensor() {
  Geometry geometry = key_.shape();
  const std::uint8_t flags = key_.byte();
  const std::uint64_t storage = rest_.number();
  const std::size_t bytes = rest_.number();
  geometry.offset = static_cast<std::int64_t>(rest_.number());
  return tensors_.emplace_back(tensor_at(geometry, flags, storage, bytes));
}

at::Tensor ArgumentReader::cpu_scalar() {
  const auto dtype = key_.code<at::ScalarType>();
  const std::uint8_t flags = key_.byte();
  at::Tensor tensor = at::empty({}, at::TensorOptions(dtype).device(at::kCPU));
  std::memcpy(tensor.mutable_data_ptr(), rest_.take(tensor.element_size()).data(), tensor.element_size());
  if ((flags & Flag::wrapped_number) != 0) tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

c10::IValue ArgumentReader::list(bool are_amounts, const c10::TypePtr& type) {
  const auto& list_type = type->kind() == c10::TypeKind::OptionalType ? type->containedType(0) : type;
  const auto element = list_type->containedType(0);
  c10::impl::GenericList list(element);
  for (std::uint64_t left = key_.number(); left > 0; --left) list.push_back(read(are_amounts, element));
  return list;
}

c10::IValue ArgumentReader::read(bool is_amount, const c10::TypePtr& type) {
  WireReader& amounts = is_amount ? rest_ : key_;
  switch (key_.code<Tag>()) {
    case Tag::none: return {};
    case Tag::undefined: return at::Tensor();
    case Tag::tensor: return tensor();
    case Tag::cpu_scalar: return cpu_scalar();
    case Tag::integer: return amounts.integer();
    case Tag::real: return amounts.real();
    case Tag::boolean: return amounts.byte() != 0;
    case Tag::complex: {
      const double real = amounts.real();
      return c10::complex<double>(real, amounts.real());
    }
    case Tag::text: return key_.text();
    case Tag::integers: {
      const auto integers = key_.integers();
      return at::IntArrayRef(integers);
    }
    case Tag::reals: {
      std::vector<double> reals;
      for (std::uint64_t left = key_.number(); left > 0; --left) reals.push_back(key_.real());
      return reals;
    }
    case Tag::booleans: {
      c10::List<bool> booleans;
      for (std::uint64_t left = key_.number(); left > 0; --left) booleans.push_back(key_.byte() != 0);
      return booleans;
    }
    case Tag::list: return list(is_amount, type);
    case Tag::own_device: return at::Device(at::kCPU);
    case Tag::generator: return worker_table().generator(rest_.number());
  }
  throw ProtocolError("an argument of an operator on remote tensors is of no known type");
}

/// The process's default dtype is another one for as long as this lasts.
class DefaultDtype {
 public:
  explicit DefaultDtype(at::ScalarType dtype) : before_(c10::get_default_dtype_as_scalartype()), differs_(dtype != before_) {
    if (differs_) c10::set_default_dtype(c10::scalarTypeToTypeMeta(dtype));
  }
  DefaultDtype(const DefaultDtype&) = delete;
  DefaultDtype& operator=(const DefaultDtype&) = delete;
  ~DefaultDtype() {
    if (differs_) c10::set_default_dtype(c10::scalarTypeToTypeMeta(before_));
  }

 private:
  const at::ScalarType before_;
  const bool differs_;
};

void check_kind(const at::Tensor& result) {
  if (result.layout() != at::kStrided || result.is_quantized()) throw Unsupported("the result is sparse or quantized, and no remote tensor is");
}

/// Tells whether a result is all of a storage that nothing else has.
bool is_whole(const at::Tensor& result) {
  return result.storage().use_count() == 1 && result.storage_offset() == 0 && !result.is_conj() && !result.is_neg();
}

/// Gives a result the storage of its own and the strides that the controller foresaw.
at::Tensor fitted(const at::Tensor& result, const Geometry& expected) {
  check_kind(result);
  if (result.sizes() != at::IntArrayRef(expected.sizes) || result.scalar_type() != expected.dtype) {
    throw RemoteError(fmt::format("the result is {}, and its meta kernel says {}", described({result.scalar_type(), copied(result.sizes()), {}}),
                                  described(expected)));
  }
  if (is_whole(result) && result.strides() == at::IntArrayRef(expected.strides)) return result;
  at::Tensor copy = at::empty_strided(expected.sizes, expected.strides, result.options());
  copy.copy_(result);
  return copy;
}

/// Returns the result as a tensor of its own storage, row by row or as dense as it is.
at::Tensor owned(const at::Tensor& result) {
  check_kind(result);
  return is_whole(result) ? result : result.resolve_conj().resolve_neg().clone();
}

/// What the controller expects: the storages of the results, and their shapes.
struct Expected {
  std::vector<std::optional<Geometry>> geometries;
  std::vector<std::uint64_t> storages;  // of those that are there
};

Expected read_expected(WireReader& in) {
  Expected expected;
  for (std::uint64_t left = in.number(); left > 0; --left) {
    if (in.byte() != 0) expected.geometries.emplace_back(in.shape());
    else expected.geometries.emplace_back();
  }
  for (const auto& geometry : expected.geometries) {
    if (geometry) expected.storages.push_back(in.number());
  }
  return expected;
}

/// Calls `keep` with each tensor of the results that is new.
template <class Keep>
void for_each_fresh(const Operator& op, const torch::jit::Stack& results, Keep&& keep) {
  for (std::size_t i = 0; i < op.returns.size(); ++i) {
    if (op.returns[i].result != Operator::Result::fresh) continue;
    if (results[i].isTensor()) {
      keep(results[i].toTensor());
    } else {
      for (const at::Tensor& tensor : results[i].toTensorVector()) keep(tensor);
    }
  }
}

void keep_expected(const Operator& op, const torch::jit::Stack& results, const Expected& expected) {
  std::size_t next = 0, storage = 0;
  for_each_fresh(op, results, [&](const at::Tensor& tensor) {
    if (next == expected.geometries.size()) throw RemoteError("there are more results than the meta kernel says");
    const auto& geometry = expected.geometries[next++];
    if (!geometry) return;
    if (!tensor.defined()) throw RemoteError("a result is missing that the meta kernel promises");
    worker_table().keep(expected.storages[storage++], fitted(tensor, *geometry).storage());
  });
}

void write_fresh(WireWriter& answer, const c10::IValue& result) {
  const auto tensors = result.isTensor() ? std::vector<at::Tensor>{result.toTensor()} : result.toTensorVector();
  answer.byte(result.isTensor() ? 0 : 1);
  answer.number(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    answer.byte(tensor.defined() ? 1 : 0);
    if (!tensor.defined()) continue;
    const at::Tensor own = owned(tensor);
    const std::uint64_t storage = worker_table().new_storage();
    worker_table().keep(storage, own.storage());
    answer.shape(own.scalar_type(), own.sizes(), own.strides());
    answer.number(storage);
  }
}

void write_results(WireWriter& answer, const Operator& op, const torch::jit::Stack& arguments, const torch::jit::Stack& results) {
  for (std::size_t i = 0; i < op.returns.size(); ++i) {
    if (op.returns[i].result == Operator::Result::fresh) write_fresh(answer, results[i]);
    if (op.returns[i].result == Operator::Result::value) write_value(answer, results[i]);
  }
  for (const std::size_t i : op.written) {
    if (!arguments[i].isTensor() || !arguments[i].toTensor().defined()) continue;
    const at::Tensor& tensor = arguments[i].toTensor();
    answer.shape(tensor.scalar_type(), tensor.sizes(), tensor.strides());
  }
}

/// Calls the operator on what is read, and returns its results.
torch::jit::Stack called(const Operator& op, WireReader& in, torch::jit::Stack* written) {
  in.number();  // how many arguments there are
  WireReader key(in.take(in.number()));
  ArgumentReader reader(op, key, WireReader(in.rest()));
  torch::jit::Stack stack;
  try {
    for (std::size_t i = 0; i < op.is_amount.size(); ++i) stack.push_back(reader.read(i));
    if (written != nullptr) *written = stack;
    const at::AutoDispatchBelowADInplaceOrView below;
    const DefaultDtype as_there(reader.default_dtype());
    op.handle.callBoxed(&stack);
    return stack;
  } catch (const Spoilt&) {
    throw;
  } catch (...) {
    const RemoteFailure failure = current_failure();
    throw RemoteError(fmt::format("operator {} on worker {} failed: {}", op.name, detail::worker_number(), failure.message),
                      {.hint = fmt::format("its tensors are {}", reader.described())}, failure.type);
  }
}

/// Returns the number of the operator, whose name follows at its first use.
std::uint64_t read_operator(WireReader& in) {
  const std::uint64_t packed = in.number();
  if ((packed & 1) != 0) {
    const std::string name = in.text();
    worker_table().name_operator(packed >> 1, name, in.text());
  }
  return packed >> 1;
}

}  // namespace

void learn_operator(WireReader in) {
  in.byte();  // whether it is answered
  read_operator(in);
}

void run_operator(WireReader& in, WireWriter& answer) {
  WorkerTable& table = worker_table();
  const bool is_answered = in.byte() != 0;
  const std::uint64_t number = read_operator(in);
  if (is_answered) {
    const Operator& op = operator_of(table.operator_at(number));
    torch::jit::Stack arguments;
    const torch::jit::Stack results = called(op, in, &arguments);
    return write_results(answer, op, arguments, results);
  }
  const Expected expected = read_expected(in);
  try {
    const Operator& op = operator_of(table.operator_at(number));
    keep_expected(op, called(op, in, nullptr), expected);
  } catch (const Spoilt& spoilt) {
    for (const std::uint64_t storage : expected.storages) table.spoil(storage, spoilt.failure);
    if (expected.storages.empty() && !table.failure) table.failure = spoilt.failure;  // what it should have changed is as it was: that is told again
  } catch (...) {
    const auto failure = std::make_shared<const RemoteFailure>(current_failure());
    for (const std::uint64_t storage : expected.storages) table.spoil(storage, failure);
    if (!table.failure) table.failure = failure;
  }
}

}  // namespace unisono::libtorch
