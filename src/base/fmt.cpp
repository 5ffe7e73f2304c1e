// fmt's functions, compiled once: everywhere else its headers only declare them. The symbols stay inside each library and program of ours, so
// nobody needs fmt to run them, and a program that brings another fmt (LibTorch does) does not meet this one.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {

// Templates that fmt 9 declares in its headers and defines in format-inl.h. These are the instances that formatting of char needs.
template FMT_API auto thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template FMT_API auto decimal_point_impl<char>(locale_ref) -> char;
template FMT_API auto dragonbox::to_decimal<float>(float) noexcept -> dragonbox::decimal_fp<float>;
template FMT_API auto dragonbox::to_decimal<double>(double) noexcept -> dragonbox::decimal_fp<double>;

}  // namespace detail
FMT_END_NAMESPACE
