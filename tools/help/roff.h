#pragma once

#include <string>
#include <string_view>

namespace unisono::tools {

/// Writes one manual page in roff, with the macros of man(7), in ASCII. Texts are plain; what stands between backquotes in them is set in bold.
class ManualPage {
 public:
  /// `name` as in "unisono-run", `date` as in "2026-11-22".
  ManualPage(std::string_view name, int section, std::string_view date, std::string_view version);

  /// Begins the page: "unisono-run - start a program …".
  void purpose(std::string_view text);
  void section(std::string_view title);
  void paragraph(std::string_view text);
  /// How a command is called. Words in capitals are set in italics, and the rest of the words in bold.
  void synopsis(std::string_view usage);
  /// A term with its explanation. `term` is styled as a synopsis is.
  void item(std::string_view term, std::string_view text);
  /// Lines that are shown as they are.
  void example(std::string_view lines, std::string_view text);

  const std::string& roff() const { return roff_; }

 private:
  void line(std::string_view source);
  void sentences(std::string_view text);

  std::string name_;
  std::string roff_;
  bool begins_section_ = false;  ///< its title is the last line
};

}  // namespace unisono::tools
