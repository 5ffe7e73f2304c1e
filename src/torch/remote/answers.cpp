#include "torch/remote/answers.h"

#include <fmt/format.h>

#include "unisono/error.h"

namespace unisono::libtorch {

void write_value(WireWriter& out, const c10::IValue& value) {
  if (value.isNone()) {
    out.code(Tag::none);
  } else if (value.isBool()) {
    out.code(Tag::boolean);
    out.byte(value.toBool() ? 1 : 0);
  } else if (value.isInt()) {
    out.code(Tag::integer);
    out.integer(value.toInt());
  } else if (value.isDouble()) {
    out.code(Tag::real);
    out.real(value.toDouble());
  } else if (value.isComplexDouble()) {
    out.code(Tag::complex);
    out.real(value.toComplexDouble().real());
    out.real(value.toComplexDouble().imag());
  } else if (value.isString()) {
    out.code(Tag::text);
    out.text(value.toStringRef());
  } else if (value.isIntList()) {
    out.code(Tag::integers);
    out.integers(value.toIntVector());
  } else {
    throw Unsupported(fmt::format("a result of type {} cannot be sent to the controller", value.type()->str()));
  }
}

c10::IValue read_value(WireReader& in) {
  switch (in.code<Tag>()) {
    case Tag::none: return {};
    case Tag::boolean: return in.byte() != 0;
    case Tag::integer: return in.integer();
    case Tag::real: return in.real();
    case Tag::text: return in.text();
    case Tag::complex: {
      const double real = in.real();
      return c10::complex<double>(real, in.real());
    }
    case Tag::integers: {
      const auto integers = in.integers();
      return at::IntArrayRef(integers);
    }
    case Tag::undefined:
    case Tag::tensor:
    case Tag::cpu_scalar:
    case Tag::reals:
    case Tag::booleans:
    case Tag::list:
    case Tag::own_device:
    case Tag::generator: break;
  }
  throw ProtocolError("a value of a remote tensor's command is of no known type");
}

namespace {

c10::IValue read_fresh(WireReader& in, Outcome& outcome, const std::shared_ptr<Session>& session, int worker) {
  const bool is_list = in.byte() != 0;
  const std::uint64_t count = in.number();
  c10::List<at::Tensor> tensors;
  for (std::uint64_t i = 0; i < count; ++i) {
    outcome.fresh.emplace_back();
    if (in.byte() == 0) {
      tensors.push_back(at::Tensor());
      continue;
    }
    outcome.fresh.back() = in.shape();
    const std::uint64_t storage = in.number();
    tensors.push_back(make_tensor(session, worker, *outcome.fresh.back(), storage));
  }
  outcome.lengths.push_back(is_list ? static_cast<int>(count) : Outcome::one_tensor);
  if (is_list) return tensors;
  return tensors.empty() ? at::Tensor() : tensors.get(0);
}

}  // namespace

std::pair<std::vector<c10::IValue>, Outcome> read_results(const Operator& op, const detail::Frame& answer, const std::shared_ptr<Session>& session,
                                                          int worker, c10::ArrayRef<c10::IValue> values) {
  WireReader in(answer.body);
  in.byte();  // it went well
  std::vector<c10::IValue> results(op.returns.size());
  Outcome outcome;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (op.returns[i].result == Operator::Result::fresh) results[i] = read_fresh(in, outcome, session, worker);
    if (op.returns[i].result == Operator::Result::value) results[i] = read_value(in);
  }
  for (const std::size_t i : op.written) {
    if (!values[i].isTensor() || !values[i].toTensor().defined()) continue;
    Geometry geometry = in.shape();
    const at::Tensor& own = values[i].toTensor();
    geometry.offset = own.storage_offset();
    if (own.sizes() != at::IntArrayRef(geometry.sizes) || own.strides() != at::IntArrayRef(geometry.strides)) {
      outcome.resized.emplace_back(i, std::move(geometry));
    }
  }
  return {std::move(results), std::move(outcome)};
}

}  // namespace unisono::libtorch
