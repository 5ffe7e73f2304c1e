// Compiled once for every instruction set, so it has no ordinary include guard. It defines how elements are loaded into lanes and combined there.
#if defined(UNISONO_KERNELS_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef UNISONO_KERNELS_LANES_INL_H_
#undef UNISONO_KERNELS_LANES_INL_H_
#else
#define UNISONO_KERNELS_LANES_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace unisono::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// A vector of one lane is loaded and stored as bytes, since Highway's functions for it need an aligned address.
template <class D>
HWY_INLINE hn::Vec<D> load_lanes(D d, const hn::TFromD<D>* from) {
  if constexpr (hn::MaxLanes(D()) == 1) {
    hn::TFromD<D> value;
    std::memcpy(&value, from, sizeof(value));
    return hn::Set(d, value);
  } else {
    return hn::LoadU(d, from);
  }
}

template <class D>
HWY_INLINE void store_lanes(D d, hn::Vec<D> v, hn::TFromD<D>* to) {
  if constexpr (hn::MaxLanes(D()) == 1) {
    const hn::TFromD<D> value = hn::GetLane(v);
    std::memcpy(to, &value, sizeof(value));
  } else {
    hn::StoreU(v, d, to);
  }
}

// ---- Storage: Element is the type in memory, Lane the type of the computation. load() and store() move width() elements; Single moves as many as
// there are lanes, which may be one. ----

template <class Storage, class E, class L>
struct ElementPerLane {
  using Element = E;
  using Lane = L;
  using Single = Storage;
  static HWY_INLINE std::size_t width(auto d) { return hn::Lanes(d); }
};

template <class T>
struct Same : ElementPerLane<Same<T>, T, T> {
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const T* from) {
    return load_lanes(d, from);
  }
  template <class D>
  static HWY_INLINE void store(D d, hn::Vec<D> v, T* to) {
    store_lanes(d, v, to);
  }
};

struct Brain : ElementPerLane<Brain, std::uint16_t, float> {
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const Element* from) {
    const hn::RebindToUnsigned<D> du;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, load_lanes(hn::Rebind<Element, D>(), from))));
  }
  // Rounds into the upper half. A NaN must be the canonical one, which stays as it is.
  template <class D>
  static HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> round(D, hn::Vec<D> v) {
    const hn::RebindToUnsigned<D> du;
    const auto bits = hn::BitCast(du, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1U));
    return hn::Add(hn::Add(bits, hn::Set(du, 0x7fffU)), odd);
  }
  template <class D>
  static HWY_INLINE void store(D d, hn::Vec<D> v, Element* to) {
    const hn::Rebind<Element, D> narrow;
    store_lanes(narrow, hn::DemoteTo(narrow, hn::BitCast(hn::RebindToSigned<D>(), hn::ShiftRight<16>(round(d, v)))), to);
  }
};

#if HWY_TARGET == HWY_SCALAR
using BrainPairs = Brain;
#else
template <class V>
struct Pair {
  V even;
  V odd;
};

// A vector of bfloat16 becomes two vectors of float without moving an element: elements of even index lie in the lower halves of the lanes, the
// others in the upper.
struct BrainPairs {
  using Element = std::uint16_t;
  using Lane = float;
  using Single = Brain;
  static HWY_INLINE std::size_t width(auto d) { return 2 * hn::Lanes(d); }
  template <class D>
  static HWY_INLINE Pair<hn::Vec<D>> load(D d, const Element* from) {
    const hn::RebindToUnsigned<D> du;
    const auto both = hn::BitCast(du, hn::LoadU(hn::Repartition<Element, D>(), from));
    return {hn::BitCast(d, hn::ShiftLeft<16>(both)), hn::BitCast(d, hn::And(both, hn::Set(du, 0xffff0000U)))};
  }
  template <class D>
  static HWY_INLINE void store(D d, const Pair<hn::Vec<D>>& v, Element* to) {
    const hn::RebindToUnsigned<D> du;
    const hn::Repartition<Element, D> narrow;
    const auto odd = hn::And(Brain::round(d, v.odd), hn::Set(du, 0xffff0000U));
    hn::StoreU(hn::BitCast(narrow, hn::Or(hn::ShiftRight<16>(Brain::round(d, v.even)), odd)), narrow, to);
  }
};
#endif

