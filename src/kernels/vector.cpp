#include "kernels/vector.h"

#include <cstdint>

// x86-64 without SSE4 uses the 128-bit emulation, which is plain C++.
#include "kernels/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/vector.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/dispatch.h"
#include "kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace unisono::kernels::HWY_NAMESPACE {

// The operands of a fold. Fan is the number of inputs if the compiler knows it, else 0. It knows two: code of its own for three or four gains 1 %.
template <class Storage, std::size_t Fan>
struct Streams {
  using Element = typename Storage::Element;
  Element* out;
  const void* const* inputs;
  std::size_t fan_in;
  HWY_INLINE std::size_t fan() const { return Fan == 0 ? fan_in : Fan; }
  HWY_INLINE const Element* input(std::size_t k) const { return static_cast<const Element*>(inputs[k]); }
};

template <class D, class Storage, std::size_t Fan, class Op>
HWY_INLINE auto fold_one(D d, const Streams<Storage, Fan>& s, std::size_t at, const Op& op) {
  auto a = enter(d, op, Storage::load(d, s.input(0) + at));
  for (std::size_t k = 1; k < s.fan(); ++k) a = combine(d, op, a, enter(d, op, Storage::load(d, s.input(k) + at)));
  return leave(d, op, a);
}

// Folds four vectors side by side: four chains of operations that do not wait for each other.
template <class D, class Storage, std::size_t Fan, class Op>
HWY_INLINE void fold_four(D d, const Streams<Storage, Fan>& s, std::size_t at, const Op& op) {
  const std::size_t n = Storage::width(d);
  const auto* first = s.input(0) + at;
  auto a0 = enter(d, op, Storage::load(d, first));
  auto a1 = enter(d, op, Storage::load(d, first + n));
  auto a2 = enter(d, op, Storage::load(d, first + 2 * n));
  auto a3 = enter(d, op, Storage::load(d, first + 3 * n));
  for (std::size_t k = 1; k < s.fan(); ++k) {
    const auto* next = s.input(k) + at;
    a0 = combine(d, op, a0, enter(d, op, Storage::load(d, next)));
    a1 = combine(d, op, a1, enter(d, op, Storage::load(d, next + n)));
    a2 = combine(d, op, a2, enter(d, op, Storage::load(d, next + 2 * n)));
    a3 = combine(d, op, a3, enter(d, op, Storage::load(d, next + 3 * n)));
  }
  Storage::store(d, leave(d, op, a0), s.out + at);
  Storage::store(d, leave(d, op, a1), s.out + at + n);
  Storage::store(d, leave(d, op, a2), s.out + at + 2 * n);
  Storage::store(d, leave(d, op, a3), s.out + at + 3 * n);
}

// Folds fewer elements than a vector has, by the same operations on vectors of one.
template <class Storage, class Op>
HWY_NOINLINE void fold_few(const Streams<Storage, 0>& s, std::size_t count, const Op& op) {
  const hn::CappedTag<typename Storage::Lane, 1> d;
  for (std::size_t at = 0; at < count; ++at) Storage::store(d, fold_one(d, s, at, op), s.out + at);
}

template <class Storage, std::size_t Fan, class Op>
HWY_NOINLINE void fold_all(const Streams<Storage, Fan>& given, std::size_t count, const Op& op) {
  using Lane = typename Storage::Lane;
  const void* known[Fan == 0 ? 1 : Fan];  // copies, so that a store to `out` cannot change an address
  Streams<Storage, Fan> s = given;
  if constexpr (Fan != 0) {
    for (std::size_t k = 0; k < Fan; ++k) known[k] = given.inputs[k];
    s.inputs = known;
  }
  const hn::ScalableTag<Lane> d;
  const std::size_t n = Storage::width(d);
  // The last vector may overlap the one before it. It is computed before anything is written, since `out` may be an input.
  const auto last = fold_one(d, s, count - n, op);
  std::size_t at = 0;
  for (; count - at >= 4 * n; at += 4 * n) fold_four(d, s, at, op);
  for (; count - at >= n; at += n) Storage::store(d, fold_one(d, s, at, op), s.out + at);
  Storage::store(d, last, s.out + count - n);
}

template <class Storage, class Op>
HWY_NOINLINE bool fold(void* out, const void* const* inputs, std::size_t fan_in, std::size_t count, const Op& op) {
  auto* to = static_cast<typename Storage::Element*>(out);
  if (count < Storage::width(hn::ScalableTag<typename Storage::Lane>())) {
    fold_few(Streams<typename Storage::Single, 0>{to, inputs, fan_in}, count, op);
  } else if (fan_in == 2) {
    fold_all(Streams<Storage, 2>{to, inputs, fan_in}, count, op);
  } else {
    fold_all(Streams<Storage, 0>{to, inputs, fan_in}, count, op);
  }
  return true;
}

