// Lists of texts of which many are equal.
#include "base/repeated_texts.h"

#include <gtest/gtest.h>

#include <string>

namespace unisono::base {
namespace {

TEST(RepeatedTexts, APlaceHasTheTextThatItWasGiven) {
  const RepeatedTexts texts(1000, [](std::size_t i) { return "host" + std::to_string(i / 64); });
  ASSERT_EQ(texts.size(), 1000U);
  EXPECT_EQ(texts[0], "host0");
  EXPECT_EQ(texts[999], "host15");
  EXPECT_TRUE(RepeatedTexts().empty());
}

TEST(RepeatedTexts, EqualTextsAndCopiesOfAListShareMemory) {
  const RepeatedTexts texts{"a", "b", "a"};
  const RepeatedTexts copy = texts;
  EXPECT_EQ(&texts[0], &texts[2]);
  EXPECT_NE(&texts[0], &texts[1]);
  EXPECT_EQ(&copy[1], &texts[1]);
}

}  // namespace
}  // namespace unisono::base
