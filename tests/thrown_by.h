#pragma once

#include <gtest/gtest.h>

#include <stdexcept>

namespace unisono {

/// The E that f throws. Anything else is a failure of the test, which ends there.
template <class E, class F>
E thrown_by(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error;
  } catch (const std::exception& other) {
    ADD_FAILURE() << "threw something else: " << other.what();
    throw std::runtime_error("the test cannot go on");
  }
  ADD_FAILURE() << "threw nothing";
  throw std::runtime_error("the test cannot go on");
}

}  // namespace unisono
