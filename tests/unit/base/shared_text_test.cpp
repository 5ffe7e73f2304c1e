// Texts whose copies share their memory.
#include "base/shared_text.h"

#include <gtest/gtest.h>

#include <string>

namespace unisono::base {
namespace {

TEST(SharedText, CopiesShareTheirMemoryAndAreEqualByTheirTexts) {
  const SharedText text("host"), copy = text, other(std::string("host"));
  EXPECT_EQ(&copy.get(), &text.get());
  EXPECT_EQ(text, other);
  EXPECT_LT(SharedText(), text);
  EXPECT_EQ(SharedText(), SharedText(""));
}

}  // namespace
}  // namespace unisono::base
