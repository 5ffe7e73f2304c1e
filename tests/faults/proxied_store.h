#pragma once

#include <memory>

#include "unisono/store.h"

namespace unisono::testing {

/// The store of a test: TEST_STORE_FILE names its file, or it is served at TEST_STORE_PORT of the loopback; null where neither is set. Where
/// TEST_PROXY=1, a rank that tells the others in it where it listens tells the test instead, whose FrameProxy puts an address of its own in that
/// place.
std::shared_ptr<Store> store_of_test();

/// The key under which rank `rank` tells the test the key and the address, a line each.
std::string key_of_listener(int rank);

}  // namespace unisono::testing
