// Numbers by which processes find out that they run the same code.
#include <elf.h>
#include <link.h>

#include <cstring>
#include <string_view>

#include "base/hash.h"
#include "unisono/detail/callable.h"

namespace unisono::detail {
namespace {

struct Search {
  std::uintptr_t address;
  std::uint64_t number;
};

/// Returns the build ID in a segment of notes; empty where there is none.
std::string_view build_id_in(std::string_view notes) {
  while (notes.size() >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) head;
    std::memcpy(&head, notes.data(), sizeof head);
    const auto padded = [](std::size_t n) { return (n + 3) / 4 * 4; };
    const std::size_t content = sizeof head + padded(head.n_namesz), end = content + padded(head.n_descsz);
    if (end > notes.size()) return {};
    if (head.n_type == NT_GNU_BUILD_ID && notes.substr(sizeof head, head.n_namesz) == std::string_view("GNU\0", 4))
      return notes.substr(content, head.n_descsz);
    notes.remove_prefix(end);
  }
  return {};
}

int look_at(dl_phdr_info* file, std::size_t, void* argument) {
  Search& search = *static_cast<Search*>(argument);
  std::string_view build_id, code;
  for (int i = 0; i < file->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = file->dlpi_phdr[i];
    const std::string_view content(reinterpret_cast<const char*>(file->dlpi_addr + segment.p_vaddr), segment.p_memsz);
    if (segment.p_type == PT_NOTE && build_id.empty()) build_id = build_id_in(content);
    const std::uintptr_t begin = file->dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && begin <= search.address && search.address < begin + segment.p_memsz) code = content;
  }
  if (code.empty()) return 0;
  base::StableHash hash;
  hash.add(build_id.empty() ? code : build_id);  // a file without a build ID is known by its instructions
  hash.add(static_cast<std::uint64_t>(search.address - file->dlpi_addr));
  search.number = hash.value();
  return 1;
}

}  // namespace

std::uint64_t number_of_code(const void* address) noexcept {
  Search search{.address = reinterpret_cast<std::uintptr_t>(address), .number = reinterpret_cast<std::uintptr_t>(address)};
  thread_local Search last{};
  if (last.address == search.address) return last.number;
  dl_iterate_phdr(look_at, &search);
  last = search;
  return search.number;
}

std::uint64_t number_of_bytes(const void* bytes, std::size_t n) noexcept { return base::stable_hash({static_cast<const char*>(bytes), n}) | 1; }

}  // namespace unisono::detail
