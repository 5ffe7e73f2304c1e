// The manual pages, made from what the sub-commands know of themselves, so that they say what `unisono help` says, and from the table of variables.

#include "help/usage.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <fstream>
#include <vector>

#include "base/variables.h"
#include "base/version.h"
#include "common/commands.h"
#include "common/text.h"
#include "unisono/error.h"

namespace unisono::tools {
namespace {

std::string with_small_letter(std::string text) {
  if (!text.empty()) text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return text;
}

/// Makes a sentence of a line of the table.
std::string sentence(std::string_view about) {
  std::string text = fmt::format("{}.", about);
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

std::string with_end(const std::string& text) { return text.ends_with("…") ? text : text + "."; }

/// The width of the source, which nobody sees but who edits it.
constexpr std::size_t source_columns = 78;

/// Reads a letter of UTF-8 and moves behind it.
std::uint32_t take_letter(std::string_view text, std::size_t& at) {
  const auto first = static_cast<unsigned char>(text[at++]);
  if (first < 0x80) return first;
  std::uint32_t letter = first >= 0xF0 ? first & 0x07U : first >= 0xE0 ? first & 0x0FU : first & 0x1FU;
  while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80)
    letter = letter << 6 | (static_cast<unsigned char>(text[at++]) & 0x3FU);
  return letter;
}

/// Writes a letter so that roff shows it as it is: its own signs are escaped, and what is not ASCII is named by its number.
std::string shown(std::uint32_t letter) {
  switch (letter) {
    case '\\': return "\\e";
    case '\'': return "\\(aq";
    case '`': return "\\(ga";
    case '^': return "\\(ha";
    case '~': return "\\(ti";
    case '"': return "\\(dq";
    default: return letter < 0x80 ? std::string(1, static_cast<char>(letter)) : fmt::format("\\[u{:04X}]", letter);
  }
}

/// A text to be typed: every '-' is one that can be copied.
std::string typed(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::uint32_t letter = take_letter(text, at);
    result += letter == '-' ? "\\-" : shown(letter);
  }
  return result;
}

/// Prose with `words to be typed`, and with options, which are to be typed without backquotes, too.
std::string prose(std::string_view text) {
  std::string result;
  bool is_typed = false, in_option = false;
  for (std::size_t at = 0; at < text.size();) {
    const char before = at == 0 ? ' ' : text[at - 1];
    const std::uint32_t letter = take_letter(text, at);
    if (letter == '`') {
      is_typed = !is_typed;
      result += is_typed ? "\\fB" : "\\fR";
      continue;
    }
    if (letter == ' ') in_option = false;
    else if (letter == '-' && (before == ' ' || before == '(') && at < text.size() && text[at] != ' ') in_option = true;
    result += letter == '-' && (is_typed || in_option) ? "\\-" : shown(letter);
  }
  return result;
}

/// Sets words of capitals in italics and all that has a small letter in bold; brackets and dots stay as they are.
std::string styled(std::string_view usage) {
  const auto is_of_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || std::string_view("-_<>()/~.").find(c) != std::string_view::npos;
  };
  std::string result;
  for (std::size_t at = 0; at < usage.size();) {
    const auto* const end = std::find_if_not(usage.begin() + at, usage.end(), is_of_word);
    const std::string_view word = usage.substr(at, static_cast<std::size_t>(end - usage.begin()) - at);
    if (word.empty()) {
      result += shown(take_letter(usage, at));
      continue;
    }
    const bool is_value = std::ranges::none_of(word, [](char c) { return std::islower(static_cast<unsigned char>(c)) || c == '-'; });
    const bool is_name = word.find('_') != std::string_view::npos;  // of a variable
    result += fmt::format("\\f{}{}\\fR", is_value && !is_name ? 'I' : 'B', typed(word));
    at += word.size();
  }
  return result;
}