// Converts by instructions where the processor has them, else by the steps of detail::float_to_half and half_to_float.
struct Half : ElementPerLane<Half, std::uint16_t, float> {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const Element* from) {
    const hn::Rebind<Element, D> narrow;
    return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), load_lanes(narrow, from)));
  }
  template <class D>
  static HWY_INLINE void store(D, hn::Vec<D> v, Element* to) {
    const hn::Rebind<Element, D> narrow;
    store_lanes(narrow, hn::BitCast(narrow, hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), v)), to);
  }
#else
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const Element* from) {
    const hn::RebindToSigned<D> di;
    const auto bits = hn::BitCast(di, hn::PromoteTo(hn::RebindToUnsigned<D>(), load_lanes(hn::Rebind<Element, D>(), from)));
    const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(di, 0x8000)));
    const auto magnitude = hn::And(bits, hn::Set(di, 0x7fff));
    const auto shifted = hn::ShiftLeft<13>(magnitude);
    const auto subnormal = hn::BitCast(di, hn::Mul(hn::ConvertTo(d, magnitude), hn::Set(d, 0x1p-24F)));
    auto value = hn::Add(shifted, hn::Set(di, 0x38000000));
    value = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, 0x7bff)), hn::Or(shifted, hn::Set(di, 0x7f800000)), value);
    value = hn::IfThenElse(hn::Gt(hn::Set(di, 0x0400), magnitude), subnormal, value);
    return hn::BitCast(d, hn::Or(sign, value));
  }
  template <class D>
  static HWY_INLINE void store(D d, hn::Vec<D> v, Element* to) {
    const hn::RebindToSigned<D> di;
    const hn::RebindToUnsigned<D> du;
    const hn::Rebind<Element, D> narrow;
    const auto bits = hn::BitCast(di, v);
    const auto magnitude = hn::And(bits, hn::Set(di, 0x7fffffff));
    const auto sign = hn::And(hn::BitCast(di, hn::ShiftRight<16>(hn::BitCast(du, bits))), hn::Set(di, 0x8000));
    const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(di, 1));
    const auto rounded = hn::Add(magnitude, hn::Add(hn::Set(di, 0xfff - 0x38000000), odd));
    const auto subnormal = hn::BitCast(di, hn::Add(hn::BitCast(d, magnitude), hn::Set(d, 0.5F)));
    auto value = hn::ShiftRight<13>(rounded);
    value = hn::IfThenElse(hn::Gt(hn::Set(di, 0x38800000), magnitude), hn::Sub(subnormal, hn::Set(di, 0x3f000000)), value);
    value = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, 0x477fefff)), hn::Set(di, 0x7c00), value);
    value = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, 0x7f800000)), hn::Set(di, 0x7e00), value);
    store_lanes(narrow, hn::DemoteTo(narrow, hn::Or(sign, value)), to);
  }
#endif
};

// ---- Operations: enter() turns a loaded vector into an accumulator, combine() adds one more, leave() makes the result ----

template <class D>
HWY_INLINE hn::Vec<D> canonical(D d, hn::Vec<D> v) {
  if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
    return hn::IfThenElse(hn::Eq(v, v), v, hn::Set(d, std::numeric_limits<hn::TFromD<D>>::quiet_NaN()));
  } else {
    return v;
  }
}

struct Plain {
  template <class D>
  HWY_INLINE hn::Vec<D> enter(D, hn::Vec<D> v) const {
    return v;
  }
  template <class D>
  HWY_INLINE hn::Vec<D> leave(D d, hn::Vec<D> v) const {
    return canonical(d, v);
  }
};

struct Sum : Plain {
  HWY_INLINE auto combine(auto /*d*/, auto a, auto b) const { return hn::Add(a, b); }
};

struct Product : Plain {
  HWY_INLINE auto combine(auto /*d*/, auto a, auto b) const { return hn::Mul(a, b); }
};

