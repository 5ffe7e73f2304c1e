// Tensors within objects as bytes: every dtype and layout comes back, what is no tensor's bytes is refused.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>
#include <map>
#include <random>
#include <variant>

#include "unisono/torch.h"
#include "unisono/torch/objects.h"

namespace unisono {
namespace {

using detail::from_bytes;
using detail::to_bytes;

torch::Tensor again(const torch::Tensor& x) { return from_bytes<torch::Tensor>(to_bytes(x)); }
/// Also of the dtypes that torch::equal does not know.
bool same(const torch::Tensor& a, const torch::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         (a.numel() == 0 ||
          std::memcmp(a.contiguous().data_ptr(), b.contiguous().data_ptr(), static_cast<std::size_t>(a.numel()) * a.element_size()) == 0);
}

const std::vector<torch::Dtype> dtypes{torch::kBool,     torch::kChar,   torch::kShort,  torch::kInt,          torch::kLong,
                                       torch::kByte,     torch::kUInt16, torch::kUInt32, torch::kUInt64,       torch::kHalf,
                                       torch::kBFloat16, torch::kFloat,  torch::kDouble, torch::kComplexFloat, torch::kComplexDouble};

TEST(TorchObjects, EveryDTypeComesBack) {
  for (const auto dtype : dtypes) {
    const torch::Tensor x = (torch::arange(12).reshape({3, 4}) % 5).to(dtype);
    EXPECT_TRUE(same(again(x), x)) << dtype;
    EXPECT_TRUE(same(again(x[1][2]), x[1][2])) << dtype;
    EXPECT_TRUE(same(again(x.slice(0, 0, 0)), x.slice(0, 0, 0))) << dtype;
  }
  const torch::Tensor values = torch::tensor({-2.0, 0.5, 448.0, 1.0});
  for (const auto dtype : {torch::kFloat8_e5m2, torch::kFloat8_e4m3fn, torch::kComplexHalf}) {
    EXPECT_TRUE(same(again(values.to(dtype)), values.to(dtype))) << dtype;
  }
  const torch::Tensor special = torch::tensor({std::numeric_limits<float>::quiet_NaN(), -0.0F, std::numeric_limits<float>::infinity()});
  EXPECT_TRUE(same(again(special), special));
}

TEST(TorchObjects, EveryLayoutComesBackRowByRow) {
  const torch::Tensor x = torch::arange(60).reshape({3, 4, 5});
  for (const torch::Tensor& y : {x.permute({2, 0, 1}), x.slice(2, 1, 5, 2), x.select(1, 2), x.select(0, 1).expand({2, 4, 5}), x.flip(1)}) {
    const torch::Tensor back = again(y);
    EXPECT_TRUE(same(back, y));
    EXPECT_TRUE(back.is_contiguous());
  }
  const torch::Tensor complex = torch::view_as_complex(torch::arange(8.0).reshape({2, 2, 2}));
  EXPECT_TRUE(torch::equal(again(complex.conj()), complex.conj()));
  EXPECT_TRUE(torch::equal(again(torch::imag(complex.conj())), torch::imag(complex.conj())));
}

TEST(TorchObjects, AutogradIsNoPartOfIt) {
  const torch::Tensor x = torch::ones({2}, torch::requires_grad());
  const torch::Tensor back = again(x * 3);
  EXPECT_FALSE(back.requires_grad());
  EXPECT_TRUE(torch::equal(back, torch::full({2}, 3.F)));
  torch::Tensor copy = again(x);
  copy.fill_(7);
  EXPECT_EQ(x[0].item<float>(), 1.F);
}

TEST(TorchObjects, UndefinedStaysUndefined) {
  EXPECT_FALSE(again(torch::Tensor()).defined());
  const std::vector<torch::Tensor> list{torch::ones({2}), torch::Tensor(), torch::zeros({0})};
  const auto back = from_bytes<std::vector<torch::Tensor>>(to_bytes(list));
  EXPECT_TRUE(back[0].defined() && !back[1].defined() && back[2].defined());
}

struct State {
  std::string name;
  std::map<std::string, torch::Tensor> tensors;
  std::optional<torch::Tensor> best;
  torch::Tensor pair[2];
  UNISONO_FIELDS(name, tensors, best, pair)
};

TEST(TorchObjects, TensorsLieInEveryContainer) {
  State state{"adam", {{"m", torch::ones({2, 2})}, {"v", torch::arange(3)}}, torch::tensor(2.5), {torch::tensor(1), torch::tensor({2, 3})}};
  const State back = from_bytes<State>(to_bytes(state));
  EXPECT_EQ(back.name, "adam");
  EXPECT_EQ(back.tensors.size(), 2U);
  EXPECT_TRUE(same(back.tensors.at("v"), state.tensors.at("v")));
  EXPECT_TRUE(same(back.tensors.at("m"), state.tensors.at("m")));
  EXPECT_TRUE(same(*back.best, *state.best));
  EXPECT_TRUE(same(back.pair[1], state.pair[1]));
  state.best.reset();
  EXPECT_FALSE(from_bytes<State>(to_bytes(state)).best.has_value());
  const std::variant<int, torch::Tensor> either = torch::tensor({4, 5});
  EXPECT_TRUE(same(std::get<1>(from_bytes<std::variant<int, torch::Tensor>>(to_bytes(either))), torch::tensor({4, 5})));
}

TEST(TorchObjects, WhatCannotTravelIsRefused) {
  EXPECT_THROW(to_bytes(torch::eye(3).to_sparse()), InvalidArgument);
  EXPECT_THROW(to_bytes(torch::eye(3).to_sparse_csr()), InvalidArgument);
  EXPECT_THROW(to_bytes(torch::empty({2}, torch::kMeta)), InvalidArgument);
  EXPECT_THROW(to_bytes(torch::quantize_per_tensor(torch::ones({2}), 0.5, 0, torch::kQInt8)), InvalidArgument);
  EXPECT_THROW(to_bytes(torch::_efficientzerotensor({3}, torch::kFloat)), InvalidArgument);
}

TEST(TorchObjects, TensorsAreLimitedAsOtherObjectsAre) {
  const ObjectLimits before = object_limits();
  set_object_limits({.bytes = 1000});
  EXPECT_THROW(to_bytes(torch::ones({1000})), InvalidArgument);
  EXPECT_TRUE(same(again(torch::ones({100})), torch::ones({100})));
  set_object_limits(before);
}

// Bytes that a rank might be sent and that no rank of ours sends.

std::vector<std::byte> message(std::string_view dtype, const std::vector<std::int64_t>& shape, const std::function<void(ObjectWriter&)>& elements) {
  ObjectWriter out;
  out.array(2);
  out.write(detail::object_type<torch::Tensor>().fingerprint);
  const std::size_t mark = out.open();
  out.string(dtype);
  out.write(shape);
  elements(out);
  out.close(mark);
  return out.take();
}
auto floats(std::size_t n) {
  return [n](ObjectWriter& out) {
    const std::vector<float> x(n, 1.F);
    out.block(DType::float32, x.data(), n);
  };
}
torch::Tensor read(const std::vector<std::byte>& bytes) { return from_bytes<torch::Tensor>(bytes); }

TEST(TorchObjects, BytesOfNoTensorAreRefused) {
  constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  EXPECT_TRUE(same(read(message("Float", {2, 3}, floats(6))), torch::ones({2, 3})));
  EXPECT_THROW(read(message("Float", {2, 3}, floats(5))), ProtocolError);
  EXPECT_THROW(read(message("Float", {2, 3}, floats(7))), ProtocolError);
  EXPECT_THROW(read(message("Float", {}, floats(0))), ProtocolError);
  EXPECT_THROW(read(message("Float", {-2, -3}, floats(6))), ProtocolError);
  EXPECT_THROW(read(message("Float", {-1}, floats(0))), ProtocolError);
  EXPECT_THROW(read(message("Float", {huge, 2}, floats(2))), ProtocolError);
  EXPECT_THROW(read(message("Float", {huge / 2, 4}, floats(4))), ProtocolError);
  EXPECT_THROW(read(message("Float", {std::int64_t{1} << 32, std::int64_t{1} << 32}, floats(0))), ProtocolError);
  EXPECT_THROW(read(message("Float", {0, huge, huge}, floats(0))), ProtocolError);
  EXPECT_THROW(read(message("Float16", {6}, floats(6))), ProtocolError);
  EXPECT_THROW(read(message("QInt8", {6}, floats(6))), ProtocolError);
  EXPECT_THROW(read(message("Undefined", {6}, floats(6))), ProtocolError);
  EXPECT_THROW(read(message("Double", {6}, floats(6))), Mismatch);  // a block says itself what it is
  EXPECT_THROW(read(message("Float8_e5m2", {6}, floats(6))), Mismatch);
  const auto truths = [](ObjectWriter& out) {
    const unsigned char x[] = {0, 1, 2};
    out.block(DType::boolean, x, 3);
  };
  EXPECT_THROW(read(message("Bool", {3}, truths)), ProtocolError);
}

TEST(TorchObjects, BytesThatWereCutOrChangedAreNoTensorOrAnother) {
  std::mt19937 random(7);
  for (const torch::Tensor& x : {torch::arange(40, torch::kFloat).reshape({5, 8}), torch::ones({3}, torch::kFloat8_e5m2), torch::tensor(true),
                                 torch::empty({0, 4}, torch::kComplexDouble)}) {
    const auto bytes = to_bytes(std::map<std::string, torch::Tensor>{{"x", x}});
    const auto attempt = [](const std::vector<std::byte>& b) {
      try {
        static_cast<void>(from_bytes<std::map<std::string, torch::Tensor>>(b));
        return true;
      } catch (const ProtocolError&) {
      } catch (const Mismatch&) {
      }
      return false;
    };
    EXPECT_TRUE(attempt(bytes));
    for (std::size_t n = 0; n < bytes.size(); ++n) {
      EXPECT_FALSE(attempt({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n)})) << n;
    }
    for (int i = 0; i < 5000; ++i) {
      auto changed = bytes;
      for (int k = 0; k <= i % 3; ++k) changed[random() % changed.size()] = static_cast<std::byte>(random());
      attempt(changed);
    }
  }
}

TEST(TorchObjects, AnyValueIsATensor) {
  for (const auto dtype : dtypes) {
    const torch::Tensor x = (torch::arange(6).reshape({2, 3}) % 3).to(dtype).t();
    const AnyValue value(x);
    EXPECT_TRUE(same(tensor_of(value), x)) << dtype;
    EXPECT_TRUE(same(tensor_of(from_bytes<AnyValue>(to_bytes(value))), x)) << dtype;
  }
  EXPECT_EQ(tensor_of(AnyValue(torch::tensor(2.5))).dim(), 0);
  EXPECT_EQ(tensor_of(AnyValue(torch::empty({0, 3}))).sizes(), torch::IntArrayRef({0, 3}));
  EXPECT_THROW(static_cast<void>(tensor_of(AnyValue(3))), InvalidArgument);
  EXPECT_THROW(AnyValue(torch::Tensor()), InvalidArgument);
}

}  // namespace
}  // namespace unisono
