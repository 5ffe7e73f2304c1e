#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

namespace unisono::base {

/// A text that does not change and whose copies share its memory, for lists in which many texts are equal.
class SharedText {
 public:
  SharedText() = default;
  SharedText(std::string text) : text_(std::make_shared<const std::string>(std::move(text))) {}  // NOLINT(google-explicit-constructor)
  SharedText(std::string_view text) : SharedText(std::string(text)) {}                           // NOLINT(google-explicit-constructor)
  SharedText(const char* text) : SharedText(std::string(text)) {}                                // NOLINT(google-explicit-constructor)

  /// Returns the text, valid as long as a copy of this.
  const std::string& get() const {
    static const std::string& empty = *new std::string;  // never destroyed: static objects may end after it
    return text_ ? *text_ : empty;
  }
  friend bool operator==(const SharedText& a, const SharedText& b) { return a.text_ == b.text_ || a.get() == b.get(); }
  friend auto operator<=>(const SharedText& a, const SharedText& b) { return a.get() <=> b.get(); }
  friend std::ostream& operator<<(std::ostream& out, const SharedText& text) { return out << text.get(); }

 private:
  std::shared_ptr<const std::string> text_;
};

}  // namespace unisono::base
