#include "torch/remote/arguments.h"

#include <c10/core/DefaultDtype.h>
#include <fmt/format.h>

#include "torch/remote/generator.h"
#include "torch/remote/place.h"
#include "unisono/error.h"

namespace unisono::libtorch {

Arguments::Arguments(const Operator& op, c10::ArrayRef<c10::IValue> values) : op_(op) {
  key_.reserve(128);
  rest_.reserve(64);
  key_.number(op.number);
  key_.code(c10::get_default_dtype_as_scalartype());
  for (std::size_t i = 0; i < values.size(); ++i) value(values[i], op.is_amount[i]);
  if (!session_) {
    throw InvalidArgument(fmt::format("operator {} has neither a tensor nor a device that says which worker must run it", op.name));
  }
  for (const std::size_t i : op.written) check_written(values[i]);
}

void Arguments::check_written(const c10::IValue& value) const {
  if (value.isTensorList()) {
    for (const c10::IValue& element : value.toListRef()) check_written(element);
  }
  if (!value.isTensor() || !value.toTensor().defined() || is_remote(value.toTensor())) return;
  throw InvalidArgument(
      fmt::format("operator {} would write to a tensor on {}, and its others are on remote:{}", op_.name, value.toTensor().device().str(), worker_),
      {.hint = "cpu() or item() fetches the other"});
}

void Arguments::place(const std::shared_ptr<Session>& session, int worker, int generation) {
  if (!session_) {
    session_ = session;
    worker_ = worker;
    generation_ = generation;
  } else if (session_ != session) {
    throw InvalidArgument(fmt::format("operator {}: a tensor on remote:{} belongs to a controller that has ended", op_.name, worker));
  } else if (worker_ != worker) {
    throw InvalidArgument(fmt::format("operator {}: its tensors are on remote:{} and remote:{}", op_.name, worker_, worker),
                          {.hint = fmt::format("to(\"remote:{}\") moves the other", worker_)});
  } else if (generation_ != generation) {
    throw InvalidArgument(fmt::format("operator {}: worker {} was replaced between the making of its tensors", op_.name, worker));
  }
}

void Arguments::tensor(const at::Tensor& tensor) {
  if (!tensor.defined()) return key_.code(Tag::undefined);
  if (!is_remote(tensor)) return cpu_tensor(tensor);
  if (tensor.layout() != at::kStrided) {
    throw Unsupported(fmt::format("operator {}: a sparse tensor cannot be on {}", op_.name, tensor.device().str()));
  }
  const Handle& handle = handle_of(tensor);
  place(handle.session, handle.worker, handle.generation);
  key_.code(Tag::tensor);
  key_.shape(tensor.scalar_type(), tensor.sizes(), tensor.strides());
  key_.byte(flags_of(tensor));
  write_place(rest_, tensor);
}

void Arguments::cpu_tensor(const at::Tensor& tensor) {
  if (!tensor.is_cpu() || tensor.dim() != 0 || tensor.layout() != at::kStrided) {
    throw InvalidArgument(fmt::format("operator {}: a tensor of shape {} is on {}, the others are on a worker", op_.name, c10::str(tensor.sizes()),
                                      tensor.device().str()),
                          {.hint = "to(\"remote:0\") moves it to worker 0"});
  }
  key_.code(Tag::cpu_scalar);
  key_.code(tensor.scalar_type());
  key_.byte(flags_of(tensor));
  rest_.raw(tensor.const_data_ptr(), tensor.element_size());
}

void Arguments::amount(const c10::IValue& value, bool is_amount) {
  WireWriter& out = is_amount ? rest_ : key_;
  if (value.isDouble()) {
    key_.code(Tag::real);
    out.real(value.toDouble());
  } else if (value.isBool()) {
    key_.code(Tag::boolean);
    out.byte(value.toBool() ? 1 : 0);
  } else if (value.isComplexDouble()) {
    key_.code(Tag::complex);
    out.real(value.toComplexDouble().real());
    out.real(value.toComplexDouble().imag());
  } else {
    key_.code(Tag::integer);
    out.integer(value.isSymInt() ? value.toSymInt().expect_int() : value.toInt());
  }
}

void Arguments::list(const c10::IValue& value, bool are_amounts) {
  if (value.isIntList()) {
    key_.code(Tag::integers);
    const auto integers = value.toIntVector();
    return key_.integers(integers);
  }
  if (value.isDoubleList()) {
    key_.code(Tag::reals);
    const auto reals = value.toDoubleVector();
    key_.number(reals.size());
    for (const double real : reals) key_.real(real);
    return;
  }
  if (value.isBoolList()) {
    key_.code(Tag::booleans);
    const auto booleans = value.toBoolList();
    key_.number(booleans.size());
    for (const bool boolean : booleans) key_.byte(boolean ? 1 : 0);
    return;
  }
  const auto elements = value.toListRef();
  key_.code(Tag::list);
  key_.number(elements.size());
  for (const auto& element : elements) this->value(element, are_amounts);
}

void Arguments::device(const at::Device& device) {
  if (device.type() != at::kPrivateUse1) {
    throw Unsupported(fmt::format("operator {} cannot be asked to make a tensor on {} on a worker", op_.name, device.str()),
                      {.hint = "to() moves its result"});
  }
  const auto [session, worker] = place_of(device);
  place(session, worker, session->generation(worker));
  key_.code(Tag::own_device);
}

void Arguments::generator(const at::Generator& generator) {
  if (generator.device().type() != at::kPrivateUse1) {
    throw InvalidArgument(fmt::format("operator {}: its generator is on {}, its tensors are on a worker", op_.name, generator.device().str()),
                          {.hint = "a generator of that worker: Generator(device=\"remote:0\") in Python, or none"});
  }
  const auto& own = generator_of(generator);
  place(own.session(), own.worker(), own.session()->generation(own.worker()));
  key_.code(Tag::generator);
  rest_.number(own.number());
}

void Arguments::value(const c10::IValue& value, bool is_amount) {
  if (value.isNone()) key_.code(Tag::none);
  else if (value.isTensor()) tensor(value.toTensor());
  else if (value.isScalar() || value.isSymInt()) amount(value, is_amount);
  else if (value.isList()) list(value, is_amount);
  else if (value.isDevice()) device(value.toDevice());
  else if (value.isGenerator()) generator(value.toGenerator());
  else if (value.isString()) {
    key_.code(Tag::text);
    key_.text(value.toStringRef());
  } else {
    throw Unsupported(fmt::format("operator {} has an argument of type {}, which no worker understands", op_.name, value.type()->str()));
  }
}

}  // namespace unisono::libtorch
