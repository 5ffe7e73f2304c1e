#include "docstrings.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

namespace unisono::python {
namespace {

using Shared = std::pair<std::string_view, std::string_view>;

constexpr std::string_view op = R"(op : ReduceOp, str, PremulSum or callable, default "sum"
    How elements are combined: a ReduceOp or its name ("sum", "product", "min", "max", "avg",
    "band", "bor", "bxor", "land", "lor"), `premul_sum(factor)`, or a function of two NumPy
    arrays that returns one. Such a function is associative and commutative, and the same on
    all ranks.)";
constexpr std::string_view named_op = R"(op : ReduceOp or str, default "sum"
    How elements are combined: a ReduceOp or its name ("sum", "product", "min", "max", "avg",
    "band", "bor", "bxor", "land", "lor").)";
constexpr std::string_view group = R"(group : ProcessGroup, optional
    The ranks that call. None stands for the world.)";
constexpr std::string_view timeout = R"(timeout : float or timedelta, optional
    The seconds that the call may take. None stands for the group's own timeout.)";
constexpr std::string_view tag = R"(tag : int, default 0
    A number on which the ranks must agree.)";
constexpr std::string_view sent_tag = R"(tag : int, default 0
    The number of the message. Only a call with the same tag receives it.)";
constexpr std::string_view received_tag = R"(tag : int, default 0
    The number of the message. `any_tag` takes a message with any number.)";
constexpr std::string_view deterministic = R"(deterministic : bool, default False
    Whether elements are combined from rank 0 to the last, whatever the backend, the hosts
    and the length. The result then has the same bits in every job of as many ranks. It may
    cost time, and the ranks must agree on it.)";
constexpr std::string_view mismatch = R"(Mismatch
    If the ranks call different things: another operation, dtype, length, root or tag. All
    ranks raise it, nothing was moved, and the group stays usable.)";
constexpr std::string_view failures = R"(Timeout
    If a rank does not come in time. The group has ended then.
PeerFailed
    If a rank is gone or has given up. The group has ended then; `shrink_group` makes a new
    one of the survivors.
NotInitialized
    If the process was launched as one of several and has not called `initialize`.)";
constexpr std::string_view pickling = R"(InvalidArgument
    If another rank's object could not be sent. The rank that has it raises why it cannot be
    pickled, or that it is larger than `object_limits()`. The group stays usable.)";

constexpr std::array<Shared, 12> shared{{{"op", op},
                                         {"named_op", named_op},
                                         {"group", group},
                                         {"timeout", timeout},
                                         {"tag", tag},
                                         {"sent_tag", sent_tag},
                                         {"received_tag", received_tag},
                                         {"deterministic", deterministic},
                                         {"mismatch", mismatch},
                                         {"failures", failures},
                                         {"pickling", pickling},
                                         {"two ranks", "On each of two ranks:\n"}}};

std::string_view shared_text(std::string_view name) {
  for (const auto& [known, text] : shared) {
    if (known == name) return text;
  }
  throw std::logic_error("docstring: there is no text {" + std::string(name) + "}");
}

/// Examples print dictionaries, which have other characters between their braces.
bool is_name_of_shared(std::string_view line) {
  return line.starts_with('{') && line.find_first_not_of("{}_ abcdefghijklmnopqrstuvwxyz") == line.npos && line.ends_with('}');
}

/// Takes the first line off the text, without its end.
std::string_view next_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(line.size() < text.size() ? line.size() + 1 : text.size());
  return line;
}

/// Takes the first entry off a section: a line, and the indented ones behind it. Each ends with its end of line.
std::string next_entry(std::string_view& text) {
  std::string entry;
  do {
    entry.append(next_line(text)).append("\n");
  } while (text.starts_with(' '));
  return entry;
}

std::string_view name_of_entry(std::string_view entry) { return entry.substr(0, entry.find(" :")); }

/// Returns a section without its head, up to the next empty line.
std::string_view section_of(std::string_view text, const std::string& name) {
  const std::string head = "\n" + name + "\n" + std::string(name.size(), '-') + "\n";
  const std::size_t begin = text.find(head);
  if (begin == text.npos) return {};
  const std::string_view rest = text.substr(begin + head.size());
  return rest.substr(0, rest.find("\n\n"));
}

/// Returns the entry of this name; empty where there is none.
std::string entry_of(std::string_view section, std::string_view name) {
  while (!section.empty()) {
    std::string entry = next_entry(section);
    if (name_of_entry(entry) == name) return entry;
  }
  return {};
}

}  // namespace

std::string docstring(std::string_view text) {
  std::string whole;
  while (!text.empty()) {
    const std::string_view line = next_line(text);
    whole.append(is_name_of_shared(line) ? shared_text(line.substr(1, line.size() - 2)) : line).append("\n");
  }
  if (!whole.empty()) whole.pop_back();
  return whole;
}

std::string docstring_with_choice(std::string_view text) {
  std::string whole = docstring(text);
  const std::size_t returns = whole.find("\n\nReturns\n-------\n"), raises = whole.find("\n\nRaises\n------\n");
  const std::size_t end_of_parameters = std::min(returns, raises);
  if (end_of_parameters == whole.npos) throw std::logic_error("docstring: no section follows the parameters");
  return whole.insert(end_of_parameters, R"(
async_op : bool, default False
    Whether the call returns a Work at once, as its form with `_async` does.)");
}

std::string async_docstring(const std::string& name, std::string_view text, const AsyncText& own) {
  std::string whole = "Starts `" + name + R"(` and returns at once.

The memory of the buffers belongs to the library until the Work is done. The operations of a
group are carried out in the order of the calls, blocking ones included.

)";
  if (std::string_view parameters = section_of(text, "Parameters"); !parameters.empty()) {
    whole += "Parameters\n----------\n";
    while (!parameters.empty()) {
      const std::string entry = next_entry(parameters), other = entry_of(own.parameters, name_of_entry(entry));
      whole += other.empty() ? entry : other;
    }
    whole += "\n";
  }
  whole += R"(Returns
-------
Work
    Its `wait` raises the errors of the operation, and its `result` returns what the blocking
    call would have returned.

Raises
------
)";
  whole.append(section_of(text, "Raises")).append("\n\nSee Also\n--------\n").append(name);
  whole.append(" : The same call, which waits.\n\nExamples\n--------\n").append(own.examples);
  return docstring(whole);
}

}  // namespace unisono::python
