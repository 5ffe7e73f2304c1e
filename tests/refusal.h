#pragma once

#include <string>

namespace unisono {

/// The text of the E that f throws. An exception of another type goes on to the test.
template <class E, class F>
std::string refusal(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace unisono
