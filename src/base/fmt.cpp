// Defines fmt's functions, compiled once: elsewhere its headers only declare them. The symbols stay inside each library and program of unisono, so
// they run without fmt installed and beside another version of fmt (LibTorch brings one).
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {

// fmt 9 declares these templates in its headers and defines them in format-inl.h. These instances are needed to format char.
template FMT_API auto thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template FMT_API auto decimal_point_impl<char>(locale_ref) -> char;
template FMT_API auto dragonbox::to_decimal<float>(float) noexcept -> dragonbox::decimal_fp<float>;
template FMT_API auto dragonbox::to_decimal<double>(double) noexcept -> dragonbox::decimal_fp<double>;

}  // namespace detail
FMT_END_NAMESPACE