// ---- Products of complex numbers: real and imaginary parts are in separate vectors ----

template <class D, class V, class T>
HWY_INLINE void load_parts(D d, const T* from, V& re, V& im) {
  if constexpr (hn::MaxLanes(D()) == 1) {
    re = load_lanes(d, from);
    im = load_lanes(d, from + 1);
  } else {
    hn::LoadInterleaved2(d, from, re, im);
  }
}

template <class D, class V, class T>
HWY_INLINE void store_parts(D d, V re, V im, T* to) {
  if constexpr (hn::MaxLanes(D()) == 1) {
    store_lanes(d, re, to);
    store_lanes(d, im, to + 1);
  } else {
    hn::StoreInterleaved2(re, im, d, to);
  }
}

template <class T, class D>
HWY_INLINE void multiply_one(D d, T* out, const void* const* inputs, std::size_t fan_in, std::size_t at) {
  hn::Vec<D> re, im, other_re, other_im;
  load_parts(d, static_cast<const T*>(inputs[0]) + 2 * at, re, im);
  for (std::size_t k = 1; k < fan_in; ++k) {
    load_parts(d, static_cast<const T*>(inputs[k]) + 2 * at, other_re, other_im);
    const auto product = hn::Sub(hn::Mul(re, other_re), hn::Mul(im, other_im));
    im = hn::Add(hn::Mul(re, other_im), hn::Mul(im, other_re));
    re = product;
  }
  store_parts(d, canonical(d, re), canonical(d, im), out + 2 * at);
}

template <class T>
bool multiply_complex(void* out, const void* const* inputs, std::size_t fan_in, std::size_t count) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> single;
  const std::size_t n = hn::Lanes(d);
  auto* to = static_cast<T*>(out);
  std::size_t at = 0;
  for (; count - at >= n; at += n) multiply_one(d, to, inputs, fan_in, at);
  for (; at < count; ++at) multiply_one(single, to, inputs, fan_in, at);
  return true;
}

// The operands of one call, passed on together.
struct Call {
  void* out;
  const void* const* inputs;
  std::size_t fan_in;
  std::size_t count;

  template <class Storage, class Op>
  bool run(const Op& op) const {
    return fold<Storage>(out, inputs, fan_in, count, op);
  }
  template <class Op>
  bool run_bytes(std::size_t size) const {
    return fold<Same<std::uint8_t>>(out, inputs, fan_in, count * size, Op{});
  }
};

template <class Op>
bool integers_by_size(const Call& call, DType dtype) {
  switch (size_of(dtype)) {
    case 1: return call.run<Same<std::uint8_t>>(Op{});
    case 2: return call.run<Same<std::uint16_t>>(Op{});
    case 4: return call.run<Same<std::uint32_t>>(Op{});
    default: return call.run<Same<std::uint64_t>>(Op{});
  }
}

template <class Op>
bool floats(const Call& call, DType dtype) {
  switch (dtype) {
    case DType::float16: return call.run<Half>(Op{});
    case DType::bfloat16: return call.run<BrainPairs>(Op{});
    case DType::float32: return call.run<Same<float>>(Op{});
    case DType::float64: return call.run<Same<double>>(Op{});
    default: return false;
  }
}

template <class Op>
bool ordered(const Call& call, DType dtype) {
  switch (dtype) {
    case DType::int8: return call.run<Same<std::int8_t>>(Op{});
    case DType::int16: return call.run<Same<std::int16_t>>(Op{});
    case DType::int32: return call.run<Same<std::int32_t>>(Op{});
    case DType::int64: return call.run<Same<std::int64_t>>(Op{});
    case DType::uint8: return call.run<Same<std::uint8_t>>(Op{});
    case DType::uint16: return call.run<Same<std::uint16_t>>(Op{});
    case DType::uint32: return call.run<Same<std::uint32_t>>(Op{});
    case DType::uint64: return call.run<Same<std::uint64_t>>(Op{});
    default: return floats<Op>(call, dtype);
  }
}

bool sum(const Call& call, DType dtype) {
  return dtype >= DType::int8 && dtype <= DType::uint64 ? integers_by_size<Sum>(call, dtype) : floats<Sum>(call, dtype);
}

bool product(const Call& call, DType dtype) {
  switch (dtype) {
    case DType::int16:
    case DType::uint16: return call.run<Same<std::uint16_t>>(Product{});
    case DType::int32:
    case DType::uint32: return call.run<Same<std::uint32_t>>(Product{});
    case DType::complex64: return multiply_complex<float>(call.out, call.inputs, call.fan_in, call.count);
    case DType::complex128: return multiply_complex<double>(call.out, call.inputs, call.fan_in, call.count);
    default: return floats<Product>(call, dtype);
  }
}

