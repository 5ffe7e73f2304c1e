#include "kernels/pack.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/copy.h"
#include "unisono/error.h"

namespace unisono::kernels {
namespace {

struct Places {
  std::byte* to;
  const std::byte* from;
};

Places moved(Places p, std::int64_t to, std::int64_t from) { return {p.to + to, p.from + from}; }

template <std::size_t Size>
void line(Places p, const Axis& axis) {
  for (std::int64_t i = 0; i < axis.extent; ++i) std::memcpy(p.to + i * axis.to, p.from + i * axis.from, Size);
}

// Elements on each side of a square that plane() moves at a time: its lines fit in the caches.
constexpr std::int64_t square_side = 64;

// Copies rows of single elements. Where one side runs down the columns, it works in small squares, whose lines stay in the cache until every row has
// used them.
template <std::size_t Size>
void plane(Places p, const Axis& rows, const Axis& columns) {
  constexpr auto size = static_cast<std::int64_t>(Size);
  if (columns.to == size && columns.from == size) {
    for (std::int64_t r = 0; r < rows.extent; ++r) {
      copy(p.to + r * rows.to, p.from + r * rows.from, static_cast<std::size_t>(columns.extent * size));
    }
    return;
  }
  const bool crosswise = std::abs(rows.to) < std::abs(columns.to) || std::abs(rows.from) < std::abs(columns.from);
  const std::int64_t side = crosswise ? square_side : columns.extent;
  for (std::int64_t r0 = 0; r0 < rows.extent; r0 += side) {
    for (std::int64_t c0 = 0; c0 < columns.extent; c0 += side) {
      const Axis part{std::min(side, columns.extent - c0), columns.to, columns.from};
      for (std::int64_t r = r0; r < std::min(r0 + side, rows.extent); ++r) {
        line<Size>(moved(p, r * rows.to + c0 * columns.to, r * rows.from + c0 * columns.from), part);
      }
    }
  }
}

void plane_of(std::size_t size, Places p, const Axis& rows, const Axis& columns) {
  switch (size) {
    case 1: return plane<1>(p, rows, columns);
    case 2: return plane<2>(p, rows, columns);
    case 4: return plane<4>(p, rows, columns);
    case 8: return plane<8>(p, rows, columns);
    default: return plane<16>(p, rows, columns);
  }
}

void move_all(Places origin, std::size_t size, std::vector<Axis> axes) {
  while (axes.size() < 2) axes.push_back({1, 0, 0});
  if (axes[0].extent == 1) axes[0] = {1, static_cast<std::int64_t>(size), static_cast<std::int64_t>(size)};  // a single element
  std::vector<std::int64_t> index(axes.size(), 0);
  for (;;) {
    plane_of(size, origin, axes[1], axes[0]);
    std::size_t d = 2;
    for (; d < axes.size(); ++d) {
      origin = moved(origin, axes[d].to, axes[d].from);
      if (++index[d] < axes[d].extent) break;
      origin = moved(origin, -axes[d].to * axes[d].extent, -axes[d].from * axes[d].extent);
      index[d] = 0;
    }
    if (d >= axes.size()) return;
  }
}

}  // namespace

std::vector<Axis> axes_of(const TensorView& tensor, std::int64_t Axis::*strided, std::int64_t Axis::*dense) {
  const auto shape = tensor.shape();
  const auto strides = tensor.strides();
  const auto size = static_cast<std::int64_t>(size_of(tensor.dtype()));
  std::vector<Axis> axes;  // innermost first
  std::int64_t run = size;
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (shape[d] == 1) continue;
    Axis axis{shape[d], 0, 0};
    axis.*strided = strides[d] * size;
    axis.*dense = run;
    run *= shape[d];
    if (!axes.empty() && axes.back().*strided * axes.back().extent == axis.*strided) {
      axes.back().extent *= axis.extent;
    } else {
      axes.push_back(axis);
    }
  }
  return axes;
}

void pack(void* contiguous, const TensorView& strided) {
  if (strided.numel() == 0) return;
  move_all({static_cast<std::byte*>(contiguous), static_cast<const std::byte*>(strided.data())}, size_of(strided.dtype()),
           axes_of(strided, &Axis::from, &Axis::to));
}

void unpack(const TensorView& strided, const void* contiguous) {
  if (strided.numel() == 0) return;
  for (std::size_t d = 0; d < strided.shape().size(); ++d) {
    if (strided.shape()[d] > 1 && strided.strides()[d] == 0) {
      throw InvalidArgument("a result cannot be written to a TensorView whose dimension " + std::to_string(d) + " has stride 0");
    }
  }
  move_all({static_cast<std::byte*>(strided.data()), static_cast<const std::byte*>(contiguous)}, size_of(strided.dtype()),
           axes_of(strided, &Axis::to, &Axis::from));
}

}  // namespace unisono::kernels
