#include "unisono/any_value.h"

#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "engines/device_copy.h"
#include "kernels/pack.h"
#include "unisono/detail/object_codec.h"
#include "unisono/detail/object_bytes.h"
#include "unisono/error.h"
#include "unisono/objects.h"

namespace unisono {
namespace {

constexpr std::string_view kinds[] = {"a tensor", "a number", "a string", "a path"};

[[noreturn]] void refuse(AnyValue::Kind is, std::string_view asked) {
  throw InvalidArgument(fmt::format("the value is {}, {} is asked for", kinds[static_cast<std::size_t>(is)], asked),
                        {.hint = "kind() says what it is"});
}
void expect_dtype(DType is, DType asked) {
  if (is == asked) return;
  throw InvalidArgument(fmt::format("the value is of {}, {} is asked for", to_string(is), to_string(asked)), {.hint = "no number is converted"});
}

void fetch(std::byte* to, const TensorView& tensor) {
  try {
    engines::fetch(to, tensor);
  } catch (const BackendUnavailable& missing) {
    throw Unsupported(fmt::format("a value cannot be made of memory of {}: {}", to_string(tensor.device()), missing.message()));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(fmt::format("memory of {} cannot be copied: {}", to_string(tensor.device()), error.what()));
  }
}
}  // namespace

AnyValue::AnyValue(const TensorView& tensor) : dtype_(tensor.dtype()) {
  OwnTensor own{{tensor.shape().begin(), tensor.shape().end()}, std::vector<std::byte>(tensor.bytes())};
  if (tensor.device().type == Device::Type::cpu) kernels::pack(own.bytes.data(), tensor);
  else fetch(own.bytes.data(), tensor);
  content_ = std::move(own);
}
AnyValue::AnyValue(DType dtype, const void* number) : content_(Number{}), dtype_(dtype) {
  std::memcpy(std::get<Number>(content_).bytes.data(), number, size_of(dtype));
}
AnyValue::AnyValue(std::string text) : AnyValue(Content(std::move(text)), DType::uint8) {}
AnyValue::AnyValue(std::string_view text) : AnyValue(std::string(text)) {}
AnyValue::AnyValue(const char* text) : AnyValue(std::string(text)) {}
AnyValue::AnyValue(OwnPath path) : AnyValue(Content(std::move(path)), DType::uint8) {}
AnyValue::AnyValue(Content content, DType dtype) : content_(std::move(content)), dtype_(dtype) {}

AnyValue::AnyValue(const AnyValue& other) = default;
AnyValue::AnyValue(AnyValue&& other) noexcept = default;
AnyValue& AnyValue::operator=(const AnyValue& other) = default;
AnyValue& AnyValue::operator=(AnyValue&& other) noexcept = default;
AnyValue::~AnyValue() = default;
bool AnyValue::operator==(const AnyValue& other) const { return dtype_ == other.dtype_ && content_ == other.content_; }

DType AnyValue::dtype() const {
  if (!is_tensor() && !is_number()) refuse(kind(), "a dtype");
  return dtype_;
}
TensorView AnyValue::tensor() {
  if (!is_tensor()) refuse(kind(), kinds[0]);
  auto& own = std::get<OwnTensor>(content_);
  return {own.bytes.data(), dtype_, own.shape};
}
std::span<const std::int64_t> AnyValue::shape() const {
  if (!is_tensor()) refuse(kind(), kinds[0]);
  return std::get<OwnTensor>(content_).shape;
}
std::span<const std::byte> AnyValue::elements_of(DType dtype) const {
  if (!is_tensor()) refuse(kind(), kinds[0]);
  expect_dtype(dtype_, dtype);
  return std::get<OwnTensor>(content_).bytes;
}
const void* AnyValue::number_of(DType dtype) const {
  if (!is_number()) refuse(kind(), kinds[1]);
  expect_dtype(dtype_, dtype);
  return std::get<Number>(content_).bytes.data();
}
const std::string& AnyValue::string() const {
  if (!is_string()) refuse(kind(), kinds[2]);
  return std::get<std::string>(content_);
}
const std::filesystem::path& AnyValue::path() const {
  if (!is_path()) refuse(kind(), kinds[3]);
  return *std::get<OwnPath>(content_).path;
}
AnyValue::OwnPath::OwnPath(std::string_view text) : path(std::make_shared<const std::filesystem::path>(text)) {}
bool AnyValue::OwnPath::operator==(const OwnPath& other) const { return *path == *other.path; }

// Writes the kind first. A tensor follows with dtype, shape and elements, a number with its dtype and value, a text as it is.
void object_traits<AnyValue>::write(ObjectWriter& out, const AnyValue& value) {
  out.write(value.kind());
  switch (value.kind()) {
    case AnyValue::Kind::tensor: {
      const auto& own = std::get<AnyValue::OwnTensor>(value.content_);
      out.write(value.dtype_, own.shape);
      out.block(value.dtype_, own.bytes.data(), own.bytes.size() / size_of(value.dtype_));
      break;
    }
    case AnyValue::Kind::number:
      out.write(value.dtype_);
      out.number(value.dtype_, std::get<AnyValue::Number>(value.content_).bytes.data());
      break;
    case AnyValue::Kind::string: out.write(value.string()); break;
    case AnyValue::Kind::path: out.write(value.path()); break;
  }
}

AnyValue object_traits<AnyValue>::read(ObjectReader& in) {
  const auto read_dtype = [&] {
    const auto dtype = in.read<DType>();
    if (dtype < DType::boolean || dtype > DType::complex128) in.refuse("a dtype that does not exist");
    return dtype;
  };
  switch (in.read<AnyValue::Kind>()) {
    case AnyValue::Kind::tensor: {
      const DType dtype = read_dtype();
      AnyValue::OwnTensor own{in.read<std::vector<std::int64_t>>(), {}};
      const auto bytes = in.block(dtype);
      std::int64_t numel = 1;
      bool empty = false;
      for (const std::int64_t extent : own.shape) {
        if (extent < 0 || (extent != 0 && __builtin_mul_overflow(numel, extent, &numel))) in.refuse("a shape beyond any memory");
        empty = empty || extent == 0;
      }
      if (bytes.size() / size_of(dtype) != (empty ? 0U : static_cast<std::size_t>(numel))) in.refuse("a tensor of another shape than its elements");
      own.bytes.assign(bytes.begin(), bytes.end());
      return {std::move(own), dtype};
    }
    case AnyValue::Kind::number: {
      const DType dtype = read_dtype();
      AnyValue::Number number;
      in.number(dtype, number.bytes.data());
      return {number, dtype};
    }
    case AnyValue::Kind::string: return in.read<std::string>();
    case AnyValue::Kind::path: return in.read<std::filesystem::path>();
  }
  in.refuse("a value of no kind");
}

AnyValue broadcast_any(const std::optional<AnyValue>& value, Rank src, const ProcessGroup& group, const CallOptions& options) {
  detail::Parcel own = detail::parcel_at(src, group, [&] {
    return detail::make_parcel([&] {
      if (!value) throw InvalidArgument("the root has no value", {.hint = "the root gives a value, the others may give none"});
      return detail::to_bytes(*value);
    });
  });
  return detail::from_bytes<AnyValue>(
      detail::broadcast_parcel("broadcast_any", detail::object_type<AnyValue>(), std::move(own), src, group, options));
}

}  // namespace unisono
