#pragma once

#include <CLI/CLI.hpp>

#include <span>
#include <string>
#include <string_view>
#include <vector>

// What mpirun, mpiexec, srun, torchrun and the like call otherwise. The table of them is here and nowhere else.
namespace unisono::tools {

/// Options of other launchers that have one meaning.
struct ForeignOption {
  enum class Fate {
    same,      ///< `ours` means the same
    per_host,  ///< `ours` means the same where no other hosts are named
    implied,   ///< jobs of ours are so without an option
    other      ///< no option of ours means the same; `instead` says what comes near
  };
  std::string_view names;  ///< with one or two dashes; those with several letters have two here, and may be typed with one
  int values = 0;          ///< how many words follow
  Fate fate = Fate::other;
  std::string_view ours = {};     ///< our option
  std::string_view words = {};    ///< the values of which `fate` is true, "cores=core" where we call one otherwise; empty: all
  std::string_view instead = {};  ///< is said of all other values, and by Fate::other of all
};

/// Returns the whole table.
std::span<const ForeignOption> foreign_options();

/// A word of a command line that is an option, in our spelling: two dashes in front of several letters, and no '_'.
struct OptionWord {
  std::string name = {};
  std::string value = {};  ///< what stands in the same word: behind '=', or behind one letter
  bool has_value = false;
  const ForeignOption* foreign = nullptr;  ///< null: an option of this command, or one that nobody knows
};
OptionWord read_option(const CLI::App& command, const std::string& word);

/// Returns how many words after this one belong to it. An unknown option has none.
std::size_t values_after(const CLI::App& command, const OptionWord& option);

/// Returns the word with our name in it, where an option of the same meaning has one; else the word as it is.
std::string with_our_name(const CLI::App& command, const std::string& word);

/// The options of a sub-command, in our words.
struct OurWords {
  std::vector<std::string> words = {};
  std::string objection = {};  ///< what is wrong with the first one that is not understood; empty: nothing
};
OurWords in_our_words(const CLI::App& command, const std::vector<std::string>& words);

}  // namespace unisono::tools
