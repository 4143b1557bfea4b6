// Whole files: read at once, written so that nobody ever sees half of one.
#pragma once

#include <cstddef>
#include <string>

namespace braid {

/// The path "-" is standard input. Throws Error E0100, also for a folder.
std::string read_file(const std::string& path);

/// Writes under another name in the same folder and renames. A device or pipe is written in place:
/// renaming would put a file where it stands. Throws Error E0701; then nothing is left behind.
void write_file(const std::string& path, const void* data, size_t bytes);

}  // namespace braid
