#pragma once

#include <cstddef>
#include <memory>

#include "base/file_descriptor.h"

// Where the memory of a record comes from.

namespace unisono::recorder {

/// Maps a file. The descriptor stays open as long as the memory is mapped: by it others find the record (find_records). Returns null where it cannot
/// be mapped.
std::shared_ptr<void> mapped(base::FileDescriptor descriptor, std::size_t bytes);
/// Maps the record that a launcher keeps for this rank. Returns null where there is none, or where another process that lives has taken it: what a
/// shell starts beside a rank inherits the rank's descriptors.
std::shared_ptr<void> inherited_memory(std::size_t bytes);
/// Returns the file for this rank's trace: the one that a launcher keeps for it, unless another process has used it, or a new one. Returns an empty
/// descriptor where no trace is asked for, or none can be written, which is said.
base::FileDescriptor trace_file();
/// Returns memory of this process alone.
std::shared_ptr<void> own_memory(std::size_t bytes);

}  // namespace unisono::recorder