template <class T>
struct Average : Sum {
  T divisor;
  template <class D>
  HWY_INLINE hn::Vec<D> leave(D d, hn::Vec<D> v) const {
    return canonical(d, hn::Div(v, hn::Set(d, divisor)));
  }
};

// A NaN among the operands is the result, the first one before the second.
template <class V>
HWY_INLINE V or_nan(V a, V b, V ordered) {
  return hn::IfThenElse(hn::Eq(a, a), hn::IfThenElse(hn::Eq(b, b), ordered, b), a);
}

// The minimum instructions of processors differ on NaN and on zeros. Equal numbers have equal bits, except zeros: the union of their bits is -0 and
// the intersection is +0.
struct Min : Plain {
  template <class D>
  HWY_INLINE hn::Vec<D> combine(D, hn::Vec<D> a, hn::Vec<D> b) const {
    if constexpr (!hwy::IsFloat<hn::TFromD<D>>()) return hn::Min(a, b);
    else return or_nan(a, b, hn::IfThenElse(hn::Eq(a, b), hn::Or(a, b), hn::Min(a, b)));
  }
};

struct Max : Plain {
  template <class D>
  HWY_INLINE hn::Vec<D> combine(D, hn::Vec<D> a, hn::Vec<D> b) const {
    if constexpr (!hwy::IsFloat<hn::TFromD<D>>()) return hn::Max(a, b);
    else return or_nan(a, b, hn::IfThenElse(hn::Eq(a, b), hn::And(a, b), hn::Max(a, b)));
  }
};

struct And : Plain {
  HWY_INLINE auto combine(auto /*d*/, auto a, auto b) const { return hn::And(a, b); }
};

struct Or : Plain {
  HWY_INLINE auto combine(auto /*d*/, auto a, auto b) const { return hn::Or(a, b); }
};

struct Xor : Plain {
  HWY_INLINE auto combine(auto /*d*/, auto a, auto b) const { return hn::Xor(a, b); }
};

// An element is true if a bit of `value_bits` is set (all but the sign of a float), and a true result is `one`. The accumulator holds the negation.
template <class T, class Combine>
struct Truth : Combine {
  T value_bits;
  T one;
  template <class D>
  HWY_INLINE hn::Vec<D> enter(D d, hn::Vec<D> v) const {
    return hn::VecFromMask(d, hn::Eq(hn::And(v, hn::Set(d, value_bits)), hn::Zero(d)));
  }
  template <class D>
  HWY_INLINE hn::Vec<D> leave(D d, hn::Vec<D> is_false) const {
    return hn::AndNot(is_false, hn::Set(d, one));
  }
};

// On negated operands an exclusive or is an equivalence: the result is false where both are false or both are true.
struct Equivalence : Plain {
  HWY_INLINE auto combine(auto /*d*/, auto a, auto b) const { return hn::Not(hn::Xor(a, b)); }
};

// ---- Applies an operation to a loaded vector or pair of vectors ----

template <class D, class Op, class V>
HWY_INLINE V enter(D d, const Op& op, V v) {
  return op.enter(d, v);
}
template <class D, class Op, class V>
HWY_INLINE V combine(D d, const Op& op, V a, V b) {
  return op.combine(d, a, b);
}
template <class D, class Op, class V>
HWY_INLINE V leave(D d, const Op& op, V v) {
  return op.leave(d, v);
}
#if HWY_TARGET != HWY_SCALAR
template <class D, class Op, class V>
HWY_INLINE Pair<V> enter(D d, const Op& op, Pair<V> v) {
  return {op.enter(d, v.even), op.enter(d, v.odd)};
}
template <class D, class Op, class V>
HWY_INLINE Pair<V> combine(D d, const Op& op, Pair<V> a, Pair<V> b) {
  return {op.combine(d, a.even, b.even), op.combine(d, a.odd, b.odd)};
}
template <class D, class Op, class V>
HWY_INLINE Pair<V> leave(D d, const Op& op, Pair<V> v) {
  return {op.leave(d, v.even), op.leave(d, v.odd)};
}
#endif

}  // namespace unisono::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
