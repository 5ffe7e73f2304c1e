#pragma once

#include <functional>

namespace torch_tests {

/// Runs the body on every rank, in worlds of `at_least` ranks up to 4 that are threads; started by `unisono run`, its processes are the ranks. Then a
/// collective: whatever the test was, the world still works.
void on_every_world(int at_least, const std::function<void()>& body);

}  // namespace torch_tests
