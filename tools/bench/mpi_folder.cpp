#include "bench/mpi_folder.h"

#include <elf.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "unisono/error.h"

namespace unisono::tools {
namespace {

namespace fs = std::filesystem;

// The names by which programs are linked to an MPI.
constexpr std::array<std::string_view, 3> own_names = {"libmpi.so.40", "libmpi.so.12", "libmpich.so.12"};
constexpr std::string_view standard_name = "libmpi_abi.so.1";

struct Library {
  fs::path file;    ///< without symbolic links
  fs::path prefix;  ///< which it belongs to
  bool is_standard = false;
};

/// Returns the folders in which a prefix may begin. A wheel has one within.
std::vector<fs::path> prefixes_in(const fs::path& folder) {
  std::vector<fs::path> prefixes = {folder};
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".data" && fs::is_directory(entry.path() / "data")) prefixes.push_back(entry.path() / "data");
  return prefixes;
}

std::vector<fs::path> library_folders_in(const fs::path& prefix) {
  std::vector<fs::path> folders = {prefix / "lib", prefix / "lib64"};
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(prefix / "lib", ignored))
    if (entry.path().filename().string().ends_with("-linux-gnu")) folders.push_back(entry.path());  // on Debian
  return folders;
}

std::vector<Library> libraries_in(const fs::path& folder) {
  std::vector<Library> found;
  const auto add = [&](const fs::path& path, const fs::path& prefix, bool is_standard) {
    std::error_code absent;
    fs::path file = fs::canonical(path, absent);
    if (!absent && std::ranges::find(found, file, &Library::file) == found.end())
      found.push_back({.file = std::move(file), .prefix = prefix, .is_standard = is_standard});
  };
  for (const fs::path& prefix : prefixes_in(folder))
    for (const fs::path& libraries : library_folders_in(prefix)) {
      for (const std::string_view name : own_names) add(libraries / name, prefix, false);
      add(libraries / standard_name, prefix, true);
    }
  return found;
}

/// Returns what processors a program or a library is for; empty: the file is neither.
std::string processors_of(const fs::path& file) {
  constexpr std::size_t of_machine = offsetof(Elf32_Ehdr, e_machine);  // the same in both classes
  std::array<unsigned char, of_machine + 2> head = {};
  std::ifstream in(file, std::ios::binary);
  in.read(reinterpret_cast<char*>(head.data()), head.size());
  if (!in || !std::equal(head.begin(), head.begin() + SELFMAG, ELFMAG)) return {};
  const bool is_little = head[EI_DATA] == ELFDATA2LSB;
  const unsigned machine = head[of_machine + (is_little ? 0 : 1)] + 256U * head[of_machine + (is_little ? 1 : 0)];
  constexpr std::array<std::pair<unsigned, std::string_view>, 6> names = {
      {{EM_X86_64, "x86-64"}, {EM_386, "x86"}, {EM_AARCH64, "AArch64"}, {EM_ARM, "ARM"}, {EM_PPC64, "POWER"}, {EM_RISCV, "RISC-V"}}};
  const auto* const known = std::ranges::find(names, machine, [](const auto& each) { return each.first; });
  const std::string name = known == names.end() ? fmt::format("processors with the number {}", machine) : std::string(known->second);
  return fmt::format("{} ({} bits, {} endian)", name, head[EI_CLASS] == ELFCLASS64 ? 64 : 32, is_little ? "little" : "big");
}

void check_processors(const std::string& folder, const fs::path& library) {
  const std::string its = processors_of(library), ours = processors_of("/proc/self/exe");
  if (its.empty()) throw InvalidArgument(fmt::format("the MPI in {} is not a library: {}", folder, library.string()));
  if (its != ours) throw InvalidArgument(fmt::format("the MPI in {} is for {}, and unisono is for {}: {}", folder, its, ours, library.string()));
}

}  // namespace

MpiFolder mpi_in(const std::string& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) throw InvalidArgument(fmt::format("{} is not a folder", folder));
  std::vector<Library> found = libraries_in(folder);
  // Both files of one folder are one MPI.
  std::ranges::stable_partition(found, [](const Library& library) { return !library.is_standard; });
  const auto beside_first = [&](const Library& library) {
    return library.is_standard && !found.front().is_standard && library.file.parent_path() == found.front().file.parent_path();
  };
  if (found.empty())
    throw InvalidArgument(
        "there is no MPI in " + folder,
        {.hint = fmt::format("its lib/ must have libmpi.so.40 (Open MPI), libmpi.so.12 (MPICH and similar ones) or {}", standard_name)});
  for (std::size_t i = 1; i < found.size(); ++i)
    if (!beside_first(found[i]))
      throw InvalidArgument(fmt::format("there are two MPIs in {}: {} and {}", folder, found.front().file.string(), found[i].file.string()),
                            {.hint = "name a folder that has one of them"});
  MpiFolder mpi;
  for (const Library& library : found) {
    check_processors(folder, library.file);
    mpi.libraries.push_back(library.file.string());
  }
  for (const char* const name : {"mpiexec", "mpirun"}) {
    const fs::path launcher = found.front().prefix / "bin" / name;
    if (mpi.launcher.empty() && ::access(launcher.c_str(), X_OK) == 0) mpi.launcher = fs::absolute(launcher).string();
  }
  if (mpi.launcher.empty())
    throw InvalidArgument(
        fmt::format("the MPI in {} has no launcher: there is no {} that can be run", folder, (found.front().prefix / "bin/mpiexec").string()));
  return mpi;
}

}  // namespace unisono::tools