/// Writes one manual page in roff, with the macros of man(7), in ASCII. Texts are plain; what stands between backquotes in them is set in bold.
class ManualPage {
 public:
  /// Begins the page: "unisono-run - start a program …".
  ManualPage(std::string_view name, int section, std::string_view date, std::string_view purpose) {
    std::string title(name);
    std::ranges::transform(title, title.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    line(fmt::format(".TH {} {} {} \"unisono {}\" unisono", title, section, date, base::to_string(base::library_version())));
    line(".nh\n.ad l");  // what is to be typed must not be broken by a hyphen
    this->section("NAME");
    line(fmt::format("{} \\- {}", typed(name), prose(purpose)));
  }

  void section(std::string_view title) {
    line(fmt::format(".SH {}", title));
    begins_section_ = true;
  }
  void subsection(std::string_view title) { line(fmt::format(".SS {}", title)); }
  void paragraph(std::string_view text) {
    if (!begins_section_) line(".PP");
    sentences(text);
  }
  /// How a command is called. Words in capitals are set in italics, and the rest of the words in bold.
  void synopsis(std::string_view usage) {
    section("SYNOPSIS");
    line(styled(usage));
  }
  /// A term with its explanation. `term` is styled as a synopsis is.
  void item(std::string_view term, std::string_view text) { explained(styled(term), text); }
  /// Lines that are shown as they are.
  void example(std::string_view lines, std::string_view text) { explained(fmt::format("\\fB{}\\fR", typed(lines)), text); }

  const std::string& roff() const { return roff_; }

 private:
  void line(std::string_view source) {
    roff_.append(source).append("\n");
    begins_section_ = false;
  }
  void explained(std::string_view styled_term, std::string_view text) {
    line(".TP");
    line(styled_term);
    sentences(text);
  }
  void sentences(std::string_view text) {
    std::string_view rest = text;
    while (!rest.empty()) {
      // roff wants each sentence on a line of its own, so that it knows where one ends.
      std::size_t end = rest.find(". ");
      while (end != std::string_view::npos && end + 2 < rest.size() && !std::isupper(static_cast<unsigned char>(rest[end + 2])))
        end = rest.find(". ", end + 1);
      const std::string_view sentence = rest.substr(0, end == std::string_view::npos ? end : end + 1);
      rest.remove_prefix(std::min(rest.size(), sentence.size() + 1));
      std::string source = wrap(prose(sentence), 0, 0, source_columns);
      for (std::size_t at = 0; at != std::string::npos; at = source.find('\n', at)) {
        at += at > 0 || source.starts_with('\n') ? 1 : 0;
        if (at < source.size() && source[at] == '.') source.insert(at, "\\&");
      }
      line(source);
    }
  }

  std::string roff_;
  bool begins_section_ = false;  ///< its title is the last line
};

void save(const std::filesystem::path& folder, const std::string& name, int section, const ManualPage& page) {
  const std::filesystem::path path = folder / fmt::format("man{}", section) / fmt::format("{}.{}", name, section);
  std::filesystem::create_directories(path.parent_path());
  std::ofstream file(path);
  file << page.roff();
  file.close();
  if (!file) throw Error("cannot write " + path.string());
}

std::string page_name(std::string_view command) { return fmt::format("unisono-{}", command); }

/// Tells whether the sub-command has a page, of this program or of its own. The others are said in one line.
bool has_page(const SubCommand& command) {
  return command.kind == SubCommand::Kind::built_in || (command.kind == SubCommand::Kind::program && !program_of(command).path.empty());
}

void write_commands(ManualPage& page, const CLI::App& app) {
  page.section("COMMANDS");
  for (const SubCommand& command : sub_commands()) {
    const std::string more = has_page(command) ? fmt::format(": `{}`(1)", page_name(command.name)) : std::string();
    page.item(command.name, app.get_subcommand(std::string(command.name))->get_description() + more + ".");
  }
}

/// The pages of all but `own`.
void write_see_also(ManualPage& page, const std::string& own) {
  std::string list = own == "unisono" ? "" : "`unisono`(1), ";
  for (const SubCommand& command : sub_commands())
    if (const std::string name = page_name(command.name); has_page(command) && name != own) list += fmt::format("`{}`(1), ", name);
  page.section("SEE ALSO");
  page.paragraph(own == "unisono-environment" ? list.substr(0, list.size() - 2) : list + "`unisono-environment`(7)");
}

/// One group has no title of its own.
void write_options(ManualPage& page, const CLI::App& command) {
  const auto write = [&](const CLI::Option* option) { page.item(heading_of(option), with_end(text_of(option))); };
  std::ranges::for_each(positionals_of(command), write);
  const std::vector<OptionGroup> groups = groups_of(command);
  for (const OptionGroup& group : groups) {
    if (groups.size() > 1) page.subsection(group.name);
    std::ranges::for_each(group.options, write);
  }
}

/// The page of a sub-command, or of the whole command.
ManualPage page_of(const CLI::App& command, const std::string& date) {
  const bool is_whole = command.get_parent() == nullptr;
  const std::string name = is_whole ? "unisono" : page_name(command.get_name());
  const Details& details = details_of(&command);
  ManualPage page(name, 1, date, with_small_letter(command.get_description()));
  page.synopsis(command.get_footer());
  page.section("DESCRIPTION");
  for (const std::string_view paragraph : details.paragraphs) page.paragraph(paragraph);
  if (is_whole) write_commands(page, command);
  page.section("OPTIONS");
  write_options(page, command);
  if (!details.exit_codes.empty()) page.section("EXIT STATUS");
  for (const ExitCode& code : details.exit_codes) page.item(code.code, code.meaning);
  if (!details.examples.empty()) page.section("EXAMPLES");
  for (const Example& example : details.examples) page.example(example.command, example.what);
  write_see_also(page, name);
  return page;
}

ManualPage page_of_environment(const std::string& date) {
  ManualPage page("unisono-environment", 7, date, "the environment variables that unisono reads and sets");
  page.section("DESCRIPTION");
  page.paragraph(
      "The library and the command read the environment once and never write it. An empty variable counts as unset. `unisono info` names those that "
      "are set, and mistyped ones. The document guide/environment.md of unisono has more on networks, launchers and precedence.");
  page.section("VARIABLES THAT ARE READ");
  for (const base::Variable& variable : base::variables())
    if (!variable.about.empty()) page.item(variable.name, sentence(variable.about));
  page.section("VARIABLES THAT UNISONO RUN SETS FOR EACH RANK");
  for (const base::RankVariables& row : base::variables_of_ranks()) {
    std::string names;
    for (const std::string_view name : row.names)
      if (!name.empty()) names.append(names.empty() ? "" : ", ").append(name);
    page.item(names, sentence(row.about));
  }
  write_see_also(page, "unisono-environment");
  return page;
}

}  // namespace

void write_manual(const CLI::App& app, const std::filesystem::path& folder, const std::string& date) {
  const auto commands = app.get_subcommands({});
  for (const CLI::App* command : commands)
    if (!details_of(command).paragraphs.empty()) save(folder, page_name(command->get_name()), 1, page_of(*command, date));
  if (commands.size() == 1) return;
  save(folder, "unisono", 1, page_of(app, date));
  save(folder, "unisono-environment", 7, page_of_environment(date));
}

}  // namespace unisono::tools
