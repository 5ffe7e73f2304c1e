// The line of the program that calls. A call of a few bytes takes less than a microsecond, so each line is looked up once: its code and the
// instruction there say which it is.

#include "places.h"

#include <nanobind/stl/string.h>

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "imports.h"

namespace unisono::python {
namespace {

using namespace nb::literals;

/// The owner of a function's code.
enum class Owner { ours, installed, program };

struct Folder {
  std::string path;
  Owner owner;
};
/// A line that has called before.
struct Line {
  nb::object code = {};  // kept, so that no other code lies where it lies
  int instruction = -1;
  Owner owner = Owner::ours;
  std::source_location place = {};
};

// Not of the stable ABI: Python has the first since 3.11, the second since 3.9.
using Instruction = int(PyFrameObject*);
using Outer = PyFrameObject*(PyFrameObject*);
template <class F>
F* function_of_python(const char* name) {
  return reinterpret_cast<F*>(::dlsym(RTLD_DEFAULT, name));
}

/// All that is known of lines. It is used with the interpreter lock.
struct Known {
  std::array<Line, 1024> lines = {};
  std::vector<Folder> folders = {};  // whose code is not the program's
  Instruction* instruction = function_of_python<Instruction>("PyFrame_GetLasti");
  Outer* outer = function_of_python<Outer>("PyFrame_GetBack");
};
Known* known = nullptr;  // made with the module, and never destroyed

Owner owner_of(std::string_view file) {
  if (file.starts_with("<frozen")) return Owner::ours;
  Owner owner = Owner::program;
  for (const Folder& folder : known->folders) {
    if (file.starts_with(folder.path)) owner = std::min(owner, folder.owner);
  }
  return owner;
}

void look_up(Line& line, nb::handle code, int instruction, int number) {
  const nb::error_scope kept;
  const auto file = nb::cast<std::string>(nb::str(code.attr("co_filename")));
  const nb::object former = std::exchange(line.code, nb::borrow(code));
  line.instruction = instruction;
  line.owner = owner_of(file);
  line.place = line.owner == Owner::ours ? std::source_location() : detail::place_in(file, number > 0 ? static_cast<std::uint32_t>(number) : 0);
}

/// Returns the line that the frame is in. It is known by its instruction, or else by its number.
const Line& line_of(PyFrameObject* frame) {
  PyCodeObject* const own = PyFrame_GetCode(frame);
  Py_DECREF(own);  // the frame has it as well
  auto* const code = reinterpret_cast<PyObject*>(own);
  const int instruction = known->instruction != nullptr ? known->instruction(frame) : PyFrame_GetLineNumber(frame);
  constexpr unsigned alignment_bits = 4;
  const auto spread = (reinterpret_cast<std::uintptr_t>(code) >> alignment_bits) + static_cast<std::uintptr_t>(instruction);
  Line& line = known->lines[spread % known->lines.size()];
  if (line.code.ptr() != code || line.instruction != instruction) [[unlikely]]
    look_up(line, code, instruction, PyFrame_GetLineNumber(frame));
  return line;
}

/// Asks from any thread. One that Python does not know runs nothing of the program.
std::source_location find_place() noexcept {
  if (PyGILState_GetThisThreadState() == nullptr) return {};
  const nb::gil_scoped_acquire locked;
  return locked.is_valid() ? place_of_program() : std::source_location();
}

void leave_out(std::string folder, bool is_ours) {
  known->folders.push_back({std::move(folder), is_ours ? Owner::ours : Owner::installed});
  known->lines = {};
}

}  // namespace

std::source_location place_of_program() noexcept {
  constexpr int most_frames = 64;  // programs that are installed, too, have no other line
  std::source_location nearest;
  try {
    PyFrameObject* frame = PyEval_GetFrame();
    nb::object held;  // the caller's own frame needs no reference
    for (int i = 0; i < most_frames && frame != nullptr; ++i) {
      const Line& line = line_of(frame);
      if (line.owner == Owner::program) [[likely]]
        return line.place;
      if (nearest.line() == 0) nearest = line.place;
      frame = known->outer != nullptr ? known->outer(frame) : nullptr;
      held = nb::steal(reinterpret_cast<PyObject*>(frame));
    }
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): without a place the call goes on
  }
  return nearest;
}

nb::object as_place(const std::source_location& where) {
  return where.line() == 0 ? nb::none() : imported("unisono._errors").attr("Place")(where.file_name(), where.line());
}

void bind_places(nb::module_& m) {
  known = new Known;
  m.def(
      "_line_of_program",
      [] {
        const std::source_location where = place_of_program();
        std::string text;
        if (where.line() != 0) text.append(where.file_name()).append(":").append(std::to_string(where.line()));
        return text;
      },
      "The line of the program that calls: \"/home/me/train.py:12\".");
  m.def("_leave_out", &leave_out, "folder"_a, "is_ours"_a);
  detail::set_place_finder(&find_place);
}

}  // namespace unisono::python
