// The manual pages, made from what the sub-commands know of themselves, so that they say what `unisono help` says, and from the table of variables.

#include "help/manual.h"

#include <fmt/format.h>

#include <cctype>
#include <fstream>
#include <vector>

#include "base/variables.h"
#include "base/version.h"
#include "common/commands.h"
#include "help/described.h"
#include "help/roff.h"
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

std::string version() { return base::to_string(base::library_version()); }

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

void write_options(ManualPage& page, const CLI::App& command) {
  page.section("OPTIONS");
  for (const CLI::Option* option : options_of(command)) page.item(heading_of(option), with_end(text_of(option)));
}

void write_details(ManualPage& page, const Details& details) {
  if (!details.exit_codes.empty()) page.section("EXIT STATUS");
  for (const ExitCode& code : details.exit_codes) page.item(code.code, code.meaning);
  if (!details.examples.empty()) page.section("EXAMPLES");
  for (const Example& example : details.examples) page.example(example.command, example.what);
}

/// The pages of all but `own`.
void write_see_also(ManualPage& page, const std::string& own) {
  std::vector<std::string> pages = {"unisono"};
  for (const SubCommand& command : sub_commands())
    if (has_page(command)) pages.push_back(page_name(command.name));
  std::string list;
  for (const std::string& name : pages)
    if (name != own) list += fmt::format("`{}`(1), ", name);
  page.section("SEE ALSO");
  page.paragraph(own == "unisono-environment" ? list.substr(0, list.size() - 2) : list + "`unisono-environment`(7)");
}

ManualPage page_of_all(const CLI::App& app, const std::string& date) {
  ManualPage page("unisono", 1, date, version());
  page.purpose(with_small_letter(app.get_description()));
  page.synopsis(app.get_footer());
  page.section("DESCRIPTION");
  for (const std::string_view paragraph : details_of(&app).paragraphs) page.paragraph(paragraph);
  page.section("COMMANDS");
  for (const SubCommand& command : sub_commands()) {
    const std::string more = has_page(command) ? fmt::format(": `{}`(1)", page_name(command.name)) : std::string();
    page.item(command.name, app.get_subcommand(std::string(command.name))->get_description() + more + ".");
  }
  write_options(page, app);
  write_details(page, details_of(&app));
  write_see_also(page, "unisono");
  return page;
}

ManualPage page_of(const CLI::App& command, const std::string& date) {
  ManualPage page(page_name(command.get_name()), 1, date, version());
  page.purpose(with_small_letter(command.get_description()));
  page.synopsis(command.get_footer());
  page.section("DESCRIPTION");
  for (const std::string_view paragraph : details_of(&command).paragraphs) page.paragraph(paragraph);
  write_options(page, command);
  write_details(page, details_of(&command));
  write_see_also(page, page_name(command.get_name()));
  return page;
}

ManualPage page_of_environment(const std::string& date) {
  ManualPage page("unisono-environment", 7, date, version());
  page.purpose("the environment variables that unisono reads and sets");
  page.section("DESCRIPTION");
  page.paragraph(
      "The library and the command read the environment once and never write it. An empty variable counts as unset. `unisono info` names "
      "those that are set, and mistyped ones. The document guide/environment.md, among those of unisono, has more on networks, launchers and "
      "precedence.");
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
  save(folder, "unisono", 1, page_of_all(app, date));
  write_pages_of_commands(app, folder, date);
  save(folder, "unisono-environment", 7, page_of_environment(date));
}

void write_pages_of_commands(const CLI::App& app, const std::filesystem::path& folder, const std::string& date) {
  for (const CLI::App* command : app.get_subcommands({}))
    if (!details_of(command).paragraphs.empty()) save(folder, page_name(command->get_name()), 1, page_of(*command, date));
}

}  // namespace unisono::tools
