// Values of the kinds that C++ and Python both know: an array, a number, a text, a path.

#include "any_value.h"

#include <nanobind/stl/string.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "arguments.h"
#include "buffer.h"
#include "docs/objects.h"
#include "failure.h"
#include "imports.h"
#include "module.h"
#include "signals.h"
#include "unisono/objects.h"
#include "values.h"

namespace unisono::python {
namespace {

using namespace nb::literals;

nb::object number_of(const AnyValue& value) {
  const nb::object array = empty_array(value.dtype(), {});
  with_type(value.dtype(), [&]<class T>(T) {
    const T number = value.number<T>();
    std::memcpy(Buffer(array, Use::write, "").view().data(), &number, sizeof number);
    return 0;
  });
  switch (value.dtype()) {
    case DType::boolean:
    case DType::int64:
    case DType::float64:
    case DType::complex128: return array.attr("item")();
    default: return array[nb::tuple()];
  }
}

}  // namespace

AnyValue any_value_of(nb::handle x, const char* operation) {
  if (PyUnicode_Check(x.ptr())) return nb::cast<std::string>(x);
  if (Value::is_value(x)) {
    Value value(x, operation);
    const TensorView view = value.view();
    return with_type(view.dtype(), [&](auto number) {
      std::memcpy(&number, view.data(), sizeof number);
      return AnyValue(number);
    });
  }
  if (nb::hasattr(x, "__fspath__")) return std::filesystem::path(nb::cast<std::string>(nb::str(x)));
  return AnyValue(Buffer(x, Use::read, operation).view());
}

nb::object as_python(AnyValue& value) {
  switch (value.kind()) {
    case AnyValue::Kind::number: return number_of(value);
    case AnyValue::Kind::string: return nb::str(value.string().c_str(), value.string().size());
    case AnyValue::Kind::path: return imported("pathlib").attr("Path")(value.path().string());
    case AnyValue::Kind::tensor: break;
  }
  const TensorView from = value.tensor();
  nb::object array = empty_array(from.dtype(), {value.shape().begin(), value.shape().end()});
  if (from.bytes() > 0) std::memcpy(Buffer(array, Use::write, "").view().data(), from.data(), from.bytes());
  return array;
}

namespace {

nb::object share(nb::handle x, nb::handle src, nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "broadcast_any");
  const Rank root = rank_of(src, "broadcast_any");
  const bool is_root = (root.is_global() ? trailing.group.global_rank(trailing.group.rank()) : trailing.group.rank()) == root.value();
  const std::optional<AnyValue> own = is_root && !x.is_none() ? std::optional(any_value_of(x, "broadcast_any")) : std::nullopt;
  AnyValue value = unlocked([&] { return broadcast_any(own, root, trailing.group, trailing.options); });
  return as_python(value);
}

}  // namespace

void bind_any_value(nb::module_& m) {
  def_call(m, "broadcast_any", &share, "x: typing.Any = None, src: RankLike = 0", "typing.Any", docs::broadcast_any, "x"_a = nb::none(), "src"_a = 0);
}

}  // namespace unisono::python