bool average(const Call& call, DType dtype, std::size_t divisor) {
  const Average<float> single{{}, static_cast<float>(divisor)};
  switch (dtype) {
    case DType::float16: return call.run<Half>(single);
    case DType::bfloat16: return call.run<BrainPairs>(single);
    case DType::float32: return call.run<Same<float>>(single);
    case DType::float64: return call.run<Same<double>>(Average<double>{{}, static_cast<double>(divisor)});
    default: return false;
  }
}

// The accumulators hold negations: `Combine` gets two of them and returns the negation of the result.
template <class Combine>
bool truth(const Call& call, DType dtype) {
  using Truth8 = Truth<std::uint8_t, Combine>;
  using Truth16 = Truth<std::uint16_t, Combine>;
  using Truth32 = Truth<std::uint32_t, Combine>;
  using Truth64 = Truth<std::uint64_t, Combine>;
  switch (dtype) {
    case DType::boolean:
    case DType::int8:
    case DType::uint8: return call.run<Same<std::uint8_t>>(Truth8{{}, 0xff, 1});
    case DType::int16:
    case DType::uint16: return call.run<Same<std::uint16_t>>(Truth16{{}, 0xffff, 1});
    case DType::int32:
    case DType::uint32: return call.run<Same<std::uint32_t>>(Truth32{{}, 0xffffffffU, 1});
    case DType::int64:
    case DType::uint64: return call.run<Same<std::uint64_t>>(Truth64{{}, ~std::uint64_t{0}, 1});
    case DType::float16: return call.run<Same<std::uint16_t>>(Truth16{{}, 0x7fff, 0x3c00});
    case DType::bfloat16: return call.run<Same<std::uint16_t>>(Truth16{{}, 0x7fff, 0x3f80});
    case DType::float32: return call.run<Same<std::uint32_t>>(Truth32{{}, 0x7fffffffU, 0x3f800000U});
    case DType::float64: return call.run<Same<std::uint64_t>>(Truth64{{}, ~std::uint64_t{0} >> 1, 0x3ff0000000000000U});
    default: return false;
  }
}

bool boolean(const Call& call, ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::max:
    case ReduceOp::bor: return truth<And>(call, DType::boolean);
    case ReduceOp::product:
    case ReduceOp::min:
    case ReduceOp::band: return truth<Or>(call, DType::boolean);
    case ReduceOp::bxor: return call.run<Same<std::uint8_t>>(Truth<std::uint8_t, Equivalence>{{}, 0xff, 1});
    default: return false;
  }
}

bool reduce_target(void* out, const void* const* inputs, std::size_t fan_in, std::size_t count, const Fold& fold) {
  Call call{out, inputs, fan_in, count};
  DType dtype = fold.dtype;
  if (fold.op == ReduceOp::sum || fold.op == ReduceOp::avg) {  // a complex sum is the sum of its parts
    if (dtype == DType::complex64) dtype = DType::float32;
    if (dtype == DType::complex128) dtype = DType::float64;
    if (dtype != fold.dtype) call.count *= 2;
  }
  if (fold.op == ReduceOp::lor) return truth<And>(call, dtype);
  if (fold.op == ReduceOp::land) return truth<Or>(call, dtype);
  if (dtype == DType::boolean) return boolean(call, fold.op);
  switch (fold.op) {
    case ReduceOp::sum: return sum(call, dtype);
    case ReduceOp::product: return product(call, dtype);
    case ReduceOp::min: return ordered<Min>(call, dtype);
    case ReduceOp::max: return ordered<Max>(call, dtype);
    case ReduceOp::avg: return average(call, dtype, fold.divisor);
    case ReduceOp::band: return call.run_bytes<And>(size_of(dtype));
    case ReduceOp::bor: return call.run_bytes<Or>(size_of(dtype));
    case ReduceOp::bxor: return call.run_bytes<Xor>(size_of(dtype));
    default: return false;
  }
}

const char* name_of_target() { return hwy::TargetName(HWY_TARGET); }

}  // namespace unisono::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace unisono::kernels {

UNISONO_FOR_TARGETS(reduce_target);
UNISONO_FOR_TARGETS(name_of_target);

bool reduce_vector(void* out, const void* const* inputs, std::size_t fan_in, std::size_t count, const Fold& fold) {
  return UNISONO_ON_TARGET(reduce_target)(out, inputs, fan_in, count, fold);
}

std::string target_name() { return UNISONO_ON_TARGET(name_of_target)(); }

}  // namespace unisono::kernels
#endif
