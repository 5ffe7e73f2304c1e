#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace unisono::base {

/// A list of texts of which many are equal, such as the hosts of a job's ranks. Each different text is kept once, so a place in the list takes four
/// bytes. The list does not change, and copies share its memory.
class RepeatedTexts {
 public:
  RepeatedTexts() = default;
  RepeatedTexts(std::initializer_list<std::string_view> texts) : RepeatedTexts(texts.size(), [&](std::size_t i) { return texts.begin()[i]; }) {}
  explicit RepeatedTexts(const std::vector<std::string>& texts) : RepeatedTexts(texts.size(), [&](std::size_t i) { return texts[i]; }) {}
  /// Makes a list of so many texts. `text_of` returns that of a place, as a string or a view of one.
  template <std::invocable<std::size_t> TextOf>
  RepeatedTexts(std::size_t size, TextOf&& text_of) {
    auto content = std::make_shared<Content>();
    content->numbers.reserve(size);
    std::unordered_map<std::string, std::uint32_t> known;
    for (std::size_t i = 0; i < size; ++i) {
      const auto [found, is_new] = known.try_emplace(std::string(text_of(i)), static_cast<std::uint32_t>(content->texts.size()));
      if (is_new) content->texts.push_back(found->first);
      content->numbers.push_back(found->second);
    }
    content_ = std::move(content);
  }

  std::size_t size() const { return content_ ? content_->numbers.size() : 0; }
  bool empty() const { return size() == 0; }
  /// Returns the text of a place, valid as long as a copy of the list.
  const std::string& operator[](std::size_t i) const { return content_->texts[content_->numbers[i]]; }

 private:
  struct Content {
    std::vector<std::string> texts;  ///< the different ones
    std::vector<std::uint32_t> numbers;
  };
  std::shared_ptr<const Content> content_;
};

}  // namespace unisono::base
